package pjrt

/*
#include "extensions.h"

static void set_tiled(PJRT_Buffer_MemoryLayout *layout, const int64_t *minor_to_major, size_t rank) {
  layout->struct_size = S_PJRT_Buffer_MemoryLayout;
  layout->type = LAYOUT_TILED;
  layout->tiled.struct_size = S_PJRT_Buffer_MemoryLayout_Tiled;
  layout->tiled.minor_to_major = minor_to_major;
  layout->tiled.minor_to_major_size = rank;
}
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// What is passed to C in structs must be pinned, for as long as the plugin may look at it.

func pinInts(values []int64, pinner *runtime.Pinner) *C.int64_t {
	if len(values) == 0 {
		return nil
	}
	pinner.Pin(&values[0])
	return (*C.int64_t)(unsafe.Pointer(&values[0]))
}

// pinData gives an address even for no bytes: plugins refuse NULL.
func pinData(b []byte, pinner *runtime.Pinner) unsafe.Pointer {
	if len(b) == 0 {
		return unsafe.Pointer(&emptyArray)
	}
	pinner.Pin(&b[0])
	return unsafe.Pointer(&b[0])
}

// rowMajorLayout is the layout in which the last dimension lies densest.
func rowMajorLayout(rank int, pinner *runtime.Pinner) *C.PJRT_Buffer_MemoryLayout {
	order := make([]int64, rank)
	for i := range order {
		order[i] = int64(rank - 1 - i)
	}
	layout := new(C.PJRT_Buffer_MemoryLayout)
	pinner.Pin(layout)
	C.set_tiled(layout, pinInts(order, pinner), C.size_t(rank))
	return layout
}

// copyBytes copies what a plugin gave.
func copyBytes(p *C.char, size C.size_t) []byte {
	if size == 0 {
		return nil
	}
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(p)), int(size))...)
}

// copyStrings copies an array of texts with their sizes.
func copyStrings(texts **C.char, sizes *C.size_t, count C.size_t) []string {
	list := make([]string, int(count))
	for i := range list {
		list[i] = goString(unsafe.Slice(texts, len(list))[i], unsafe.Slice(sizes, len(list))[i])
	}
	return list
}
