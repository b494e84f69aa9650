package ops

import (
	"math"

	"xla_go/gosrc/hlo"
)

// Bessel functions of integer order and their modified and scaled forms, the Airy function.

// only32 is a function of one tensor whose kernel in torch has no 16-bit floats.
func only32(name, kernel string, f func(e elementwise, x hlo.Value) hlo.Value) *Row {
	u := unary{name: name, kernel: kernel, float: true, allowed: floats, f: ofOne(f)}
	row := u.row()
	row.InPlace = nil
	row.Meta = func(c *Call) error {
		if d := c.Dtype(0); d.IsFloat() && d.Size() < 4 {
			return notImplemented(kernel, d)
		}
		return u.meta(c)
	}
	return row
}

func init() {
	for name, f := range map[string]func(e elementwise, x hlo.Value) hlo.Value{
		"bessel_j0":                 elementwise.besselJ0,
		"bessel_j1":                 elementwise.besselJ1,
		"bessel_y0":                 elementwise.besselY0,
		"bessel_y1":                 elementwise.besselY1,
		"modified_bessel_i0":        elementwise.i0,
		"modified_bessel_i1":        elementwise.i1,
		"modified_bessel_k0":        elementwise.besselK0,
		"modified_bessel_k1":        elementwise.besselK1,
		"scaled_modified_bessel_k0": elementwise.scaledBesselK0,
		"scaled_modified_bessel_k1": elementwise.scaledBesselK1,
		"spherical_bessel_j0":       elementwise.sphericalBesselJ0,
		"airy_ai":                   elementwise.airy,
	} {
		register(only32("special_"+name, name+"_cpu", f))
	}
}

// Squares of the zeros of J0 and J1 up to 8.
var (
	besselJ0Zeros = []float64{5.7831859629467845212, 30.471262343662086399}
	besselJ1Zeros = []float64{14.681970642123893257, 49.218456321694603670}
)

// besselLimit parts the series around 0 from those around infinity.
const besselLimit = 8

// besselNear sums a series in x^2 and multiplies it by (1 - x^2/z) for every z of squaredZeros, so that
// the value is exact near these zeros.
func (e elementwise) besselNear(x hlo.Value, series, squaredZeros []float64) hlo.Value {
	square := e.mul(x, x)
	sum := e.chebyshev(e.addNumber(e.scale(square, 2./(besselLimit*besselLimit)), -1), series)
	for _, z := range squaredZeros {
		sum = e.mul(sum, e.sub(e.one(x), e.scale(square, 1/z)))
	}
	return sum
}

// hankel gives P and Q of Hankel's expansion for x >= 8, and sqrt(1 / (pi x)): the root of two that
// the amplitude lacks is left to the phase, whose sine and cosine are sums of those of x.
func (e elementwise) hankel(x hlo.Value, p, q []float64) (even, odd, amplitude hlo.Value) {
	inverse := e.reciprocal(x)
	t := e.addNumber(e.scale(e.mul(inverse, inverse), 2*besselLimit*besselLimit), -1)
	even, odd = e.chebyshev(t, p), e.mul(e.chebyshev(t, q), inverse)
	return even, odd, e.sqrt(e.scale(inverse, 1/math.Pi))
}

// besselSplit gives a series its argument up to 8 and Hankel's expansion its argument from 8 on, so
// that neither overflows where the other is chosen.
func (e elementwise) besselSplit(x hlo.Value) (near, far, isFar hlo.Value) {
	limit := e.number(x, besselLimit)
	return e.min(x, limit), e.max(x, limit), e.greater(x, limit)
}

func (e elementwise) besselJ0(x hlo.Value) hlo.Value {
	near, far, isFar := e.besselSplit(e.abs(x))
	p, q, amplitude := e.hankel(far, besselP0Series, besselQ0Series)
	sine, cosine := e.sine(far), e.cosine(far)
	wave := e.sub(e.mul(p, e.add(cosine, sine)), e.mul(q, e.sub(sine, cosine)))
	y := e.Select(isFar, e.mul(amplitude, wave), e.besselNear(near, besselJ0Series, besselJ0Zeros))
	return e.Select(e.less(near, e.number(x, 1e-8)), e.one(x), y)
}

func (e elementwise) besselJ1(x hlo.Value) hlo.Value {
	near, far, isFar := e.besselSplit(e.abs(x))
	p, q, amplitude := e.hankel(far, besselP1Series, besselQ1Series)
	sine, cosine := e.sine(far), e.cosine(far)
	wave := e.add(e.mul(p, e.sub(sine, cosine)), e.mul(q, e.add(sine, cosine)))
	y := e.Select(isFar, e.mul(amplitude, wave), e.mul(near, e.besselNear(near, besselJ1Series, besselJ1Zeros)))
	return e.Select(e.signBit(x), e.neg(y), y)
}

func (e elementwise) besselY0(x hlo.Value) hlo.Value {
	near, far, isFar := e.besselSplit(x)
	p, q, amplitude := e.hankel(far, besselP0Series, besselQ0Series)
	sine, cosine := e.sine(far), e.cosine(far)
	wave := e.add(e.mul(p, e.sub(sine, cosine)), e.mul(q, e.add(cosine, sine)))
	logarithmic := e.mul(e.scale(e.log(near), 2/math.Pi), e.besselNear(near, besselJ0Series, besselJ0Zeros))
	y := e.Select(isFar, e.mul(amplitude, wave), e.add(logarithmic, e.besselNear(near, besselY0Series, nil)))
	return e.positiveOnly(x, y, math.Inf(-1))
}

func (e elementwise) besselY1(x hlo.Value) hlo.Value {
	near, far, isFar := e.besselSplit(x)
	p, q, amplitude := e.hankel(far, besselP1Series, besselQ1Series)
	sine, cosine := e.sine(far), e.cosine(far)
	wave := e.sub(e.mul(q, e.sub(sine, cosine)), e.mul(p, e.add(sine, cosine)))
	first := e.mul(near, e.besselNear(near, besselJ1Series, besselJ1Zeros))
	singular := e.scale(e.sub(e.mul(e.log(near), first), e.reciprocal(near)), 2/math.Pi)
	y := e.Select(isFar, e.mul(amplitude, wave), e.add(singular, e.mul(near, e.besselNear(near, besselY1Series, nil))))
	return e.positiveOnly(x, y, math.Inf(-1))
}

// positiveOnly is y for positive x, atZero for a zero, and NaN below.
func (e elementwise) positiveOnly(x, y hlo.Value, atZero float64) hlo.Value {
	y = e.Select(e.isZero(x), e.number(x, atZero), y)
	return e.Select(e.isNegative(x), e.nan(x), y)
}

// besselK gives a modified function of the second kind, times exp(x) where scaled. near is its value
// for 0 < x <= 2.
func (e elementwise) besselK(x hlo.Value, near func(x hlo.Value) hlo.Value, tail []float64, scaled bool) hlo.Value {
	two := e.number(x, 2)
	low, high := near(e.min(x, two)), e.max(x, two)
	far := e.div(e.chebyshev(e.addNumber(e.div(e.number(x, 4), high), -1), tail), e.sqrt(high))
	if scaled {
		low = e.mul(low, e.exp(e.min(x, two)))
	} else {
		far = e.mul(far, e.exp(e.neg(high)))
	}
	return e.positiveOnly(x, e.Select(e.greater(x, two), far, low), math.Inf(1))
}

func (e elementwise) besselK0Near(x hlo.Value) hlo.Value {
	series := e.chebyshev(e.addNumber(e.scale(e.mul(x, x), 0.5), -1), besselK0Series)
	return e.sub(series, e.mul(e.log(e.scale(x, 0.5)), e.i0(x)))
}

func (e elementwise) besselK1Near(x hlo.Value) hlo.Value {
	series := e.chebyshev(e.addNumber(e.scale(e.mul(x, x), 0.5), -1), besselK1Series)
	return e.add(e.div(series, x), e.mul(e.log(e.scale(x, 0.5)), e.i1(x)))
}

func (e elementwise) besselK0(x hlo.Value) hlo.Value {
	return e.besselK(x, e.besselK0Near, besselK0TailSeries, false)
}

func (e elementwise) scaledBesselK0(x hlo.Value) hlo.Value {
	return e.besselK(x, e.besselK0Near, besselK0TailSeries, true)
}

func (e elementwise) besselK1(x hlo.Value) hlo.Value {
	return e.besselK(x, e.besselK1Near, besselK1TailSeries, false)
}

func (e elementwise) scaledBesselK1(x hlo.Value) hlo.Value {
	return e.besselK(x, e.besselK1Near, besselK1TailSeries, true)
}

// sphericalBesselJ0 is sin(x) / x.
func (e elementwise) sphericalBesselJ0(x hlo.Value) hlo.Value {
	y := e.Select(e.isZero(x), e.one(x), e.div(e.sine(x), x))
	return e.Select(e.isInfinite(x), e.zero(x), y)
}

// airy is the Airy function Ai: a series between -4.5 and 2, its asymptotic forms outside.
func (e elementwise) airy(x hlo.Value) hlo.Value {
	const low, high = -4.5, 2
	phase := func(a float64) float64 { return 2. / 3 * a * math.Sqrt(a) }
	middle := e.Clamp(e.number(x, low), x, e.number(x, high))
	t := e.scale(e.addNumber(middle, -(low+high)/2), 2/(high-low))
	y := e.chebyshev(t, airySeries)

	// exp(-z) / (2 sqrt(pi) x^(1/4)) times a series in 1/z, z = 2/3 x^(3/2).
	positive := e.max(x, e.number(x, high))
	root := e.sqrt(positive)
	z := e.scale(e.mul(positive, root), 2./3)
	t = e.addNumber(e.div(e.number(x, 2*phase(high)), z), -1)
	right := e.mul(e.chebyshev(t, airyPositiveSeries), e.exp(e.neg(z)))
	right = e.div(e.scale(right, 0.5/math.Sqrt(math.Pi)), e.sqrt(root))

	negative := e.max(e.neg(x), e.number(x, -low))
	root = e.sqrt(negative)
	z = e.scale(e.mul(negative, root), 2./3)
	inverse := e.reciprocal(z)
	limit := phase(-low)
	t = e.addNumber(e.scale(e.mul(inverse, inverse), 2*limit*limit), -1)
	even, odd := e.chebyshev(t, airyEvenSeries), e.mul(e.chebyshev(t, airyOddSeries), inverse)
	sine, cosine := e.sine(z), e.cosine(z)
	left := e.sub(e.mul(even, e.add(sine, cosine)), e.mul(odd, e.sub(cosine, sine)))
	left = e.div(e.scale(left, math.Sqrt(0.5/math.Pi)), e.sqrt(root))

	y = e.Select(e.greater(x, e.number(x, high)), right, y)
	y = e.Select(e.less(x, e.number(x, low)), left, y)
	return e.Select(e.isInfinite(x), e.nan(x), y)
}
