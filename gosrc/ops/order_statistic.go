package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Medians, k-th smallest values and modes, all from one stable sort in which NaN comes last.

func init() {
	register(
		&Row{Name: "median", Out: []string{"median.out"}, Meta: metaMedianAll, Lower: lowerMedianAll(medianPlace)},
		&Row{Name: "nanmedian", Out: []string{"nanmedian.out"}, Meta: metaMedianAll, Lower: lowerMedianAll(nanMedianPlace)},
		&Row{Name: "median.dim", Out: []string{"median.dim_values"}, Meta: metaMedian, LowerMany: lowerMedian(medianPlace)},
		&Row{Name: "nanmedian.dim", Out: []string{"nanmedian.dim_values"}, Meta: metaMedian, LowerMany: lowerMedian(nanMedianPlace)},
		&Row{Name: "kthvalue", Out: []string{"kthvalue.values"}, Meta: metaKthvalue, LowerMany: lowerKthvalue, Variables: variableIntegers(0)},
		&Row{Name: "mode", Out: []string{"mode.values"}, Meta: metaMode, LowerMany: lowerMode},
	)
}

// ascending sorts x along dim, with the positions that the elements had.
func ascending(b *hlo.Builder, x hlo.Value, dim int) (values, positions hlo.Value) {
	d, index := x.Dtype(), positionType(x.Dims()[dim])
	before := b.Computation("ascending_"+d.String(), func(sub *hlo.Builder) {
		p, q := sub.Parameter(shape.Make(d), "p"), sub.Parameter(shape.Make(d), "q")
		sub.Parameter(shape.Make(index), "p_position")
		sub.Parameter(shape.Make(index), "q_position")
		less := sub.Compare("LT", p, q)
		if d.IsFloat() {
			number := sub.Binary(hlo.And, sub.Compare("EQ", p, p), isNaN(sub, q))
			less = sub.Binary(hlo.Or, less, number)
		}
		sub.Return(less)
	})
	sorted := b.Sort([]hlo.Value{x, b.Iota(index, x.Dims(), dim)}, dim, true, before)
	return sorted[0], sorted[1]
}

// pickAt gives the element at place along the dimension of mask; place is without it.
func pickAt(b *hlo.Builder, x, place hlo.Value, mask uint64) hlo.Value {
	dims := x.Dims()
	here := b.Compare("EQ", b.Iota(place.Dtype(), dims, maskDims(mask)[0]), spread(b, place, mask, dims))
	least := b.BroadcastTo(b.MinValue(x.Dtype()), dims)
	return reduceMask(b, hlo.Maximum, b.Select(here, x, least), mask)
}

// A placeOf says where in n sorted elements, of which count are numbers, the result stands.
type placeOf func(b *hlo.Builder, count hlo.Value, n int64) hlo.Value

// medianPlace is the lower middle, or the first NaN where there is one.
func medianPlace(b *hlo.Builder, count hlo.Value, n int64) hlo.Value {
	d, dims := count.Dtype(), count.Dims()
	whole := b.Compare("EQ", count, b.FullInt(d, n, dims...))
	return b.Select(whole, b.FullInt(d, max(n-1, 0)/2, dims...), count)
}

// nanMedianPlace is the lower middle of the numbers.
func nanMedianPlace(b *hlo.Builder, count hlo.Value, _ int64) hlo.Value {
	d, dims := count.Dtype(), count.Dims()
	one, two := b.FullInt(d, 1, dims...), b.FullInt(d, 2, dims...)
	return b.Binary(hlo.Divide, b.Binary(hlo.Maximum, b.Binary(hlo.Subtract, count, one), b.FullInt(d, 0, dims...)), two)
}

// countNumbers counts the elements that are not NaN.
func countNumbers(b *hlo.Builder, x hlo.Value, mask uint64) hlo.Value {
	n := reduceCount(x.Dims(), mask)
	index := positionType(n)
	if !x.Dtype().IsFloat() {
		return reduceMask(b, hlo.Add, b.FullInt(index, 1, x.Dims()...), mask)
	}
	return sumOver(b, b.Convert(b.Compare("EQ", x, x), index), mask)
}

// medianOver gives median and position along the one dimension of mask.
func medianOver(b *hlo.Builder, x hlo.Value, mask uint64, place placeOf) (value, position hlo.Value) {
	if mask == 0 {
		return x, b.FullInt(dtype.S64, 0, x.Dims()...)
	}
	dim := maskDims(mask)[0]
	values, positions := ascending(b, x, dim)
	at := place(b, countNumbers(b, x, mask), x.Dims()[dim])
	return pickAt(b, values, at, mask), as(b, pickAt(b, positions, at, mask), dtype.S64)
}

// checkOrdered raises for types that a kernel of order statistics does not have.
func checkOrdered(kernel string, d dtype.Dtype) error {
	if d.IsComplex() || d == dtype.Bool {
		return notImplemented(kernel, d)
	}
	return nil
}

func metaMedianAll(c *Call) error {
	d := c.Dtype(0)
	if err := checkOrdered("median_cpu", d); err != nil {
		return err
	}
	c.Operand(c.Node(0))
	return c.Out(d, nil)
}

func lowerMedianAll(place placeOf) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		b, n := l.B, numElements(l.In(0).Dims())
		if n == 0 {
			return b.Full(l.Dtype, math.NaN())
		}
		value, _ := medianOver(b, b.Reshape(l.In(0), []int64{n}), 1, place)
		return value
	}
}

// declareOrdered declares values and positions along dimension mask of argument 0.
func (c *Call) declareOrdered(mask uint64, keep bool) error {
	c.Operand(c.Node(0))
	c.Attr(int64(mask))
	dims := c.reducedDims(c.Dims(0), mask, keep)
	c.AttrInts(dims)
	n := c.Many()
	c.Return(c.Element(n, 0, c.Dtype(0), dims))
	c.Return(c.Element(n, 1, dtype.S64, dims))
	return nil
}

func metaMedian(c *Call) error {
	mask, err := c.dimMask(1, c.Rank(0))
	if err != nil {
		return err
	}
	if err := checkNotEmpty("median", c.Dims(0), mask, true); err != nil {
		return err
	}
	if err := checkOrdered("median_out", c.Dtype(0)); err != nil {
		return err
	}
	return c.declareOrdered(mask, c.Bool(2))
}

func lowerMedian(place placeOf) func(l *ir.Lowering) []hlo.Value {
	return func(l *ir.Lowering) []hlo.Value {
		value, position := medianOver(l.B, l.In(0), uint64(l.Int()), place)
		dims := l.Ints()
		return []hlo.Value{l.B.Reshape(value, dims), l.B.Reshape(position, dims)}
	}
}

// metaKthvalue takes (self, k, dim, keepdim).
func metaKthvalue(c *Call) error {
	mask, err := c.dimMask(2, c.Rank(0))
	if err != nil {
		return err
	}
	if err := checkNotEmpty("kthvalue", c.Dims(0), mask, true); err != nil {
		return err
	}
	k := c.Int(1, 1)
	if k < 1 || k > reduceCount(c.Dims(0), mask) {
		dim, _ := c.Dim(c.Int(2, -1), c.Rank(0))
		return Errorf("kthvalue(): selected number k out of range for dimension %d", dim)
	}
	if err := checkOrdered("kthvalue_cpu", c.Dtype(0)); err != nil {
		return err
	}
	c.Attr(k - 1)
	return c.declareOrdered(mask, c.Bool(3))
}

func lowerKthvalue(l *ir.Lowering) []hlo.Value {
	b, x := l.B, l.In(0)
	k, mask, dims := l.Number(), uint64(l.Int()), l.Ints()
	if mask == 0 {
		return []hlo.Value{b.Reshape(x, dims), b.FullInt(dtype.S64, 0, dims...)}
	}
	dim := maskDims(mask)[0]
	values, positions := ascending(b, x, dim)
	one := replaceDim(x.Dims(), dim, 1)
	pick := func(v hlo.Value) hlo.Value {
		if k.IsParameter() {
			return b.Reshape(b.DynamicSlice(v, startsAt(b, x.Rank(), dim, k.In(b, dtype.S64)), one), dims)
		}
		return b.Reshape(sliceDim(b, v, dim, k.Constant, k.Constant+1), dims)
	}
	return []hlo.Value{pick(values), as(b, pick(positions), dtype.S64)}
}

// metaMode takes (self, dim, keepdim).
func metaMode(c *Call) error {
	mask, err := c.dimMask(1, c.Rank(0))
	if err != nil {
		return err
	}
	if err := checkNotEmpty("mode", c.Dims(0), mask, true); err != nil {
		return err
	}
	if d := c.Dtype(0); d.IsComplex() {
		return status.Torchf(status.NotImplementedError, "mode is not implemented for complex numbers")
	}
	return c.declareOrdered(mask, c.Bool(2))
}

// lowerMode gives the smallest of the most frequent values and its last position: in the sorted
// array, the first element whose run is the longest so far.
func lowerMode(l *ir.Lowering) []hlo.Value {
	b, x, mask := l.B, l.In(0), uint64(l.Int())
	dims := l.Ints()
	if mask == 0 {
		return []hlo.Value{b.Reshape(x, dims), b.FullInt(dtype.S64, 0, dims...)}
	}
	d := x.Dtype()
	if d == dtype.Bool {
		x = as(b, x, dtype.U8)
	}
	dim, sizes := maskDims(mask)[0], x.Dims()
	values, positions := ascending(b, x, dim)
	index := positions.Dtype()
	iota := b.Iota(index, sizes, dim)
	low, high := make([]int64, len(sizes)), make([]int64, len(sizes))
	low[dim], high[dim] = 1, -1
	previous := b.Pad(values, b.Scalar(values.Dtype(), 0), low, high, nil)
	starts := b.Binary(hlo.Or, b.Compare("NE", values, previous), b.Compare("EQ", iota, b.FullInt(index, 0, sizes...)))
	run := scanMaximum.along(b, b.Select(starts, iota, b.FullInt(index, 0, sizes...)), dim)
	_, place := extremumAt(b, hlo.Maximum, b.Binary(hlo.Subtract, iota, run), mask)
	place = as(b, place, index)
	return []hlo.Value{
		b.Reshape(as(b, pickAt(b, values, place, mask), d), dims),
		b.Reshape(as(b, pickAt(b, positions, place, mask), dtype.S64), dims),
	}
}
