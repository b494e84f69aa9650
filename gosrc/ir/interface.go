package ir

import (
	"encoding/binary"
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Interface says how a program that others run is called, instead of the way that the executor calls it: which arguments there
// are, in which order, and what its scalars are.
type Interface struct {
	Arguments []Argument
	// Parameters gives, for each of the program's parameters, the number of the argument that it is.
	Parameters []int
	// Scalars are the values of the program's scalars, in order.
	Scalars []ScalarValue
	// ScalarArguments gives, for each scalar, the number of the argument that it is, negative for one that is as Scalars says; nil
	// where all are.
	ScalarArguments []int
	// Generator is the number of the argument that is the random generator's state, u64[2] of seed and offset; negative for
	// a program that draws no random numbers.
	Generator int
}

// Argument is one argument of an exported program.
type Argument struct {
	Name  string
	Shape shape.Shape
	// Constant holds the elements, dense and row-major, of one that is part of the program; nil for one that a caller gives.
	Constant []byte
}

// ScalarValue is what a scalar is in an exported program: a constant, or a part of the generator's state, of which an
// offset is counted from where the generator stood when the tracing began.
type ScalarValue struct {
	Bits  uint64
	Draw  Draw
	Dtype dtype.Dtype
}

// Elements gives a constant's element as it lies in memory.
func (v ScalarValue) Elements() []byte {
	if v.Dtype == dtype.F32 {
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.Float64frombits(v.Bits))))
	}
	return binary.LittleEndian.AppendUint64(nil, v.Bits)
}

// IsSpecial is true for zero and one, which compilers make less of a program of.
func (v ScalarValue) IsSpecial() bool {
	if v.Dtype.IsFloat() {
		number := math.Float64frombits(v.Bits)
		return number == 0 || number == 1
	}
	return v.Bits <= 1
}

// ScalarValueOf gives the value of a scalar of a graph whose draws were followed from offset on.
func ScalarValueOf(n *Node, offset uint64) ScalarValue {
	v := ScalarValue{n.Scalar, n.Draw, n.Dtype}
	if n.Draw == OffsetDraw {
		v.Bits -= offset
	}
	return v
}

// entry is how a lowering gets the values from outside: parameters and scalars, each in the program's order.
type entry struct {
	parameters []hlo.Value
	scalar     func(d dtype.Dtype) hlo.Value // the next one
}

// GeneratorState is the shape of the argument that is a random generator's state: its seed and its offset.
var GeneratorState = shape.Make(dtype.U64, 2)

// declare makes the parameters of an exported program.
func (f *Interface) declare(p *Program, b *hlo.Builder) (entry, error) {
	arguments := make([]hlo.Value, len(f.Arguments))
	for i, a := range f.Arguments {
		if a.Constant != nil {
			arguments[i] = b.Constant(a.Shape, a.Constant)
		} else {
			arguments[i] = b.Parameter(a.Shape, a.Name)
		}
	}
	if n := p.NumParameters(); n != len(f.Parameters) {
		return entry{}, status.Errorf(status.Internal, "Lower(): expected an argument for each of %d parameters, got %d", n, len(f.Parameters))
	}
	e := entry{parameters: make([]hlo.Value, len(f.Parameters))}
	for i, argument := range f.Parameters {
		e.parameters[i] = arguments[argument]
	}
	next := 0
	e.scalar = func(d dtype.Dtype) hlo.Value {
		v, argument := f.Scalars[next], -1
		if f.ScalarArguments != nil {
			argument = f.ScalarArguments[next]
		}
		next++
		if argument >= 0 {
			return arguments[argument]
		}
		if v.Draw == NoDraw {
			switch d {
			case dtype.F32, dtype.F64:
				return b.Scalar(d, math.Float64frombits(v.Bits))
			default:
				return b.ScalarInt(d, int64(v.Bits))
			}
		}
		element := int64(0)
		if v.Draw == OffsetDraw {
			element = 1
		}
		state := b.Reshape(b.Slice(arguments[f.Generator], []int64{element}, []int64{element + 1}, nil), nil)
		if v.Draw == OffsetDraw && v.Bits != 0 {
			state = b.Binary(hlo.Add, state, b.ScalarInt(dtype.U64, int64(v.Bits)))
		}
		if d != dtype.U64 {
			state = b.BitcastConvert(state, d)
		}
		return state
	}
	return e, nil
}
