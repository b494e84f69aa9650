package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Sums, products, means, extrema and tests over dimensions. Narrow floats are accumulated in
// f32 and rounded once.

func init() {
	register(
		&Row{Name: "sum", Out: []string{"sum.out"}, Meta: metaSum(-1, -1, 1), Lower: lowerFold(hlo.Add)},
		&Row{Name: "sum.dim_IntList", Out: []string{"sum.IntList_out"}, Meta: metaSum(1, 2, 3), Lower: lowerFold(hlo.Add)},
		&Row{Name: "prod", Out: []string{"prod.out"}, Meta: metaSum(-1, -1, 1), Lower: lowerFold(hlo.Multiply)},
		&Row{Name: "prod.dim_int", Out: []string{"prod.int_out"}, Meta: metaSum(1, 2, 3), Lower: lowerFold(hlo.Multiply)},
		&Row{Name: "nansum", Out: []string{"nansum.out"}, Meta: metaNansum, Lower: lowerNansum},
		&Row{Name: "mean", Out: []string{"mean.dtype_out"}, Meta: metaMean(-1, -1, 1), Lower: lowerMean},
		&Row{Name: "mean.dim", Out: []string{"mean.out"}, Meta: metaMean(1, 2, 3), Lower: lowerMean},
		&Row{Name: "all", Out: []string{"all.all_out"}, Meta: metaTest(-1, -1), Lower: lowerTest(hlo.And)},
		&Row{Name: "all.dim", Out: []string{"all.out"}, Meta: metaTest(1, 2), Lower: lowerTest(hlo.And)},
		&Row{Name: "all.dims", Out: []string{"all.dims_out"}, Meta: metaTest(1, 2), Lower: lowerTest(hlo.And)},
		&Row{Name: "any", Out: []string{"any.all_out"}, Meta: metaTest(-1, -1), Lower: lowerTest(hlo.Or)},
		&Row{Name: "any.dim", Out: []string{"any.out"}, Meta: metaTest(1, 2), Lower: lowerTest(hlo.Or)},
		&Row{Name: "any.dims", Out: []string{"any.dims_out"}, Meta: metaTest(1, 2), Lower: lowerTest(hlo.Or)},
		&Row{Name: "amax", Out: []string{"amax.out"}, Meta: metaReduceExtremum("amax", "max_values_cpu", 1, 2), Lower: lowerReduceExtremum(hlo.Maximum)},
		&Row{Name: "amin", Out: []string{"amin.out"}, Meta: metaReduceExtremum("amin", "min_values_cpu", 1, 2), Lower: lowerReduceExtremum(hlo.Minimum)},
		&Row{Name: "max", Out: []string{"max.unary_out"}, Meta: metaReduceExtremum("max", "max_all", -1, -1), Lower: lowerReduceExtremum(hlo.Maximum)},
		&Row{Name: "min", Out: []string{"min.unary_out"}, Meta: metaReduceExtremum("min", "min_all", -1, -1), Lower: lowerReduceExtremum(hlo.Minimum)},
		&Row{Name: "aminmax", Out: []string{"aminmax.out"}, Meta: metaAminmax, LowerMany: lowerAminmax},
		&Row{Name: "count_nonzero", Out: []string{"count_nonzero.out"}, Meta: metaCountNonzero, Lower: lowerCountNonzero},
		&Row{Name: "count_nonzero.dim_IntList", Out: []string{"count_nonzero.dim_IntList_out"}, Meta: metaCountNonzero, Lower: lowerCountNonzero},
		&Row{Name: "trace", Out: []string{"trace.out"}, Meta: metaTrace, Lower: lowerTrace},
		&Row{Name: "logsumexp", Out: []string{"logsumexp.out"}, Meta: metaLogsumexp, Lower: lowerLogsumexp},
	)
}

// declareReduction declares argument 0 as the operand of a reduction over argument dim (-1: all).
func (c *Call) declareReduction(d dtype.Dtype, dim, keep int) error {
	mask, err := c.dimMask(dim, c.Rank(0))
	if err != nil {
		return err
	}
	return c.declareMasked(d, mask, keep)
}

func (c *Call) declareMasked(d dtype.Dtype, mask uint64, keep int) error {
	c.Operand(c.Node(0))
	c.Attr(int64(mask))
	return c.Out(d, c.reducedDims(c.Dims(0), mask, keep >= 0 && c.Bool(keep)))
}

// sumDtype gives the dtype argument i, or the operand's type where integers become int64.
func (c *Call) sumDtype(i int) (dtype.Dtype, error) {
	d := c.Dtype(0)
	if d.IsIntegral() {
		d = dtype.S64
	}
	return c.DtypeArg(i, d)
}

func metaSum(dim, keep, dtypeArg int) func(c *Call) error {
	return func(c *Call) error {
		d, err := c.sumDtype(dtypeArg)
		if err != nil {
			return err
		}
		return c.declareReduction(d, dim, keep)
	}
}

func lowerFold(op hlo.Opcode) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		// torch converts to the result's type before it adds.
		x := as(l.B, as(l.B, l.In(0), l.Dtype), l.Dtype.OpMath())
		fold := op
		if x.Dtype() == dtype.Bool {
			fold = hlo.Or
			if op == hlo.Multiply {
				fold = hlo.And
			}
		}
		return l.B.Reshape(as(l.B, reduceMask(l.B, fold, x, uint64(l.Int())), l.Dtype), l.Dims)
	}
}

func metaNansum(c *Call) error {
	if c.Dtype(0).IsComplex() {
		return status.Torchf(status.NotImplementedError, "nansum on CPU does not support complex inputs")
	}
	return metaSum(1, 2, 3)(c)
}

func lowerNansum(l *ir.Lowering) hlo.Value {
	x := l.In(0)
	if x.Dtype().IsFloat() {
		x = l.B.Select(isNaN(l.B, x), l.B.Full(x.Dtype(), 0, x.Dims()...), x)
	}
	x = as(l.B, as(l.B, x, l.Dtype), l.Dtype.OpMath())
	return l.B.Reshape(as(l.B, sumOver(l.B, x, uint64(l.Int())), l.Dtype), l.Dims)
}

func metaMean(dim, keep, dtypeArg int) func(c *Call) error {
	return func(c *Call) error {
		d, err := c.DtypeArg(dtypeArg, c.Dtype(0))
		if err != nil {
			return err
		}
		if d.IsIntegral() {
			what := "Optional"
			if c.IsNone(dtypeArg) {
				what = "Input"
			}
			return status.Torchf(status.NotImplementedError, "mean(): could not infer output dtype. %s dtype must be either a floating point or complex dtype. Got: %s", what, torchClass(d))
		}
		return c.declareReduction(d, dim, keep)
	}
}

func lowerMean(l *ir.Lowering) hlo.Value {
	x := as(l.B, l.In(0), l.Dtype.OpMath())
	return l.B.Reshape(as(l.B, meanOver(l.B, x, uint64(l.Int())), l.Dtype), l.Dims)
}

func metaTest(dim, keep int) func(c *Call) error {
	return func(c *Call) error {
		d := dtype.Bool
		if c.Dtype(0) == dtype.U8 { // torch keeps uint8 here, for old programs
			d = dtype.U8
		}
		if dim >= 0 && !c.IsNone(dim) && c.Args[dim].Tag != TagInt { // an empty list reduces nothing
			mask, err := c.listMask(c.Ints(dim), c.Rank(0))
			if err != nil {
				return err
			}
			return c.declareMasked(d, mask, keep)
		}
		return c.declareReduction(d, dim, keep)
	}
}

func lowerTest(op hlo.Opcode) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		x := as(l.B, l.In(0), dtype.Bool)
		return l.B.Reshape(as(l.B, reduceMask(l.B, op, x, uint64(l.Int())), l.Dtype), l.Dims)
	}
}

func metaReduceExtremum(function, kernel string, dim, keep int) func(c *Call) error {
	return func(c *Call) error {
		d := c.Dtype(0)
		mask, err := c.dimMask(dim, c.Rank(0))
		if err != nil {
			return err
		}
		if err := checkNotEmpty(function, c.Dims(0), mask, dim >= 0 && len(c.Ints(dim)) > 0); err != nil {
			return err
		}
		if d.IsComplex() {
			return notImplemented(kernel, d)
		}
		return c.declareMasked(d, mask, keep)
	}
}

// extremumOver gives the largest or smallest values; NaN wins.
func extremumOver(b *hlo.Builder, op hlo.Opcode, x hlo.Value, mask uint64) hlo.Value {
	if x.Dtype() == dtype.Bool {
		if op == hlo.Maximum {
			return reduceMask(b, hlo.Or, x, mask)
		}
		return reduceMask(b, hlo.And, x, mask)
	}
	return reduceMask(b, op, x, mask)
}

func lowerReduceExtremum(op hlo.Opcode) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		x := as(l.B, l.In(0), l.Dtype.OpMath())
		return l.B.Reshape(as(l.B, extremumOver(l.B, op, x, uint64(l.Int())), l.Dtype), l.Dims)
	}
}

func metaAminmax(c *Call) error {
	d := c.Dtype(0)
	if d.IsComplex() {
		return status.Torchf(status.TypeError, "aminmax not implemented for %s", torchClass(d))
	}
	mask, err := c.dimMask(1, c.Rank(0))
	if err != nil {
		return err
	}
	if numElements(c.Dims(0)) == 0 {
		if c.IsNone(1) {
			return Errorf("aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.")
		}
		if reduceCount(c.Dims(0), mask) == 0 {
			return status.Torchf(status.IndexError, "aminmax: Expected reduction dim %d to have non-zero size.", c.Int(1, 0))
		}
	}
	c.Operand(c.Node(0))
	c.Attr(int64(mask))
	dims := c.reducedDims(c.Dims(0), mask, c.Bool(2))
	c.AttrInts(dims)
	n := c.Many()
	c.Return(c.Element(n, 0, d, dims))
	c.Return(c.Element(n, 1, d, dims))
	return nil
}

func lowerAminmax(l *ir.Lowering) []hlo.Value {
	d := l.In(0).Dtype()
	x := as(l.B, l.In(0), d.OpMath())
	mask := uint64(l.Int())
	dims := l.Ints()
	values := make([]hlo.Value, 0, 2)
	for _, op := range []hlo.Opcode{hlo.Minimum, hlo.Maximum} {
		values = append(values, l.B.Reshape(as(l.B, extremumOver(l.B, op, x, mask), d), dims))
	}
	return values
}

func metaCountNonzero(c *Call) error { return c.declareReduction(dtype.S64, 1, -1) }

func lowerCountNonzero(l *ir.Lowering) hlo.Value {
	x := as(l.B, l.In(0), dtype.Bool)
	ones := as(l.B, x, positionType(numElements(x.Dims())))
	return as(l.B, sumOver(l.B, ones, uint64(l.Int())), dtype.S64)
}

func metaTrace(c *Call) error {
	if c.Rank(0) != 2 {
		return Errorf("trace: expected a matrix, but got tensor with dim %d", c.Rank(0))
	}
	d := c.Dtype(0)
	if d == dtype.Bool {
		return notImplemented("trace", d)
	}
	if d.IsIntegral() {
		d = dtype.S64
	}
	return c.declareReduction(d, -1, -1)
}

func lowerTrace(l *ir.Lowering) hlo.Value {
	x := as(l.B, l.In(0), l.Dtype.OpMath())
	dims := x.Dims()
	index := positionType(numElements(dims))
	diagonal := l.B.Compare("EQ", l.B.Iota(index, dims, 0), l.B.Iota(index, dims, 1))
	x = l.B.Select(diagonal, x, l.B.Full(x.Dtype(), 0, dims...))
	return as(l.B, sumOver(l.B, x, uint64(l.Int())), l.Dtype)
}

func metaLogsumexp(c *Call) error {
	d, err := c.FloatResultType(0)
	if err != nil {
		return err
	}
	return c.declareReduction(d, 1, 2)
}

func lowerLogsumexp(l *ir.Lowering) hlo.Value {
	b, mask := l.B, uint64(l.Int())
	x := as(b, l.In(0), l.Dtype.OpMath())
	// The largest value is taken out before exp; an infinite one would make inf-inf.
	largest := reduceMask(b, hlo.Maximum, as(b, x, x.Dtype().Real()), mask)
	zero := b.Full(largest.Dtype(), 0, largest.Dims()...)
	infinite := b.Compare("EQ", b.Unary(hlo.Abs, largest), b.BroadcastTo(b.MaxValue(largest.Dtype()), largest.Dims()))
	largest = b.Select(infinite, zero, largest)
	if x.Dtype().IsComplex() {
		largest = b.Binary(hlo.Complex, largest, zero)
	}
	shifted := b.Binary(hlo.Subtract, x, spread(b, largest, mask, x.Dims()))
	sum := sumOver(b, b.Unary(hlo.Exp, shifted), mask)
	return b.Reshape(as(b, b.Binary(hlo.Add, logarithm(b, sum), largest), l.Dtype), l.Dims)
}
