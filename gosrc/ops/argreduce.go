package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Extrema together with where they are. NaN counts as the extremum, and of equal values the first
// is taken. The position is a second reduction over the positions of the extremum: two passes
// that XLA vectorises, where one reduction of pairs is a scalar loop.

func init() {
	register(
		&Row{Name: "max.dim", Out: []string{"max.dim_max"}, Meta: metaExtremumDim("max"), LowerMany: lowerExtremumDim(hlo.Maximum)},
		&Row{Name: "min.dim", Out: []string{"min.dim_min"}, Meta: metaExtremumDim("min"), LowerMany: lowerExtremumDim(hlo.Minimum)},
		&Row{Name: "argmax", Out: []string{"argmax.out"}, Meta: metaArg("argmax"), Lower: lowerArg(hlo.Maximum)},
		&Row{Name: "argmin", Out: []string{"argmin.out"}, Meta: metaArg("argmin"), Lower: lowerArg(hlo.Minimum)},
	)
}

func metaExtremumDim(function string) func(c *Call) error {
	return func(c *Call) error {
		d := c.Dtype(0)
		mask, err := c.dimMask(1, c.Rank(0))
		if err != nil {
			return err
		}
		if err := checkNotEmpty(function, c.Dims(0), mask, true); err != nil {
			return err
		}
		if d.IsComplex() {
			return status.Torchf(status.TypeError, "%s(): does not support complex input", function)
		}
		c.Operand(c.Node(0))
		c.Attr(int64(mask))
		dims := c.reducedDims(c.Dims(0), mask, c.Bool(2))
		c.AttrInts(dims)
		n := c.Many()
		c.Return(c.Element(n, 0, d, dims))
		c.Return(c.Element(n, 1, dtype.S64, dims))
		return nil
	}
}

// extremumAt gives the extremum along one dimension and its first position, without that
// dimension; a mask of none gives x itself and zeros.
func extremumAt(b *hlo.Builder, op hlo.Opcode, x hlo.Value, mask uint64) (value, position hlo.Value) {
	if mask == 0 {
		return x, b.Full(dtype.S64, 0, x.Dims()...)
	}
	dims, dim := x.Dims(), maskDims(mask)[0]
	value = extremumOver(b, op, x, mask)
	found := b.Compare("EQ", x, spread(b, value, mask, dims))
	if x.Dtype().IsFloat() {
		found = b.Binary(hlo.Or, found, isNaN(b, x))
	}
	index := positionType(dims[dim])
	last := b.FullInt(index, max(dims[dim]-1, 0), dims...)
	position = reduceMask(b, hlo.Minimum, b.Select(found, b.Iota(index, dims, dim), last), mask)
	return value, as(b, position, dtype.S64)
}

func lowerExtremumDim(op hlo.Opcode) func(l *ir.Lowering) []hlo.Value {
	return func(l *ir.Lowering) []hlo.Value {
		d := l.In(0).Dtype()
		value, position := extremumAt(l.B, op, as(l.B, l.In(0), d.OpMath()), uint64(l.Int()))
		dims := l.Ints()
		return []hlo.Value{l.B.Reshape(as(l.B, value, d), dims), l.B.Reshape(position, dims)}
	}
}

func metaArg(function string) func(c *Call) error {
	return func(c *Call) error {
		d, dims := c.Dtype(0), c.Dims(0)
		mask, err := c.dimMask(1, c.Rank(0))
		if err != nil {
			return err
		}
		if c.IsNone(1) && numElements(dims) == 0 {
			return status.Torchf(status.IndexError, "%s(): Expected reduction dim to be specified for input.numel() == 0.", function)
		}
		if err := checkNotEmpty(function, dims, mask, true); err != nil {
			return err
		}
		if d.IsComplex() {
			return status.Torchf(status.TypeError, "%s(): does not support complex input", function)
		}
		if d == dtype.Bool {
			return status.Torchf(status.NotImplementedError, "%s(): does not support bool input", function)
		}
		c.AttrBool(c.IsNone(1))
		c.Operand(c.Node(0))
		c.Attr(int64(mask))
		return c.Out(dtype.S64, c.reducedDims(dims, mask, c.Bool(2)))
	}
}

func lowerArg(op hlo.Opcode) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		flat, mask := l.Bool(), uint64(l.Int())
		x := as(l.B, l.In(0), l.In(0).Dtype().OpMath())
		if flat {
			x, mask = l.B.Reshape(x, []int64{numElements(x.Dims())}), 1
		}
		_, position := extremumAt(l.B, op, x, mask)
		return l.B.Reshape(position, l.Dims)
	}
}
