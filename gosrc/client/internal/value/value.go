// Package value is what client.Data is in every client, whatever it holds: the name of the device, the shape,
// the wish to donate, and a counted hold on something that may come later, be shared and be closed while
// others use it.
package value

import (
	"fmt"
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Holders counts who holds something. It starts with one.
type Holders struct{ count atomic.Int32 }

// First counts the maker, before anyone else can see it.
func (h *Holders) First() { h.count.Store(1) }

// Retain takes a hold; false where the last holder has gone.
func (h *Holders) Retain() bool {
	for {
		n := h.count.Load()
		if n <= 0 {
			return false
		}
		if h.count.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Last gives up a hold and says whether it was the last one.
func (h *Holders) Last() bool { return h.count.Add(-1) == 0 }

// Shared is a pointer to what values hold.
type Shared[T any] interface {
	*T
	Retain() bool
	Release()
}

// Value is embedded in a client's Data. Its exported fields are set before anyone else sees it.
type Value[T any, P Shared[T]] struct {
	DeviceName string
	Global     shape.Shape
	Held       atomic.Pointer[T]
	donate     atomic.Bool
	closed     atomic.Bool
}

// Device names the device.
func (v *Value[T, P]) Device() string { return v.DeviceName }

// Shape gives the shape before sharding.
func (v *Value[T, P]) Shape() shape.Shape { return v.Global }

// ShouldDonate gives what SetShouldDonate stored.
func (v *Value[T, P]) ShouldDonate() bool { return v.donate.Load() }

// SetShouldDonate stores the request to donate this value.
func (v *Value[T, P]) SetShouldDonate(yes bool) { v.donate.Store(yes) }

// Hold gives what the value holds with a hold on it, which the caller releases. FailedPrecondition for a
// placeholder and for a closed value.
func (v *Value[T, P]) Hold() (*T, error) {
	for {
		m := v.Held.Load()
		if m == nil {
			if v.closed.Load() {
				return nil, v.over()
			}
			return nil, client.ErrNoValue
		}
		if P(m).Retain() {
			return m, nil
		}
		if v.Held.Load() == m {
			return nil, v.over()
		}
	}
}

func (v *Value[T, P]) over() error {
	return status.Errorf(status.FailedPrecondition, "the data (%s on %s) has been closed", v.Global, v.DeviceName)
}

// Gone is the error of a donated value.
func (v *Value[T, P]) Gone() error {
	return status.Errorf(status.FailedPrecondition, "the device memory of %s on %s is gone: it was donated to an execution", v.Global, v.DeviceName)
}

// Share makes v hold what source holds, in place of what it held before.
func (v *Value[T, P]) Share(source *Value[T, P]) error {
	if source == v {
		return nil
	}
	if !source.Global.Equal(v.Global) {
		return status.Errorf(status.InvalidArgument, "Assign(): expected a value of shape %s, got %s", v.Global, source.Global)
	}
	if source.DeviceName != v.DeviceName {
		return status.Errorf(status.InvalidArgument, "Assign(): expected a value on %s, got one on %s", v.DeviceName, source.DeviceName)
	}
	m, err := source.Hold()
	if err != nil {
		return status.Annotate(err, "Assign()")
	}
	return status.Annotate(v.Replace(m), "Assign()")
}

// Replace makes v hold m, whose hold goes to v, in place of what it held before.
func (v *Value[T, P]) Replace(m *T) error {
	if former := v.Held.Swap(m); former != nil {
		P(former).Release()
	}
	if v.closed.Load() { // closed meanwhile: nobody would drop this hold
		v.drop()
		return v.over()
	}
	return nil
}

func (v *Value[T, P]) drop() {
	if m := v.Held.Swap(nil); m != nil {
		P(m).Release()
	}
}

// Close drops the hold. Idempotent.
func (v *Value[T, P]) Close() {
	v.closed.Store(true)
	v.drop()
}

// Describe gives shape, device and state for messages. It never touches the device.
func (v *Value[T, P]) Describe(sharded bool) string {
	state := "value"
	if v.closed.Load() {
		state = "closed"
	} else if v.Held.Load() == nil {
		state = "placeholder"
	}
	if sharded {
		state = "sharded " + state
	}
	return fmt.Sprintf("Data(%s on %s, %s)", v.Global, v.DeviceName, state)
}
