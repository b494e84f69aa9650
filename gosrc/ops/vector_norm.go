package ops

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Vector norms. The order is part of the program: 0, 1, 2 and the infinities have their own.

func init() {
	register(
		&Row{Name: "linalg_vector_norm", Out: []string{"linalg_vector_norm.out"}, Meta: metaVectorNorm(1, 2, 3, 4), Lower: lowerVectorNorm, Variables: variableOrder},
		&Row{Name: "norm.Scalar", Out: []string{"norm.Scalar_out"}, Meta: metaNorm(-1, -1, -1), Lower: lowerVectorNorm, Variables: variableOrder},
		&Row{Name: "norm.ScalarOpt_dtype", Out: []string{"norm.ScalarOpt_dtype_out"}, Meta: metaNorm(-1, -1, 2), Lower: lowerVectorNorm, Variables: variableOrder},
		&Row{Name: "norm.ScalarOpt_dim", Out: []string{"norm.out"}, Meta: metaNorm(2, 3, -1), Lower: lowerVectorNorm, Variables: variableOrder},
		&Row{Name: "norm.ScalarOpt_dim_dtype", Out: []string{"norm.dtype_out"}, Meta: metaNorm(2, 3, 4), Lower: lowerVectorNorm, Variables: variableOrder},
		&Row{Name: "renorm", InPlace: []string{"renorm_"}, Out: []string{"renorm.out"}, Meta: metaRenorm, Lower: lowerRenorm, Variables: variableOrder},
	)
}

// metaNorm is metaVectorNorm with the checks of torch.norm in front.
func metaNorm(dim, keep, dtypeArg int) func(c *Call) error {
	vectorNorm := metaVectorNorm(1, dim, keep, dtypeArg)
	return func(c *Call) error {
		if dtypeArg < 0 {
			if d := c.Dtype(0); d.IsIntegral() {
				return status.Torchf(status.NotImplementedError, "norm(): input dtype should be either floating point or complex. Got %s instead.", torchClass(d))
			}
		} else if d, err := c.DtypeArg(dtypeArg, c.Dtype(0)); err != nil {
			return err
		} else if d.IsIntegral() && !c.IsNone(dtypeArg) {
			return Errorf("norm(): the desired output dtype should be either floating point or complex. Got %s instead.", torchClass(d))
		}
		return vectorNorm(c)
	}
}

func metaVectorNorm(ord, dim, keep, dtypeArg int) func(c *Call) error {
	return func(c *Call) error {
		d := c.Dtype(0)
		if d.IsIntegral() {
			return status.Torchf(status.NotImplementedError, "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s", torchClass(d))
		}
		if !c.IsNone(ord) && c.Args[ord].IsComplexScalar() {
			return Errorf("linalg.vector_norm: Expected a non-complex scalar as the order of norm.")
		}
		order := c.Float(ord, 2)
		mask, err := c.dimMask(dim, c.Rank(0))
		if err != nil {
			return err
		}
		if err := checkNormNotEmpty(order, c.Dims(0), mask, dim >= 0 && len(c.Ints(dim)) > 0); err != nil {
			return err
		}
		result := d
		if dtypeArg >= 0 && !c.IsNone(dtypeArg) {
			if result, err = c.DtypeArg(dtypeArg, d); err != nil {
				return err
			}
			if err := checkNormDtype(d, result); err != nil {
				return err
			}
		}
		c.AttrFloat(order)
		return c.declareReduction(result.Real(), dim, keep)
	}
}

// checkNormNotEmpty raises for the orders that have no value on nothing.
func checkNormNotEmpty(order float64, dims []int64, mask uint64, listed bool) error {
	if !slices.Contains(dims, 0) || !(order < 0 || math.IsInf(order, 1)) {
		return nil
	}
	text := strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(order, 'g', 6, 64), "+"))
	if !listed {
		return Errorf("linalg.vector_norm cannot compute the %s norm on an empty tensor because the operation does not have an identity", text)
	}
	for _, d := range maskDims(mask) {
		if dims[d] == 0 {
			return Errorf("linalg.vector_norm cannot compute the %s norm on the dimension %dbecause this dimension is empty and the operation does not have an identity", text, d)
		}
	}
	return nil
}

func checkNormDtype(from, to dtype.Dtype) error {
	switch {
	case to.IsIntegral():
		return Errorf("linalg.vector_norm: dtype should be floating point or complex, but got %s", torchClass(to))
	case from.IsComplex() && !to.IsComplex():
		return Errorf("linalg.vector_norm: dtype should be complex for complex inputs, but got %s", torchClass(to))
	case !from.IsComplex() && to.IsComplex():
		return Errorf("linalg.vector_norm: dtype should be real for real inputs, but got %s", torchClass(to))
	}
	if wide, err := promoteTypes(from, to); err != nil || wide != to {
		return Errorf("linalg.vector_norm: the dtype of the input (%s) should be convertible without narrowing to the specified dtype (%s)", torchClass(from), torchClass(to))
	}
	return nil
}

func lowerVectorNorm(l *ir.Lowering) hlo.Value {
	b, order, mask := l.B, l.Number(), uint64(l.Int())
	compute := l.Dtype.OpMath()
	x := l.In(0)
	if x.Dtype().IsComplex() {
		x = as(b, x, compute.Complex())
	} else {
		x = as(b, x, compute)
	}
	return b.Reshape(as(b, normOver(b, x, order, mask), l.Dtype), l.Dims)
}

// variableOrder is the order of a norm, unless it is one for which sums of powers do not do.
func variableOrder(n *ir.Node) ir.Variables {
	if order := math.Float64frombits(uint64(n.Attributes[0])); order == 0 || math.IsInf(order, 0) || math.IsNaN(order) {
		return ir.Variables{}
	}
	return ir.Variables{Floats: 1}
}

func normOver(b *hlo.Builder, x hlo.Value, number ir.Number, mask uint64) hlo.Value {
	order := number.Float()
	if order == 2 {
		return b.Unary(hlo.Sqrt, sumOver(b, squareOf(b, x), mask))
	}
	size := b.Unary(hlo.Abs, x)
	switch {
	case number.IsParameter():
		exponent := number.FloatIn(b, size.Dtype())
		inverse := b.Binary(hlo.Divide, b.Scalar(size.Dtype(), 1), exponent)
		sum := sumOver(b, b.Binary(hlo.Power, size, b.BroadcastTo(exponent, size.Dims())), mask)
		return b.Binary(hlo.Power, sum, b.BroadcastTo(inverse, sum.Dims()))
	case order == 0:
		return sumOver(b, as(b, as(b, size, dtype.Bool), size.Dtype()), mask)
	case order == 1:
		return sumOver(b, size, mask)
	case math.IsInf(order, 1):
		return reduceMask(b, hlo.Maximum, size, mask)
	case math.IsInf(order, -1):
		return reduceMask(b, hlo.Minimum, size, mask)
	}
	power := func(v hlo.Value, exponent float64) hlo.Value {
		return b.Binary(hlo.Power, v, b.Full(v.Dtype(), exponent, v.Dims()...))
	}
	return power(sumOver(b, power(size, order), mask), 1/order)
}

// metaRenorm takes (self, p, dim, maxnorm).
func metaRenorm(c *Call) error {
	d, order, largest := c.Dtype(0), c.Float(1, 2), c.Float(3, 0)
	switch {
	case c.Rank(0) < 2:
		return Errorf("renorm: input needs at least 2 dimensions, got %d dimensions", c.Rank(0))
	case order <= 0:
		return Errorf("renorm: non-positive-norm not supported")
	case largest < 0:
		return Errorf("renorm: expected maxnorm to be >= 0 but got %v", largest)
	case d.IsIntegral():
		return status.Torchf(status.NotImplementedError, "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s", torchClass(d))
	}
	dim, err := c.Dim(c.Int(2, 0), c.Rank(0))
	if err != nil {
		return err
	}
	c.AttrFloat(order)
	c.Attr(int64(allDims(c.Rank(0)) &^ (1 << dim)))
	c.Operand(c.Node(0), c.FloatNode(largest, d))
	return c.Out(d, c.Dims(0))
}

// lowerRenorm scales down the slices whose norm is above the limit.
func lowerRenorm(l *ir.Lowering) hlo.Value {
	b, order, mask := l.B, l.Number(), uint64(l.Int())
	x := as(b, l.In(0), l.Dtype.OpMath())
	norm := normOver(b, x, order, mask)
	dims := norm.Dims()
	largest := b.BroadcastTo(as(b, l.In(1), norm.Dtype()), dims)
	// The small number keeps a rounded result from being above the limit again.
	scaled := b.Binary(hlo.Divide, largest, b.Binary(hlo.Add, norm, b.Full(norm.Dtype(), 1e-7, dims...)))
	factor := b.Select(b.Compare("GT", norm, largest), scaled, b.Full(norm.Dtype(), 1, dims...))
	return as(b, b.Binary(hlo.Multiply, x, as(b, spread(b, factor, mask, x.Dims()), x.Dtype())), l.Dtype)
}
