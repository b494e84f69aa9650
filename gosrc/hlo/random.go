package hlo

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

// Algorithm is a random bit generator.
type Algorithm int64

// Generators, with XLA's numbers.
const (
	RngDefault  Algorithm = 0 // the device's choice
	RngThreeFry Algorithm = 1 // state u64[2]
	RngPhilox   Algorithm = 2 // state u64[3] (or u64[2])
)

// RngBitGenerator gives uniformly random bits of shape s, an unsigned type, and the state for the
// next call. Equal states give equal bits.
func (b *Builder) RngBitGenerator(algorithm Algorithm, state Value, s shape.Shape) (newState, bits Value) {
	if !b.ok(opRngBitGenerator, state) {
		return Value{}, Value{}
	}
	if !s.Dtype.IsUnsigned() || negative(s.Dims) {
		return b.fail(opRngBitGenerator, "expected an unsigned integer shape, got %v", s), Value{}
	}
	t := state.n.shape
	if t.Dtype != dtype.U64 || len(t.Dims) != 1 || t.Dims[0] < 2 || t.Dims[0] > 3 || (algorithm == RngThreeFry && t.Dims[0] != 2) {
		return b.fail(opRngBitGenerator, "expected a state u64[2] (or u64[3] of RngPhilox), got %v", t), Value{}
	}
	n, at := b.begin(opRngBitGenerator, shape.MakeTuple(t, s))
	b.body.varint(70, int64(algorithm))
	both := b.end(n, at, state)
	return b.GetTupleElement(both, 0), b.GetTupleElement(both, 1)
}
