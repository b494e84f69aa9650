package ops

import (
	"fmt"
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Sampling of images and volumes at the positions of a grid (grid_sample). Along each dimension a
// position reads one, two or four taps; the result sums over the products of the dimensions' taps.

var (
	kindGridSamplerInputGrad = defineKind("xla_go::grid_sampler_input_grad", lowerGridSamplerInputGrad)
	kindGridSamplerGridGrad  = defineKind("xla_go::grid_sampler_grid_grad", lowerGridSamplerGridGrad)
)

func init() {
	for _, spatial := range []int{2, 3} {
		name := fmt.Sprintf("grid_sampler_%dd", spatial)
		register(
			&Row{Name: name, Out: []string{name + ".out"}, Meta: metaGridSampler(spatial), Lower: lowerGridSampler},
			&Row{Name: name + "_backward", Out: []string{name + "_backward.out"}, Meta: metaGridSamplerBackward(spatial)},
		)
	}
}

// Interpolation and padding modes, numbered as torch numbers them.
const (
	sampleBilinear = 0
	sampleNearest  = 1
	sampleBicubic  = 2

	outsideZeros      = 0
	outsideBorder     = 1
	outsideReflection = 2
)

// gridArguments checks input and grid, arguments i and i+1.
func (c *Call) gridArguments(i, spatial int) error {
	x, grid := c.Dims(i), c.Dims(i+1)
	if len(x) == 0 || len(grid) == 0 {
		return status.Torchf(status.IndexError, "Dimension specified as 0 but tensor has no dimensions")
	}
	if x[0] != grid[0] {
		return Errorf("grid_sampler(): expected grid and input to have same batch size, but got input with sizes %s and grid with sizes %s", dimsText(x), dimsText(grid))
	}
	if want := len(x) - 2; grid[len(grid)-1] != int64(want) {
		return Errorf("grid_sampler(): expected grid to have size %d in last dimension, but got grid with sizes %s", want, dimsText(grid))
	}
	for k := 2; k < len(x); k++ {
		if x[k] <= 0 {
			return Errorf("grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes %s with dimension %d being empty", dimsText(x), k)
		}
	}
	if len(x) != spatial+2 || len(grid) != len(x) {
		return Errorf("grid_sampler(): expected %dD input and grid with same number of dimensions, but got input with sizes %s and grid with sizes %s", spatial+2, dimsText(x), dimsText(grid))
	}
	if c.Dtype(i) != c.Dtype(i+1) {
		return Errorf("expected scalar type %s but found %s", torchClass(c.Dtype(i)), torchClass(c.Dtype(i+1)))
	}
	if d := c.Dtype(i); !d.IsFloat() || d.Size() == 1 {
		return notImplemented(fmt.Sprintf("grid_sampler_%dd_cpu_kernel_impl", spatial), d)
	}
	return nil
}

// metaGridSampler: input, grid, interpolation_mode, padding_mode, align_corners.
func metaGridSampler(spatial int) func(c *Call) error {
	return func(c *Call) error {
		if err := c.gridArguments(0, spatial); err != nil {
			return err
		}
		x, grid := c.Dims(0), c.Dims(1)
		c.Operand(c.Node(0), c.Node(1))
		c.Attr(c.Int(2, 0), c.Int(3, 0), c.Int(4, 0))
		return c.Out(c.Dtype(0), append(slices.Clone(x[:2]), grid[1:len(grid)-1]...))
	}
}

// metaGridSamplerBackward: grad_output, input, grid, interpolation_mode, padding_mode,
// align_corners, output_mask. A gradient that the mask leaves out is undefined.
func metaGridSamplerBackward(spatial int) func(c *Call) error {
	return func(c *Call) error {
		if err := c.gridArguments(1, spatial); err != nil {
			return err
		}
		for i, kind := range [2]ir.Kind{kindGridSamplerInputGrad, kindGridSamplerGridGrad} {
			if wanted := c.Ints(6); i < len(wanted) && wanted[i] == 0 {
				c.Return(nil)
				continue
			}
			c.Operand(c.Node(0), c.Node(1), c.Node(2))
			c.Attr(c.Int(3, 0), c.Int(4, 0), c.Int(5, 0))
			c.Return(c.finish(kind, c.Dtype(1), c.Dims(1+i)))
		}
		return nil
	}
}

// gridTaps are the inputs that the grid's positions read along one dimension, in arrays of the number
// of taps and then the grid's dims without the coordinates: the taps' indices, -1 for one outside,
// their weights, and the weights' derivatives by the grid's coordinate (neither where the mode is
// nearest).
type gridTaps struct {
	index, weight, slope hlo.Value
}

// gridSampler computes taps; dims are the grid's without the coordinates. All taps of a position
// are in one array, so that a program is as large for the 64 of three cubic dimensions as for one.
type gridSampler struct {
	elementwise
	mode, outside int64
	align         bool
	dims          []int64
	spatial       int
}

// count is the number of taps along a dimension.
func (g *gridSampler) count() int64 {
	switch g.mode {
	case sampleNearest:
		return 1
	case sampleBicubic:
		return 4
	}
	return 2
}

// pixel turns a coordinate in [-1, 1] into a position; slope is the position's derivative.
func (g *gridSampler) pixel(x hlo.Value, size int64) (at, slope hlo.Value) {
	n := float64(size)
	x = g.addNumber(x, 1)
	if g.align {
		return g.scale(g.div(x, g.number(x, 2)), n-1), g.number(x, (n-1)/2)
	}
	at = g.addNumber(g.scale(x, n), -1)
	return g.div(at, g.number(x, 2)), g.number(x, n/2)
}

// bring moves positions from outside to the inside as the padding mode says, and slope with them.
func (g *gridSampler) bring(at, slope hlo.Value, size int64) (hlo.Value, hlo.Value) {
	last := float64(size - 1)
	if g.outside == outsideZeros {
		return at, slope
	}
	if g.outside == outsideReflection {
		low, span := -0.5, float64(size)
		if g.align {
			low, span = 0, last
		}
		if span == 0 {
			return g.zero(at), g.zero(at)
		}
		at = g.addNumber(at, -low)
		negative := g.isNegative(at)
		at = g.abs(at)
		rest := g.Binary(hlo.Remainder, at, g.number(at, span))
		flips := g.Unary(hlo.Floor, g.div(at, g.number(at, span)))
		odd := g.unequal(g.Binary(hlo.Remainder, flips, g.number(at, 2)), g.zero(at))
		at = g.addNumber(g.Select(odd, g.sub(g.number(at, span), rest), rest), low)
		slope = g.Select(g.Binary(hlo.Xor, negative, odd), g.neg(slope), slope)
	}
	off := g.or(g.atMost(at, g.zero(at)), g.atLeast(at, g.number(at, last)))
	slope = g.Select(off, g.zero(slope), slope)
	return g.Clamp(g.Full(at.Dtype(), 0), at, g.Full(at.Dtype(), last)), slope
}

// index gives whole-numbered positions as indices. One outside becomes -1, which a scatter drops.
func (g *gridSampler) index(at hlo.Value, size int64) hlo.Value {
	inside := g.and(g.atLeast(at, g.zero(at)), g.atMost(at, g.number(at, float64(size-1))))
	return g.Convert(g.Select(inside, at, g.number(at, -1)), dtype.S32)
}

// taps gives the taps of coordinate x along a dimension; x is of the taps' dims.
func (g *gridSampler) taps(x hlo.Value, size int64) gridTaps {
	at, slope := g.pixel(x, size)
	tap := g.Iota(x.Dtype(), x.Dims(), 0)
	if g.mode == sampleBicubic {
		return g.cubicTaps(at, slope, tap, size)
	}
	at, slope = g.bring(at, slope, size)
	if g.mode == sampleNearest {
		return gridTaps{index: g.index(g.Unary(hlo.RoundNearestEven, at), size)}
	}
	low, isLow := g.Unary(hlo.Floor, at), g.isZero(tap)
	return gridTaps{
		index:  g.index(g.add(low, tap), size),
		weight: g.Select(isLow, g.sub(g.addNumber(low, 1), at), g.sub(at, low)),
		slope:  g.Select(isLow, g.neg(slope), slope),
	}
}

func (g *gridSampler) cubicTaps(at, slope, tap hlo.Value, size int64) gridTaps {
	const a = -0.75
	low := g.Unary(hlo.Floor, at)
	fraction := g.sub(at, low)
	// The distance from the tap is t+1, t, 1-t and 2-t for a fraction of t.
	offset := g.addNumber(tap, -1)
	isAbove := g.isPositive(offset)
	distance := g.sub(fraction, offset)
	distance = g.Select(isAbove, g.neg(distance), distance)
	isNear := g.equal(g.abs(g.addNumber(tap, -1.5)), g.number(tap, 0.5))
	weight := g.Select(isNear,
		g.polynomial(distance, []float64{1, 0, -(a + 3), a + 2}),
		g.polynomial(distance, []float64{-4 * a, 8 * a, -5 * a, a}))
	derivative := g.Select(isNear,
		g.polynomial(distance, []float64{0, -2 * (a + 3), 3 * (a + 2)}),
		g.polynomial(distance, []float64{8 * a, -10 * a, 3 * a}))
	derivative = g.mul(g.Select(isAbove, g.neg(derivative), derivative), slope)
	position, _ := g.bring(g.add(low, offset), slope, size)
	return gridTaps{g.index(position, size), weight, derivative}
}

// allTaps reads the grid: its last dimension holds x, y and z, in the order opposite to sizes.
func (g *gridSampler) allTaps(grid hlo.Value, sizes []int64) []gridTaps {
	rank := grid.Rank()
	dims := append([]int64{g.count()}, g.dims...)
	taps := make([]gridTaps, len(sizes))
	for i := range sizes {
		x := sliceDim(g.Builder, grid, rank-1, int64(len(sizes)-1-i), int64(len(sizes)-i))
		taps[i] = g.taps(g.Broadcast(g.Reshape(x, g.dims), dims, dimsFrom(1, len(g.dims))), sizes[i])
	}
	return taps
}

// dimsFrom lists n dimensions from first on.
func dimsFrom(first, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = first + i
	}
	return list
}

// cornerDims are, for every dimension, the number of its taps, and then the grid's dims: the corners
// of a position are the products of the dimensions' taps.
func (g *gridSampler) cornerDims() []int64 {
	return slices.Concat(slices.Repeat([]int64{g.count()}, g.spatial), g.dims)
}

// overCorners repeats what belongs to the taps of dimension i for the others' taps.
func (g *gridSampler) overCorners(v hlo.Value, i int) hlo.Value {
	return g.Broadcast(v, g.cornerDims(), append([]int{i}, dimsFrom(g.spatial, len(g.dims))...))
}

// weight multiplies the corners' weights; in dimension slope, if that is one, its derivative.
func (g *gridSampler) weight(taps []gridTaps, slope int) hlo.Value {
	var w hlo.Value
	for i, t := range taps {
		f := t.weight
		if i == slope {
			f = t.slope
		}
		f = g.overCorners(f, i)
		if w.Valid() {
			f = g.mul(w, f)
		}
		w = f
	}
	return w
}

// positions gives the corners' indices into the input, with the batch's number in front.
func (g *gridSampler) positions(taps []gridTaps) hlo.Value {
	dims := append(g.cornerDims(), 1)
	parts := []hlo.Value{g.Iota(dtype.S32, dims, g.spatial)}
	for i, t := range taps {
		parts = append(parts, g.Reshape(g.overCorners(t.index, i), dims))
	}
	return g.Concatenate(parts, len(dims)-1)
}

// channelDims are cornerDims with the channels after the batch.
func (g *gridSampler) channelDims(channels int64) []int64 {
	return slices.Insert(g.cornerDims(), g.spatial+1, channels)
}

// read gathers the corners' inputs, zero outside, of channelDims.
func (g *gridSampler) read(x hlo.Value, taps []gridTaps) hlo.Value {
	sizes := make([]int64, x.Rank())
	for i := range sizes {
		sizes[i] = 1
	}
	channels := x.Dims()[1]
	sizes[1] = channels
	v := g.Gather(x, g.positions(taps), hlo.GatherDims{
		OffsetDims: []int64{int64(g.spatial + 1)}, CollapsedSliceDims: g.batchAndSpace(), StartIndexMap: g.batchAndSpace(),
		IndexVectorDim: int64(len(g.cornerDims())), SliceSizes: sizes,
	})
	var inside hlo.Value
	for i, t := range taps {
		here := g.overCorners(g.Compare("GE", t.index, g.FullInt(dtype.S32, 0, t.index.Dims()...)), i)
		if inside.Valid() {
			here = g.and(inside, here)
		}
		inside = here
	}
	return g.Select(g.overChannels(inside, channels), v, g.zero(v))
}

// batchAndSpace are the input's dimensions that an index goes into.
func (g *gridSampler) batchAndSpace() []int64 {
	list := []int64{0}
	for i := range g.spatial {
		list = append(list, int64(i+2))
	}
	return list
}

// overChannels repeats a value of cornerDims for every channel.
func (g *gridSampler) overChannels(v hlo.Value, channels int64) hlo.Value {
	at := dimsFrom(0, v.Rank()+1)
	return g.Broadcast(v, g.channelDims(channels), slices.Delete(at, g.spatial+1, g.spatial+2))
}

// sumOverCorners adds up over the first dimensions, which are the corners'.
func (g *gridSampler) sumOverCorners(v hlo.Value) hlo.Value {
	return g.ReduceOp(hlo.Add, v, g.Full(v.Dtype(), 0), dimsFrom(0, g.spatial))
}

// gradient repeats the result's gradient for every corner.
func (g *gridSampler) gradient(grad hlo.Value) hlo.Value {
	return g.Broadcast(grad, g.channelDims(grad.Dims()[1]), dimsFrom(g.spatial, grad.Rank()))
}

func readGridSampler(l *ir.Lowering, grid hlo.Value) *gridSampler {
	return &gridSampler{
		elementwise: elementwise{l.B}, mode: l.Int(), outside: l.Int(), align: l.Bool(),
		dims: grid.Dims()[:grid.Rank()-1], spatial: grid.Rank() - 2,
	}
}

func lowerGridSampler(l *ir.Lowering) hlo.Value {
	b, compute := l.B, l.Dtype.OpMath()
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	x, grid := as(b, l.In(0), compute), as(b, l.In(1), compute)
	g := readGridSampler(l, grid)
	taps := g.allTaps(grid, x.Dims()[2:])
	v := g.read(x, taps)
	if g.mode == sampleNearest {
		return as(b, b.Reshape(v, l.Dims), l.Dtype)
	}
	return as(b, g.sumOverCorners(g.mul(v, g.overChannels(g.weight(taps, -1), x.Dims()[1]))), l.Dtype)
}

// lowerGridSamplerInputGrad adds the weighed gradient to each corner's inputs.
func lowerGridSamplerInputGrad(l *ir.Lowering) hlo.Value {
	b, compute := l.B, l.Dtype.OpMath()
	grad, grid := as(b, l.In(0), compute), as(b, l.In(2), compute)
	sum := b.Full(compute, 0, l.Dims...)
	if shape.Product(grad.Dims()) == 0 || shape.Product(l.Dims) == 0 {
		return as(b, sum, l.Dtype)
	}
	g := readGridSampler(l, grid)
	taps := g.allTaps(grid, l.Dims[2:])
	channels := l.Dims[1]
	update := g.gradient(grad)
	if g.mode != sampleNearest {
		update = g.mul(update, g.overChannels(g.weight(taps, -1), channels))
	}
	sum = b.Scatter([]hlo.Value{sum}, g.positions(taps), []hlo.Value{update}, hlo.ScatterDims{
		UpdateWindowDims: []int64{int64(g.spatial + 1)}, InsertedWindowDims: g.batchAndSpace(), ScatterDimsToOperandDims: g.batchAndSpace(),
		IndexVectorDim: int64(len(g.cornerDims())),
	}, b.ScalarComputation(hlo.Add, compute))[0]
	return as(b, sum, l.Dtype)
}

// lowerGridSamplerGridGrad sums, per coordinate, what the corners' weights change by.
func lowerGridSamplerGridGrad(l *ir.Lowering) hlo.Value {
	b, compute := l.B, l.Dtype.OpMath()
	grad, x, grid := as(b, l.In(0), compute), as(b, l.In(1), compute), as(b, l.In(2), compute)
	g := readGridSampler(l, grid)
	if g.mode == sampleNearest || shape.Product(grad.Dims()) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	taps := g.allTaps(grid, x.Dims()[2:])
	v := g.mul(g.gradient(grad), g.read(x, taps))
	v = b.ReduceOp(hlo.Add, v, b.Full(compute, 0), []int{g.spatial + 1})
	column := append(slices.Clone(g.dims), 1)
	parts := make([]hlo.Value, g.spatial)
	for i := range parts {
		parts[g.spatial-1-i] = b.Reshape(g.sumOverCorners(g.mul(v, g.weight(taps, i))), column)
	}
	return as(b, b.Concatenate(parts, len(g.dims)), l.Dtype)
}
