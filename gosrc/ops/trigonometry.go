package ops

import (
	"math"

	"xla_go/gosrc/hlo"
)

// Trigonometric and hyperbolic functions that HLO has no operation for. The complex ones are
// written with parts that stay accurate near the branch points (Kahan's forms).

func (e elementwise) sinh(x hlo.Value) hlo.Value {
	if x.Dtype().IsComplex() {
		re, im := e.real(x), e.imag(x)
		return e.complex(e.mul(e.sinh(re), e.cosine(im)), e.mul(e.cosh(re), e.sine(im)))
	}
	// expm1 keeps small arguments exact; from large ones exp(x) itself may overflow first.
	u := e.expm1(x)
	small := e.scale(e.add(u, e.div(u, e.addNumber(u, 1))), 0.5)
	half := e.number(x, math.Ln2)
	large := e.sub(e.exp(e.sub(x, half)), e.exp(e.neg(e.add(x, half))))
	return e.Select(e.less(e.abs(x), e.one(x)), small, large)
}

func (e elementwise) cosh(x hlo.Value) hlo.Value {
	if x.Dtype().IsComplex() {
		re, im := e.real(x), e.imag(x)
		return e.complex(e.mul(e.cosh(re), e.cosine(im)), e.mul(e.sinh(re), e.sine(im)))
	}
	half := e.number(x, math.Ln2)
	return e.add(e.exp(e.sub(x, half)), e.exp(e.neg(e.add(x, half))))
}

func (e elementwise) sine(x hlo.Value) hlo.Value   { return e.Unary(hlo.Sine, x) }
func (e elementwise) cosine(x hlo.Value) hlo.Value { return e.Unary(hlo.Cosine, x) }

// atan2 of two real values.
func (e elementwise) atan2(y, x hlo.Value) hlo.Value { return e.Binary(hlo.Atan2, y, x) }

func (e elementwise) asin(x hlo.Value) hlo.Value {
	if x.Dtype().IsComplex() {
		low, high := e.sqrt(e.sub(e.one(x), x)), e.sqrt(e.add(e.one(x), x))
		im := e.asinh(e.imag(e.mul(e.conj(low), high)))
		return e.complex(e.atan2(e.real(x), e.real(e.mul(low, high))), im)
	}
	return e.atan2(x, e.sqrt(e.mul(e.sub(e.one(x), x), e.add(e.one(x), x))))
}

func (e elementwise) acos(x hlo.Value) hlo.Value {
	if x.Dtype().IsComplex() {
		low, high := e.sqrt(e.sub(e.one(x), x)), e.sqrt(e.add(e.one(x), x))
		re := e.scale(e.atan2(e.real(low), e.real(high)), 2)
		return e.complex(re, e.asinh(e.imag(e.mul(e.conj(high), low))))
	}
	return e.atan2(e.sqrt(e.mul(e.sub(e.one(x), x), e.add(e.one(x), x))), x)
}

func (e elementwise) atan(x hlo.Value) hlo.Value {
	if x.Dtype().IsComplex() { // -i atanh(i x)
		y := e.atanh(e.complex(e.neg(e.imag(x)), e.real(x)))
		return e.complex(e.imag(y), e.neg(e.real(y)))
	}
	return e.atan2(x, e.one(x))
}

func (e elementwise) asinh(x hlo.Value) hlo.Value {
	if x.Dtype().IsComplex() { // -i asin(i x)
		y := e.asin(e.complex(e.neg(e.imag(x)), e.real(x)))
		return e.complex(e.imag(y), e.neg(e.real(y)))
	}
	a := e.abs(x)
	square := e.mul(a, a)
	// log1p(a + a^2 / (1 + sqrt(a^2 + 1))), and log(2a) where the square would overflow.
	inner := e.log1p(e.add(a, e.div(square, e.addNumber(e.sqrt(e.addNumber(square, 1)), 1))))
	outer := e.addNumber(e.log(a), math.Ln2)
	y := e.Select(e.greater(a, e.number(a, 1e9)), outer, inner)
	return e.copySign(y, x)
}

func (e elementwise) acosh(x hlo.Value) hlo.Value {
	if x.Dtype().IsComplex() {
		low, high := e.sqrt(e.addNumber(x, -1)), e.sqrt(e.addNumber(x, 1))
		re := e.asinh(e.real(e.mul(e.conj(low), high)))
		return e.complex(re, e.scale(e.atan2(e.imag(low), e.real(high)), 2))
	}
	t := e.addNumber(x, -1)
	inner := e.log1p(e.add(t, e.sqrt(e.mul(t, e.addNumber(t, 2)))))
	outer := e.addNumber(e.log(x), math.Ln2)
	return e.Select(e.greater(x, e.number(x, 1e9)), outer, inner)
}

func (e elementwise) atanh(x hlo.Value) hlo.Value {
	one := e.one(x)
	if x.Dtype().IsComplex() {
		re, im := e.real(x), e.imag(x)
		// The real part as log1p of a positive number: the ratio of squared distances from -1 and 1,
		// less 1, for the point's mirror image on the right.
		square, side := e.mul(im, im), e.abs(re)
		distance := e.addNumber(side, -1)
		distance = e.add(e.mul(distance, distance), square)
		real := e.copySign(e.scale(e.log1p(e.div(e.scale(side, 4), distance)), 0.25), re)
		rest := e.sub(e.mul(e.sub(e.one(re), re), e.add(e.one(re), re)), square)
		return e.complex(real, e.scale(e.atan2(e.scale(im, 2), rest), 0.5))
	}
	a := e.abs(x)
	return e.copySign(e.scale(e.log1p(e.div(e.scale(a, 2), e.sub(one, a))), 0.5), x)
}

// copySign gives x's magnitude the sign of y, also of a zero or NaN.
func (e elementwise) copySign(x, y hlo.Value) hlo.Value {
	size := e.abs(x)
	return e.Select(e.signBit(y), e.neg(size), size)
}

// sinc is sin(pi x) / (pi x), 1 at 0.
func (e elementwise) sinc(x hlo.Value) hlo.Value {
	y := e.scale(x, math.Pi)
	return e.Select(e.isZero(x), e.one(x), e.div(e.sine(y), y))
}
