package ops

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Gradients of views, and views written out of place: a value put into a window of another, or
// of zeros.

func init() {
	register(
		&Row{Name: "select_backward", Meta: metaSelectBackward, Lower: lowerPlace, Variables: variableIntegers(1)},
		&Row{Name: "slice_backward", Meta: metaSliceBackward, Lower: lowerPlace, Variables: variableIntegers(1)},
		&Row{Name: "diagonal_backward", Meta: metaDiagonalBackward, Lower: lowerDiagonal, Variables: variableIntegers(2)},
		&Row{Name: "unfold_backward", Meta: metaUnfoldBackward, Lower: lowerUnfoldBackward},
		&Row{Name: "select_scatter", Meta: metaSelectScatter, Lower: lowerPlace, Variables: variableIntegers(1)},
		&Row{Name: "slice_scatter", Meta: metaSliceScatter, Lower: lowerPlace, Variables: variableIntegers(1)},
		&Row{Name: "diagonal_scatter", Meta: metaDiagonalScatter, Lower: lowerDiagonal, Variables: variableIntegers(2)},
		&Row{Name: "as_strided_scatter", Meta: metaStridedScatter, Lower: lowerStridedScatter, Variables: variableIntegers(0)},
	)
}

// place declares the window start, start+step, ... of dimension dim of an array of dims, filled
// with value; outside are zeros, or the elements of base where there is one.
func (c *Call) place(value, base *ir.Node, dims []int64, dim int, start, step int64) error {
	c.Operand(value)
	d := value.Dtype
	if base != nil {
		c.Operand(base)
		d = base.Dtype
	}
	c.Attr(int64(dim), start, step)
	return c.Out(d, dims)
}

func lowerPlace(l *ir.Lowering) hlo.Value {
	b := l.B
	dim, start, step := int(l.Int()), l.Number(), l.Int()
	size := l.Dims[dim]
	rest := shape.Product(l.Dims) / max(size, 1)
	x := as(b, l.In(0), l.Dtype)
	count := int64(0)
	if rest > 0 {
		count = shape.Product(x.Dims()) / rest
	}
	if count == 0 {
		if l.Count() == 2 {
			return l.In(1)
		}
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	x = b.Reshape(x, replaceDim(l.Dims, dim, count))
	rank := len(l.Dims)
	if l.Count() == 2 && step == 1 {
		return b.DynamicUpdateSlice(l.In(1), x, startsAt(b, rank, dim, start.In(b, dtype.S64)))
	}
	low, high, interior := make([]int64, rank), make([]int64, rank), make([]int64, rank)
	interior[dim] = step - 1
	if start.IsParameter() {
		starts := startsAt(b, rank, dim, start.In(b, dtype.S64))
		window, base := b.Pad(x, b.Scalar(l.Dtype, 0), low, high, interior), b.Full(l.Dtype, 0, l.Dims...)
		if l.Count() == 2 {
			base = l.In(1)
			marks := b.Pad(b.Full(dtype.Bool, 1, count), b.Scalar(dtype.Bool, 0), low[dim:dim+1], high[dim:dim+1], interior[dim:dim+1])
			window = b.Select(b.Broadcast(marks, window.Dims(), []int{dim}), window, b.DynamicSlice(base, starts, window.Dims()))
		}
		return b.DynamicUpdateSlice(base, window, starts)
	}
	low[dim] = start.Constant
	high[dim] = size - start.Constant - (count-1)*step - 1
	padded := b.Pad(x, b.Scalar(l.Dtype, 0), low, high, interior)
	if l.Count() == 1 {
		return padded
	}
	marks := b.Pad(b.Full(dtype.Bool, 1, count), b.Scalar(dtype.Bool, 0), low[dim:dim+1], high[dim:dim+1], interior[dim:dim+1])
	return b.Select(b.Broadcast(marks, l.Dims, []int{dim}), padded, l.In(1))
}

// selected normalises the index of a select on dims.
func (c *Call) selected(dims []int64, dimArgument, indexArgument int) (dim int, index int64, err error) {
	if len(dims) == 0 {
		return 0, 0, status.Torchf(status.IndexError, "select() cannot be applied to a 0-dim tensor.")
	}
	if dim, err = c.Dim(c.Int(dimArgument, 0), len(dims)); err != nil {
		return 0, 0, err
	}
	index = c.Int(indexArgument, 0)
	size := dims[dim]
	if index < -size || index >= size {
		return 0, 0, status.Torchf(status.IndexError, "select(): index %d out of range for tensor of size %s at dimension %d", index, dimsText(dims), dim)
	}
	if index < 0 {
		index += size
	}
	return dim, index, nil
}

// metaSelectBackward: (grad_output, input_sizes, dim, index).
func metaSelectBackward(c *Call) error {
	dims := c.Ints(1)
	dim, index, err := c.selected(dims, 2, 3)
	if err != nil {
		return err
	}
	return c.place(c.Node(0), nil, dims, dim, index, 1)
}

// metaSelectScatter: (self, src, dim, index).
func metaSelectScatter(c *Call) error {
	dims := c.Dims(0)
	dim, index, err := c.selected(dims, 2, 3)
	if err != nil {
		return err
	}
	if want := replaceDim(dims, dim); !slices.Equal(want, c.Dims(1)) {
		return Errorf("expected src to have a size equal to the slice of self. src size = %s, slice size = %s", dimsText(c.Dims(1)), dimsText(want))
	}
	return c.place(c.Node(1), c.Node(0), dims, dim, index, 1)
}

// sliced clamps the start and end of a slice of dims and gives the number of its elements.
func (c *Call) sliced(dims []int64, dimArgument, startArgument int) (dim int, start, count, step int64, err error) {
	if len(dims) == 0 {
		return 0, 0, 0, 0, Errorf("slice() cannot be applied to a 0-dim tensor.")
	}
	if dim, err = c.Dim(c.Int(dimArgument, 0), len(dims)); err != nil {
		return 0, 0, 0, 0, err
	}
	size := dims[dim]
	start, step = c.Int(startArgument, 0), c.Int(startArgument+2, 1)
	end := c.Int(startArgument+1, size)
	if step <= 0 {
		return 0, 0, 0, 0, Errorf("slice step must be positive")
	}
	bound := func(v int64) int64 {
		if v < 0 {
			v += size
		}
		return min(max(v, 0), size)
	}
	start = bound(start)
	end = max(bound(end), start)
	return dim, start, (end - start + step - 1) / step, step, nil
}

// metaSliceBackward: (grad_output, input_sizes, dim, start, end, step).
func metaSliceBackward(c *Call) error {
	dims := c.Ints(1)
	dim, start, count, step, err := c.sliced(dims, 2, 3)
	if err != nil {
		return err
	}
	if want := replaceDim(dims, dim, count); !slices.Equal(want, c.Dims(0)) {
		return Errorf("The expanded size of the tensor %s must match the existing size %s", dimsText(want), dimsText(c.Dims(0)))
	}
	return c.place(c.Node(0), nil, dims, dim, start, step)
}

// metaSliceScatter: (self, src, dim, start, end, step).
func metaSliceScatter(c *Call) error {
	dims := c.Dims(0)
	dim, start, count, step, err := c.sliced(dims, 2, 3)
	if err != nil {
		return err
	}
	if want := replaceDim(dims, dim, count); !slices.Equal(want, c.Dims(1)) {
		return Errorf("expected src to have a size equal to the slice of self. src size = %s, slice size = %s", dimsText(c.Dims(1)), dimsText(want))
	}
	return c.place(c.Node(1), c.Node(0), dims, dim, start, step)
}

// diagonal checks the dimensions of a diagonal of dims and gives the diagonal's sizes.
func (c *Call) diagonal(dims []int64, offsetArgument int) (dim1, dim2 int, offset int64, sizes []int64, err error) {
	offset = c.Int(offsetArgument, 0)
	if dim1, err = c.Dim(c.Int(offsetArgument+1, 0), len(dims)); err != nil {
		return
	}
	if dim2, err = c.Dim(c.Int(offsetArgument+2, 1), len(dims)); err != nil {
		return
	}
	if dim1 == dim2 {
		err = Errorf("diagonal dimensions cannot be identical %d, %d", c.Int(offsetArgument+1, 0), c.Int(offsetArgument+2, 1))
		return
	}
	for k, n := range dims {
		if k != dim1 && k != dim2 {
			sizes = append(sizes, n)
		}
	}
	length := min(dims[dim1]+min(offset, 0), dims[dim2]-max(offset, 0))
	return dim1, dim2, offset, append(sizes, max(length, 0)), nil
}

// metaDiagonalBackward: (grad_output, input_sizes, offset, dim1, dim2).
func metaDiagonalBackward(c *Call) error {
	dims := c.Ints(1)
	dim1, dim2, offset, _, err := c.diagonal(dims, 2)
	if err != nil {
		return err
	}
	c.Operand(c.Node(0))
	c.Attr(int64(dim1), int64(dim2), offset)
	return c.Out(c.Dtype(0), dims)
}

// metaDiagonalScatter: (self, src, offset, dim1, dim2).
func metaDiagonalScatter(c *Call) error {
	dims := c.Dims(0)
	dim1, dim2, offset, want, err := c.diagonal(dims, 2)
	if err != nil {
		return err
	}
	if !slices.Equal(want, c.Dims(1)) {
		return Errorf("expected src to have a size equal to the slice of self. src size = %s, slice size = %s", dimsText(c.Dims(1)), dimsText(want))
	}
	c.Operand(c.Node(1), c.Node(0))
	c.Attr(int64(dim1), int64(dim2), offset)
	return c.Out(c.Dtype(0), dims)
}

// lowerDiagonal puts the last dimension of operand 0 on a diagonal.
func lowerDiagonal(l *ir.Lowering) hlo.Value {
	b := l.B
	dim1, dim2, offset := int(l.Int()), int(l.Int()), l.Number()
	base := b.Full(l.Dtype, 0, l.Dims...)
	if l.Count() == 2 {
		base = l.In(1)
	}
	x := as(b, l.In(0), l.Dtype)
	if shape.Product(x.Dims()) == 0 {
		return base
	}
	return putDiagonal(b, base, x, dim1, dim2, offset)
}

// metaUnfoldBackward: (grad_in, input_sizes, dim, size, step).
func metaUnfoldBackward(c *Call) error {
	dims := c.Ints(1)
	dim, err := c.Dim(c.Int(2, 0), len(dims))
	if err != nil {
		return err
	}
	c.Operand(c.Node(0))
	c.Attr(int64(dim), c.Int(3, 1), c.Int(4, 1))
	return c.Out(c.Dtype(0), dims)
}

// lowerUnfoldBackward adds up, for each offset inside the windows, the gradients of all windows
// at that offset: they lie step apart.
func lowerUnfoldBackward(l *ir.Lowering) hlo.Value {
	b := l.B
	dim, size, step := int(l.Int()), l.Int(), l.Int()
	compute := l.Dtype.OpMath()
	grad := as(b, l.In(0), compute)
	if len(l.Dims) == 0 {
		return as(b, b.Reshape(grad, nil), l.Dtype)
	}
	result := b.Full(compute, 0, l.Dims...)
	last := grad.Rank() - 1
	windows := grad.Dims()[dim]
	if shape.Product(grad.Dims()) == 0 {
		return as(b, result, l.Dtype)
	}
	rank := len(l.Dims)
	for k := range size {
		part := b.Reshape(sliceDim(b, grad, last, k, k+1), grad.Dims()[:last])
		low, high, interior := make([]int64, rank), make([]int64, rank), make([]int64, rank)
		low[dim], interior[dim] = k, step-1
		high[dim] = l.Dims[dim] - k - (windows-1)*step - 1
		result = b.Binary(hlo.Add, result, b.Pad(part, b.Scalar(compute, 0), low, high, interior))
	}
	return as(b, result, l.Dtype)
}

// metaStridedScatter: (self, src, size, stride, storage_offset).
func metaStridedScatter(c *Call) error {
	self := &c.Args[0].View
	size, stride := c.Ints(2), c.Ints(3)
	if !slices.Equal(size, c.Dims(1)) {
		return Errorf("expected src to have a size equal to the slice of self. src size = %s, slice size = %s", dimsText(c.Dims(1)), dimsText(size))
	}
	if self.Offset != 0 || !isContiguous(self.Sizes, self.Strides) {
		return fallback(c, "a self that is not contiguous keeps its strides")
	}
	offset := c.Int(4, 0)
	last := offset
	for k, n := range size {
		last += max(n-1, 0) * stride[k]
	}
	if shape.Product(size) > 0 && last >= shape.Product(self.Sizes) {
		return fallback(c, "the window reaches outside of self")
	}
	c.Operand(c.Node(0), c.Node(1))
	c.Attr(offset)
	c.Attr(stride...)
	return c.Out(c.Dtype(0), self.Sizes)
}

// isContiguous says whether the strides are those of a row-major array.
func isContiguous(sizes, strides []int64) bool {
	want := int64(1)
	for k := len(sizes) - 1; k >= 0; k-- {
		if sizes[k] != 1 && strides[k] != want {
			return shape.Product(sizes) == 0
		}
		want *= sizes[k]
	}
	return true
}

func lowerStridedScatter(l *ir.Lowering) hlo.Value {
	b, source := l.B, as(l.B, l.In(1), l.Dtype)
	offset, stride := l.Number(), l.Rest()
	dims := source.Dims()
	t := positionType(shape.Product(l.Dims))
	positions := b.Broadcast(offset.In(b, t), dims, nil)
	for k := range dims {
		along := b.Binary(hlo.Multiply, b.Iota(t, dims, k), b.FullInt(t, stride[k], dims...))
		positions = b.Binary(hlo.Add, positions, along)
	}
	return putElements(b, l.In(0), positions, source, hlo.Second)
}
