package pjrt

/*
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

// Maps size bytes that begin at a multiple of alignment. On failure gives NULL and sets errno.
static void *map_memory(size_t size, size_t alignment) {
  char *whole = mmap(NULL, size + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole == MAP_FAILED) return NULL;
  char *start = whole + (alignment - (uintptr_t)whole % alignment) % alignment;
  if (start > whole) munmap(whole, (size_t)(start - whole));
  if (start + size < whole + size + alignment) munmap(start + size, (size_t)(whole + alignment - start));
  return start;
}

static void prefer_large_pages(void *start, size_t size) {
#ifdef MADV_HUGEPAGE
  madvise(start, size, MADV_HUGEPAGE);  // for speed only: it may fail
#endif
}

static void unmap_memory(void *start, size_t size) { munmap(start, size); }
*/
import "C"

import (
	"os"
	"sync/atomic"
	"unsafe"

	"xla_go/gosrc/status"
)

// hostPage is what sizes of HostMemory are rounded up to, and the least that it is aligned to.
var hostPage = int64(os.Getpagesize())

// hugePage is the size of a large page. Memory of less than one has none.
const hugePage = 2 << 20

var liveHostMemory atomic.Int64

// LiveHostMemory counts the bytes of all HostMemory that was not freed.
func LiveHostMemory() int64 { return liveHostMemory.Load() }

// HostMemory is memory outside of Go's heap, aligned to pages, in large pages where the system has them. It holds
// anything; untouched pages take up nothing.
type HostMemory struct {
	// Bytes is all of it. Not to be used after Free.
	Bytes []byte
}

// NewHostMemory maps size bytes and more, up to a whole page; ResourceExhausted where the system has none left.
func NewHostMemory(size int64) (*HostMemory, error) {
	m, err := NewPlainHostMemory(size)
	if err == nil && len(m.Bytes) >= hugePage {
		C.prefer_large_pages(unsafe.Pointer(unsafe.SliceData(m.Bytes)), C.size_t(len(m.Bytes)))
	}
	return m, err
}

// NewPlainHostMemory is NewHostMemory in pages of the common size.
func NewPlainHostMemory(size int64) (*HostMemory, error) {
	size = (max(size, 1) + hostPage - 1) / hostPage * hostPage
	alignment := hostPage
	if size >= hugePage {
		alignment = hugePage
	}
	start, err := C.map_memory(C.size_t(size), C.size_t(alignment))
	if start == nil {
		return nil, status.Errorf(status.ResourceExhausted, "mapping %d bytes of host memory: %v", size, err)
	}
	liveHostMemory.Add(size)
	return &HostMemory{unsafe.Slice((*byte)(start), size)}, nil
}

// Address is where it begins.
func (m *HostMemory) Address() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m.Bytes))) }

// Free gives it back to the system. Idempotent, but not for several goroutines at once.
func (m *HostMemory) Free() {
	if m.Bytes == nil {
		return
	}
	liveHostMemory.Add(-int64(len(m.Bytes)))
	C.unmap_memory(unsafe.Pointer(unsafe.SliceData(m.Bytes)), C.size_t(len(m.Bytes)))
	m.Bytes = nil
}
