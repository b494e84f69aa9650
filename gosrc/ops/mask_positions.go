package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Operators that count the true elements of a mask, and have results of sizes that the caller gives.

func init() {
	register(
		&Row{Name: "masked_scatter", Checks: true, InPlace: []string{"masked_scatter_"}, Out: []string{"masked_scatter.out"}, Meta: metaMaskedScatter, Lower: lowerMaskedScatter},
		&Row{Name: "masked_scatter_backward", Meta: metaMaskedScatterBackward, Lower: lowerMaskedScatterBackward},
		&Row{Name: "nonzero_static", Out: []string{"nonzero_static.out"}, Meta: metaNonzeroStatic, Lower: lowerNonzeroStatic},
	)
}

// trueBefore gives, for each element of a flat mask, how many are true before it, and for the last also with it: the
// mask's running count without and with the element.
func trueBefore(b *hlo.Builder, mask hlo.Value) (before, with hlo.Value) {
	t := positionType(mask.Dims()[0])
	ones := b.Convert(mask, t)
	with = scanSum.along(b, ones, 0)
	return b.Binary(hlo.Subtract, with, ones), with
}

// flatten makes an array of one dimension.
func flatten(b *hlo.Builder, x hlo.Value) hlo.Value {
	return b.Reshape(x, []int64{shape.Product(x.Dims())})
}

// lastElement gives the last element of an array of one dimension, as an array of one element.
func lastElement(b *hlo.Builder, x hlo.Value) hlo.Value {
	n := x.Dims()[0]
	return sliceDim(b, x, 0, n-1, n)
}

// metaMaskedScatter: (self, mask, source).
func metaMaskedScatter(c *Call) error {
	dims := c.Dims(0)
	if c.InPlace {
		if err := c.expandable(1, dims); err != nil {
			return err
		}
	} else {
		var err error
		if dims, err = c.BroadcastDims(1, 0); err != nil {
			return err
		}
	}
	d := c.Dtype(0)
	if source := c.Dtype(2); d != source {
		return Errorf("masked_scatter: expected self and source to have same dtypes but got%s and %s", torchClass(d), torchClass(source))
	}
	if mask := c.Dtype(1); mask != dtype.Bool {
		return Errorf("masked_scatter_ only supports boolean masks, but got mask with dtype %s", torchClass(mask))
	}
	c.Operand(c.Node(0), c.Node(1), c.Node(2))
	return c.Out(d, dims)
}

// lowerMaskedScatter reads, for each true element of the mask, the source's element of the same number.
func lowerMaskedScatter(l *ir.Lowering) hlo.Value {
	b, x := l.B, operand(l, 0, l.Dtype)
	elements := shape.Product(l.Dims)
	if elements == 0 {
		return x
	}
	mask := operand(l, 1, dtype.Bool)
	source := flatten(b, l.In(2))
	before, with := trueBefore(b, flatten(b, mask))
	available := source.Dims()[0]
	if available < elements {
		count := lastElement(b, with)
		l.CheckNone(b.Compare("GT", count, b.FullInt(count.Dtype(), available, 1)), count,
			ir.Refusal{Exception: status.RuntimeError, Text: "Number of elements of source < number of ones in mask"})
	}
	if available == 0 {
		return x
	}
	taken := takeElements(b, source, clampPositions(b, before, available))
	return b.Select(mask, b.Reshape(taken, l.Dims), x)
}

// metaMaskedScatterBackward: (grad_output, mask, sizes of the source).
func metaMaskedScatterBackward(c *Call) error {
	dims, err := c.BroadcastDims(0, 1)
	if err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1))
	c.AttrInts(dims)
	return c.Out(c.Dtype(0), c.Ints(2))
}

// lowerMaskedScatterBackward puts the gradient's elements at true places one after the other; the rest of the source,
// which was not read, has zeros.
func lowerMaskedScatterBackward(l *ir.Lowering) hlo.Value {
	b, zeros := l.B, l.B.Full(l.Dtype, 0, l.Dims...)
	dims := l.Ints()
	if shape.Product(dims) == 0 || shape.Product(l.Dims) == 0 {
		return zeros
	}
	mask := flatten(b, b.BroadcastTo(l.In(1), dims))
	before, _ := trueBefore(b, mask)
	at := b.Select(mask, before, b.FullInt(before.Dtype(), -1, before.Dims()...))
	return putElements(b, zeros, at, flatten(b, b.BroadcastTo(l.In(0), dims)), hlo.Add)
}

// metaNonzeroStatic: (self, size, fill_value).
func metaNonzeroStatic(c *Call) error {
	size := c.Int(1, 0)
	if size < 0 {
		return Errorf("nonzero_static: 'size' must be an non-negative integer")
	}
	c.Operand(c.Node(0), c.IntNode(c.Int(2, -1)))
	return c.Out(dtype.S64, []int64{size, int64(c.Rank(0))})
}

// lowerNonzeroStatic puts the places of the elements that are not zero one after the other, and leaves out those beyond
// the size.
func lowerNonzeroStatic(l *ir.Lowering) hlo.Value {
	b, x := l.B, l.In(0)
	fill := b.BroadcastTo(as(b, l.In(1), dtype.S64), l.Dims)
	dims, size := x.Dims(), l.Dims[0]
	elements := shape.Product(dims)
	if elements == 0 || shape.Product(l.Dims) == 0 {
		return fill
	}
	mask := flatten(b, as(b, x, dtype.Bool))
	before, _ := trueBefore(b, mask)
	t := before.Dtype()
	at := b.Select(mask, before, b.FullInt(t, -1, elements))
	places := putElements(b, b.FullInt(t, -1, size), at, b.Iota(t, []int64{elements}, 0), hlo.Maximum)
	columns := make([]hlo.Value, len(dims))
	for k, stride := range shape.RowMajorStrides(dims) {
		coordinate := b.Binary(hlo.Divide, places, b.FullInt(t, stride, size))
		coordinate = b.Binary(hlo.Remainder, coordinate, b.FullInt(t, dims[k], size))
		columns[k] = b.Reshape(coordinate, []int64{size, 1})
	}
	isFilled := b.Broadcast(b.Compare("LT", places, b.FullInt(t, 0, size)), l.Dims, []int{0})
	return b.Select(isFilled, fill, as(b, b.Concatenate(columns, 1), dtype.S64))
}
