package pjrt

// #include "calls.h"
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Buffer is an array in device memory. It may still be in the making: see IsReady and Await.
type Buffer struct {
	client *Client
	cell   *cell
	// What never changes again once it is known.
	state   atomic.Uint32 // of readiness: unknown, ready, failed
	address atomic.Uintptr
	failure atomic.Pointer[status.Error]
	// lending is held while an external reference is taken or given back: plugins keep the list of a
	// buffer's references without a lock, and crash where two threads change it.
	lending sync.Mutex
}

const (
	stateUnknown uint32 = iota
	stateReady
	stateFailed
)

// cell holds the plugin's buffer, nil once destroyed. Cells lie apart from their Buffers, so that
// the cleanup of a block of Buffers can reach them.
type cell struct{ handle unsafe.Pointer }

// block is memory for some Buffers, which share one cleanup: a cleanup of its own would cost a Buffer a
// sixth of the time of a small run. The net below a forgotten Buffer therefore waits until its
// neighbours are gone too, and a Buffer that lives long keeps its block, a kilobyte, alive.
type block struct {
	buffers []Buffer
	cells   []cell
	used    int
}

const blockSize = 16

func (c *Client) newBlock() *block {
	b := &block{buffers: make([]Buffer, blockSize), cells: make([]cell, blockSize)}
	runtime.AddCleanup(&b.buffers[0], c.sweep, b.cells)
	return b
}

// take makes the block's next Buffer; the block has room for it.
func (b *block) take(c *Client, handle uintptr) *Buffer {
	buffer, cell := &b.buffers[b.used], &b.cells[b.used]
	cell.handle = *(*unsafe.Pointer)(unsafe.Pointer(&handle))
	buffer.client, buffer.cell = c, cell
	b.used++
	return buffer
}

// adopt makes Buffers of the plugin's buffers, which have the same order as into.
func (c *Client) adopt(handles []uintptr, into []*Buffer) {
	b, _ := c.blocks.Get().(*block)
	for i, handle := range handles {
		if b == nil || b.used == blockSize {
			b = c.newBlock()
		}
		into[i] = b.take(c, handle)
	}
	if b != nil && b.used < blockSize {
		c.blocks.Put(b)
	}
	liveBuffers.Add(int64(len(handles)))
	c.buffers.Add(int64(len(handles)))
}

func (c *Client) adoptOne(handle *C.PJRT_Buffer) *Buffer {
	handles, into := [1]uintptr{uintptr(unsafe.Pointer(handle))}, [1]*Buffer{}
	c.adopt(handles[:], into[:])
	return into[0]
}

// sweep is the net below forgotten Buffers.
func (c *Client) sweep(cells []cell) {
	var handles [blockSize]uintptr
	n := 0
	for i := range cells {
		if h := atomic.SwapPointer(&cells[i].handle, nil); h != nil {
			handles[n] = uintptr(h)
			n++
		}
	}
	// An error here has nobody to go to.
	_ = c.destroyHandles(handles[:n])
}

func (c *Client) destroyHandles(handles []uintptr) error {
	if len(handles) == 0 {
		return nil
	}
	liveBuffers.Add(-int64(len(handles)))
	err := c.plugin.check(C.xg_buffers_destroy(c.plugin.api, (*C.uintptr_t)(unsafe.Pointer(&handles[0])), C.size_t(len(handles))))
	c.buffers.Add(-int64(len(handles)))
	return err
}

// Destroy frees the buffer; its memory goes once queued work that uses it is done. Idempotent. Not blocking.
func (b *Buffer) Destroy() error {
	h := atomic.SwapPointer(&b.cell.handle, nil)
	if h == nil {
		return nil
	}
	handle := [1]uintptr{uintptr(h)}
	return b.client.destroyHandles(handle[:])
}

// DestroyAll destroys buffers of one client in one crossing; it gives the first error and goes on.
func DestroyAll(buffers []*Buffer) error {
	handles := make([]uintptr, 0, len(buffers))
	var client *Client
	for _, b := range buffers {
		if h := atomic.SwapPointer(&b.cell.handle, nil); h != nil {
			handles, client = append(handles, uintptr(h)), b.client
		}
	}
	if client == nil {
		return nil
	}
	return client.destroyHandles(handles)
}

func (b *Buffer) handle() (*C.PJRT_Buffer, error) {
	h := atomic.LoadPointer(&b.cell.handle)
	if h == nil {
		return nil, status.Errorf(status.FailedPrecondition, "the buffer has been destroyed")
	}
	return (*C.PJRT_Buffer)(h), nil
}

// Identity is a number that is the same for the same device memory while it is alive, 0 once destroyed.
func (b *Buffer) Identity() uintptr { return uintptr(atomic.LoadPointer(&b.cell.handle)) }

// Client is the client that made the buffer.
func (b *Buffer) Client() *Client { return b.client }

// settle records the outcome of a question about readiness.
func (b *Buffer) settle(err error) error {
	if err == nil {
		b.state.Store(stateReady)
		return nil
	}
	failure := status.Errorf(status.CodeOf(err), "%s", status.MessageOf(err))
	b.failure.CompareAndSwap(nil, failure)
	b.state.Store(stateFailed)
	return b.failure.Load()
}

// known gives the readiness that needs no call.
func (b *Buffer) known() (ready bool, err error) {
	switch b.state.Load() {
	case stateReady:
		return true, nil
	case stateFailed:
		return true, b.failure.Load()
	}
	return false, nil
}

// IsReady says whether the value is there. A value that has failed is ready, with its error.
// ready is false with an error where the question itself failed. Not blocking.
func (b *Buffer) IsReady() (ready bool, err error) {
	if ready, err = b.known(); ready {
		return ready, err
	}
	h, err := b.handle()
	if err != nil {
		return false, err
	}
	poll := C.xg_buffer_poll(b.client.plugin.api, h, false)
	err = b.client.plugin.check(poll.result)
	runtime.KeepAlive(b)
	if !poll.ready {
		return false, err
	}
	return true, b.settle(err)
}

// maxWaitingThreads bounds the OS threads that Await blocks. A thread is woken some tens of microseconds
// sooner than a goroutine through a callback, but a thousand threads are no use to anyone.
const maxWaitingThreads = 8

var waitingThreads atomic.Int32

// Await waits for the value and gives the error that it failed with. BLOCKING. The first few callers
// hold an OS thread each, others only where the plugin cannot call back.
func (b *Buffer) Await() error {
	if ready, err := b.IsReady(); ready || err != nil {
		return err
	}
	defer waitingThreads.Add(-1)
	if waitingThreads.Add(1) <= maxWaitingThreads {
		h, err := b.handle()
		if err != nil {
			return err
		}
		err = b.client.plugin.check(C.xg_buffer_await(b.client.plugin.api, h))
		runtime.KeepAlive(b)
		return b.settle(err)
	}
	e, err := b.ReadyEvent()
	if err != nil {
		return err
	}
	defer e.Destroy()
	outcome := make(chan error, 1)
	if e.OnReady(func(err error) { outcome <- err }) != nil {
		return b.settle(e.Await())
	}
	return b.settle(<-outcome)
}

// ReadyEvent gives an event for the value; the caller destroys it.
func (b *Buffer) ReadyEvent() (*Event, error) {
	h, err := b.handle()
	if err != nil {
		return nil, err
	}
	args := C.PJRT_Buffer_ReadyEvent_Args{struct_size: C.S_PJRT_Buffer_ReadyEvent_Args, buffer: h}
	err = b.client.plugin.call(C.FN_Buffer_ReadyEvent, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	if err != nil {
		return nil, err
	}
	return b.client.plugin.newEvent(args.event), nil
}

// UnsafePointer gives the address in device memory of a value that is ready. It stays valid until
// the buffer is destroyed or donated.
func (b *Buffer) UnsafePointer() (uintptr, error) {
	if a := b.address.Load(); a != 0 {
		return a, nil
	}
	h, err := b.handle()
	if err != nil {
		return 0, err
	}
	args := C.PJRT_Buffer_UnsafePointer_Args{struct_size: C.S_PJRT_Buffer_UnsafePointer_Args, buffer: h}
	err = b.client.plugin.call(C.FN_Buffer_UnsafePointer, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	if err != nil {
		return 0, err
	}
	b.address.Store(uintptr(args.buffer_pointer))
	return uintptr(args.buffer_pointer), nil
}

// Lend gives the address of a value that is ready and takes an external reference, which keeps the
// memory from being donated until Return. ready is false, without a reference, where the value is
// still in the making. One crossing. Not blocking.
func (b *Buffer) Lend() (address uintptr, ready bool, err error) {
	h, err := b.handle()
	if err != nil {
		return 0, false, err
	}
	if known, err := b.known(); known {
		if err != nil {
			return 0, true, err
		}
		if a := b.address.Load(); a != 0 {
			return a, true, b.reference(h, true)
		}
	}
	b.lending.Lock()
	poll := C.xg_buffer_lend(b.client.plugin.api, h)
	b.lending.Unlock()
	err = b.client.plugin.check(poll.result)
	runtime.KeepAlive(b)
	if err != nil {
		// Either the value failed or it was donated; the next question will tell which.
		return 0, bool(poll.ready), err
	}
	if !poll.ready {
		return 0, false, nil
	}
	b.settle(nil)
	b.address.Store(uintptr(poll.address))
	return uintptr(poll.address), true, nil
}

// Return gives back what Lend took.
func (b *Buffer) Return() error {
	h, err := b.handle()
	if err != nil {
		return err
	}
	return b.reference(h, false)
}

func (b *Buffer) reference(h *C.PJRT_Buffer, up bool) error {
	b.lending.Lock()
	result := C.xg_buffer_reference(b.client.plugin.api, h, C.bool(up))
	b.lending.Unlock()
	err := b.client.plugin.check(result)
	runtime.KeepAlive(b)
	return err
}

// IsDeleted says whether the memory is gone: deleted, or donated to an execution.
func (b *Buffer) IsDeleted() bool {
	h, err := b.handle()
	if err != nil {
		return true
	}
	args := C.PJRT_Buffer_IsDeleted_Args{struct_size: C.S_PJRT_Buffer_IsDeleted_Args, buffer: h}
	err = b.client.plugin.call(C.FN_Buffer_IsDeleted, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	return err == nil && bool(args.is_deleted)
}

// Delete frees the memory and leaves the buffer as a shell that still has to be destroyed.
func (b *Buffer) Delete() error {
	h, err := b.handle()
	if err != nil {
		return err
	}
	args := C.PJRT_Buffer_Delete_Args{struct_size: C.S_PJRT_Buffer_Delete_Args, buffer: h}
	err = b.client.plugin.call(C.FN_Buffer_Delete, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	return err
}

// Shape asks the plugin for element type and dimensions.
func (b *Buffer) Shape() (shape.Shape, error) {
	h, err := b.handle()
	if err != nil {
		return shape.Shape{}, err
	}
	defer runtime.KeepAlive(b)
	element := C.PJRT_Buffer_ElementType_Args{struct_size: C.S_PJRT_Buffer_ElementType_Args, buffer: h}
	if err := b.client.plugin.call(C.FN_Buffer_ElementType, unsafe.Pointer(&element)); err != nil {
		return shape.Shape{}, err
	}
	dims := C.PJRT_Buffer_Dimensions_Args{struct_size: C.S_PJRT_Buffer_Dimensions_Args, buffer: h}
	if err := b.client.plugin.call(C.FN_Buffer_Dimensions, unsafe.Pointer(&dims)); err != nil {
		return shape.Shape{}, err
	}
	return shape.Make(dtype.FromPJRT(int32(element._type)), copyInt64(dims.dims, dims.num_dims)...), nil
}

func copyInt64(p *C.int64_t, n C.size_t) []int64 {
	if n == 0 {
		return nil
	}
	return append([]int64(nil), unsafe.Slice((*int64)(unsafe.Pointer(p)), int(n))...)
}

// OnDeviceSize gives the bytes that the value takes on its device, padding included.
func (b *Buffer) OnDeviceSize() (int64, error) {
	h, err := b.handle()
	if err != nil {
		return 0, err
	}
	args := C.PJRT_Buffer_OnDeviceSizeInBytes_Args{struct_size: C.S_PJRT_Buffer_OnDeviceSizeInBytes_Args, buffer: h}
	err = b.client.plugin.call(C.FN_Buffer_OnDeviceSizeInBytes, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	return int64(args.on_device_size_in_bytes), err
}

// IsRowMajor says whether the device layout is dense and row-major; known is false where the
// plugin does not tell its layouts.
func (b *Buffer) IsRowMajor() (rowMajor, known bool) {
	h, err := b.handle()
	if err != nil {
		return false, false
	}
	args := C.PJRT_Buffer_GetMemoryLayout_Args{struct_size: C.S_PJRT_Buffer_GetMemoryLayout_Args, buffer: h}
	err = b.client.plugin.call(C.FN_Buffer_GetMemoryLayout, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	if err != nil || args.layout._type != C.LAYOUT_TILED {
		return false, false
	}
	tiled := (*C.PJRT_Buffer_MemoryLayout_Tiled)(unsafe.Pointer(&args.layout.anon0))
	if tiled.num_tiles != 0 {
		return false, true
	}
	order := unsafe.Slice((*int64)(unsafe.Pointer(tiled.minor_to_major)), int(tiled.minor_to_major_size))
	for i, d := range order {
		if d != int64(len(order)-1-i) {
			return false, true
		}
	}
	return true, true
}

// Memory gives the memory that the buffer lies in, nil where the plugin does not say.
func (b *Buffer) Memory() *Memory {
	h, err := b.handle()
	if err != nil {
		return nil
	}
	args := C.PJRT_Buffer_Memory_Args{struct_size: C.S_PJRT_Buffer_Memory_Args, buffer: h}
	err = b.client.plugin.call(C.FN_Buffer_Memory, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	if err != nil {
		return nil
	}
	for _, m := range b.client.memories {
		if m.handle == args.memory {
			return m
		}
	}
	return nil
}

// Device gives the device that the buffer lies on.
func (b *Buffer) Device() (*Device, error) {
	h, err := b.handle()
	if err != nil {
		return nil, err
	}
	args := C.PJRT_Buffer_Device_Args{struct_size: C.S_PJRT_Buffer_Device_Args, buffer: h}
	err = b.client.plugin.call(C.FN_Buffer_Device, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	if err != nil {
		return nil, err
	}
	return b.client.device(args.device)
}

// CopyTo queues a copy to a device of the same client. Not blocking.
func (b *Buffer) CopyTo(device *Device) (*Buffer, error) {
	h, err := b.handle()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(b)
	// Newer plugins copy between memories; the call that takes a device is the older one.
	if device.defaultMemory != nil && b.client.plugin.hasFunction(C.FN_Buffer_CopyToMemory) {
		return b.CopyToMemory(device.defaultMemory)
	}
	args := C.PJRT_Buffer_CopyToDevice_Args{struct_size: C.S_PJRT_Buffer_CopyToDevice_Args, buffer: h, dst_device: device.handle}
	if err := b.client.plugin.call(C.FN_Buffer_CopyToDevice, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return b.client.adoptOne(args.dst_buffer), nil
}

// CopyToMemory queues a copy to a memory of the same client. Not blocking.
func (b *Buffer) CopyToMemory(memory *Memory) (*Buffer, error) {
	h, err := b.handle()
	if err != nil {
		return nil, err
	}
	args := C.PJRT_Buffer_CopyToMemory_Args{struct_size: C.S_PJRT_Buffer_CopyToMemory_Args, buffer: h, dst_memory: memory.handle}
	err = b.client.plugin.call(C.FN_Buffer_CopyToMemory, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	if err != nil {
		return nil, err
	}
	return b.client.adoptOne(args.dst_buffer), nil
}
