package pjrt

// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"

	"xla_go/gosrc/status"
)

// LookupDevice gives the device with an ID; the plugin's error (usually InvalidArgument) where there is none.
func (c *Client) LookupDevice(id int) (*Device, error) {
	args := C.PJRT_Client_LookupDevice_Args{struct_size: C.S_PJRT_Client_LookupDevice_Args, client: c.handle, id: C.int(id)}
	if err := c.plugin.call(C.FN_Client_LookupDevice, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return c.device(args.device)
}

// LookupAddressableDevice gives this process's device with a local hardware ID.
func (c *Client) LookupAddressableDevice(localHardwareID int) (*Device, error) {
	args := C.PJRT_Client_LookupAddressableDevice_Args{struct_size: C.S_PJRT_Client_LookupAddressableDevice_Args, client: c.handle, local_hardware_id: C.int(localHardwareID)}
	if err := c.plugin.call(C.FN_Client_LookupAddressableDevice, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return c.device(args.addressable_device)
}

// Memories gives the memories that this process can use.
func (c *Client) Memories() ([]*Memory, error) {
	args := C.PJRT_Client_AddressableMemories_Args{struct_size: C.S_PJRT_Client_AddressableMemories_Args, client: c.handle}
	if err := c.plugin.call(C.FN_Client_AddressableMemories, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	var list []*Memory
	for _, h := range unsafe.Slice(args.addressable_memories, int(args.num_addressable_memories)) {
		found := false
		for _, m := range c.memories {
			if m.handle == h {
				list, found = append(list, m), true
			}
		}
		if !found {
			return nil, status.Errorf(status.Internal, "the plugin named a memory that no device of its client has")
		}
	}
	return list, nil
}

// DefaultDeviceAssignment gives device IDs for a program on replicas times partitions devices, [replica][partition].
func (c *Client) DefaultDeviceAssignment(replicas, partitions int) ([][]int, error) {
	if replicas < 1 || partitions < 1 {
		return nil, status.Errorf(status.InvalidArgument, "DefaultDeviceAssignment(): expected at least one replica and one partition, got %d and %d", replicas, partitions)
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	ids := make([]C.int, replicas*partitions)
	pinner.Pin(&ids[0])
	args := C.PJRT_Client_DefaultDeviceAssignment_Args{struct_size: C.S_PJRT_Client_DefaultDeviceAssignment_Args, client: c.handle, num_replicas: C.int(replicas),
		num_partitions: C.int(partitions), default_assignment_size: C.size_t(len(ids)), default_assignment: &ids[0]}
	if err := c.plugin.call(C.FN_Client_DefaultDeviceAssignment, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	assignment := make([][]int, replicas)
	for i, id := range ids {
		assignment[i/partitions] = append(assignment[i/partitions], int(id))
	}
	return assignment, nil
}

// ProcessInfo is what a process of a job knows of another one. States are numbered as the
// interface does: 0 unspecified, 1 uninitialized, 2 disconnected, 3 connected, 4 failed.
type ProcessInfo struct {
	TaskID        int
	IncarnationID uint64
	State         int
	Failure       error
}

// UpdateGlobalProcessInfo tells the plugin about all processes of the job.
func (c *Client) UpdateGlobalProcessInfo(processes []ProcessInfo) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	infos := make([]C.PJRT_ProcessInfo, len(processes))
	for i, p := range processes {
		message := status.MessageOf(p.Failure)
		infos[i] = C.PJRT_ProcessInfo{struct_size: C.S_PJRT_ProcessInfo, task_id: C.int(p.TaskID), incarnation_id: C.uint64_t(p.IncarnationID), state: C.int(p.State),
			error_code: C.int(status.CodeOf(p.Failure)), error_message: pinString(message, &pinner), error_message_size: C.size_t(len(message))}
	}
	args := C.PJRT_Client_UpdateGlobalProcessInfo_Args{struct_size: C.S_PJRT_Client_UpdateGlobalProcessInfo_Args, client: c.handle, num_process_infos: C.size_t(len(infos))}
	if len(infos) > 0 {
		pinner.Pin(&infos[0])
		args.process_infos = &infos[0]
	}
	return c.plugin.call(C.FN_Client_UpdateGlobalProcessInfo, unsafe.Pointer(&args))
}
