package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// elementwise writes formulas on values of one shape and type.
type elementwise struct{ *hlo.Builder }

// formula gives the elements of a result from the elements of its operands, which all have the
// result's shape and the type that the formula computes in.
type formula func(e elementwise, in []hlo.Value) hlo.Value

// lowerFormula lowers to f computed in the op-math type of the result, rounded once at the end.
func lowerFormula(f formula) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		return as(l.B, f(elementwise{l.B}, operandsAs(l, l.Dtype.OpMath())), l.Dtype)
	}
}

// lowerRounded is lowerFormula for ops whose numbers torch rounds to the tensors' type first.
func lowerRounded(f formula) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		in := operandsAs(l, l.Dtype)
		for i := range in {
			in[i] = as(l.B, in[i], l.Dtype.OpMath())
		}
		return as(l.B, f(elementwise{l.B}, in), l.Dtype)
	}
}

// lowerTyped is lowerFormula for results whose type says nothing about the operands (predicates,
// absolute values of complex numbers): the type to compute in is the first attribute.
func lowerTyped(f formula) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		return as(l.B, f(elementwise{l.B}, operandsAs(l, dtype.Dtype(l.Int()))), l.Dtype)
	}
}

func operandsAs(l *ir.Lowering, d dtype.Dtype) []hlo.Value {
	in := make([]hlo.Value, l.Count())
	for i := range in {
		in[i] = operand(l, i, d)
	}
	return in
}

// number gives v with x's type and shape.
func (e elementwise) number(x hlo.Value, v float64) hlo.Value {
	return e.Full(x.Dtype(), v, x.Dims()...)
}

func (e elementwise) zero(x hlo.Value) hlo.Value { return e.number(x, 0) }
func (e elementwise) one(x hlo.Value) hlo.Value  { return e.number(x, 1) }
func (e elementwise) nan(x hlo.Value) hlo.Value  { return e.number(x, math.NaN()) }
func (e elementwise) inf(x hlo.Value) hlo.Value  { return e.number(x, math.Inf(1)) }

func (e elementwise) add(x, y hlo.Value) hlo.Value { return e.Binary(hlo.Add, x, y) }
func (e elementwise) sub(x, y hlo.Value) hlo.Value { return e.Binary(hlo.Subtract, x, y) }
func (e elementwise) mul(x, y hlo.Value) hlo.Value { return e.Binary(hlo.Multiply, x, y) }
func (e elementwise) div(x, y hlo.Value) hlo.Value { return e.Binary(hlo.Divide, x, y) }
func (e elementwise) max(x, y hlo.Value) hlo.Value { return e.Binary(hlo.Maximum, x, y) }
func (e elementwise) min(x, y hlo.Value) hlo.Value { return e.Binary(hlo.Minimum, x, y) }
func (e elementwise) and(x, y hlo.Value) hlo.Value { return e.Binary(hlo.And, x, y) }
func (e elementwise) or(x, y hlo.Value) hlo.Value  { return e.Binary(hlo.Or, x, y) }

func (e elementwise) addNumber(x hlo.Value, v float64) hlo.Value { return e.add(x, e.number(x, v)) }
func (e elementwise) scale(x hlo.Value, v float64) hlo.Value     { return e.mul(x, e.number(x, v)) }

func (e elementwise) neg(x hlo.Value) hlo.Value   { return e.Unary(hlo.Negate, x) }
func (e elementwise) abs(x hlo.Value) hlo.Value   { return e.Unary(hlo.Abs, x) }
func (e elementwise) exp(x hlo.Value) hlo.Value   { return e.Unary(hlo.Exp, x) }
func (e elementwise) expm1(x hlo.Value) hlo.Value { return e.Unary(hlo.ExpM1, x) }
func (e elementwise) log(x hlo.Value) hlo.Value   { return logarithm(e.Builder, x) }
func (e elementwise) log1p(x hlo.Value) hlo.Value { return e.Unary(hlo.Log1p, x) }
func (e elementwise) sqrt(x hlo.Value) hlo.Value  { return e.Unary(hlo.Sqrt, x) }
func (e elementwise) tanh(x hlo.Value) hlo.Value  { return e.Unary(hlo.Tanh, x) }
func (e elementwise) not(x hlo.Value) hlo.Value   { return e.Unary(hlo.Not, x) }

func (e elementwise) equal(x, y hlo.Value) hlo.Value   { return e.Compare("EQ", x, y) }
func (e elementwise) unequal(x, y hlo.Value) hlo.Value { return e.Compare("NE", x, y) }
func (e elementwise) less(x, y hlo.Value) hlo.Value    { return e.Compare("LT", x, y) }
func (e elementwise) atMost(x, y hlo.Value) hlo.Value  { return e.Compare("LE", x, y) }
func (e elementwise) greater(x, y hlo.Value) hlo.Value { return e.Compare("GT", x, y) }
func (e elementwise) atLeast(x, y hlo.Value) hlo.Value { return e.Compare("GE", x, y) }

func (e elementwise) isZero(x hlo.Value) hlo.Value     { return e.equal(x, e.zero(x)) }
func (e elementwise) isNegative(x hlo.Value) hlo.Value { return e.less(x, e.zero(x)) }
func (e elementwise) isPositive(x hlo.Value) hlo.Value { return e.greater(x, e.zero(x)) }

// isNaN is false for types without NaN.
func (e elementwise) isNaN(x hlo.Value) hlo.Value { return e.unequal(x, x) }

// isInfinite is true for both infinities of a real float.
func (e elementwise) isInfinite(x hlo.Value) hlo.Value { return e.equal(e.abs(x), e.inf(x)) }

// trunc rounds a float towards zero and keeps the sign of zero.
func (e elementwise) trunc(x hlo.Value) hlo.Value {
	return e.Select(e.isNegative(x), e.Unary(hlo.Ceil, x), e.Unary(hlo.Floor, x))
}

// signBit is true where x, also a zero or a NaN, has its sign bit set.
func (e elementwise) signBit(x hlo.Value) hlo.Value {
	var bits dtype.Dtype
	switch d := x.Dtype(); {
	case d == dtype.Bool || d.IsUnsigned():
		return e.Full(dtype.Bool, 0, x.Dims()...)
	case d.IsSigned():
		return e.isNegative(x)
	case d.Size() == 1:
		bits = dtype.S8
	case d.Size() == 2:
		bits = dtype.S16
	case d.Size() == 4:
		bits = dtype.S32
	default:
		bits = dtype.S64
	}
	return e.isNegative(e.BitcastConvert(x, bits))
}

// polynomial gives the sum of coefficients[i] * x^i by Horner's rule.
func (e elementwise) polynomial(x hlo.Value, coefficients []float64) hlo.Value {
	last := len(coefficients) - 1
	sum := e.number(x, coefficients[last])
	for i := last - 1; i >= 0; i-- {
		sum = e.addNumber(e.mul(sum, x), coefficients[i])
	}
	return sum
}

func (e elementwise) real(x hlo.Value) hlo.Value         { return e.Unary(hlo.Real, x) }
func (e elementwise) imag(x hlo.Value) hlo.Value         { return e.Unary(hlo.Imag, x) }
func (e elementwise) complex(re, im hlo.Value) hlo.Value { return e.Binary(hlo.Complex, re, im) }

// conj conjugates complex values and leaves others.
func (e elementwise) conj(x hlo.Value) hlo.Value {
	if !x.Dtype().IsComplex() {
		return x
	}
	return e.complex(e.real(x), e.neg(e.imag(x)))
}

// kinds is a set of kinds of element types.
type kinds uint8

const (
	bools kinds = 1 << iota
	integers
	floats
	complexes

	integral = bools | integers
	reals    = integers | floats
	numbers  = reals | complexes
	anyKind  = bools | numbers
)

func kindOf(d dtype.Dtype) kinds {
	switch {
	case d == dtype.Bool:
		return bools
	case d.IsFloat():
		return floats
	case d.IsComplex():
		return complexes
	}
	return integers
}

// require raises torch's error for a kernel that has no implementation for d.
func require(kernel string, d dtype.Dtype, allowed kinds) error {
	if kindOf(d)&allowed == 0 {
		return notImplemented(kernel, d)
	}
	return nil
}

// conversionName gives the name of a type in torch's messages on numbers that do not fit.
func conversionName(d dtype.Dtype) string {
	switch d {
	case dtype.U8:
		return "uint8_t"
	case dtype.S8:
		return "int8_t"
	case dtype.S16:
		return "int16_t"
	case dtype.S64:
		return "int64_t"
	}
	return demangledName(d)
}

// checkConversion raises torch's error for a number that type d cannot hold.
func checkConversion(a *Argument, d dtype.Dtype) error {
	if !a.IsScalarKind() || fits(a, d) {
		return nil
	}
	return Errorf("value cannot be converted to type %s without overflow", conversionName(d))
}

func fits(a *Argument, d dtype.Dtype) bool {
	if d == dtype.Bool {
		return true
	}
	if a.IsComplexScalar() && a.Imag != 0 && !d.IsComplex() {
		return false
	}
	switch {
	case d == dtype.S64 && a.IsIntegralScalar():
		return true
	case d.IsInteger():
		if !a.IsIntegralScalar() {
			return fitsFloat(a.Float, d)
		}
		low, high := conversionRange(d)
		return a.Int >= low && a.Int <= high
	}
	v := math.Abs(a.AsFloat())
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return true
	}
	switch d {
	case dtype.F16:
		return v <= 65504
	case dtype.BF16:
		return v <= 0x1.FEp127
	case dtype.F32, dtype.C64:
		return v <= math.MaxFloat32
	}
	return true
}

// conversionRange gives the numbers that c10::overflows lets through: an unsigned type also takes the
// negatives of its values, which wrap around.
func conversionRange(d dtype.Dtype) (low, high int64) {
	bits := uint(d.Size()*8) - 1
	if d.IsUnsigned() {
		high = math.MaxInt64
		if d.Size() < 8 {
			high = 1<<(bits+1) - 1
		}
		return -high, high
	}
	high = int64(1)<<bits - 1
	return -high - 1, high
}

func fitsFloat(v float64, d dtype.Dtype) bool {
	low, high := conversionRange(d)
	return v >= float64(low) && v <= float64(high)
}

func shapesOf(values []hlo.Value) []shape.Shape {
	shapes := make([]shape.Shape, len(values))
	for i, v := range values {
		shapes[i] = v.Shape()
	}
	return shapes
}

// logarithm is the natural one. That of a complex number is made of its parts: XLA takes the logarithm of an
// exponential or a power apart, which leaves the principal branch.
func logarithm(b *hlo.Builder, x hlo.Value) hlo.Value {
	if !x.Dtype().IsComplex() {
		return b.Unary(hlo.Log, x)
	}
	e := elementwise{b}
	re, im := e.real(x), e.imag(x)
	long, short := e.max(e.abs(re), e.abs(im)), e.min(e.abs(re), e.abs(im))
	// Where the absolute value is near 1, its rounding would be all that the logarithm shows.
	excess := e.add(e.mul(e.addNumber(long, -1), e.addNumber(long, 1)), e.mul(short, short))
	near := e.and(e.atLeast(excess, e.number(excess, -0.5)), e.atMost(excess, e.number(excess, 1)))
	size := e.Select(near, e.scale(e.log1p(excess), 0.5), e.Unary(hlo.Log, e.abs(x)))
	return e.complex(size, e.Binary(hlo.Atan2, im, re))
}
