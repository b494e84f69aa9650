package pjrt

// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// DeviceDescription tells about a device, which need not be there.
type DeviceDescription struct {
	plugin *Plugin
	handle *C.PJRT_DeviceDescription
	owner  any // keeps alive what the description is part of
}

// ID is unique among all devices of all processes.
func (d *DeviceDescription) ID() (int, error) {
	args := C.PJRT_DeviceDescription_Id_Args{struct_size: C.S_PJRT_DeviceDescription_Id_Args, device_description: d.handle}
	err := d.plugin.call(C.FN_DeviceDescription_Id, unsafe.Pointer(&args))
	runtime.KeepAlive(d)
	return int(args.id), err
}

// ProcessIndex is the process that can use the device.
func (d *DeviceDescription) ProcessIndex() (int, error) {
	args := C.PJRT_DeviceDescription_ProcessIndex_Args{struct_size: C.S_PJRT_DeviceDescription_ProcessIndex_Args, device_description: d.handle}
	err := d.plugin.call(C.FN_DeviceDescription_ProcessIndex, unsafe.Pointer(&args))
	runtime.KeepAlive(d)
	return int(args.process_index), err
}

// Kind is the vendor's name of the model.
func (d *DeviceDescription) Kind() (string, error) {
	args := C.PJRT_DeviceDescription_Kind_Args{struct_size: C.S_PJRT_DeviceDescription_Kind_Args, device_description: d.handle}
	if err := d.plugin.call(C.FN_DeviceDescription_Kind, unsafe.Pointer(&args)); err != nil {
		return "", err
	}
	defer runtime.KeepAlive(d)
	return goString(args.device_kind, args.device_kind_size), nil
}

// Text is the plugin's text for the device.
func (d *DeviceDescription) Text() (string, error) {
	args := C.PJRT_DeviceDescription_ToString_Args{struct_size: C.S_PJRT_DeviceDescription_ToString_Args, device_description: d.handle}
	if err := d.plugin.call(C.FN_DeviceDescription_ToString, unsafe.Pointer(&args)); err != nil {
		return "", err
	}
	defer runtime.KeepAlive(d)
	return goString(args.to_string, args.to_string_size), nil
}

// DebugString is the plugin's longer text for the device.
func (d *DeviceDescription) DebugString() (string, error) {
	args := C.PJRT_DeviceDescription_DebugString_Args{struct_size: C.S_PJRT_DeviceDescription_DebugString_Args, device_description: d.handle}
	if err := d.plugin.call(C.FN_DeviceDescription_DebugString, unsafe.Pointer(&args)); err != nil {
		return "", err
	}
	defer runtime.KeepAlive(d)
	return goString(args.debug_string, args.debug_string_size), nil
}

// Attributes are the device's properties: string, int64, []int64, float32 or bool.
func (d *DeviceDescription) Attributes() (map[string]any, error) {
	args := C.PJRT_DeviceDescription_Attributes_Args{struct_size: C.S_PJRT_DeviceDescription_Attributes_Args, device_description: d.handle}
	if err := d.plugin.call(C.FN_DeviceDescription_Attributes, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(d)
	return namedValues(args.attributes, args.num_attributes), nil
}

// MemoryDescription is a sort of memory that a device has.
type MemoryDescription struct {
	Kind   string
	KindID int
	// Default says that arrays go there if nothing else is said.
	Default bool
}

// Memories describes the device's memories. MemoryDescriptions extension.
func (d *DeviceDescription) Memories() ([]MemoryDescription, error) {
	defer runtime.KeepAlive(d)
	args := C.PJRT_DeviceDescription_MemoryDescriptions_Args{struct_size: C.S_PJRT_DeviceDescription_MemoryDescriptions_Args, device_description: d.handle}
	if err := d.plugin.callExtension(C.XF_PJRT_DeviceDescription_MemoryDescriptions, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	list := make([]MemoryDescription, 0, int(args.num_memory_descriptions))
	for i, h := range unsafe.Slice(args.memory_descriptions, int(args.num_memory_descriptions)) {
		kind := C.PJRT_MemoryDescription_Kind_Args{struct_size: C.S_PJRT_MemoryDescription_Kind_Args, memory_description: h}
		if err := d.plugin.callExtension(C.XF_PJRT_MemoryDescription_Kind, unsafe.Pointer(&kind)); err != nil {
			return nil, err
		}
		list = append(list, MemoryDescription{Kind: goString(kind.kind, kind.kind_size), KindID: int(kind.kind_id), Default: C.size_t(i) == args.default_memory_index})
	}
	return list, nil
}
