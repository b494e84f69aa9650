package ops

import (
	"math"
	"slices"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// Distances between all pairs of rows (torch.cdist).

func init() {
	register(
		&Row{Name: "_cdist_forward", Out: []string{"_cdist_forward.out"}, Meta: metaCdist, Lower: lowerCdist, Variables: variableDistance},
		&Row{Name: "_cdist_backward", Out: []string{"_cdist_backward.out"}, Meta: metaCdistBackward, Lower: lowerCdistBackward, Variables: variableOrder},
	)
}

// productRows is the number of rows above which torch computes Euclidean distances by a matrix
// product, unless compute_mode says otherwise.
const productRows = 25

// metaCdist: x1, x2, p, compute_mode.
func metaCdist(c *Call) error {
	for i, name := range [2]string{"X1", "X2"} {
		if d := c.Dtype(i); !d.IsFloat() {
			return Errorf("cdist only supports floating-point dtypes, %s got: %s", name, torchClass(d))
		}
		if c.Rank(i) < 2 {
			return Errorf("cdist only supports at least 2D tensors, %s got: %dD", name, c.Rank(i))
		}
	}
	x, y := c.Dims(0), c.Dims(1)
	if m, n := x[len(x)-1], y[len(y)-1]; m != n {
		return Errorf("X1 and X2 must have the same number of columns. X1: %d X2: %d", m, n)
	}
	p := c.Float(2, 2)
	if p < 0 || math.IsNaN(p) {
		return Errorf("cdist only supports non-negative p values")
	}
	mode := c.Int(3, 0)
	if mode < 0 || mode > 2 {
		return Errorf("possible modes: 0, 1, 2, but was: %d", mode)
	}
	if c.Dtype(0) != c.Dtype(1) {
		return Errorf("expected scalar type %s but found %s", torchClass(c.Dtype(0)), torchClass(c.Dtype(1)))
	}
	rows, others := x[len(x)-2], y[len(y)-2]
	batch, err := broadcastInto(slices.Clone(x[:len(x)-2]), y[:len(y)-2])
	if err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1))
	c.AttrFloat(p)
	c.AttrBool(p == 2 && (mode == 1 || mode == 0 && (rows > productRows || others > productRows)))
	return c.Out(c.Dtype(0), append(batch, rows, others))
}

// pairDims appends the columns to the dims of a result of cdist.
func pairDims(dims []int64, columns int64) []int64 { return append(slices.Clone(dims), columns) }

// differences gives x minus y for every pair of rows, of dims (batch, rows, others, columns).
func differences(b *hlo.Builder, x, y hlo.Value, dims []int64) hlo.Value {
	spread := func(v hlo.Value, at int) hlo.Value {
		d := slices.Clone(v.Dims())
		return b.BroadcastTo(b.Reshape(v, slices.Insert(d, len(d)-at, 1)), dims)
	}
	return b.Binary(hlo.Subtract, spread(x, 1), spread(y, 2))
}

// variableDistance is the order of a distance that is not made of a product of matrices.
func variableDistance(n *ir.Node) ir.Variables {
	if n.Attributes[1] != 0 {
		return ir.Variables{}
	}
	return variableOrder(n)
}

func lowerCdist(l *ir.Lowering) hlo.Value {
	b, order, product, compute := l.B, l.Number(), l.Bool(), l.Dtype.OpMath()
	p := order.Float()
	x, y := as(b, l.In(0), compute), as(b, l.In(1), compute)
	columns := x.Dims()[x.Rank()-1]
	if shape.Product(l.Dims) == 0 || columns == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	if product {
		return as(b, euclideanByProduct(b, x, y, l.Dims), l.Dtype)
	}
	d := b.Unary(hlo.Abs, differences(b, x, y, pairDims(l.Dims, columns)))
	last := []int{len(l.Dims)}
	zero := b.Full(compute, 0)
	full := func(v float64) hlo.Value { return b.Full(compute, v, d.Dims()...) }
	var sum hlo.Value
	switch {
	case order.IsParameter():
		exponent := order.FloatIn(b, compute)
		sum = b.ReduceOp(hlo.Add, b.Binary(hlo.Power, d, b.BroadcastTo(exponent, d.Dims())), zero, last)
		sum = b.Binary(hlo.Power, sum, b.BroadcastTo(b.Binary(hlo.Divide, b.Scalar(compute, 1), exponent), l.Dims))
	case p == 0:
		sum = b.ReduceOp(hlo.Add, as(b, b.Compare("NE", d, full(0)), compute), zero, last)
	case p == 1:
		sum = b.ReduceOp(hlo.Add, d, zero, last)
	case p == 2:
		sum = b.Unary(hlo.Sqrt, b.ReduceOp(hlo.Add, b.Binary(hlo.Multiply, d, d), zero, last))
	case math.IsInf(p, 1):
		sum = b.ReduceOp(hlo.Maximum, d, zero, last)
	default:
		sum = b.ReduceOp(hlo.Add, b.Binary(hlo.Power, d, full(p)), zero, last)
		sum = b.Binary(hlo.Power, sum, b.Full(compute, 1/p, l.Dims...))
	}
	return as(b, sum, l.Dtype)
}

// euclideanByProduct is sqrt(x.x + y.y - 2 x.y), which is 0 where rounding makes it negative.
func euclideanByProduct(b *hlo.Builder, x, y hlo.Value, dims []int64) hlo.Value {
	rank := len(dims)
	compute := x.Dtype()
	square := func(v hlo.Value, at int) hlo.Value {
		s := b.ReduceOp(hlo.Add, b.Binary(hlo.Multiply, v, v), b.Full(compute, 0), []int{v.Rank() - 1})
		d := slices.Clone(s.Dims())
		return b.BroadcastTo(b.Reshape(s, slices.Insert(d, len(d)-at, 1)), dims)
	}
	wide := func(v hlo.Value, rows int64) hlo.Value {
		return b.BroadcastTo(v, append(slices.Clone(dims[:rank-2]), rows, v.Dims()[v.Rank()-1]))
	}
	batch := make([]int64, rank-2)
	for i := range batch {
		batch[i] = int64(i)
	}
	last := []int64{int64(rank - 1)}
	product := b.Dot(wide(x, dims[rank-2]), wide(y, dims[rank-1]), hlo.DotDims{LHSContracting: last, RHSContracting: last, LHSBatch: batch, RHSBatch: batch})
	product = b.Binary(hlo.Multiply, product, b.Full(compute, -2, dims...))
	sum := b.Binary(hlo.Add, product, b.Binary(hlo.Add, square(x, 0), square(y, 1)))
	return b.Unary(hlo.Sqrt, b.Binary(hlo.Maximum, sum, b.Full(compute, 0, dims...)))
}

// metaCdistBackward: grad, x1, x2, p, cdist.
func metaCdistBackward(c *Call) error {
	x, dims := c.Dims(1), c.Dims(4)
	d := c.Dtype(1)
	for _, i := range [3]int{0, 2, 4} {
		if c.Dtype(i) != d {
			return Errorf("expected scalar type %s but found %s", torchClass(d), torchClass(c.Dtype(i)))
		}
	}
	c.Operand(c.Node(0), c.Node(1), c.Node(2), c.Node(4))
	c.AttrFloat(c.Float(3, 2))
	return c.Out(d, append(slices.Clone(dims[:len(dims)-2]), x[len(x)-2], x[len(x)-1]))
}

func lowerCdistBackward(l *ir.Lowering) hlo.Value {
	b, order, compute := l.B, l.Number(), l.Dtype.OpMath()
	p := order.Float()
	grad, x, y, distance := as(b, l.In(0), compute), as(b, l.In(1), compute), as(b, l.In(2), compute), as(b, l.In(3), compute)
	if p == 0 && !order.IsParameter() || shape.Product(l.Dims) == 0 || shape.Product(distance.Dims()) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	dims := pairDims(distance.Dims(), x.Dims()[x.Rank()-1])
	along := make([]int, len(dims)-1)
	for i := range along {
		along[i] = i
	}
	grad, distance = b.Broadcast(grad, dims, along), b.Broadcast(distance, dims, along)
	d := differences(b, x, y, dims)
	full := func(v float64) hlo.Value { return b.Full(compute, v, dims...) }
	multiply := func(x, y hlo.Value) hlo.Value { return b.Binary(hlo.Multiply, x, y) }
	size, sign := b.Unary(hlo.Abs, d), b.Unary(hlo.Sign, d)
	nothing := b.Compare("EQ", distance, full(0))
	var term hlo.Value
	switch {
	case order.IsParameter(): // what p < 1 leaves out is 0 for any other p too
		nothing = b.Binary(hlo.Or, nothing, b.Compare("EQ", d, full(0)))
		exponent := b.BroadcastTo(b.Binary(hlo.Subtract, order.FloatIn(b, compute), b.Scalar(compute, 1)), dims)
		term = multiply(multiply(sign, b.Binary(hlo.Power, size, exponent)), grad)
		term = b.Binary(hlo.Divide, term, b.Binary(hlo.Power, distance, exponent))
	case p == 1:
		term, nothing = multiply(grad, sign), hlo.Value{}
	case p == 2:
		term = b.Binary(hlo.Divide, multiply(grad, d), distance)
	case math.IsInf(p, 1):
		term = b.Select(b.Compare("EQ", size, distance), multiply(grad, sign), full(0))
	default:
		if p < 1 {
			nothing = b.Binary(hlo.Or, nothing, b.Compare("EQ", d, full(0)))
		}
		term = multiply(multiply(sign, b.Binary(hlo.Power, size, full(p-1))), grad)
		term = b.Binary(hlo.Divide, term, b.Binary(hlo.Power, distance, full(p-1)))
	}
	if nothing.Valid() {
		term = b.Select(nothing, full(0), term)
	}
	return as(b, b.ReduceOp(hlo.Add, term, b.Full(compute, 0), []int{len(dims) - 2}), l.Dtype)
}
