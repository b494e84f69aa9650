package pjrt

// #include "extensions.h"
import "C"

import (
	"maps"
	"runtime/cgo"
	"slices"
	"strings"
	"sync/atomic"

	"xla_go/gosrc/status"
)

var liveErrors, liveEvents, liveBuffers, liveExecutables, liveCallbacks, liveOthers atomic.Int64

// LiveErrors counts the plugin's error objects that are not destroyed. It is 0 between calls.
func LiveErrors() int64 { return liveErrors.Load() }

// LiveEvents counts the events held by Go.
func LiveEvents() int64 { return liveEvents.Load() }

// LiveBuffers counts the device buffers held by Go.
func LiveBuffers() int64 { return liveBuffers.Load() }

// LiveExecutables counts the loaded executables held by Go.
func LiveExecutables() int64 { return liveExecutables.Load() }

// LiveCallbacks counts the functions that wait for an event to happen.
func LiveCallbacks() int64 { return liveCallbacks.Load() }

// LiveOthers counts the objects of all other sorts held by Go: topologies, programs, transfer
// managers, execute contexts, raw buffers, layouts, tracking events, profilers.
func LiveOthers() int64 { return liveOthers.Load() }

// check turns the outcome of a call into an error, nil for success.
func (p *Plugin) check(r C.xg_result) error {
	if r.missing == 0 && r.error == nil {
		return nil
	}
	if r.missing != 0 {
		name := C.xg_function_name(r.missing - 1)
		if r.missing > C.FN_COUNT {
			name = C.xg_extension_function_name(r.missing - 1 - C.FN_COUNT)
		}
		return p.lacks(C.GoString(name))
	}
	return p.takeError(r.error)
}

func (p *Plugin) lacks(function string) *status.Error {
	return status.Errorf(status.Unimplemented, "%s: the plugin %s (PJRT API %d.%d) does not have this function", function, p.path, p.major, p.minor)
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
	if payloads := p.payloads(e); payloads != nil {
		err.Cause = payloads
	}
	C.xg_error_destroy(p.api, e)
	return err
}

// ErrorPayload is what a plugin attached to an error beside code and message, by type name. It is
// the cause of the error: errors.As finds it.
type ErrorPayload struct{ Values map[string][]byte }

// Error names the types of the payload.
func (e *ErrorPayload) Error() string {
	return "payload of " + strings.Join(slices.Sorted(maps.Keys(e.Values)), ", ")
}

func (p *Plugin) payloads(e *C.PJRT_Error) *ErrorPayload {
	if !p.hasFunction(C.FN_Error_ForEachPayload) {
		return nil
	}
	payload := &ErrorPayload{Values: map[string][]byte{}}
	handle := cgo.NewHandle(payload)
	defer handle.Delete()
	if r := C.xg_error_payloads(p.api, e, C.uintptr_t(handle)); r.error != nil {
		C.xg_error_destroy(p.api, r.error)
	}
	if len(payload.Values) == 0 {
		return nil
	}
	return payload
}

func goString(s *C.char, size C.size_t) string {
	if s == nil {
		return ""
	}
	return C.GoStringN(s, C.int(size))
}
