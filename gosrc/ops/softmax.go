package ops

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Softmax and its logarithm along one dimension, and their backwards.

func init() {
	register(
		&Row{Name: "_softmax", Out: []string{"_softmax.out"}, Meta: metaSoftmax("softmax"), Lower: lowerSoftmax},
		&Row{Name: "_log_softmax", Out: []string{"_log_softmax.out"}, Meta: metaSoftmax("log_softmax"), Lower: lowerLogSoftmax},
		&Row{Name: "_safe_softmax", Meta: metaSafeSoftmax, Lower: lowerSafeSoftmax},
		&Row{Name: "_softmax_backward_data", Out: []string{"_softmax_backward_data.out"}, Meta: metaSoftmaxBackward("softmax_backward"), Lower: lowerSoftmaxBackward},
		&Row{Name: "_log_softmax_backward_data", Out: []string{"_log_softmax_backward_data.out"}, Meta: metaSoftmaxBackward("log_softmax_backward"), Lower: lowerLogSoftmaxBackward},
	)
}

func metaSoftmax(kernel string) func(c *Call) error {
	return func(c *Call) error {
		mask, err := c.softmaxDim(kernel)
		if err != nil {
			return err
		}
		if c.Bool(2) {
			return Errorf("softmax with half to float conversion is not supported on CPU")
		}
		c.Operand(c.Node(0))
		c.Attr(int64(mask))
		return c.Out(c.Dtype(0), c.Dims(0))
	}
}

// softmaxDim gives the dimension of argument 1 as a mask and checks that argument 0 is a float.
func (c *Call) softmaxDim(kernel string) (uint64, error) {
	d := c.Dtype(0)
	mask, err := c.dimMask(1, c.Rank(0))
	if err == nil && !d.IsFloat() && numElements(c.Dims(0)) > 0 {
		suffix := "_kernel_impl"
		if rank := c.Rank(0); rank > 0 && mask == 1<<(rank-1) {
			suffix = "_lastdim_kernel_impl"
		}
		err = notImplemented(kernel+suffix, d)
	}
	return mask, err
}

// metaSafeSoftmax is softmax in which a row of -inf alone, as a mask makes it, gives zeros.
func metaSafeSoftmax(c *Call) error {
	d, err := c.DtypeArg(2, c.Dtype(0))
	if err != nil {
		return err
	}
	mask, err := c.dimMask(1, c.Rank(0))
	if err != nil {
		return err
	}
	if !d.IsFloat() && numElements(c.Dims(0)) > 0 {
		if _, err := c.softmaxDim("softmax"); err != nil {
			return err
		}
		return notImplemented("softmax_kernel_impl", d)
	}
	c.Operand(c.Node(0))
	c.Attr(int64(mask))
	return c.Out(d, c.Dims(0))
}

// lessLargest takes the largest value along mask out, so that exp cannot overflow.
func lessLargest(b *hlo.Builder, x hlo.Value, mask uint64) hlo.Value {
	return b.Binary(hlo.Subtract, x, spread(b, reduceMask(b, hlo.Maximum, x, mask), mask, x.Dims()))
}

func softmaxOver(b *hlo.Builder, x hlo.Value, mask uint64) hlo.Value {
	power := b.Unary(hlo.Exp, lessLargest(b, x, mask))
	return b.Binary(hlo.Divide, power, spread(b, sumOver(b, power, mask), mask, x.Dims()))
}

func lowerSoftmax(l *ir.Lowering) hlo.Value {
	x := as(l.B, l.In(0), l.Dtype.OpMath())
	if l.Dtype.IsIntegral() { // nothing in it, see softmaxDim
		return x
	}
	return as(l.B, softmaxOver(l.B, x, uint64(l.Int())), l.Dtype)
}

func lowerSafeSoftmax(l *ir.Lowering) hlo.Value {
	b, x, mask := l.B, as(l.B, as(l.B, l.In(0), l.Dtype), l.Dtype.OpMath()), uint64(l.Int())
	if l.Dtype.IsIntegral() {
		return x
	}
	largest := reduceMask(b, hlo.Maximum, x, mask)
	none := b.Compare("EQ", largest, b.BroadcastTo(b.MinValue(x.Dtype()), largest.Dims()))
	y := b.Select(spread(b, none, mask, x.Dims()), b.Full(x.Dtype(), 0, x.Dims()...), softmaxOver(b, x, mask))
	return as(b, y, l.Dtype)
}

func lowerLogSoftmax(l *ir.Lowering) hlo.Value {
	b, x, mask := l.B, as(l.B, l.In(0), l.Dtype.OpMath()), uint64(l.Int())
	if l.Dtype.IsIntegral() {
		return x
	}
	shifted := lessLargest(b, x, mask)
	sum := sumOver(b, b.Unary(hlo.Exp, shifted), mask)
	return as(b, b.Binary(hlo.Subtract, shifted, spread(b, b.Unary(hlo.Log, sum), mask, x.Dims())), l.Dtype)
}

// metaSoftmaxBackward takes (grad_output, output, dim, input_dtype).
func metaSoftmaxBackward(function string) func(c *Call) error {
	return func(c *Call) error {
		if !slices.Equal(c.Dims(0), c.Dims(1)) {
			return Errorf("Expected tensor for argument #1 'grad' to have same size as tensor for argument #2 'output'; but %s does not equal %s (while checking arguments for %s)",
				dimsText(c.Dims(0)), dimsText(c.Dims(1)), function)
		}
		d := c.Dtype(0)
		input, err := c.DtypeArg(3, d)
		if err != nil {
			return err
		}
		if input != d || c.Dtype(1) != d {
			other := input
			if other == d {
				other = c.Dtype(1)
			}
			return Errorf("expected scalar type %s but found %s", torchClass(d), torchClass(other))
		}
		mask, err := c.dimMask(2, c.Rank(0))
		if err != nil {
			return err
		}
		c.Operand(c.Node(0), c.Node(1))
		c.Attr(int64(mask))
		return c.Out(d, c.Dims(0))
	}
}

func lowerSoftmaxBackward(l *ir.Lowering) hlo.Value {
	b, compute := l.B, l.Dtype.OpMath()
	grad, output, mask := as(b, l.In(0), compute), as(b, l.In(1), compute), uint64(l.Int())
	product := b.Binary(hlo.Multiply, grad, output)
	sum := spread(b, sumOver(b, product, mask), mask, l.Dims)
	return as(b, b.Binary(hlo.Multiply, output, b.Binary(hlo.Subtract, grad, sum)), l.Dtype)
}

func lowerLogSoftmaxBackward(l *ir.Lowering) hlo.Value {
	b, compute := l.B, l.Dtype.OpMath()
	grad, output, mask := as(b, l.In(0), compute), as(b, l.In(1), compute), uint64(l.Int())
	sum := spread(b, sumOver(b, grad, mask), mask, l.Dims)
	return as(b, b.Binary(hlo.Subtract, grad, b.Binary(hlo.Multiply, b.Unary(hlo.Exp, output), sum)), l.Dtype)
}

// floatOnly is the error of a kernel that exists for real floats only.
func floatOnly(kernel string, d dtype.Dtype) error {
	if d.IsFloat() {
		return nil
	}
	return notImplemented(kernel, d)
}
