package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Powers. A number as exponent chooses the program where a product or root replaces the power;
// any other is a parameter.

func init() {
	register(
		&Row{Name: "pow.Tensor_Scalar", InPlace: []string{"pow_.Scalar"}, Out: []string{"pow.Tensor_Scalar_out"}, Meta: metaPowerNumber, Lower: lowerPowerNumber, Variables: variableExponent},
		&Row{Name: "pow.Tensor_Tensor", InPlace: []string{"pow_.Tensor"}, Out: []string{"pow.Tensor_Tensor_out"}, Meta: metaPower, Lower: lowerRounded(power)},
		&Row{Name: "pow.Scalar", Out: []string{"pow.Scalar_out"}, Meta: metaPower, Lower: lowerRounded(power)},
	)
}

func metaPower(c *Call) error {
	d, err := c.ResultType(0, 1)
	if err != nil {
		return err
	}
	if base := &c.Args[0]; base.Tag != TagTensor && !base.IsComplexScalar() && base.AsFloat() == 1 {
		dims, err := c.BroadcastDims(0, 1)
		if err != nil {
			return err
		}
		c.Return(c.Build(kindOnes, d, dims))
		return nil
	}
	if err := require("pow", d, numbers); err != nil {
		return err
	}
	return c.binary(d)
}

// specialExponent is true for exponents with a program of their own.
func specialExponent(v float64, d dtype.Dtype) bool {
	switch v {
	case 0, 1, 2, 3:
		return true
	case 0.5, -0.5, -1, -2:
		return d.IsFloat()
	}
	return false
}

func metaPowerNumber(c *Call) error {
	d, err := c.ResultType(0, 1)
	if err != nil {
		return err
	}
	exponent := &c.Args[1]
	if d.IsIntegral() && exponent.IsIntegralScalar() && exponent.Int < 0 {
		return Errorf("Integers to negative integer powers are not allowed.")
	}
	v := exponent.AsFloat()
	special := specialExponent(v, d) && !(exponent.IsComplexScalar() && exponent.Imag != 0)
	if !special || v > 1 {
		if err := require("pow", d, numbers); err != nil {
			return err
		}
	}
	c.Operand(c.Node(0))
	if special {
		c.AttrFloat(v)
	} else {
		c.Operand(c.ScalarOf(exponent, d))
	}
	return c.Out(d, c.Dims(0))
}

// variableExponent is an exponent that has a program of its own: where it changes, all have one. Not so with
// roots, which differ from powers at -0 and at -infinity.
func variableExponent(n *ir.Node) ir.Variables {
	if len(n.Attributes) == 0 || n.Dtype == dtype.Bool || n.Dtype.IsComplex() {
		return ir.Variables{}
	}
	if exponent := math.Float64frombits(uint64(n.Attributes[0])); math.Abs(exponent) == 0.5 {
		return ir.Variables{}
	}
	return ir.Variables{Floats: 1}
}

func lowerPowerNumber(l *ir.Lowering) hlo.Value {
	if l.Count() == 2 {
		return lowerFormula(power)(l)
	}
	e, exponent := elementwise{l.B}, l.Number()
	x := operand(l, 0, l.Dtype.OpMath())
	if exponent.IsParameter() {
		y := l.B.BroadcastTo(exponent.FloatIn(l.B, x.Dtype()), x.Dims())
		return as(l.B, power(e, []hlo.Value{x, y}), l.Dtype)
	}
	switch exponent.Float() {
	case 0:
		x = e.one(x)
	case 2:
		x = e.mul(x, x)
	case 3:
		x = e.mul(e.mul(x, x), x)
	case 0.5:
		x = e.sqrt(x)
	case -0.5:
		x = e.reciprocal(e.sqrt(x))
	case -1:
		x = e.reciprocal(x)
	case -2:
		x = e.reciprocal(e.mul(x, x))
	}
	return as(l.B, x, l.Dtype)
}

// power of integers has a negative exponent too: 1 for a base of 1, a sign for -1, else 0.
func power(e elementwise, in []hlo.Value) hlo.Value {
	x, y := in[0], in[1]
	if x.Dtype().IsComplex() {
		atZero := e.Select(e.isPositive(e.real(y)), e.zero(x), e.complex(e.nan(e.real(x)), e.nan(e.real(x))))
		atZero = e.Select(e.isZero(y), e.one(x), atZero)
		return e.Select(e.isZero(x), atZero, e.Binary(hlo.Power, x, y))
	}
	if !x.Dtype().IsSigned() {
		return e.Binary(hlo.Power, x, y)
	}
	odd := e.unequal(e.and(y, e.one(y)), e.zero(y))
	sign := e.Select(odd, e.number(x, -1), e.one(x))
	negative := e.Select(e.equal(x, e.number(x, -1)), sign, e.zero(x))
	negative = e.Select(e.equal(x, e.one(x)), e.one(x), negative)
	positive := e.Binary(hlo.Power, x, e.max(y, e.zero(y)))
	return e.Select(e.isNegative(y), negative, positive)
}
