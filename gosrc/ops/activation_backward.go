package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Gradients of activation functions.

// gradient describes one: its formula takes the tensors, then the numbers.
type gradient struct {
	name    string
	kernel  string
	allowed kinds
	out     string // overload that writes its result; "" for none
	f       formula
	tensors int // of tensor arguments
	numbers int // of number arguments after them
}

func (g gradient) row() *Row {
	row := &Row{Name: g.name, Meta: g.meta, Lower: lowerFormula(g.f)}
	if g.out != "" {
		row.Out = []string{g.name + "." + g.out}
	}
	return row
}

func (g *gradient) meta(c *Call) error {
	d, dims, err := c.gradientType(0, g.tensors-1)
	if err != nil {
		return err
	}
	if err := require(g.kernel, d, g.allowed); err != nil {
		return err
	}
	for i := 0; i < g.tensors; i++ {
		c.Operand(c.Value(i, d))
	}
	for i := g.tensors; i < g.tensors+g.numbers; i++ {
		c.Operand(c.ScalarOf(&c.Args[i], d))
	}
	return c.Out(d, dims)
}

// gradientType gives the type and sizes of a gradient from two tensor arguments.
func (c *Call) gradientType(i, k int) (dtype.Dtype, []int64, error) {
	d, err := c.ResultType(i, k)
	if err != nil {
		return d, nil, err
	}
	dims, err := c.BroadcastDims(i, k)
	return d, dims, err
}

func init() {
	const input = "grad_input"
	for _, g := range []gradient{
		{"sigmoid_backward", "sigmoid_backward_cpu", floats | complexes, input, ofTwo(sigmoidBackward), 2, 0},
		{"tanh_backward", "tanh_backward_cpu", floats | complexes, input, ofTwo(tanhBackward), 2, 0},
		{"silu_backward", "silu_backward_cpu", floats | complexes, input, ofTwo(siluBackward), 2, 0},
		{"mish_backward", "mish_backward_cpu", floats, "", ofTwo(mishBackward), 2, 0},
		{"hardswish_backward", "hardswish_backward_cpu", floats, "out", ofTwo(hardswishBackward), 2, 0},
		{"hardsigmoid_backward", "hardsigmoid_backward", floats, input, ofTwo(hardsigmoidBackward), 2, 0},
		{"hardtanh_backward", "hardshrink_backward_cpu", floats, input, hardtanhBackward, 2, 2},
		{"softplus_backward", "softplus_backward_cpu", floats, input, softplusBackward, 2, 2},
		{"hardshrink_backward", "hardshrink_backward_cpu", floats, input, shrinkBackward, 2, 1},
		{"softshrink_backward", "softshrink_backward_cpu", floats, input, shrinkBackward, 2, 1},
	} {
		register(g.row())
	}
	register(
		&Row{Name: "threshold_backward", Out: []string{"threshold_backward.grad_input"}, Meta: metaThresholdBackward, Lower: lowerFormula(thresholdBackward)},
		&Row{Name: "gelu_backward", Out: []string{"gelu_backward.grad_input"}, Meta: metaGeluBackward, Lower: lowerGeluBackward},
		&Row{Name: "elu_backward", Out: []string{"elu_backward.grad_input"}, Meta: metaEluBackward, Lower: lowerEluBackward},
		&Row{Name: "leaky_relu_backward", Out: []string{"leaky_relu_backward.grad_input"}, Meta: metaLeakyReluBackward, Lower: lowerFormula(leakyReluBackward)},
		&Row{Name: "_prelu_kernel_backward", Meta: metaPreluBackward, LowerMany: lowerPreluBackward},
		&Row{Name: "log_sigmoid_backward", Out: []string{"log_sigmoid_backward.grad_input"}, Meta: metaLogSigmoidBackward, Lower: lowerFormula(ofTwo(logSigmoidBackward))},
		&Row{Name: "glu_backward", Out: []string{"glu_backward.grad_input"}, Meta: metaGluBackward, Lower: lowerGluBackward},
	)
}

func sigmoidBackward(e elementwise, grad, y hlo.Value) hlo.Value {
	return e.mul(grad, e.conj(e.mul(e.sub(e.one(y), y), y)))
}

func tanhBackward(e elementwise, grad, y hlo.Value) hlo.Value {
	return e.mul(grad, e.conj(e.sub(e.one(y), e.mul(y, y))))
}

func siluBackward(e elementwise, grad, x hlo.Value) hlo.Value {
	s := e.sigmoid(x)
	slope := e.mul(s, e.add(e.one(x), e.mul(x, e.sub(e.one(x), s))))
	return e.mul(grad, e.conj(slope))
}

func mishBackward(e elementwise, grad, x hlo.Value) hlo.Value {
	t := e.tanh(e.log1p(e.exp(x)))
	rest := e.mul(e.mul(x, e.sigmoid(x)), e.sub(e.one(x), e.mul(t, t)))
	return e.mul(grad, e.add(t, rest))
}

func hardswishBackward(e elementwise, grad, x hlo.Value) hlo.Value {
	middle := e.mul(grad, e.addNumber(e.div(x, e.number(x, 3)), 0.5))
	upper := e.Select(e.less(x, e.number(x, 3)), middle, grad)
	return e.Select(e.atMost(x, e.number(x, -3)), e.zero(x), upper)
}

func hardsigmoidBackward(e elementwise, grad, x hlo.Value) hlo.Value {
	inside := e.and(e.greater(x, e.number(x, -3)), e.less(x, e.number(x, 3)))
	return e.Select(inside, e.div(grad, e.number(x, 6)), e.zero(x))
}

func hardtanhBackward(e elementwise, in []hlo.Value) hlo.Value {
	grad, x, low, high := in[0], in[1], in[2], in[3]
	outside := e.or(e.atMost(x, low), e.atLeast(x, high))
	return e.Select(outside, e.zero(grad), grad)
}

func softplusBackward(e elementwise, in []hlo.Value) hlo.Value {
	grad, x, beta, threshold := in[0], in[1], in[2], in[3]
	scaled := e.mul(x, beta)
	z := e.exp(scaled)
	return e.Select(e.greater(scaled, threshold), grad, e.div(e.mul(grad, z), e.addNumber(z, 1)))
}

func shrinkBackward(e elementwise, in []hlo.Value) hlo.Value {
	return e.Select(e.atMost(e.abs(in[1]), in[2]), e.zero(in[0]), in[0])
}

// metaThresholdBackward leaves out a threshold of integer 0, the one of relu's gradient.
func metaThresholdBackward(c *Call) error {
	d, dims, err := c.gradientType(0, 1)
	if err != nil {
		return err
	}
	if err := require("threshold_cpu", d, reals); err != nil {
		return err
	}
	c.Operand(c.Value(0, d), c.Value(1, d))
	if bound := &c.Args[2]; bound.Tag != TagInt || bound.Int != 0 {
		c.Operand(c.ScalarOf(bound, d))
	}
	return c.Out(d, dims)
}

func thresholdBackward(e elementwise, in []hlo.Value) hlo.Value {
	bound := e.zero(in[1])
	if len(in) == 3 {
		bound = in[2]
	}
	return e.Select(e.atMost(in[1], bound), e.zero(in[0]), in[0])
}

func metaGeluBackward(c *Call) error {
	tanh, err := c.tanhOf(2)
	if err != nil {
		return err
	}
	d, dims, err := c.gradientType(0, 1)
	if err != nil {
		return err
	}
	if err := require("GeluBackwardKernelImpl", d, floats); err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1))
	c.AttrBool(tanh)
	return c.Out(d, dims)
}

func lowerGeluBackward(l *ir.Lowering) hlo.Value {
	f := geluBackward
	if l.Bool() {
		f = geluTanhBackward
	}
	return lowerFormula(ofTwo(f))(l)
}

func geluBackward(e elementwise, grad, x hlo.Value) hlo.Value {
	density := e.scale(e.exp(e.scale(e.mul(x, x), -0.5)), 1/(math.Sqrt2*math.SqrtPi))
	return e.mul(grad, e.add(e.normalCDF(x), e.mul(x, density)))
}

func geluTanhBackward(e elementwise, grad, x hlo.Value) hlo.Value {
	t := e.tanh(e.geluInner(x))
	left := e.scale(e.addNumber(t, 1), 0.5)
	inner := e.scale(e.addNumber(e.scale(e.mul(x, x), 3*geluKappa), 1), geluBeta)
	right := e.mul(e.mul(e.scale(x, 0.5), e.sub(e.one(x), e.mul(t, t))), inner)
	return e.mul(grad, e.add(left, right))
}

// metaEluBackward: (grad, alpha, scale, input_scale, is_result, self or result).
func metaEluBackward(c *Call) error {
	isResult := c.Bool(4)
	if isResult && c.Args[1].AsFloat() < 0 {
		return Errorf("In-place elu backward calculation is triggered with a negative slope which is not supported. This is caused by calling in-place forward function with a negative slope, please call out-of-place version instead.")
	}
	d, dims, err := c.gradientType(0, 5)
	if err != nil {
		return err
	}
	if err := require("elu_backward_cpu", d, floats); err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(5))
	for i := 1; i <= 3; i++ {
		c.Operand(c.ScalarOf(&c.Args[i], d))
	}
	c.AttrBool(isResult)
	return c.Out(d, dims)
}

func lowerEluBackward(l *ir.Lowering) hlo.Value {
	isResult := l.Bool()
	return lowerFormula(func(e elementwise, in []hlo.Value) hlo.Value {
		grad, x, alpha, scale, inputScale := in[0], in[1], in[2], in[3], in[4]
		coefficient := e.mul(alpha, scale)
		var slope hlo.Value
		if isResult {
			slope = e.mul(inputScale, e.add(x, coefficient))
		} else {
			slope = e.mul(e.mul(inputScale, coefficient), e.exp(e.mul(x, inputScale)))
		}
		return e.mul(grad, e.Select(e.atMost(x, e.zero(x)), slope, scale))
	})(l)
}

func metaLeakyReluBackward(c *Call) error {
	if c.Bool(3) && c.Args[2].AsFloat() < 0 {
		return Errorf("In-place leakyReLu backward calculation is triggered with a negative slope which is not supported. This is caused by calling in-place forward function with a negative slope, please call out-of-place version instead. File an issue at https://github.com/pytorch/pytorch if you do require supporting in-place leakRelu backward calculation with negative slope")
	}
	d, dims, err := c.gradientType(0, 1)
	if err != nil {
		return err
	}
	if err := require("leaky_relu_backward_cpu", d, floats); err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1), c.ScalarOf(&c.Args[2], d))
	return c.Out(d, dims)
}

func leakyReluBackward(e elementwise, in []hlo.Value) hlo.Value {
	return e.Select(e.isPositive(in[1]), in[0], e.mul(in[0], in[2]))
}

func metaPreluBackward(c *Call) error {
	d := c.Dtype(1)
	if err := require("prelu_backward_cpu", d, floats); err != nil {
		return err
	}
	dims, err := c.BroadcastDims(0, 1, 2)
	if err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1), c.Node(2))
	c.AttrInts(dims)
	n := c.Many()
	c.Return(c.Element(n, 0, d, dims))
	c.Return(c.Element(n, 1, d, dims))
	return nil
}

// lowerPreluBackward gives the gradients of the tensor and, unreduced, of the weight.
func lowerPreluBackward(l *ir.Lowering) []hlo.Value {
	e, dims, d := elementwise{l.B}, l.Ints(), l.In(1).Dtype()
	in := make([]hlo.Value, 3)
	for i := range in {
		in[i] = l.B.BroadcastTo(as(l.B, l.In(i), d.OpMath()), dims)
	}
	grad, x, weight := in[0], in[1], in[2]
	positive := e.isPositive(x)
	self := e.Select(positive, grad, e.mul(weight, grad))
	slope := e.Select(positive, e.zero(x), e.mul(x, grad))
	return []hlo.Value{as(l.B, self, d), as(l.B, slope, d)}
}

func metaLogSigmoidBackward(c *Call) error {
	d, dims, err := c.gradientType(0, 1)
	if err != nil {
		return err
	}
	if err := require("log_sigmoid_backward_cpu", d, floats); err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1))
	return c.Out(d, dims)
}

func logSigmoidBackward(e elementwise, grad, x hlo.Value) hlo.Value {
	return e.mul(grad, e.sigmoid(e.neg(x)))
}

func metaGluBackward(c *Call) error {
	d := c.Dtype(1)
	dim, err := c.halvedDim(1, 2)
	if err != nil {
		return err
	}
	if err := require("glu_backward_cpu", d, floats); err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1))
	c.Attr(int64(dim))
	return c.Out(d, c.Dims(1))
}

func lowerGluBackward(l *ir.Lowering) hlo.Value {
	e, compute, dim := elementwise{l.B}, l.Dtype.OpMath(), int(l.Int())
	grad := as(l.B, l.In(0), compute)
	a, b := e.halves(as(l.B, l.In(1), compute), dim)
	s := e.sigmoid(b)
	first := e.mul(grad, s)
	second := e.mul(e.mul(first, e.sub(e.one(s), s)), a)
	return as(l.B, l.B.Concatenate([]hlo.Value{first, second}, dim), l.Dtype)
}
