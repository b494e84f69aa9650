package ir

import (
	"sync"

	"xla_go/gosrc/hlo"
)

// bufferSharding is how a buffer's value lies over the devices.
type bufferSharding struct {
	sharding   *hlo.Sharding
	attributes []int64 // of its leaf, in the key
}

// SetSharding says how the value lies over the devices. Once, before the first key with the buffer in it.
func (b *Buffer) SetSharding(s *hlo.Sharding) {
	known := &bufferSharding{sharding: s}
	if s.Kind != hlo.Replicated { // which is what a value of one device becomes in a partitioned program
		known.attributes = AppendSharding(nil, s)
	}
	b.sharding.Store(known)
}

// KnownSharding gives how the value lies over the devices; nil for a value on one device, and where it is not known yet:
// the program that makes the value is not compiled, or the upload has not begun.
func (b *Buffer) KnownSharding() *hlo.Sharding {
	if known := b.sharding.Load(); known != nil {
		return known.sharding
	}
	return nil
}

// IsDivided is true where no device has the whole value, as far as that is known.
func (b *Buffer) IsDivided() bool {
	s := b.KnownSharding()
	return s != nil && s.Kind == hlo.Tiled
}

// layout gives the attributes of the buffer's leaf in a key. An upload that is still deferred begins here: a program is about to
// be made that takes the value as it is.
func (b *Buffer) layout() []int64 {
	b.begin()
	if known := b.sharding.Load(); known != nil {
		return known.attributes
	}
	return nil
}

// deferredValue is a value in host memory whose upload begins when somebody asks for it.
type deferredValue struct {
	once     sync.Once
	begun    func()
	upload   func(b *Buffer, sharding *hlo.Sharding)
	sharding *hlo.Sharding
	done     chan struct{}
}

// NewDeferred makes a buffer of a value that is still on the host, with one reference. The first who asks for the value
// has upload run on a goroutine of its own, which calls Fulfill or Fail; until then BeginSharded can say how the value is
// to lie over the devices, by default as sharding says. begun is called before that, by who asks.
func NewDeferred(sharding *hlo.Sharding, begun func(), upload func(b *Buffer, sharding *hlo.Sharding)) *Buffer {
	done := make(chan struct{})
	b := NewPromise(done, nil)
	b.deferred = &deferredValue{begun: begun, upload: upload, sharding: sharding, done: done}
	return b
}

// BeginSharded begins the upload of a deferred value, laid out by sharding. false where it has begun before, or nothing
// is deferred.
func (b *Buffer) BeginSharded(sharding *hlo.Sharding) (begun bool) {
	d := b.deferred
	if d == nil {
		return false
	}
	d.once.Do(func() {
		begun = true
		b.SetSharding(sharding)
		d.begun()
		go func() {
			defer close(d.done)
			d.upload(b, sharding)
			d.upload = nil // and the host memory with it
		}()
	})
	return begun
}

// IsDeferred is true for a value on the host whose upload has not begun.
func (b *Buffer) IsDeferred() bool { return b.deferred != nil && b.KnownSharding() == nil }

func (b *Buffer) begin() {
	if b.deferred != nil {
		b.BeginSharded(b.deferred.sharding)
	}
}
