package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// The regularized incomplete gamma functions and the multivariate log-gamma function.

func init() {
	for name, upper := range map[string]bool{"igamma": false, "igammac": true} {
		register(&Row{Name: name, InPlace: []string{name + "_"}, Out: []string{name + ".out"}, Meta: metaKernel(name+"_cpu", floats),
			Lower: lowerFormula(ofTwo(func(e elementwise, a, x hlo.Value) hlo.Value { return e.incompleteGamma(a, x, upper) }))})
	}
	register(&Row{Name: "mvlgamma", InPlace: []string{"mvlgamma_"}, Out: []string{"mvlgamma.out"}, Meta: metaMvlgamma, Lower: lowerMvlgamma})
}

// Where the expansion for large a is used, and what its coefficients are cut off for: a from
// temmeLeast on, x within temmeWidth * a of a.
const (
	temmeLeast = 20
	temmeWidth = 0.3
	// powerSeriesMost is the largest x of the power series.
	powerSeriesMost = 1.1
)

// incompleteGamma is P(a, x), or Q(a, x) = 1 - P(a, x) where upper. In every region the smaller one
// of the two, or one of about a half, is computed, and the other is its rest from 1.
func (e elementwise) incompleteGamma(a, x hlo.Value, upper bool) hlo.Value {
	valid := e.and(e.and(e.isPositive(a), e.isPositive(x)), e.and(e.Unary(hlo.IsFinite, a), e.Unary(hlo.IsFinite, x)))
	large := e.and(valid, e.greater(a, e.number(a, temmeLeast)))
	large = e.and(large, e.less(e.abs(e.sub(x, a)), e.scale(a, temmeWidth)))
	rest := e.and(valid, e.not(large))
	power := e.and(rest, e.atMost(x, e.number(x, powerSeriesMost)))
	rest = e.and(rest, e.not(power))
	below, above := e.and(rest, e.atMost(x, a)), e.and(rest, e.greater(x, a))

	// A region's formula has harmless arguments where another region's is chosen: loops end at once.
	within := func(region, v hlo.Value, otherwise float64) hlo.Value {
		return e.Select(region, v, e.number(v, otherwise))
	}
	one := e.one(x)
	restA, restX := within(rest, a, 1), within(rest, x, 1)
	density := e.gammaDensity(restA, restX)
	lowerBelow := e.mul(density, e.lowerGammaSeries(within(below, a, 1), within(below, x, 0)))
	upperAbove := e.mul(e.mul(density, restA), e.upperGammaFraction(within(above, a, 1), within(above, x, 2)))
	lowerPower, upperPower := e.gammaPowerSeries(within(power, a, 1), within(power, x, 1))
	temme := e.gammaTemme(within(large, a, 100), within(large, x, 100), upper)

	var y hlo.Value
	if upper {
		y = e.Select(below, e.sub(one, lowerBelow), upperAbove)
		y = e.Select(power, upperPower, y)
	} else {
		y = e.Select(below, lowerBelow, e.sub(one, upperAbove))
		y = e.Select(power, lowerPower, y)
	}
	y = e.Select(large, temme, y)
	return e.incompleteGammaLimits(a, x, y, upper)
}

// incompleteGammaLimits puts the values at the ends of the range into y: those of P are 0 where x is
// 0 or a infinite and 1 where x is infinite or a is 0; both at once are undefined. As in torch, one
// argument at such an end hides that the other one is NaN, except for an a of 0.
func (e elementwise) incompleteGammaLimits(a, x, y hlo.Value, upper bool) hlo.Value {
	nothing, all := e.zero(x), e.one(x)
	if upper {
		nothing, all = all, nothing
	}
	low := e.or(e.isZero(x), e.equal(a, e.inf(a)))
	high := e.or(e.equal(x, e.inf(x)), e.and(e.isZero(a), e.equal(x, x)))
	y = e.Select(e.or(e.isNaN(a), e.isNaN(x)), e.nan(x), y)
	y = e.Select(low, nothing, y)
	y = e.Select(high, all, y)
	undefined := e.or(e.and(low, high), e.or(e.isNegative(a), e.isNegative(x)))
	return e.Select(undefined, e.nan(x), y)
}

// logDefect is m - log(1 + m) for m = (x - a) / a, without cancellation around 0.
func (e elementwise) logDefect(a, x hlo.Value) hlo.Value {
	m := e.div(e.sub(x, a), a)
	limit := e.number(m, temmeWidth)
	small := e.Clamp(e.neg(limit), m, limit)
	near := e.mul(e.mul(small, small), e.chebyshev(e.scale(small, 1/temmeWidth), logDefectSeries))
	far := e.sub(m, e.log(e.div(x, a)))
	return e.Select(e.less(e.abs(m), limit), near, far)
}

// lgammaOnePlus is log(gamma(1 + a)) for a >= 0, with all digits also for small a.
func (e elementwise) lgammaOnePlus(a hlo.Value) hlo.Value {
	one := e.one(a)
	low := e.addNumber(e.min(a, one), -1)
	near := e.mul(e.mul(a, low), e.chebyshev(low, lgammaSeries))
	return e.Select(e.less(a, one), near, e.lgammaAboveOne(e.addNumber(e.max(a, one), 1)))
}

// gammaDensity is x^a exp(-x) / gamma(a + 1). For large a, whose factors would overflow and lose
// digits, it is written by the distance of x from a.
func (e elementwise) gammaDensity(a, x hlo.Value) hlo.Value {
	const least = 8
	isLarge := e.atLeast(a, e.number(a, least))
	small := e.Select(isLarge, e.one(a), a)
	near := e.exp(e.sub(e.sub(e.mul(small, e.log(x)), x), e.lgammaOnePlus(small)))
	large := e.max(a, e.number(a, least))
	exponent := e.neg(e.add(e.mul(large, e.logDefect(large, x)), e.stirlingRest(large)))
	far := e.div(e.exp(exponent), e.sqrt(e.scale(large, 2*math.Pi)))
	return e.Select(isLarge, far, near)
}

// gammaPowerSeries gives P and Q for x <= 1.1 from a series in powers of -x.
func (e elementwise) gammaPowerSeries(a, x hlo.Value) (lower, upper hlo.Value) {
	terms := 20
	if x.Dtype().Size() == 4 {
		terms = 12
	}
	factor, sum := e.one(x), e.zero(x)
	for n := 1; n <= terms; n++ {
		factor = e.scale(e.mul(factor, x), -1/float64(n))
		sum = e.add(sum, e.div(factor, e.addNumber(a, float64(n))))
	}
	sum = e.mul(sum, a)
	exponent := e.sub(e.mul(a, e.log(x)), e.lgammaOnePlus(a))
	scale := e.exp(exponent)
	lower = e.mul(scale, e.addNumber(sum, 1))
	upper = e.neg(e.add(e.expm1(exponent), e.mul(scale, sum)))
	return lower, e.Select(e.less(lower, e.number(x, 0.5)), e.sub(e.one(x), lower), upper)
}

// mostTerms bounds the loops; in their regions they end long before.
const mostTerms = 2000

// untilConverged runs step on a state whose first value is the loop's result, until converged is true
// for every element. step gets the number of the term, from 1 on, in the state's type.
func (e elementwise) untilConverged(name string, init []hlo.Value, step func(e elementwise, n hlo.Value, state []hlo.Value) (next []hlo.Value, converged hlo.Value)) hlo.Value {
	open := e.Full(dtype.Bool, 1, init[0].Dims()...)
	init = append([]hlo.Value{e.ScalarInt(dtype.S32, 1), open}, init...)
	all := make([]int, open.Rank())
	for i := range all {
		all[i] = i
	}
	cond := e.Computation(name+"_continues", func(sub *hlo.Builder) {
		state := sub.StateParameters(shapesOf(init))
		any := sub.ReduceOp(hlo.Or, state[1], sub.Scalar(dtype.Bool, 0), all)
		sub.Return(sub.Binary(hlo.And, any, sub.Compare("LT", state[0], sub.ScalarInt(dtype.S32, mostTerms))))
	})
	body := e.Computation(name+"_term", func(sub *hlo.Builder) {
		s := elementwise{sub}
		state := sub.StateParameters(shapesOf(init))
		n := sub.BroadcastTo(sub.Convert(state[0], state[2].Dtype()), state[2].Dims())
		next, converged := step(s, n, state[2:])
		for i := range next {
			next[i] = s.Select(state[1], next[i], state[2+i])
		}
		next = append([]hlo.Value{s.add(state[0], sub.ScalarInt(dtype.S32, 1)), s.and(state[1], s.not(converged))}, next...)
		sub.ReturnTuple(next...)
	})
	return e.While(init, cond, body)[2]
}

// precision is twice the distance from 1 to the next number of x's type.
func (e elementwise) precision(x hlo.Value) hlo.Value {
	if x.Dtype() == dtype.F64 {
		return e.number(x, 0x1p-51)
	}
	return e.number(x, 0x1p-22)
}

// lowerGammaSeries is the sum of x^n / ((a + 1) ... (a + n)) over n >= 0, for x <= a.
func (e elementwise) lowerGammaSeries(a, x hlo.Value) hlo.Value {
	init := []hlo.Value{e.one(x), e.one(x), a, x}
	return e.untilConverged("lower_gamma", init, func(e elementwise, n hlo.Value, state []hlo.Value) ([]hlo.Value, hlo.Value) {
		sum, term, a, x := state[0], state[1], state[2], state[3]
		term = e.div(e.mul(term, x), e.add(a, n))
		sum = e.add(sum, term)
		return []hlo.Value{sum, term, a, x}, e.not(e.greater(term, e.scale(e.mul(sum, e.precision(x)), 0.25)))
	})
}

// upperGammaFraction is gamma(a, x) / (x^a exp(-x)) for x > a, x > 1: a continued fraction by Lentz's
// method, where a denominator of 0 is replaced by a tiny number.
func (e elementwise) upperGammaFraction(a, x hlo.Value) hlo.Value {
	const tiny = 1e-30
	b := e.addNumber(e.sub(x, a), 1)
	d := e.reciprocal(b)
	init := []hlo.Value{d, b, e.number(x, 1/tiny), d, a}
	return e.untilConverged("upper_gamma", init, func(e elementwise, n hlo.Value, state []hlo.Value) ([]hlo.Value, hlo.Value) {
		value, b, c, d, a := state[0], state[1], state[2], state[3], state[4]
		nonzero := func(v hlo.Value) hlo.Value {
			return e.Select(e.less(e.abs(v), e.number(v, tiny)), e.number(v, tiny), v)
		}
		numerator := e.mul(n, e.sub(a, n))
		b = e.addNumber(b, 2)
		d = e.reciprocal(nonzero(e.add(e.mul(numerator, d), b)))
		c = nonzero(e.add(b, e.div(numerator, c)))
		delta := e.mul(c, d)
		change := e.abs(e.addNumber(delta, -1))
		return []hlo.Value{e.mul(value, delta), b, c, d, a}, e.not(e.greater(change, e.precision(change)))
	})
}

// gammaTemme is Temme's uniform expansion for large a: half an erfc, and a series in 1/a whose
// coefficients are polynomials in eta, with eta^2/2 = m - log(1 + m) and m = (x - a) / a.
func (e elementwise) gammaTemme(a, x hlo.Value, upper bool) hlo.Value {
	defect := e.logDefect(a, x)
	size := e.sqrt(e.scale(defect, 2))
	eta := e.Select(e.less(x, a), e.neg(size), size)
	inverse := e.reciprocal(a)
	sum := e.zero(a)
	for k := len(temmeSeries) - 1; k >= 0; k-- {
		sum = e.add(e.mul(sum, inverse), e.polynomial(eta, temmeSeries[k]))
	}
	remainder := e.div(e.mul(e.exp(e.neg(e.mul(a, defect))), sum), e.sqrt(e.scale(a, 2*math.Pi)))
	z := e.mul(eta, e.sqrt(e.scale(a, 0.5)))
	if upper {
		return e.add(e.scale(e.erfc(z), 0.5), remainder)
	}
	return e.sub(e.scale(e.erfc(e.neg(z)), 0.5), remainder)
}

// metaMvlgamma takes p as an attribute: it is the number of terms.
func metaMvlgamma(c *Call) error {
	d, p := c.Dtype(0), c.Int(1, 1)
	if d == dtype.Bool {
		return Errorf("The input tensor may not be a boolean tensor.")
	}
	if p < 1 {
		return Errorf("p has to be greater than or equal to 1")
	}
	if d.IsIntegral() {
		d = c.DefaultDtype
	}
	if err := require("arange_cpu", d, floats); err != nil {
		return err
	}
	c.Operand(c.Node(0))
	c.Attr(p)
	return c.Out(d, c.Dims(0))
}

// lowerMvlgamma is the sum of lgamma(x - k/2) over k < p, along a dimension of its own, and a constant.
func lowerMvlgamma(l *ir.Lowering) hlo.Value {
	p, d, rank := l.Int(), l.Dtype.OpMath(), len(l.Dims)
	e := elementwise{l.B}
	wide := append(append([]int64(nil), l.Dims...), p)
	dims := make([]int, rank)
	for i := range dims {
		dims[i] = i
	}
	x := e.Broadcast(as(l.B, l.In(0), d), wide, dims)
	x = e.sub(x, e.scale(e.Iota(d, wide, rank), 0.5))
	sum := e.ReduceOp(hlo.Add, e.lgamma(x), e.Scalar(d, 0), []int{rank})
	return as(l.B, e.addNumber(sum, float64(p)*float64(p-1)/4*math.Log(math.Pi)), l.Dtype)
}
