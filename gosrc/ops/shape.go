package ops

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Joining, padding, repeating and reordering.

func init() {
	register(
		&Row{Name: "cat", Out: []string{"cat.out"}, Meta: metaCat, Lower: lowerCat},
		&Row{Name: "stack", Out: []string{"stack.out"}, Meta: metaStack, Lower: lowerStack},
		&Row{Name: "constant_pad_nd", Meta: metaPad, Lower: lowerPad, Variables: variableFrom(0)},
		&Row{Name: "flip", Meta: metaFlip, Lower: lowerFlip},
		&Row{Name: "narrow_copy", Out: []string{"narrow_copy.out"}, Meta: metaNarrowCopy, Lower: lowerNarrowCopy},
		&Row{Name: "roll", Meta: metaRoll, Lower: lowerRoll, Variables: variableShifts},
		&Row{Name: "repeat", Meta: metaRepeat, Lower: lowerRepeat},
		&Row{Name: "tril", InPlace: []string{"tril_"}, Out: []string{"tril.out"}, Meta: metaTriangle, Lower: lowerTriangle("GE"), Variables: variableIntegers(0)},
		&Row{Name: "triu", InPlace: []string{"triu_"}, Out: []string{"triu.out"}, Meta: metaTriangle, Lower: lowerTriangle("LE"), Variables: variableIntegers(0)},
		&Row{Name: "diag_embed", Meta: metaDiagEmbed, Lower: lowerDiagEmbed, Variables: variableIntegers(0)},
		&Row{Name: "channel_shuffle", Meta: metaChannelShuffle, Lower: lowerShuffle},
		&Row{Name: "pixel_shuffle", Meta: metaPixelShuffle, Lower: lowerShuffle},
		&Row{Name: "pixel_unshuffle", Meta: metaPixelUnshuffle, Lower: lowerShuffle},
	)
}

// listType promotes the tensors of list argument i.
func (c *Call) listType(i int) (dtype.Dtype, error) {
	d := dtype.Invalid
	var err error
	for k := range c.Args[i].Tensors {
		if d, err = promoteTypes(d, c.Args[i].Tensors[k].Dtype); err != nil {
			return d, err
		}
	}
	return d, nil
}

// isSkipped says whether cat ignores a tensor's sizes: an empty one of one dimension, for the sake
// of old programs.
func isSkipped(a *Argument) bool { return len(a.View.Sizes) == 1 && a.View.Sizes[0] == 0 }

func metaCat(c *Call) error {
	list := c.Args[0].Tensors
	if len(list) == 0 {
		return status.Torchf(status.ValueError, "torch.cat(): expected a non-empty list of Tensors")
	}
	var first *Argument
	for k := range list {
		a := &list[k]
		if len(a.View.Sizes) == 0 {
			return Errorf("zero-dimensional tensor (at position %d) cannot be concatenated", k)
		}
		if first == nil && !isSkipped(a) {
			first = a
		}
	}
	d, err := c.listType(0)
	if err != nil {
		return err
	}
	if first == nil {
		if _, err := c.Dim(c.Int(1, 0), 1); err != nil {
			return err
		}
		c.Operand(c.NodeOf(&list[0]))
		c.Attr(0)
		return c.Out(d, list[0].View.Sizes)
	}
	dim, err := c.Dim(c.Int(1, 0), len(first.View.Sizes))
	if err != nil {
		return err
	}
	total := int64(0)
	for k := range list {
		a := &list[k]
		if isSkipped(a) {
			continue
		}
		if err := checkCat(first.View.Sizes, a.View.Sizes, dim, k); err != nil {
			return err
		}
		total += a.View.Sizes[dim]
		c.Operand(c.NodeOf(a))
	}
	c.Attr(int64(dim))
	return c.Out(d, c.withDim(first.View.Sizes, dim, total))
}

func checkCat(first, sizes []int64, dim, position int) error {
	if len(first) != len(sizes) {
		return Errorf("Tensors must have same number of dimensions: got %d and %d", len(first), len(sizes))
	}
	for k, n := range sizes {
		if k != dim && n != first[k] {
			return Errorf("Sizes of tensors must match except in dimension %d. Expected size %d but got size %d for tensor number %d in the list.",
				dim, first[k], n, position)
		}
	}
	return nil
}

func lowerCat(l *ir.Lowering) hlo.Value {
	parts := inputs(l, 0, l.Count())
	for i := range parts {
		parts[i] = as(l.B, parts[i], l.Dtype)
	}
	return l.B.Concatenate(parts, int(l.Int()))
}

func metaStack(c *Call) error {
	list := c.Args[0].Tensors
	if len(list) == 0 {
		return Errorf("stack expects a non-empty TensorList")
	}
	first := list[0].View.Sizes
	dim, err := c.Dim(c.Int(1, 0), len(first)+1)
	if err != nil {
		return err
	}
	for k := range list {
		if sizes := list[k].View.Sizes; !slices.Equal(first, sizes) {
			return Errorf("stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %d", dimsText(first), dimsText(sizes), k)
		}
	}
	d, err := c.listType(0)
	if err != nil {
		return err
	}
	for k := range list {
		c.Operand(c.NodeOf(&list[k]))
	}
	c.Attr(int64(dim))
	c.dims = slices.Insert(append(c.dims[:0], first...), dim, int64(len(list)))
	return c.Out(d, c.dims)
}

func lowerStack(l *ir.Lowering) hlo.Value {
	dim := int(l.Int())
	one := slices.Clone(l.Dims)
	one[dim] = 1
	parts := inputs(l, 0, l.Count())
	for i := range parts {
		parts[i] = l.B.Reshape(as(l.B, parts[i], l.Dtype), one)
	}
	return l.B.Concatenate(parts, dim)
}

func metaPad(c *Call) error {
	pad, sizes := c.Ints(1), c.Dims(0)
	if len(pad)%2 != 0 {
		return Errorf("Length of pad must be even but instead it equals %d", len(pad))
	}
	if len(pad)/2 > len(sizes) {
		return Errorf("Length of pad should be no more than twice the number of dimensions of the input. Pad length is %dwhile the input has %ddimensions.", len(pad), len(sizes))
	}
	c.dims = append(c.dims[:0], sizes...)
	for i := 0; i < len(pad); i += 2 {
		k := len(sizes) - 1 - i/2
		low, high := pad[i], pad[i+1]
		if sizes[k]+min(low, 0)+min(high, 0) < 0 {
			return Errorf("narrow(): length must be non-negative.")
		}
		c.dims[k] += low + high
		if c.dims[k] < 0 {
			return Errorf("The input size %d, plus negative padding %d and %d, resulted in a negative output size, which is invalid. Check dimension %d of your input.",
				sizes[k], low, high, k)
		}
	}
	c.Operand(c.Node(0))
	if c.IsNone(2) {
		c.Operand(c.FloatNode(0, c.Dtype(0)))
	} else {
		value, err := c.fillValue(2, c.Dtype(0))
		if err != nil {
			return err
		}
		c.Operand(value)
	}
	for i := 0; i < len(pad); i += 2 { // what comes after follows from the sizes
		c.Attr(pad[i])
	}
	return c.Out(c.Dtype(0), c.dims)
}

// lowerPad reads, from the last dimension on, how many elements come before. Where that is a parameter, x gets as
// many on both sides as the result has, of which a slice is the result.
func lowerPad(l *ir.Lowering) hlo.Value {
	b, rank := l.B, len(l.Dims)
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	low, high := make([]int64, rank), make([]int64, rank)
	var starts []hlo.Value
	for k := rank - 1; l.Left() > 0; k-- {
		before, added := l.Number(), l.Dims[k]-l.In(0).Dims()[k]
		if !before.IsParameter() {
			low[k], high[k] = before.Constant, added-before.Constant
			continue
		}
		if starts == nil {
			starts = startsAt(b, rank, 0, b.ScalarInt(dtype.S64, 0))
		}
		low[k], high[k] = l.Dims[k], l.Dims[k]
		starts[k] = b.Binary(hlo.Subtract, b.ScalarInt(dtype.S64, l.Dims[k]), before.In(b, dtype.S64))
	}
	x := b.Pad(l.In(0), as(b, l.In(1), l.Dtype), low, high, nil)
	if starts != nil {
		x = b.DynamicSlice(x, starts, l.Dims)
	}
	return x
}

func metaFlip(c *Call) error {
	rank := c.Rank(0)
	c.Operand(c.Node(0))
	for i, d := range c.Ints(1) {
		dim, err := c.Dim(d, rank)
		if err != nil {
			return err
		}
		if slices.Contains(c.attrs[:i], int64(dim)) {
			return Errorf("dim %d appears multiple times in the list of dims", dim)
		}
		c.Attr(int64(dim))
	}
	return c.Out(c.Dtype(0), c.Dims(0))
}

func lowerFlip(l *ir.Lowering) hlo.Value {
	if len(l.Dims) == 0 {
		return l.In(0)
	}
	var dims []int
	for _, d := range l.Rest() {
		dims = append(dims, int(d))
	}
	return l.B.Reverse(l.In(0), dims...)
}

func metaRoll(c *Call) error {
	shifts, dims, sizes := c.Ints(1), c.Ints(2), c.Dims(0)
	if len(dims) != 1 || len(shifts) != 1 {
		switch {
		case len(shifts) == 0:
			return Errorf("`shifts` required")
		case len(dims) == 0 && len(shifts) == 1:
		case len(shifts) != len(dims):
			return Errorf("shifts and dimensions must align. shifts: %d, dims:%d", len(shifts), len(dims))
		}
	}
	for i, d := range dims {
		dim, err := c.Dim(d, len(sizes))
		if err != nil {
			return err
		}
		if len(sizes) > 0 {
			c.Attr(int64(dim), floorModulo(shifts[i], sizes[dim]))
		}
	}
	if len(dims) == 0 {
		c.Attr(-1, floorModulo(shifts[0], shape.Product(sizes)))
	}
	c.Operand(c.Node(0))
	return c.Out(c.Dtype(0), sizes)
}

// floorModulo gives a modulo n with n's sign, 0 for n of 0.
func floorModulo(a, n int64) int64 {
	if n == 0 {
		return 0
	}
	return ((a % n) + n) % n
}

// variableShifts are every second attribute, the shifts of the pairs.
func variableShifts(*ir.Node) ir.Variables { return ir.Variables{Integers: 0xaaaaaaaaaaaaaaaa} }

// lowerRoll reads pairs (dimension, shift); dimension -1 is the flattened tensor.
func lowerRoll(l *ir.Lowering) hlo.Value {
	b, x := l.B, l.In(0)
	if shape.Product(l.Dims) == 0 {
		return x
	}
	for l.Left() > 0 {
		dim, number := int(l.Int()), l.Number()
		shift := number.Constant
		if shift == 0 && !number.IsParameter() {
			continue
		}
		if dim < 0 {
			dim = 0
			x = b.Reshape(x, []int64{shape.Product(l.Dims)})
		}
		cut := x.Dims()[dim] - shift
		if number.IsParameter() {
			start := b.Binary(hlo.Subtract, b.ScalarInt(dtype.S64, cut), number.In(b, dtype.S64))
			x = b.DynamicSlice(b.Concatenate([]hlo.Value{x, x}, dim), startsAt(b, x.Rank(), dim, start), x.Dims())
			continue
		}
		x = b.Concatenate([]hlo.Value{sliceDim(b, x, dim, cut, cut+shift), sliceDim(b, x, dim, 0, cut)}, dim)
	}
	return b.Reshape(x, l.Dims)
}

// sliceDim takes [from, to) of one dimension.
func sliceDim(b *hlo.Builder, x hlo.Value, dim int, from, to int64) hlo.Value {
	start, limit := make([]int64, x.Rank()), slices.Clone(x.Dims())
	start[dim], limit[dim] = from, to
	return b.Slice(x, start, limit, nil)
}

func metaRepeat(c *Call) error {
	repeats, sizes := c.Ints(1), c.Dims(0)
	lead := len(repeats) - len(sizes)
	if lead < 0 {
		return Errorf("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
	}
	c.dims = append(c.dims[:0], repeats...)
	for i, n := range sizes {
		c.dims[lead+i] *= n
	}
	for _, n := range c.dims {
		if n < 0 {
			return Errorf("Trying to create tensor with negative dimension %d: %s", n, dimsText(c.dims))
		}
	}
	c.Operand(c.Node(0))
	c.AttrInts(repeats)
	return c.Out(c.Dtype(0), c.dims)
}

func lowerRepeat(l *ir.Lowering) hlo.Value {
	repeats, x := l.Ints(), l.In(0)
	lead := len(repeats) - x.Rank()
	// Each dimension becomes a pair (repeat, size) and then one again.
	var pairs []int64
	var at []int
	for i, n := range repeats {
		pairs = append(pairs, n)
		if i >= lead {
			at = append(at, len(pairs))
			pairs = append(pairs, x.Dims()[i-lead])
		}
	}
	return l.B.Reshape(l.B.Broadcast(x, pairs, at), l.Dims)
}

func metaTriangle(c *Call) error {
	if c.Rank(0) < 2 {
		return Errorf("%s: input tensor must have at least 2 dimensions", c.row.Name)
	}
	c.Operand(c.Node(0))
	c.Attr(c.Int(1, 0))
	return c.Out(c.Dtype(0), c.Dims(0))
}

// lowerTriangle keeps the elements whose row plus diagonal compares so with their column.
func lowerTriangle(direction string) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		b, rank := l.B, len(l.Dims)
		matrix := l.Dims[rank-2:]
		// Beyond the matrix all diagonals are alike; s32 then holds every sum.
		number, low, high := l.Number(), -matrix[0]-1, matrix[1]+1
		diagonal := b.ScalarInt(dtype.S32, min(max(number.Constant, low), high))
		if number.IsParameter() {
			diagonal = b.Convert(b.Clamp(b.ScalarInt(dtype.S64, low), number.In(b, dtype.S64), b.ScalarInt(dtype.S64, high)), dtype.S32)
		}
		row := b.Binary(hlo.Add, b.Iota(dtype.S32, matrix, 0), b.Broadcast(diagonal, matrix, nil))
		keep := b.Compare(direction, row, b.Iota(dtype.S32, matrix, 1))
		mask := b.Broadcast(keep, l.Dims, []int{rank - 2, rank - 1})
		return b.Select(mask, l.In(0), b.Full(l.Dtype, 0, l.Dims...))
	}
}

func metaDiagEmbed(c *Call) error {
	sizes, offset := c.Dims(0), c.Int(1, 0)
	rank := len(sizes) + 1
	dim1, err := c.Dim(c.Int(2, -2), rank)
	if err != nil {
		return err
	}
	dim2, err := c.Dim(c.Int(3, -1), rank)
	if err != nil {
		return err
	}
	if dim1 == dim2 {
		return Errorf("diagonal dimensions cannot be identical %d, %d", dim1, dim2)
	}
	if len(sizes) == 0 {
		return status.Torchf(status.IndexError, "Dimension specified as -1 but tensor has no dimensions")
	}
	n := sizes[len(sizes)-1] + max(offset, -offset)
	c.dims = append(c.dims[:0], sizes[:len(sizes)-1]...)
	c.dims = slices.Insert(c.dims, min(dim1, dim2), n)
	c.dims = slices.Insert(c.dims, max(dim1, dim2), n)
	c.Operand(c.Node(0))
	c.Attr(offset, int64(dim1), int64(dim2))
	return c.Out(c.Dtype(0), c.dims)
}

// lowerDiagEmbed puts each element on the row that it has as the diagonal's element and selects
// the diagonal.
func lowerDiagEmbed(l *ir.Lowering) hlo.Value {
	b := l.B
	offset, dim1, dim2 := l.Number(), int(l.Int()), int(l.Int())
	return putDiagonal(b, b.Full(l.Dtype, 0, l.Dims...), l.In(0), dim1, dim2, offset)
}

// putDiagonal puts the last dimension of x on the diagonal offset of dimensions dim1 and dim2 of base.
func putDiagonal(b *hlo.Builder, base, x hlo.Value, dim1, dim2 int, offset ir.Number) hlo.Value {
	// Element i of the diagonal stands in row i - min(offset, 0): rows before and after are not looked at.
	dims, last, rows := base.Dims(), x.Rank()-1, base.Dims()[dim1]
	if offset.IsParameter() {
		start := b.Binary(hlo.Maximum, b.Unary(hlo.Negate, offset.In(b, dtype.S64)), b.ScalarInt(dtype.S64, 0))
		zeros := b.Full(x.Dtype(), 0, replaceDim(x.Dims(), last, rows)...)
		x = b.DynamicUpdateSlice(zeros, x, startsAt(b, x.Rank(), last, start))
	} else {
		low, high := make([]int64, x.Rank()), make([]int64, x.Rank())
		low[last] = max(-offset.Constant, 0)
		high[last] = rows - low[last] - x.Dims()[last]
		x = b.Pad(x, b.Scalar(x.Dtype(), 0), low, high, nil)
	}
	var at []int
	for k := range dims {
		if k != dim1 && k != dim2 {
			at = append(at, k)
		}
	}
	mask := diagonalMask(b, dims, dim1, dim2, offset)
	return b.Select(mask, b.Broadcast(x, dims, append(at, dim1)), base)
}

// diagonalMask holds where the coordinate in dim2 is that in dim1 plus offset.
func diagonalMask(b *hlo.Builder, dims []int64, dim1, dim2 int, offset ir.Number) hlo.Value {
	t := dtype.S64
	row := b.Binary(hlo.Add, b.Iota(t, dims, dim1), b.Broadcast(offset.In(b, t), dims, nil))
	return b.Compare("EQ", row, b.Iota(t, dims, dim2))
}

// shuffle declares a reshape to split, a transpose by permutation and a reshape to dims.
func (c *Call) shuffle(split []int64, permutation []int64, dims []int64) error {
	c.Operand(c.Node(0))
	c.AttrInts(split)
	c.AttrInts(permutation)
	return c.Out(c.Dtype(0), dims)
}

func lowerShuffle(l *ir.Lowering) hlo.Value {
	split, permutation := l.Ints(), l.Ints()
	order := make([]int, len(permutation))
	for i, p := range permutation {
		order[i] = int(p)
	}
	return l.B.Reshape(l.B.Transpose(l.B.Reshape(l.In(0), split), order), l.Dims)
}

func metaChannelShuffle(c *Call) error {
	sizes, groups := c.Dims(0), c.Int(1, 1)
	if len(sizes) < 3 {
		return Errorf("channel_shuffle expects input with > 2 dims, but got input with sizes %s", dimsText(sizes))
	}
	if groups <= 0 {
		return Errorf("Number of groups to divide channels in must be positive. Value of groups:%d", groups)
	}
	if sizes[1]%groups != 0 {
		return Errorf("Number of channels must be divisible by groups. Got %d channels and %d groups.", sizes[1], groups)
	}
	split := []int64{sizes[0], groups, sizes[1] / groups, shape.Product(sizes[2:])}
	return c.shuffle(split, []int64{0, 2, 1, 3}, sizes)
}

func metaPixelShuffle(c *Call) error {
	sizes, r := c.Dims(0), c.Int(1, 1)
	if len(sizes) < 3 {
		return Errorf("pixel_shuffle expects input to have at least 3 dimensions, but got input with %d dimension(s)", len(sizes))
	}
	if r <= 0 {
		return Errorf("pixel_shuffle expects a positive upscale_factor, but got %d", r)
	}
	n := len(sizes)
	channels, height, width := sizes[n-3], sizes[n-2], sizes[n-1]
	if channels%(r*r) != 0 {
		return Errorf("pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)=%d is not divisible by %d", channels, r*r)
	}
	batch := shape.Product(sizes[:n-3])
	split := []int64{batch, channels / (r * r), r, r, height, width}
	dims := slices.Concat(sizes[:n-3], []int64{channels / (r * r), height * r, width * r})
	return c.shuffle(split, []int64{0, 1, 4, 2, 5, 3}, dims)
}

func metaPixelUnshuffle(c *Call) error {
	sizes, r := c.Dims(0), c.Int(1, 1)
	if len(sizes) < 3 {
		return Errorf("pixel_unshuffle expects input to have at least 3 dimensions, but got input with %d dimension(s)", len(sizes))
	}
	if r <= 0 {
		return Errorf("pixel_unshuffle expects a positive downscale_factor, but got %d", r)
	}
	n := len(sizes)
	channels, height, width := sizes[n-3], sizes[n-2], sizes[n-1]
	if height%r != 0 {
		return Errorf("pixel_unshuffle expects height to be divisible by downscale_factor, but input.size(-2)=%d is not divisible by %d", height, r)
	}
	if width%r != 0 {
		return Errorf("pixel_unshuffle expects width to be divisible by downscale_factor, but input.size(-1)=%d is not divisible by %d", width, r)
	}
	batch := shape.Product(sizes[:n-3])
	split := []int64{batch, channels, height / r, r, width / r, r}
	dims := slices.Concat(sizes[:n-3], []int64{channels * r * r, height / r, width / r})
	return c.shuffle(split, []int64{0, 1, 3, 5, 2, 4}, dims)
}

// metaNarrowCopy: self, dim, start, length. The start is a parameter.
func metaNarrowCopy(c *Call) error {
	if c.Rank(0) == 0 {
		return Errorf("narrow() cannot be applied to a 0-dim tensor.")
	}
	dim, err := c.Dim(c.Int(1, 0), c.Rank(0))
	if err != nil {
		return err
	}
	size, start, length := c.Dims(0)[dim], c.Int(2, 0), c.Int(3, 0)
	if start < -size || start > size {
		return status.Torchf(status.IndexError, "start out of range (expected to be in range of [%d, %d], but got %d)", -size, size, start)
	}
	if start < 0 {
		start += size
	}
	if length < 0 || start+length > size {
		return Errorf("start (%d) + length (%d) exceeds dimension size (%d).", start, length, size)
	}
	c.Operand(c.Node(0), c.IntNode(start))
	c.Attr(int64(dim))
	return c.Out(c.Dtype(0), replaceDim(c.Dims(0), dim, length))
}

func lowerNarrowCopy(l *ir.Lowering) hlo.Value {
	starts := make([]hlo.Value, len(l.Dims))
	for i := range starts {
		starts[i] = l.B.ScalarInt(dtype.S64, 0)
	}
	starts[l.Int()] = l.In(1)
	return l.B.DynamicSlice(l.In(0), starts, l.Dims)
}
