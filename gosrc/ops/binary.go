package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Functions of two tensors beside arithmetic, and those that take floats apart.

func init() {
	register(
		&Row{Name: "atan2", InPlace: []string{"atan2_"}, Out: []string{"atan2.out"}, Meta: metaFloatKernel("atan2_cpu", floats), Lower: lowerFormula(ofTwo(elementwise.atan2))},
		&Row{Name: "hypot", InPlace: []string{"hypot_"}, Out: []string{"hypot.out"}, Meta: metaKernel("hypot_cpu", floats), Lower: lowerFormula(ofTwo(elementwise.hypot))},
		&Row{Name: "copysign.Tensor", InPlace: []string{"copysign_.Tensor"}, Out: []string{"copysign.out"}, Meta: metaFloatKernel("copysign_cpu", floats), Lower: lowerFormula(ofTwo(elementwise.copySign))},
		&Row{Name: "xlogy.Tensor", InPlace: []string{"xlogy_.Tensor"}, Out: []string{"xlogy.OutTensor"}, Meta: metaFloatKernel("xlogy_cpu", floats), Lower: lowerRounded(timesLog(elementwise.log))},
		&Row{Name: "special_xlog1py", Out: []string{"special_xlog1py.out"}, Meta: metaFloatKernel("xlog1py_cpu", floats), Lower: lowerRounded(timesLog(elementwise.log1p))},
		&Row{Name: "logaddexp", Out: []string{"logaddexp.out"}, Meta: metaKernel("logaddexp_cpu", floats|complexes), Lower: lowerFormula(ofTwo(elementwise.logAddExp))},
		&Row{Name: "logaddexp2", Out: []string{"logaddexp2.out"}, Meta: metaKernel("logaddexp2_cpu", floats), Lower: lowerFormula(ofTwo(elementwise.logAddExp2))},
		&Row{Name: "nextafter", InPlace: []string{"nextafter_"}, Out: []string{"nextafter.out"}, Meta: metaNextAfter, Lower: lowerNextAfter},
		&Row{Name: "frexp.Tensor", Out: []string{"frexp.Tensor_out"}, Meta: metaFrexp, LowerMany: lowerFrexp},
		&Row{Name: "logit", InPlace: []string{"logit_"}, Out: []string{"logit.out"}, Meta: metaLogit, Lower: lowerFormula(logit)},
		&Row{Name: "logit_backward", Out: []string{"logit_backward.grad_input"}, Meta: metaLogitBackward, Lower: lowerFormula(logitBackward)},
		&Row{Name: "complex", Out: []string{"complex.out"}, Meta: metaComplex, Lower: lowerComplexPair(func(_ elementwise, re, im hlo.Value) (hlo.Value, hlo.Value) { return re, im })},
		&Row{Name: "polar", Out: []string{"polar.out"}, Meta: metaComplex, Lower: lowerComplexPair(func(e elementwise, size, angle hlo.Value) (hlo.Value, hlo.Value) {
			return e.mul(size, e.cosine(angle)), e.mul(size, e.sine(angle))
		})},
	)
}

// hypot scales by the larger side, so that no square overflows.
func (e elementwise) hypot(x, y hlo.Value) hlo.Value {
	a, b := e.abs(x), e.abs(y)
	large, small := e.max(a, b), e.min(a, b)
	ratio := e.div(small, large)
	length := e.mul(large, e.sqrt(e.addNumber(e.mul(ratio, ratio), 1)))
	length = e.Select(e.isZero(large), large, length)
	infinite := e.or(e.equal(a, e.inf(a)), e.equal(b, e.inf(b)))
	return e.Select(infinite, e.inf(a), length)
}

// timesLog is x * f(y), 0 where x is 0 and y no NaN.
func timesLog(f func(e elementwise, x hlo.Value) hlo.Value) formula {
	return func(e elementwise, in []hlo.Value) hlo.Value {
		x, y := in[0], in[1]
		product := e.Select(e.isZero(x), e.zero(x), e.mul(x, f(e, y)))
		return e.Select(e.isNaN(y), y, product)
	}
}

func (e elementwise) logAddExp(x, y hlo.Value) hlo.Value {
	if x.Dtype().IsComplex() {
		swap := e.less(e.real(x), e.real(y))
		large, small := e.Select(swap, y, x), e.Select(swap, x, y)
		return e.add(large, e.log(e.add(e.one(x), e.exp(e.sub(small, large)))))
	}
	sum := e.add(e.max(x, y), e.log1p(e.exp(e.neg(e.abs(e.sub(x, y))))))
	return e.Select(e.and(e.isInfinite(x), e.equal(x, y)), x, sum)
}

func (e elementwise) logAddExp2(x, y hlo.Value) hlo.Value {
	rest := e.log1p(e.exp2(e.neg(e.abs(e.sub(x, y)))))
	sum := e.add(e.max(x, y), e.scale(rest, 1/math.Ln2))
	return e.Select(e.and(e.isInfinite(x), e.equal(x, y)), x, sum)
}

func metaNextAfter(c *Call) error {
	d, err := c.ResultType(0, 1)
	if err != nil {
		return err
	}
	if d == dtype.F16 {
		return notImplemented("nextafter_cpu", d)
	}
	if err := require("nextafter_cpu", d, floats); err != nil {
		return err
	}
	return c.binary(d)
}

// bitsType gives the signed integer type of a float's width.
func bitsType(d dtype.Dtype) dtype.Dtype {
	switch d.Size() {
	case 2:
		return dtype.S16
	case 4:
		return dtype.S32
	}
	return dtype.S64
}

// lowerNextAfter steps through a float's neighbours as integers: away from zero is one up.
func lowerNextAfter(l *ir.Lowering) hlo.Value {
	e := elementwise{l.B}
	x, y := operand(l, 0, l.Dtype), operand(l, 1, l.Dtype)
	integer := bitsType(l.Dtype)
	bits := e.BitcastConvert(x, integer)
	away := e.equal(e.greater(y, x), e.isPositive(x))
	step := e.Select(away, e.one(bits), e.number(bits, -1))
	next := e.BitcastConvert(e.add(bits, step), l.Dtype)
	smallest := e.BitcastConvert(e.one(bits), l.Dtype)
	smallest = e.Select(e.isNegative(y), e.BitcastConvert(e.addNumber(e.lowestBits(bits), 1), l.Dtype), smallest)
	next = e.Select(e.isZero(x), smallest, next)
	next = e.Select(e.equal(x, y), y, next)
	return e.Select(e.or(e.isNaN(x), e.isNaN(y)), e.nan(x), next)
}

// lowestBits has the sign bit alone.
func (e elementwise) lowestBits(bits hlo.Value) hlo.Value {
	return e.FullInt(bits.Dtype(), -1<<(bits.Dtype().Size()*8-1), bits.Dims()...)
}

func metaFrexp(c *Call) error {
	d := c.Dtype(0)
	if !d.IsFloat() {
		return Errorf("torch.frexp() only supports floating-point dtypes")
	}
	c.Operand(c.Node(0))
	n := c.Many()
	c.Return(c.Element(n, 0, d, c.Dims(0)))
	c.Return(c.Element(n, 1, dtype.S32, c.Dims(0)))
	return nil
}

// lowerFrexp takes the exponent from the bits. A subnormal number is a whole multiple of the
// smallest one: that multiple, as a float, has the bits to read. No arithmetic is done on
// subnormal floats, which a device may flush to zero.
func lowerFrexp(l *ir.Lowering) []hlo.Value {
	e, d := elementwise{l.B}, l.In(0).Dtype()
	x := as(l.B, l.In(0), d.OpMath())
	mantissaBits, bias := int64(23), int64(126)
	if x.Dtype() == dtype.F64 {
		mantissaBits, bias = 52, 1022
	}
	integer := bitsType(x.Dtype())
	constant := func(v int64) hlo.Value { return e.FullInt(integer, v, l.In(0).Dims()...) }
	bits := e.BitcastConvert(x, integer)
	sign := e.lowestBits(bits)
	size := e.and(bits, e.not(sign))
	subnormal := e.less(size, constant(1<<mantissaBits))
	multiple := e.BitcastConvert(e.Convert(size, x.Dtype()), integer)
	normal := e.Select(subnormal, multiple, size)
	exponent := e.Binary(hlo.ShiftRightLogical, normal, constant(mantissaBits))
	lowest := bias + mantissaBits
	exponent = e.sub(exponent, e.Select(subnormal, constant(bias+lowest), constant(bias)))
	mantissa := e.or(e.and(normal, constant(1<<mantissaBits-1)), constant(bias<<mantissaBits))
	mantissa = e.BitcastConvert(e.or(mantissa, e.and(bits, sign)), x.Dtype())
	plain := e.or(e.isZero(size), e.atLeast(size, constant((2*bias+3)<<mantissaBits)))
	mantissa = e.Select(plain, x, mantissa)
	exponent = e.Select(plain, e.zero(exponent), exponent)
	return []hlo.Value{as(l.B, mantissa, d), as(l.B, exponent, dtype.S32)}
}

// metaLogit takes eps as a parameter; without one nothing is clamped.
func metaLogit(c *Call) error {
	d := c.Dtype(0)
	if d.IsIntegral() {
		d = c.DefaultDtype
	}
	if err := require("logit_cpu", d, floats); err != nil {
		return err
	}
	c.Operand(c.Node(0))
	c.optionalEps(1, d)
	return c.Out(d, c.Dims(0))
}

func (c *Call) optionalEps(i int, d dtype.Dtype) {
	if eps := c.Float(i, -1); eps >= 0 {
		c.Operand(c.FloatNode(eps, d))
	}
}

func logit(e elementwise, in []hlo.Value) hlo.Value {
	x := in[0]
	if len(in) == 2 {
		high := e.sub(e.one(x), in[1])
		x = e.Select(e.less(x, in[1]), in[1], e.Select(e.greater(x, high), high, x))
	}
	return e.log(e.div(x, e.sub(e.one(x), x)))
}

func metaLogitBackward(c *Call) error {
	d, dims, err := c.gradientType(0, 1)
	if err != nil {
		return err
	}
	if err := require("logit_cpu", d, floats); err != nil {
		return err
	}
	c.Operand(c.Value(0, d), c.Value(1, d))
	c.optionalEps(2, d)
	return c.Out(d, dims)
}

func logitBackward(e elementwise, in []hlo.Value) hlo.Value {
	grad, x := in[0], in[1]
	low, high, outside := e.zero(x), e.one(x), e.nan(x)
	if len(in) == 3 {
		low, outside = in[2], e.zero(x)
		high = e.sub(high, low)
	}
	slope := e.div(grad, e.mul(x, e.sub(e.one(x), x)))
	if len(in) == 2 {
		edge := e.or(e.equal(x, low), e.equal(x, high))
		slope = e.Select(edge, e.mul(grad, e.inf(x)), slope)
	}
	return e.Select(e.or(e.less(x, low), e.greater(x, high)), outside, slope)
}

// metaComplex joins two real tensors of one type.
func metaComplex(c *Call) error {
	re, im := c.operandDtype(0), c.operandDtype(1)
	joinable := func(d dtype.Dtype) bool { return d == dtype.F16 || d == dtype.F32 || d == dtype.F64 }
	switch {
	case !joinable(re) || !joinable(im):
		return status.Torchf(status.NotImplementedError, "Expected both inputs to be Half, Float or Double tensors but got %s and %s", torchClass(re), torchClass(im))
	case re != im:
		return Errorf("Expected object of scalar type %s but got scalar type %s for second argument", torchClass(re), torchClass(im))
	case re == dtype.F16:
		return status.Torchf(status.NotImplementedError, "%s(): expected float32 or float64, got float16: XLA has no complex type of its halves; convert the parts first", c.row.Name)
	}
	dims, err := c.BroadcastDims(0, 1)
	if err != nil {
		return err
	}
	c.Operand(c.Value(0, re), c.Value(1, im))
	return c.Out(re.Complex(), dims)
}

func lowerComplexPair(f func(e elementwise, x, y hlo.Value) (re, im hlo.Value)) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		d := l.Dtype.Real()
		e := elementwise{l.B}
		return e.complex(f(e, operand(l, 0, d), operand(l, 1, d)))
	}
}
