package pjrt

// #include <stdlib.h>
// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"

	"xla_go/gosrc/status"
)

// Profiler records what the plugin and its devices do between Start and Stop. Profiler extension.
type Profiler struct{ object }

func (p *Plugin) profilerCall(position C.int, name string, args unsafe.Pointer) error {
	r := C.xg_profiler_call(p.api, position, args)
	if !r.found {
		return p.lacks("PJRT_Profiler_Extension." + name)
	}
	if r.error == nil {
		return nil
	}
	var message *C.char
	var size C.size_t
	code := C.xg_profiler_error(p.api, r.error, &message, &size)
	defer C.free(unsafe.Pointer(message))
	return &status.Error{Code: status.Code(code), Message: goString(message, size)}
}

// NewProfiler makes a profiler. options is a serialized ProfileOptions, nil for the plugin's own.
func (p *Plugin) NewProfiler(options []byte) (*Profiler, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	args := C.PLUGIN_Profiler_Create_Args{struct_size: C.S_PLUGIN_Profiler_Create_Args, options: pinBytes(options, &pinner), options_size: C.size_t(len(options))}
	if err := p.profilerCall(C.PROFILER_CREATE, "create", unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	f := new(Profiler)
	hold(f, &f.object, p, unsafe.Pointer(args.profiler), func(h unsafe.Pointer) error {
		args := C.PLUGIN_Profiler_Destroy_Args{struct_size: C.S_PLUGIN_Profiler_Destroy_Args, profiler: (*C.PLUGIN_Profiler)(h)}
		return p.profilerCall(C.PROFILER_DESTROY, "destroy", unsafe.Pointer(&args))
	})
	return f, nil
}

// Start begins to record.
func (f *Profiler) Start() error {
	h, err := f.get()
	if err != nil {
		return err
	}
	args := C.PLUGIN_Profiler_Start_Args{struct_size: C.S_PLUGIN_Profiler_Start_Args, profiler: (*C.PLUGIN_Profiler)(h)}
	err = f.plugin.profilerCall(C.PROFILER_START, "start", unsafe.Pointer(&args))
	runtime.KeepAlive(f)
	return err
}

// Stop ends it.
func (f *Profiler) Stop() error {
	h, err := f.get()
	if err != nil {
		return err
	}
	args := C.PLUGIN_Profiler_Stop_Args{struct_size: C.S_PLUGIN_Profiler_Stop_Args, profiler: (*C.PLUGIN_Profiler)(h)}
	err = f.plugin.profilerCall(C.PROFILER_STOP, "stop", unsafe.Pointer(&args))
	runtime.KeepAlive(f)
	return err
}

// Collect gives what was recorded, a serialized XSpace.
func (f *Profiler) Collect() ([]byte, error) {
	h, err := f.get()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(f)
	// Asked without memory it tells the size, and then it fills the memory.
	args := C.PLUGIN_Profiler_CollectData_Args{struct_size: C.S_PLUGIN_Profiler_CollectData_Args, profiler: (*C.PLUGIN_Profiler)(h)}
	if err := f.plugin.profilerCall(C.PROFILER_COLLECT, "collect_data", unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	if args.buffer_size_in_bytes == 0 {
		return nil, nil
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	data := make([]byte, int(args.buffer_size_in_bytes))
	pinner.Pin(&data[0])
	args.buffer = (*C.uint8_t)(unsafe.Pointer(&data[0]))
	if err := f.plugin.profilerCall(C.PROFILER_COLLECT, "collect_data", unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return data, nil
}
