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
// position reads one, two or four taps; the result sums over the product of the dimensions' taps.

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

// gridTap is one input along a dimension: its index and whether it is inside, then its weight and
// the weight's derivative by the grid's coordinate (no values where the mode is nearest).
type gridTap struct {
	index, inside, weight, slope hlo.Value
}

// gridSampler computes taps; dims are the grid's without the coordinates.
type gridSampler struct {
	b             *hlo.Builder
	mode, outside int64
	align         bool
	dims          []int64
	compute       dtype.Dtype
}

func (g *gridSampler) full(v float64) hlo.Value { return g.b.Full(g.compute, v, g.dims...) }

func (g *gridSampler) op(op hlo.Opcode, x, y hlo.Value) hlo.Value { return g.b.Binary(op, x, y) }

// pixel turns a coordinate in [-1, 1] into a position; slope is the position's derivative.
func (g *gridSampler) pixel(x hlo.Value, size int64) (at, slope hlo.Value) {
	n := float64(size)
	x = g.op(hlo.Add, x, g.full(1))
	if g.align {
		return g.op(hlo.Multiply, g.op(hlo.Divide, x, g.full(2)), g.full(n-1)), g.full((n - 1) / 2)
	}
	at = g.op(hlo.Subtract, g.op(hlo.Multiply, x, g.full(n)), g.full(1))
	return g.op(hlo.Divide, at, g.full(2)), g.full(n / 2)
}

// bring moves positions from outside to the inside as the padding mode says, and slope with them.
func (g *gridSampler) bring(at, slope hlo.Value, size int64) (hlo.Value, hlo.Value) {
	b, last := g.b, float64(size-1)
	if g.outside == outsideZeros {
		return at, slope
	}
	if g.outside == outsideReflection {
		low, span := -0.5, float64(size)
		if g.align {
			low, span = 0, last
		}
		if span == 0 {
			return g.full(0), g.full(0)
		}
		at = g.op(hlo.Subtract, at, g.full(low))
		negative := b.Compare("LT", at, g.full(0))
		at = b.Unary(hlo.Abs, at)
		rest := g.op(hlo.Remainder, at, g.full(span))
		flips := b.Unary(hlo.Floor, g.op(hlo.Divide, at, g.full(span)))
		odd := b.Compare("NE", g.op(hlo.Remainder, flips, g.full(2)), g.full(0))
		at = g.op(hlo.Add, b.Select(odd, g.op(hlo.Subtract, g.full(span), rest), rest), g.full(low))
		slope = b.Select(b.Binary(hlo.Xor, negative, odd), b.Unary(hlo.Negate, slope), slope)
	}
	off := b.Binary(hlo.Or, b.Compare("LE", at, g.full(0)), b.Compare("GE", at, g.full(last)))
	slope = b.Select(off, g.full(0), slope)
	return b.Clamp(b.Full(g.compute, 0), at, b.Full(g.compute, last)), slope
}

// tap makes a tap of a whole-numbered position.
func (g *gridSampler) tap(at, weight, slope hlo.Value, size int64) gridTap {
	b := g.b
	inside := b.Binary(hlo.And, b.Compare("GE", at, g.full(0)), b.Compare("LE", at, g.full(float64(size-1))))
	// A position outside becomes -1, which a scatter drops.
	index := b.Convert(b.Select(inside, at, g.full(-1)), dtype.S32)
	return gridTap{index, inside, weight, slope}
}

// taps gives the taps of coordinate x along a dimension.
func (g *gridSampler) taps(x hlo.Value, size int64) []gridTap {
	b := g.b
	at, slope := g.pixel(x, size)
	if g.mode == sampleBicubic {
		return g.cubicTaps(at, slope, size)
	}
	at, slope = g.bring(at, slope, size)
	if g.mode == sampleNearest {
		return []gridTap{g.tap(b.Unary(hlo.RoundNearestEven, at), hlo.Value{}, hlo.Value{}, size)}
	}
	low := b.Unary(hlo.Floor, at)
	high := g.op(hlo.Add, low, g.full(1))
	return []gridTap{
		g.tap(low, g.op(hlo.Subtract, high, at), b.Unary(hlo.Negate, slope), size),
		g.tap(high, g.op(hlo.Subtract, at, low), slope, size),
	}
}

func (g *gridSampler) cubicTaps(at, slope hlo.Value, size int64) []gridTap {
	const a = -0.75
	b := g.b
	low := b.Unary(hlo.Floor, at)
	t := g.op(hlo.Subtract, at, low)
	polynomial := func(x hlo.Value, c ...float64) hlo.Value {
		y := g.full(c[0])
		for _, v := range c[1:] {
			y = g.op(hlo.Add, g.op(hlo.Multiply, y, x), g.full(v))
		}
		return y
	}
	var taps []gridTap
	for k := range 4 {
		// Distance from the tap: t+1, t, 1-t, 2-t.
		x := g.op(hlo.Add, t, g.full(float64(1-k)))
		sign := 1.0
		if k >= 2 {
			x, sign = b.Unary(hlo.Negate, x), -1
		}
		var weight, derivative hlo.Value
		if k == 1 || k == 2 {
			weight, derivative = polynomial(x, a+2, -(a+3), 0, 1), polynomial(x, 3*(a+2), -2*(a+3), 0)
		} else {
			weight, derivative = polynomial(x, a, -5*a, 8*a, -4*a), polynomial(x, 3*a, -10*a, 8*a)
		}
		derivative = g.op(hlo.Multiply, g.op(hlo.Multiply, derivative, g.full(sign)), slope)
		position, _ := g.bring(g.op(hlo.Add, low, g.full(float64(k-1))), slope, size)
		taps = append(taps, g.tap(position, weight, derivative, size))
	}
	return taps
}

// allTaps reads the grid: its last dimension holds x, y and z, in the order opposite to sizes.
func (g *gridSampler) allTaps(grid hlo.Value, sizes []int64) [][]gridTap {
	b, rank := g.b, grid.Rank()
	taps := make([][]gridTap, len(sizes))
	for i := range sizes {
		k := int64(len(sizes) - 1 - i)
		start, limit := make([]int64, rank), slices.Clone(grid.Dims())
		start[rank-1], limit[rank-1] = k, k+1
		taps[i] = g.taps(b.Reshape(b.Slice(grid, start, limit, nil), g.dims), sizes[i])
	}
	return taps
}

// corners lists the products of the dimensions' taps, one tap of each.
func corners(taps [][]gridTap) [][]gridTap {
	list := [][]gridTap{nil}
	for _, along := range taps {
		var longer [][]gridTap
		for _, corner := range list {
			for _, t := range along {
				longer = append(longer, append(slices.Clone(corner), t))
			}
		}
		list = longer
	}
	return list
}

// weight multiplies the corner's weights; in dimension slope, if that is one, its derivative.
func (g *gridSampler) weight(corner []gridTap, slope int) hlo.Value {
	var w hlo.Value
	for i, t := range corner {
		f := t.weight
		if i == slope {
			f = t.slope
		}
		if w.Valid() {
			f = g.op(hlo.Multiply, w, f)
		}
		w = f
	}
	return w
}

// positions gives the corner's indices into the input, with the batch's number in front.
func (g *gridSampler) positions(corner []gridTap) hlo.Value {
	b := g.b
	column := append(slices.Clone(g.dims), 1)
	parts := []hlo.Value{b.Iota(dtype.S32, column, 0)}
	for _, t := range corner {
		parts = append(parts, b.Reshape(t.index, column))
	}
	return b.Concatenate(parts, len(g.dims))
}

// read gathers the corner's inputs, zero outside, in the order (batch, channel, grid).
func (g *gridSampler) read(x hlo.Value, corner []gridTap, dims []int64) hlo.Value {
	b, rank := g.b, x.Rank()
	spatial := make([]int64, rank-2)
	sizes := make([]int64, rank)
	for i := range sizes {
		sizes[i] = 1
		if i >= 2 {
			spatial[i-2] = int64(i)
		}
	}
	sizes[1] = x.Dims()[1]
	batchAndSpace := append([]int64{0}, spatial...)
	v := b.Gather(x, g.positions(corner), hlo.GatherDims{
		OffsetDims: []int64{1}, CollapsedSliceDims: batchAndSpace, StartIndexMap: batchAndSpace,
		IndexVectorDim: int64(len(g.dims)), SliceSizes: sizes,
	})
	inside := corner[0].inside
	for _, t := range corner[1:] {
		inside = b.Binary(hlo.And, inside, t.inside)
	}
	return b.Select(g.overChannels(inside, dims), v, b.Full(x.Dtype(), 0, dims...))
}

// overChannels repeats a value of the grid's dims for every channel.
func (g *gridSampler) overChannels(v hlo.Value, dims []int64) hlo.Value {
	at := []int{0}
	for i := 2; i < len(dims); i++ {
		at = append(at, i)
	}
	return g.b.Broadcast(v, dims, at)
}

func readGridSampler(l *ir.Lowering, grid hlo.Value) *gridSampler {
	return &gridSampler{
		b: l.B, mode: l.Int(), outside: l.Int(), align: l.Bool(),
		dims: grid.Dims()[:grid.Rank()-1], compute: grid.Dtype(),
	}
}

func lowerGridSampler(l *ir.Lowering) hlo.Value {
	b, compute := l.B, l.Dtype.OpMath()
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	x, grid := as(b, l.In(0), compute), as(b, l.In(1), compute)
	g := readGridSampler(l, grid)
	var sum hlo.Value
	for _, corner := range corners(g.allTaps(grid, x.Dims()[2:])) {
		v := g.read(x, corner, l.Dims)
		if w := g.weight(corner, -1); w.Valid() {
			v = g.op(hlo.Multiply, v, g.overChannels(w, l.Dims))
		}
		if sum.Valid() {
			v = g.op(hlo.Add, sum, v)
		}
		sum = v
	}
	return as(b, sum, l.Dtype)
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
	inserted := []int64{0}
	for i := 2; i < len(l.Dims); i++ {
		inserted = append(inserted, int64(i))
	}
	for _, corner := range corners(g.allTaps(grid, l.Dims[2:])) {
		update := grad
		if w := g.weight(corner, -1); w.Valid() {
			update = g.op(hlo.Multiply, grad, g.overChannels(w, grad.Dims()))
		}
		sum = b.Scatter([]hlo.Value{sum}, g.positions(corner), []hlo.Value{update}, hlo.ScatterDims{
			UpdateWindowDims: []int64{1}, InsertedWindowDims: inserted, ScatterDimsToOperandDims: inserted,
			IndexVectorDim: int64(len(g.dims)),
		}, b.ScalarComputation(hlo.Add, compute))[0]
	}
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
	spatial := x.Rank() - 2
	sums := make([]hlo.Value, spatial)
	for _, corner := range corners(g.allTaps(grid, x.Dims()[2:])) {
		v := g.op(hlo.Multiply, grad, g.read(x, corner, grad.Dims()))
		v = b.ReduceOp(hlo.Add, v, b.Full(compute, 0), []int{1})
		for i := range sums {
			term := g.op(hlo.Multiply, v, g.weight(corner, i))
			if sums[i].Valid() {
				term = g.op(hlo.Add, sums[i], term)
			}
			sums[i] = term
		}
	}
	column := append(slices.Clone(g.dims), 1)
	parts := make([]hlo.Value, spatial)
	for i, s := range sums {
		parts[spatial-1-i] = b.Reshape(s, column)
	}
	return as(b, b.Concatenate(parts, len(g.dims)), l.Dtype)
}
