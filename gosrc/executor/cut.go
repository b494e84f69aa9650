package executor

import (
	"slices"
	"time"

	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Cut makes one program of everything live and pending on the device and queues it. The pending
// roots hold placeholders afterwards. It returns the queued step, nil where nothing was pending.
// Under Core.Mu; waits for nothing.
//
// cause says in a few words what asked for it, for the analysis that PT_XLA_DEBUG asks for.
func (d *Device) Cut(cause string) (*Step, error) {
	if err := d.TakeDeferredError(); err != nil {
		return nil, err
	}
	return d.cut(cause, nil)
}

// CutOnly is Cut for the given roots alone: others stay pending, and what both need is computed for each. All are cut where the
// roots' graph exchanges values with other replicas, which happens once.
func (d *Device) CutOnly(roots []*Root, cause string) (*Step, error) {
	if err := d.TakeDeferredError(); err != nil {
		return nil, err
	}
	return d.cut(cause, roots)
}

// cut cuts those of the pending roots that are among only; all for nil.
func (d *Device) cut(cause string, only []*Root) (*Step, error) {
	d.core.Mu.drain() // what is held no more can be donated
	if d.head == nil {
		d.madeSinceCut = 0
		return nil, nil
	}
	if d.label() != nil {
		return nil, status.Errorf(status.Internal, "cut: expected the shardings of all values to be known")
	}
	defer cutTime.Since(time.Now())
	core := d.core
	s := &step{device: d, fence: make(chan struct{}), settled: make(chan struct{}), roots: make([]*Root, 0, d.pendingRoots)}
	values := core.valueScratch[:0]
	var staying []*ir.Node
	for r := d.head; r != nil; r = r.next {
		if only == nil || slices.Contains(only, r) {
			s.roots = append(s.roots, r)
			values = append(values, r.value)
		} else {
			staying = append(staying, r.value)
		}
	}
	core.valueScratch = values
	if len(values) == 0 {
		return nil, nil
	}
	walk := core.Graph.Walk(values)
	if only != nil && walk.Collective {
		return d.cut(cause, nil)
	}
	graphSize.Observe(float64(len(walk.Order)))
	donors := d.collect(walk, s, staying)
	started := core.CompileCount()
	signature := d.signature(s.roots, values, walk.Collective)
	s.replicas = signature.Replicas
	e, varied, err := core.program(d, walk, signature, donors)
	if err != nil {
		for _, b := range s.arguments {
			b.Release()
		}
		return nil, err
	}
	d.madeSinceCut = 0
	s.scalars = walk.AppendScalars(nil, varied)
	aliasCount.Observe(float64(len(e.donors)))
	s.executable = e
	s.stacks = ir.Stacks(walk.Order, varied)
	d.cuts++
	if core.recorder != nil {
		core.recorder.note(walk, varied)
	}
	d.awaited = nil
	if (core.eager.Load() || core.strict.Load() > 0) && mayCheck(walk.Order) {
		d.awaited = &Step{s}
	}
	core.analysis.cut(s, cause, len(walk.Order), core.CompileCount() > started)
	if files := core.graphs.Load(); files != nil {
		files.saveStep(core, s)
	}
	for parameter := range missing(e.donors, donors.allowed) {
		s.withheld = append(s.withheld, parameter)
	}
	for _, parameter := range donors.givenUp {
		if hasDonor(e.donors, parameter) {
			s.giveAway(walk.Parameters[parameter])
		}
	}
	d.installPlaceholders(s)
	if e.partitioned {
		d.unlabelled = append(d.unlabelled, s)
		d.label()
	}
	d.enqueue(s)
	return &Step{s}, nil
}

// program finds the executable for a walked graph, or starts the compile of one. varied says which
// of the graph's variable attributes are parameters of it; nil for none. An error only in strict mode, where
// nothing is started.
//
// A program is compiled as it is at first, with constant offsets, indices and shifts, which is the faster code. Once a
// second graph differs from a known one in nothing but those, they become parameters, and one program serves all that
// follow.
func (c *Core) program(d *Device, walk *ir.Walk, signature ir.Signature, donors donors) (e *executable, varied []bool, err error) {
	key := walk.AppendKey(c.keyScratch[:0], signature)
	c.keyScratch = key // whoever keeps it makes a copy
	e, variants := c.cache.find(key, donors.allowed)
	reason := ""
	switch {
	case e == nil:
	case isFailed(e): // a failed compile is tried again: its cause may be gone
		c.cache.remove(e)
		reason = "its compile failed before"
	case variants == 1 && c.strict.Load() == 0 && countMissing(donors.requested, e.donors) > 0:
		return c.start(slices.Clone(key), donors.wanted, d, "memory that it is asked to reuse is not reused by the known program", ir.Stacks(walk.Order, nil)), nil, nil
	default:
		countCached.Add(1)
		return e, nil, nil
	}
	familyKey, numbers := walk.AppendFamilyKey(c.familyScratch[:0], c.numberScratch[:0], signature)
	c.familyScratch, c.numberScratch = familyKey, numbers
	f := c.cache.family(familyKey, numbers)
	if f.serves(numbers) && f.differs(numbers) && !isFailed(f.executable) {
		countCached.Add(1)
		c.cache.use(f.executable)
		return f.executable, f.varied, nil
	}
	if c.strict.Load() > 0 {
		return nil, nil, c.refuseCompile(key)
	}
	key = slices.Clone(key)
	if !f.differs(numbers) {
		return c.start(key, donors.wanted, d, reason, ir.Stacks(walk.Order, nil)), nil, nil
	}
	program, err := ir.DecodeKey(key)
	if err != nil {
		return c.start(key, donors.wanted, d, reason, nil), nil, nil
	}
	f.widen(numbers)
	varied = f.varied
	f.executable = c.start(program.Vary(walk.Order, varied).AppendKey(nil), donors.wanted, d, "offsets, indices or other numbers that move differ from those of a known program and become parameters, for all that follow", ir.Stacks(walk.Order, varied))
	f.executable.family = f
	return f.executable, varied, nil
}

// start puts a program into the cache and compiles it on a goroutine of its own. An empty reason is found out there.
// stacks are those of the program's nodes, nil for none.
func (c *Core) start(key []byte, donors []ir.Donation, d *Device, reason string, stacks []ir.Stack) *executable {
	e := &executable{key: key, donors: slices.Clone(donors), eager: c.eager.Load(), partitioned: d.partitioning.Load() != nil, done: make(chan struct{})}
	c.cache.add(e)
	countUncached.Add(1)
	noted, candidates := c.compiles.begin(key, reason)
	go c.compile(e, d, noted, candidates, stacks)
	return e
}

// isDone is true once the compile has ended, well or not.
func (e *executable) isDone() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

func isFailed(e *executable) bool { return e.isDone() && e.err != nil }

// installPlaceholders replaces the pending values by promises of the step's outputs.
func (d *Device) installPlaceholders(s *step) {
	graph := &d.core.Graph
	smallest := int64(0)
	s.lastGood, s.outputs = make([]*ir.Node, len(s.roots)), make([]*ir.Buffer, 0, len(s.roots))
	for i, r := range s.roots {
		promise := ir.NewPromise(s.fence, s.settled) // with the leaf's reference
		promise.Origin = ir.OriginOf(r.value)
		if bytes := ir.ShapeOf(r.value).ByteSize(); i == 0 || bytes < smallest {
			s.kept, smallest = i, bytes
		}
		s.outputs = append(s.outputs, promise)
		leaf := graph.Leaf(promise, r.value.Dtype, r.value.Dims)
		leaf.Stack = promise.Origin.Stack
		if r.base != nil {
			// Kept until the launch: a step that cannot be launched gives the storage its value back.
			s.lastGood[i] = r.base
			graph.Retain(r.base)
		}
		r.Set(leaf)
	}
	s.outputs[s.kept].Retain()
	graph.EndCall()
}
