package ops

import (
	"fmt"
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// Max and average pooling in two and three dimensions (torch makes the one-dimensional ones of
// the two-dimensional).

var (
	kindMaxPoolValues  = defineKind("xla_go::max_pool_values", lowerMaxPoolValues)
	kindMaxPoolIndices = defineKind("xla_go::max_pool_indices", lowerMaxPoolIndices)
)

func init() {
	register(
		&Row{Name: "max_pool2d_with_indices", Out: []string{"max_pool2d_with_indices.out"}, Meta: metaMaxPool(2)},
		&Row{Name: "max_pool3d_with_indices", Out: []string{"max_pool3d_with_indices.out"}, Meta: metaMaxPool(3)},
		&Row{Name: "max_pool2d_with_indices_backward", Out: []string{"max_pool2d_with_indices_backward.grad_input"}, Meta: metaMaxPoolBackward(2), Lower: lowerMaxPoolBackward},
		&Row{Name: "max_pool3d_with_indices_backward", Out: []string{"max_pool3d_with_indices_backward.grad_input"}, Meta: metaMaxPoolBackward(3), Lower: lowerMaxPoolBackward},
		&Row{Name: "avg_pool2d", Out: []string{"avg_pool2d.out"}, Meta: metaAvgPool(2), Lower: lowerAvgPool},
		&Row{Name: "avg_pool3d", Out: []string{"avg_pool3d.out"}, Meta: metaAvgPool(3), Lower: lowerAvgPool},
		&Row{Name: "avg_pool2d_backward", Out: []string{"avg_pool2d_backward.grad_input"}, Meta: metaAvgPoolBackward(2), Lower: lowerAvgPoolBackward},
		&Row{Name: "avg_pool3d_backward", Out: []string{"avg_pool3d_backward.grad_input"}, Meta: metaAvgPoolBackward(3), Lower: lowerAvgPoolBackward},
	)
}

// pool holds a pooling's parameters, one entry per spatial dimension.
type pool struct {
	kernel, stride, padding, dilation []int64
	ceil                              bool
}

func (p *pool) attach(c *Call) {
	c.AttrInts(p.kernel)
	c.AttrInts(p.stride)
	c.AttrInts(p.padding)
	c.AttrInts(p.dilation)
}

func readPool(l *ir.Lowering) *pool {
	return &pool{kernel: l.Ints(), stride: l.Ints(), padding: l.Ints(), dilation: l.Ints()}
}

// poolTexts are the words in which the messages of two and three dimensions differ.
func (c *Call) poolTexts(name string, spatial int) (number, either string) {
	number, either = "two", "either "
	if spatial == 3 {
		number = "three"
		if name == "avg_pool3d" {
			either = ""
		}
	}
	return number, either
}

// poolArguments reads kernel_size, stride, padding and dilation (an argument number below 0 means
// that there is none), each a single int or one per dimension.
func (c *Call) poolArguments(name string, spatial, first, dilation, ceil int) (p pool, err error) {
	number, either := c.poolTexts(name, spatial)
	each := func(i int, otherwise []int64, what, form string) (v []int64) {
		if v = c.Ints(i); len(v) == 0 && otherwise != nil {
			return otherwise
		}
		if len(v) == 1 {
			w := make([]int64, spatial)
			for k := range w {
				w[k] = v[0]
			}
			return w
		}
		if len(v) != spatial && err == nil {
			err = Errorf("%s: %s must %s, or a tuple of %s ints", name, what, form, number)
		}
		return v
	}
	single := "be " + either + "a single int"
	if either != "" {
		single = "either be a single int"
	}
	p.kernel = each(first, nil, "kernel_size", single)
	omitted := "either be omitted, a single int"
	if either == "" {
		omitted = "be omitted, a single int"
	}
	p.stride = each(first+1, p.kernel, "stride", omitted)
	p.padding = each(first+2, nil, "padding", single)
	p.dilation = []int64{1, 1, 1}[:spatial]
	if dilation >= 0 {
		p.dilation = each(dilation, nil, "dilation", "be either a single int")
	}
	p.ceil = c.Bool(ceil)
	return p, err
}

// outputSize is torch's pooling_output_shape, with its checks.
func (p *pool) outputSize(i int, size int64) (int64, error) {
	kernel, stride, padding, dilation := p.kernel[i], p.stride[i], p.padding[i], p.dilation[i]
	if stride == 0 {
		return 0, Errorf("stride should not be zero")
	}
	if padding < 0 {
		return 0, Errorf("pad must be non-negative, but got pad: %d", padding)
	}
	if padding > ((kernel-1)*dilation+1)/2 {
		return 0, Errorf("pad should be at most half of effective kernel size, but got pad=%d, kernel_size=%d and dilation=%d", padding, kernel, dilation)
	}
	room := size + 2*padding - dilation*(kernel-1) - 1
	if p.ceil {
		room += stride - 1
	}
	out := room/stride + 1
	if room%stride != 0 && (room < 0) != (stride < 0) { // Go rounds to zero, torch down
		out--
	}
	if p.ceil && (out-1)*stride >= size+padding {
		out--
	}
	return out, nil
}

// axes names the spatial dimensions in messages.
func axes(spatial int) []string { return []string{"T", "H", "W"}[3-spatial:] }

// poolOutput gives the result's dims for input sizes x, with the checks of torch's
// pool2d_shape_check and pool3d_shape_check.
func (c *Call) poolOutput(name string, p *pool, x []int64, spatial int, average bool) ([]int64, error) {
	rank := len(x)
	dims := append([]int64(nil), x...)
	first := rank - spatial
	if spatial == 3 && rank != 4 && rank != 5 || spatial == 2 && rank < 2 {
		return nil, Errorf("non-empty %dD or %dD (batch mode) tensor expected for input", spatial+1, spatial+2)
	}
	if spatial == 2 && average && rank < 3 {
		_, err := c.Dim(-3, rank)
		return nil, err
	}
	if first >= 0 {
		for i := range spatial {
			size, err := p.outputSize(i, x[first+i])
			if err != nil {
				return nil, err
			}
			dims[first+i] = size
		}
	}
	for _, list := range [][]int64{p.kernel, p.stride, p.dilation} {
		for _, v := range list {
			if v > 0 {
				continue
			}
			switch &list[0] {
			case &p.kernel[0]:
				return nil, Errorf("kernel size should be greater than zero, but got %s", perAxis("k", p.kernel, spatial))
			case &p.stride[0]:
				return nil, Errorf("stride should be greater than zero, but got %s", perAxis("d", p.stride, spatial))
			}
			return nil, Errorf("dilation should be greater than zero, but got %s", perAxis("dilation", p.dilation, spatial))
		}
	}
	if spatial == 2 {
		if rank != 3 && rank != 4 {
			return nil, Errorf("non-empty 3D or 4D (batch mode) tensor expected for input")
		}
		for i := rank - 3; i < rank; i++ {
			if x[i] == 0 {
				return nil, Errorf("Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input, but got:%s", dimsText(x))
			}
		}
	} else {
		for i := 1; i < rank; i++ {
			if x[i] == 0 {
				return nil, Errorf("%s: Expected input to have non-zero size for non-batch dimensions, but input has sizes %s with dimension %d being empty", name, dimsText(x), i)
			}
		}
		if average {
			for i := range spatial {
				if x[first+i]+2*p.padding[i] < p.kernel[i] && !p.ceil {
					return nil, Errorf("input image (%s) smaller than kernel size (%s)", spacedAxes("", x[first:]), spacedAxes("k", p.kernel))
				}
			}
		}
	}
	for i := range spatial {
		if dims[first+i] < 1 {
			planes := x[first-1:]
			return nil, Errorf("Given input size: (%s). Calculated output size: (%s). Output size is too small", times(planes), times(dims[first-1:]))
		}
	}
	return dims, nil
}

func perAxis(prefix string, v []int64, spatial int) string {
	s := ""
	for i, a := range axes(spatial) {
		if i > 0 {
			s += " "
		}
		s += fmt.Sprintf("%s%s: %d", prefix, a, v[i])
	}
	return s
}

func spacedAxes(prefix string, v []int64) string { return perAxis(prefix, v, len(v)) }

func times(v []int64) string {
	s := ""
	for i, x := range v {
		if i > 0 {
			s += "x"
		}
		s += fmt.Sprint(x)
	}
	return s
}

// metaMaxPool: self, kernel_size, stride, padding, dilation, ceil_mode.
func metaMaxPool(spatial int) func(c *Call) error {
	name := fmt.Sprintf("max_pool%dd", spatial)
	where := "max_pool3d_with_indices_out_cpu_template()"
	return func(c *Call) error {
		p, err := c.poolArguments(name, spatial, 1, 4, 5)
		if err != nil {
			return err
		}
		dims, err := c.poolOutput(where, &p, c.Dims(0), spatial, false)
		if err != nil {
			return err
		}
		d := c.Dtype(0)
		if d == dtype.Bool || d.IsComplex() || d.IsFloat() && d.Size() == 1 {
			return notImplemented(name, d)
		}
		c.Operand(c.Node(0))
		p.attach(c)
		c.Return(c.finish(kindMaxPoolValues, d, dims))
		c.Operand(c.Node(0))
		p.attach(c)
		c.Return(c.finish(kindMaxPoolIndices, dtype.S64, dims))
		return nil
	}
}

// window is the window over an array of the given rank; the last dimensions are the spatial ones.
func (p *pool) window(in, out []int64) hlo.Window {
	rank, spatial := len(in), len(p.kernel)
	ones := func() []int64 {
		v := make([]int64, rank)
		for i := range v {
			v[i] = 1
		}
		return v
	}
	w := hlo.Window{Size: ones(), Stride: ones(), PadLow: make([]int64, rank), PadHigh: make([]int64, rank), WindowDilation: ones()}
	for i := range spatial {
		k := rank - spatial + i
		w.Size[k], w.Stride[k], w.PadLow[k], w.WindowDilation[k] = p.kernel[i], p.stride[i], p.padding[i], p.dilation[i]
		w.PadHigh[k] = max(0, p.highPadding(i, in[k], out[k]))
	}
	return w
}

// highPadding gives what the last window needs beyond the input, negative where it ends before.
func (p *pool) highPadding(i int, in, out int64) int64 {
	return (out-1)*p.stride[i] + (p.kernel[i]-1)*p.dilation[i] + 1 - in - p.padding[i]
}

func lowerMaxPoolValues(l *ir.Lowering) hlo.Value {
	p, x := readPool(l), l.In(0)
	if shape.Product(l.Dims) == 0 {
		return l.B.Full(l.Dtype, 0, l.Dims...)
	}
	return l.B.ReduceWindow(x, l.B.MinValue(l.Dtype), p.window(x.Dims(), l.Dims), hlo.Maximum)
}

// firstValid gives, for each output along spatial dimension i, the first input that its window has.
func (p *pool) firstValid(i int, out int64) []float64 {
	v := make([]float64, out)
	for o := range v {
		at := int64(o)*p.stride[i] - p.padding[i]
		for at < 0 {
			at += p.dilation[i]
		}
		v[o] = float64(at)
	}
	return v
}

// planeType is a type that holds every position in a plane of inputs: half the width is nearly
// twice the speed.
func planeType(in []int64, spatial int) dtype.Dtype {
	if shape.Product(in[len(in)-spatial:]) < math.MaxInt32 {
		return dtype.S32
	}
	return dtype.S64
}

// planeIndex sums vectors along the spatial dimensions, scaled to flat positions in a plane.
func (p *pool) planeIndex(b *hlo.Builder, d dtype.Dtype, in, dims []int64, along func(i int) []float64) hlo.Value {
	spatial := len(p.kernel)
	first := len(dims) - spatial
	var sum hlo.Value
	step := int64(1)
	for i := spatial - 1; i >= 0; i-- {
		v := append([]float64(nil), along(i)...)
		for k := range v {
			v[k] *= float64(step)
		}
		term := b.Broadcast(vector(b, d, v), dims, []int{first + i})
		if sum.Valid() {
			sum = b.Binary(hlo.Add, sum, term)
		} else {
			sum = term
		}
		step *= in[first+i]
	}
	return sum
}

// offsets lists the kernel's positions, each with the shift that it makes per spatial dimension.
func (p *pool) offsets() [][]int64 {
	list := [][]int64{nil}
	for i := range p.kernel {
		var longer [][]int64
		for _, o := range list {
			for k := range p.kernel[i] {
				longer = append(longer, append(append([]int64(nil), o...), k*p.dilation[i]-p.padding[i]))
			}
		}
		list = longer
	}
	return list
}

// flat gives the shift of an offset in a plane.
func flat(offset, in []int64) int64 {
	n := int64(0)
	for i, o := range offset {
		n = n*in[len(in)-len(offset)+i] + o
	}
	return n
}

// unrolledWindow is the size of a window up to which its positions are written out.
const unrolledWindow = 32

// lowerMaxPoolIndices finds where each maximum is: the first of equal ones, the last NaN, as
// torch's CPU kernel does by walking the window in order.
func lowerMaxPoolIndices(l *ir.Lowering) hlo.Value {
	b, p, x := l.B, readPool(l), l.In(0)
	if shape.Product(l.Dims) == 0 {
		return b.Full(dtype.S64, 0, l.Dims...)
	}
	if shape.Product(p.kernel) > unrolledWindow {
		return p.reduceIndices(b, x, l.Dims)
	}
	in := x.Dims()
	spatial, first := len(p.kernel), len(in)-len(p.kernel)
	low, high, none := make([]int64, len(in)), make([]int64, len(in)), make([]int64, len(in))
	for i := range spatial {
		low[first+i] = p.padding[i]
		high[first+i] = max(0, p.highPadding(i, in[first+i], l.Dims[first+i]))
	}
	padded := b.Pad(x, b.MinValue(x.Dtype()), low, high, none)
	d := planeType(in, spatial)
	index := p.planeIndex(b, d, in, l.Dims, func(i int) []float64 { return p.firstValid(i, l.Dims[first+i]) })
	base := p.planeIndex(b, d, in, l.Dims, func(i int) []float64 {
		v := make([]float64, l.Dims[first+i])
		for o := range v {
			v[o] = float64(int64(o) * p.stride[i])
		}
		return v
	})
	best := b.BroadcastTo(b.MinValue(x.Dtype()), l.Dims)
	for _, offset := range p.offsets() {
		start, limit, stride := make([]int64, len(in)), append([]int64(nil), in...), make([]int64, len(in))
		for i := range stride {
			stride[i] = 1
		}
		for i, o := range offset {
			start[first+i] = o + p.padding[i]
			limit[first+i] = start[first+i] + (l.Dims[first+i]-1)*p.stride[i] + 1
			stride[first+i] = p.stride[i]
		}
		v := b.Slice(padded, start, limit, stride)
		better := b.Compare("GT", v, best)
		if x.Dtype().IsFloat() {
			better = b.Binary(hlo.Or, better, b.Compare("NE", v, v))
		}
		best = b.Select(better, v, best)
		index = b.Select(better, b.Binary(hlo.Add, base, b.FullInt(d, flat(offset, in), l.Dims...)), index)
	}
	return as(b, index, dtype.S64)
}

// reduceIndices is lowerMaxPoolIndices for large windows: one window over values and positions.
func (p *pool) reduceIndices(b *hlo.Builder, x hlo.Value, dims []int64) hlo.Value {
	in := x.Dims()
	first := len(in) - len(p.kernel)
	position := p.planeIndex(b, dtype.S64, in, in, func(i int) []float64 {
		v := make([]float64, in[first+i])
		for k := range v {
			v[k] = float64(k)
		}
		return v
	})
	inits := []hlo.Value{b.MinValue(x.Dtype()), b.ScalarInt(dtype.S64, -1)}
	return b.ReduceWindowMany([]hlo.Value{x, position}, inits, p.window(in, dims), argmaxComputation(b, x.Dtype()))[1]
}

// argmaxComputation chooses between two (value, position) pairs: the larger value, the first of
// equal ones, the last NaN. Position -1 is no element. It is associative and commutative.
func argmaxComputation(b *hlo.Builder, d dtype.Dtype) *hlo.Computation {
	return b.Computation("argmax", func(s *hlo.Builder) {
		var v, at [2]hlo.Value
		for i := range 2 {
			v[i] = s.Parameter(shape.Make(d), fmt.Sprintf("value%d", i))
			at[i] = s.Parameter(shape.Make(dtype.S64), fmt.Sprintf("position%d", i))
		}
		and := func(x, y hlo.Value) hlo.Value { return s.Binary(hlo.And, x, y) }
		or := func(x, y hlo.Value) hlo.Value { return s.Binary(hlo.Or, x, y) }
		later := s.Compare("GT", at[1], at[0])
		second := or(s.Compare("GT", v[1], v[0]), and(s.Compare("EQ", v[1], v[0]), s.Unary(hlo.Not, later)))
		if d.IsFloat() {
			nan0, nan1 := s.Compare("NE", v[0], v[0]), s.Compare("NE", v[1], v[1])
			second = or(and(second, s.Unary(hlo.Not, nan0)), and(nan1, or(later, s.Unary(hlo.Not, nan0))))
		}
		none := s.ScalarInt(dtype.S64, -1)
		second = or(and(second, s.Compare("NE", at[1], none)), s.Compare("EQ", at[0], none))
		s.Return(s.Select(second, v[1], v[0]), s.Select(second, at[1], at[0]))
	})
}

// metaMaxPoolBackward: grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices.
func metaMaxPoolBackward(spatial int) func(c *Call) error {
	name := fmt.Sprintf("max_pool%dd", spatial)
	where := "max_pool3d_with_indices_backward_out_cpu_template()"
	return func(c *Call) error {
		p, err := c.poolArguments(name, spatial, 2, 5, 6)
		if err != nil {
			return err
		}
		d := c.Dtype(1)
		if c.Dtype(0) != d {
			return Errorf("expected dtype %s for `gradOutput` but got dtype %s", demangledName(d), demangledName(c.Dtype(0)))
		}
		dims, err := c.poolOutput(where, &p, c.Dims(1), spatial, false)
		if err != nil {
			return err
		}
		for _, i := range [2]int{7, 0} {
			if err := c.poolSizes(i, dims, spatial); err != nil {
				return err
			}
		}
		c.Operand(c.Node(0), c.Node(7))
		p.attach(c)
		return c.Out(d, c.Dims(1))
	}
}

// poolSizes checks that tensor argument i has the pooling's output sizes.
func (c *Call) poolSizes(i int, dims []int64, spatial int) error {
	sizes := c.Dims(i)
	for k := len(dims) - spatial - 1; k < len(dims); k++ {
		if len(sizes) != len(dims) || sizes[k] != dims[k] {
			got := int64(0)
			if k < len(sizes) {
				got = sizes[k]
			}
			return Errorf("Expected a tensor of dimension %d and tensor.size[%d] == %d but got: dimension %d and tensor.size[%d] = %d",
				len(dims), k, dims[k], len(sizes), k, got)
		}
	}
	return nil
}

// lowerMaxPoolBackward gives each gradient to the input that the index names. A window of few
// positions is written out: position k's gradients, spread over the input by a padding with holes,
// where the index is k's. That is one fused loop, while a scatter is serial.
func lowerMaxPoolBackward(l *ir.Lowering) hlo.Value {
	b, p, d := l.B, readPool(l), l.Dtype
	compute := d.OpMath()
	grad, index := as(b, l.In(0), compute), l.In(1)
	if shape.Product(l.Dims) == 0 || shape.Product(grad.Dims()) == 0 {
		return b.Full(d, 0, l.Dims...)
	}
	if shape.Product(p.kernel) > unrolledWindow {
		return as(b, scatterPlanes(b, grad, index, l.Dims, len(p.kernel), b.ScalarComputation(hlo.Add, compute)), d)
	}
	out := grad.Dims()
	first := len(l.Dims) - len(p.kernel)
	plane := planeType(l.Dims, len(p.kernel))
	base := p.planeIndex(b, plane, l.Dims, out, func(i int) []float64 {
		v := make([]float64, out[first+i])
		for o := range v {
			v[o] = float64(int64(o) * p.stride[i])
		}
		return v
	})
	relative := b.Binary(hlo.Subtract, as(b, index, plane), base)
	var sum hlo.Value
	for _, offset := range p.offsets() {
		chosen := b.Compare("EQ", relative, b.FullInt(plane, flat(offset, l.Dims), out...))
		term := p.spread(b, b.Select(chosen, grad, b.Full(compute, 0, out...)), offset, l.Dims)
		if sum.Valid() {
			sum = b.Binary(hlo.Add, sum, term)
		} else {
			sum = term
		}
	}
	return as(b, sum, d)
}

// scatterPlanes combines values with zeros at flat positions in planes; dims are the result's.
func scatterPlanes(b *hlo.Builder, values, index hlo.Value, dims []int64, spatial int, combine *hlo.Computation) hlo.Value {
	first := len(dims) - spatial
	planes, size := shape.Product(dims[:first]), shape.Product(dims[first:])
	count := shape.Product(values.Dims()[first:])
	index = b.Reshape(index, []int64{planes * count, 1})
	plane := b.Reshape(b.Iota(dtype.S64, []int64{planes, count}, 0), []int64{planes * count, 1})
	positions := b.Concatenate([]hlo.Value{plane, index}, 1)
	sum := b.Scatter([]hlo.Value{b.Full(values.Dtype(), 0, planes, size)}, positions,
		[]hlo.Value{b.Reshape(values, []int64{planes * count})}, hlo.ScatterDims{
			InsertedWindowDims: []int64{0, 1}, ScatterDimsToOperandDims: []int64{0, 1}, IndexVectorDim: 1,
		}, combine)[0]
	return b.Reshape(sum, dims)
}
