package ir

import (
	"sync"
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Buffer is a device value, or the promise of one that a queued program will make.
//
// Ownership: reference counted by leaves and by queued work that reads it; the last release frees
// the device memory at once. The work that makes a promised value need not hold a reference: what nobody
// wants any more is freed as soon as it is made. Safe for concurrent use.
type Buffer struct {
	// Origin is which operator made the value; set by whoever makes the buffer, before others see it.
	Origin Origin

	references atomic.Int32
	mu         sync.Mutex      // between the last release and whoever sets the value; taken by no others
	dropped    bool            // the last reference is gone
	donate     atomic.Int32    // see RequestDonation and GiveUp
	done       <-chan struct{} // closed when value is set; nil where it was set from the start
	settled    <-chan struct{} // closed when value is final; nil where it always was
	value      atomic.Pointer[bufferValue]
	replaced   []client.Data // what Replace took out, under mu
	unverified atomic.Bool   // see AwaitVerification
	sharding   atomic.Pointer[bufferSharding]
	deferred   *deferredValue // of NewDeferred
	number     atomic.Int64   // see Number
}

var numbered atomic.Int64

// Number tells the value from all others of the process: it is given at the first call, from 1 on.
func (b *Buffer) Number() int64 {
	if b.number.Load() == 0 {
		b.number.CompareAndSwap(0, numbered.Add(1))
	}
	return b.number.Load()
}

type bufferValue struct {
	data client.Data
	err  error
}

var liveBuffers atomic.Int64

// LiveBuffers gives the number of buffers that something holds.
func LiveBuffers() int64 { return liveBuffers.Load() }

// NewBuffer wraps data that exists, with one reference; the buffer owns data.
func NewBuffer(data client.Data) *Buffer {
	liveBuffers.Add(1)
	b := &Buffer{}
	b.value.Store(&bufferValue{data: data})
	b.references.Store(1)
	return b
}

// NewSharded is NewBuffer for data that lies over several devices; a nil sharding is of data on one.
func NewSharded(data client.Data, sharding *hlo.Sharding) *Buffer {
	b := NewBuffer(data)
	if sharding != nil {
		b.SetSharding(sharding)
	}
	return b
}

// NewPromise makes a buffer whose data comes later, with one reference. Promises of one step
// share the channels: done is closed after Fulfill or Fail was called on each, settled after the
// last Replace.
func NewPromise(done, settled <-chan struct{}) *Buffer {
	liveBuffers.Add(1)
	b := &Buffer{done: done, settled: settled}
	b.references.Store(1)
	return b
}

// Fulfill sets a promise's data, which the buffer owns from then on; it is closed at once where the last reference
// is gone.
func (b *Buffer) Fulfill(data client.Data) { b.set(&bufferValue{data: data}) }

func (b *Buffer) set(v *bufferValue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.value.Store(v)
	if b.dropped && v.data != nil {
		v.data.Close()
	}
}

// IsDropped is true once the last reference is gone.
func (b *Buffer) IsDropped() bool { return b.references.Load() == 0 }

// Fail sets a promise's error.
func (b *Buffer) Fail(err error) { b.value.Store(&bufferValue{err: err}) }

// Replace gives a promise whose value turned out to be lost another one, or the error for good
// where data is nil; only before settled is closed. At any time it may put the same value in, laid out over
// other devices. What it replaces lives as long as the buffer.
func (b *Buffer) Replace(data client.Data, err error) {
	b.mu.Lock()
	if old := b.value.Load(); old != nil && old.data != nil {
		b.replaced = append(b.replaced, old.data)
	}
	b.mu.Unlock()
	b.set(&bufferValue{data, err})
}

// Done is closed when the buffer has been scheduled or has failed; nil where it always was.
func (b *Buffer) Done() <-chan struct{} {
	b.begin()
	return b.done
}

// Settled is closed when the value is final: the step that makes it has ended, and what could be
// run again after a failure has been. nil where it always was.
func (b *Buffer) Settled() <-chan struct{} { return b.settled }

// AwaitVerification notes that whether the value means anything is not known before it is settled: a check of the step that
// makes it, or of one before that, may fail, or it is made again after a failure which is to be told first. Before the value
// is set.
func (b *Buffer) AwaitVerification() { b.unverified.Store(true) }

// IsUnverified is true where AwaitVerification was called and the value has not settled yet.
func (b *Buffer) IsUnverified() bool {
	if b.settled == nil || !b.unverified.Load() {
		return false
	}
	select {
	case <-b.settled:
		return false
	default:
		return true
	}
}

// Wait blocks until the value has been scheduled (not until it is computed) and gives its data.
func (b *Buffer) Wait() (client.Data, error) {
	b.begin()
	if b.done != nil {
		<-b.done
	}
	v := b.value.Load()
	return v.data, v.err
}

// Final is Wait, except that a value which has failed is waited for until nothing can bring it back.
func (b *Buffer) Final() (client.Data, error) {
	data, err := b.Wait()
	if err != nil && b.settled != nil {
		<-b.settled
		return b.Wait()
	}
	return data, err
}

// Scheduled gives the data if it is there, without waiting.
func (b *Buffer) Scheduled() (data client.Data, err error, ok bool) {
	b.begin()
	if b.done != nil {
		select {
		case <-b.done:
		default:
			return nil, nil, false
		}
	}
	v := b.value.Load()
	return v.data, v.err, true
}

// What Buffer.donate says.
const (
	notRequested = iota
	requested
	givenUp
)

// RequestDonation asks, or asks no more, that a step which reads the value last reuses its memory. It is a wish: a value
// that anything else can still reach is kept.
func (b *Buffer) RequestDonation(on bool) {
	if on {
		b.donate.Store(requested)
	} else {
		b.donate.Store(notRequested)
	}
}

// GiveUp is RequestDonation for a value that storages may still hold: they lose it to the next step that reads it.
func (b *Buffer) GiveUp() { b.donate.Store(givenUp) }

// DonationRequested is true where RequestDonation or GiveUp has asked for it.
func (b *Buffer) DonationRequested() bool { return b.donate.Load() != notRequested }

// IsGivenUp is true after GiveUp.
func (b *Buffer) IsGivenUp() bool { return b.donate.Load() == givenUp }

var errGivenAway = status.Errorf(status.FailedPrecondition, "read: expected a tensor with a value, got one whose memory a step has reused, as set_buffer_donation(release=True) said it may: write to it first")

// NewGivenAway makes the buffer that stands for b where a step takes b's memory: whoever reads it gets an error.
func (b *Buffer) NewGivenAway() *Buffer {
	liveBuffers.Add(1)
	lost := &Buffer{Origin: b.Origin}
	lost.Fail(errGivenAway)
	lost.references.Store(1)
	if known := b.sharding.Load(); known != nil {
		lost.sharding.Store(known)
	}
	return lost
}

// IsGivenAway is true for what NewGivenAway made.
func (b *Buffer) IsGivenAway() bool {
	v := b.value.Load()
	return v != nil && v.err == errGivenAway
}

// Retain takes a reference.
func (b *Buffer) Retain() { b.references.Add(1) }

// Release drops a reference and frees the device memory with the last one.
func (b *Buffer) Release() {
	if b.references.Add(-1) != 0 {
		return
	}
	liveBuffers.Add(-1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropped = true
	if v := b.value.Load(); v != nil && v.data != nil {
		v.data.Close()
	}
	for _, data := range b.replaced {
		data.Close()
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
