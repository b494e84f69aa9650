package dispatch

import (
	"sync"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

// Handles keeps the Go values that Python holds by number. Python closes each one explicitly: a
// value here holds device memory, which no garbage collector may own. No number is used twice.
type Handles[T any] struct {
	noun  string
	mutex sync.Mutex
	last  int64
	items map[int64]T
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
func NewHandles[T any](noun string) *Handles[T] {
	return &Handles[T]{noun: noun, items: map[int64]T{}}
}

// Add gives a value its number, at least 1.
func (h *Handles[T]) Add(item T) int64 {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.last++
	h.items[h.last] = item
	return h.last
}

// Get gives the value; InvalidArgument where the handle is not open.
func (h *Handles[T]) Get(handle int64) (T, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	item, ok := h.items[handle]
	if !ok {
		return item, status.Errorf(status.InvalidArgument, "expected the handle of open %s, got %d, which is closed or never was one", h.noun, handle)
	}
	return item, nil
}

// Remove gives the value, which is the caller's to close, and whether the handle was open.
func (h *Handles[T]) Remove(handle int64) (T, bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	item, ok := h.items[handle]
	delete(h.items, handle)
	return item, ok
}

// Count gives the number of open handles.
func (h *Handles[T]) Count() int64 {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return int64(len(h.items))
}
