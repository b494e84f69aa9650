package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
)

// Orthogonal polynomials of a degree that is a tensor too: a recurrence over the degree, which runs
// until every element has reached its own. Chebyshev polynomials have a closed form within [-1, 1].

// polynomialFamily is one family of polynomials P_n(x) with P_0 = 1.
type polynomialFamily struct {
	name    string
	shifted bool // the argument is 2 x - 1
	// first gives P_1, next P_k+1 from p = P_k-1 and q = P_k; k has x's shape.
	first func(e elementwise, x hlo.Value) hlo.Value
	next  func(e elementwise, k, x, p, q hlo.Value) hlo.Value
	// most is the largest degree of f32; of f64 it is four times that. 0: no limit.
	most float64
	// inside, for |x| < 1, is the closed form from the angle acos(x). atOne and atMinusOne are the
	// values at 1, and without their sign, which is that of (-1)^n, at -1.
	inside            func(e elementwise, n, angle hlo.Value) hlo.Value
	atOne, atMinusOne func(e elementwise, n hlo.Value) hlo.Value
}

func init() {
	double := func(e elementwise, x hlo.Value) hlo.Value { return e.add(x, x) }
	chebyshevNext := func(e elementwise, _, x, p, q hlo.Value) hlo.Value { return e.sub(e.mul(double(e, x), q), p) }
	unit := func(e elementwise, n hlo.Value) hlo.Value { return e.one(n) }
	successor := func(e elementwise, n hlo.Value) hlo.Value { return e.addNumber(n, 1) }
	odd := func(e elementwise, n hlo.Value) hlo.Value { return e.addNumber(double(e, n), 1) }
	half := func(e elementwise, n hlo.Value) hlo.Value { return e.addNumber(n, 0.5) }
	families := []polynomialFamily{
		{
			name:  "chebyshev_polynomial_t",
			first: func(_ elementwise, x hlo.Value) hlo.Value { return x },
			inside: func(e elementwise, n, angle hlo.Value) hlo.Value {
				return e.cosine(e.mul(n, angle))
			},
			atOne: unit, atMinusOne: unit,
		},
		{
			name:  "chebyshev_polynomial_u",
			first: double,
			inside: func(e elementwise, n, angle hlo.Value) hlo.Value {
				return e.div(e.sine(e.mul(successor(e, n), angle)), e.sine(angle))
			},
			atOne: successor, atMinusOne: successor,
		},
		{
			name:  "chebyshev_polynomial_v",
			first: func(e elementwise, x hlo.Value) hlo.Value { return e.addNumber(double(e, x), -1) },
			inside: func(e elementwise, n, angle hlo.Value) hlo.Value {
				return e.div(e.cosine(e.mul(half(e, n), angle)), e.cosine(e.scale(angle, 0.5)))
			},
			atOne: unit, atMinusOne: odd,
		},
		{
			name:  "chebyshev_polynomial_w",
			first: func(e elementwise, x hlo.Value) hlo.Value { return e.addNumber(double(e, x), 1) },
			inside: func(e elementwise, n, angle hlo.Value) hlo.Value {
				return e.div(e.sine(e.mul(half(e, n), angle)), e.sine(e.scale(angle, 0.5)))
			},
			atOne: odd, atMinusOne: unit,
		},
	}
	for i := range families {
		families[i].next = chebyshevNext
		shifted := families[i]
		shifted.name, shifted.shifted = "shifted_"+shifted.name, true
		families = append(families, shifted)
	}
	families = append(families,
		polynomialFamily{
			name:  "hermite_polynomial_h",
			first: double,
			next: func(e elementwise, k, x, p, q hlo.Value) hlo.Value {
				return e.sub(e.mul(double(e, x), q), e.mul(double(e, k), p))
			},
			most: 128,
		},
		polynomialFamily{
			name:  "hermite_polynomial_he",
			first: func(_ elementwise, x hlo.Value) hlo.Value { return x },
			next: func(e elementwise, k, x, p, q hlo.Value) hlo.Value {
				return e.sub(e.mul(x, q), e.mul(k, p))
			},
			most: 128,
		},
		polynomialFamily{
			name:  "laguerre_polynomial_l",
			first: func(e elementwise, x hlo.Value) hlo.Value { return e.sub(e.one(x), x) },
			next: func(e elementwise, k, x, p, q hlo.Value) hlo.Value {
				sum := e.sub(e.mul(e.sub(odd(e, k), x), q), e.mul(k, p))
				return e.div(sum, e.addNumber(k, 1))
			},
		},
		polynomialFamily{
			name:  "legendre_polynomial_p",
			first: func(_ elementwise, x hlo.Value) hlo.Value { return x },
			next: func(e elementwise, k, x, p, q hlo.Value) hlo.Value {
				sum := e.sub(e.mul(e.mul(odd(e, k), x), q), e.mul(k, p))
				return e.div(sum, e.addNumber(k, 1))
			},
		},
	)
	for _, family := range families {
		name := "special_" + family.name
		register(&Row{Name: name, Out: []string{name + ".out"}, Meta: metaPolynomial(family.name + "_cpu"), Lower: lowerFormula(ofTwo(family.value))})
	}
}

func metaPolynomial(kernel string) func(c *Call) error {
	return func(c *Call) error {
		d, err := c.FloatResultType(0, 1)
		if err != nil {
			return err
		}
		if err := require(kernel, d, floats); err != nil {
			return err
		}
		if d.Size() < 4 {
			return notImplemented(kernel, d)
		}
		return c.binary(d)
	}
}

// closedFormLeast is the least degree of the closed form; below, the recurrence is as exact.
const closedFormLeast = 7

// value is P_n(x), 0 for a negative degree; a degree is rounded towards zero.
func (f polynomialFamily) value(e elementwise, x, n hlo.Value) hlo.Value {
	n = e.Select(e.isNaN(n), e.number(n, -1), e.trunc(n))
	if f.shifted {
		x = e.addNumber(e.add(x, x), -1)
	}
	degree := n
	var closed, isClosed hlo.Value
	if f.inside != nil {
		closed, isClosed = f.closedForm(e, x, n)
		degree = e.Select(isClosed, e.zero(n), degree)
	}
	if f.most > 0 {
		degree = e.min(degree, f.limit(e, n))
	}
	y := f.recurrence(e, x, degree)
	y = e.Select(e.isZero(n), e.one(n), y)
	if f.inside != nil {
		y = e.Select(isClosed, closed, y)
	}
	if f.most > 0 {
		y = e.Select(e.greater(n, f.limit(e, n)), e.nan(n), y)
	}
	return e.Select(e.isNegative(n), e.zero(n), y)
}

func (f polynomialFamily) limit(e elementwise, n hlo.Value) hlo.Value {
	if n.Dtype() == dtype.F64 {
		return e.number(n, 4*f.most)
	}
	return e.number(n, f.most)
}

// closedForm gives the values at 1 and -1 and, from closedFormLeast on, between them.
func (f polynomialFamily) closedForm(e elementwise, x, n hlo.Value) (value, is hlo.Value) {
	size := e.abs(x)
	edge := e.equal(size, e.one(x))
	inside := e.and(e.less(size, e.one(x)), e.atLeast(n, e.number(n, closedFormLeast)))
	value = f.inside(e, n, e.acos(e.Select(inside, x, e.zero(x))))
	halved := e.scale(n, 0.5)
	isEven := e.equal(halved, e.Unary(hlo.Floor, halved))
	atMinusOne := f.atMinusOne(e, n)
	atMinusOne = e.Select(isEven, atMinusOne, e.neg(atMinusOne))
	atEdge := e.Select(e.isPositive(x), f.atOne(e, n), atMinusOne)
	return e.Select(edge, atEdge, value), e.or(edge, inside)
}

// recurrence gives P_n(x) for n >= 1, and P_1 below. It ends early where all values are NaN: at a
// high degree they overflow.
func (f polynomialFamily) recurrence(e elementwise, x, n hlo.Value) hlo.Value {
	all := make([]int, x.Rank())
	for i := range all {
		all[i] = i
	}
	degree := e.Convert(e.Clamp(e.zero(n), n, e.number(n, math.MaxInt32-64)), dtype.S32)
	init := []hlo.Value{e.ScalarInt(dtype.S32, 1), e.one(x), f.first(e, x), x, degree}
	isOpen := func(s elementwise, state []hlo.Value) hlo.Value {
		return s.less(s.BroadcastTo(state[0], state[4].Dims()), state[4])
	}
	cond := e.Computation(f.name+"_continues", func(sub *hlo.Builder) {
		s := elementwise{sub}
		state := sub.StateParameters(shapesOf(init))
		open := s.and(isOpen(s, state), s.equal(state[2], state[2]))
		sub.Return(sub.ReduceOp(hlo.Or, open, sub.Scalar(dtype.Bool, 0), all))
	})
	body := e.Computation(f.name+"_degree", func(sub *hlo.Builder) {
		s := elementwise{sub}
		state := sub.StateParameters(shapesOf(init))
		number, p, q, x, degree := state[0], state[1], state[2], state[3], state[4]
		k := sub.BroadcastTo(sub.Convert(number, x.Dtype()), x.Dims())
		open := isOpen(s, state)
		next := f.next(s, k, x, p, q)
		sub.ReturnTuple(s.add(number, sub.ScalarInt(dtype.S32, 1)), s.Select(open, q, p), s.Select(open, next, q), x, degree)
	})
	return e.While(init, cond, body)[2]
}
