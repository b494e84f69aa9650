package pjrt

// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"

	"xla_go/gosrc/status"
)

// RawBuffer is the memory of a Buffer without its shape. RawBuffer extension.
type RawBuffer struct {
	object
	client *Client
}

// Raw gives an alias of the buffer's memory; the caller destroys it.
func (b *Buffer) Raw() (*RawBuffer, error) {
	h, err := b.handle()
	if err != nil {
		return nil, err
	}
	p := b.client.plugin
	args := C.PJRT_RawBuffer_CreateRawAliasOfBuffer_Args{struct_size: C.S_PJRT_RawBuffer_CreateRawAliasOfBuffer_Args, buffer: h}
	err = p.callExtension(C.XF_PJRT_RawBuffer_CreateRawAliasOfBuffer, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	if err != nil {
		return nil, err
	}
	c := b.client
	r := &RawBuffer{client: c}
	c.others.Add(1)
	hold(r, &r.object, p, unsafe.Pointer(args.raw_buffer), func(h unsafe.Pointer) error {
		defer c.others.Add(-1)
		args := C.PJRT_RawBuffer_Destroy_Args{struct_size: C.S_PJRT_RawBuffer_Destroy_Args, buffer: (*C.PJRT_RawBuffer)(h)}
		return p.callExtension(C.XF_PJRT_RawBuffer_Destroy, unsafe.Pointer(&args))
	})
	return r, nil
}

func (r *RawBuffer) raw() (*C.PJRT_RawBuffer, error) {
	h, err := r.get()
	return (*C.PJRT_RawBuffer)(h), err
}

// Size is the bytes that the memory takes on its device.
func (r *RawBuffer) Size() (int64, error) {
	h, err := r.raw()
	if err != nil {
		return 0, err
	}
	args := C.PJRT_RawBuffer_GetOnDeviceSizeInBytes_Args{struct_size: C.S_PJRT_RawBuffer_GetOnDeviceSizeInBytes_Args, buffer: h}
	err = r.plugin.callExtension(C.XF_PJRT_RawBuffer_GetOnDeviceSizeInBytes, unsafe.Pointer(&args))
	runtime.KeepAlive(r)
	return int64(args.on_device_size_in_bytes), err
}

// Memory is the memory that it lies in.
func (r *RawBuffer) Memory() (*Memory, error) {
	h, err := r.raw()
	if err != nil {
		return nil, err
	}
	args := C.PJRT_RawBuffer_GetMemorySpace_Args{struct_size: C.S_PJRT_RawBuffer_GetMemorySpace_Args, buffer: h}
	err = r.plugin.callExtension(C.XF_PJRT_RawBuffer_GetMemorySpace, unsafe.Pointer(&args))
	runtime.KeepAlive(r)
	if err != nil {
		return nil, err
	}
	for _, m := range r.client.memories {
		if m.handle == args.memory_space {
			return m, nil
		}
	}
	return nil, status.Errorf(status.Internal, "the plugin named a memory that no device of its client has")
}

// HostPointer is the address for the CPU, 0 where it cannot read the memory.
func (r *RawBuffer) HostPointer() (uintptr, error) {
	h, err := r.raw()
	if err != nil {
		return 0, err
	}
	args := C.PJRT_RawBuffer_GetHostPointer_Args{struct_size: C.S_PJRT_RawBuffer_GetHostPointer_Args, buffer: h}
	err = r.plugin.callExtension(C.XF_PJRT_RawBuffer_GetHostPointer, unsafe.Pointer(&args))
	runtime.KeepAlive(r)
	return uintptr(args.host_pointer), err
}

// StartWrite queues a copy of src to a byte offset. src is pinned until done, which is called once,
// from any thread, and must not block. If StartWrite itself fails done is not called.
func (r *RawBuffer) StartWrite(src []byte, offset int64, done func(error)) error {
	h, err := r.raw()
	if err != nil {
		return err
	}
	pinner := new(runtime.Pinner)
	args := C.PJRT_RawBuffer_CopyRawHostToDevice_Args{struct_size: C.S_PJRT_RawBuffer_CopyRawHostToDevice_Args, buffer: h, src: pinData(src, pinner), offset: C.int64_t(offset), transfer_size: C.int64_t(len(src))}
	err = r.plugin.callExtension(C.XF_PJRT_RawBuffer_CopyRawHostToDevice, unsafe.Pointer(&args))
	runtime.KeepAlive(r)
	return r.plugin.started(err, args.event, pinner, done)
}

// StartRead queues a copy of len(dst) bytes at a byte offset. dst and done as in StartWrite.
func (r *RawBuffer) StartRead(dst []byte, offset int64, done func(error)) error {
	h, err := r.raw()
	if err != nil {
		return err
	}
	pinner := new(runtime.Pinner)
	args := C.PJRT_RawBuffer_CopyRawDeviceToHost_Args{struct_size: C.S_PJRT_RawBuffer_CopyRawDeviceToHost_Args, buffer: h, dst: pinData(dst, pinner), offset: C.int64_t(offset), transfer_size: C.int64_t(len(dst))}
	err = r.plugin.callExtension(C.XF_PJRT_RawBuffer_CopyRawDeviceToHost, unsafe.Pointer(&args))
	runtime.KeepAlive(r)
	return r.plugin.started(err, args.event, pinner, done)
}
