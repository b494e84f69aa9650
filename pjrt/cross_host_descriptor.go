package pjrt

// #include "cross_host.h"
import "C"

import (
	"runtime"
	"runtime/cgo"
	"unsafe"

	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// The older functions of the cross-host transfers extension: whoever receives makes a descriptor for
// each buffer, and whoever sends has to be told of it.

// Promised are transfers that a client waits for.
type Promised struct {
	// Descriptors are what the sender needs, one for each buffer.
	Descriptors [][]byte

	plugin            *Plugin
	cancel, cancelArg C.uintptr_t
}

// MakeReceiveBuffers makes buffers on a device that get their values from whoever is given their
// descriptors (Buffer.SendTo). ready is called once, from any thread or at once, with the descriptors or
// the reason why there are none; it must not block. Not blocking.
func (c *Client) MakeReceiveBuffers(shapes []shape.Shape, device *Device, ready func(*Promised, error)) ([]*Buffer, error) {
	if len(shapes) == 0 {
		return nil, status.Errorf(status.InvalidArgument, "MakeReceiveBuffers(): expected at least one shape, got none")
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	ranks, dims, types, layouts, handles := describeShapes(shapes, &pinner)
	args := C.PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args{struct_size: C.S_PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args, client: c.handle, num_shapes: C.size_t(len(shapes)),
		shape_num_dims: &ranks[0], num_dims: &dims[0], element_types: &types[0], layouts: &layouts[0], device: device.handle, buffers: &handles[0]}
	callback := cgo.NewHandle(&receiveCallback{c.plugin, ready})
	liveCallbacks.Add(1)
	if err := c.plugin.check(C.xg_make_receive_buffers(c.plugin.api, &args, C.uintptr_t(callback))); err != nil {
		callback.Delete()
		liveCallbacks.Add(-1)
		return nil, err
	}
	buffers := make([]*Buffer, min(int(args.num_buffers), len(handles)))
	for i := range buffers {
		buffers[i] = c.adoptOne(handles[i])
	}
	if len(buffers) != len(shapes) {
		DestroyAll(buffers)
		return nil, status.Errorf(status.Internal, "the plugin made %d buffers for %d shapes", int(args.num_buffers), len(shapes))
	}
	return buffers, nil
}

type receiveCallback struct {
	plugin *Plugin
	ready  func(*Promised, error)
}

// xgReceiveReady is called by cross_host.c, once.
//
//export xgReceiveReady
func xgReceiveReady(handle C.uintptr_t, e *C.PJRT_Error, descriptors **C.char, sizes *C.size_t, n C.size_t, cancel, cancelArg C.uintptr_t) {
	h := cgo.Handle(handle)
	callback := h.Value().(*receiveCallback)
	h.Delete()
	liveCallbacks.Add(-1)
	if e != nil {
		callback.ready(nil, callback.plugin.takeError(e))
		return
	}
	promised := &Promised{plugin: callback.plugin, cancel: cancel, cancelArg: cancelArg}
	for i, descriptor := range unsafe.Slice(descriptors, int(n)) {
		promised.Descriptors = append(promised.Descriptors, copyFromC(descriptor, unsafe.Slice(sizes, int(n))[i]))
	}
	callback.ready(promised, nil)
}

// Cancel gives a transfer up: its buffer fails with the reason. done is called once, from any thread,
// with the error that giving up ended with. Not blocking.
func (p *Promised) Cancel(index int, reason error, done func(error)) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	descriptor, message := p.Descriptors[index], status.MessageOf(reason)
	callback := cgo.NewHandle(&readyCallback{p.plugin, done})
	liveCallbacks.Add(1)
	C.xg_cancel_receive(p.cancel, p.cancelArg, pinBytes(descriptor, &pinner), C.size_t(len(descriptor)), C.int(status.CodeOf(reason)),
		pinString(message, &pinner), C.size_t(len(message)), C.uintptr_t(callback))
}

// xgReceiveCancelled is called by cross_host.c, once.
//
//export xgReceiveCancelled
func xgReceiveCancelled(handle C.uintptr_t, e *C.PJRT_Error) { xgEventReady(e, handle) }

// SendTo queues the sending of the value to where a descriptor came from. done is called once, from any
// thread, and must not block: enqueued says whether the receiver will get something, a value or an error,
// so that nothing has to be cancelled there. Not blocking. If SendTo itself fails done is not called.
func (b *Buffer) SendTo(descriptor []byte, done func(enqueued bool, err error)) error {
	h, err := b.handle()
	if err != nil {
		return err
	}
	p := b.client.plugin
	callback := cgo.NewHandle(&sentCallback{p, done})
	liveCallbacks.Add(1)
	err = p.check(C.xg_copy_to_remote(p.api, h, unsafe.Pointer(unsafe.SliceData(descriptor)), C.size_t(len(descriptor)), C.uintptr_t(callback)))
	runtime.KeepAlive(b)
	if err != nil {
		callback.Delete()
		liveCallbacks.Add(-1)
	}
	return err
}

type sentCallback struct {
	plugin *Plugin
	done   func(enqueued bool, err error)
}

// xgRemoteSent is called by cross_host.c, once.
//
//export xgRemoteSent
func xgRemoteSent(handle C.uintptr_t, e *C.PJRT_Error, enqueued C.bool) {
	h := cgo.Handle(handle)
	callback := h.Value().(*sentCallback)
	h.Delete()
	liveCallbacks.Add(-1)
	if e == nil {
		callback.done(bool(enqueued), nil)
		return
	}
	callback.done(bool(enqueued), callback.plugin.takeError(e))
}
