package ops

import (
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Variance and standard deviation, in two passes: the mean, then the squared deviations from it.

func init() {
	register(
		&Row{Name: "var.correction", Out: []string{"var.correction_out"}, Meta: metaVariance("std and var"), LowerMany: lowerVariance(false)},
		&Row{Name: "std.correction", Out: []string{"std.correction_out"}, Meta: metaVariance("std and var"), LowerMany: lowerVariance(true)},
		&Row{Name: "var_mean.correction", Out: []string{"var_mean.correction_out"}, Meta: metaVariance("var_mean"), LowerMany: lowerVariance(false)},
		&Row{Name: "std_mean.correction", Out: []string{"std_mean.correction_out"}, Meta: metaVariance("std_mean"), LowerMany: lowerVariance(true)},
	)
}

// metaVariance takes (self, dim, correction, keepdim); the rows named *_mean have the mean as a
// second result.
func metaVariance(function string) func(c *Call) error {
	withMean := function != "std and var"
	return func(c *Call) error {
		d := c.Dtype(0)
		if d.IsIntegral() {
			return status.Torchf(status.NotImplementedError, "%s only support floating point and complex dtypes", function)
		}
		mask, err := c.dimMask(1, c.Rank(0))
		if err != nil {
			return err
		}
		c.Operand(c.Node(0))
		c.Attr(int64(mask))
		c.AttrFloat(c.Float(2, 1))
		dims := c.reducedDims(c.Dims(0), mask, c.Bool(3))
		c.AttrInts(dims)
		n := c.Many()
		c.Return(c.Element(n, 0, d.Real(), dims))
		if withMean {
			c.Return(c.Element(n, 1, d, dims))
		}
		return nil
	}
}

// squareOf gives |x|^2, which is real for complex x too.
func squareOf(b *hlo.Builder, x hlo.Value) hlo.Value {
	if x.Dtype().IsComplex() {
		return b.Binary(hlo.Add, squareOf(b, b.Unary(hlo.Real, x)), squareOf(b, b.Unary(hlo.Imag, x)))
	}
	return b.Binary(hlo.Multiply, x, x)
}

func lowerVariance(root bool) func(l *ir.Lowering) []hlo.Value {
	return func(l *ir.Lowering) []hlo.Value {
		b, d := l.B, l.In(0).Dtype()
		x := as(b, l.In(0), d.OpMath())
		mask, correction, dims := uint64(l.Int()), l.Float(), l.Ints()
		mean := meanOver(b, x, mask)
		squares := sumOver(b, squareOf(b, b.Binary(hlo.Subtract, x, spread(b, mean, mask, x.Dims()))), mask)
		variance := dividedBy(b, squares, max(float64(reduceCount(x.Dims(), mask))-correction, 0))
		if root {
			variance = b.Unary(hlo.Sqrt, variance)
		}
		return []hlo.Value{b.Reshape(as(b, variance, d.Real()), dims), b.Reshape(as(b, mean, d), dims)}
	}
}
