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

// Reading at positions given by a tensor.

func init() {
	register(
		&Row{Name: "index_select", Checks: true, Out: []string{"index_select.out"}, Meta: metaIndexSelect, Lower: lowerIndexSelect},
		&Row{Name: "gather", Checks: true, Out: []string{"gather.out"}, Meta: metaGather, Lower: lowerGather},
		&Row{Name: "take", Checks: true, Out: []string{"take.out"}, Meta: metaTake, Lower: lowerTake},
		&Row{Name: "index.Tensor", Checks: true, Out: []string{"index.Tensor_out"}, Meta: metaIndex, Lower: lowerIndex},
	)
}

func metaIndexSelect(c *Call) error {
	if d := c.Dtype(2); !isIndexType(d) {
		return Errorf("index_select(): Expected dtype int32 or int64 for index")
	}
	if c.Rank(2) > 1 {
		return status.Torchf(status.IndexError, "index_select(): Index is supposed to be a vector")
	}
	dim, err := c.Dim(c.Int(1, 0), c.Rank(0))
	if err != nil {
		return err
	}
	count := shape.Product(c.Dims(2))
	if c.Rank(0) == 0 && count != 1 {
		return Errorf("index_select(): Index to scalar can have only 1 value, got %d value(s)", count)
	}
	if c.Rank(0) > 0 && c.Dims(0)[dim] == 0 && count > 0 {
		return Errorf("index_select(): self indexing axis dim should be positive")
	}
	c.Operand(c.Node(0), c.Node(2))
	c.Attr(int64(dim))
	return c.Out(c.Dtype(0), c.withDim(c.Dims(0), dim, count))
}

func lowerIndexSelect(l *ir.Lowering) hlo.Value {
	b := l.B
	x, dim := atLeast1D(b, l.In(0)), int(l.Int())
	size := x.Dims()[dim]
	refusal := outOfRangeInSelf
	if dim == 1 { // which has a kernel of its own
		refusal = ir.Refusal{Exception: status.RuntimeError, Text: fmt.Sprintf("INDICES element is out of DATA bounds, id=%s axis_dim=%d", ir.CheckedValue, size)}
	}
	l.CheckRange(1, 0, size, refusal)
	return b.Reshape(takeSlices(b, x, atLeast1D(b, l.In(1)), dim), l.Dims)
}

func metaGather(c *Call) error {
	dim, err := c.Dim(c.Int(1, 0), c.Rank(0))
	if err != nil {
		return err
	}
	if shape.Product(c.Dims(2)) > 0 {
		if !isIndexType(c.Dtype(2)) {
			return Errorf("gather(): Expected dtype int32/int64 for index")
		}
		self, index := c.Dims(0), c.Dims(2)
		if max(len(self), 1) != max(len(index), 1) {
			return Errorf("Index tensor must have the same number of dimensions as input tensor")
		}
		for k := range min(len(self), len(index)) {
			if k != dim && index[k] > self[k] {
				return Errorf("Size does not match at dimension %d expected index %s to be no larger than self %s apart from dimension %d",
					k, dimsText(index), dimsText(self), dim)
			}
		}
		if len(self) > 0 && self[dim] == 0 {
			return Errorf("index 0 is out of bounds for dimension %d with size 0", dim)
		}
	}
	vector := c.indexVector(2, dim)
	if vector != nil {
		c.Operand(c.Node(0), vector)
	} else {
		c.Operand(c.Node(0), c.Node(2))
	}
	c.Attr(int64(dim))
	c.AttrBool(vector != nil)
	return c.Out(c.Dtype(0), c.Dims(2))
}

func lowerGather(l *ir.Lowering) hlo.Value {
	b := l.B
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	x, index := atLeast1D(b, l.In(0)), atLeast1D(b, l.In(1))
	dim, vector := int(l.Int()), l.Bool()
	l.CheckRange(1, 0, x.Dims()[dim], outOfBounds(status.RuntimeError, dim, x.Dims()[dim]))
	if vector {
		limit := replaceDim(l.Dims, dim, x.Dims()[dim])
		x = b.Slice(x, make([]int64, x.Rank()), limit, nil)
		return takeSlices(b, x, index, dim)
	}
	positions := elementPositions(b, index, x.Dims(), dim, false)
	return b.Reshape(takeElements(b, x, positions), l.Dims)
}

func metaTake(c *Call) error {
	if d := c.Dtype(1); d != dtype.S64 {
		return Errorf("take(): Expected a long tensor for index, but got %s", torchClass(d))
	}
	if shape.Product(c.Dims(0)) == 0 && shape.Product(c.Dims(1)) > 0 {
		return status.Torchf(status.IndexError, "take(): tried to take from an empty tensor")
	}
	c.Operand(c.Node(0), c.Node(1))
	return c.Out(c.Dtype(0), c.Dims(1))
}

func lowerTake(l *ir.Lowering) hlo.Value {
	elements := shape.Product(l.In(0).Dims())
	checkWrapped(l, 1, elements, triedToAccess(elements))
	return takeElements(l.B, l.In(0), wrapNegative(l.B, l.In(1), elements))
}

// indexPlan is what x[indices] means: which dimensions are indexed, and where the indices'
// common dimensions appear in the result.
type indexPlan struct {
	positions []int64 // dimensions of self that are indexed, ascending
	common    []int64 // the indices' broadcast dimensions
	at        int     // where common stands in the result
	mask      int     // the list's element that is the first mask, or -1
}

// plan looks at a list of indices (argument 1 of index and _index_put_impl_).
func (c *Call) indexPlan() (p indexPlan, err error) {
	self, list := c.Dims(0), c.Args[1].Tensors
	p.mask = -1
	for i := range list {
		a := &list[i]
		if a.Tag == TagNone {
			continue
		}
		switch a.Dtype {
		case dtype.S64, dtype.S32:
		case dtype.Bool, dtype.U8:
			if p.mask < 0 {
				p.mask = i
			}
			continue
		default:
			return p, status.Torchf(status.IndexError, "tensors used as indices must be long, int, byte or bool tensors")
		}
	}
	if p.mask >= 0 {
		return p, nil
	}
	if len(list) > len(self) {
		return p, status.Torchf(status.IndexError, "too many indices for tensor of dimension %d (got %d)", len(self), len(list))
	}
	c.dims = c.dims[:0]
	for i := range list {
		a := &list[i]
		if a.Tag == TagNone {
			continue
		}
		p.positions = append(p.positions, int64(i))
		if c.dims, err = broadcastInto(c.dims, a.View.Sizes); err != nil {
			return p, c.indexShapes()
		}
	}
	p.common = slices.Clone(c.dims)
	if n := len(p.positions); n > 0 && p.positions[n-1]-p.positions[0] == int64(n-1) {
		p.at = int(p.positions[0])
	}
	if shape.Product(p.common) > 0 {
		for _, k := range p.positions {
			if self[k] == 0 {
				return p, status.Torchf(status.IndexError, "index is out of bounds for dimension with size 0")
			}
		}
	}
	return p, nil
}

// indexShapes is the error for indices that do not broadcast.
func (c *Call) indexShapes() error {
	text := ""
	for _, a := range c.Args[1].Tensors {
		if a.Tag == TagNone {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += dimsText(a.View.Sizes)
	}
	return status.Torchf(status.IndexError, "shape mismatch: indexing tensors could not be broadcast together with shapes %s", text)
}

// resultDims gives the dimensions of self[indices].
func (p *indexPlan) resultDims(self []int64) []int64 {
	var rest []int64
	for k, n := range self {
		if !slices.Contains(p.positions, int64(k)) {
			rest = append(rest, n)
		}
	}
	return slices.Concat(rest[:p.at], p.common, rest[p.at:])
}

func metaIndex(c *Call) error {
	if len(c.Args[1].Tensors) == 0 {
		return status.Torchf(status.IndexError, "at least one index must be provided")
	}
	p, err := c.indexPlan()
	if err != nil {
		return err
	}
	if p.mask >= 0 {
		return fallback(c, "the number of elements that a mask selects depends on its values")
	}
	if len(p.positions) == 0 {
		c.Return(c.Node(0))
		return nil
	}
	c.Operand(c.Node(0))
	for _, k := range p.positions {
		c.Operand(c.NodeOf(&c.Args[1].Tensors[k]))
	}
	c.AttrInts(p.positions)
	return c.Out(c.Dtype(0), p.resultDims(c.Dims(0)))
}

// mergedIndex is x with its indexed dimensions merged into one, and the positions along it.
type mergedIndex struct {
	x       hlo.Value
	index   hlo.Value
	at      int
	moved   []int64 // x's dimensions before the merge, after the transpose
	permute []int   // the transpose, nil for none
}

// mergeIndices brings the indexed dimensions of x together (to the front, if they are apart) and
// merges them and their indices into one. Negative positions count from the end. Positions
// outside are clamped, or made -1 where skip is set.
func mergeIndices(b *hlo.Builder, x hlo.Value, indices []hlo.Value, positions []int64, skip bool) mergedIndex {
	m := mergedIndex{x: x, at: int(positions[0])}
	n := len(positions)
	if positions[n-1]-positions[0] != int64(n-1) {
		m.at = 0
		for _, k := range positions {
			m.permute = append(m.permute, int(k))
		}
		for k := range x.Rank() {
			if !slices.Contains(positions, int64(k)) {
				m.permute = append(m.permute, k)
			}
		}
		m.x = b.Transpose(x, m.permute)
	}
	m.moved = m.x.Dims()
	var common []int64
	for _, index := range indices {
		common, _ = broadcastInto(common, index.Dims())
	}
	sizes := m.moved[m.at : m.at+n]
	total := shape.Product(sizes)
	if n == 1 {
		m.index = narrowPositions(b, wrapNegative(b, indices[0], sizes[0]), sizes[0])
		return m
	}
	m.x = b.Reshape(m.x, slices.Concat(m.moved[:m.at], []int64{total}, m.moved[m.at+n:]))
	t := positionType(total)
	strides := shape.RowMajorStrides(sizes)
	var valid hlo.Value
	for i, index := range indices {
		index = wrapNegative(b, b.BroadcastTo(index, common), sizes[i])
		if skip {
			in := inside(b, index, sizes[i])
			if valid.Valid() {
				in = b.Binary(hlo.And, valid, in)
			}
			valid = in
		}
		index = b.Convert(clampPositions(b, index, sizes[i]), t)
		if strides[i] != 1 {
			index = b.Binary(hlo.Multiply, index, b.FullInt(t, strides[i], common...))
		}
		if m.index.Valid() {
			index = b.Binary(hlo.Add, m.index, index)
		}
		m.index = index
	}
	if skip {
		m.index = b.Select(valid, m.index, b.FullInt(t, -1, common...))
	}
	return m
}

// checkIndices checks the indices of dimensions positions of operand 0, which are the operands from first on. As in torch,
// they are told by their own numbers.
func checkIndices(l *ir.Lowering, first int, positions []int64) {
	for i, k := range positions {
		size := l.In(0).Dims()[k]
		checkWrapped(l, first+i, size, outOfBounds(status.IndexError, i, size))
	}
}

func lowerIndex(l *ir.Lowering) hlo.Value {
	positions := l.Ints()
	checkIndices(l, 1, positions)
	m := mergeIndices(l.B, l.In(0), inputs(l, 1, l.Count()), positions, false)
	return takeSlices(l.B, m.x, m.index, m.at)
}

// inputs gives operands from up to, without, to.
func inputs(l *ir.Lowering, from, to int) []hlo.Value {
	values := make([]hlo.Value, 0, to-from)
	for i := from; i < to; i++ {
		values = append(values, l.In(i))
	}
	return values
}
