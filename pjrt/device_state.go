package pjrt

// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"

	"xla_go/gosrc/status"
)

// DebugString is the plugin's longer text for the device.
func (d *Device) DebugString() (string, error) {
	description, err := d.description()
	if err != nil {
		return "", err
	}
	return description.DebugString()
}

func (d *Device) description() (*DeviceDescription, error) {
	get := C.PJRT_Device_GetDescription_Args{struct_size: C.S_PJRT_Device_GetDescription_Args, device: d.handle}
	if err := d.client.plugin.call(C.FN_Device_GetDescription, unsafe.Pointer(&get)); err != nil {
		return nil, err
	}
	return &DeviceDescription{plugin: d.client.plugin, handle: get.device_description}, nil
}

// CurrentAttributes asks for properties that may change while the client lives; Unimplemented before API 0.92.
func (d *Device) CurrentAttributes() (map[string]any, error) {
	args := C.PJRT_Device_GetAttributes_Args{struct_size: C.S_PJRT_Device_GetAttributes_Args, device: d.handle}
	if err := d.client.plugin.call(C.FN_Device_GetAttributes, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	attributes := namedValues(args.attributes, args.num_attributes)
	C.xg_delete(unsafe.Pointer(args.attributes_deleter), unsafe.Pointer(args.device_attributes))
	return attributes, nil
}

// ClearMemoryStats starts the peaks of MemoryStats anew.
func (d *Device) ClearMemoryStats() error {
	args := C.PJRT_Device_ClearMemoryStats_Args{struct_size: C.S_PJRT_Device_ClearMemoryStats_Args, device: d.handle}
	return d.client.plugin.call(C.FN_Device_ClearMemoryStats, unsafe.Pointer(&args))
}

// PoisonExecution makes the earliest run with a launch ID fail, if it is not over; poisoned says whether it was not.
func (d *Device) PoisonExecution(launchID int, failure error) (poisoned bool, err error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	message := status.MessageOf(failure)
	args := C.PJRT_Device_PoisonExecution_Args{struct_size: C.S_PJRT_Device_PoisonExecution_Args, device: d.handle, launch_id: C.int(launchID), error_code: C.int(status.CodeOf(failure)),
		error_message: pinString(message, &pinner), error_message_size: C.size_t(len(message))}
	err = d.client.plugin.call(C.FN_Device_PoisonExecution, unsafe.Pointer(&args))
	return bool(args.poisoned), err
}

// TrackingEvent shows a piece of work to the tools that watch a device, from its making to Destroy.
type TrackingEvent struct{ object }

// Track starts one; description is what the tools show.
func (d *Device) Track(description string) (*TrackingEvent, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	p := d.client.plugin
	args := C.PJRT_Device_CreateAsyncTrackingEvent_Args{struct_size: C.S_PJRT_Device_CreateAsyncTrackingEvent_Args, device: d.handle,
		description: pinString(description, &pinner), description_size: C.size_t(len(description))}
	if err := p.call(C.FN_Device_CreateAsyncTrackingEvent, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	t := new(TrackingEvent)
	hold(t, &t.object, p, unsafe.Pointer(args.event), func(h unsafe.Pointer) error {
		args := C.PJRT_AsyncTrackingEvent_Destroy_Args{struct_size: C.S_PJRT_AsyncTrackingEvent_Destroy_Args, event: (*C.PJRT_AsyncTrackingEvent)(h)}
		return p.call(C.FN_AsyncTrackingEvent_Destroy, unsafe.Pointer(&args))
	})
	return t, nil
}

// KindID is the plugin's number for the sort of memory.
func (m *Memory) KindID() (int, error) {
	args := C.PJRT_Memory_Kind_Id_Args{struct_size: C.S_PJRT_Memory_Kind_Id_Args, memory: m.handle}
	err := m.client.plugin.call(C.FN_Memory_Kind_Id, unsafe.Pointer(&args))
	return int(args.kind_id), err
}

// Text is the plugin's text for the memory.
func (m *Memory) Text() (string, error) {
	args := C.PJRT_Memory_ToString_Args{struct_size: C.S_PJRT_Memory_ToString_Args, memory: m.handle}
	if err := m.client.plugin.call(C.FN_Memory_ToString, unsafe.Pointer(&args)); err != nil {
		return "", err
	}
	return goString(args.to_string, args.to_string_size), nil
}

// DebugString is the plugin's longer text for the memory.
func (m *Memory) DebugString() (string, error) {
	args := C.PJRT_Memory_DebugString_Args{struct_size: C.S_PJRT_Memory_DebugString_Args, memory: m.handle}
	if err := m.client.plugin.call(C.FN_Memory_DebugString, unsafe.Pointer(&args)); err != nil {
		return "", err
	}
	return goString(args.debug_string, args.debug_string_size), nil
}

// Devices are the devices that can use the memory.
func (m *Memory) Devices() ([]*Device, error) {
	args := C.PJRT_Memory_AddressableByDevices_Args{struct_size: C.S_PJRT_Memory_AddressableByDevices_Args, memory: m.handle}
	if err := m.client.plugin.call(C.FN_Memory_AddressableByDevices, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	var list []*Device
	for _, h := range unsafe.Slice(args.devices, int(args.num_devices)) {
		d, err := m.client.device(h)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}
