package ops

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Writing slices at positions given by tensors: index_put_, index_add, index_copy, index_fill_
// and index_reduce.

// kindMaskPut writes values where a mask holds.
var kindMaskPut = defineKind("xla_go::mask_put", lowerMaskPut)

func init() {
	register(
		&Row{Name: "_index_put_impl_", Checks: true, SelfOnly: true, Meta: metaIndexPut, Lower: lowerIndexPut},
		&Row{Name: "index_add", Checks: true, InPlace: []string{"index_add_"}, Out: []string{"index_add.out"}, Meta: metaIndexAdd, Lower: lowerIndexWrite},
		&Row{Name: "index_copy", Checks: true, InPlace: []string{"index_copy_"}, Out: []string{"index_copy.out"}, Meta: metaIndexCopy, Lower: lowerIndexWrite},
		&Row{Name: "index_reduce", Checks: true, InPlace: []string{"index_reduce_"}, Out: []string{"index_reduce.out"}, Meta: metaIndexReduce, Lower: lowerIndexWrite},
		&Row{Name: "index_fill_.int_Scalar", Checks: true, SelfOnly: true, Meta: metaIndexFill, Lower: lowerIndexFill},
		&Row{Name: "index_fill_.int_Tensor", Checks: true, SelfOnly: true, Meta: metaIndexFill, Lower: lowerIndexFill},
	)
}

func metaIndexPut(c *Call) error {
	d, values := c.Dtype(0), &c.Args[2]
	if values.Dtype != d {
		return Errorf("Index put requires the source and destination dtypes match, got %s for the destination and %s for the source.",
			torchClass(d), torchClass(values.Dtype))
	}
	p, err := c.indexPlan()
	if err != nil {
		return err
	}
	if p.mask >= 0 {
		return c.maskPut(p.mask)
	}
	self := c.Dims(0)
	target := p.resultDims(self)
	if !broadcastsTo(values.View.Sizes, target) {
		return Errorf("shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s",
			dimsText(values.View.Sizes), dimsText(target))
	}
	if shape.Product(target) == 0 {
		c.Return(c.Node(0))
		return nil
	}
	c.Operand(c.Node(0), c.Value(2, d))
	for _, k := range p.positions {
		c.Operand(c.NodeOf(&c.Args[1].Tensors[k]))
	}
	c.AttrBool(c.Bool(3))
	c.AttrInts(p.positions)
	return c.Out(d, self)
}

// broadcastsTo says whether dims can be expanded to target.
func broadcastsTo(dims, target []int64) bool {
	if len(dims) > len(target) {
		return false
	}
	lead := len(target) - len(dims)
	for i, n := range dims {
		if n != 1 && n != target[lead+i] {
			return false
		}
	}
	return true
}

// maskPut declares self[..., mask, ...] = values where each value goes to every element that the
// mask selects: then the number of selected elements does not matter.
func (c *Call) maskPut(at int) error {
	const depends = "where each selected element has a value of its own depends on the mask's values"
	self, list, values := c.Dims(0), c.Args[1].Tensors, &c.Args[2]
	for i := range list {
		if i != at && list[i].Tag != TagNone {
			return fallback(c, depends)
		}
	}
	mask := &list[at]
	covered := len(mask.View.Sizes)
	if covered == 0 || at+covered > len(self) || !slices.Equal(mask.View.Sizes, self[at:at+covered]) {
		return fallback(c, "the mask does not have the sizes of the dimensions that it covers")
	}
	// The indexing result has one dimension in place of those that the mask covers.
	after := len(self) - at - covered
	sizes := slices.Clone(values.View.Sizes)
	if len(sizes) > after {
		k := len(sizes) - after - 1
		if sizes[k] != 1 {
			return fallback(c, depends)
		}
		sizes = slices.Insert(sizes, k, slices.Repeat([]int64{1}, covered-1)...)
	}
	if !broadcastsTo(sizes, self) {
		return fallback(c, depends)
	}
	n := c.Build(kindMaskPut, c.Dtype(0), self, c.Node(0), c.NodeOf(mask), c.Value(2, c.Dtype(0)))
	n.AddBool(c.Bool(3))
	n.AddInt(int64(at))
	n.AddInts(sizes)
	c.Return(n)
	return nil
}

func lowerMaskPut(l *ir.Lowering) hlo.Value {
	b := l.B
	accumulate, at, sizes := l.Bool(), int(l.Int()), l.Ints()
	x, mask := l.In(0), as(b, l.In(1), dtype.Bool)
	covered := make([]int, mask.Rank())
	for i := range covered {
		covered[i] = at + i
	}
	mask = b.Broadcast(mask, l.Dims, covered)
	value := as(b, l.In(2), l.Dtype)
	if value.Rank() > 0 || len(sizes) == 0 {
		value = b.Reshape(value, sizes)
	}
	value = b.BroadcastTo(value, l.Dims)
	if accumulate {
		compute := l.Dtype.OpMath()
		value = as(b, arithmetic(b, hlo.Add, as(b, x, compute), as(b, value, compute)), l.Dtype)
	}
	return b.Select(mask, value, x)
}

func lowerIndexPut(l *ir.Lowering) hlo.Value {
	b := l.B
	op, d := hlo.Second, l.Dtype
	if l.Bool() {
		op, d = hlo.Add, l.Dtype.OpMath()
	}
	x, values := as(b, l.In(0), d), as(b, l.In(1), d)
	positions := l.Ints()
	if len(positions) == 0 {
		values = b.BroadcastTo(values, l.Dims)
		if op == hlo.Add {
			values = arithmetic(b, op, x, values)
		}
		return as(b, values, l.Dtype)
	}
	checkIndices(l, 2, positions)
	m := mergeIndices(b, x, inputs(l, 2, l.Count()), positions, true)
	values = b.BroadcastTo(values, replaceDim(m.x.Dims(), m.at, m.index.Dims()...))
	return as(b, m.unmerge(b, putSlices(b, m.x, m.index, values, m.at, op)), l.Dtype)
}

// writeAlong declares the node of a row that writes slices of argument 3 at argument 2 along dim.
func (c *Call) writeAlong(dim int, r scatterOp, includeSelf bool) error {
	if shape.Product(c.Dims(2)) == 0 {
		c.Return(c.Node(0))
		return nil
	}
	d := c.Dtype(0)
	c.Operand(c.Node(0), c.Node(2), c.Value(3, d))
	if c.row.Name == "index_add" && !c.IsNone(4) && !isOne(&c.Args[4]) {
		alpha, err := c.fillValue(4, d)
		if err != nil {
			return err
		}
		c.Operand(alpha)
	}
	c.Attr(int64(dim), int64(r))
	c.AttrBool(includeSelf)
	c.Attr(int64(c.writeRefusal(dim)))
	return c.Out(d, c.Dims(0))
}

// writeRefusal says which of torch's kernels refuses a position.
type writeRefusal int64

const (
	unnamedRefusal writeRefusal = iota // index_reduce, index_add
	copyRefusal                        // index_copy
	addRefusal                         // index_add, where torch has scatter_add do it
)

func (c *Call) writeRefusal(dim int) writeRefusal {
	switch rank := c.Rank(0); {
	case c.row.Name == "index_copy":
		return copyRefusal
	case c.row.Name == "index_add" && rank > 1 && (dim == 0 || dim == rank-1) && c.Dtype(2) == dtype.S64 && (c.IsNone(4) || isOne(&c.Args[4])):
		return addRefusal
	}
	return unnamedRefusal
}

func (r writeRefusal) text(dim int, size int64) ir.Refusal {
	switch r {
	case addRefusal:
		return outOfBounds(status.RuntimeError, dim, size)
	case copyRefusal:
		refusal := outOfBounds(status.IndexError, dim, size)
		refusal.Text = "index_copy_(): " + refusal.Text
		return refusal
	}
	return outOfRangeInSelf
}

func lowerIndexWrite(l *ir.Lowering) hlo.Value {
	b := l.B
	dim, r, includeSelf := int(l.Int()), scatterOp(l.Int()), l.Bool()
	d := r.compute(l.Dtype)
	x, index := as(b, atLeast1D(b, l.In(0)), d), atLeast1D(b, l.In(1))
	l.CheckRange(1, 0, x.Dims()[dim], writeRefusal(l.Int()).text(dim, x.Dims()[dim]))
	source := as(b, l.In(2), d)
	if l.Count() == 4 {
		source = arithmetic(b, hlo.Multiply, source, b.BroadcastTo(as(b, l.In(3), d), source.Dims()))
	}
	index = narrowPositions(b, index, x.Dims()[dim])
	source = b.Reshape(source, replaceDim(x.Dims(), dim, index.Dims()[0]))
	result := putReduced(b, x, r, includeSelf, func(x, source hlo.Value, op hlo.Opcode) hlo.Value {
		return putSlices(b, x, index, source, dim, op)
	}, source)
	return b.Reshape(as(b, result, l.Dtype), l.Dims)
}

// checkIndexAdd checks index_add's and index_reduce's arguments (self, dim, index, source).
func (c *Call) checkIndexAdd(name string) (int, error) {
	dim, err := c.Dim(c.Int(1, 0), c.Rank(0))
	if err != nil {
		return 0, err
	}
	self, index, source := c.Dims(0), c.Dims(2), c.Dims(3)
	count := shape.Product(index)
	if !isIndexType(c.Dtype(2)) {
		return 0, Errorf("%s(): Expected dtype int32/int64 for index but got: %s", name, torchClass(c.Dtype(2)))
	}
	if c.Dtype(0) != c.Dtype(3) {
		return 0, Errorf("%s(): self (%s) and source (%s) must have the same scalar type", name, torchClass(c.Dtype(0)), torchClass(c.Dtype(3)))
	}
	if len(index) > 1 {
		return 0, status.Torchf(status.IndexError, "%s(): Index is supposed to be a vector, but got dim: %d with type: %s and size: %s",
			name, len(index), torchClass(c.Dtype(2)), dimsText(index))
	}
	at := 0
	if len(source) > 0 {
		if dim >= len(source) {
			return 0, status.Torchf(status.IndexError, "Dimension out of range (expected to be in range of [%d, %d], but got %d)", -len(source), len(source)-1, dim)
		}
		at = dim
		if source[at] != count {
			return 0, Errorf("%s(): Number of indices (%d) should be equal to source.size(dim): (%d), for dim: %d", name, count, source[at], dim)
		}
	} else if count != 1 {
		return 0, Errorf("%s(): Number of indices (%d) should be equal to source.size(dim): (%d), for dim: %d", name, count, 1, dim)
	}
	if len(self) != len(source) || len(self) > 0 && !slices.Equal(replaceDim(self, dim), replaceDim(source, at)) {
		return 0, Errorf("source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = %s source.shape = %s",
			dimsText(self), dimsText(source))
	}
	return dim, nil
}

func metaIndexAdd(c *Call) error {
	dim, err := c.checkIndexAdd("index_add_")
	if err != nil {
		return err
	}
	return c.writeAlong(dim, scatterAdd, true)
}

func metaIndexReduce(c *Call) error {
	text := c.Text(4)
	if text == "sum" {
		text = "" // index_reduce has no sum: index_add is that
	}
	r, err := namedReduction(text)
	if err != nil {
		return Errorf("index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got %s.", c.Text(4))
	}
	dim, err := c.checkIndexAdd("index_reduce_")
	if err != nil {
		return err
	}
	return c.writeAlong(dim, r, c.IsNone(5) || c.Bool(5))
}

func metaIndexCopy(c *Call) error {
	dim, err := c.Dim(c.Int(1, 0), c.Rank(0))
	if err != nil {
		return err
	}
	self, index, source := c.Dims(0), c.Dims(2), c.Dims(3)
	count := shape.Product(index)
	switch {
	case len(index) > 1:
		return status.Torchf(status.IndexError, "index_copy_(): Index should have dimension 1 or 0 (got %d)", len(index))
	case len(source) == 0 && count != 1:
		return status.Torchf(status.IndexError, "index_copy_(): When source is scalar, index should have one element (got %d)", count)
	case len(source) != len(self) && len(source) > 0 && len(self) > 0:
		return status.Torchf(status.IndexError, "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source dimensionality (%d), destination dimensionality (%d)", len(source), len(self))
	case c.Dtype(2) != dtype.S64:
		return Errorf("index_copy_(): Expected a long tensor for index, but got %s", torchClass(c.Dtype(2)))
	case c.Dtype(0) != c.Dtype(3):
		return Errorf("index_copy_(): self and source expected to have the same dtype, but got (self) %s and (source) %s", torchClass(c.Dtype(0)), torchClass(c.Dtype(3)))
	}
	var selfSlice, sourceSlice []int64
	if len(self) > 0 {
		selfSlice = replaceDim(self, dim)
	}
	if len(source) > 0 {
		sourceSlice = replaceDim(source, min(dim, len(source)-1))
	}
	if !slices.Equal(selfSlice, sourceSlice) {
		return Errorf("index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: %s at dimension %d and source slice shape: %s at dimension 0.",
			spacedDims(selfSlice), dim, spacedDims(sourceSlice))
	}
	if len(source) > 0 && source[dim] != count {
		return status.Torchf(status.IndexError, "index_copy_(): Number of indices (%d) should be equal to source.size(dim) (%d)", count, source[dim])
	}
	return c.writeAlong(dim, scatterAssign, true)
}

// spacedDims gives sizes separated by spaces, as some of torch's messages have them.
func spacedDims(dims []int64) string {
	text := dimsText(dims)
	out := make([]byte, 0, len(text))
	for i := 1; i+1 < len(text); i++ {
		if text[i] != ',' {
			out = append(out, text[i])
		}
	}
	return string(out)
}

func metaIndexFill(c *Call) error {
	d, value := c.Dtype(0), &c.Args[3]
	if value.Tag == TagTensor && len(value.View.Sizes) > 0 {
		return Errorf("index_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).", len(value.View.Sizes))
	}
	complex := value.IsComplexScalar() || value.Tag == TagTensor && value.Dtype.IsComplex()
	if complex && !d.IsComplex() {
		return Errorf("index_fill_(): Converting complex Scalar to non-complex type is not supported")
	}
	dim, err := c.Dim(c.Int(1, 0), c.Rank(0))
	if err != nil {
		return err
	}
	if c.Dtype(2) != dtype.S64 {
		return status.Torchf(status.IndexError, "index_fill_(): Expected dtype int64 for index.")
	}
	if c.Rank(2) > 1 {
		return Errorf("Index has to be a vector/scalar")
	}
	if shape.Product(c.Dims(2)) == 0 {
		c.Return(c.Node(0))
		return nil
	}
	c.Operand(c.Node(0), c.Node(2))
	if value.Tag == TagTensor {
		c.Operand(c.Node(3))
	} else {
		fill, err := c.fillValue(3, d)
		if err != nil {
			return err
		}
		c.Operand(fill)
	}
	c.Attr(int64(dim))
	return c.Out(d, c.Dims(0))
}

// lowerIndexFill marks the indexed positions along the dimension, then selects: that is one pass
// over x whatever the slices' size is.
func lowerIndexFill(l *ir.Lowering) hlo.Value {
	b := l.B
	dim := int(l.Int())
	x, index := atLeast1D(b, l.In(0)), atLeast1D(b, l.In(1))
	size := x.Dims()[dim]
	checkWrapped(l, 1, size, outOfBounds(status.IndexError, dim, size))
	index = narrowPositions(b, wrapNegative(b, index, size), size)
	marks := putSlices(b, b.Full(dtype.Bool, 0, size), index, b.Full(dtype.Bool, 1, index.Dims()...), 0, hlo.Second)
	mask := b.Broadcast(marks, x.Dims(), []int{dim})
	return b.Reshape(b.Select(mask, b.BroadcastTo(as(b, l.In(2), l.Dtype), x.Dims()), x), l.Dims)
}
