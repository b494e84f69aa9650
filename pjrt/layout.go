package pjrt

// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"

	"xla_go/gosrc/shape"
)

// Layouts extension. A layout is given in the plugin's serialized form, a text such as "{1,0}".

// Layout gives the layout of the value in device memory.
func (b *Buffer) Layout() (string, error) {
	h, err := b.handle()
	if err != nil {
		return "", err
	}
	args := C.PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args{struct_size: C.S_PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args, buffer: h}
	err = b.client.plugin.callExtension(C.XF_PJRT_Layouts_PJRT_Buffer_MemoryLayout, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	if err != nil {
		return "", err
	}
	return b.client.plugin.takeLayout(args.layout)
}

// DefaultLayout gives the layout that the client would choose for a shape.
func (c *Client) DefaultLayout(s shape.Shape) (string, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	args := C.PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args{struct_size: C.S_PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args, client: c.handle, _type: C.int(s.Dtype.PJRT()),
		dims: pinInts(s.Dims, &pinner), num_dims: C.size_t(len(s.Dims))}
	if err := c.plugin.callExtension(C.XF_PJRT_Layouts_PJRT_Client_GetDefaultLayout, unsafe.Pointer(&args)); err != nil {
		return "", err
	}
	return c.plugin.takeLayout(args.layout)
}

// DefaultLayout gives the layout that devices of this topology would choose for a shape.
func (t *Topology) DefaultLayout(s shape.Shape) (string, error) {
	h, err := t.topology()
	if err != nil {
		return "", err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	args := C.PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args{struct_size: C.S_PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args, topology_description: h, _type: C.int(s.Dtype.PJRT()),
		dims: pinInts(s.Dims, &pinner), num_dims: C.size_t(len(s.Dims))}
	err = t.plugin.callExtension(C.XF_PJRT_Layouts_PJRT_Topology_GetDefaultLayout, unsafe.Pointer(&args))
	runtime.KeepAlive(t)
	if err != nil {
		return "", err
	}
	return t.plugin.takeLayout(args.layout)
}

// OutputLayouts gives the layouts of the program's results.
func (p *Program) OutputLayouts() ([]string, error) {
	h, err := p.program()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(p)
	args := C.PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args{struct_size: C.S_PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args, executable: h}
	if err := p.plugin.callExtension(C.XF_PJRT_Layouts_PJRT_Executable_GetOutputLayouts, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return p.plugin.layouts(args.layouts, args.num_outputs)
}

// ParameterLayouts gives the layouts that the program expects of its arguments.
func (p *Program) ParameterLayouts() ([]string, error) {
	h, err := p.program()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(p)
	args := C.PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args{struct_size: C.S_PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args, executable: h}
	if err := p.plugin.callExtension(C.XF_PJRT_Layouts_PJRT_Executable_GetParameterLayouts, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return p.plugin.layouts(args.layouts, args.num_parameters)
}

// layouts reads layouts that belong to a program; they must not be destroyed.
func (p *Plugin) layouts(layouts **C.PJRT_Layouts_MemoryLayout, count C.size_t) ([]string, error) {
	list := make([]string, int(count))
	for i, layout := range unsafe.Slice(layouts, len(list)) {
		text, err := p.layoutText(layout)
		if err != nil {
			return nil, err
		}
		list[i] = text
	}
	return list, nil
}

// takeLayout reads and destroys a layout.
func (p *Plugin) takeLayout(layout *C.PJRT_Layouts_MemoryLayout) (string, error) {
	liveOthers.Add(1)
	defer liveOthers.Add(-1)
	text, err := p.layoutText(layout)
	args := C.PJRT_Layouts_MemoryLayout_Destroy_Args{struct_size: C.S_PJRT_Layouts_MemoryLayout_Destroy_Args, layout: layout}
	if failure := p.callExtension(C.XF_PJRT_Layouts_MemoryLayout_Destroy, unsafe.Pointer(&args)); err == nil {
		err = failure
	}
	return text, err
}

func (p *Plugin) layoutText(layout *C.PJRT_Layouts_MemoryLayout) (string, error) {
	args := C.PJRT_Layouts_MemoryLayout_Serialize_Args{struct_size: C.S_PJRT_Layouts_MemoryLayout_Serialize_Args, layout: layout}
	if err := p.callExtension(C.XF_PJRT_Layouts_MemoryLayout_Serialize, unsafe.Pointer(&args)); err != nil {
		return "", err
	}
	text := goString(args.serialized_bytes, args.serialized_bytes_size)
	C.xg_delete(unsafe.Pointer(args.serialized_layout_deleter), unsafe.Pointer(args.serialized_layout))
	return text, nil
}
