package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Special functions: error functions, gamma functions, Bessel functions of the first kind.

func init() {
	wide := func(name, kernel string, f func(e elementwise, x hlo.Value) hlo.Value) *Row {
		u := unary{name: name, kernel: kernel, float: true, allowed: floats, f: ofOne(f)}
		row := u.row()
		if len(name) > 8 && name[:8] == "special_" {
			row.InPlace = nil
		}
		return row
	}
	register(
		wide("erf", "erf_vml_cpu", func(e elementwise, x hlo.Value) hlo.Value { return e.Unary(hlo.Erf, x) }),
		wide("erfc", "erfc_vml_cpu", elementwise.erfc),
		wide("erfinv", "erfinv_vml_cpu", elementwise.erfinv),
		wide("lgamma", "lgamma_vml_cpu", elementwise.lgamma),
		wide("digamma", "digamma", elementwise.digamma),
		wide("i0", "i0_vml_cpu", elementwise.i0),
		wide("special_i0e", "i0e_cpu", elementwise.i0e),
		wide("special_i1", "i1_cpu", elementwise.i1),
		wide("special_i1e", "i1e_cpu", elementwise.i1e),
		wide("special_entr", "entr_cpu", elementwise.entropy),
		only32("special_erfcx", "erfcx_cpu", elementwise.erfcx),
		only32("special_log_ndtr", "log_ndtr_cpu", elementwise.logNormalCDF),
		only32("special_ndtri", "ndtri_cpu", elementwise.normalQuantile),
		&Row{Name: "polygamma", Out: []string{"polygamma.out"}, Meta: metaPolygamma, Lower: lowerPolygamma},
		&Row{Name: "special_zeta", Out: []string{"special_zeta.out"}, Meta: metaZeta, Lower: lowerFormula(ofTwo(elementwise.zeta))},
	)
}

// expSquare gives exp(sign * x^2) for x >= 0. The square's rounding error would be magnified by
// x^2, so x is split into a part whose square is exact and a rest.
func (e elementwise) expSquare(x hlo.Value, sign float64) hlo.Value {
	exponent, mantissa := 8, 11
	if x.Dtype() == dtype.F64 {
		exponent, mantissa = 11, 25
	}
	x = e.min(x, e.number(x, 40)) // the result is 0 or infinite long before
	high := e.ReducePrecision(x, exponent, mantissa)
	rest := e.mul(e.sub(x, high), e.add(x, high))
	return e.mul(e.exp(e.scale(e.mul(high, high), sign)), e.exp(e.scale(rest, sign)))
}

// erfcxPositive is exp(x^2) erfc(x) for x >= 0.
func (e elementwise) erfcxPositive(x hlo.Value) hlo.Value {
	shifted := e.addNumber(x, 3)
	t := e.sub(e.one(x), e.div(e.number(x, 6), shifted))
	return e.div(e.chebyshev(t, erfcxSeries), shifted)
}

func (e elementwise) erfcx(x hlo.Value) hlo.Value {
	a := e.abs(x)
	positive := e.erfcxPositive(a)
	negative := e.sub(e.scale(e.expSquare(a, 1), 2), positive)
	return e.Select(e.isNegative(x), negative, positive)
}

func (e elementwise) erfc(x hlo.Value) hlo.Value {
	a := e.abs(x)
	positive := e.mul(e.expSquare(a, -1), e.erfcxPositive(a))
	return e.Select(e.isNegative(x), e.sub(e.number(x, 2), positive), positive)
}

// logNormalCDF is log((1 + erf(x / sqrt 2)) / 2), without cancellation in either tail.
func (e elementwise) logNormalCDF(x hlo.Value) hlo.Value {
	z := e.scale(x, math.Sqrt2/2)
	low := e.sub(e.log(e.scale(e.erfcx(e.neg(z)), 0.5)), e.mul(z, z))
	return e.Select(e.less(x, e.number(x, -1)), low, e.log1p(e.scale(e.erfc(z), -0.5)))
}

// normalQuantile is the inverse of (1 + erf(x / sqrt 2)) / 2: sqrt 2 times erfinv(2 x - 1), and for a
// small distance p from 0 or 1, where that would lose digits, a series and for f64 one step of
// Newton's method on log(erfc(y)).
func (e elementwise) normalQuantile(x hlo.Value) hlo.Value {
	isUpper := e.greater(x, e.number(x, 0.5))
	p := e.Select(isUpper, e.sub(e.one(x), x), x)
	w := e.neg(e.log(e.scale(e.mul(p, e.sub(e.one(x), p)), 4)))
	least := e.number(w, 1.4*1.4)
	s := e.sqrt(e.max(w, least))
	t := e.scale(e.addNumber(e.div(e.number(x, 2), s), -0.75), 28./19)
	y := e.mul(s, e.chebyshev(t, normalTailSeries))
	if x.Dtype() == dtype.F64 {
		scaled := e.erfcx(y)
		residual := e.sub(e.sub(e.log(scaled), e.mul(y, y)), e.log(e.scale(p, 2)))
		y = e.add(y, e.mul(residual, e.scale(scaled, math.Sqrt(math.Pi)/2)))
	}
	center := e.erfinv(e.sub(e.one(p), e.scale(p, 2)))
	y = e.scale(e.Select(e.greater(w, least), y, center), math.Sqrt2)
	y = e.Select(e.isZero(p), e.inf(p), y)
	y = e.Select(isUpper, y, e.neg(y))
	outside := e.or(e.isNegative(x), e.greater(x, e.one(x)))
	return e.Select(outside, e.nan(x), y)
}

// erfinv is exact enough for f32 from its series; f64 takes one step of Halley's method more.
func (e elementwise) erfinv(x hlo.Value) hlo.Value {
	a := e.abs(x)
	rest := e.sub(e.one(a), a)
	w := e.neg(e.log(e.mul(rest, e.addNumber(a, 1))))
	center := e.mul(a, e.chebyshev(e.addNumber(e.scale(w, 0.4), -1), erfinvSeries))
	low, high := math.Sqrt(5), 6.2
	t := e.addNumber(e.scale(e.sqrt(w), 2/(high-low)), -(high+low)/(high-low))
	y := e.Select(e.less(w, e.number(w, 5)), center, e.chebyshev(t, erfinvTailSeries))
	if x.Dtype() == dtype.F64 {
		near := e.sub(e.Unary(hlo.Erf, y), a)
		far := e.sub(rest, e.erfc(y))
		residual := e.Select(e.less(a, e.number(a, 0.5)), near, far)
		u := e.mul(residual, e.scale(e.expSquare(y, 1), math.SqrtPi/2))
		y = e.sub(y, e.div(u, e.addNumber(e.mul(y, u), 1)))
	}
	y = e.Select(e.equal(a, e.one(a)), e.inf(a), y)
	return e.copySign(y, x)
}

// lgammaAboveOne is log(gamma(z)) for z >= 1: a series up to 3, Stirling's formula from 8, and a
// shift by 5 between them.
func (e elementwise) lgammaAboveOne(z hlo.Value) hlo.Value {
	zeros := e.mul(e.addNumber(z, -1), e.addNumber(z, -2))
	near := e.mul(zeros, e.chebyshev(e.addNumber(z, -2), lgammaSeries))
	product := z
	for k := 1; k < 5; k++ {
		product = e.mul(product, e.addNumber(z, float64(k)))
	}
	shift := e.less(z, e.number(z, 8))
	y := e.Select(shift, e.addNumber(z, 5), z)
	far := e.sub(e.mul(e.addNumber(y, -0.5), e.log(y)), y)
	far = e.addNumber(far, 0.5*math.Log(2*math.Pi))
	far = e.add(far, e.stirlingRest(y))
	far = e.Select(shift, e.sub(far, e.log(product)), far)
	return e.Select(e.less(z, e.number(z, 3)), near, far)
}

// stirlingRest is what Stirling's formula for log(gamma(y)) lacks, for y >= 8.
func (e elementwise) stirlingRest(y hlo.Value) hlo.Value {
	inverse := e.reciprocal(y)
	square := e.mul(inverse, inverse)
	series := []float64{1. / 12, -1. / 360, 1. / 1260, -1. / 1680, 1. / 1188, -691. / 360360, 1. / 156, -3617. / 122400}
	return e.mul(inverse, e.polynomial(square, series))
}

// sinPi is |sin(pi x)|, exact at integers.
func (e elementwise) sinPi(x hlo.Value) hlo.Value {
	a := e.abs(x)
	f := e.sub(a, e.Unary(hlo.Floor, a))
	f = e.min(f, e.sub(e.one(f), f))
	return e.sine(e.scale(f, math.Pi))
}

func (e elementwise) lgamma(x hlo.Value) hlo.Value {
	negative, small := e.isNegative(x), e.less(x, e.one(x))
	z := e.Select(negative, e.sub(e.one(x), x), e.Select(small, e.addNumber(x, 1), x))
	value := e.lgammaAboveOne(z)
	between := e.sub(value, e.log(x))
	reflected := e.sub(e.sub(e.number(x, math.Log(math.Pi)), e.log(e.sinPi(x))), value)
	y := e.Select(negative, reflected, e.Select(small, between, value))
	return e.Select(e.isInfinite(x), e.inf(x), y)
}

// digammaPositive shifts its argument to 10 and more, where the asymptotic series is exact.
func (e elementwise) digammaPositive(x hlo.Value) hlo.Value {
	ten, sum := e.number(x, 10), e.zero(x)
	for k := 0; k < 10; k++ {
		low := e.less(x, ten)
		sum = e.Select(low, e.sub(sum, e.reciprocal(x)), sum)
		x = e.Select(low, e.addNumber(x, 1), x)
	}
	square := e.reciprocal(e.mul(x, x))
	series := []float64{1. / 12, -1. / 120, 1. / 252, -1. / 240, 1. / 132, -691. / 32760, 1. / 12}
	tail := e.add(e.div(e.number(x, 0.5), x), e.mul(square, e.polynomial(square, series)))
	return e.add(sum, e.sub(e.log(x), tail))
}

func (e elementwise) digamma(x hlo.Value) hlo.Value {
	negative := e.isNegative(x)
	positive := e.digammaPositive(e.Select(negative, e.sub(e.one(x), x), x))
	fraction := e.sub(x, e.trunc(x))
	reflected := e.sub(positive, e.div(e.number(x, math.Pi), e.Unary(hlo.Tan, e.scale(fraction, math.Pi))))
	reflected = e.Select(e.equal(x, e.trunc(x)), e.nan(x), reflected)
	y := e.Select(negative, reflected, positive)
	return e.Select(e.isZero(x), e.copySign(e.inf(x), e.neg(x)), y)
}

func metaPolygamma(c *Call) error {
	n := c.Int(0, 0)
	if n < 0 {
		return Errorf("polygamma(n, x) does not support negative n.")
	}
	d := c.Dtype(1)
	if d.IsIntegral() {
		d = c.DefaultDtype
	}
	kernel := "polygamma"
	switch n {
	case 0:
		kernel = "digamma"
	case 1:
		kernel = "trigamma"
	}
	if err := require(kernel, d, floats); err != nil {
		return err
	}
	c.Operand(c.Node(1))
	c.Attr(n)
	return c.Out(d, c.Dims(1))
}

func lowerPolygamma(l *ir.Lowering) hlo.Value {
	n := l.Int()
	f := func(e elementwise, x hlo.Value) hlo.Value {
		factorial, _ := math.Lgamma(float64(n) + 1)
		factor := math.Exp(factorial)
		if n%2 == 0 {
			factor = -factor
		}
		return e.scale(e.zeta(e.number(x, float64(n)+1), x), factor)
	}
	switch n {
	case 0:
		f = elementwise.digamma
	case 1:
		f = elementwise.trigamma
	}
	return lowerFormula(ofOne(f))(l)
}

func (e elementwise) trigamma(x hlo.Value) hlo.Value {
	low := e.less(x, e.number(x, 0.5))
	y := e.Select(low, e.sub(e.one(x), x), x)
	sum := e.zero(x)
	for k := 0; k < 8; k++ {
		sum = e.add(sum, e.reciprocal(e.mul(y, y)))
		y = e.addNumber(y, 1)
	}
	inverse := e.reciprocal(y)
	square := e.mul(inverse, inverse)
	series := []float64{1, 1. / 6, -1. / 30, 1. / 42, -1. / 30, 5. / 66, -691. / 2730, 7. / 6}
	tail := e.mul(inverse, e.add(e.scale(inverse, 0.5), e.polynomial(square, series)))
	sum = e.add(sum, tail)
	s := e.div(e.number(x, math.Pi), e.sinPi(x))
	return e.Select(low, e.sub(e.mul(s, s), sum), sum)
}

func metaZeta(c *Call) error {
	d, err := c.FloatResultType(0, 1)
	if err != nil {
		return err
	}
	if err := require("zeta", d, floats); err != nil {
		return err
	}
	if d.Size() < 4 {
		return notImplemented("zeta", d)
	}
	return c.binary(d)
}

// zeta is Hurwitz's zeta function, the sum of (q + k)^-x, by the Euler-Maclaurin formula.
func (e elementwise) zeta(x, q hlo.Value) hlo.Value {
	whole := e.equal(q, e.Unary(hlo.Floor, q))
	pole := e.and(e.atMost(q, e.zero(q)), whole)
	undefined := e.and(e.and(e.isNegative(q), e.not(whole)), e.unequal(x, e.Unary(hlo.Floor, x)))
	undefined = e.or(undefined, e.less(x, e.one(x)))

	exponent := e.neg(x)
	sum, a := e.toPositive(exponent, e.Select(pole, e.one(q), q))
	var term hlo.Value
	for k := 0; k < 10; k++ {
		if k > 0 {
			a = e.addNumber(a, 1)
		}
		term = e.Binary(hlo.Power, a, exponent)
		sum = e.add(sum, term)
	}
	sum = e.add(sum, e.div(e.mul(term, a), e.addNumber(x, -1)))
	sum = e.sub(sum, e.scale(term, 0.5))
	// Bernoulli numbers over factorials: B_2k / (2k)!.
	bernoulli := []float64{1. / 12, -1. / 720, 1. / 30240, -1. / 1209600, 1. / 47900160,
		-691. / 1307674368000, 1. / 74724249600, -3617. / 10670622842880000}
	rising := x
	for k, b := range bernoulli {
		term = e.div(term, a)
		part := e.scale(e.mul(rising, term), b)
		sum = e.Select(e.isZero(term), sum, e.add(sum, part))
		rising = e.mul(e.mul(rising, e.addNumber(x, float64(2*k+1))), e.addNumber(x, float64(2*k+2)))
		term = e.div(term, a)
	}
	sum = e.Select(e.or(pole, e.equal(x, e.one(x))), e.inf(x), sum)
	return e.Select(undefined, e.nan(x), sum)
}

// toPositive adds up the terms of the zeta sum whose base is not positive. Without such terms the
// loop runs not once.
func (e elementwise) toPositive(exponent, q hlo.Value) (sum, base hlo.Value) {
	init := []hlo.Value{e.zero(q), q, exponent}
	all := make([]int, q.Rank())
	for i := range all {
		all[i] = i
	}
	cond := e.Computation("zeta_continues", func(sub *hlo.Builder) {
		s := elementwise{sub}
		state := sub.StateParameters(shapesOf(init))
		sub.Return(sub.ReduceOp(hlo.Or, s.atMost(state[1], s.zero(state[1])), sub.Scalar(dtype.Bool, 0), all))
	})
	body := e.Computation("zeta_term", func(sub *hlo.Builder) {
		s := elementwise{sub}
		state := sub.StateParameters(shapesOf(init))
		sum, base, exponent := state[0], state[1], state[2]
		open := s.atMost(base, s.zero(base))
		next := s.add(sum, s.Binary(hlo.Power, base, exponent))
		sub.ReturnTuple(s.Select(open, next, sum), s.Select(open, s.addNumber(base, 1), base), exponent)
	})
	state := e.While(init, cond, body)
	return state[0], state[1]
}

// besselTail is the series' value over sqrt(x), for x >= 8.
func (e elementwise) besselTail(a hlo.Value, series []float64) hlo.Value {
	t := e.addNumber(e.div(e.number(a, 16), a), -1)
	return e.div(e.chebyshev(t, series), e.sqrt(a))
}

func (e elementwise) i0e(x hlo.Value) hlo.Value {
	a := e.abs(x)
	near := e.chebyshev(e.addNumber(e.scale(a, 0.25), -1), i0Series)
	return e.Select(e.atMost(a, e.number(a, 8)), near, e.besselTail(a, i0TailSeries))
}

func (e elementwise) i1e(x hlo.Value) hlo.Value {
	a := e.abs(x)
	near := e.mul(a, e.chebyshev(e.addNumber(e.scale(a, 0.25), -1), i1Series))
	y := e.Select(e.atMost(a, e.number(a, 8)), near, e.besselTail(a, i1TailSeries))
	return e.Select(e.isNegative(x), e.neg(y), y)
}

func (e elementwise) i0(x hlo.Value) hlo.Value { return e.mul(e.exp(e.abs(x)), e.i0e(x)) }
func (e elementwise) i1(x hlo.Value) hlo.Value { return e.mul(e.exp(e.abs(x)), e.i1e(x)) }

// entropy is -x log x, 0 at 0 and minus infinity below.
func (e elementwise) entropy(x hlo.Value) hlo.Value {
	positive := e.neg(e.mul(x, e.log(x)))
	rest := e.Select(e.isZero(x), e.zero(x), e.number(x, math.Inf(-1)))
	y := e.Select(e.isPositive(x), positive, rest)
	return e.Select(e.isNaN(x), x, y)
}
