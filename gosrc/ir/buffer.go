package ir

import (
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

// Buffer is a device value, or the promise of one that a queued program will make.
//
// Ownership: reference counted by leaves and by queued work that reads it; the last release frees
// the device memory at once. Safe for concurrent use.
type Buffer struct {
	references atomic.Int32
	done       chan struct{} // closed when data or err is set; nil where data was there from the start
	data       client.Data
	err        error
}

var liveBuffers atomic.Int64

// LiveBuffers gives the number of buffers that something holds.
func LiveBuffers() int64 { return liveBuffers.Load() }

// NewBuffer wraps data that exists, with one reference; the buffer owns data.
func NewBuffer(data client.Data) *Buffer {
	liveBuffers.Add(1)
	b := &Buffer{data: data}
	b.references.Store(1)
	return b
}

// NewPromise makes a buffer whose data comes later, with one reference. Several promises may
// share one done channel; whoever closes it has called Fulfill or Fail on each before.
func NewPromise(done chan struct{}) *Buffer {
	liveBuffers.Add(1)
	b := &Buffer{done: done}
	b.references.Store(1)
	return b
}

// Fulfill sets a promise's data. The promise's done channel is closed afterwards by the caller.
func (b *Buffer) Fulfill(data client.Data) { b.data = data }

// Fail sets a promise's error.
func (b *Buffer) Fail(err error) { b.err = err }

// Done is closed when the buffer has been scheduled or has failed; nil where it always was.
func (b *Buffer) Done() <-chan struct{} { return b.done }

// Wait blocks until the value has been scheduled (not until it is computed) and gives its data.
func (b *Buffer) Wait() (client.Data, error) {
	if b.done != nil {
		<-b.done
	}
	return b.data, b.err
}

// Scheduled gives the data if it is there, without waiting.
func (b *Buffer) Scheduled() (data client.Data, err error, ok bool) {
	if b.done != nil {
		select {
		case <-b.done:
		default:
			return nil, nil, false
		}
	}
	return b.data, b.err, true
}

// Retain takes a reference.
func (b *Buffer) Retain() { b.references.Add(1) }

// Release drops a reference and frees the device memory with the last one. The last release of a
// promise comes after its done channel was closed, because the queued work holds a reference.
func (b *Buffer) Release() {
	if b.references.Add(-1) == 0 {
		liveBuffers.Add(-1)
		if b.data != nil {
			b.data.Close()
			b.data = nil
		}
	}
}

// ShapeOf is the shape of a node's value.
func ShapeOf(n *Node) shape.Shape { return shape.Shape{Dtype: n.Dtype, Dims: n.Dims} }

// ScalarWords gives the 32-bit words that a scalar parameter of type d takes in the pack.
func ScalarWords(d dtype.Dtype) int {
	if d.Size() == 8 {
		return 2
	}
	return 1
}
