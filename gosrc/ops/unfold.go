package ops

import (
	"fmt"
	"slices"
	"strings"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Sliding blocks as columns and back (torch.nn.Unfold, Fold), and the inverse of max pooling.

func init() {
	register(
		&Row{Name: "im2col", Out: []string{"im2col.out"}, Meta: metaIm2col, Lower: lowerIm2col},
		&Row{Name: "col2im", Out: []string{"col2im.out"}, Meta: metaCol2im, Lower: lowerCol2im},
		&Row{Name: "max_unpool2d", Checks: true, Out: []string{"max_unpool2d.out"}, Meta: metaMaxUnpool(2), Lower: lowerMaxUnpool},
		&Row{Name: "max_unpool3d", Checks: true, Out: []string{"max_unpool3d.out"}, Meta: metaMaxUnpool(3), Lower: lowerMaxUnpool},
	)
}

// blockArguments reads kernel_size, dilation, padding and stride from argument first on.
func (c *Call) blockArguments(first int) (pool, error) {
	p := pool{kernel: c.Ints(first), dilation: c.Ints(first + 1), padding: c.Ints(first + 2), stride: c.Ints(first + 3)}
	for _, a := range []struct {
		name string
		v    []int64
	}{{"kernel_size", p.kernel}, {"dilation", p.dilation}, {"padding", p.padding}, {"stride", p.stride}} {
		if len(a.v) != 2 {
			return p, Errorf("It is expected %s equals to 2, but got size %d", a.name, len(a.v))
		}
	}
	for _, a := range []struct {
		name, prefix, rule string
		v                  []int64
		least              int64
	}{
		{"kernel size", "kernel", "greater than zero", p.kernel, 1},
		{"dilation", "dilation", "greater than zero", p.dilation, 1},
		{"padding", "pad", "non-negative", p.padding, 0},
		{"stride", "stride", "greater than zero", p.stride, 1},
	} {
		if a.v[0] < a.least || a.v[1] < a.least {
			return p, Errorf("%s should be %s, but got %s_height: %d %s_width: %d", a.name, a.rule, a.prefix, a.v[0], a.prefix, a.v[1])
		}
	}
	return p, nil
}

// blocks gives the number of blocks along each dimension of an image.
func (p *pool) blocks(image []int64) [2]int64 {
	var n [2]int64
	for i := range n {
		room := image[i] + 2*p.padding[i] - p.dilation[i]*(p.kernel[i]-1) - 1
		n[i] = room/p.stride[i] + 1
		if room%p.stride[i] != 0 && room < 0 {
			n[i]--
		}
	}
	return n
}

func pair(v []int64) string { return fmt.Sprintf("(%d, %d)", v[0], v[1]) }

// metaIm2col: self, kernel_size, dilation, padding, stride.
func metaIm2col(c *Call) error {
	p, err := c.blockArguments(1)
	if err != nil {
		return err
	}
	x := c.Dims(0)
	if len(x) < 3 {
		if _, err := c.Dim(2, len(x)); err != nil {
			return err
		}
	}
	if len(x) > 4 || shape.Product(x[len(x)-3:]) == 0 {
		return Errorf("Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: %s", dimsText(x))
	}
	image := x[len(x)-2:]
	n := p.blocks(image)
	if n[0] < 1 || n[1] < 1 {
		return Errorf("Given input with spatial size %s, kernel_size=%s, dilation=%s, padding=%s, calculated shape of the array of sliding blocks as %s, but its components must be at least one.",
			pair(image), pair(p.kernel), pair(p.dilation), pair(p.padding), pair(n[:]))
	}
	d := c.Dtype(0)
	if d.IsInteger() || d.IsFloat() && d.Size() == 1 {
		return notImplemented("im2col_out_cpu", d)
	}
	first := len(x) - 3
	dims := append(slices.Clone(x[:first]), x[first]*p.kernel[0]*p.kernel[1], n[0]*n[1])
	c.Operand(c.Node(0))
	p.attach(c)
	return c.Out(d, dims)
}

// lowerIm2col puts a strided slice of the padded image for each position of the kernel side by side.
func lowerIm2col(l *ir.Lowering) hlo.Value {
	b, p, x := l.B, readPool(l), l.In(0)
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	in := x.Dims()
	first := len(in) - 2
	n := p.blocks(in[first:])
	low, none := make([]int64, len(in)), make([]int64, len(in))
	copy(low[first:], p.padding)
	padded := b.Pad(x, b.Full(l.Dtype, 0), low, low, none)
	column := append(append(slices.Clone(in[:first]), 1), n[0]*n[1])
	var parts []hlo.Value
	for _, offset := range p.offsets() {
		start, limit, stride := make([]int64, len(in)), slices.Clone(in), make([]int64, len(in))
		for i := range stride {
			stride[i] = 1
		}
		for i, o := range offset {
			start[first+i], stride[first+i] = o+p.padding[i], p.stride[i]
			limit[first+i] = start[first+i] + (n[i]-1)*p.stride[i] + 1
		}
		parts = append(parts, b.Reshape(b.Slice(padded, start, limit, stride), column))
	}
	return b.Reshape(b.Concatenate(parts, first), l.Dims)
}

// metaCol2im: self, output_size, kernel_size, dilation, padding, stride.
func metaCol2im(c *Call) error {
	size := c.Ints(1)
	if len(size) != 2 {
		return Errorf("It is expected output_size equals to 2, but got size %d", len(size))
	}
	p, err := c.blockArguments(2)
	if err != nil {
		return err
	}
	x := c.Dims(0)
	rank := len(x)
	if rank != 2 && rank != 3 || shape.Product(x[rank-2:]) == 0 {
		return Errorf("Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: %s", dimsText(x))
	}
	kernel := p.kernel[0] * p.kernel[1]
	if x[rank-2]%kernel != 0 {
		return Errorf("Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)=%d and kernel_size=%s.", x[rank-2], pair(p.kernel))
	}
	n := p.blocks(size)
	if n[0]*n[1] != x[rank-1] {
		return Errorf("Given output_size=%s, kernel_size=%s, dilation=%s, padding=%s, stride=%s, expected size of input's dimension 2 to match the calculated number of sliding blocks %d * %d = %d, but got input.size(2)=%d.",
			pair(size), pair(p.kernel), pair(p.dilation), pair(p.padding), pair(p.stride), n[0], n[1], n[0]*n[1], x[rank-1])
	}
	d := c.Dtype(0)
	if d.IsInteger() || d.IsFloat() && d.Size() == 1 {
		return notImplemented("col2im_out_cpu", d)
	}
	c.Operand(c.Node(0))
	p.attach(c)
	return c.Out(d, append(slices.Clone(x[:rank-2]), x[rank-2]/kernel, size[0], size[1]))
}

// lowerCol2im adds up, for each position of the kernel, its blocks spread over the image.
func lowerCol2im(l *ir.Lowering) hlo.Value {
	b, p := l.B, readPool(l)
	compute := l.Dtype.OpMath()
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	first := len(l.Dims) - 2
	n := p.blocks(l.Dims[first:])
	offsets := p.offsets()
	split := append(slices.Clone(l.Dims[:first]), int64(len(offsets)), n[0], n[1])
	x := b.Reshape(as(b, l.In(0), compute), split)
	block := append(slices.Clone(l.Dims[:first]), n[0], n[1])
	var sum hlo.Value
	for k, offset := range offsets {
		start, limit := make([]int64, len(split)), slices.Clone(split)
		start[first], limit[first] = int64(k), int64(k+1)
		part := p.spread(b, b.Reshape(b.Slice(x, start, limit, nil), block), offset, l.Dims)
		if sum.Valid() {
			part = arithmetic(b, hlo.Add, sum, part)
		}
		sum = part
	}
	return as(b, sum, l.Dtype)
}

// spread puts the values of the windows' positions at offset into an array of the given dims that
// is zero elsewhere.
func (p *pool) spread(b *hlo.Builder, x hlo.Value, offset, dims []int64) hlo.Value {
	out := x.Dims()
	first := len(dims) - len(offset)
	low, high, holes := make([]int64, len(out)), make([]int64, len(out)), make([]int64, len(out))
	for i, o := range offset {
		k := first + i
		low[k], holes[k] = o, p.stride[i]-1
		high[k] = dims[k] - o - (out[k]-1)*p.stride[i] - 1
	}
	return b.Pad(x, b.Full(x.Dtype(), 0), low, high, holes)
}

// metaMaxUnpool: self, indices, output_size, and in three dimensions stride and padding.
func metaMaxUnpool(spatial int) func(c *Call) error {
	number, names := "two", "(height, width)"
	if spatial == 3 {
		number, names = "three", "(depth, height, width)"
	}
	return func(c *Call) error {
		x, size := c.Dims(0), c.Ints(2)
		if len(size) != spatial {
			return Errorf("There should be exactly %s elements %s in output_size, but got %d elements.", number, names, len(size))
		}
		for i, name := range []string{"stride", "padding"} {
			if spatial == 3 && len(c.Ints(3+i)) != 3 {
				return Errorf("There should be exactly three elements %s in %s, but got: %d elements.", names, name, len(c.Ints(3+i)))
			}
		}
		if c.Dtype(1) != dtype.S64 {
			return Errorf("elements in indices should be type int64 but got: %s", torchClass(c.Dtype(1)))
		}
		if len(x) != spatial+1 && len(x) != spatial+2 {
			return Errorf("Input to max_unpooling%dd should be a %dd or %dd Tensor, but got a tensor with %d dimensions.", spatial, spatial+1, spatial+2, len(x))
		}
		if !slices.Equal(x, c.Dims(1)) {
			return Errorf("Expected shape of indices to be same as that of the input tensor (%s) but got indices tensor with shape: %s", dimsText(x), dimsText(c.Dims(1)))
		}
		if spatial == 3 && slices.Min(c.Ints(3)) <= 0 {
			return Errorf("strides should be greater than zero, but got stride: %s", dimsText(c.Ints(3)))
		}
		for i := 1; i < len(x); i++ {
			if x[i] == 0 {
				return Errorf("max_unpooling%dd_forward_out_cpu(): Expected input to have non-zero size for non-batch dimensions, but input has sizes %s with dimension %d being empty", spatial, dimsText(x), i)
			}
		}
		d := c.Dtype(0)
		if d == dtype.Bool || d.IsComplex() || d.IsFloat() && d.Size() == 1 {
			return notImplemented(strings.TrimSuffix(c.row.Name, ".out"), d)
		}
		c.Operand(c.Node(0), c.Node(1))
		c.Attr(int64(spatial))
		return c.Out(d, append(slices.Clone(x[:len(x)-spatial]), size...))
	}
}

// lowerMaxUnpool writes each value to its position in a plane of zeros; XLA drops a position outside the plane.
func lowerMaxUnpool(l *ir.Lowering) hlo.Value {
	b, spatial := l.B, int(l.Int())
	if shape.Product(l.Dims) == 0 || shape.Product(l.In(0).Dims()) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	plane := l.Dims[len(l.Dims)-spatial:]
	size := make([]string, spatial)
	for i, n := range plane {
		size[i] = fmt.Sprint(n)
	}
	l.CheckRange(1, 0, shape.Product(plane), ir.Refusal{
		Exception: status.RuntimeError,
		Text:      fmt.Sprintf("Found an invalid max index: %s (output volumes are of size %s)", ir.CheckedValue, strings.Join(size, "x")),
	})
	last := b.Computation("last", func(s *hlo.Builder) {
		s.Parameter(shape.Make(l.Dtype), "old")
		s.Return(s.Parameter(shape.Make(l.Dtype), "new"))
	})
	return scatterPlanes(b, l.In(0), l.In(1), l.Dims, spatial, last)
}
