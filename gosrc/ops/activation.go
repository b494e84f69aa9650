package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Activation functions. Their numbers (slopes, bounds, thresholds) are parameters.

// activation describes one: its formula takes the tensor, then the numbers.
type activation struct {
	name    string
	kernel  string
	allowed kinds
	inPlace bool
	f       formula
	numbers int // of number arguments after the tensor
}

func (a activation) row() *Row {
	row := &Row{Name: a.name, Out: []string{a.name + ".out"}, Meta: a.meta, Lower: lowerFormula(a.f)}
	if a.inPlace {
		row.InPlace = []string{a.name + "_"}
	}
	return row
}

func (a *activation) meta(c *Call) error {
	d := c.Dtype(0)
	if err := require(a.kernel, d, a.allowed); err != nil {
		return err
	}
	c.Operand(c.Node(0))
	for i := 1; i <= a.numbers; i++ {
		c.Operand(c.ScalarOf(&c.Args[i], d))
	}
	return c.Out(d, c.Dims(0))
}

func init() {
	for _, a := range []activation{
		{"silu", "silu_cpu", floats | complexes, true, ofOne(silu), 0},
		{"mish", "mish_cpu", floats, true, ofOne(mish), 0},
		{"hardswish", "hardswish_cpu", floats, true, ofOne(hardswish), 0},
		{"hardsigmoid", "hardsigmoid_cpu", floats, true, ofOne(hardsigmoid), 0},
		{"elu", "elu_cpu", floats, true, elu, 3},
		{"leaky_relu", "leaky_relu_cpu", floats, true, leakyRelu, 1},
		{"softplus", "softplus_cpu", floats, false, softplus, 2},
		{"hardshrink", "hardshrink_cpu", floats, false, hardshrink, 1},
		{"threshold", "threshold_cpu", reals, true, threshold, 2},
	} {
		register(a.row())
	}
	register(
		&Row{Name: "relu", InPlace: []string{"relu_"}, Out: []string{"relu.out"}, Meta: metaRelu, Lower: lowerRelu},
		&Row{Name: "gelu", InPlace: []string{"gelu_"}, Out: []string{"gelu.out"}, Meta: metaGelu, Lower: lowerGelu},
		&Row{Name: "softshrink", Out: []string{"softshrink.out"}, Meta: metaSoftshrink, Lower: lowerFormula(softshrink)},
		&Row{Name: "_prelu_kernel", Meta: metaPrelu, Lower: lowerFormula(leakyRelu)},
		&Row{Name: "log_sigmoid_forward", Out: []string{"log_sigmoid_forward.output"}, Meta: metaLogSigmoid, Lower: lowerFormula(ofOne(logSigmoid))},
		&Row{Name: "glu", Out: []string{"glu.out"}, Meta: metaGlu, Lower: lowerGlu},
	)
}

func metaRelu(c *Call) error {
	d := c.Dtype(0)
	switch kindOf(d) {
	case bools:
		return status.Torchf(status.NotImplementedError, "Boolean inputs not supported for relu")
	case complexes:
		return status.Torchf(status.NotImplementedError, "clamp is not supported for complex types")
	}
	c.Operand(c.Node(0))
	return c.Out(d, c.Dims(0))
}

func lowerRelu(l *ir.Lowering) hlo.Value {
	x := l.In(0)
	return l.B.Binary(hlo.Maximum, x, l.B.Full(l.Dtype, 0, l.Dims...))
}

func silu(e elementwise, x hlo.Value) hlo.Value { return e.mul(x, e.sigmoid(x)) }

func mish(e elementwise, x hlo.Value) hlo.Value { return e.mul(x, e.tanh(e.log1p(e.exp(x)))) }

// relu6 is min(max(x, 0), 6).
func (e elementwise) relu6(x hlo.Value) hlo.Value { return e.min(e.max(x, e.zero(x)), e.number(x, 6)) }

func hardswish(e elementwise, x hlo.Value) hlo.Value {
	return e.div(e.mul(x, e.relu6(e.addNumber(x, 3))), e.number(x, 6))
}

func hardsigmoid(e elementwise, x hlo.Value) hlo.Value {
	return e.div(e.relu6(e.addNumber(x, 3)), e.number(x, 6))
}

// elu takes alpha, scale and input_scale.
func elu(e elementwise, in []hlo.Value) hlo.Value {
	x, alpha, scale, inputScale := in[0], in[1], in[2], in[3]
	negative := e.mul(e.expm1(e.mul(x, inputScale)), e.mul(alpha, scale))
	return e.Select(e.isNegative(x), negative, e.mul(x, scale))
}

func leakyRelu(e elementwise, in []hlo.Value) hlo.Value {
	return e.Select(e.isPositive(in[0]), in[0], e.mul(in[0], in[1]))
}

// softplus takes beta and the threshold above which it is the identity.
func softplus(e elementwise, in []hlo.Value) hlo.Value {
	x, beta, threshold := in[0], in[1], in[2]
	scaled := e.mul(x, beta)
	return e.Select(e.greater(scaled, threshold), x, e.div(e.log1p(e.exp(scaled)), beta))
}

// hardshrink and the shrinks' gradients let NaN pass.
func hardshrink(e elementwise, in []hlo.Value) hlo.Value {
	x, bound := in[0], in[1]
	return e.Select(e.atMost(e.abs(x), bound), e.zero(x), x)
}

func threshold(e elementwise, in []hlo.Value) hlo.Value {
	return e.Select(e.atMost(in[0], in[1]), in[2], in[0])
}

func softshrink(e elementwise, in []hlo.Value) hlo.Value {
	x, bound := in[0], in[1]
	inside := e.mul(x, e.zero(x)) // keeps NaN and the sign of zero
	low := e.Select(e.less(x, e.neg(bound)), e.add(x, bound), inside)
	return e.Select(e.greater(x, bound), e.sub(x, bound), low)
}

func metaSoftshrink(c *Call) error {
	d := c.Dtype(0)
	if err := require("softshrink_check", d, floats); err != nil {
		return err
	}
	if bound := &c.Args[1]; !(bound.AsFloat() >= 0) || !fits(bound, d) {
		return Errorf("lambda must be in range [0, %s] for input dtype %s, but found %g", maxText(d), torchClass(d), bound.AsFloat())
	}
	c.Operand(c.Node(0), c.ScalarOf(&c.Args[1], d))
	return c.Out(d, c.Dims(0))
}

// maxText gives the largest finite number of a float type as C++ streams print it.
func maxText(d dtype.Dtype) string {
	switch d {
	case dtype.F16:
		return "65504"
	case dtype.BF16:
		return "3.38953e+38"
	case dtype.F64:
		return "1.79769e+308"
	}
	return "3.40282e+38"
}

// tanhOf reads gelu's approximate argument.
func (c *Call) tanhOf(i int) (bool, error) {
	switch text := c.Text(i); {
	case c.IsNone(i) || text == "none":
		return false, nil
	case text == "tanh":
		return true, nil
	}
	return false, Errorf("approximate argument must be either none or tanh.")
}

func metaGelu(c *Call) error {
	d := c.Dtype(0)
	tanh, err := c.tanhOf(1)
	if err != nil {
		return err
	}
	if err := require("GeluKernelImpl", d, floats); err != nil {
		return err
	}
	c.Operand(c.Node(0))
	c.AttrBool(tanh)
	return c.Out(d, c.Dims(0))
}

// The tanh form of gelu is 0.5 x (1 + tanh(beta (x + kappa x^3))).
const (
	geluBeta  = math.Sqrt2 / math.SqrtPi
	geluKappa = 0.044715
)

func lowerGelu(l *ir.Lowering) hlo.Value {
	f := gelu
	if l.Bool() {
		f = geluTanh
	}
	return lowerFormula(ofOne(f))(l)
}

// normalCDF is the distribution function of the standard normal distribution.
func (e elementwise) normalCDF(x hlo.Value) hlo.Value {
	return e.scale(e.addNumber(e.Unary(hlo.Erf, e.scale(x, math.Sqrt2/2)), 1), 0.5)
}

func gelu(e elementwise, x hlo.Value) hlo.Value { return e.mul(x, e.normalCDF(x)) }

func geluTanh(e elementwise, x hlo.Value) hlo.Value {
	return e.mul(e.scale(x, 0.5), e.addNumber(e.tanh(e.geluInner(x)), 1))
}

func (e elementwise) geluInner(x hlo.Value) hlo.Value {
	cube := e.mul(e.mul(x, x), x)
	return e.scale(e.add(x, e.scale(cube, geluKappa)), geluBeta)
}

// metaPrelu: torch has given the weight the tensor's rank.
func metaPrelu(c *Call) error {
	d, weight := c.operandDtype(0), c.operandDtype(1)
	if d != weight {
		return Errorf("prelu: Type promoting not supported. Got %s and %s", torchClass(d), torchClass(weight))
	}
	if err := require("prelu_cpu", d, floats); err != nil {
		return err
	}
	return c.binary(d)
}

// metaLogSigmoid gives an empty buffer: the backward needs the input alone.
func metaLogSigmoid(c *Call) error {
	d := c.Dtype(0)
	if err := require("log_sigmoid_cpu", d, floats); err != nil {
		return err
	}
	c.Operand(c.Node(0))
	if err := c.Out(d, c.Dims(0)); err != nil {
		return err
	}
	c.Return(c.Build(kindZeros, d, []int64{0}))
	return nil
}

func logSigmoid(e elementwise, x hlo.Value) hlo.Value {
	return e.sub(e.min(x, e.zero(x)), e.log1p(e.exp(e.neg(e.abs(x)))))
}

// halvedDim checks glu's dimension.
func (c *Call) halvedDim(i, dimArgument int) (int, error) {
	if c.Rank(i) == 0 {
		return 0, Errorf("glu does not support scalars because halving size must be even")
	}
	dim, err := c.Dim(c.Int(dimArgument, -1), c.Rank(i))
	if err != nil {
		return 0, err
	}
	if size := c.Dims(i)[dim]; size%2 != 0 {
		return 0, Errorf("Halving dimension must be even, but dimension %d is size %d", dim, size)
	}
	return dim, nil
}

func metaGlu(c *Call) error {
	d := c.Dtype(0)
	dim, err := c.halvedDim(0, 1)
	if err != nil {
		return err
	}
	if err := require("glu_cpu", d, floats); err != nil {
		return err
	}
	c.dims = append(c.dims[:0], c.Dims(0)...)
	c.dims[dim] /= 2
	c.Operand(c.Node(0))
	c.Attr(int64(dim))
	return c.Out(d, c.dims)
}

// halves slices x in two along dim.
func (e elementwise) halves(x hlo.Value, dim int) (first, second hlo.Value) {
	start, middle := make([]int64, x.Rank()), append([]int64(nil), x.Dims()...)
	middle[dim] /= 2
	first = e.Slice(x, start, middle, nil)
	start[dim] = middle[dim]
	return first, e.Slice(x, start, x.Dims(), nil)
}

func lowerGlu(l *ir.Lowering) hlo.Value {
	e := elementwise{l.B}
	a, b := e.halves(as(l.B, l.In(0), l.Dtype.OpMath()), int(l.Int()))
	return as(l.B, e.mul(a, e.sigmoid(b)), l.Dtype)
}
