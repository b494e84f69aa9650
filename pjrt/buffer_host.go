package pjrt

// #include "calls.h"
import "C"

import (
	"runtime"
	"runtime/cgo"
	"sync"
	"unsafe"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/status"
)

// FromHost queues an upload to a device and gives the buffer. With done nil the memory has been
// read when it returns. Otherwise the plugin may go on reading, and done is called once, from any
// thread, when it no longer does (also after an error of the upload); done must not block.
// If FromHost itself fails done is not called.
func (c *Client) FromHost(host Host, device *Device, done func()) (*Buffer, error) {
	semantics := C.int(C.HOST_IMMUTABLE_ONLY_DURING_CALL)
	if done != nil {
		semantics = C.HOST_IMMUTABLE_UNTIL_TRANSFER_COMPLETES
	}
	return c.fromHost(host, device.handle, nil, semantics, done)
}

// FromHostToMemory is FromHost into one of the memories of a device.
func (c *Client) FromHostToMemory(host Host, memory *Memory, done func()) (*Buffer, error) {
	semantics := C.int(C.HOST_IMMUTABLE_ONLY_DURING_CALL)
	if done != nil {
		semantics = C.HOST_IMMUTABLE_UNTIL_TRANSFER_COMPLETES
	}
	return c.fromHost(host, nil, memory.handle, semantics, done)
}

// FromHostZeroCopy lets the buffer use the host memory itself where the plugin can; nobody may write
// to it before done, which may come as late as the end of the buffer. The memory must lie outside
// of Go (Host.Address).
func (c *Client) FromHostZeroCopy(host Host, device *Device, done func()) (*Buffer, error) {
	if host.Bytes != nil || done == nil {
		return nil, status.Errorf(status.InvalidArgument, "FromHostZeroCopy(): expected memory by address and a function to call when it is free, got Go memory or none")
	}
	return c.fromHost(host, device.handle, nil, C.HOST_IMMUTABLE_ZERO_COPY, done)
}

// FromHostTaken lets the buffer take the host memory over where the plugin can: it then belongs to the device until
// done, and a program that consumes the buffer writes its result there, so that done may come with the end of another
// buffer. The memory must lie outside of Go (Host.Address), dense and row-major.
func (c *Client) FromHostTaken(host Host, device *Device, done func()) (*Buffer, error) {
	if host.Bytes != nil || done == nil {
		return nil, status.Errorf(status.InvalidArgument, "FromHostTaken(): expected memory by address and a function to call when it is free, got Go memory or none")
	}
	return c.fromHost(host, device.handle, nil, C.HOST_MUTABLE_ZERO_COPY, done)
}

func (c *Client) fromHost(host Host, device *C.PJRT_Device, memory *C.PJRT_Memory, semantics C.int, done func()) (*Buffer, error) {
	call := fromHostCalls.Get().(*fromHostCall)
	defer fromHostCalls.Put(call)
	var data unsafe.Pointer
	if len(host.Bytes) > 0 {
		data = unsafe.Pointer(&host.Bytes[0])
	}
	var dims, strides *C.int64_t
	if len(host.Dims) > 0 {
		dims = (*C.int64_t)(unsafe.Pointer(&host.Dims[0]))
	}
	if len(host.ByteStrides) > 0 {
		strides = (*C.int64_t)(unsafe.Pointer(&host.ByteStrides[0]))
	}
	address := host.Address
	if data == nil && address == 0 {
		address = uintptr(unsafe.Pointer(&emptyArray)) // plugins refuse NULL even for no bytes
	}
	err := c.plugin.check(C.xg_buffer_from_host(c.plugin.api, c.handle, C.uintptr_t(address), data,
		C.int(host.Dtype.PJRT()), dims, C.size_t(len(host.Dims)), strides, semantics, device, memory, &call.done, &call.buffer))
	event, handle := call.done, call.buffer
	call.done, call.buffer = nil, nil
	if handle == nil {
		return nil, err
	}
	b := c.adoptOne(handle)
	if err != nil {
		b.Destroy()
		return nil, err
	}
	if done == nil {
		return b, nil
	}
	c.plugin.whenDone(event, func(error) { done() })
	return b, nil
}

var emptyArray [64]byte

type fromHostCall struct {
	done   *C.PJRT_Event
	buffer *C.PJRT_Buffer
}

var fromHostCalls = sync.Pool{New: func() any { return new(fromHostCall) }}

// View makes a buffer over memory that somebody else owns, dense and row-major, at an address that
// the device can use. release (may be nil) is called once when the plugin no longer needs it.
func (c *Client) View(address uintptr, d dtype.Dtype, dims []int64, device *Device, release func()) (*Buffer, error) {
	var handle cgo.Handle
	if release != nil {
		handle = cgo.NewHandle(release)
	}
	var sizes *C.int64_t
	if len(dims) > 0 {
		sizes = (*C.int64_t)(unsafe.Pointer(&dims[0]))
	}
	var buffer *C.PJRT_Buffer
	if err := c.plugin.check(C.xg_buffer_view(c.plugin.api, c.handle, C.uintptr_t(address), C.int(d.PJRT()), sizes,
		C.size_t(len(dims)), device.handle, C.uintptr_t(handle), &buffer)); err != nil {
		if release != nil {
			handle.Delete()
		}
		return nil, err
	}
	return c.adoptOne(buffer), nil
}

// Read copies a value out of memory that the CPU can read, as it lies there, and waits for it.
// One crossing where the value is ready. BLOCKING.
func (b *Buffer) Read(dst []byte) error {
	if len(dst) == 0 {
		return b.Await()
	}
	if len(dst) > copyAlone {
		return b.readLarge(dst)
	}
	for {
		h, err := b.handle()
		if err != nil {
			return err
		}
		b.lending.Lock()
		poll := C.xg_buffer_read(b.client.plugin.api, h, unsafe.Pointer(&dst[0]), C.size_t(len(dst)))
		b.lending.Unlock()
		err = b.client.plugin.check(poll.result)
		runtime.KeepAlive(b)
		if err != nil || bool(poll.ready) {
			return err
		}
		if err := b.Await(); err != nil {
			return err
		}
	}
}

// readLarge is Read on several threads.
func (b *Buffer) readLarge(dst []byte) error {
	for {
		address, ready, err := b.Lend()
		if err != nil {
			return err
		}
		if ready {
			ReadAddress(address, dst)
			return b.Return()
		}
		if err := b.Await(); err != nil {
			return err
		}
	}
}

// ToHost copies the value to host memory, dense and row-major, and waits for it. BLOCKING.
// len(dst) is the dense size; rank the number of dimensions.
func (b *Buffer) ToHost(dst []byte, rank int) error {
	if len(dst) == 0 {
		return b.Await()
	}
	return b.toHost(0, unsafe.Pointer(&dst[0]), len(dst), rank)
}

// ToHostAddress is ToHost for memory outside of Go.
func (b *Buffer) ToHostAddress(address uintptr, size, rank int) error {
	if size == 0 {
		return b.Await()
	}
	return b.toHost(address, nil, size, rank)
}

func (b *Buffer) toHost(address uintptr, dst unsafe.Pointer, size, rank int) error {
	h, err := b.handle()
	if err != nil {
		return err
	}
	err = b.client.plugin.check(C.xg_buffer_to_host(b.client.plugin.api, h, C.size_t(rank), C.uintptr_t(address), dst, C.size_t(size)))
	runtime.KeepAlive(b)
	return err
}
