package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Batch normalisation: statistics of each channel (dimension 1) over all others.

// batchNormForm says where a row finds its arguments after (input, weight, bias), and what it does.
type batchNormForm struct {
	mean, variance int // running statistics; -1 where the schema has none
	training       int // a bool argument, or alwaysTraining, neverTraining
	momentum, eps  int
	reserve        bool // a fourth result: an empty byte tensor
}

const (
	alwaysTraining = -1
	neverTraining  = -2
)

func init() {
	full := batchNormForm{mean: 3, variance: 4, training: 5, momentum: 6, eps: 7}
	register(
		&Row{Name: "native_batch_norm", Out: []string{"native_batch_norm.out"}, Meta: full.meta, LowerMany: lowerBatchNorm},
		&Row{Name: "_native_batch_norm_legit", Out: []string{"_native_batch_norm_legit.out"}, Meta: full.meta, LowerMany: lowerBatchNorm},
		&Row{Name: "_native_batch_norm_legit.no_stats", Out: []string{"_native_batch_norm_legit.no_stats_out"},
			Meta: batchNormForm{mean: -1, variance: -1, training: 3, momentum: 4, eps: 5}.meta, LowerMany: lowerBatchNorm},
		&Row{Name: "_native_batch_norm_legit_no_training", Out: []string{"_native_batch_norm_legit_no_training.out"},
			Meta: batchNormForm{mean: 3, variance: 4, training: neverTraining, momentum: 5, eps: 6}.meta, LowerMany: lowerBatchNorm},
		&Row{Name: "_batch_norm_with_update", Out: []string{"_batch_norm_with_update.out"},
			Meta: batchNormForm{mean: 3, variance: 4, training: alwaysTraining, momentum: 5, eps: 6, reserve: true}.meta, LowerMany: lowerBatchNorm},
		&Row{Name: "_batch_norm_no_update", Out: []string{"_batch_norm_no_update.out"},
			Meta: batchNormForm{mean: 3, variance: 4, training: neverTraining, momentum: 5, eps: 6, reserve: true}.meta, LowerMany: lowerBatchNorm},
		&Row{Name: "native_batch_norm_backward", Out: []string{"native_batch_norm_backward.out"}, Meta: metaBatchNormBackward, LowerMany: lowerBatchNormBackward},
		&Row{Name: "batch_norm_backward", Meta: metaBatchNormBackward, LowerMany: lowerBatchNormBackward},
	)
}

// normDtype gives the type of a normalisation's saved statistics and parameters: that of input,
// or f32 for a 16-bit input with f32 parameters. Arguments that are None do not count.
func (c *Call) normDtype(kernel string, parameters ...int) (dtype.Dtype, error) {
	d := c.Dtype(0)
	if err := floatOnly(kernel, d); err != nil {
		return d, err
	}
	stat := d
	for _, i := range parameters {
		if i < 0 || c.IsNone(i) || c.Dtype(i) == d {
			continue
		}
		if c.Dtype(i) != dtype.F32 {
			return d, Errorf("mixed dtype (CPU): expect parameter to have scalar type of Float")
		}
		if d.Size() != 2 {
			return d, Errorf("mixed dtype (CPU): expect input to have scalar type of BFloat16")
		}
		stat = dtype.F32
	}
	return stat, nil
}

// optional adds the operands that are there, and for each of them whether it is.
func (c *Call) optional(arguments ...int) {
	for _, i := range arguments {
		present := i >= 0 && !c.IsNone(i)
		c.AttrBool(present)
		if present {
			c.Operand(c.Node(i))
		}
	}
}

// operandReader reads the operands of a node in order, with those that may be missing.
type operandReader struct {
	l    *ir.Lowering
	next int
}

func (r *operandReader) read(d dtype.Dtype) hlo.Value {
	r.next++
	return as(r.l.B, r.l.In(r.next-1), d)
}

// optional gives an invalid value for an operand that is missing.
func (r *operandReader) optional(d dtype.Dtype) hlo.Value {
	if !r.l.Bool() {
		return hlo.Value{}
	}
	return r.read(d)
}

func (f batchNormForm) meta(c *Call) error {
	d, dims := c.Dtype(0), c.Dims(0)
	training := f.training == alwaysTraining || f.training >= 0 && c.Bool(f.training)
	running := f.mean >= 0 && !c.IsNone(f.mean)
	if len(dims) < 2 {
		_, err := c.Dim(1, len(dims))
		return err
	}
	if !training && !running {
		return status.Torchf(status.ValueError, "running_mean must be defined in evaluation mode")
	}
	if training && numElements(dims) == 0 {
		return Errorf("input tensor must have at least one element, but got input_sizes = %s", dimsText(dims))
	}
	stat, err := c.normDtype("batch_norm", 1, 2, f.mean, f.variance)
	if err != nil {
		return err
	}
	channels := dims[1:2]
	for _, i := range [...]int{1, 2, f.mean, f.variance} {
		if i >= 0 && !c.IsNone(i) && numElements(c.Dims(i)) != channels[0] {
			return Errorf("%s(): expected argument %d to have %d elements, one for each channel, got %s", c.row.Name, i, channels[0], dimsText(c.Dims(i)))
		}
	}
	c.AttrBool(training)
	c.AttrFloat(c.Float(f.eps, 1e-5))
	c.Attr(int64(stat))
	c.Operand(c.Node(0))
	c.optional(1, 2, f.mean, f.variance)
	update := training && running
	if update {
		c.Operand(c.FloatNode(c.Float(f.momentum, 0.1), stat))
	}
	n := c.Many()
	c.Return(c.Element(n, 0, d, dims))
	if !training {
		channels = []int64{0}
	}
	c.Return(c.Element(n, 1, stat, channels))
	c.Return(c.Element(n, 2, stat, channels))
	if f.reserve {
		c.Return(c.Element(n, 5, dtype.U8, []int64{0}))
	}
	if !update {
		return nil
	}
	if err := c.Write(f.mean, c.Element(n, 3, c.Dtype(f.mean), c.Dims(f.mean))); err != nil {
		return err
	}
	return c.Write(f.variance, c.Element(n, 4, c.Dtype(f.variance), c.Dims(f.variance)))
}

// inverseDeviation gives 1/sqrt(variance + eps).
func inverseDeviation(b *hlo.Builder, variance hlo.Value, eps ir.Number) hlo.Value {
	return b.Unary(hlo.Rsqrt, b.Binary(hlo.Add, variance, b.Broadcast(eps.FloatIn(b, variance.Dtype()), variance.Dims(), nil)))
}

// channelMask gives all dimensions but 1.
func channelMask(rank int) uint64 { return allDims(rank) &^ (1 << 1) }

// planes gives x with all dimensions after the channels as one: the compiler then has one long
// inner loop, where it would leave the last dimension alone to be a short one.
func planes(b *hlo.Builder, x hlo.Value) hlo.Value {
	dims := x.Dims()
	if len(dims) <= 3 {
		return x
	}
	return b.Reshape(x, []int64{dims[0], dims[1], numElements(dims[2:])})
}

// timesOptional multiplies, where y may be missing.
func timesOptional(b *hlo.Builder, x, y hlo.Value) hlo.Value {
	if !y.Valid() {
		return x
	}
	return b.Binary(hlo.Multiply, x, y)
}

func lowerBatchNorm(l *ir.Lowering) []hlo.Value {
	b := l.B
	training, eps, stat := l.Bool(), l.Number(), dtype.Dtype(l.Int())
	d := l.In(0).Dtype()
	compute := d.OpMath()
	in := operandReader{l: l}
	x := planes(b, in.read(compute))
	weight, bias := in.optional(compute), in.optional(compute)
	runningMean, runningVar := in.optional(compute), in.optional(compute)
	mask := channelMask(x.Rank())
	values := make([]hlo.Value, 6)
	values[5] = b.Full(dtype.U8, 0, 0)

	var mean, deviation, inverse hlo.Value
	if training {
		var variance hlo.Value
		mean, deviation, variance = moments(b, x, mask)
		inverse = inverseDeviation(b, variance, eps)
		values[1], values[2] = as(b, mean, stat), as(b, inverse, stat)
		if runningMean.Valid() {
			momentum := in.read(compute)
			values[3] = as(b, moveTo(b, runningMean, mean, momentum), l.In(in.next-3).Dtype())
			// The running variance is that of the population: n-1 instead of n.
			n := float64(reduceCount(x.Dims(), mask))
			unbiased := b.Binary(hlo.Multiply, variance, b.Full(compute, n/(n-1), variance.Dims()...))
			values[4] = as(b, moveTo(b, runningVar, unbiased, momentum), l.In(in.next-2).Dtype())
		}
	} else {
		mean = b.Reshape(runningMean, []int64{x.Dims()[1]})
		inverse = inverseDeviation(b, b.Reshape(runningVar, []int64{x.Dims()[1]}), eps)
		deviation = b.Binary(hlo.Subtract, x, spread(b, mean, mask, x.Dims()))
		values[1], values[2] = b.Full(stat, 0, 0), b.Full(stat, 0, 0)
	}
	y := b.Binary(hlo.Multiply, deviation, spread(b, timesOptional(b, inverse, weight), mask, x.Dims()))
	if bias.Valid() {
		y = b.Binary(hlo.Add, y, spread(b, bias, mask, x.Dims()))
	}
	values[0] = b.Reshape(as(b, y, d), l.In(0).Dims())
	return values
}

// moveTo gives old*(1-momentum) + new*momentum.
func moveTo(b *hlo.Builder, old, target, momentum hlo.Value) hlo.Value {
	dims := old.Dims()
	rest := b.Binary(hlo.Subtract, b.Scalar(momentum.Dtype(), 1), momentum)
	return b.Binary(hlo.Add,
		b.Binary(hlo.Multiply, old, b.BroadcastTo(rest, dims)),
		b.Binary(hlo.Multiply, b.Reshape(target, dims), b.BroadcastTo(momentum, dims)))
}

// metaBatchNormBackward takes (grad_out, input, weight, running_mean, running_var, save_mean,
// save_invstd, train, eps, output_mask).
func metaBatchNormBackward(c *Call) error {
	d, dims := c.Dtype(1), c.Dims(1)
	training := c.Bool(7)
	if len(dims) < 2 {
		_, err := c.Dim(1, len(dims))
		return err
	}
	mean, deviation := 3, 4
	if training {
		mean, deviation = 5, 6
	}
	if c.IsNone(mean) || c.IsNone(deviation) {
		return Errorf("%s(): expected the statistics of the forward pass, got None", c.row.Name)
	}
	stat := d
	if !c.IsNone(2) {
		stat = c.Dtype(2)
	}
	c.AttrBool(training)
	c.AttrFloat(c.Float(8, 1e-5))
	c.Attr(int64(stat))
	c.Operand(c.Node(0), c.Node(1), c.Node(mean), c.Node(deviation))
	c.optional(2)
	c.returnMasked(c.Many(), c.Ints(9), [...]dtype.Dtype{d, stat, stat}, [...][]int64{dims, dims[1:2], dims[1:2]})
	return nil
}

// returnMasked returns the gradients of input, weight and bias that mask asks for.
func (c *Call) returnMasked(n *ir.Node, mask []int64, types [3]dtype.Dtype, dims [3][]int64) {
	for i := range types {
		if i < len(mask) && mask[i] == 0 {
			c.Return(nil)
			continue
		}
		c.Return(c.Element(n, i, types[i], dims[i]))
	}
}

func lowerBatchNormBackward(l *ir.Lowering) []hlo.Value {
	b := l.B
	training, eps, stat := l.Bool(), l.Number(), dtype.Dtype(l.Int())
	d := l.In(1).Dtype()
	compute := d.OpMath()
	in := operandReader{l: l}
	grad, x := planes(b, in.read(compute)), planes(b, in.read(compute))
	mean, inverse := in.read(compute), in.read(compute)
	weight := in.optional(compute)
	dims := x.Dims()
	mask := channelMask(len(dims))
	if !training {
		inverse = inverseDeviation(b, inverse, eps)
	}
	channels := func(v hlo.Value) hlo.Value { return spread(b, v, mask, dims) }
	deviation := b.Binary(hlo.Subtract, x, channels(mean))
	sum, product := twoSums(b, grad, b.Binary(hlo.Multiply, deviation, grad), mask)
	slope := grad
	if training {
		n := float64(reduceCount(dims, mask))
		along := dividedBy(b, b.Binary(hlo.Multiply, product, squareOf(b, inverse)), n)
		slope = b.Binary(hlo.Subtract, grad, channels(dividedBy(b, sum, n)))
		slope = b.Binary(hlo.Subtract, slope, b.Binary(hlo.Multiply, deviation, channels(along)))
	}
	return []hlo.Value{
		b.Reshape(as(b, b.Binary(hlo.Multiply, slope, channels(timesOptional(b, inverse, weight))), d), l.In(1).Dims()),
		as(b, b.Binary(hlo.Multiply, product, inverse), stat),
		as(b, sum, stat),
	}
}
