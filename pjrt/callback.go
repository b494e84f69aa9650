package pjrt

// #include "pjrt_abi.h"
import "C"

import "runtime/cgo"

// xgEventReady is called by calls.c on a thread of the plugin.
//
//export xgEventReady
func xgEventReady(e *C.PJRT_Error, handle C.uintptr_t) {
	h := cgo.Handle(handle)
	callback := h.Value().(*readyCallback)
	h.Delete()
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
