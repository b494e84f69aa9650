package ops

import (
	"fmt"
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Losses that keep a margin between a sample's classes and the others. As with the negative log
// likelihood, a target that is no class makes the sample's loss and gradient NaN, and fails a check.

func init() {
	register(
		&Row{Name: "multi_margin_loss", Checks: true, Out: []string{"multi_margin_loss.out"}, Meta: metaMultiMarginLoss, Lower: lowerMultiMarginLoss},
		&Row{Name: "multi_margin_loss_backward", Checks: true, Out: []string{"multi_margin_loss_backward.grad_input"}, Meta: metaMultiMarginLossBackward, Lower: lowerMultiMarginLossBackward},
		&Row{Name: "multilabel_margin_loss_forward", Checks: true, Out: []string{"multilabel_margin_loss_forward.output"}, Meta: metaMultilabelMarginLoss, LowerMany: lowerMultilabelMarginLoss},
		&Row{Name: "multilabel_margin_loss_backward", Checks: true, Out: []string{"multilabel_margin_loss_backward.grad_input"}, Meta: metaMultilabelMarginLossBackward, Lower: lowerMultilabelMarginLossBackward},
	)
}

// samplesAndClasses takes sizes of rank 0 or 1 as those of one sample.
func samplesAndClasses(dims []int64) []int64 {
	switch len(dims) {
	case 0:
		return []int64{1, 1}
	case 1:
		return []int64{1, dims[0]}
	}
	return dims
}

func checkMarginInput(dims []int64) error {
	if n := len(dims); n > 2 || n > 0 && dims[n-1] == 0 {
		return Errorf("Expected non-empty vector or matrix with optional 0-dim batch size, but got: %s", dimsText(dims))
	}
	return nil
}

func (c *Call) checkMarginDtypes(kernel string, self, target int) error {
	d := c.Dtype(self)
	if err := require(kernel, d, floats); err != nil {
		return err
	}
	if d.Size() < 4 {
		return notImplemented(kernel, d)
	}
	if t := c.Dtype(target); t != dtype.S64 {
		return Errorf("expected scalar type Long but found %s", torchClass(t))
	}
	return nil
}

// checkMultiMargin looks at (self, target, p, margin, weight), which start at argument first.
func (c *Call) checkMultiMargin(first int) error {
	x, t, d := c.Dims(first), c.Dims(first+1), c.Dtype(first)
	if err := checkMarginInput(x); err != nil {
		return err
	}
	if p := c.Float(first+2, 1); p != 1 && p != 2 {
		return Errorf("only p == 1 and p == 2 supported")
	}
	wide := samplesAndClasses(x)
	if len(t) > 1 || numElements(t) != wide[0] {
		return Errorf("multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected target size [%d], but got %s. Input has shape %s.", wide[0], dimsText(t), dimsText(x))
	}
	weighted := !c.IsNone(first + 4)
	if weighted {
		if w := c.Dims(first + 4); len(w) > 1 || numElements(w) != wide[1] {
			return Errorf("inconsistent weight size, expected %d but got %s", wide[1], dimsText(w))
		}
	}
	if err := c.checkMarginDtypes("multi_margin_loss_cpu_kernel", first, first+1); err != nil {
		return err
	}
	if weighted && c.Dtype(first+4) != d {
		return Errorf("expected scalar type %s but found %s", torchClass(d), torchClass(c.Dtype(first+4)))
	}
	return nil
}

// multiMarginOperands adds input, target, margin and weights; the exponent p is an attribute.
func (c *Call) multiMarginOperands(first int) {
	margin := c.FloatNode(c.Float(first+3, 1), c.Dtype(first))
	c.Operand(c.Node(first), c.Node(first+1), margin)
	if !c.IsNone(first + 4) {
		c.Operand(c.Node(first + 4))
	}
	c.AttrBool(c.Float(first+2, 1) == 2)
}

// metaMultiMarginLoss takes (self, target, p, margin, weight, reduction).
func metaMultiMarginLoss(c *Call) error {
	if err := c.checkMultiMargin(0); err != nil {
		return err
	}
	c.multiMarginOperands(0)
	return c.lossOut(c.Dtype(0), c.Dims(1), c.Int(5, lossMean))
}

// multiMargin is what the loss and its gradient have in common; its arrays are samples by classes.
type multiMargin struct {
	e        elementwise
	square   bool
	excess   hlo.Value // how far a class is above the sample's own less the margin; 0 for the own class
	own      hlo.Value // the class is the sample's own
	weight   hlo.Value // of each sample, over the number of classes
	dims     []int64
	sampleAt []int
}

// multiMarginOf reads operands from first on.
func multiMarginOf(l *ir.Lowering, first int, compute dtype.Dtype) multiMargin {
	b, e := l.B, elementwise{l.B}
	m := multiMargin{e: e, square: l.Bool(), dims: samplesAndClasses(l.In(first).Dims()), sampleAt: []int{0}}
	x := b.Reshape(as(b, l.In(first), compute), m.dims)
	var weight hlo.Value
	if l.Count() > first+3 {
		weight = b.Reshape(l.In(first+3), m.dims[1:])
	}
	// -1 is no class either: nothing is ignored.
	l.CheckRange(first+1, 0, m.dims[1], ir.Refusal{Exception: status.RuntimeError, Text: "target out of range"})
	target := nllTargetOf(b, b.Reshape(l.In(first+1), m.dims[:1]), b.ScalarInt(dtype.S64, math.MinInt64), weight, m.dims[1], compute)
	m.weight = e.scale(target.weight, 1/float64(m.dims[1]))
	m.own = e.equal(m.spread(target.class), b.Iota(target.class.Dtype(), m.dims, 1))
	own := sumOver(b, e.Select(m.own, x, e.zero(x)), 1<<1)
	margin := b.BroadcastTo(as(b, l.In(first+2), compute), m.dims)
	excess := e.max(e.add(e.sub(margin, m.spread(own)), x), e.zero(x))
	m.excess = e.Select(m.own, e.zero(x), excess)
	return m
}

// spread gives a value of each sample to all of its classes.
func (m multiMargin) spread(v hlo.Value) hlo.Value { return m.e.Broadcast(v, m.dims, m.sampleAt) }

func lowerMultiMarginLoss(l *ir.Lowering) hlo.Value {
	m := multiMarginOf(l, 0, l.Dtype.OpMath())
	reduction, dims := l.Int(), l.Ints()
	loss := m.excess
	if m.square {
		loss = m.e.mul(loss, loss)
	}
	loss = m.e.mul(sumOver(l.B, loss, 1<<1), m.weight)
	if reduction == lossNone {
		return as(l.B, l.B.Reshape(loss, dims), l.Dtype)
	}
	return reduceLoss(l, loss, marginReduction(reduction, m.dims[0]))
}

// marginReduction is reduction, where the mean over no sample is 0.
func marginReduction(reduction, samples int64) int64 {
	if samples == 0 {
		return lossSum
	}
	return reduction
}

// metaMultiMarginLossBackward takes (grad_output, self, target, p, margin, weight, reduction).
func metaMultiMarginLossBackward(c *Call) error {
	if err := c.checkMultiMargin(1); err != nil {
		return err
	}
	c.Operand(c.Node(0))
	c.multiMarginOperands(1)
	c.Attr(c.Int(6, lossMean))
	return c.Out(c.Dtype(1), c.Dims(1))
}

func lowerMultiMarginLossBackward(l *ir.Lowering) hlo.Value {
	compute := l.Dtype.OpMath()
	m := multiMarginOf(l, 1, compute)
	e, reduction := m.e, l.Int()
	slope := as(l.B, e.isPositive(m.excess), compute)
	if m.square {
		slope = e.scale(m.excess, 2)
	}
	slope = e.Select(m.own, m.spread(e.neg(sumOver(l.B, slope, 1<<1))), slope)
	grad := marginGradient(l, reduction, m.dims[0], compute)
	slope = e.mul(slope, m.spread(e.mul(m.weight, grad)))
	return l.B.Reshape(as(l.B, slope, l.Dtype), l.Dims)
}

// marginGradient gives operand 0, the gradient of a reduced loss, to each of the samples.
func marginGradient(l *ir.Lowering, reduction, samples int64, compute dtype.Dtype) hlo.Value {
	grad := as(l.B, l.In(0), compute)
	if numElements(grad.Dims()) == 1 {
		grad = l.B.Reshape(grad, nil)
	}
	grad = l.B.BroadcastTo(grad, []int64{samples})
	if reduction == lossMean && samples > 0 {
		grad = elementwise{l.B}.scale(grad, 1/float64(samples))
	}
	return grad
}

// checkMultilabelMargin looks at (self, target), which start at argument first.
func (c *Call) checkMultilabelMargin(kernel string, first int) error {
	x, t := c.Dims(first), c.Dims(first+1)
	if err := checkMarginInput(x); err != nil {
		return err
	}
	fits := len(t) == len(x) || len(x) < 2 && len(t) < 2 && numElements(t) == numElements(x)
	for i := range t {
		fits = fits && (len(t) != len(x) || t[i] == x[i])
	}
	if !fits {
		return Errorf("inconsistent target size: %s for input of size: %s", dimsText(t), dimsText(x))
	}
	return c.checkMarginDtypes(kernel, first, first+1)
}

// metaMultilabelMarginLoss takes (self, target, reduction).
func metaMultilabelMarginLoss(c *Call) error {
	if err := c.checkMultilabelMargin("multilabel_margin_loss_forward_out_frame", 0); err != nil {
		return err
	}
	d, x, reduction := c.Dtype(0), c.Dims(0), c.Int(2, lossMean)
	c.Operand(c.Node(0), c.Node(1))
	c.Attr(reduction)
	var dims []int64
	if reduction == lossNone && len(x) == 2 {
		dims = x[:1]
	}
	c.AttrInts(dims)
	n := c.Many()
	c.Return(c.Element(n, 0, d, dims))
	c.Return(c.Element(n, 1, d, c.Dims(1)))
	return nil
}

// labels are the classes that a sample's list of labels names: samples by labels by classes. The list
// ends at the first negative label.
type labels struct {
	dims  []int64
	named hlo.Value // the label is this class
	valid hlo.Value // samples by labels: the label is within the list
	wrong hlo.Value // samples: the list has a label that is no class
}

// checkLabels checks the labels of an operand, which torch numbers from 1, those behind the end of a list as well.
func checkLabels(l *ir.Lowering, operand int, classes int64) {
	text := fmt.Sprintf("argument #%d 'target' is out of range", operand+1)
	l.CheckRange(operand, -1, classes, ir.Refusal{Exception: status.RuntimeError, Text: text})
}

func labelsOf(b *hlo.Builder, t hlo.Value, classes int64) labels {
	e, samples := elementwise{b}, t.Dims()[0]
	r := labels{dims: []int64{samples, classes, classes}}
	places := b.Iota(dtype.S64, t.Dims(), 1)
	end := e.Select(e.isNegative(t), places, e.number(t, float64(classes)))
	first := reduceMask(b, hlo.Minimum, end, 1<<1)
	r.valid = e.less(places, b.Broadcast(first, t.Dims(), []int{0}))
	outside := e.and(r.valid, e.atLeast(t, e.number(t, float64(classes))))
	r.wrong = b.ReduceOp(hlo.Or, outside, b.Scalar(dtype.Bool, 0), []int{1})
	r.named = e.equal(b.Broadcast(t, r.dims, []int{0, 1}), b.Iota(dtype.S64, r.dims, 2))
	r.named = e.and(r.named, b.Broadcast(r.valid, r.dims, []int{0, 1}))
	return r
}

// excess is how far a class that no label names is above a label's class less 1, of r's dims.
func (r labels) excess(b *hlo.Builder, x, isTarget hlo.Value) hlo.Value {
	e := elementwise{b}
	wide := b.Broadcast(x, r.dims, []int{0, 2})
	own := sumOver(b, e.Select(r.named, wide, e.zero(wide)), 1<<2)
	gap := e.add(e.sub(e.one(wide), b.Broadcast(own, r.dims, []int{0, 1})), wide)
	counts := e.and(b.Broadcast(r.valid, r.dims, []int{0, 1}), e.not(b.Broadcast(isTarget, r.dims, []int{0, 2})))
	return e.Select(counts, e.max(gap, e.zero(gap)), e.zero(gap))
}

func lowerMultilabelMarginLoss(l *ir.Lowering) []hlo.Value {
	b, e, reduction, dims := l.B, elementwise{l.B}, l.Int(), l.Ints()
	out := l.In(0).Dtype()
	wide := samplesAndClasses(l.In(0).Dims())
	x := b.Reshape(as(b, l.In(0), out.OpMath()), wide)
	checkLabels(l, 1, wide[1])
	r := labelsOf(b, b.Reshape(l.In(1), wide), wide[1])
	isTarget := b.ReduceOp(hlo.Or, r.named, b.Scalar(dtype.Bool, 0), []int{1})
	loss := sumOver(b, r.excess(b, x, isTarget), 1<<1|1<<2)
	loss = e.scale(loss, 1/float64(wide[1]))
	loss = e.Select(r.wrong, e.nan(loss), loss)
	switch marginReduction(reduction, wide[0]) {
	case lossMean:
		loss = meanOver(b, loss, 1)
	case lossSum:
		loss = sumOver(b, loss, 1)
	}
	return []hlo.Value{b.Reshape(as(b, loss, out), dims), b.Reshape(as(b, isTarget, out), l.In(1).Dims())}
}

// metaMultilabelMarginLossBackward takes (grad_output, self, target, reduction, is_target).
func metaMultilabelMarginLossBackward(c *Call) error {
	if err := c.checkMultilabelMargin("multilabel_margin_loss_backward_out_frame", 1); err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1), c.Node(2), c.Node(4))
	c.Attr(c.Int(3, lossMean))
	return c.Out(c.Dtype(1), c.Dims(1))
}

func lowerMultilabelMarginLossBackward(l *ir.Lowering) hlo.Value {
	b, e, reduction := l.B, elementwise{l.B}, l.Int()
	compute, wide := l.Dtype.OpMath(), samplesAndClasses(l.Dims)
	x := b.Reshape(as(b, l.In(1), compute), wide)
	checkLabels(l, 2, wide[1])
	r := labelsOf(b, b.Reshape(l.In(2), wide), wide[1])
	isTarget := as(b, b.Reshape(l.In(3), wide), dtype.Bool)
	open := as(b, e.isPositive(r.excess(b, x, isTarget)), compute)
	ofLabel := b.Broadcast(sumOver(b, open, 1<<2), r.dims, []int{0, 1})
	slope := e.sub(open, e.Select(r.named, ofLabel, e.zero(ofLabel)))
	slope = e.scale(sumOver(b, slope, 1<<1), 1/float64(wide[1]))
	slope = e.Select(b.Broadcast(r.wrong, wide, []int{0}), e.nan(slope), slope)
	grad := marginGradient(l, reduction, wide[0], compute)
	slope = e.mul(slope, b.Broadcast(grad, wide, []int{0}))
	return b.Reshape(as(b, slope, l.Dtype), l.Dims)
}
