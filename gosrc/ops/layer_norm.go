package ops

import (
	"slices"
	"strings"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Layer normalisation (statistics of each sample over the last dimensions) and group
// normalisation (over groups of channels).

func init() {
	register(
		&Row{Name: "native_layer_norm", Out: []string{"native_layer_norm.out"}, Meta: metaLayerNorm, LowerMany: lowerLayerNorm, Variables: variableFloat(2)},
		&Row{Name: "native_layer_norm_backward", Out: []string{"native_layer_norm_backward.out"}, Meta: metaLayerNormBackward, LowerMany: lowerLayerNormBackward},
		&Row{Name: "native_group_norm", Out: []string{"native_group_norm.out"}, Meta: metaGroupNorm, LowerMany: lowerGroupNorm, Variables: variableFloat(4)},
		&Row{Name: "native_group_norm_backward", Out: []string{"native_group_norm_backward.out"}, Meta: metaGroupNormBackward, LowerMany: lowerGroupNormBackward},
	)
}

// checkNormalizedShape raises torch's errors for the last dimensions and their parameters.
func (c *Call) checkNormalizedShape(input int, normalized []int64, weight, bias int) error {
	if len(normalized) == 0 {
		return Errorf("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []")
	}
	if !c.IsNone(weight) && !slices.Equal(c.Dims(weight), normalized) {
		return Errorf("Expected weight to be of same shape as normalized_shape, but got weight of shape %s and normalized_shape = %s", dimsText(c.Dims(weight)), dimsText(normalized))
	}
	if !c.IsNone(bias) && !slices.Equal(c.Dims(bias), normalized) {
		return Errorf("Expected bias to be of same shape as normalized_shape, but got bias of shape %s and normalized_shape = %s", dimsText(c.Dims(bias)), dimsText(normalized))
	}
	dims := c.Dims(input)
	if outer := len(dims) - len(normalized); outer < 0 || !slices.Equal(dims[outer:], normalized) {
		text := dimsText(normalized)
		return Errorf("Given normalized_shape=%s, expected input with shape [*, %s, but got input of size%s", text, strings.TrimPrefix(text, "["), dimsText(dims))
	}
	return nil
}

// innerMask gives the last count of rank dimensions.
func innerMask(rank, count int) uint64 { return allDims(rank) &^ allDims(rank-count) }

// metaLayerNorm takes (input, normalized_shape, weight, bias, eps).
func metaLayerNorm(c *Call) error {
	normalized := c.Ints(1)
	if err := c.checkNormalizedShape(0, normalized, 2, 3); err != nil {
		return err
	}
	stat, err := c.normDtype("LayerNormKernelImpl", 2, 3)
	if err != nil {
		return err
	}
	dims := c.Dims(0)
	mask := innerMask(len(dims), len(normalized))
	c.Attr(int64(mask), int64(stat))
	c.AttrFloat(c.Float(4, 1e-5))
	c.Operand(c.Node(0))
	c.optional(2, 3)
	n := c.Many()
	c.Return(c.Element(n, 0, c.Dtype(0), dims))
	left := c.reducedDims(dims, mask, true)
	c.Return(c.Element(n, 1, stat, left))
	c.Return(c.Element(n, 2, stat, left))
	return nil
}

// moments gives the mean over mask, the deviations from it, and the mean of their squares.
func moments(b *hlo.Builder, x hlo.Value, mask uint64) (mean, deviation, variance hlo.Value) {
	mean = rowsMean(b, x, mask)
	deviation = b.Binary(hlo.Subtract, x, spread(b, mean, mask, x.Dims()))
	return mean, deviation, rowsMean(b, squareOf(b, deviation), mask)
}

// normalise gives (x - mean)/sqrt(variance + eps) over mask with the two statistics.
func normalise(b *hlo.Builder, x hlo.Value, mask uint64, eps ir.Number) (y, mean, inverse hlo.Value) {
	mean, deviation, variance := moments(b, x, mask)
	inverse = inverseDeviation(b, variance, eps)
	return b.Binary(hlo.Multiply, deviation, spread(b, inverse, mask, x.Dims())), mean, inverse
}

// scaleAndShift gives y*weight + bias, where either may be missing; they have the dimensions that
// mask does not have.
func scaleAndShift(b *hlo.Builder, y, weight, bias hlo.Value, mask uint64) hlo.Value {
	if weight.Valid() {
		y = b.Binary(hlo.Multiply, y, spread(b, weight, mask, y.Dims()))
	}
	if bias.Valid() {
		y = b.Binary(hlo.Add, y, spread(b, bias, mask, y.Dims()))
	}
	return y
}

func lowerLayerNorm(l *ir.Lowering) []hlo.Value {
	b, mask, stat, eps := l.B, uint64(l.Int()), dtype.Dtype(l.Int()), l.Number()
	d := l.In(0).Dtype()
	compute := d.OpMath()
	in := operandReader{l: l}
	x := in.read(compute)
	weight, bias := in.optional(compute), in.optional(compute)
	outer := allDims(x.Rank()) &^ mask
	y, mean, inverse := normalise(b, x, mask, eps)
	left := withOnes(x.Dims(), mask)
	return []hlo.Value{
		as(b, scaleAndShift(b, y, weight, bias, outer), d),
		b.Reshape(as(b, mean, stat), left),
		b.Reshape(as(b, inverse, stat), left),
	}
}

// withOnes gives dims with 1 for the dimensions of mask.
func withOnes(dims []int64, mask uint64) []int64 {
	r := slices.Clone(dims)
	for _, d := range maskDims(mask) {
		r[d] = 1
	}
	return r
}

// metaLayerNormBackward takes (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask).
func metaLayerNormBackward(c *Call) error {
	normalized := c.Ints(2)
	if err := c.checkNormalizedShape(1, normalized, 5, 6); err != nil {
		return err
	}
	d, dims := c.Dtype(1), c.Dims(1)
	types := [3]dtype.Dtype{d, c.parameterDtype(5, d), c.parameterDtype(6, c.parameterDtype(5, d))}
	c.Attr(int64(innerMask(len(dims), len(normalized))), int64(types[1]), int64(types[2]))
	c.Operand(c.Node(0), c.Node(1), c.Node(3), c.Node(4))
	c.optional(5)
	c.returnMasked(c.Many(), c.Ints(7), types, [3][]int64{dims, normalized, normalized})
	return nil
}

// parameterDtype gives argument i's type, or d where it is None.
func (c *Call) parameterDtype(i int, d dtype.Dtype) dtype.Dtype {
	if c.IsNone(i) {
		return d
	}
	return c.Dtype(i)
}

// normSlope gives the gradient of x from that of its normalised form y.
func normSlope(b *hlo.Builder, grad, y, inverse hlo.Value, mask uint64) hlo.Value {
	dims := y.Dims()
	n := float64(reduceCount(dims, mask))
	sum, product := twoSums(b, grad, b.Binary(hlo.Multiply, grad, y), mask)
	mean, along := spread(b, dividedBy(b, sum, n), mask, dims), spread(b, dividedBy(b, product, n), mask, dims)
	rest := b.Binary(hlo.Subtract, b.Binary(hlo.Subtract, grad, mean), b.Binary(hlo.Multiply, y, along))
	return b.Binary(hlo.Multiply, rest, spread(b, inverse, mask, dims))
}

func lowerLayerNormBackward(l *ir.Lowering) []hlo.Value {
	b, mask := l.B, uint64(l.Int())
	weightType, biasType := dtype.Dtype(l.Int()), dtype.Dtype(l.Int())
	d := l.In(1).Dtype()
	compute := d.OpMath()
	in := operandReader{l: l}
	grad, x, mean, inverse := in.read(compute), in.read(compute), in.read(compute), in.read(compute)
	weight := in.optional(compute)
	dims := x.Dims()
	outer := allDims(len(dims)) &^ mask
	left := make([]int64, 0, len(dims))
	for _, k := range maskDims(outer) {
		left = append(left, dims[k])
	}
	mean, inverse = b.Reshape(mean, left), b.Reshape(inverse, left)
	y := b.Binary(hlo.Multiply, b.Binary(hlo.Subtract, x, spread(b, mean, mask, dims)), spread(b, inverse, mask, dims))
	return []hlo.Value{
		as(b, normSlope(b, scaleAndShift(b, grad, weight, hlo.Value{}, outer), y, inverse, mask), d),
		as(b, sumOver(b, b.Binary(hlo.Multiply, grad, y), outer), weightType),
		as(b, sumOver(b, grad, outer), biasType),
	}
}

// metaGroupNorm takes (input, weight, bias, N, C, HxW, group, eps).
func metaGroupNorm(c *Call) error {
	samples, channels, area, groups := c.Int(3, 0), c.Int(4, 0), c.Int(5, 0), c.Int(6, 1)
	dims := c.Dims(0)
	if err := c.checkGroups(dims, channels, groups, 1, 2); err != nil {
		return err
	}
	if area == 0 {
		return Errorf("Expected HxW to be greater than 0, got 0")
	}
	stat, err := c.normDtype("GroupNormKernelImpl", 1, 2)
	if err != nil {
		return err
	}
	c.Attr(samples, groups, channels/groups*area, int64(stat))
	c.AttrFloat(c.Float(7, 1e-5))
	c.Operand(c.Node(0))
	c.optional(1, 2)
	n := c.Many()
	c.Return(c.Element(n, 0, c.Dtype(0), dims))
	left := [...]int64{samples, groups}
	c.Return(c.Element(n, 1, stat, left[:]))
	c.Return(c.Element(n, 2, stat, left[:]))
	return nil
}

func (c *Call) checkGroups(dims []int64, channels, groups int64, parameters ...int) error {
	if groups <= 0 {
		return Errorf("Expected num groups to be greater than 0, got %d", groups)
	}
	if channels%groups != 0 {
		return Errorf("Expected number of channels in input to be divisible by num_groups, but got input of shape %s and num_groups=%d", dimsText(dims), groups)
	}
	for k, i := range parameters {
		if !c.IsNone(i) && (c.Rank(i) != 1 || numElements(c.Dims(i)) != channels) {
			name := [...]string{"weight", "bias"}[k]
			return Errorf("Expected %s to be a vector of size equal to the number of channels in input, but got %s of shape %s and input of shape %s", name, name, dimsText(c.Dims(i)), dimsText(dims))
		}
	}
	return nil
}

func lowerGroupNorm(l *ir.Lowering) []hlo.Value {
	b := l.B
	grouped := []int64{l.Int(), l.Int(), l.Int()}
	stat, eps := dtype.Dtype(l.Int()), l.Number()
	d := l.In(0).Dtype()
	compute := d.OpMath()
	in := operandReader{l: l}
	x := in.read(compute)
	weight, bias := in.optional(compute), in.optional(compute)
	dims := x.Dims()
	y, mean, inverse := normalise(b, b.Reshape(x, grouped), 1<<2, eps)
	return []hlo.Value{
		as(b, scaleAndShift(b, b.Reshape(y, dims), weight, bias, channelMask(len(dims))), d),
		as(b, mean, stat),
		as(b, inverse, stat),
	}
}

// metaGroupNormBackward takes (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask).
func metaGroupNormBackward(c *Call) error {
	samples, channels, area, groups := c.Int(5, 0), c.Int(6, 0), c.Int(7, 0), c.Int(8, 1)
	d, dims := c.Dtype(1), c.Dims(1)
	if err := c.checkGroups(dims, channels, groups, 4); err != nil {
		return err
	}
	// Without weights CPU torch gives their gradients the statistics' type.
	stat := c.parameterDtype(4, c.Dtype(2))
	c.Attr(samples, groups, channels/groups*area, int64(stat))
	c.Operand(c.Node(0), c.Node(1), c.Node(2), c.Node(3))
	c.optional(4)
	left := [...]int64{channels}
	c.returnMasked(c.Many(), c.Ints(9), [3]dtype.Dtype{d, stat, stat}, [3][]int64{dims, left[:], left[:]})
	return nil
}

func lowerGroupNormBackward(l *ir.Lowering) []hlo.Value {
	b := l.B
	grouped := []int64{l.Int(), l.Int(), l.Int()}
	stat := dtype.Dtype(l.Int())
	d := l.In(1).Dtype()
	compute := d.OpMath()
	in := operandReader{l: l}
	grad, x := planes(b, in.read(compute)), planes(b, in.read(compute))
	mean, inverse := in.read(compute), in.read(compute)
	weight := in.optional(compute)
	dims := x.Dims()
	channels := channelMask(len(dims))
	const inner = 1 << 2
	mean, inverse = b.Reshape(mean, grouped[:2]), b.Reshape(inverse, grouped[:2])
	y := b.Binary(hlo.Subtract, b.Reshape(x, grouped), spread(b, mean, inner, grouped))
	y = b.Binary(hlo.Multiply, y, spread(b, inverse, inner, grouped))
	scaled := b.Reshape(scaleAndShift(b, grad, weight, hlo.Value{}, channels), grouped)
	sum, product := twoSums(b, grad, b.Binary(hlo.Multiply, grad, b.Reshape(y, dims)), channels)
	return []hlo.Value{
		b.Reshape(as(b, normSlope(b, scaled, y, inverse, inner), d), l.In(1).Dims()),
		as(b, product, stat),
		as(b, sum, stat),
	}
}
