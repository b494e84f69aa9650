package executor

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/status"
)

var countRecorded = metrics.Counter("RecordedProgram")

// Recorder follows the tracing of a program of given inputs, to make a Recording of it.
//
// It holds none of the inputs' values: each more reference would keep one from being donated. A core has one recorder at a
// time, from Record until Finish or Close. Under Core.Mu.
type Recorder struct {
	device *Device
	inputs []*Root
	values []inputValue // of the inputs when it began
	cuts   int64        // of the device when it began
	offset uint64       // of the followed generator when it began
	closed bool         // only inputs may be read
	reason string       // why it can make no recording

	// Of the cut.
	draws    []ir.PackedDraw
	mayCheck bool
	nodes    int
}

// inputValue is what an input held: a buffer to tell it by, nil for none.
type inputValue struct {
	buffer *ir.Buffer
	dtype  dtype.Dtype
	dims   []int64
	layout layout

	givenUp bool
}

// Record begins to follow what is traced on the device. What inputs wait for is cut first, so that they hold device
// values; offset is that of the generator that the program may draw from. A closed program may read nothing but its inputs;
// without that, other values that it reads are constants of it. Unavailable where nothing can be recorded now: where
// programs are partitioned, also before the shardings of all values are known (LockResolved).
func (d *Device) Record(inputs []*Root, offset *uint64, closed bool) (*Recorder, error) {
	switch core := d.core; {
	case core.recorder != nil:
		return nil, status.Errorf(status.Unavailable, "another thread records a program")
	case core.eager.Load():
		return nil, status.Errorf(status.Unavailable, "operators run one by one in eager mode")
	case core.replicas.count() > 1:
		return nil, status.Errorf(status.Unavailable, "replicas run in this process")
	}
	if err := d.settleInputs(inputs); err != nil {
		return nil, err
	}
	if d.label() != nil {
		return nil, errUnlabelled
	}
	r := &Recorder{device: d, inputs: inputs, values: make([]inputValue, len(inputs)), cuts: d.cuts, offset: *offset, closed: closed}
	for i, root := range inputs {
		if v := root.value; v != nil {
			r.values[i] = inputValue{v.Buffer, v.Dtype, slices.Clone(v.Dims), root.layout(), v.Buffer.IsGivenUp()}
		}
	}
	d.core.recorder = r
	d.core.Graph.Draws.Follow(offset)
	return r, nil
}

// settleInputs cuts the graph where an input is pending.
func (d *Device) settleInputs(inputs []*Root) error {
	for _, root := range inputs {
		if root.device != d {
			return status.Errorf(status.Unavailable, "inputs are on several devices")
		}
		if root.pending {
			if d.label() != nil {
				return errUnlabelled
			}
			_, err := d.Cut("inputs of a compiled function")
			return err
		}
	}
	return nil
}

// Break notes that what is traced depends on more than its inputs: a value was read. Under Core.Mu.
func (c *Core) Break(reason string) {
	if c.recorder != nil && c.recorder.reason == "" {
		c.recorder.reason = reason
	}
}

// note takes from a cut what only its walk knows.
func (r *Recorder) note(walk *ir.Walk, varied []bool) {
	r.draws, r.mayCheck, r.nodes = walk.Draws(varied), mayCheck(walk.Order), len(walk.Order)
}

// Close ends the recorder without a recording. Idempotent.
func (r *Recorder) Close() {
	core := r.device.core
	if core.recorder != r {
		return
	}
	core.recorder = nil
	core.Graph.Draws.Follow(nil)
}

// Finish queues what was traced as a step of its own and gives its recording; outputs are the roots that are handed out,
// without inputs. Unavailable, with the reason, where it cannot be run again: what was traced stays pending then, or is
// queued. It closes the recorder.
func (r *Recorder) Finish(outputs []*Root) (*Recording, error) {
	defer r.Close()
	d, core := r.device, r.device.core
	core.Mu.drain()
	recording, targets, err := r.plan(outputs)
	if err != nil {
		return nil, err
	}
	if d.label() != nil {
		return nil, errUnlabelled
	}
	if d.head != nil {
		roots := make([]*Root, 0, d.pendingRoots)
		for root := d.head; root != nil; root = root.next {
			roots = append(roots, root)
		}
		step, err := d.Cut(compiledFunction)
		if err != nil {
			return nil, err
		}
		if err := r.take(recording, step.s, roots, targets); err != nil {
			recording.Close()
			return nil, err
		}
		if files := core.graphs.Load(); files != nil {
			files.saveRun(d, recording.executable.key)
		}
	}
	countRecorded.Add(1)
	return recording, nil
}

// targets looks whether what is pending is a program of the inputs alone, and numbers the roots that it is for: inputs, then
// outputs.
func (r *Recorder) targets(outputs []*Root) (map[*Root]int, error) {
	d := r.device
	switch {
	case r.reason != "":
		return nil, status.Errorf(status.Unavailable, "%s", r.reason)
	case d.core.Graph.Draws.Foreign:
		return nil, status.Errorf(status.Unavailable, "random numbers come from a generator that is not the device's default one")
	case d.cuts != r.cuts:
		return nil, status.Errorf(status.Unavailable, "the graph was ended in its middle")
	}
	targets := make(map[*Root]int, len(r.inputs)+len(outputs))
	for i, root := range r.inputs {
		targets[root] = i
	}
	for i, root := range outputs {
		targets[root] = len(r.inputs) + i
	}
	for root := d.head; root != nil; root = root.next {
		if _, known := targets[root]; !known {
			return nil, status.Errorf(status.Unavailable, "something else was traced at the same time, or a tensor that is no input was written to")
		}
	}
	return targets, nil
}

// plan makes the recording of what is pending, and says which roots it is for.
func (r *Recorder) plan(outputs []*Root) (*Recording, map[*Root]int, error) {
	d := r.device
	targets, err := r.targets(outputs)
	if err != nil {
		return nil, nil, err
	}
	recording := &Recording{
		device: d, outputs: len(outputs), inputs: make([]recordedInput, len(r.inputs)),
		drawn: *d.core.Graph.Draws.Offset - r.offset, partitioned: d.partitioning.Load() != nil,
	}
	if recording.partitioned {
		if recording.annotations, err = r.annotationsOf(outputs); err != nil {
			return nil, nil, err
		}
	}
	for i, value := range r.values {
		in := &recording.inputs[i]
		in.hasValue, in.dtype, in.dims, in.sharedWith, in.layout = value.buffer != nil, value.dtype, value.dims, i, value.layout
		if in.hasValue {
			in.sharedWith = r.inputOf(value.buffer)
			in.givenUp = value.buffer.IsGivenUp() && !value.givenUp
		}
	}
	for root, target := range targets {
		if root.pending || root.value == nil || target < len(r.inputs) && root.value.Buffer == r.values[target].buffer {
			continue
		}
		m := move{target: target, input: r.inputOf(root.value.Buffer)}
		if m.input < 0 {
			if r.closed {
				return nil, nil, errConstant()
			}
			m.constant = root.value
			d.core.Graph.Retain(root.value)
		}
		recording.moves = append(recording.moves, m)
	}
	return recording, targets, nil
}

// inputOf gives the first input that held a value, -1 for none.
func (r *Recorder) inputOf(b *ir.Buffer) int {
	return slices.IndexFunc(r.values, func(v inputValue) bool { return v.buffer == b })
}

func errConstant() error {
	return status.Errorf(status.Unavailable, "it takes a value that is none of its inputs, or that was brought to the device within it")
}

// take keeps what a queued step needs to be run again. roots are its outputs'.
func (r *Recorder) take(recording *Recording, s *step, roots []*Root, targets map[*Root]int) error {
	if s.replicas > 0 {
		return status.Errorf(status.Unavailable, "replicas exchange values in it")
	}
	recording.executable, recording.scalars, recording.stacks = s.executable, s.scalars, s.stacks
	recording.kept, recording.mayCheck, recording.nodes = s.kept, r.mayCheck, r.nodes
	byBuffer := make(map[*ir.Buffer]int, len(r.values))
	for i := len(r.values) - 1; i >= 0; i-- {
		byBuffer[r.values[i].buffer] = i
	}
	for _, b := range s.arguments {
		input, known := byBuffer[b]
		if !known {
			if r.closed {
				return errConstant()
			}
			b.Retain()
			recording.arguments = append(recording.arguments, recordedArgument{input: -1, constant: b})
			continue
		}
		recording.arguments = append(recording.arguments, recordedArgument{input: input})
	}
	for p, root := range roots {
		target := targets[root]
		if target < len(recording.inputs) {
			recording.inputs[target].output = p + 1
		}
		value := root.value
		recording.results = append(recording.results, recordedResult{
			target: target, dtype: value.Dtype, dims: slices.Clone(value.Dims), origin: s.outputs[p].Origin,
		})
	}
	for _, draw := range r.draws {
		if draw.Draw == ir.OffsetDraw {
			draw.Value -= r.offset
		}
		recording.draws = append(recording.draws, draw)
	}
	if len(recording.scalars) > 0 && len(recording.draws) == 0 && !recording.partitioned {
		recording.pack = newScalarPack(recording.scalars)
	}
	return nil
}
