// The C boundary between the torch adapter (C++) and the Go runtime: plain structs and one table
// of functions. The adapter includes this file; package dispatch implements the table.
//
// Ownership: every pointer inside a record is borrowed for the length of the call. The only
// object that both sides keep is xla_go_storage: the adapter allocates it with malloc and frees
// it after `drop`; Go writes `id` and `has_buffer` and never keeps its address past `drop`.
//
// Errors: a function returns 0 or a canonical status code (the numbers of PJRT_Error_Code) and
// then fills the xla_go_error. No function throws, none takes the GIL. Functions marked BLOCKING
// may wait for other threads, a compile or a device: call them without the GIL.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define XLA_GO_DISPATCH_VERSION 7
#define XLA_GO_MAX_RANK 25
#define XLA_GO_MAX_OUTPUTS 16
#define XLA_GO_MESSAGE_BYTES 8192

typedef struct xla_go_error {
  int32_t code;  // canonical status code
  // What the Python side should raise: 0 the class of `code`; 1 IndexError; 2 TypeError;
  // 3 ValueError; 4 NotImplementedError; 5 plain RuntimeError with torch's own wording;
  // 6 nothing: the row cannot express this call (a data-dependent shape), run torch's CPU fallback;
  // 7 torch.linalg.LinAlgError.
  int32_t python_kind;
  char message[XLA_GO_MESSAGE_BYTES];  // NUL-terminated UTF-8, without the code's name
} xla_go_error;

// What a torch Storage owns. `id` is 0 until Go first sees it (an uninitialised storage costs
// no call). `has_buffer` is 1 where dropping it frees device memory, so that the adapter does
// not batch that drop.
typedef struct xla_go_storage {
  int64_t id;
  int64_t nbytes;
  int32_t has_buffer;
  int32_t device;  // index of the xla device
} xla_go_storage;

// A strided tensor on the device. Sizes and strides in elements. dtype is a c10::ScalarType.
typedef struct xla_go_tensor {
  xla_go_storage* storage;
  const int64_t* sizes;
  const int64_t* strides;
  int64_t storage_offset;
  int32_t rank;
  int32_t dtype;
  int32_t wrapped_number;  // TensorImpl::is_wrapped_number
  int32_t lazy_bits;       // bit 0 conj, bit 1 neg
} xla_go_tensor;

// The state of one random generator, owned by the adapter. A random row reads seed and offset
// as parameters of the program and advances offset.
typedef struct xla_go_generator {
  uint64_t seed;
  uint64_t offset;
} xla_go_generator;

enum {
  XLA_GO_NONE = 0,          // None, or an undefined tensor
  XLA_GO_TENSOR = 1,        // tensor
  XLA_GO_INT = 2,           // i (also d); dtype, layout, memory_format arguments come as INT
  XLA_GO_DOUBLE = 3,        // d
  XLA_GO_BOOL = 4,          // i (0 or 1; also d)
  XLA_GO_COMPLEX = 5,       // d, imag
  XLA_GO_INT_LIST = 6,      // ints, count
  XLA_GO_DOUBLE_LIST = 7,   // doubles, count
  XLA_GO_BOOL_LIST = 8,     // ints (0 or 1), count
  XLA_GO_TENSOR_LIST = 9,   // tensors, count; an element with storage NULL and rank -1 is None
  XLA_GO_CPU_SCALAR = 10,   // a 0-dim CPU tensor: dtype (c10::ScalarType), i, d, imag; `integral`
                            // says which holds the value
  XLA_GO_STRING = 11,       // text
  XLA_GO_DEVICE = 12,       // i = device index, d unused
  XLA_GO_GENERATOR = 13,    // generator (a None generator argument comes as the default generator)
  XLA_GO_SCALAR_LIST = 14,  // doubles, count; integral = all integers, then also ints
  XLA_GO_OTHER = 15         // a type that no row takes
};

typedef struct xla_go_argument {
  int32_t tag;
  int32_t count;
  int32_t dtype;           // CPU_SCALAR
  int32_t wrapped_number;  // CPU_SCALAR: 1 for a number that Python wrapped
  int32_t integral;        // CPU_SCALAR, SCALAR_LIST: the value is in i / ints
  int32_t reserved;
  int64_t i;
  double d;
  double imag;
  const int64_t* ints;
  const double* doubles;
  const xla_go_tensor* tensors;
  const char* text;
  xla_go_generator* generator;
  xla_go_tensor tensor;
} xla_go_argument;

// One result. The adapter provides `storage` (fresh, id 0) for each output that is not an alias;
// Go fills the rest. `defined` 0: the result is an undefined tensor and `storage` was not used.
typedef struct xla_go_output {
  xla_go_storage* storage;
  int64_t nbytes;
  int32_t dtype;  // c10::ScalarType
  int32_t rank;
  int32_t defined;
  int32_t reserved;
  int64_t sizes[XLA_GO_MAX_RANK];  // the tensor is contiguous
} xla_go_output;

// One operator call. `op` is the row's number in rows_gen.h. Arguments are in schema order, out=
// arguments included. For an in-place name (aten::add_) Go writes into argument 0 and outputs[]
// is not used. For an out= name the adapter calls the functional row's number, then resizes the
// out tensors and calls `copy` into them.
// A random operator whose schema has no generator (native_dropout) gets the default one as one
// argument more, after those of the schema.
typedef struct xla_go_call {
  int32_t op;
  int32_t argument_count;
  int32_t output_count;
  int32_t in_place;       // 1: write output 0 into argument 0's tensor
  int32_t default_dtype;  // torch.get_default_dtype() as a c10::ScalarType
  int32_t reserved;
  xla_go_argument* arguments;
  xla_go_output outputs[XLA_GO_MAX_OUTPUTS];
  xla_go_error error;
} xla_go_call;

typedef struct xla_go_table {
  int64_t struct_size;
  int32_t version;  // XLA_GO_DISPATCH_VERSION
  int32_t row_count;

  // Runs one row: appends IR, gives result shapes. Not blocking, except that a graph past its
  // size limit is cut (which queues work, and does not wait).
  int32_t (*op)(xla_go_call* call);

  // Forgets n storages. Not blocking.
  void (*drop)(xla_go_storage* const* storages, int32_t n);

  // Writes host data into `target`. `data` is of target's sizes and dtype, with `strides` in
  // elements, NULL for dense and row-major; it may be changed or freed once the call returns.
  // BLOCKING (copies).
  int32_t (*upload)(const xla_go_tensor* target, const void* data, const int64_t* strides,
                    xla_go_error* error);

  // target[...] = source, with conversion of dtype; sizes are equal (the adapter has expanded
  // source: stride 0). Resolves source's lazy bits. Not blocking on one device; between two devices
  // it waits until source has been scheduled.
  int32_t (*copy)(const xla_go_tensor* source, const xla_go_tensor* target, xla_go_error* error);

  // Reading, in four steps so that the caller can look for signals between waits:
  // begin queues what is needed and gives a token, or returns -1 where it has waited a while for
  // the compile of a partitioned program and has to be called again; wait returns 0 when the value
  // is there, -1 when it is not there after timeout_ms, or an error's code; finish copies the
  // tensor's elements, dense and row-major, to `destination` and releases the token; cancel
  // releases it.
  int32_t (*read_begin)(const xla_go_tensor* source, int64_t* token,
                        xla_go_error* error);                                    // BLOCKING (lock)
  int32_t (*read_wait)(int64_t token, int32_t timeout_ms, xla_go_error* error);  // BLOCKING
  int32_t (*read_finish)(int64_t token, void* destination,
                         xla_go_error* error);  // BLOCKING (copies)
  void (*read_cancel)(int64_t token);

  // Cuts the graph of everything live and queues it; gives a token to wait for (read_wait, then
  // read_cancel), or 0 where nothing was pending. `cause` says in a few words what asked for it, for
  // the analysis of PT_XLA_DEBUG. -1 where it has waited a while for the compile of a partitioned
  // program and has to be called again. BLOCKING only for that, and while the queue of steps is
  // full.
  int32_t (*sync)(int32_t device, const char* cause, int64_t* token, xla_go_error* error);

  // storage.resize_: keeps the bytes that fit, the new ones are undefined. storage->nbytes is the
  // old size; Go sets the new one. Not blocking.
  int32_t (*resize_storage)(xla_go_storage* storage, int64_t nbytes, xla_go_error* error);

  // Adds n to the named counter (aten::<op> for a CPU fallback).
  void (*count)(const char* name, int64_t n);

  // The address of a ready value's device memory, or 0 (0 also for a storage without a value yet).
  uint64_t (*buffer_pointer)(xla_go_storage* storage);

  // Number of xla devices of this process (at least 1). NULL means 1.
  int32_t (*device_count)(void);

  // XLA_GO_ROWS_DIGEST of the runtime's table of rows: an adapter with another one calls the wrong
  // operators.
  uint64_t (*rows_digest)(void);

  // The number of compiles, and of cuts under analysis, that this process's calls have started, read
  // without a call. Where it has changed after a call, the adapter tells Python, which knows the
  // user's file and line.
  const int64_t* compiles;

  // Not 0 where the nodes of the graph are to tell which Python code made them, read without a call.
  // Each thread then says so with set_stack before it calls op, upload, copy, read_begin or
  // resize_storage.
  const int32_t* records_stacks;

  // The stack (a number that Python got for it from the runtime; 0 for none) of the calls that this
  // thread makes from now on.
  void (*set_stack)(int32_t stack);

  // Recording: a program that is traced once runs again on other values without being traced.
  // record_begin follows what is traced on the device from now on, by one thread at a time; what
  // `inputs` wait for is queued first. With `closed` the program may read nothing but its inputs;
  // without, other values that it reads are constants of it. `generator` is the device's default one, whose address stays
  // the same until the end. record_end queues what was traced as a step that fills `outputs`
  // (storages that are not inputs) and gives the recording's handle. Either fails with UNAVAILABLE,
  // and the reason, where this program cannot be recorded; it is traced as ever then. record_cancel
  // ends a recording that was begun. Not blocking.
  int32_t (*record_begin)(int32_t device, xla_go_storage* const* inputs, int32_t n, int32_t closed,
                          const xla_go_generator* generator, xla_go_error* error);
  int32_t (*record_end)(xla_go_storage* const* outputs, int32_t n, int64_t* handle,
                        xla_go_error* error);
  void (*record_cancel)(void);

  // Queues a recorded program: it takes and may overwrite the values of `inputs`, fills `outputs`
  // (fresh storages with their sizes), and moves the generator on. `ran` is 0 where the inputs'
  // values are not of the kind that it was recorded with: nothing has happened then, and the caller
  // traces. BLOCKING while the queue of steps is full.
  int32_t (*replay)(int64_t handle, xla_go_storage* const* inputs, int32_t n,
                    xla_go_storage* const* outputs, int32_t m, xla_go_generator* generator,
                    int32_t* ran, xla_go_error* error);

  // 1 where two recordings are of one program, with equal numbers, from the same inputs to the same
  // outputs; else 0. Not blocking.
  int32_t (*same_recording)(int64_t handle, int64_t other);

  // Lets go of a recording. Not blocking.
  void (*forget)(int64_t handle);
} xla_go_table;

extern int64_t xla_go_compiles;
extern int32_t xla_go_records_stacks;

// What the calling thread last gave to set_stack.
int32_t xla_go_thread_stack(void);

#ifdef __cplusplus
}
#endif
