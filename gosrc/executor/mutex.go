package executor

import (
	"sync"
	"sync/atomic"

	"xla_go/gosrc/ir"
)

// Mutex guards a graph. A worker that is done with nodes leaves them here: it drops them at once where the mutex is
// free, else whoever holds it does so in Unlock. (A worker that waited would cost the tracing thread two context
// switches a step.) While nobody holds the mutex, nothing is left.
//
// Lock order: the mutex, then leftMu.
type Mutex struct {
	mu    sync.Mutex
	graph *ir.Graph

	leftMu  sync.Mutex
	left    []*ir.Node
	anyLeft atomic.Bool // left has nodes
}

// Lock blocks until the mutex is free.
func (m *Mutex) Lock() { m.mu.Lock() }

// Unlock drops what workers have left, and frees the mutex.
func (m *Mutex) Unlock() {
	for {
		m.drain()
		m.mu.Unlock()
		// A worker that found the mutex held may have left nodes since the drain.
		if !m.anyLeft.Load() || !m.mu.TryLock() {
			return
		}
	}
}

// release drops a reference of each node that is not nil, now or when the mutex is unlocked. It does not block.
func (m *Mutex) release(nodes []*ir.Node) {
	m.leftMu.Lock()
	for _, n := range nodes {
		if n != nil {
			m.left = append(m.left, n)
		}
	}
	left := len(m.left) > 0
	m.anyLeft.Store(left)
	m.leftMu.Unlock()
	if left && m.mu.TryLock() {
		m.Unlock()
	}
}

// drain drops what workers have left. Under the mutex.
func (m *Mutex) drain() {
	if !m.anyLeft.Load() {
		return
	}
	m.leftMu.Lock()
	nodes := m.left
	m.left = nil
	m.anyLeft.Store(false)
	m.leftMu.Unlock()
	for _, n := range nodes {
		m.graph.Release(n)
	}
}
