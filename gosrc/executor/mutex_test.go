package executor

import (
	"sync"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/ir"
)

func heldNode(g *ir.Graph) *ir.Node {
	n := g.Scalar(dtype.F32, 1)
	g.Retain(n)
	g.EndCall()
	return n
}

func TestWhatAWorkerLeavesIsDroppedByUnlock(t *testing.T) {
	var graph ir.Graph
	m := Mutex{graph: &graph}
	m.Lock()
	n := heldNode(&graph)
	var worker sync.WaitGroup
	worker.Go(func() { m.release([]*ir.Node{nil, n}) })
	worker.Wait()
	if graph.Live() != 1 {
		t.Errorf("%d nodes while the mutex is held, want 1", graph.Live())
	}
	m.Unlock()
	m.Lock()
	defer m.Unlock()
	if graph.Live() != 0 {
		t.Errorf("%d nodes after Unlock, want 0", graph.Live())
	}
}

// Threads that take the mutex and never look at what is left, and workers that leave nodes at any time.
func TestNothingIsLeftWhileNobodyHoldsTheMutex(t *testing.T) {
	var graph ir.Graph
	m := Mutex{graph: &graph}
	var threads sync.WaitGroup
	for range 4 {
		threads.Go(func() {
			for range 5_000 {
				m.Lock()
				n := heldNode(&graph)
				m.Unlock()
				m.release([]*ir.Node{n})
			}
		})
	}
	threads.Wait()
	if m.anyLeft.Load() || graph.Live() != 0 {
		t.Errorf("%d nodes are left", graph.Live())
	}
}
