package pjrt

// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"

	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Cross-host transfers extension: buffers from a process's devices to another's. Both sides name a
// transfer by the same key.

// Send queues the sending of buffers[i] to the device with the ID devices[i]. It gives an event for
// each, which the caller destroys.
func (c *Client) Send(buffers []*Buffer, devices, keys []int64) ([]*Event, error) {
	if len(buffers) == 0 || len(buffers) != len(devices) || len(buffers) != len(keys) {
		return nil, status.Errorf(status.InvalidArgument, "Send(): expected as many devices and keys as buffers, at least one, got %d buffers, %d devices and %d keys", len(buffers), len(devices), len(keys))
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	handles, events := make([]*C.PJRT_Buffer, len(buffers)), make([]*C.PJRT_Event, len(buffers))
	for i, b := range buffers {
		h, err := b.handle()
		if err != nil {
			return nil, err
		}
		handles[i] = h
	}
	pinner.Pin(&handles[0])
	pinner.Pin(&events[0])
	args := C.PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args{struct_size: C.S_PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args, client: c.handle, num_buffers: C.size_t(len(buffers)),
		buffers: &handles[0], dst_global_device_ids: pinInts(devices, &pinner), transfer_keys: pinInts(keys, &pinner), send_events: &events[0]}
	err := c.plugin.callExtension(C.XF_PJRT_Transfers_PJRT_Client_CrossHostSendBuffers, unsafe.Pointer(&args))
	runtime.KeepAlive(buffers)
	if err != nil {
		return nil, err
	}
	result := make([]*Event, len(events))
	for i, h := range events {
		result[i] = c.plugin.newEvent(h)
	}
	return result, nil
}

// Receive makes buffers on a device that get their values from the devices with the given IDs.
func (c *Client) Receive(shapes []shape.Shape, device *Device, devices, keys []int64) ([]*Buffer, error) {
	if len(shapes) == 0 || len(shapes) != len(devices) || len(shapes) != len(keys) {
		return nil, status.Errorf(status.InvalidArgument, "Receive(): expected as many devices and keys as shapes, at least one, got %d shapes, %d devices and %d keys", len(shapes), len(devices), len(keys))
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	n := len(shapes)
	ranks, dims, types := make([]C.size_t, n), make([]*C.int64_t, n), make([]C.int, n)
	layouts, handles := make([]*C.PJRT_Buffer_MemoryLayout, n), make([]*C.PJRT_Buffer, n)
	for i, s := range shapes {
		ranks[i], dims[i], types[i] = C.size_t(len(s.Dims)), pinInts(s.Dims, &pinner), C.int(s.Dtype.PJRT())
		layouts[i] = rowMajorLayout(len(s.Dims), &pinner)
	}
	for _, p := range []any{&ranks[0], &dims[0], &types[0], &layouts[0], &handles[0]} {
		pinner.Pin(p)
	}
	args := C.PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args{struct_size: C.S_PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args, client: c.handle, num_shapes: C.size_t(n),
		shape_num_dims: &ranks[0], num_dims: &dims[0], element_types: &types[0], layouts: &layouts[0], device: device.handle,
		src_global_device_ids: pinInts(devices, &pinner), transfer_keys: pinInts(keys, &pinner), buffers: &handles[0]}
	if err := c.plugin.callExtension(C.XF_PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	buffers := make([]*Buffer, n)
	for i, h := range handles {
		buffers[i] = c.adoptOne(h)
	}
	return buffers, nil
}
