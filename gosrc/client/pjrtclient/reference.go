package pjrtclient

import (
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
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
	defer m.Release()
	if err := m.buffer.Await(); err != nil {
		return 0, status.Annotate(mine.explainValue(m, err), "UnsafeBufferPointer()")
	}
	if !m.alive() { // a remembered address would be stale
		return 0, status.Annotate(mine.Gone(), "UnsafeBufferPointer()")
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
	address, err := platform.Lend(m.buffer)
	if err != nil {
		err = status.Annotate(mine.explainValue(m, err), "AcquireExternalReference()")
		m.Release()
		return client.ExternalReference{}, err
	}
	var released atomic.Bool
	return client.ExternalReference{
		Pointer: address, Shape: mine.Global, Device: m.device.Name,
		HostAddressable: c.IsHostAddressable(m.buffer), RowMajor: m.format().IsRowMajor(m.buffer),
		Release: func() {
			if !released.Swap(true) {
				m.buffer.Return()
				m.Release()
			}
		},
	}, nil
}

// CreateViewOfExternalMemory makes Data over memory owned outside, dense and row-major; release
// (may be nil) is called once when the last holder is gone. If it fails release is not called.
func (c *Client) CreateViewOfExternalMemory(pointer uintptr, s shape.Shape, name string, release func()) (client.Data, error) {
	b, on, err := c.View(pointer, s, name, release)
	if err != nil {
		return nil, status.Annotate(err, "CreateViewOfExternalMemory()")
	}
	d := c.newData(b, on, s)
	d.Held.Load().forget() // the memory is someone else's
	return d, nil
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
	m, err := mine.Hold()
	if err != nil {
		return false, err
	}
	defer m.Release()
	if m.buffer != nil {
		ready, err := m.buffer.IsReady()
		if err != nil && ready {
			err = mine.explainValue(m, err)
		}
		return ready, err
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
	if err != nil {
		err = mine.explainValue(m, err)
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
	m, err := mine.Hold()
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
	err = platform.NotifyReady(buffers, func(err error) {
		if platform.LacksMemory(err) {
			err = mine.explainValue(m, err)
		}
		m.Release()
		fn(err)
	})
	if err != nil {
		err = status.Annotate(mine.explain(m, err), "OnReadyCallback()")
		m.Release()
	}
	return err
}
