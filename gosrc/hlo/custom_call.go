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

// RngBitGenerator gives uniformly random bits of shape s, an unsigned or signed integer type,
// and the state for the next call. Equal states give equal bits.
func (b *Builder) RngBitGenerator(algorithm Algorithm, state Value, s shape.Shape) (newState, bits Value) {
	if !b.ok(opRngBitGenerator, state) {
		return Value{}, Value{}
	}
	if !s.Dtype.IsInteger() || negative(s.Dims) {
		return b.fail(opRngBitGenerator, "expected an integer shape, got %v", s), Value{}
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

// CallOptions are the rarer attributes of CustomCall.
type CallOptions struct {
	SideEffect bool  // it may not be removed or merged
	APIVersion int64 // XLA's CustomCallApiVersion; 0 is 1 (original), 4 is typed FFI
}

// CustomCall calls a target that the plugin knows. The result may be a tuple.
func (b *Builder) CustomCall(target string, operands []Value, result shape.Shape, backendConfig []byte, o CallOptions) Value {
	if !b.ok(opCustomCall, operands...) {
		return Value{}
	}
	if target == "" {
		return b.fail(opCustomCall, "expected the name of a target, got none")
	}
	n, at := b.begin(opCustomCall, result)
	b.body.text(28, target)
	b.body.bytes(43, backendConfig)
	b.body.flag(65, o.SideEffect)
	b.body.varint(77, max(o.APIVersion, 1))
	return b.end(n, at, operands...)
}
