package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Functions of one tensor.

var negativeZero = math.Copysign(0, -1)

// unary describes one such function.
type unary struct {
	name    string
	kernel  string // of torch's CPU implementation, for its message about types
	allowed kinds  // of the type computed in
	float   bool   // integers give the default float type
	f       formula
	message map[kinds]error // instead of the kernel's message, by kind of the argument
}

func (u unary) row() *Row {
	return &Row{Name: u.name, InPlace: []string{u.name + "_"}, Out: []string{u.name + ".out"}, Meta: u.meta, Lower: lowerFormula(u.f)}
}

func (u *unary) meta(c *Call) error {
	d := c.Dtype(0)
	if err := u.message[kindOf(d)]; err != nil {
		return err
	}
	if u.float && d.IsIntegral() {
		d = c.DefaultDtype
	}
	if err := require(u.kernel, d, u.allowed); err != nil {
		return err
	}
	c.Operand(c.Node(0))
	return c.Out(d, c.Dims(0))
}

func notImplementedText(text string) error {
	return status.Torchf(status.NotImplementedError, "%s", text)
}

// opcode is the formula of one HLO operation.
func opcode(op hlo.Opcode) formula {
	return func(e elementwise, in []hlo.Value) hlo.Value { return e.Unary(op, in[0]) }
}

// ofOne is a formula of one operand.
func ofOne(f func(e elementwise, x hlo.Value) hlo.Value) formula {
	return func(e elementwise, in []hlo.Value) hlo.Value { return f(e, in[0]) }
}

// floatsOnly leaves integers as they are: they are whole already.
func floatsOnly(f func(e elementwise, x hlo.Value) hlo.Value) formula {
	return func(e elementwise, in []hlo.Value) hlo.Value {
		if x := in[0]; !x.Dtype().IsFloat() {
			return x
		}
		return f(e, in[0])
	}
}

func init() {
	const inexact = floats | complexes
	rounding := func(name string, f func(e elementwise, x hlo.Value) hlo.Value) unary {
		u := unary{name: name, kernel: name + "_vml_cpu", allowed: reals, f: floatsOnly(f)}
		if name != "round" {
			u.message = map[kinds]error{complexes: notImplementedText(name + " is not supported for complex inputs")}
		}
		return u
	}
	for _, u := range []unary{
		{name: "neg", allowed: numbers, f: opcode(hlo.Negate), message: map[kinds]error{
			bools: notImplementedText("Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.")}},
		{name: "sign", allowed: bools | reals, f: ofOne(elementwise.sign), message: map[kinds]error{
			complexes: notImplementedText("Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.")}},
		{name: "sgn", allowed: anyKind, f: ofOne(elementwise.sign)},
		rounding("floor", func(e elementwise, x hlo.Value) hlo.Value { return e.Unary(hlo.Floor, x) }),
		rounding("ceil", func(e elementwise, x hlo.Value) hlo.Value { return e.Unary(hlo.Ceil, x) }),
		rounding("round", func(e elementwise, x hlo.Value) hlo.Value { return e.Unary(hlo.RoundNearestEven, x) }),
		rounding("trunc", elementwise.trunc),
		{name: "frac", kernel: "frac_cpu", allowed: floats, f: ofOne(func(e elementwise, x hlo.Value) hlo.Value { return e.sub(x, e.trunc(x)) })},

		{name: "exp", float: true, allowed: inexact, f: opcode(hlo.Exp)},
		{name: "exp2", float: true, allowed: inexact, f: ofOne(elementwise.exp2)},
		{name: "expm1", float: true, allowed: inexact, f: opcode(hlo.ExpM1)},
		{name: "log", float: true, allowed: inexact, f: ofOne(elementwise.log)},
		{name: "log1p", float: true, allowed: inexact, f: opcode(hlo.Log1p)},
		{name: "log2", float: true, allowed: inexact, f: ofOne(elementwise.log2)},
		{name: "log10", float: true, allowed: inexact, f: ofOne(func(e elementwise, x hlo.Value) hlo.Value { return e.div(e.log(x), e.number(x, math.Ln10)) })},
		{name: "sqrt", float: true, allowed: inexact, f: opcode(hlo.Sqrt)},
		{name: "rsqrt", float: true, allowed: inexact, f: opcode(hlo.Rsqrt)},
		{name: "reciprocal", float: true, allowed: inexact, f: ofOne(elementwise.reciprocal)},
		{name: "sin", float: true, allowed: inexact, f: opcode(hlo.Sine)},
		{name: "cos", float: true, allowed: inexact, f: opcode(hlo.Cosine)},
		{name: "tan", float: true, allowed: inexact, f: opcode(hlo.Tan)},
		{name: "sinh", float: true, allowed: inexact, f: ofOne(elementwise.sinh)},
		{name: "cosh", float: true, allowed: inexact, f: ofOne(elementwise.cosh)},
		{name: "tanh", float: true, allowed: inexact, f: opcode(hlo.Tanh)},
		{name: "asin", float: true, allowed: inexact, f: ofOne(elementwise.asin)},
		{name: "acos", float: true, allowed: inexact, f: ofOne(elementwise.acos)},
		{name: "atan", float: true, allowed: inexact, f: ofOne(elementwise.atan)},
		{name: "asinh", float: true, allowed: inexact, f: ofOne(elementwise.asinh)},
		{name: "acosh", float: true, allowed: inexact, f: ofOne(elementwise.acosh)},
		{name: "atanh", float: true, allowed: inexact, f: ofOne(elementwise.atanh)},
		{name: "sinc", float: true, allowed: inexact, f: ofOne(elementwise.sinc)},
		{name: "sigmoid", float: true, allowed: inexact, f: ofOne(elementwise.sigmoid)},
	} {
		register(u.row())
	}
	register(
		&Row{Name: "_conj_physical", InPlace: []string{"conj_physical_"}, Out: []string{"conj_physical.out"}, Meta: metaConj, Lower: lowerFormula(ofOne(elementwise.conj))},
		&Row{Name: "abs", InPlace: []string{"abs_"}, Out: []string{"abs.out"}, Meta: metaAbs, Lower: lowerTyped(ofOne(elementwise.magnitude))},
		&Row{Name: "angle", Out: []string{"angle.out"}, Meta: metaAngle, Lower: lowerTyped(ofOne(elementwise.angle))},
		&Row{Name: "round.decimals", InPlace: []string{"round_.decimals"}, Out: []string{"round.decimals_out"}, Meta: metaRoundDecimals, Lower: lowerRoundDecimals, Variables: variableDecimals},
		&Row{Name: "nan_to_num", InPlace: []string{"nan_to_num_"}, Out: []string{"nan_to_num.out"}, Meta: metaNanToNum, Lower: lowerNanToNum},
	)
}

// sign is 0 for NaN, as torch's; XLA's would pass it through.
func (e elementwise) sign(x hlo.Value) hlo.Value {
	switch d := x.Dtype(); {
	case d == dtype.Bool:
		return x
	case d.IsUnsigned():
		return as(e.Builder, e.unequal(x, e.zero(x)), d)
	case d.IsFloat():
		return e.Select(e.isNaN(x), e.zero(x), e.addNumber(e.Unary(hlo.Sign, x), 0))
	}
	return e.Unary(hlo.Sign, x)
}

func (e elementwise) exp2(x hlo.Value) hlo.Value {
	if x.Dtype().IsComplex() {
		return e.exp(e.scale(x, math.Ln2))
	}
	return e.Binary(hlo.Power, e.number(x, 2), x)
}

// log2 divides, because multiplying by 1/ln 2 misses some exact powers of two.
func (e elementwise) log2(x hlo.Value) hlo.Value { return e.div(e.log(x), e.number(x, math.Ln2)) }

func (e elementwise) reciprocal(x hlo.Value) hlo.Value { return e.div(e.one(x), x) }

func (e elementwise) sigmoid(x hlo.Value) hlo.Value { return e.Unary(hlo.Logistic, x) }

func (e elementwise) magnitude(x hlo.Value) hlo.Value {
	if x.Dtype().IsUnsigned() {
		return x
	}
	return e.abs(x)
}

// metaAbs gives the real type for complex numbers; in place it would change the tensor's type.
func metaAbs(c *Call) error {
	d := c.Dtype(0)
	if d == dtype.Bool {
		return notImplemented("abs_cpu", d)
	}
	if c.InPlace && d.IsComplex() {
		return Errorf("In-place abs is not supported for complex tensors.")
	}
	c.Operand(c.Node(0))
	c.Attr(int64(d.OpMath()))
	return c.Out(d.Real(), c.Dims(0))
}

func metaConj(c *Call) error {
	c.Operand(c.Node(0))
	return c.Out(c.Dtype(0), c.Dims(0))
}

func metaAngle(c *Call) error {
	d := c.Dtype(0)
	if d.IsIntegral() {
		d = c.DefaultDtype
	}
	c.Operand(c.Node(0))
	c.Attr(int64(d.OpMath()))
	return c.Out(d.Real(), c.Dims(0))
}

// angle of a real number is pi below zero, 0 elsewhere, and NaN for NaN.
func (e elementwise) angle(x hlo.Value) hlo.Value {
	if x.Dtype().IsComplex() {
		return e.Binary(hlo.Atan2, e.imag(x), e.real(x))
	}
	return e.Select(e.isNaN(x), x, e.Select(e.isNegative(x), e.number(x, math.Pi), e.zero(x)))
}

func metaRoundDecimals(c *Call) error {
	d := c.Dtype(0)
	if err := require("round_cpu", d, floats); err != nil {
		return err
	}
	c.Operand(c.Node(0))
	c.Attr(c.Int(1, 0))
	return c.Out(d, c.Dims(0))
}

// variableDecimals is the number of decimals; its sign is a case.
func variableDecimals(n *ir.Node) ir.Variables {
	switch decimals := n.Attributes[0]; {
	case decimals < 0:
		return ir.Variables{Integers: 1, Case: 1}
	default:
		return ir.Variables{Integers: 1}
	}
}

// powerOfTen gives 10 to the power of |exponent| as f64, exactly what math.Pow says.
func powerOfTen(b *hlo.Builder, exponent hlo.Value) hlo.Value {
	powers := make([]int64, 310) // the last is infinite
	for i := range powers {
		powers[i] = int64(math.Float64bits(math.Pow(10, float64(i))))
	}
	table := b.BitcastConvert(constantInts(b, powers), dtype.F64)
	return b.Reshape(b.DynamicSlice(table, []hlo.Value{b.Unary(hlo.Abs, exponent)}, []int64{1}), nil)
}

func lowerRoundDecimals(l *ir.Lowering) hlo.Value {
	e, number := elementwise{l.B}, l.Number()
	x := operand(l, 0, l.Dtype.OpMath())
	decimals := number.Constant
	power := e.number(x, math.Pow(10, math.Abs(float64(decimals))))
	if number.IsParameter() {
		power = e.BroadcastTo(as(e.Builder, powerOfTen(e.Builder, number.In(e.Builder, dtype.S64)), x.Dtype()), x.Dims())
		decimals = 1 - 2*int64(l.Case()) // its sign
	}
	round := func(x hlo.Value) hlo.Value { return e.Unary(hlo.RoundNearestEven, x) }
	switch {
	case decimals == 0:
		x = round(x)
	case decimals < 0:
		x = e.mul(round(e.div(x, power)), power)
	default:
		x = e.div(round(e.mul(x, power)), power)
	}
	return as(l.B, x, l.Dtype)
}

// metaNanToNum takes the replacements as parameters; a missing one is the type's own limit.
func metaNanToNum(c *Call) error {
	d := c.Dtype(0)
	c.Operand(c.Node(0))
	if !d.IsIntegral() {
		real := d.Real()
		for i := 1; i <= 3; i++ {
			c.AttrBool(!c.IsNone(i))
			if !c.IsNone(i) {
				c.Operand(c.FloatNode(c.Float(i, 0), real))
			}
		}
	}
	return c.Out(d, c.Dims(0))
}

func lowerNanToNum(l *ir.Lowering) hlo.Value {
	x := l.In(0)
	if l.Dtype.IsIntegral() {
		return x
	}
	e, real := elementwise{l.B}, l.Dtype.Real()
	next := 1
	replacement := func(missing hlo.Value) hlo.Value {
		v := missing
		if l.Bool() {
			v = as(l.B, l.In(next), real)
			next++
		}
		return l.B.BroadcastTo(v, l.Dims)
	}
	nan := replacement(l.B.Scalar(real, 0))
	high := replacement(l.B.MaxFinite(real))
	low := replacement(l.B.MinFinite(real))
	replace := func(x hlo.Value) hlo.Value {
		y := e.Select(e.isNaN(x), nan, x)
		y = e.Select(e.equal(x, e.inf(x)), high, y)
		return e.Select(e.equal(x, e.number(x, math.Inf(-1))), low, y)
	}
	if l.Dtype.IsComplex() {
		return e.complex(replace(e.real(x)), replace(e.imag(x)))
	}
	return replace(x)
}
