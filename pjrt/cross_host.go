package pjrt

// #include "cross_host.h"
import "C"

import (
	"runtime"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Cross-host transfers extension: buffers from a process's devices to another's. Both sides name a
// transfer by the same key. Where a plugin has only the older functions, with descriptors
// (cross_host_descriptor.go), these go from the receiver to the sender through the client's key-value
// store, under the transfer's key.

// descriptorTimeout is how long a sender waits for the receiver.
const descriptorTimeout = 10 * time.Minute

func descriptorKey(transfer int64) string {
	return "xla_go/transfer/" + strconv.FormatInt(transfer, 10)
}

// byDescriptor says whether the plugin has only the older functions. Both ends have to take the same way.
func (c *Client) byDescriptor() bool {
	has := func(function C.int) bool { return bool(C.xg_has_extension_function(c.plugin.api, function)) }
	if has(C.XF_PJRT_Transfers_PJRT_Client_CrossHostSendBuffers) && has(C.XF_PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers) {
		return false
	}
	return has(C.XF_PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice) && has(C.XF_PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers)
}

// Send queues the sending of buffers[i] to the device with the ID devices[i]. It gives an event for
// each, which the caller destroys.
func (c *Client) Send(buffers []*Buffer, devices, keys []int64) ([]*Event, error) {
	if len(buffers) == 0 || len(buffers) != len(devices) || len(buffers) != len(keys) {
		return nil, status.Errorf(status.InvalidArgument, "Send(): expected as many devices and keys as buffers, at least one, got %d buffers, %d devices and %d keys", len(buffers), len(devices), len(keys))
	}
	if c.byDescriptor() {
		return c.sendByDescriptor(buffers, keys)
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

// sendByDescriptor waits for each descriptor elsewhere, and sends then.
func (c *Client) sendByDescriptor(buffers []*Buffer, keys []int64) ([]*Event, error) {
	store, err := c.descriptorStore()
	if err != nil {
		return nil, status.Annotate(err, "Send()")
	}
	events := make([]*Event, len(buffers))
	for i := range buffers {
		if events[i], err = c.plugin.CreateEvent(); err != nil {
			for _, e := range events[:i] {
				e.Destroy()
			}
			return nil, err
		}
		events[i].cell.more = &eventExtra{guard: new(sync.Mutex)} // it is set from elsewhere while its owner may destroy it
	}
	for i, b := range buffers {
		done := func(err error) { _ = events[i].Set(err) } // an error where nobody wants to know any more
		go func() {
			descriptor, err := store.Get(descriptorKey(keys[i]), descriptorTimeout)
			if err == nil {
				err = b.SendTo(descriptor, func(_ bool, err error) { go done(err) })
			}
			if err != nil {
				done(err)
			}
		}()
	}
	return events, nil
}

func (c *Client) descriptorStore() (KeyValueStore, error) {
	stores.Lock()
	defer stores.Unlock()
	if store := stores.open[c.store]; store != nil {
		return store, nil
	}
	return nil, status.Errorf(status.FailedPrecondition, "expected a client with a key-value store, as the plugin %s sends by descriptors that have to be shared: make the client WithKeyValueStore", c.plugin.path)
}

// Receive makes buffers on a device that get their values from the devices with the given IDs.
func (c *Client) Receive(shapes []shape.Shape, device *Device, devices, keys []int64) ([]*Buffer, error) {
	if len(shapes) == 0 || len(shapes) != len(devices) || len(shapes) != len(keys) {
		return nil, status.Errorf(status.InvalidArgument, "Receive(): expected as many devices and keys as shapes, at least one, got %d shapes, %d devices and %d keys", len(shapes), len(devices), len(keys))
	}
	if c.byDescriptor() {
		return c.receiveByDescriptor(shapes, device, keys)
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	ranks, dims, types, layouts, handles := describeShapes(shapes, &pinner)
	args := C.PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args{struct_size: C.S_PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args, client: c.handle, num_shapes: C.size_t(len(shapes)),
		shape_num_dims: &ranks[0], num_dims: &dims[0], element_types: &types[0], layouts: &layouts[0], device: device.handle,
		src_global_device_ids: pinInts(devices, &pinner), transfer_keys: pinInts(keys, &pinner), buffers: &handles[0]}
	if err := c.plugin.callExtension(C.XF_PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	buffers := make([]*Buffer, len(shapes))
	for i, h := range handles {
		buffers[i] = c.adoptOne(h)
	}
	return buffers, nil
}

// describeShapes lays shapes out for C, with room for as many buffers.
func describeShapes(shapes []shape.Shape, pinner *runtime.Pinner) (ranks []C.size_t, dims []*C.int64_t, types []C.int, layouts []*C.PJRT_Buffer_MemoryLayout, handles []*C.PJRT_Buffer) {
	n := len(shapes)
	ranks, dims, types = make([]C.size_t, n), make([]*C.int64_t, n), make([]C.int, n)
	layouts, handles = make([]*C.PJRT_Buffer_MemoryLayout, n), make([]*C.PJRT_Buffer, n)
	for i, s := range shapes {
		ranks[i], dims[i], types[i] = C.size_t(len(s.Dims)), pinInts(s.Dims, pinner), C.int(s.Dtype.PJRT())
		layouts[i] = rowMajorLayout(len(s.Dims), pinner)
	}
	for _, p := range []any{&ranks[0], &dims[0], &types[0], &layouts[0], &handles[0]} {
		pinner.Pin(p)
	}
	return ranks, dims, types, layouts, handles
}

// receiveByDescriptor puts each descriptor where the sender looks for it. Where that fails the transfer
// is given up, so that the buffer fails and nobody waits for it for ever.
func (c *Client) receiveByDescriptor(shapes []shape.Shape, device *Device, keys []int64) ([]*Buffer, error) {
	store, err := c.descriptorStore()
	if err != nil {
		return nil, status.Annotate(err, "Receive()")
	}
	return c.MakeReceiveBuffers(shapes, device, func(promised *Promised, err error) {
		if err != nil {
			return // the buffers fail with it too
		}
		go func() {
			for i, key := range keys {
				if err := store.Put(descriptorKey(key), promised.Descriptors[i]); err != nil {
					promised.Cancel(i, err, func(error) {})
				}
			}
		}()
	})
}
