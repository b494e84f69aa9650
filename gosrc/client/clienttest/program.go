package clienttest

import (
	"fmt"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/wire"
)

// Program writes small HLO modules by hand, so that the suite depends on nothing above the client.
// Each method that adds an instruction gives its id.
type Program struct {
	name         string
	instructions []byte
	shapes       map[int64]shape.Shape
	parameters   []shape.Shape
	next         int64
	donors       []int64
}

// NewProgram starts a module of that name.
func NewProgram(name string) *Program {
	return &Program{name: name, shapes: map[int64]shape.Shape{}}
}

// Parameter adds the next parameter; sharding (may be nil) is a serialized OpSharding.
func (p *Program) Parameter(s shape.Shape, sharding []byte) int64 {
	number := int64(len(p.parameters))
	p.parameters = append(p.parameters, s)
	return p.add("parameter", s, sharding, nil, func(b []byte) []byte { return wire.Varint(b, 9, number) })
}

// Op adds an instruction without attributes, for example "add", "sqrt" or "tuple".
func (p *Program) Op(opcode string, s shape.Shape, operands ...int64) int64 {
	return p.add(opcode, s, nil, operands, nil)
}

// Constant adds an F32 scalar.
func (p *Program) Constant(value float32) int64 {
	s := shape.Make(dtype.F32)
	return p.add("constant", s, nil, nil, func(b []byte) []byte {
		literal := wire.Message(nil, 1, shapeProto(s))
		return wire.Message(b, 8, wire.Message(literal, 8, floats(value)))
	})
}

// Dot adds a matrix product.
func (p *Program) Dot(s shape.Shape, left, right int64) int64 {
	return p.add("dot", s, nil, []int64{left, right}, func(b []byte) []byte {
		// DotDimensionNumbers: contract the last dimension of the left and the first of the right.
		return wire.Message(b, 30, wire.Packed(wire.Packed(nil, 1, []int64{1}), 2, []int64{0}))
	})
}

// Donate lets the program reuse a parameter's buffer.
func (p *Program) Donate(parameter int64) { p.donors = append(p.donors, parameter) }

func (p *Program) add(opcode string, s shape.Shape, sharding []byte, operands []int64, more func([]byte) []byte) int64 {
	p.next++
	b := wire.Message(nil, 1, fmt.Appendf(nil, "i%d", p.next))
	b = wire.Message(b, 2, []byte(opcode))
	b = wire.Message(b, 3, shapeProto(s))
	b = wire.Varint(b, 35, p.next)
	if len(operands) > 0 {
		b = wire.Packed(b, 36, operands)
	}
	if sharding != nil {
		b = wire.Message(b, 40, sharding)
	}
	if more != nil {
		b = more(b)
	}
	p.instructions = wire.Message(p.instructions, 2, b)
	p.shapes[p.next] = s
	return p.next
}

// Build ends the module with a tuple of results and gives the HloModuleProto's bytes.
func (p *Program) Build(results ...int64) []byte {
	elements := make([]shape.Shape, len(results))
	for i, r := range results {
		elements[i] = p.shapes[r]
	}
	result := shape.MakeTuple(elements...)
	root := p.Op("tuple", result, results...)
	var signature []byte
	for _, s := range p.parameters {
		signature = wire.Message(signature, 1, shapeProto(s))
	}
	signature = wire.Message(signature, 2, shapeProto(result))
	for i := range p.parameters {
		signature = wire.Message(signature, 3, fmt.Appendf(nil, "p%d", i))
	}
	entry := wire.Message(nil, 1, []byte("main"))
	entry = append(entry, p.instructions...)
	entry = wire.Message(entry, 4, signature)
	entry = wire.Varint(entry, 5, 1)
	entry = wire.Varint(entry, 6, root)

	module := wire.Message(nil, 1, []byte(p.name))
	module = wire.Message(module, 2, []byte("main"))
	module = wire.Message(module, 3, entry)
	module = wire.Message(module, 4, signature)
	module = wire.Varint(module, 6, 1)
	if len(p.donors) > 0 {
		var list []byte
		for _, d := range p.donors {
			list = wire.Message(list, 1, wire.Varint(nil, 1, d))
		}
		module = wire.Message(module, 18, list)
	}
	return module
}

func shapeProto(s shape.Shape) []byte {
	b := wire.Varint(nil, 2, int64(s.Dtype))
	if s.Dtype == dtype.Tuple {
		for _, e := range s.Elements {
			b = wire.Message(b, 4, shapeProto(e))
		}
		return b
	}
	minorToMajor := make([]int64, len(s.Dims))
	for i := range minorToMajor {
		minorToMajor[i] = int64(len(s.Dims) - 1 - i)
		b = wire.Varint(b, 6, 0)
	}
	return wire.Message(wire.Packed(b, 3, s.Dims), 5, wire.Packed(nil, 1, minorToMajor))
}
