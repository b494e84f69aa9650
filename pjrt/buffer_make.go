package pjrt

// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"

	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Uninitialized makes a buffer without a value on a device, for others to write into.
func (c *Client) Uninitialized(s shape.Shape, device *Device) (*Buffer, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	args := C.PJRT_Client_CreateUninitializedBuffer_Args{struct_size: C.S_PJRT_Client_CreateUninitializedBuffer_Args, client: c.handle, shape_dims: pinInts(s.Dims, &pinner),
		shape_num_dims: C.size_t(len(s.Dims)), shape_element_type: C.int(s.Dtype.PJRT()), shape_layout: rowMajorLayout(len(s.Dims), &pinner)}
	if device.defaultMemory != nil {
		args.memory = device.defaultMemory.handle
	} else {
		args.device = device.handle
	}
	if err := c.plugin.call(C.FN_Client_CreateUninitializedBuffer, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return c.adoptOne(args.buffer), nil
}

// ErrorBuffer makes a buffer that has failed: whatever uses it fails with the same error.
func (c *Client) ErrorBuffer(failure error, s shape.Shape, memory *Memory) (*Buffer, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	message := status.MessageOf(failure)
	args := C.PJRT_Client_CreateErrorBuffer_Args{struct_size: C.S_PJRT_Client_CreateErrorBuffer_Args, client: c.handle, error_code: C.int(status.CodeOf(failure)),
		error_message: pinString(message, &pinner), error_message_size: C.size_t(len(message)), shape_dims: pinInts(s.Dims, &pinner), shape_num_dims: C.size_t(len(s.Dims)),
		shape_element_type: C.int(s.Dtype.PJRT()), shape_layout: rowMajorLayout(len(s.Dims), &pinner), memory: memory.handle}
	if err := c.plugin.call(C.FN_Client_CreateErrorBuffer, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return c.adoptOne(args.buffer), nil
}

// Alias is the promise to say what a buffer of AliasBuffer stands for.
type Alias struct {
	client  *Client
	promise *C.PJRT_FulfillAliasBufferCallback
}

// AliasBuffer makes a buffer that will stand for another one, to be used as an argument before that
// one exists. The alias must be fulfilled, once, also where the other buffer never came to be.
func (c *Client) AliasBuffer(s shape.Shape, memory *Memory) (*Buffer, *Alias, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	args := C.PJRT_Client_CreateAliasBuffer_Args{struct_size: C.S_PJRT_Client_CreateAliasBuffer_Args, client: c.handle, memory: memory.handle, shape_dims: pinInts(s.Dims, &pinner),
		shape_num_dims: C.size_t(len(s.Dims)), shape_element_type: C.int(s.Dtype.PJRT()), shape_layout: rowMajorLayout(len(s.Dims), &pinner)}
	if err := c.plugin.call(C.FN_Client_CreateAliasBuffer, unsafe.Pointer(&args)); err != nil {
		return nil, nil, err
	}
	return c.adoptOne(args.alias_buffer), &Alias{c, args.fulfill_alias_buffer_cb}, nil
}

// Fulfill makes the alias stand for b, or fail with failure where b is nil. Plugins may take b's
// memory for it, so that b must only be destroyed afterwards.
func (a *Alias) Fulfill(b *Buffer, failure error) error {
	if a.promise == nil {
		return status.Errorf(status.FailedPrecondition, "Fulfill(): the alias has been fulfilled before")
	}
	args := C.PJRT_Client_FulfillAliasBuffer_Args{struct_size: C.S_PJRT_Client_FulfillAliasBuffer_Args, client: a.client.handle, fulfill_alias_buffer_cb: a.promise}
	if b != nil {
		h, err := b.handle()
		if err != nil {
			return err
		}
		args.buffer = h
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	message := status.MessageOf(failure)
	args.status_code = C.int(status.CodeOf(failure))
	args.error_message, args.error_message_size = pinString(message, &pinner), C.size_t(len(message))
	a.promise = nil
	err := a.client.plugin.call(C.FN_Client_FulfillAliasBuffer, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	return err
}

// DmaMap pins size bytes of host memory at an address outside of Go, so that the devices reach it
// directly, until DmaUnmap.
func (c *Client) DmaMap(address uintptr, size int64) error {
	args := C.PJRT_Client_DmaMap_Args{struct_size: C.S_PJRT_Client_DmaMap_Args, client: c.handle, size: C.size_t(size)}
	*(*uintptr)(unsafe.Pointer(&args.data)) = address
	return c.plugin.call(C.FN_Client_DmaMap, unsafe.Pointer(&args))
}

// DmaUnmap ends DmaMap of the same address.
func (c *Client) DmaUnmap(address uintptr) error {
	args := C.PJRT_Client_DmaUnmap_Args{struct_size: C.S_PJRT_Client_DmaUnmap_Args, client: c.handle}
	*(*uintptr)(unsafe.Pointer(&args.data)) = address
	return c.plugin.call(C.FN_Client_DmaUnmap, unsafe.Pointer(&args))
}
