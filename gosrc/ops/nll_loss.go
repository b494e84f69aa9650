package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Negative log likelihood. A target that is no class makes the loss and its gradients NaN, and fails a check of the
// program.

// The numbers that torch uses for the reduction of a loss.
const (
	lossNone int64 = 0
	lossMean int64 = 1
	lossSum  int64 = 2
)

func init() {
	register(
		&Row{Name: "nll_loss_forward", Checks: true, Out: []string{"nll_loss_forward.output"}, Meta: metaNLLLoss, LowerMany: lowerNLLLoss},
		&Row{Name: "nll_loss2d_forward", Checks: true, Out: []string{"nll_loss2d_forward.output"}, Meta: metaNLLLoss2d, LowerMany: lowerNLLLoss},
		&Row{Name: "nll_loss_backward", Checks: true, Out: []string{"nll_loss_backward.grad_input"}, Meta: metaNLLLossBackward, Lower: lowerNLLLossBackward},
		&Row{Name: "nll_loss2d_backward", Checks: true, Out: []string{"nll_loss2d_backward.grad_input"}, Meta: metaNLLLoss2dBackward, Lower: lowerNLLLossBackward},
	)
}

// metaNLLLoss takes (self, target, weight, reduction, ignore_index).
func metaNLLLoss(c *Call) error {
	if err := c.checkNLL(0, 1, 2); err != nil {
		return err
	}
	if c.Rank(0) == 1 { // one sample has nothing to leave unreduced
		return c.declareNLL(nil)
	}
	return c.declareNLL(c.Dims(1))
}

func metaNLLLoss2d(c *Call) error {
	if err := c.checkNLL2d(0, 1, 2); err != nil {
		return err
	}
	return c.declareNLL(c.Dims(1))
}

func (c *Call) declareNLL(unreduced []int64) error {
	d, reduction := c.Dtype(0), c.Int(3, lossMean)
	c.Operand(c.Node(0), c.Node(1))
	if !c.IsNone(2) {
		c.Operand(c.Node(2))
	}
	c.Operand(c.IntNode(c.Int(4, -100)))
	if reduction != lossNone {
		unreduced = nil
	} else if len(unreduced) == 0 {
		reduction = lossSum
		if c.Rank(0) > 1 {
			reduction = lossNone
		}
	}
	c.Attr(reduction)
	c.AttrInts(unreduced)
	n := c.Many()
	c.Return(c.Element(n, 0, d, unreduced))
	c.Return(c.Element(n, 1, d, nil))
	return nil
}

func (c *Call) checkNLL(self, target, weight int) error {
	x, t := c.Dims(self), c.Dims(target)
	if len(t) > 1 {
		return Errorf("0D or 1D target tensor expected, multi-target not supported")
	}
	if len(x) != 1 && len(x) != 2 {
		return Errorf("input tensor should be 1D or 2D")
	}
	if len(x) == 1 && len(t) == 1 && t[0] != 1 {
		return status.Torchf(status.ValueError, "For 1D input, 1D target must have size 1, but got target size: %d", t[0])
	}
	if len(x) == 2 && (len(t) != 1 || t[0] != x[0]) {
		return Errorf("size mismatch (got input: %s, target: %s)", dimsText(x), dimsText(t))
	}
	classes := x[len(x)-1]
	if !c.IsNone(weight) {
		if w := c.Dims(weight); len(w) != 1 || w[0] != classes {
			return Errorf("weight tensor should be defined either for all %d classes or no classes but got weight tensor of shape: %s", classes, dimsText(w))
		}
	}
	return c.checkNLLDtypes("nll_loss_out_frame", self, target, weight)
}

func (c *Call) checkNLL2d(self, target, weight int) error {
	x, t := c.Dims(self), c.Dims(target)
	switch {
	case len(t) != 3:
		return Errorf("only batches of spatial targets supported (3D tensors) but got targets of dimension: %d", len(t))
	case len(x) != 4:
		return Errorf("only batches of spatial inputs supported (4D tensors), but got input of dimension: %d", len(x))
	case x[0] != t[0] || x[2] != t[1] || x[3] != t[2]:
		return Errorf("size mismatch (got input: %s , target: %s", dimsText(x), dimsText(t))
	case !c.IsNone(weight) && numElements(c.Dims(weight)) != x[1]:
		return Errorf("weight tensor should be defined either for all or no classes")
	}
	return c.checkNLLDtypes("nll_loss2d_forward_out_frame", self, target, weight)
}

func (c *Call) checkNLLDtypes(kernel string, self, target, weight int) error {
	d := c.Dtype(self)
	if t := c.Dtype(target); t != dtype.S64 && t != dtype.U8 {
		return Errorf("expected target dtype to be Long or Byte, but got %s", torchClass(t))
	}
	if err := floatOnly(kernel, d); err != nil {
		return err
	}
	if !c.IsNone(weight) && c.Dtype(weight) != d {
		return Errorf("expected scalar type %s but found %s", torchClass(d), torchClass(c.Dtype(weight)))
	}
	return nil
}

// target is what a loss does with each sample's class.
type nllTarget struct {
	class   hlo.Value // in [0, classes), the sample's class where it is valid
	valid   hlo.Value // it is one of the classes
	ignored hlo.Value // it is ignore_index, and counts for nothing
	weight  hlo.Value // its weight: 0 for an ignored one, NaN for an invalid one
}

// nllTargetOf looks at the targets t; weight may be invalid (no weights).
func nllTargetOf(b *hlo.Builder, t, ignore, weight hlo.Value, classes int64, d dtype.Dtype) nllTarget {
	dims := t.Dims()
	t = as(b, t, dtype.S64)
	var r nllTarget
	r.ignored = b.Compare("EQ", t, b.BroadcastTo(ignore, dims))
	zero := b.FullInt(dtype.S64, 0, dims...)
	r.valid = b.Binary(hlo.And, b.Compare("GE", t, zero), b.Compare("LT", t, b.FullInt(dtype.S64, classes, dims...)))
	r.class = as(b, b.Select(r.valid, t, zero), positionType(classes))
	w := b.Full(d, 1, dims...)
	if weight.Valid() && classes > 0 {
		w = takeSlices(b, as(b, weight, d), r.class, 0)
	}
	nan := b.Full(d, math.NaN(), dims...)
	r.weight = b.Select(r.ignored, b.Full(d, 0, dims...), b.Select(r.valid, w, nan))
	return r
}

// checkTarget checks the classes in an operand, of which the last operand says which to ignore.
func checkTarget(l *ir.Lowering, operand int, classes int64) {
	l.CheckRangeExcept(operand, l.Count()-1, 0, classes, targetOutOfBounds)
}

func lowerNLLLoss(l *ir.Lowering) []hlo.Value {
	b, reduction, dims := l.B, l.Int(), l.Ints()
	x, t := l.In(0), l.In(1)
	out := x.Dtype()
	compute := out.OpMath()
	if x.Rank() == 1 {
		x, t = b.Reshape(x, []int64{1, x.Dims()[0]}), b.Reshape(t, []int64{1})
	}
	var weight hlo.Value
	if l.Count() == 4 {
		weight = b.Reshape(l.In(2), []int64{numElements(l.In(2).Dims())})
	}
	classes := x.Dims()[1]
	checkTarget(l, 1, classes)
	target := nllTargetOf(b, t, l.In(l.Count()-1), weight, classes, compute)
	loss := b.Full(compute, 0, t.Dims()...)
	if classes > 0 {
		loss = b.Unary(hlo.Negate, as(b, pickClass(b, x, target.class), compute))
	}
	// An ignored sample counts 0 even where its value is infinite.
	loss = b.Select(target.ignored, target.weight, b.Binary(hlo.Multiply, loss, target.weight))
	if reduction == lossNone {
		return []hlo.Value{b.Reshape(as(b, loss, out), dims), b.Full(out, 0)}
	}
	all := allDims(t.Rank())
	total, sum := sumOver(b, target.weight, all), sumOver(b, loss, all)
	if reduction == lossMean {
		sum = b.Binary(hlo.Divide, sum, total)
	}
	return []hlo.Value{b.Reshape(as(b, sum, out), dims), as(b, total, out)}
}

// pickClass gives x[n, class[n, ...], ...].
func pickClass(b *hlo.Builder, x, class hlo.Value) hlo.Value {
	dims := class.Dims()
	column := replaceDim(x.Dims(), 1, 1)
	positions := elementPositions(b, b.Reshape(class, column), x.Dims(), 1, false)
	return b.Reshape(takeElements(b, x, positions), dims)
}

// metaNLLLossBackward takes (grad_output, self, target, weight, reduction, ignore_index, total_weight).
func metaNLLLossBackward(c *Call) error {
	if err := c.checkNLL(1, 2, 3); err != nil {
		return err
	}
	g := c.Dims(0)
	if c.Int(4, lossMean) == lossNone && c.Rank(1) == 2 {
		if len(g) == 0 {
			return status.Torchf(status.IndexError, "Dimension specified as 0 but tensor has no dimensions")
		}
		if len(g) != 1 || g[0] != c.Dims(1)[0] {
			return Errorf("Expected a tensor of dimension 1 and tensor.size[0] == %d but got: dimension %d and tensor.size[0] = %d", c.Dims(1)[0], len(g), g[0])
		}
	} else if len(g) > 1 || numElements(g) != 1 {
		return Errorf("Expected a single element grad_output tensor, but got: %s", dimsText(g))
	}
	return c.declareNLLBackward()
}

func metaNLLLoss2dBackward(c *Call) error {
	if err := c.checkNLL2d(1, 2, 3); err != nil {
		return err
	}
	return c.declareNLLBackward()
}

func (c *Call) declareNLLBackward() error {
	if total := c.Dims(6); numElements(total) != 1 {
		return Errorf("expected total_weight to be a  single element tensor, got: %s (%d elements)", dimsText(total), numElements(total))
	}
	c.Operand(c.Node(0), c.Node(1), c.Node(2), c.Node(6))
	if !c.IsNone(3) {
		c.Operand(c.Node(3))
	}
	c.Operand(c.IntNode(c.Int(5, -100)))
	c.Attr(c.Int(4, lossMean))
	return c.Out(c.Dtype(1), c.Dims(1))
}

func lowerNLLLossBackward(l *ir.Lowering) hlo.Value {
	b, reduction := l.B, l.Int()
	compute := l.Dtype.OpMath()
	dims, t := l.Dims, l.In(2)
	if len(dims) == 1 {
		dims, t = []int64{1, dims[0]}, b.Reshape(t, []int64{1})
	}
	var weight hlo.Value
	if l.Count() == 6 {
		weight = b.Reshape(l.In(4), []int64{numElements(l.In(4).Dims())})
	}
	if reduction != lossNone && !l.IsChecked(2, 0, dims[1]) { // the forward's classes to ignore are these
		checkTarget(l, 2, dims[1])
	}
	target := nllTargetOf(b, t, l.In(l.Count()-1), weight, dims[1], compute)
	grad := as(b, l.In(0), compute)
	if grad.Rank() != t.Rank() || numElements(grad.Dims()) == 1 {
		grad = b.Reshape(grad, nil)
	}
	if reduction == lossMean {
		grad = b.Binary(hlo.Divide, grad, as(b, b.Reshape(l.In(3), nil), compute))
	}
	grad = b.Unary(hlo.Negate, b.Binary(hlo.Multiply, b.BroadcastTo(grad, t.Dims()), target.weight))
	grad = b.Select(target.ignored, target.weight, grad)

	// Every class of a sample whose target is no class becomes NaN.
	others := keptDims(1<<1, len(dims))
	toClasses := func(v hlo.Value) hlo.Value { return b.Broadcast(v, dims, others) }
	here := b.Compare("EQ", toClasses(target.class), b.Iota(positionType(dims[1]), dims, 1))
	here = b.Binary(hlo.Or, here, toClasses(b.Unary(hlo.Not, target.valid)))
	r := b.Select(here, toClasses(grad), b.Full(compute, 0, dims...))
	return b.Reshape(as(b, r, l.Dtype), l.Dims)
}
