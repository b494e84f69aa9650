package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Helpers of lowerings.

// as converts x to d the way torch's .to() does: to bool by comparing with zero, from complex to
// real by taking the real part.
func as(b *hlo.Builder, x hlo.Value, d dtype.Dtype) hlo.Value {
	from := x.Dtype()
	switch {
	case from == d:
		return x
	case d == dtype.Bool:
		return b.Compare("NE", x, b.Full(from, 0, x.Dims()...))
	case from == dtype.Bool && (d.IsFloat() || d.IsComplex()):
		// XLA makes a choice between x and 0 of x times a bool: what is NaN or infinite would be 0 where that is false.
		return b.Convert(b.Convert(x, dtype.S8), d)
	case from.IsComplex() && !d.IsComplex():
		return b.Convert(b.Unary(hlo.Real, x), d)
	}
	return b.Convert(x, d)
}

// Convert is as for other rooms.
func Convert(b *hlo.Builder, x hlo.Value, d dtype.Dtype) hlo.Value { return as(b, x, d) }

// startsAt gives the start of a slice of an array of rank that begins at start in dimension dim.
func startsAt(b *hlo.Builder, rank, dim int, start hlo.Value) []hlo.Value {
	starts := make([]hlo.Value, rank)
	for k := range starts {
		starts[k] = b.ScalarInt(start.Dtype(), 0)
	}
	starts[dim] = start
	return starts
}

// operand gives operand i converted to d and broadcast to the node's dims.
func operand(l *ir.Lowering, i int, d dtype.Dtype) hlo.Value {
	return l.B.BroadcastTo(as(l.B, l.In(i), d), l.Dims)
}
