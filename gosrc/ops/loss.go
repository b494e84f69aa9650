package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Losses that compare two tensors element by element, then reduce, and their gradients.

func init() {
	register(
		&Row{Name: "mse_loss", Out: []string{"mse_loss.out"}, Meta: metaLoss("mse_cpu", nil), Lower: lowerLoss(mseLoss)},
		&Row{Name: "smooth_l1_loss", Out: []string{"smooth_l1_loss.out"}, Meta: metaLoss("smooth_l1_cpu", checkBeta), Lower: lowerLoss(smoothL1Loss)},
		&Row{Name: "huber_loss", Out: []string{"huber_loss.out"}, Meta: metaLoss("huber_cpu", checkDelta), Lower: lowerLoss(huberLoss)},
		&Row{Name: "mse_loss_backward", Out: []string{"mse_loss_backward.grad_input"}, Meta: metaLossBackward, Lower: lowerLossBackward(mseSlope)},
		&Row{Name: "smooth_l1_loss_backward", Out: []string{"smooth_l1_loss_backward.grad_input"}, Meta: metaLossBackward, Lower: lowerLossBackward(smoothL1Slope)},
		&Row{Name: "huber_loss_backward", Out: []string{"huber_loss_backward.out"}, Meta: metaLossBackward, Lower: lowerLossBackward(huberSlope)},
		&Row{Name: "binary_cross_entropy", Out: []string{"binary_cross_entropy.out"}, Meta: metaBinaryCrossEntropy, Lower: lowerBinaryCrossEntropy},
		&Row{Name: "binary_cross_entropy_backward", Out: []string{"binary_cross_entropy_backward.grad_input"}, Meta: metaBinaryCrossEntropyBackward, Lower: lowerBinaryCrossEntropyBackward},
		&Row{Name: "binary_cross_entropy_with_logits", Out: []string{"binary_cross_entropy_with_logits.out"}, Meta: metaLogitsLoss, Lower: lowerLogitsLoss},
	)
}

// lossOf gives a loss, or its slope, of the difference x between input and target. limit is the
// loss's parameter (beta, delta), of x's shape; mse_loss has none.
type lossOf func(b *hlo.Builder, x, limit hlo.Value) hlo.Value

func mseLoss(b *hlo.Builder, x, _ hlo.Value) hlo.Value { return squareOf(b, x) }

func mseSlope(b *hlo.Builder, x, _ hlo.Value) hlo.Value { return b.Binary(hlo.Add, x, x) }

func smoothL1Loss(b *hlo.Builder, x, beta hlo.Value) hlo.Value {
	half := b.Full(x.Dtype(), 0.5, x.Dims()...)
	size := b.Unary(hlo.Abs, x)
	near := b.Binary(hlo.Divide, b.Binary(hlo.Multiply, half, squareOf(b, size)), beta)
	far := b.Binary(hlo.Subtract, size, b.Binary(hlo.Multiply, half, beta))
	return b.Select(b.Compare("LT", size, beta), near, far)
}

func smoothL1Slope(b *hlo.Builder, x, beta hlo.Value) hlo.Value {
	one := b.Full(x.Dtype(), 1, x.Dims()...)
	return outside(b, x, beta, one, b.Binary(hlo.Divide, x, beta))
}

func huberLoss(b *hlo.Builder, x, delta hlo.Value) hlo.Value {
	half := b.Full(x.Dtype(), 0.5, x.Dims()...)
	size := b.Unary(hlo.Abs, x)
	near := b.Binary(hlo.Multiply, half, squareOf(b, size))
	far := b.Binary(hlo.Multiply, delta, b.Binary(hlo.Subtract, size, b.Binary(hlo.Multiply, half, delta)))
	return b.Select(b.Compare("LE", size, delta), near, far)
}

func huberSlope(b *hlo.Builder, x, delta hlo.Value) hlo.Value { return outside(b, x, delta, delta, x) }

// outside is -far where x is -limit or less, far where it is limit or more, and near between.
func outside(b *hlo.Builder, x, limit, far, near hlo.Value) hlo.Value {
	low := b.Compare("LE", x, b.Unary(hlo.Negate, limit))
	return b.Select(low, b.Unary(hlo.Negate, far), b.Select(b.Compare("GE", x, limit), far, near))
}

func checkBeta(beta float64) error {
	if beta < 0 {
		return Errorf("smooth_l1_loss does not support negative values for beta.")
	}
	return nil
}

func checkDelta(delta float64) error {
	if delta <= 0 {
		return Errorf("huber_loss does not support non-positive values for delta.")
	}
	return nil
}

// metaLoss takes (self, target, reduction), and a parameter that check looks at where it is not nil.
func metaLoss(kernel string, check func(v float64) error) func(c *Call) error {
	return func(c *Call) error {
		if check != nil {
			if err := check(c.Float(3, 1)); err != nil {
				return err
			}
		}
		d, err := c.ResultType(0, 1)
		if err != nil {
			return err
		}
		dims, err := c.BroadcastDims(0, 1)
		if err != nil {
			return err
		}
		if err := floatOnly(kernel, d); err != nil {
			return err
		}
		if self := c.Dtype(0); kernel == "huber_cpu" && self != d && self.IsFloat() {
			d = self // torch rounds this loss to its input's type
		}
		c.Operand(c.Value(0, d), c.Value(1, d))
		if check != nil {
			c.Operand(c.FloatNode(c.Float(3, 1), d))
		}
		return c.lossOut(d, dims, c.Int(2, lossMean))
	}
}

// lossOut declares a loss whose elements have the sizes dims.
func (c *Call) lossOut(d dtype.Dtype, dims []int64, reduction int64) error {
	c.Attr(reduction)
	c.AttrInts(dims)
	if reduction != lossNone {
		dims = nil
	}
	return c.Out(d, dims)
}

// reduceLoss reduces the losses of all elements and rounds to the node's type.
func reduceLoss(l *ir.Lowering, x hlo.Value, reduction int64) hlo.Value {
	switch all := allDims(x.Rank()); reduction {
	case lossMean:
		x = meanOver(l.B, x, all)
	case lossSum:
		x = sumOver(l.B, x, all)
	}
	return as(l.B, x, l.Dtype)
}

// expand gives operand i converted to d and broadcast to dims.
func expand(l *ir.Lowering, i int, d dtype.Dtype, dims []int64) hlo.Value {
	return l.B.BroadcastTo(as(l.B, l.In(i), d), dims)
}

func lowerLoss(loss lossOf) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		compute, reduction, dims := l.Dtype.OpMath(), l.Int(), l.Ints()
		x := l.B.Binary(hlo.Subtract, expand(l, 0, compute, dims), expand(l, 1, compute, dims))
		var limit hlo.Value
		if l.Count() == 3 {
			limit = expand(l, 2, compute, dims)
		}
		return reduceLoss(l, loss(l.B, x, limit), reduction)
	}
}

// metaLossBackward takes (grad_output, self, target, reduction), and the loss's parameter.
func metaLossBackward(c *Call) error {
	d, err := c.ResultType(0, 1, 2)
	if err != nil {
		return err
	}
	dims, err := c.BroadcastDims(0, 1, 2)
	if err != nil {
		return err
	}
	if err := floatOnly(c.row.Name, d); err != nil {
		return err
	}
	c.Operand(c.Value(0, d), c.Value(1, d), c.Value(2, d))
	if !c.IsNone(4) {
		c.Operand(c.FloatNode(c.Float(4, 1), d))
	}
	c.lossCount(3, 1)
	return c.Out(d, dims)
}

// lossCount adds the number by which a mean's gradient is divided, 1 for other reductions.
func (c *Call) lossCount(reduction, self int) {
	n := int64(1)
	if c.Int(reduction, lossMean) == lossMean {
		n = numElements(c.Dims(self))
	}
	c.Attr(n)
}

// gradOf gives operand 0, the gradient of the loss, over the number that lossCount added.
func gradOf(l *ir.Lowering, d dtype.Dtype) hlo.Value {
	grad := as(l.B, l.In(0), d)
	if n := l.Int(); n != 1 {
		grad = dividedBy(l.B, grad, float64(n))
	}
	return l.B.BroadcastTo(grad, l.Dims)
}

func lowerLossBackward(slope lossOf) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		b, compute := l.B, l.Dtype.OpMath()
		x := b.Binary(hlo.Subtract, operand(l, 1, compute), operand(l, 2, compute))
		var limit hlo.Value
		if l.Count() == 4 {
			limit = operand(l, 3, compute)
		}
		return as(b, b.Binary(hlo.Multiply, slope(b, x, limit), gradOf(l, compute)), l.Dtype)
	}
}

// metaBinaryCrossEntropy takes (self, target, weight, reduction). An input or a target outside
// [0, 1], which the CPU kernel refuses when it reads it, gives NaN.
func metaBinaryCrossEntropy(c *Call) error {
	d := c.Dtype(0)
	if t := c.Dtype(1); t != d {
		return Errorf("Found dtype %s but expected %s", torchClass(t), torchClass(d))
	}
	if err := floatOnly("binary_cross_entropy", d); err != nil {
		return err
	}
	dims, err := c.BroadcastDims(0, 1, 2)
	if err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1))
	if !c.IsNone(2) {
		c.Operand(c.Node(2))
	}
	return c.lossOut(d, dims, c.Int(3, lossMean))
}

func lowerBinaryCrossEntropy(l *ir.Lowering) hlo.Value {
	b, compute, reduction, dims := l.B, l.Dtype.OpMath(), l.Int(), l.Ints()
	x, t := expand(l, 0, compute, dims), expand(l, 1, compute, dims)
	// A logarithm is cut at -100, so that neither loss nor gradient is infinite.
	least := b.Full(compute, -100, dims...)
	hit := b.Binary(hlo.Maximum, b.Unary(hlo.Log, x), least)
	miss := b.Binary(hlo.Maximum, b.Unary(hlo.Log1p, b.Unary(hlo.Negate, x)), least)
	rest := b.Binary(hlo.Subtract, t, b.Full(compute, 1, dims...))
	loss := b.Binary(hlo.Subtract, b.Binary(hlo.Multiply, rest, miss), b.Binary(hlo.Multiply, t, hit))
	// The logarithms see to the input.
	possible := b.Compare("EQ", t, b.Clamp(b.Scalar(compute, 0), t, b.Scalar(compute, 1)))
	loss = b.Select(possible, loss, b.Full(compute, math.NaN(), dims...))
	if l.Count() == 3 {
		loss = b.Binary(hlo.Multiply, loss, expand(l, 2, compute, dims))
	}
	return reduceLoss(l, loss, reduction)
}

// metaBinaryCrossEntropyBackward takes (grad_output, self, target, weight, reduction).
func metaBinaryCrossEntropyBackward(c *Call) error {
	d := c.Dtype(1)
	if err := floatOnly("binary_cross_entropy_backward", d); err != nil {
		return err
	}
	dims, err := c.BroadcastDims(0, 1, 2, 3)
	if err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1), c.Node(2))
	if !c.IsNone(3) {
		c.Operand(c.Node(3))
	}
	c.lossCount(4, 1)
	return c.Out(d, dims)
}

func lowerBinaryCrossEntropyBackward(l *ir.Lowering) hlo.Value {
	b, compute := l.B, l.Dtype.OpMath()
	x, t := operand(l, 1, compute), operand(l, 2, compute)
	one := b.Full(compute, 1, l.Dims...)
	spread := b.Binary(hlo.Maximum, b.Binary(hlo.Multiply, b.Binary(hlo.Subtract, one, x), x), b.Full(compute, 1e-12, l.Dims...))
	r := b.Binary(hlo.Divide, b.Binary(hlo.Multiply, gradOf(l, compute), b.Binary(hlo.Subtract, x, t)), spread)
	if l.Count() == 4 {
		r = b.Binary(hlo.Multiply, r, operand(l, 3, compute))
	}
	return as(b, r, l.Dtype)
}

// metaLogitsLoss takes (self, target, weight, pos_weight, reduction).
func metaLogitsLoss(c *Call) error {
	d, err := c.ResultType(0, 1, 2, 3)
	if err != nil {
		return err
	}
	if err := floatOnly("log_sigmoid_cpu", c.Dtype(0)); err != nil {
		return err
	}
	dims, err := c.BroadcastDims(0, 1, 2, 3)
	if err != nil {
		return err
	}
	c.Operand(c.Value(0, d), c.Value(1, d))
	for i := 2; i <= 3; i++ {
		if !c.IsNone(i) {
			c.Operand(c.Value(i, d))
		}
	}
	c.AttrBool(!c.IsNone(2))
	c.AttrBool(!c.IsNone(3))
	return c.lossOut(d, dims, c.Int(4, lossMean))
}

func lowerLogitsLoss(l *ir.Lowering) hlo.Value {
	b, compute := l.B, l.Dtype.OpMath()
	weighted, positive := l.Bool(), l.Bool()
	reduction, dims := l.Int(), l.Ints()
	x, t := expand(l, 0, compute, dims), expand(l, 1, compute, dims)
	zero, one := b.Full(compute, 0, dims...), b.Full(compute, 1, dims...)
	// -log(sigmoid(x)), without a large exp.
	small := b.Unary(hlo.Log1p, b.Unary(hlo.Exp, b.Unary(hlo.Negate, b.Unary(hlo.Abs, x))))
	cost := b.Binary(hlo.Subtract, small, b.Binary(hlo.Minimum, x, zero))
	next := 2
	var weight hlo.Value
	if weighted {
		weight = expand(l, next, compute, dims)
		next++
	}
	if positive {
		more := b.Binary(hlo.Subtract, expand(l, next, compute, dims), one)
		cost = b.Binary(hlo.Multiply, cost, b.Binary(hlo.Add, b.Binary(hlo.Multiply, more, t), one))
	}
	loss := b.Binary(hlo.Add, b.Binary(hlo.Multiply, b.Binary(hlo.Subtract, one, t), x), cost)
	if weighted {
		loss = b.Binary(hlo.Multiply, loss, weight)
	}
	return reduceLoss(l, loss, reduction)
}
