package executor

import (
	"encoding/binary"
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/metrics"
)

var countReplayed = metrics.Counter("ReplayedProgram")

// Recording is a traced program that runs again on other values of its inputs, without being traced: the same executable, donors
// by the same rule, scalars as they were but for the state of the random generator.
//
// It holds no value of an input. Constants that its program takes are retained until Close. Under Core.Mu.
type Recording struct {
	device  *Device
	inputs  []recordedInput
	outputs int // roots that a run fills, besides those of inputs that it writes to
	moves   []move

	executable *executable // nil where nothing but moves is to be done
	arguments  []recordedArgument
	results    []recordedResult
	scalars    []byte
	draws      []ir.PackedDraw // offsets from where the generator is when a run begins
	drawn      uint64          // how far a run moves the generator
	stacks     []ir.Stack
	kept       int
	mayCheck   bool
	nodes      int
	closed     bool

	partitioned bool
	annotations []annotation // of the outputs, where programs are partitioned
}

// recordedInput is what the program depends on of an input's storage.
type recordedInput struct {
	hasValue   bool
	dtype      dtype.Dtype
	dims       []int64
	sharedWith int  // the first input with the same value: the two are one parameter
	output     int  // 1 + the result that replaces the value, 0 for none
	givenUp    bool // by the program itself: see ir.Buffer.GiveUp
	layout     layout
}

// recordedArgument is where a parameter's value comes from.
type recordedArgument struct {
	input    int        // -1 for a constant
	constant *ir.Buffer // retained
}

// recordedResult is one output of the program; target counts inputs, then outputs.
type recordedResult struct {
	target int
	dtype  dtype.Dtype
	dims   []int64
	origin ir.Origin
}

// move gives a target (an input, or an output, which count on from inputs) the value that an input had before the run, or a
// constant.
type move struct {
	target, input int
	constant      *ir.Node // retained
}

// Close lets go of the constants. Idempotent.
func (r *Recording) Close() {
	if r.closed {
		return
	}
	r.closed = true
	for _, a := range r.arguments {
		if a.constant != nil {
			a.constant.Release()
		}
	}
	for _, m := range r.moves {
		if m.constant != nil {
			r.device.core.Graph.Release(m.constant)
		}
	}
	r.executable = nil
}

// Outputs gives the number of roots that a run fills, besides those of inputs that it writes to.
func (r *Recording) Outputs() int { return r.outputs }

// Device gives the device that it was traced on.
func (r *Recording) Device() *Device { return r.device }

// Run queues the program on the inputs' values. What inputs wait for is cut first. false where the inputs are not those that
// it can run on, it has failed to compile, or it is not known yet how a value lies over the devices (see LockResolved): the
// caller traces it then. An error, of an earlier step or of strict mode, comes before anything is changed. seed and offset are
// the generator's state, which moves on. It waits for nothing.
func (r *Recording) Run(inputs, outputs []*Root, seed uint64, offset *uint64) (ran bool, err error) {
	d, core := r.device, r.device.core
	if r.closed || core.eager.Load() || r.partitioned != (d.partitioning.Load() != nil) || d.label() != nil || len(inputs) != len(r.inputs) || len(outputs) != r.outputs {
		return false, nil
	}
	if err := d.TakeDeferredError(); err != nil {
		return false, err
	}
	core.Mu.drain()
	if err := d.settleInputs(inputs); err != nil {
		return false, err
	}
	if d.label() != nil || !r.fits(inputs) || r.executable != nil && isFailed(r.executable) {
		return false, nil
	}
	countReplayed.Add(1)
	before := make([]*ir.Node, len(inputs)) // moves see the values of before
	if len(r.moves) > 0 {
		for i, root := range inputs {
			if before[i] = root.value; root.value != nil {
				core.Graph.Retain(root.value)
			}
		}
	}
	if r.executable != nil {
		r.queue(inputs, outputs, seed, *offset)
	}
	for i, a := range r.annotations {
		outputs[i].annotation, outputs[i].annotationDims = a.sharding, a.dims
	}
	*offset += r.drawn
	for _, m := range r.moves {
		value := m.constant
		if value == nil {
			value = before[m.input]
		}
		r.target(m.target, inputs, outputs).Set(value)
	}
	for _, value := range before {
		if value != nil {
			core.Graph.Release(value)
		}
	}
	core.Graph.EndCall()
	return true, nil
}

// fits is true where the inputs hold values of the shapes that the program takes, shared as they were.
func (r *Recording) fits(inputs []*Root) bool {
	for i, root := range inputs {
		in := &r.inputs[i]
		if root.device != r.device {
			return false
		}
		value := root.value
		if (value != nil) != in.hasValue {
			return false
		}
		if value == nil {
			continue
		}
		if value.Dtype != in.dtype || !slices.Equal(value.Dims, in.dims) {
			return false
		}
		if r.partitioned && !in.layout.equal(root.layout()) {
			return false
		}
		if in.sharedWith != i && inputs[in.sharedWith].value.Buffer != value.Buffer {
			return false
		}
	}
	return true
}

func (r *Recording) target(i int, inputs, outputs []*Root) *Root {
	if i < len(inputs) {
		return inputs[i]
	}
	return outputs[i-len(inputs)]
}

// queue does what a cut does of a graph that was traced.
func (r *Recording) queue(inputs, outputs []*Root, seed, offset uint64) {
	d, core, e := r.device, r.device.core, r.executable
	s := &step{
		device: d, executable: e, stacks: r.stacks, kept: r.kept, fence: make(chan struct{}), settled: make(chan struct{}),
		roots: make([]*Root, 0, len(r.results)), lastGood: make([]*ir.Node, len(r.results)),
		outputs: make([]*ir.Buffer, 0, len(r.results)), arguments: make([]*ir.Buffer, 0, len(r.arguments)),
	}
	allowed := core.donorScratch.allowed[:0]
	var leaves []*ir.Node // that are given away
	for p, a := range r.arguments {
		b := a.constant
		if b == nil {
			root := inputs[a.input]
			b = root.value.Buffer
			if r.inputs[a.input].givenUp {
				b.GiveUp()
			}
			// As in Device.collect: nobody else reaches a value that only the storage holds which is overwritten, and what was
			// given up is read by nothing else where nothing is pending.
			output := r.inputs[a.input].output
			overwritten := output > 0 && root.value.References() == 1
			givenUp := !overwritten && b.IsGivenUp() && d.head == nil && len(r.moves) == 0
			if (overwritten || givenUp) && core.options.Donate {
				allowed = append(allowed, ir.Donation{Parameter: p, Output: output - 1})
				if givenUp && hasDonor(e.donors, p) {
					leaves = append(leaves, root.value)
				}
			}
		}
		b.Retain()
		s.arguments = append(s.arguments, b)
	}
	core.donorScratch.allowed = allowed
	for parameter := range missing(e.donors, allowed) {
		s.withheld = append(s.withheld, parameter)
	}
	for _, leaf := range leaves {
		s.giveAway(leaf)
	}
	core.cache.use(e)
	countCached.Add(1)
	aliasCount.Observe(float64(len(e.donors)))
	s.scalars = r.pack(seed, offset)
	for p := range r.results {
		result := &r.results[p]
		root := r.target(result.target, inputs, outputs)
		promise := ir.NewPromise(s.fence, s.settled)
		promise.Origin = result.origin
		s.roots, s.outputs = append(s.roots, root), append(s.outputs, promise)
		if root.value != nil {
			s.lastGood[p] = root.value
			core.Graph.Retain(root.value)
		}
		leaf := core.Graph.Leaf(promise, result.dtype, result.dims)
		leaf.Stack = result.origin.Stack
		root.Set(leaf)
	}
	s.outputs[s.kept].Retain()
	if e.partitioned {
		d.unlabelled = append(d.unlabelled, s)
		d.label() // at once: the recording's first step has waited for the compile
	}
	d.awaited = nil
	if r.mayCheck && core.strict.Load() > 0 {
		d.awaited = &Step{s}
	}
	core.analysis.cut(s, compiledFunction, r.nodes, false)
	if files := core.graphs.Load(); files != nil {
		files.saveRun(d, e.key)
	}
	d.enqueue(s)
}

// pack gives the program's scalars, with the state of the generator.
func (r *Recording) pack(seed, offset uint64) []byte {
	if len(r.draws) == 0 {
		return r.scalars // which nobody changes
	}
	pack := slices.Clone(r.scalars)
	for _, draw := range r.draws {
		value := seed
		if draw.Draw == ir.OffsetDraw {
			value = offset + draw.Value
		}
		binary.LittleEndian.PutUint64(pack[draw.Position:], value)
	}
	return pack
}
