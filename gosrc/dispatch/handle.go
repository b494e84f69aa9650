package dispatch

import (
	"math"
	"sync"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

// Handles keeps the Go values that Python holds by number. Python closes each one explicitly: a
// value here holds device memory, which no garbage collector may own. No number is used twice.
//
// A number is a place in a list and how often that place has been used: looking one up costs no hashing, which
// counts where a run takes a few microseconds.
type Handles[T any] struct {
	noun  string
	mutex sync.Mutex
	slots []slot[T]
	free  []int32 // places without a value
}

type slot[T any] struct {
	item T
	uses int32
	open bool
}

// Computation is a compiled program and the device that a run goes to where none is named.
type Computation struct {
	client.Computation
	FirstDevice string
}

// AddComputation gives a program its number.
func AddComputation(c client.Computation) int64 {
	k := &Computation{Computation: c}
	if devices := c.Devices(); len(devices) > 0 {
		k.FirstDevice = devices[0]
	}
	return ComputationHandles.Add(k)
}

// The values that both the control plane and the functions of this package take by number.
var (
	DataHandles        = NewHandles[client.Data]("data")
	ComputationHandles = NewHandles[*Computation]("computation")
)

// NewHandles makes an empty table; noun names its values in messages.
func NewHandles[T any](noun string) *Handles[T] { return &Handles[T]{noun: noun} }

// Add gives a value its number, at least 1.
func (h *Handles[T]) Add(item T) int64 {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	var place int32
	if last := len(h.free) - 1; last >= 0 {
		place = h.free[last]
		h.free = h.free[:last]
	} else {
		place = int32(len(h.slots))
		h.slots = append(h.slots, slot[T]{})
	}
	s := &h.slots[place]
	s.item, s.open = item, true
	s.uses++
	return int64(s.uses)<<32 | int64(place)
}

// at gives the open place of a handle, nil where the handle is not open.
func (h *Handles[T]) at(handle int64) *slot[T] {
	place := handle & math.MaxUint32
	if place >= int64(len(h.slots)) {
		return nil
	}
	if s := &h.slots[place]; s.open && int64(s.uses) == handle>>32 {
		return s
	}
	return nil
}

// Get gives the value; InvalidArgument where the handle is not open.
func (h *Handles[T]) Get(handle int64) (item T, err error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	s := h.at(handle)
	if s == nil {
		return item, status.Errorf(status.InvalidArgument, "expected the handle of open %s, got %d, which is closed or never was one", h.noun, handle)
	}
	return s.item, nil
}

// Remove gives the value, which is the caller's to close, and whether the handle was open.
func (h *Handles[T]) Remove(handle int64) (item T, open bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	s := h.at(handle)
	if s == nil {
		return item, false
	}
	var none T
	item, s.item, s.open = s.item, none, false
	if s.uses < math.MaxInt32 { // else the place is used up
		h.free = append(h.free, int32(handle&math.MaxUint32))
	}
	return item, true
}

// Count gives the number of open handles.
func (h *Handles[T]) Count() int64 {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	count := int64(0)
	for i := range h.slots {
		if h.slots[i].open {
			count++
		}
	}
	return count
}
