// Package pjrt is the PJRT C interface in Go, up to version 0.115, a file for each noun of it:
// plugin, client, device, memory, topology, buffer, transfer manager, program, executable, event,
// error, named value and so on. Extensions are found on the plugin's own list, each with its own size.
//
// Every call is checked against the function table that the plugin really has; what is not there
// is an Unimplemented error that names the function, the plugin and its version. Errors are
// *status.Error with the plugin's own code and message.
//
// Ownership: whoever makes an object destroys it (Close or Destroy, both idempotent). The garbage
// collector frees forgotten objects, but only as a net: it knows nothing of device memory.
// LiveBuffers and its sisters count what is alive.
//
// An object may be used by several goroutines, but not while another destroys it.
package pjrt

/*
#cgo CFLAGS: -std=gnu11 -O2
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "calls.h"
*/
import "C"

import (
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"xla_go/gosrc/status"
)

// Plugin is a loaded plugin library. It stays loaded until the process ends.
type Plugin struct {
	path         string
	api          *C.PJRT_Api
	major, minor int
	attributes   map[string]any
}

var loaded struct {
	sync.Mutex
	plugins map[string]*Plugin
}

// Load opens the plugin library at path and initializes it. A library is loaded once; later calls
// give the same Plugin. Blocking: the dynamic linker and the plugin's own start (tenths of a second).
//
// Errors: NotFound where there is no such file, InvalidArgument where it is not a plugin,
// FailedPrecondition where its interface has another major version.
func Load(path string) (*Plugin, error) {
	if path == "" {
		return nil, status.Errorf(status.InvalidArgument, "pjrt.Load(): expected the path of a PJRT plugin library, got an empty path")
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil, status.Errorf(status.NotFound, "pjrt.Load(): expected a PJRT plugin library at %q, but there is none (%v)", path, err)
	}
	if info, err := os.Stat(real); err == nil && info.IsDir() {
		return nil, status.Errorf(status.InvalidArgument, "pjrt.Load(): expected a PJRT plugin library, got the directory %q", path)
	}
	loaded.Lock()
	defer loaded.Unlock()
	if p := loaded.plugins[real]; p != nil {
		return p, nil
	}
	p, err := open(real)
	if err != nil {
		return nil, err
	}
	if loaded.plugins == nil {
		loaded.plugins = map[string]*Plugin{}
	}
	loaded.plugins[real] = p
	return p, nil
}

func open(path string) (*Plugin, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var message *C.char
	library := C.xg_open(name, &message)
	if library == nil {
		defer C.free(unsafe.Pointer(message))
		return nil, status.Errorf(status.InvalidArgument, "pjrt.Load(): expected a PJRT plugin library, got %q, which cannot be loaded: %s", path, C.GoString(message))
	}
	var found C.bool
	api := C.xg_get_api(library, &found)
	if !found {
		return nil, status.Errorf(status.InvalidArgument, "pjrt.Load(): expected a PJRT plugin library, got %q, which does not export GetPjrtApi", path)
	}
	if api == nil {
		return nil, status.Errorf(status.Internal, "pjrt.Load(): GetPjrtApi of %q gave no function table", path)
	}
	p := &Plugin{path: path, api: api}
	if uintptr(api.struct_size) < unsafe.Offsetof(api.functions) {
		return nil, status.Errorf(status.FailedPrecondition, "pjrt.Load(): the function table of %q has %d bytes, too few for a version", path, api.struct_size)
	}
	p.major, p.minor = int(api.pjrt_api_version.major_version), int(api.pjrt_api_version.minor_version)
	if p.major != C.PJRT_MAJOR {
		return nil, status.Errorf(status.FailedPrecondition, "pjrt.Load(): expected a plugin with PJRT API %d.x, got %q with %d.%d: install a matching plugin", C.PJRT_MAJOR, path, p.major, p.minor)
	}
	args := C.PJRT_Plugin_Initialize_Args{struct_size: C.S_PJRT_Plugin_Initialize_Args}
	if err := p.call(C.FN_Plugin_Initialize, unsafe.Pointer(&args)); err != nil {
		return nil, status.Annotate(err, "pjrt.Load(): %q could not be initialized", path)
	}
	attributes := C.PJRT_Plugin_Attributes_Args{struct_size: C.S_PJRT_Plugin_Attributes_Args}
	if err := p.call(C.FN_Plugin_Attributes, unsafe.Pointer(&attributes)); err == nil {
		p.attributes = namedValues(attributes.attributes, attributes.num_attributes)
	}
	return p, nil
}

// Path is the library's file, absolute and without links.
func (p *Plugin) Path() string { return p.path }

// APIVersion is the version of the PJRT interface that the plugin was built with.
func (p *Plugin) APIVersion() (major, minor int) { return p.major, p.minor }

// Attributes are what the plugin says of itself, for example "xla_version"; nil where it says nothing.
func (p *Plugin) Attributes() map[string]any { return p.attributes }

// Has says whether the plugin has a function, named without "PJRT_", for example "Buffer_CopyToMemory".
func (p *Plugin) Has(function string) bool {
	for i := C.int(0); i < C.FN_COUNT; i++ {
		if C.GoString(C.xg_function_name(i)) == "PJRT_"+function {
			return p.hasFunction(i)
		}
	}
	return false
}

func (p *Plugin) hasFunction(function C.int) bool {
	end := unsafe.Offsetof(p.api.functions) + (uintptr(function)+1)*unsafe.Sizeof(uintptr(0))
	return end <= uintptr(p.api.struct_size) && p.api.functions[function] != nil
}

// call is the way into the plugin for everything that has no helper in calls.h.
func (p *Plugin) call(function C.int, args unsafe.Pointer) error {
	return p.check(C.xg_call(p.api, function, args))
}
