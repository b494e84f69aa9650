package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Distances between the pairs of rows of one matrix (torch.pdist): the part above the diagonal of the
// matrix of all distances, row by row.

func init() {
	register(
		&Row{Name: "_pdist_forward", Out: []string{"_pdist_forward.out"}, Meta: metaPdist},
		&Row{Name: "_pdist_backward", Out: []string{"_pdist_backward.out"}, Meta: metaPdistBackward},
	)
}

var (
	kindAboveDiagonal = defineKind("above_diagonal", lowerAboveDiagonal)
	kindSymmetric     = defineKind("symmetric", lowerSymmetric)
)

// metaPdist: self, p.
func metaPdist(c *Call) error {
	d, rows := c.Dtype(0), c.Dims(0)[0]
	if err := require("pdist", d, floats); err != nil {
		return err
	}
	if d.Size() < 4 {
		return notImplemented("pdist", d)
	}
	x := c.Node(0)
	all := c.BuildRow("_cdist_forward", d, []int64{rows, rows}, x, x)
	all.Attributes = append(all.Attributes, int64(math.Float64bits(c.Float(1, 2))), 0)
	c.Return(c.Build(kindAboveDiagonal, d, []int64{rows * (rows - 1) / 2}, all))
	return nil
}

// metaPdistBackward: grad, self, p, pdist. A row's gradient is that of its distances from all others.
func metaPdistBackward(c *Call) error {
	d, dims := c.Dtype(1), c.Dims(1)
	if err := require("pdist_backward", d, floats); err != nil {
		return err
	}
	square := []int64{dims[0], dims[0]}
	grad := c.Build(kindSymmetric, d, square, c.Node(0))
	distance := c.Build(kindSymmetric, d, square, c.Node(3))
	x := c.Node(1)
	slope := c.BuildRow("_cdist_backward", d, dims, grad, x, x, distance)
	slope.Attributes = append(slope.Attributes, int64(math.Float64bits(c.Float(2, 2))))
	c.Return(slope)
	return nil
}

// pairsBefore is the number of pairs in the rows above row, of rows in all.
func pairsBefore(e elementwise, row hlo.Value, rows int64) hlo.Value {
	product := e.mul(row, e.sub(e.FullInt(dtype.S64, 2*rows-1, row.Dims()...), row))
	return e.Binary(hlo.ShiftRightArithmetic, product, e.FullInt(dtype.S64, 1, row.Dims()...))
}

// lowerAboveDiagonal finds pair k's row as the root of a quadratic, and corrects its rounding.
func lowerAboveDiagonal(l *ir.Lowering) hlo.Value {
	e, rows := elementwise{l.B}, l.In(0).Dims()[0]
	if l.Dims[0] == 0 {
		return e.Full(l.Dtype, 0, l.Dims...)
	}
	integer := func(v int64) hlo.Value { return e.FullInt(dtype.S64, v, l.Dims...) }
	pair := e.Iota(dtype.S64, l.Dims, 0)
	side := 2*rows - 1
	root := e.sqrt(e.Convert(e.sub(integer(side*side), e.mul(pair, integer(8))), dtype.F64))
	row := e.Convert(e.scale(e.sub(e.number(root, float64(side)), root), 0.5), dtype.S64)
	isPast := e.greater(pairsBefore(e, row, rows), pair)
	row = e.Select(isPast, e.sub(row, integer(1)), row)
	isBefore := e.atMost(pairsBefore(e, e.add(row, integer(1)), rows), pair)
	row = e.Select(isBefore, e.add(row, integer(1)), row)
	column := e.add(e.add(e.sub(pair, pairsBefore(e, row, rows)), row), integer(1))
	return takeElements(l.B, l.In(0), e.add(e.mul(row, integer(rows)), column))
}

// lowerSymmetric gives the matrix whose part above the diagonal is operand 0, with a diagonal of zeros.
func lowerSymmetric(l *ir.Lowering) hlo.Value {
	e, rows := elementwise{l.B}, l.Dims[0]
	if l.In(0).Dims()[0] == 0 {
		return e.Full(l.Dtype, 0, l.Dims...)
	}
	i, j := e.Iota(dtype.S64, l.Dims, 0), e.Iota(dtype.S64, l.Dims, 1)
	low, high := e.min(i, j), e.max(i, j)
	pair := e.add(pairsBefore(e, low, rows), e.sub(e.sub(high, low), e.one(low)))
	onDiagonal := e.equal(i, j)
	values := takeElements(l.B, as(l.B, l.In(0), l.Dtype), e.Select(onDiagonal, e.zero(pair), pair))
	return e.Select(onDiagonal, e.zero(values), values)
}
