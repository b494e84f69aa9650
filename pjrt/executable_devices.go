package pjrt

// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"

	"xla_go/gosrc/status"
)

func (e *Executable) loaded() (*C.PJRT_LoadedExecutable, error) {
	if e.pair.destroyed.Load() {
		return nil, status.Errorf(status.FailedPrecondition, "the executable has been destroyed")
	}
	return e.pair.loaded, nil
}

// DeviceAssignment gives the serialized DeviceAssignmentProto.
func (e *Executable) DeviceAssignment() ([]byte, error) {
	h, err := e.loaded()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(e)
	args := C.PJRT_LoadedExecutable_GetDeviceAssignment_Args{struct_size: C.S_PJRT_LoadedExecutable_GetDeviceAssignment_Args, executable: h}
	if err := e.client.plugin.call(C.FN_LoadedExecutable_GetDeviceAssignment, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	bytes := copyBytes(args.serialized_bytes, args.serialized_bytes_size)
	C.xg_delete(unsafe.Pointer(args.serialized_device_assignment_deleter), unsafe.Pointer(args.serialized_device_assignment))
	return bytes, nil
}

// LogicalDevice is the place of a device in a program on several.
type LogicalDevice struct{ Replica, Partition int }

// LogicalDevices gives the place of each of AddressableDevices.
func (e *Executable) LogicalDevices() ([]LogicalDevice, error) {
	h, err := e.loaded()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(e)
	args := C.PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args{struct_size: C.S_PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args, executable: h}
	if err := e.client.plugin.call(C.FN_LoadedExecutable_AddressableDeviceLogicalIds, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	var list []LogicalDevice
	for _, ids := range unsafe.Slice(args.addressable_device_logical_ids, int(args.num_addressable_device_logical_ids)) {
		list = append(list, LogicalDevice{int(ids.replica), int(ids.partition)})
	}
	return list, nil
}

// Delete takes the program off its devices and leaves a shell that still has to be destroyed.
func (e *Executable) Delete() error {
	h, err := e.loaded()
	if err != nil {
		return err
	}
	args := C.PJRT_LoadedExecutable_Delete_Args{struct_size: C.S_PJRT_LoadedExecutable_Delete_Args, executable: h}
	err = e.client.plugin.call(C.FN_LoadedExecutable_Delete, unsafe.Pointer(&args))
	runtime.KeepAlive(e)
	return err
}

// IsDeleted says whether the program is off its devices.
func (e *Executable) IsDeleted() (bool, error) {
	h, err := e.loaded()
	if err != nil {
		return true, nil
	}
	args := C.PJRT_LoadedExecutable_IsDeleted_Args{struct_size: C.S_PJRT_LoadedExecutable_IsDeleted_Args, executable: h}
	err = e.client.plugin.call(C.FN_LoadedExecutable_IsDeleted, unsafe.Pointer(&args))
	runtime.KeepAlive(e)
	return bool(args.is_deleted), err
}

// LoadedFingerprint is the fingerprint that older plugins give to a loaded program; newer ones have Fingerprint.
func (e *Executable) LoadedFingerprint() (string, error) {
	h, err := e.loaded()
	if err != nil {
		return "", err
	}
	defer runtime.KeepAlive(e)
	args := C.PJRT_LoadedExecutable_Fingerprint_Args{struct_size: C.S_PJRT_LoadedExecutable_Fingerprint_Args, executable: h}
	if err := e.client.plugin.call(C.FN_LoadedExecutable_Fingerprint, unsafe.Pointer(&args)); err != nil {
		return "", err
	}
	return goString(args.executable_fingerprint, args.executable_fingerprint_size), nil
}
