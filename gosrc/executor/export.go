package executor

import (
	"xla_go/gosrc/client"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Export is a traced program, to be written for others to run. It holds the values that the program took from elsewhere than
// its inputs until Close.
type Export struct {
	core      *Core
	program   *ir.Program
	inputs    []exportedInput
	constants []*ir.Buffer // retained
	sources   []int        // of each of the program's parameters: the input, or the constant after all inputs
	scalars   []ir.ScalarValue
	drawn     uint64
	random    bool
}

// exportedInput is an input as it was when the tracing began.
type exportedInput struct {
	shape shape.Shape
	known bool // it had a value: one without elements has none
}

// ExportedArgument is an input that an exported program takes, or has in itself.
type ExportedArgument struct {
	Input int
	Name  string
	Shape shape.Shape
	// Constant holds its elements, dense and row-major, where they are to be part of the program; else nil.
	Constant []byte
}

// Export ends the tracing and gives the program that computes outputs from the inputs; nothing of it is run. Unavailable, with
// the reason, where that depends on more than the inputs; an input that was written to is FailedPrecondition. It closes
// the recorder. Under Core.Mu.
func (r *Recorder) Export(outputs []*Root) (*Export, error) {
	defer r.Close()
	d, core := r.device, r.device.core
	core.Mu.drain()
	if _, err := r.targets(outputs); err != nil {
		return nil, err
	}
	for i, root := range r.inputs {
		if root.pending && r.values[i].buffer != nil { // one without elements gets its value from whoever reads it
			return nil, status.Errorf(status.FailedPrecondition, "expected a program that writes to none of its inputs, got one that writes to input %d", i)
		}
	}
	values := make([]*ir.Node, len(outputs))
	for i, root := range outputs {
		if root.value == nil {
			return nil, status.Errorf(status.FailedPrecondition, "expected outputs with a value, got output %d, which nothing was written to", i)
		}
		values[i] = root.value
	}
	walk := core.Graph.Walk(values)
	program, err := ir.DecodeKey(walk.AppendKey(nil, ir.Signature{Outputs: values, Device: d.Index}))
	if err != nil {
		return nil, err
	}
	program.SetStacks(ir.Stacks(walk.Order, nil))
	program.Unchecked = true // an output that others know nothing of
	program.Marks = hlo.FullyMarked
	e := &Export{core: core, program: program, drawn: *core.Graph.Draws.Offset - r.offset}
	for _, v := range r.values {
		e.inputs = append(e.inputs, exportedInput{shape.Shape{Dtype: v.dtype, Dims: v.dims}, v.buffer != nil})
	}
	for _, n := range walk.Parameters {
		input := r.inputOf(n.Buffer)
		if input < 0 {
			n.Buffer.Retain()
			e.constants = append(e.constants, n.Buffer)
			input = len(r.inputs) + len(e.constants) - 1
		}
		e.sources = append(e.sources, input)
	}
	for _, n := range walk.Order {
		if n.Kind == ir.KindScalar {
			v := ir.ScalarValueOf(n, r.offset)
			e.random = e.random || v.Draw != ir.NoDraw
			e.scalars = append(e.scalars, v)
		}
	}
	return e, nil
}

// Close lets go of the constants. Idempotent. Without Core.Mu.
func (e *Export) Close() {
	for _, b := range e.constants {
		b.Release()
	}
	e.constants = nil
}

// Uses gives, for each input, whether the program reads it.
func (e *Export) Uses() []bool {
	used := make([]bool, len(e.inputs))
	for _, source := range e.sources {
		if source < len(used) {
			used[source] = true
		}
	}
	return used
}

// Draws says whether the program draws random numbers, and how far a run moves the generator. Such a program takes one argument
// more, after all others: u64[2], the generator's seed and offset.
func (e *Export) Draws() (random bool, by uint64) { return e.random, e.drawn }

// Scalars gives the program's numbers, but for zeros, ones and the random generator's, which may be arguments of it.
func (e *Export) Scalars() (list []ir.ScalarValue) {
	for _, v := range e.scalars {
		if v.Draw == ir.NoDraw && !v.IsSpecial() {
			list = append(list, v)
		}
	}
	return list
}

// generatorArgument is the name of the argument of the random generator's state.
const generatorArgument = "generator"

// Lower writes the program as an HloModuleProto whose parameters are the arguments in their order, but for those that are
// constants. They are distinct, and every input that the program uses is among them. BLOCKING: values that
// the program took from elsewhere are read from the device. scalars are names for what Scalars gave, in order, where those are to
// be arguments after all others; else nil.
func (e *Export) Lower(name string, arguments []ExportedArgument, scalars []string) ([]byte, error) {
	f := &ir.Interface{Scalars: e.scalars, Generator: -1}
	numbers := map[int]int{} // arguments by input
	for _, a := range arguments {
		if a.Input < 0 || a.Input >= len(e.inputs) {
			return nil, status.Errorf(status.InvalidArgument, "Lower(): expected the number of one of %d inputs, got %d", len(e.inputs), a.Input)
		}
		if in := e.inputs[a.Input]; in.known && !in.shape.Equal(a.Shape) {
			return nil, status.Errorf(status.InvalidArgument, "Lower(): expected input %d to be %s, got %s", a.Input, in.shape, a.Shape)
		}
		if a.Constant != nil && int64(len(a.Constant)) != a.Shape.ByteSize() {
			return nil, status.Errorf(status.InvalidArgument, "Lower(): expected %d bytes for input %d, %s, got %d", a.Shape.ByteSize(), a.Input, a.Shape, len(a.Constant))
		}
		numbers[a.Input] = len(f.Arguments)
		f.Arguments = append(f.Arguments, ir.Argument{Name: a.Name, Shape: a.Shape, Constant: a.Constant})
	}
	if e.random {
		f.Generator = len(f.Arguments)
		f.Arguments = append(f.Arguments, ir.Argument{Name: generatorArgument, Shape: ir.GeneratorState})
	}
	if wanted := e.Scalars(); scalars != nil && len(scalars) != len(wanted) {
		return nil, status.Errorf(status.InvalidArgument, "Lower(): expected names for %d scalars, got %d", len(wanted), len(scalars))
	}
	for _, v := range e.scalars {
		number := -1
		if len(scalars) > 0 && v.Draw == ir.NoDraw && !v.IsSpecial() {
			number = len(f.Arguments)
			f.Arguments = append(f.Arguments, ir.Argument{Name: scalars[0], Shape: shape.Make(v.Dtype)})
			scalars = scalars[1:]
		}
		f.ScalarArguments = append(f.ScalarArguments, number)
	}
	for i, b := range e.constants {
		s, elements, err := e.read(b)
		if err != nil {
			return nil, err
		}
		numbers[len(e.inputs)+i] = len(f.Arguments)
		f.Arguments = append(f.Arguments, ir.Argument{Shape: s, Constant: elements})
	}
	for _, source := range e.sources {
		number, known := numbers[source]
		if !known {
			return nil, status.Errorf(status.InvalidArgument, "Lower(): expected an argument for each input that the program uses, got none for input %d", source)
		}
		f.Parameters = append(f.Parameters, number)
	}
	program := *e.program
	program.Interface = f
	module, err := program.Lower(name, 0)
	if err != nil {
		return nil, err
	}
	return module.HLO, nil
}

// read gives a constant's shape and elements. BLOCKING.
func (e *Export) read(b *ir.Buffer) (shape.Shape, []byte, error) {
	data, err := b.Final()
	if err != nil {
		return shape.Shape{}, nil, err
	}
	literals, err := e.core.client.TransferFromDevice([]client.Data{data})
	if err != nil {
		return shape.Shape{}, nil, err
	}
	return data.Shape(), append([]byte{}, literals[0].Bytes...), nil
}
