// The table of functions that the torch adapter calls; see xla_go_dispatch.h.
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "_cgo_export.h"

int64_t xla_go_compiles;
int32_t xla_go_records_stacks;

static _Thread_local int32_t thread_stack;

static void set_stack(int32_t stack) { thread_stack = stack; }

int32_t xla_go_thread_stack(void) { return thread_stack; }

static const xla_go_table table = {
    .struct_size = sizeof(xla_go_table),
    .version = XLA_GO_DISPATCH_VERSION,
    .op = xlaGoOp,
    .drop = (void (*)(xla_go_storage* const*, int32_t))xlaGoDrop,
    .upload = (int32_t (*)(const xla_go_tensor*, const void*, const int64_t*, xla_go_error*))xlaGoUpload,
    .copy = (int32_t (*)(const xla_go_tensor*, const xla_go_tensor*, xla_go_error*))xlaGoCopy,
    .read_begin = (int32_t (*)(const xla_go_tensor*, int64_t*, xla_go_error*))xlaGoReadBegin,
    .read_wait = xlaGoReadWait,
    .read_finish = xlaGoReadFinish,
    .read_cancel = xlaGoReadCancel,
    .sync = (int32_t (*)(int32_t, const char*, int64_t*, xla_go_error*))xlaGoSync,
    .resize_storage = xlaGoResizeStorage,
    .count = (void (*)(const char*, int64_t))xlaGoCount,
    .buffer_pointer = xlaGoBufferPointer,
    .device_count = xlaGoDeviceCount,
    .rows_digest = xlaGoRowsDigest,
    .compiles = &xla_go_compiles,
    .records_stacks = &xla_go_records_stacks,
    .set_stack = set_stack,
    .record_begin = (int32_t (*)(int32_t, xla_go_storage* const*, int32_t, int32_t, const xla_go_generator*, xla_go_error*))xlaGoRecordBegin,
    .record_end = (int32_t (*)(xla_go_storage* const*, int32_t, int64_t*, xla_go_error*))xlaGoRecordEnd,
    .record_cancel = xlaGoRecordCancel,
    .replay = (int32_t (*)(int64_t, xla_go_storage* const*, int32_t, xla_go_storage* const*, int32_t, xla_go_generator*, int32_t*,
                           xla_go_error*))xlaGoReplay,
    .same_recording = xlaGoSameRecording,
    .forget = xlaGoForget,
};

const xla_go_table* xla_go_get_table(void) { return &table; }

// Copies the elements of a strided view, row-major, from a storage to dense memory. Rank and
// sizes are those of the view, strides and offset in elements.
void xla_go_copy_strided(char* destination, const char* source, int64_t item_size, int32_t rank,
                         const int64_t* sizes, const int64_t* strides, int64_t offset) {
  // Dimensions that lie dense at the end are copied in one piece.
  int64_t block = item_size;
  while (rank > 0 && (strides[rank - 1] * item_size == block || sizes[rank - 1] == 1)) {
    block *= sizes[--rank];
  }
  source += offset * item_size;
  if (rank == 0) {
    memcpy(destination, source, block);
    return;
  }
  int64_t index[64] = {0};
  for (;;) {
    const char* from = source;
    for (int32_t k = 0; k < rank - 1; k++) {
      from += index[k] * strides[k] * item_size;
    }
    const int64_t step = strides[rank - 1] * item_size;
    for (int64_t i = 0; i < sizes[rank - 1]; i++, from += step, destination += block) {
      memcpy(destination, from, block);
    }
    int32_t k = rank - 2;
    while (k >= 0 && ++index[k] == sizes[k]) {
      index[k--] = 0;
    }
    if (k < 0) {
      return;
    }
  }
}

// Asks for large pages where memory is to be written for the first time: in small ones the page
// faults cost several times the copy. Memory that some page of is in use stays as it is.
void xla_go_prefer_large_pages(void* memory, size_t size) {
#ifdef MADV_HUGEPAGE
  enum { samples = 8 };
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t start = ((uintptr_t)memory + page - 1) / page * page;
  const uintptr_t end = ((uintptr_t)memory + size) / page * page;
  if (end < start + samples * page) {
    return;
  }
  for (int i = 0; i < samples; i++) {
    unsigned char resident = 1;
    void* sample = (void*)(start + (end - start - page) / (samples - 1) / page * page * i);
    if (mincore(sample, page, &resident) != 0 || (resident & 1) != 0) {
      return;
    }
  }
  madvise((void*)start, end - start, MADV_HUGEPAGE);  // for speed only: it may fail
#endif
}
