package ops

import (
	"math/bits"
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Binary search in sorted sequences.

func init() {
	register(
		&Row{Name: "searchsorted.Tensor", Checks: true, Out: []string{"searchsorted.Tensor_out"}, Meta: metaSearchSorted, Lower: lowerSearch},
		&Row{Name: "searchsorted.Scalar", Checks: true, Out: []string{"searchsorted.Scalar_out"}, Meta: metaSearchSorted, Lower: lowerSearch},
		&Row{Name: "bucketize.Tensor", Out: []string{"bucketize.Tensor_out"}, Meta: metaBucketize, Lower: lowerSearch},
		&Row{Name: "bucketize.Scalar", Meta: metaBucketize, Lower: lowerSearch},
		&Row{Name: "isin.Tensor_Tensor", Out: []string{"isin.Tensor_Tensor_out"}, Meta: metaIsIn, Lower: lowerIsIn},
		&Row{Name: "isin.Tensor_Scalar", Out: []string{"isin.Tensor_Scalar_out"}, Meta: metaIsIn, Lower: lowerIsIn},
		&Row{Name: "isin.Scalar_Tensor", Out: []string{"isin.Scalar_Tensor_out"}, Meta: metaIsIn, Lower: lowerIsIn},
		&Row{Name: "repeat_interleave.Tensor", Checks: true, Meta: metaRepeatInterleave, Lower: lowerRepeatInterleave},
	)
}

// metaSearchSorted: (sorted_sequence, self, out_int32, right, side, sorter).
func metaSearchSorted(c *Call) error {
	right := c.Bool(3)
	if !c.IsNone(4) {
		side := c.Text(4)
		if side != "left" && side != "right" {
			return Errorf("torch.searchsorted(): side can only be 'left' or 'right' but got %s", side)
		}
		if right && side == "left" {
			return Errorf("torch.searchsorted(): side and right can't be set to opposites, got side of %s while right was True", side)
		}
		right = side == "right"
	}
	if !c.IsNone(5) {
		if d := c.Dtype(5); d != dtype.S64 {
			return Errorf("torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s", torchClass(d))
		}
		if !slices.Equal(c.Dims(0), c.Dims(5)) {
			return Errorf("torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor %sand got sorter tensor %s", dimsText(c.Dims(0)), dimsText(c.Dims(5)))
		}
	}
	return c.search(0, 1, 5, c.Bool(2), right)
}

// metaBucketize: (self, boundaries, out_int32, right).
func metaBucketize(c *Call) error {
	if c.Rank(1) != 1 {
		return Errorf("boundaries tensor must be 1 dimension, but got dim(%d)", c.Rank(1))
	}
	return c.search(1, 0, len(c.Args), c.Bool(2), c.Bool(3))
}

// search declares the node that finds argument values in argument boundaries.
func (c *Call) search(boundaries, values, sorter int, int32Result, right bool) error {
	edges, sizes := c.Dims(boundaries), c.Dims(values)
	scalar := !c.IsTensor(values)
	if len(edges) == 0 {
		return Errorf("torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension")
	}
	if len(sizes) == 0 && len(edges) != 1 {
		return Errorf("torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor dim(%d) and input value's dim(0) numel(1)", len(edges))
	}
	if n := len(edges) - 1; n > 0 && (len(sizes) != len(edges) || !slices.Equal(edges[:n], sizes[:n])) {
		return Errorf("torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor %s and input value tensor %s", dimsText(edges), dimsText(sizes))
	}
	d, err := c.ResultType(boundaries, values)
	if err != nil {
		return err
	}
	if d == dtype.Bool || d.IsComplex() {
		return status.Torchf(status.NotImplementedError, "\"searchsorted_out_cpu\" not implemented for '%s'", torchClass(d))
	}
	if scalar {
		sizes = nil
	}
	c.Operand(c.Node(boundaries), c.Value(values, d))
	if !c.IsNone(sorter) {
		c.Operand(c.Node(sorter))
	}
	c.Attr(int64(d))
	c.AttrBool(right)
	result := dtype.S64
	if int32Result {
		result = dtype.S32
	}
	return c.Out(result, sizes)
}

func lowerSearch(l *ir.Lowering) hlo.Value {
	b := l.B
	d, right := dtype.Dtype(l.Int()), l.Bool()
	edges, values := as(b, l.In(0), d), as(b, l.In(1), d)
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	if l.Count() == 3 {
		last := edges.Rank() - 1
		l.CheckRange(2, 0, edges.Dims()[last], ir.Refusal{Exception: status.RuntimeError, Text: "torch.searchsorted(): sorter index out of range"})
		edges = takeElements(b, edges, elementPositions(b, l.In(2), edges.Dims(), last, false))
	}
	if edges.Rank() == 1 {
		return as(b, searchSorted(b, edges, values, right), l.Dtype)
	}
	return as(b, searchRows(b, edges, values, right), l.Dtype)
}

// searchSorted gives for each value the number of elements of the sorted sequence below it, or
// not above it for right, as s64.
func searchSorted(b *hlo.Builder, sorted, values hlo.Value, right bool) hlo.Value {
	dims := values.Dims()
	return bisect(b, sorted.Dims()[0], dims, func(middle hlo.Value) hlo.Value {
		return below(b, takeSlices(b, sorted, middle, 0), values, right)
	})
}

// searchRows is searchSorted in the row of the last dimension that the value's other coordinates
// name.
func searchRows(b *hlo.Builder, sorted, values hlo.Value, right bool) hlo.Value {
	last := sorted.Rank() - 1
	return bisect(b, sorted.Dims()[last], values.Dims(), func(middle hlo.Value) hlo.Value {
		at := elementPositions(b, middle, sorted.Dims(), last, false)
		return below(b, takeElements(b, sorted, at), values, right)
	})
}

// below says whether a value's place is behind an element. It is written with not, so that a NaN
// compares as torch's search has it.
func below(b *hlo.Builder, element, values hlo.Value, right bool) hlo.Value {
	if right {
		return b.Unary(hlo.Not, b.Compare("GT", element, values))
	}
	return b.Unary(hlo.Not, b.Compare("GE", element, values))
}

// bisect narrows [0, n] down to one position, in as many rounds as n elements need; behind says
// whether the place is behind the element in the middle.
func bisect(b *hlo.Builder, n int64, dims []int64, behind func(middle hlo.Value) hlo.Value) hlo.Value {
	t := positionType(n)
	low, high := b.Full(t, 0, dims...), b.FullInt(t, n, dims...)
	one := b.FullInt(t, 1, dims...)
	if n == 0 {
		return b.Full(dtype.S64, 0, dims...)
	}
	for range bits.Len64(uint64(n)) {
		middle := b.Binary(hlo.Add, low, b.Binary(hlo.ShiftRightLogical, b.Binary(hlo.Subtract, high, low), one))
		further := behind(middle)
		open := b.Compare("LT", low, high)
		up := b.Binary(hlo.And, open, further)
		down := b.Binary(hlo.And, open, b.Unary(hlo.Not, further))
		low = b.Select(up, b.Binary(hlo.Add, middle, one), low)
		high = b.Select(down, middle, high)
	}
	return b.Convert(low, dtype.S64)
}

// metaRepeatInterleave: (repeats, output_size).
func metaRepeatInterleave(c *Call) error {
	if c.Rank(0) != 1 {
		return Errorf("repeat_interleave only accept 1D vector as repeat")
	}
	if d := c.Dtype(0); d == dtype.Bool || !d.IsIntegral() {
		return notImplemented("repeat_interleave_cpu", d)
	}
	if c.IsNone(1) {
		return fallback(c, "without output_size the result's size depends on the values of repeats")
	}
	size := c.Int(1, 0)
	if size < 0 {
		return Errorf("Trying to create tensor with negative dimension %d: [%d]", size, size)
	}
	if c.Dims(0)[0] == 0 {
		size = 0
	}
	c.Operand(c.Node(0))
	c.dims = append(c.dims[:0], size)
	return c.Out(c.Dtype(0), c.dims)
}

// lowerRepeatInterleave finds each result element in the running sum of the repeats. Torch finds a wrong sum before it looks
// at the repeats.
func lowerRepeatInterleave(l *ir.Lowering) hlo.Value {
	b, size := l.B, l.Dims[0]
	repeats := as(b, l.In(0), dtype.S64)
	n := repeats.Dims()[0]
	if n == 0 {
		return b.Full(l.Dtype, 0, size)
	}
	ends := scanSum.along(b, repeats, 0)
	total := lastElement(b, ends)
	l.CheckNone(b.Compare("NE", total, b.FullInt(dtype.S64, size, 1)), total,
		ir.Refusal{Exception: status.RuntimeError, Text: "allocated size does not match required size"})
	l.CheckNone(b.Compare("LT", repeats, b.FullInt(dtype.S64, 0, n)), repeats,
		ir.Refusal{Exception: status.RuntimeError, Text: "repeats can not be negative"})
	if size == 0 {
		return b.Full(l.Dtype, 0, size)
	}
	return as(b, searchSorted(b, ends, b.Iota(dtype.S64, l.Dims, 0), true), l.Dtype)
}

// metaIsIn: (elements, test_elements, assume_unique, invert), tensors or numbers.
func metaIsIn(c *Call) error {
	for i := range 2 {
		if d := c.Args[i].Dtype; d == dtype.Bool || d.IsComplex() {
			return status.Torchf(status.NotImplementedError, "Unsupported input type encountered for isin(): %s", torchClass(d))
		}
	}
	d, err := c.ResultType(0, 1)
	if err != nil {
		return err
	}
	c.Operand(c.Value(0, d), c.Value(1, d))
	c.Attr(int64(d))
	c.AttrBool(c.Bool(3))
	var dims []int64
	if c.IsTensor(0) {
		dims = c.Dims(0)
	}
	return c.Out(dtype.Bool, dims)
}

// isInCompared is up to how many test elements comparing with each of them is what costs least.
const isInCompared = 64

func lowerIsIn(l *ir.Lowering) hlo.Value {
	b := l.B
	d, invert := dtype.Dtype(l.Int()), l.Bool()
	x, tests := as(b, l.In(0), d), as(b, l.In(1), d)
	n := shape.Product(tests.Dims())
	tests = b.Reshape(tests, []int64{n})
	var found hlo.Value
	switch {
	case n == 0 || shape.Product(l.Dims) == 0:
		found = b.Full(dtype.Bool, 0, l.Dims...)
	case n <= isInCompared:
		last := len(l.Dims)
		pairs := append(slices.Clone(l.Dims), n)
		at := make([]int, last)
		for i := range at {
			at[i] = i
		}
		equal := b.Compare("EQ", b.Broadcast(x, pairs, at), b.Broadcast(tests, pairs, []int{last}))
		found = b.ReduceOp(hlo.Or, equal, b.Scalar(dtype.Bool, 0), []int{last})
	default:
		sorted, _ := sortWithPositions(b, tests, 0, false, false)
		// NaN stands last and is equal to nothing.
		at := clampPositions(b, bisect(b, n, l.Dims, func(middle hlo.Value) hlo.Value {
			return b.Compare("LT", takeSlices(b, sorted, middle, 0), x)
		}), n)
		found = b.Compare("EQ", takeSlices(b, sorted, at, 0), x)
	}
	if invert {
		found = b.Unary(hlo.Not, found)
	}
	return found
}
