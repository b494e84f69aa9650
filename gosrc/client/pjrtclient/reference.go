package pjrtclient

import (
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

// UnsafeBufferPointer gives the device address of data that is not sharded. BLOCKING until the value exists.
func (c *Client) UnsafeBufferPointer(d client.Data) (uintptr, error) {
	mine, m, err := c.single(d)
	if err != nil {
		return 0, status.Annotate(err, "UnsafeBufferPointer()")
	}
	defer m.release()
	if err := m.buffer.Await(); err != nil {
		return 0, status.Annotate(mine.explain(m, err), "UnsafeBufferPointer()")
	}
	if !m.alive() { // a remembered address would be stale
		return 0, status.Annotate(mine.gone(), "UnsafeBufferPointer()")
	}
	address, err := m.buffer.UnsafePointer()
	if err != nil {
		return 0, status.Annotate(err, "UnsafeBufferPointer()")
	}
	return address, nil
}

// AcquireExternalReference lends a value's device memory. BLOCKING until the value is ready.
func (c *Client) AcquireExternalReference(d client.Data) (client.ExternalReference, error) {
	mine, m, err := c.single(d)
	if err != nil {
		return client.ExternalReference{}, status.Annotate(err, "AcquireExternalReference()")
	}
	address, err := lend(m.buffer)
	if err != nil {
		err = status.Annotate(mine.explain(m, err), "AcquireExternalReference()")
		m.release()
		return client.ExternalReference{}, err
	}
	var released atomic.Bool
	return client.ExternalReference{
		Pointer: address, Shape: mine.shape, Device: m.device.name,
		HostAddressable: c.isHostAddressable(m), RowMajor: c.isRowMajor(m),
		Release: func() {
			if !released.Swap(true) {
				m.buffer.Return()
				m.release()
			}
		},
	}, nil
}

func (c *Client) isHostAddressable(m *memory) bool {
	if c.onHost {
		return true
	}
	kind := m.buffer.Memory()
	return kind != nil && kind.IsHost()
}

// CreateViewOfExternalMemory makes Data over memory owned outside, dense and row-major; release
// (may be nil) is called once when the last holder is gone. If it fails release is not called.
func (c *Client) CreateViewOfExternalMemory(pointer uintptr, s shape.Shape, name string, release func()) (client.Data, error) {
	on, err := c.addressable(name)
	if err != nil {
		return nil, status.Annotate(err, "CreateViewOfExternalMemory()")
	}
	if s.Dtype.PJRT() == 0 || s.Dtype.Size() == 0 {
		return nil, status.Errorf(status.InvalidArgument, "CreateViewOfExternalMemory(): expected an array, got shape %s", s)
	}
	if pointer == 0 {
		return nil, status.Errorf(status.InvalidArgument, "CreateViewOfExternalMemory(): expected an address, got 0")
	}
	b, err := c.pjrt.View(pointer, s.Dtype, s.Dims, on.pjrt, release)
	if err != nil {
		return nil, status.Annotate(err, "CreateViewOfExternalMemory()")
	}
	createDataHandles.Add(1)
	return c.newData(b, on, s), nil
}

// IsReady is true where a value can be read without waiting; a value that failed can.
func (c *Client) IsReady(d client.Data) bool {
	ready, _ := c.Readiness(d)
	return ready
}

// Readiness says whether a value can be read without waiting, and the error of one that failed;
// sharded data is ready when all its shards are. ready is false with an error where the question
// itself cannot be asked (a placeholder, a donated value).
func (c *Client) Readiness(d client.Data) (ready bool, err error) {
	mine, err := c.own(d)
	if err != nil {
		return false, err
	}
	m, err := mine.hold()
	if err != nil {
		return false, err
	}
	defer m.release()
	if m.buffer != nil {
		return m.buffer.IsReady()
	}
	for _, s := range m.shards {
		ready, failure := s.buffer.IsReady()
		if !ready {
			return false, failure
		}
		if err == nil {
			err = failure
		}
	}
	return true, err
}

// OnReadyCallback calls fn once, on a goroutine of its own, when the value is ready or has failed;
// of sharded data when all shards are. Not blocking.
func (c *Client) OnReadyCallback(d client.Data, fn func(err error)) error {
	mine, err := c.own(d)
	if err != nil {
		return status.Annotate(err, "OnReadyCallback()")
	}
	m, err := mine.hold()
	if err != nil {
		return status.Annotate(err, "OnReadyCallback()")
	}
	buffers := []*pjrt.Buffer{m.buffer}
	if m.buffer == nil {
		buffers = buffers[:0]
		for _, s := range m.shards {
			buffers = append(buffers, s.buffer)
		}
	}
	events := make([]*pjrt.Event, len(buffers))
	for i, b := range buffers {
		if events[i], err = b.ReadyEvent(); err != nil {
			for _, e := range events[:i] {
				e.Destroy()
			}
			err = status.Annotate(mine.explain(m, err), "OnReadyCallback()")
			m.release()
			return err
		}
	}
	var failure atomic.Pointer[error]
	var left atomic.Int32
	left.Store(int32(len(events)))
	for _, e := range events {
		watch(e, func(err error) {
			if err != nil {
				failure.CompareAndSwap(nil, &err)
			}
			if left.Add(-1) != 0 {
				return
			}
			go func() { // off the plugin's thread, which must not be held up
				m.release()
				if f := failure.Load(); f != nil {
					fn(*f)
					return
				}
				fn(nil)
			}()
		})
	}
	return nil
}
