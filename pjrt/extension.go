package pjrt

// #include "extensions.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Extension is a set of functions that a plugin has beside the common ones.
type Extension struct {
	Type int    // the number that the interface gives it
	Name string // for example "Layouts"
	Size int    // of its table in bytes: a longer one has more functions
}

// What the numbers of extensions stand for.
var extensionNames = [...]string{
	"Gpu_Custom_Call", "Profiler", "Custom_Partitioner", "Stream", "Layouts", "FFI", "MemoryDescriptions", "Triton",
	"RawBuffer", "PhaseCompile", "Example", "Unknown", "CrossHostTransfers", "ExecutableMetadata", "Callback",
	"HostAllocator", "TpuTopology", "TpuExecutable", "Megascale", "Shardings", "AbiVersion", "Collectives",
	"MultiSlice", "HostMemoryAllocator", "XlaTransform",
}

// Extensions lists what the plugin offers, in its order.
func (p *Plugin) Extensions() []Extension {
	var list []Extension
	var found [C.MOST_EXTENSIONS]*C.PJRT_Extension_Base
	for _, e := range found[:C.xg_extensions(p.api, &found[0])] {
		name := fmt.Sprintf("extension %d", int(e._type))
		if int(e._type) >= 0 && int(e._type) < len(extensionNames) {
			name = extensionNames[e._type]
		}
		list = append(list, Extension{Type: int(e._type), Name: name, Size: int(e.struct_size)})
	}
	return list
}

// HasExtension says whether the plugin offers an extension by name, for example "Layouts".
func (p *Plugin) HasExtension(name string) bool {
	for _, e := range p.Extensions() {
		if e.Name == name {
			return true
		}
	}
	return false
}

func (p *Plugin) callExtension(function C.int, args unsafe.Pointer) error {
	return p.check(C.xg_call_extension(p.api, function, args))
}
