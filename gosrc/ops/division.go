package ops

import (
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/status"
)

// Division, remainders and their rounding modes.

func init() {
	register(
		&Row{Name: "div.Tensor", InPlace: []string{"div_.Tensor"}, Out: []string{"div.out"}, Meta: metaDivide, Lower: lowerFormula(divide)},
		&Row{Name: "div.Tensor_mode", InPlace: []string{"div_.Tensor_mode"}, Out: []string{"div.out_mode"}, Meta: metaDivideMode},
		&Row{Name: "floor_divide", InPlace: []string{"floor_divide_.Tensor"}, Out: []string{"floor_divide.out"}, Meta: metaKernel("div_floor_cpu", reals), Lower: lowerRounded(floorDivide)},
		&Row{Name: "fmod.Tensor", InPlace: []string{"fmod_.Tensor"}, Out: []string{"fmod.Tensor_out"}, Meta: metaKernel("fmod_cpu", reals), Lower: lowerRounded(fmod)},
		&Row{Name: "remainder.Tensor", InPlace: []string{"remainder_.Tensor"}, Out: []string{"remainder.Tensor_out"}, Meta: metaKernel("remainder_cpu", reals), Lower: lowerRounded(remainder)},
		&Row{Name: "remainder.Scalar_Tensor", Out: []string{"remainder.Scalar_Tensor_out"}, Meta: metaKernel("remainder_cpu", reals), Lower: lowerRounded(remainder)},
	)
}

// Unlike the others here, truncating division takes a number in full precision, as torch's does.
var kindTruncDivide = defineKind("aten::div.trunc", lowerFormula(truncDivide))

func metaDivide(c *Call) error {
	d, err := c.FloatResultType(0, 1)
	if err != nil {
		return err
	}
	return c.binary(d)
}

// metaDivideMode turns the rounding mode into the kind of node.
func metaDivideMode(c *Call) error {
	kernel := "div_floor_cpu"
	kind := rowByName["floor_divide"].kind
	switch mode := c.Text(2); {
	case c.IsNone(2):
		d, err := c.FloatResultType(0, 1)
		if err != nil {
			return err
		}
		dims, err := c.BroadcastDims(0, 1)
		if err != nil {
			return err
		}
		c.Return(c.BuildRow("div.Tensor", d, dims, c.Value(0, d), c.Value(1, d)))
		return nil
	case mode == "trunc":
		kernel, kind = "div_trunc_cpu", kindTruncDivide
	case mode != "floor":
		return status.Torchf(status.RuntimeError, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'", mode)
	}
	d, err := c.ResultType(0, 1)
	if err != nil {
		return err
	}
	if err := require(kernel, d, reals); err != nil {
		return err
	}
	dims, err := c.BroadcastDims(0, 1)
	if err != nil {
		return err
	}
	c.Return(c.Build(kind, d, dims, c.Value(0, d), c.Value(1, d)))
	return nil
}

func divide(e elementwise, in []hlo.Value) hlo.Value { return e.div(in[0], in[1]) }

func truncDivide(e elementwise, in []hlo.Value) hlo.Value {
	q := e.div(in[0], in[1])
	if q.Dtype().IsFloat() {
		return e.trunc(q)
	}
	return q
}

func fmod(e elementwise, in []hlo.Value) hlo.Value { return e.Binary(hlo.Remainder, in[0], in[1]) }

// differsInSign is true where a remainder is not zero and has not the divisor's sign.
func (e elementwise) differsInSign(rest, divisor hlo.Value) hlo.Value {
	differ := e.unequal(e.isNegative(rest), e.isNegative(divisor))
	return e.and(e.unequal(rest, e.zero(rest)), differ)
}

// remainder has the sign of the divisor, as Python's %.
func remainder(e elementwise, in []hlo.Value) hlo.Value {
	rest := fmod(e, in)
	if rest.Dtype().IsUnsigned() {
		return rest
	}
	return e.Select(e.differsInSign(rest, in[1]), e.add(rest, in[1]), rest)
}

// floorDivide rounds towards minus infinity. For floats it follows CPython's float floor division,
// which is exact where floor(x / y) is not; division by zero gives x / y.
func floorDivide(e elementwise, in []hlo.Value) hlo.Value {
	x, y := in[0], in[1]
	quotient := e.div(x, y)
	if x.Dtype().IsUnsigned() {
		return quotient
	}
	rest := fmod(e, in)
	down := e.differsInSign(rest, y)
	if x.Dtype().IsSigned() {
		return e.Select(down, e.addNumber(quotient, -1), quotient)
	}
	whole := e.div(e.sub(x, rest), y)
	whole = e.Select(down, e.addNumber(whole, -1), whole)
	floor := e.Unary(hlo.Floor, whole)
	floor = e.Select(e.greater(e.sub(whole, floor), e.number(x, 0.5)), e.addNumber(floor, 1), floor)
	zero := e.Select(e.signBit(quotient), e.number(x, negativeZero), e.zero(x))
	floor = e.Select(e.isZero(whole), zero, floor)
	return e.Select(e.isZero(y), quotient, floor)
}
