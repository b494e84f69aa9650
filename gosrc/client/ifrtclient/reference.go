package ifrtclient

import (
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// UnsafeBufferPointer gives the device address of an array on one device. BLOCKING until the value exists.
func (c *Client) UnsafeBufferPointer(d client.Data) (uintptr, error) {
	mine, a, err := c.single(d)
	if err != nil {
		return 0, status.Annotate(err, "UnsafeBufferPointer()")
	}
	defer a.Release()
	b := a.shards[0].buffer
	if err := b.Await(); err != nil {
		return 0, status.Annotate(mine.explainValue(a, err), "UnsafeBufferPointer()")
	}
	if !a.alive() { // a remembered address would be stale
		return 0, status.Annotate(mine.Gone(), "UnsafeBufferPointer()")
	}
	address, err := b.UnsafePointer()
	return address, status.Annotate(err, "UnsafeBufferPointer()")
}

// AcquireExternalReference lends the memory of an array on one device. BLOCKING until the value is ready.
func (c *Client) AcquireExternalReference(d client.Data) (client.ExternalReference, error) {
	mine, a, err := c.single(d)
	if err != nil {
		return client.ExternalReference{}, status.Annotate(err, "AcquireExternalReference()")
	}
	s := a.shards[0]
	address, err := platform.Lend(s.buffer)
	if err != nil {
		err = status.Annotate(mine.explainValue(a, err), "AcquireExternalReference()")
		a.Release()
		return client.ExternalReference{}, err
	}
	var released atomic.Bool
	return client.ExternalReference{
		Pointer: address, Shape: mine.Global, Device: s.device.Name,
		HostAddressable: c.IsHostAddressable(s.buffer), RowMajor: s.format().IsRowMajor(s.buffer),
		Release: func() {
			if !released.Swap(true) {
				s.buffer.Return()
				a.Release()
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

// Readiness says whether a value can be read without waiting, and the error of one that failed; an array is
// ready when all its shards are. ready is false with an error where the question itself cannot be asked (a
// placeholder, a donated value).
func (c *Client) Readiness(d client.Data) (ready bool, err error) {
	mine, a, err := c.holdOf(d)
	if err != nil {
		return false, err
	}
	defer a.Release()
	for _, s := range a.shards {
		ready, failure := s.buffer.IsReady()
		if !ready {
			return false, failure
		}
		if err == nil {
			err = failure
		}
	}
	if err != nil {
		err = mine.explainValue(a, err)
	}
	return true, err
}

// OnReadyCallback calls fn once, on a goroutine of its own, when all shards of the array are ready or have
// failed. Not blocking.
func (c *Client) OnReadyCallback(d client.Data, fn func(err error)) error {
	mine, a, err := c.holdOf(d)
	if err != nil {
		return status.Annotate(err, "OnReadyCallback()")
	}
	err = platform.NotifyReady(a.buffers(), func(err error) {
		if platform.LacksMemory(err) {
			err = mine.explainValue(a, err)
		}
		a.Release()
		fn(err)
	})
	if err != nil {
		err = status.Annotate(mine.explain(a, err), "OnReadyCallback()")
		a.Release()
	}
	return err
}
