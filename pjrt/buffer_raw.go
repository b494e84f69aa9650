package pjrt

// #include "extensions.h"
import "C"

import (
	"context"
	"runtime"
	"sync"
	"unsafe"

	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// StartToHost queues a copy of the value to host memory, dense and row-major. dst is pinned until
// done, which is called once, from any thread, and must not block. rank is the number of
// dimensions. Not blocking. If StartToHost itself fails done is not called.
func (b *Buffer) StartToHost(dst []byte, rank int, done func(error)) error {
	h, err := b.handle()
	if err != nil {
		return err
	}
	pinner := new(runtime.Pinner)
	var event *C.PJRT_Event
	err = b.client.plugin.check(C.xg_buffer_start_to_host(b.client.plugin.api, h, C.size_t(rank), 0, pinData(dst, pinner), C.size_t(len(dst)), &event))
	runtime.KeepAlive(b)
	return b.client.plugin.started(err, event, pinner, done)
}

// ToHostContext is ToHost that gives up when ctx does; the copy goes on then and dst must not be
// used again. BLOCKING, without holding an OS thread.
func (b *Buffer) ToHostContext(ctx context.Context, dst []byte, rank int) error {
	return awaitStarted(ctx, func(done func(error)) error { return b.StartToHost(dst, rank, done) })
}

func awaitStarted(ctx context.Context, start func(done func(error)) error) error {
	outcome := make(chan error, 1)
	if err := start(func(err error) { outcome <- err }); err != nil {
		return err
	}
	return awaitOutcome(ctx, outcome)
}

// AwaitContext is Await that gives up when ctx does. BLOCKING, without holding an OS thread.
func (b *Buffer) AwaitContext(ctx context.Context) error {
	if ready, err := b.known(); ready {
		return err
	}
	event, err := b.ReadyEvent()
	if err != nil {
		return err
	}
	defer event.Destroy()
	return event.AwaitContext(ctx)
}

// StartReadRaw queues a copy of len(dst) bytes at a byte offset of the value, as it lies in device
// memory: a chunk of it. dst and done as in StartToHost.
func (b *Buffer) StartReadRaw(dst []byte, offset int64, done func(error)) error {
	h, err := b.handle()
	if err != nil {
		return err
	}
	pinner := new(runtime.Pinner)
	args := C.PJRT_Buffer_CopyRawToHost_Args{struct_size: C.S_PJRT_Buffer_CopyRawToHost_Args, buffer: h, dst: pinData(dst, pinner), offset: C.int64_t(offset), transfer_size: C.int64_t(len(dst))}
	err = b.client.plugin.call(C.FN_Buffer_CopyRawToHost, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	return b.client.plugin.started(err, args.event, pinner, done)
}

// ReadRaw is StartReadRaw that waits. BLOCKING, without holding an OS thread.
func (b *Buffer) ReadRaw(ctx context.Context, dst []byte, offset int64) error {
	return awaitStarted(ctx, func(done func(error)) error { return b.StartReadRaw(dst, offset, done) })
}

// PromisedRead is a read whose destination is named after it was queued.
type PromisedRead struct {
	plugin *Plugin
	args   *C.PJRT_Buffer_CopyRawToHostFuture_Args
	once   sync.Once
	pinner runtime.Pinner
}

// PromiseReadRaw queues a copy of size bytes at a byte offset, whose destination Fulfil names. done
// is called once with its outcome; it must not block. The promise must be fulfilled or broken.
func (b *Buffer) PromiseReadRaw(offset, size int64, done func(error)) (*PromisedRead, error) {
	h, err := b.handle()
	if err != nil {
		return nil, err
	}
	r := &PromisedRead{plugin: b.client.plugin, args: new(C.PJRT_Buffer_CopyRawToHostFuture_Args)}
	*r.args = C.PJRT_Buffer_CopyRawToHostFuture_Args{struct_size: C.S_PJRT_Buffer_CopyRawToHostFuture_Args, buffer: h, offset: C.int64_t(offset), transfer_size: C.int64_t(size)}
	err = r.plugin.call(C.FN_Buffer_CopyRawToHostFuture, unsafe.Pointer(r.args))
	runtime.KeepAlive(b)
	if err != nil {
		return nil, err
	}
	liveOthers.Add(1)
	r.plugin.whenDone(r.args.event, func(err error) { r.pinner.Unpin(); done(err) })
	return r, nil
}

// Fulfil names the destination. Only the first of Fulfil and Break counts.
func (r *PromisedRead) Fulfil(dst []byte) {
	r.once.Do(func() {
		r.end(nil, uintptr(pinData(dst, &r.pinner)))
	})
}

// Break makes the read fail.
func (r *PromisedRead) Break(failure error) { r.once.Do(func() { r.end(failure, 0) }) }

func (r *PromisedRead) end(failure error, dst uintptr) {
	liveOthers.Add(-1)
	var pinner runtime.Pinner
	defer pinner.Unpin()
	message := status.MessageOf(failure)
	C.xg_raw_copy_ready(r.args, C.int(status.CodeOf(failure)), pinString(message, &pinner), C.size_t(len(message)), C.uintptr_t(dst))
}

// DonateAfter gives a buffer over the same memory, in place of b, that is not ready before ready is
// called with nil; with an error it fails. b must only be destroyed afterwards.
func (b *Buffer) DonateAfter() (after *Buffer, ready func(error), err error) {
	h, err := b.handle()
	if err != nil {
		return nil, nil, err
	}
	args := C.PJRT_Buffer_DonateWithControlDependency_Args{struct_size: C.S_PJRT_Buffer_DonateWithControlDependency_Args, buffer: h}
	err = b.client.plugin.call(C.FN_Buffer_DonateWithControlDependency, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	if err != nil {
		return nil, nil, err
	}
	callback, data := unsafe.Pointer(args.dependency_ready_callback), args.callback_data
	var once sync.Once
	return b.client.adoptOne(args.out_buffer), func(failure error) {
		once.Do(func() {
			var pinner runtime.Pinner
			defer pinner.Unpin()
			message := status.MessageOf(failure)
			C.xg_dependency_ready(callback, data, C.int(status.CodeOf(failure)), pinString(message, &pinner), C.size_t(len(message)))
		})
	}, nil
}

// Bitcast gives a buffer over the same memory with another element type and other dimensions of
// the same size, row-major.
func (b *Buffer) Bitcast(to shape.Shape) (*Buffer, error) {
	h, err := b.handle()
	if err != nil {
		return nil, err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	args := C.PJRT_Buffer_Bitcast_Args{struct_size: C.S_PJRT_Buffer_Bitcast_Args, buffer: h, element_type: C.int(to.Dtype.PJRT()), dims: pinInts(to.Dims, &pinner),
		num_dims: C.size_t(len(to.Dims)), device_layout: rowMajorLayout(len(to.Dims), &pinner)}
	err = b.client.plugin.call(C.FN_Buffer_Bitcast, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	if err != nil {
		return nil, err
	}
	return b.client.adoptOne(args.out_buffer), nil
}

// UnpaddedDimensions gives the dimensions without the padding that dynamic shapes bring.
func (b *Buffer) UnpaddedDimensions() ([]int64, error) {
	h, err := b.handle()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(b)
	args := C.PJRT_Buffer_UnpaddedDimensions_Args{struct_size: C.S_PJRT_Buffer_UnpaddedDimensions_Args, buffer: h}
	if err := b.client.plugin.call(C.FN_Buffer_UnpaddedDimensions, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return copyInt64(args.unpadded_dims, args.num_dims), nil
}

// DynamicDimensions gives the positions of dimensions whose size is only known at run time.
func (b *Buffer) DynamicDimensions() ([]int, error) {
	h, err := b.handle()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(b)
	args := C.PJRT_Buffer_DynamicDimensionIndices_Args{struct_size: C.S_PJRT_Buffer_DynamicDimensionIndices_Args, buffer: h}
	if err := b.client.plugin.call(C.FN_Buffer_DynamicDimensionIndices, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	positions := make([]int, int(args.num_dynamic_dims))
	for i := range positions {
		positions[i] = int(unsafe.Slice(args.dynamic_dim_indices, len(positions))[i])
	}
	return positions, nil
}

// IsOnCPU says whether the value lies in memory that the CPU can read.
func (b *Buffer) IsOnCPU() (bool, error) {
	h, err := b.handle()
	if err != nil {
		return false, err
	}
	args := C.PJRT_Buffer_IsOnCpu_Args{struct_size: C.S_PJRT_Buffer_IsOnCpu_Args, buffer: h}
	err = b.client.plugin.call(C.FN_Buffer_IsOnCpu, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	return bool(args.is_on_cpu), err
}

// OpaquePointer gives the plugin's own pointer to the memory, which need not be an address. Valid
// while an external reference is held (Lend).
func (b *Buffer) OpaquePointer() (uintptr, error) {
	h, err := b.handle()
	if err != nil {
		return 0, err
	}
	args := C.PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args{struct_size: C.S_PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args, buffer: h}
	err = b.client.plugin.call(C.FN_Buffer_OpaqueDeviceMemoryDataPointer, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	return uintptr(args.device_memory_ptr), err
}
