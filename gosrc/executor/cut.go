package executor

import (
	"encoding/binary"
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/ir"
)

// Cut makes one program of everything live and pending on the device and queues it. The pending
// roots hold placeholders afterwards. It returns the queued step, nil where nothing was pending.
// Under Core.Mu; waits for nothing.
func (d *Device) Cut() (*Step, error) {
	if err := d.TakeDeferredError(); err != nil {
		return nil, err
	}
	return d.cut()
}

// TakeDeferredError gives the error of a step that could not be launched and whose storages have
// their last values again, once. A cut and a read raise it, so that it does not pass unseen. Under
// Core.Mu.
func (d *Device) TakeDeferredError() error {
	err := d.deferredError
	d.deferredError = nil
	return err
}

// Reported notes that err has been raised, so that it is not raised again as a deferred error.
func (c *Core) Reported(err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for _, d := range c.devices {
		if d.deferredError == err {
			d.deferredError = nil
		}
	}
}

func (d *Device) cut() (*Step, error) {
	d.madeSinceCut = 0
	if d.head == nil {
		return nil, nil
	}
	core := d.core
	s := &step{device: d, fence: make(chan struct{}), settled: make(chan struct{})}
	var values []*ir.Node
	for r := d.head; r != nil; r = r.next {
		s.roots = append(s.roots, r)
		values = append(values, r.value)
	}
	order := core.Graph.Walk(values)
	graphSize.Observe(float64(len(order)))
	allowed := d.collect(order, s)
	key := ir.AppendKey(nil, order, ir.Signature{Outputs: values})
	e := core.cache.find(key, allowed)
	if e == nil || isFailed(e) {
		if e != nil { // a failed compile is tried again: its cause may be gone
			core.cache.remove(e)
		}
		e = &executable{key: key, donors: allowed, done: make(chan struct{})}
		core.cache.add(e)
		countUncached.Add(1)
		go core.compile(e, d)
	} else {
		countCached.Add(1)
	}
	aliasCount.Observe(float64(len(e.donors)))
	s.executable = e
	for _, donor := range e.donors {
		if !isAllowed(donor, allowed) {
			s.withheld = append(s.withheld, donor.Parameter)
		}
	}
	d.installPlaceholders(s)
	d.enqueue(s)
	return &Step{s}, nil
}

func isFailed(e *executable) bool {
	select {
	case <-e.done:
		return e.err != nil
	default:
		return false
	}
}

// collect lists the step's arguments and packs its scalars, and gives the parameters whose memory
// the step may reuse, each with the output that overwrites it, sorted by parameter.
//
// A parameter may be donated iff this graph overwrites the storage that held it (it is the base
// of a pending root) and nobody else can reach it: its reference count equals the edges that the
// walk saw plus the roots that it is the base of.
func (d *Device) collect(order []*ir.Node, s *step) (allowed []ir.Donation) {
	graph := &d.core.Graph
	type overwritten struct{ count, output int }
	bases := make(map[*ir.Node]overwritten, len(s.roots))
	for i, r := range s.roots {
		if r.base != nil && graph.Visited(r.base) {
			bases[r.base] = overwritten{bases[r.base].count + 1, i}
		}
	}
	for _, n := range order {
		switch n.Kind {
		case ir.KindParameter:
			if b := bases[n]; b.count > 0 && int(n.References()) == int(n.Edges())+b.count && d.core.options.Donate {
				allowed = append(allowed, ir.Donation{Parameter: len(s.arguments), Output: b.output})
			}
			n.Buffer.Retain()
			s.arguments = append(s.arguments, n.Buffer)
		case ir.KindScalar:
			s.scalars = appendScalar(s.scalars, n)
		}
	}
	return allowed
}

// appendScalar appends a scalar's words in the order in which a lowered module unpacks them.
func appendScalar(pack []byte, n *ir.Node) []byte {
	switch n.Dtype {
	case dtype.F32:
		return binary.LittleEndian.AppendUint32(pack, math.Float32bits(float32(math.Float64frombits(n.Scalar))))
	default: // F64, S64, U64: their 64 bits
		return binary.LittleEndian.AppendUint64(pack, n.Scalar)
	}
}

// installPlaceholders replaces the pending values by promises of the step's outputs.
func (d *Device) installPlaceholders(s *step) {
	graph := &d.core.Graph
	s.lastGood = make([]*ir.Node, len(s.roots))
	for i, r := range s.roots {
		promise := ir.NewPromise(s.fence, s.settled)
		promise.Retain() // the leaf's reference and the step's
		s.outputs = append(s.outputs, promise)
		leaf := graph.Leaf(promise, r.value.Dtype, r.value.Dims)
		if r.base != nil {
			// Kept until the launch: a step that cannot be launched gives the storage its value back.
			s.lastGood[i] = r.base
			graph.Retain(r.base)
		}
		r.Set(leaf)
	}
	graph.EndCall()
}
