package pjrt

// #include "calls.h"
import "C"

import (
	"sync/atomic"

	"xla_go/gosrc/status"
)

var liveErrors, liveEvents, liveBuffers, liveExecutables atomic.Int64

// LiveErrors counts the plugin's error objects that are not destroyed. It is 0 between calls.
func LiveErrors() int64 { return liveErrors.Load() }

// LiveEvents counts the events held by Go.
func LiveEvents() int64 { return liveEvents.Load() }

// LiveBuffers counts the device buffers held by Go.
func LiveBuffers() int64 { return liveBuffers.Load() }

// LiveExecutables counts the loaded executables held by Go.
func LiveExecutables() int64 { return liveExecutables.Load() }

// check turns the outcome of a call into an error, nil for success.
func (p *Plugin) check(r C.xg_result) error {
	if r.missing == 0 && r.error == nil {
		return nil
	}
	if r.missing != 0 {
		return status.Errorf(status.Unimplemented, "%s: the plugin %s (PJRT API %d.%d) does not have this function",
			C.GoString(C.xg_function_name(r.missing-1)), p.path, p.major, p.minor)
	}
	return p.takeError(r.error)
}

// takeError reads and destroys a plugin's error.
func (p *Plugin) takeError(e *C.PJRT_Error) *status.Error {
	liveErrors.Add(1)
	defer liveErrors.Add(-1)
	var size C.size_t
	text := C.xg_error_message(p.api, e, &size)
	err := &status.Error{Code: status.Code(C.xg_error_code(p.api, e)), Message: goString(text, size)}
	if err.Message == "" {
		err.Message = "the plugin gave no message"
	}
	C.xg_error_destroy(p.api, e)
	return err
}

func goString(s *C.char, size C.size_t) string {
	if s == nil {
		return ""
	}
	return C.GoStringN(s, C.int(size))
}
