package pjrt

/*
#include <string.h>
#include "calls.h"

static void copy_from(uintptr_t address, void *dst, size_t size) { memcpy(dst, (const void *)address, size); }

static void copy_run(char *dst, const char *src, size_t item, int64_t count, int64_t stride) {
  if (stride == (int64_t)item) {
    memcpy(dst, src, item * (size_t)count);
    return;
  }
  for (int64_t i = 0; i < count; i++, dst += item, src += stride) memcpy(dst, src, item);
}

// Copies a strided array to a dense one, the innermost dimension as one run.
static char *pack(char *dst, const char *src, size_t item, size_t rank, const int64_t *dims, const int64_t *strides) {
  if (rank == 0) {
    memcpy(dst, src, item);
    return dst + item;
  }
  if (rank == 1) {
    copy_run(dst, src, item, dims[0], strides[0]);
    return dst + item * (size_t)dims[0];
  }
  for (int64_t i = 0; i < dims[0]; i++) dst = pack(dst, src + i * strides[0], item, rank - 1, dims + 1, strides + 1);
  return dst;
}

static void pack_array(void *dst, uintptr_t address, const void *src, size_t item, size_t rank, const int64_t *dims,
                       const int64_t *strides) {
  pack(dst, src != NULL ? src : (const void *)address, item, rank, dims, strides);
}
*/
import "C"

import (
	"unsafe"

	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// ReadAddress copies len(dst) bytes of memory that the CPU can read.
func ReadAddress(address uintptr, dst []byte) {
	if len(dst) > 0 {
		C.copy_from(C.uintptr_t(address), unsafe.Pointer(&dst[0]), C.size_t(len(dst)))
	}
}

// Pack copies a strided host array into a dense row-major one. Strides may be zero or negative;
// with Bytes every element must lie inside.
func Pack(host Host) ([]byte, error) {
	item := host.Dtype.Size()
	if len(host.ByteStrides) != len(host.Dims) {
		return nil, status.Errorf(status.InvalidArgument, "expected a stride for each of %d dimensions, got %d", len(host.Dims), len(host.ByteStrides))
	}
	n := shape.Product(host.Dims)
	if n == 0 {
		return nil, nil
	}
	if host.Bytes != nil {
		low, high := int64(0), item
		for i, d := range host.Dims {
			if reach := (d - 1) * host.ByteStrides[i]; reach < 0 {
				low += reach
			} else {
				high += reach
			}
		}
		if low < 0 || high > int64(len(host.Bytes)) {
			return nil, status.Errorf(status.InvalidArgument, "expected strides %v to stay inside %d bytes, but they reach from %d to %d", host.ByteStrides, len(host.Bytes), low, high)
		}
	}
	dst := make([]byte, n*item)
	var src unsafe.Pointer
	if host.Bytes != nil {
		src = unsafe.Pointer(&host.Bytes[0])
	}
	var dims, strides *C.int64_t
	if len(host.Dims) > 0 {
		dims, strides = (*C.int64_t)(unsafe.Pointer(&host.Dims[0])), (*C.int64_t)(unsafe.Pointer(&host.ByteStrides[0]))
	}
	C.pack_array(unsafe.Pointer(&dst[0]), C.uintptr_t(host.Address), src, C.size_t(item), C.size_t(len(host.Dims)), dims, strides)
	return dst, nil
}
