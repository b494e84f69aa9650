package pjrt

// #include "pjrt_abi.h"
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

// xgEventReady is called by calls.c on a thread of the plugin.
//
//export xgEventReady
func xgEventReady(e *C.PJRT_Error, handle C.uintptr_t) {
	h := cgo.Handle(handle)
	callback := h.Value().(*readyCallback)
	h.Delete()
	liveCallbacks.Add(-1)
	if e == nil {
		callback.fn(nil)
		return
	}
	callback.fn(callback.plugin.takeError(e))
}

// xgViewDeleted is called by calls.c when a plugin no longer needs foreign memory.
//
//export xgViewDeleted
func xgViewDeleted(handle C.uintptr_t) {
	h := cgo.Handle(handle)
	release := h.Value().(func())
	h.Delete()
	release()
}

// xgErrorPayload is called by extensions.c for each payload of an error.
//
//export xgErrorPayload
func xgErrorPayload(handle C.uintptr_t, key *C.char, keySize C.size_t, value *C.char, valueSize C.size_t) {
	payload := cgo.Handle(handle).Value().(*ErrorPayload)
	payload.Values[goString(key, keySize)] = C.GoBytes(unsafe.Pointer(value), C.int(valueSize))
}
