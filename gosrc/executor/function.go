package executor

import (
	"slices"

	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Function is a program that was traced on placeholders, to be called from others as a module.
type Function struct {
	// Captured are the shapes of the values that it takes from elsewhere than its inputs, in the order of Device.Parameters.
	Captured []shape.Shape
	// Random: it draws random numbers.
	Random  bool
	program *ir.Program
}

// Function gives the program that computes outputs from inputs, which are placeholders, once each. seed and offset are the
// random generator's as the tracing began. Unimplemented where the program has collectives. Under Core.Mu.
func (d *Device) Function(outputs, inputs []*ir.Node, seed, offset uint64) (*Function, error) {
	walk := d.core.Graph.Walk(outputs)
	if walk.Collective {
		return nil, status.Errorf(status.Unimplemented, "expected a function without collectives, got one with")
	}
	program, err := ir.DecodeKey(walk.AppendKey(nil, ir.Signature{Outputs: outputs, Device: d.Index, Precision: d.core.Precision()}))
	if err != nil {
		return nil, err
	}
	program.SetStacks(ir.Stacks(walk.Order, nil))
	program.Unchecked = true // an output that callers know nothing of
	f := &Function{program: program}
	i := &ir.Interface{Generator: -1}
	for _, n := range inputs {
		i.Arguments = append(i.Arguments, ir.Argument{Shape: shape.Shape{Dtype: n.Dtype, Dims: slices.Clone(n.Dims)}})
	}
	for position, n := range walk.Order {
		switch n.Kind {
		case ir.KindPlaceholder:
			number := slices.Index(inputs, n)
			if number < 0 {
				return nil, status.Errorf(status.FailedPrecondition, "expected a function of its arguments, got one that uses a placeholder of another function")
			}
			program.Nodes[position].Kind = ir.KindParameter
			i.Parameters = append(i.Parameters, number)
		case ir.KindParameter:
			i.Parameters = append(i.Parameters, len(inputs)+len(f.Captured))
			f.Captured = append(f.Captured, shape.Shape{Dtype: n.Dtype, Dims: slices.Clone(n.Dims)})
		case ir.KindScalar:
			v := ir.ScalarValue{Bits: n.Scalar, Dtype: n.Dtype}
			switch {
			case n.IsSeed && n.Scalar == seed:
				v.Draw = ir.SeedDraw
			case n.IsOffset:
				v.Draw, v.Bits = ir.OffsetDraw, n.Scalar-offset
			}
			f.Random = f.Random || v.Draw != ir.NoDraw
			i.Scalars = append(i.Scalars, v)
		}
	}
	for _, s := range f.Captured {
		i.Arguments = append(i.Arguments, ir.Argument{Shape: s})
	}
	if f.Random {
		i.Generator = len(i.Arguments)
		i.Arguments = append(i.Arguments, ir.Argument{Name: generatorArgument, Shape: ir.GeneratorState})
	}
	program.Interface = i
	return f, nil
}

// Lower writes the function as an HloModuleProto whose parameters are the inputs, then the captured values, then, where it draws random
// numbers, the generator's state, u64[2]. Without Core.Mu.
func (f *Function) Lower(name string) ([]byte, error) {
	module, err := f.program.Lower(name, 0)
	if err != nil {
		return nil, err
	}
	return module.HLO, nil
}
