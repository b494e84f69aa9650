package ops

import (
	"fmt"
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Sums, means and maxima of rows of an embedding table, bag by bag.

func init() {
	for _, name := range []string{"_embedding_bag", "_embedding_bag_forward_only"} {
		register(&Row{Name: name, Checks: true, Meta: metaEmbeddingBag, LowerMany: lowerEmbeddingBag})
	}
	register(
		&Row{Name: "_embedding_bag_backward", Meta: metaEmbeddingBagBackward(3), Lower: lowerEmbeddingBagBackward},
		&Row{Name: "_embedding_bag_dense_backward", Meta: metaEmbeddingBagBackward(2), Lower: lowerEmbeddingBagBackward},
		&Row{Name: "_embedding_bag_per_sample_weights_backward", Meta: metaBagWeightsBackward, Lower: lowerBagWeightsBackward},
	)
}

// How the rows of a bag are combined, with torch's numbers.
const (
	bagSum  = 0
	bagMean = 1
	bagMax  = 2
)

// metaEmbeddingBag: (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
// include_last_offset, padding_idx); results are the bags, the bag of each index, the number of rows in each bag, and, for
// max, which row each element is of.
func metaEmbeddingBag(c *Call) error {
	if rank := c.Rank(0); rank != 2 {
		return Errorf("weight has to be a 2D Tensor, but got Tensor of dimension %d", rank)
	}
	if rank := c.Rank(2); rank != 1 {
		return Errorf("offsets has to be a 1D Tensor, but got Tensor of dimension %d", rank)
	}
	for i, name := range [2]string{"indices", "offsets"} {
		if d := c.Dtype(i + 1); !isIndexType(d) {
			return Errorf("Expected tensor for argument #1 '%s' to have one of the following scalar types: Long, Int; but got torch.%sTensor instead (while checking arguments for embedding_bag)", name, torchClass(d))
		}
	}
	d, t := c.Dtype(0), c.Dtype(1)
	if c.Dtype(2) != t {
		t = dtype.S64
	}
	if !d.IsFloat() || d.Size() < 2 {
		return Errorf("Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; but got torch.%sTensor instead (while checking arguments for embedding_bag)", torchClass(d))
	}
	mode, count := c.Int(4, bagSum), shape.Product(c.Dims(1))
	if mode < bagSum || mode > bagMax {
		return Errorf("`mode` must be sum, mean, or max.")
	}
	weighted := c.IsTensor(6)
	if weighted {
		if mode != bagSum {
			return Errorf("embedding_bag: per_sample_weights only supported with mode='sum'")
		}
		if w := c.Dtype(6); w != d {
			return Errorf("Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; but type torch.%sTensor does not equal torch.%sTensor (while checking arguments for embedding_bag)", torchClass(d), torchClass(w))
		}
		if n := shape.Product(c.Dims(6)); n != count {
			return Errorf("embedding_bag: expected a per_sample_weight for each of the %d indices, got %d", count, n)
		}
	}
	bags := c.Dims(2)[0]
	last := c.Bool(7)
	if last {
		if bags == 0 {
			return Errorf("include_last_offset: number of offsets should be at least 1")
		}
		bags--
	}
	padding := c.Int(8, -1)
	rows := c.Dims(0)[0]
	if padding >= 0 && padding >= rows {
		return Errorf("padding_idx must be within the number of embeddings, 0 through %d, but got %d", rows-1, padding)
	}
	c.Operand(c.Node(0), c.Node(1), c.Node(2))
	if weighted {
		c.Operand(c.Node(6))
	}
	c.Attr(mode, bags, padding)
	width := c.Dims(0)[1]
	n := c.Many()
	c.Return(c.Element(n, 0, d, []int64{bags, width}))
	c.Return(c.Element(n, 1, t, []int64{count}))
	c.Return(c.Element(n, 2, t, []int64{bags}))
	chosen := []int64{bags}
	if mode == bagMax {
		chosen = []int64{bags, width}
	}
	c.Return(c.Element(n, 3, t, chosen))
	return nil
}

func lowerEmbeddingBag(l *ir.Lowering) []hlo.Value {
	b, weight := l.B, l.In(0)
	mode, bags, padding := l.Int(), l.Int(), l.Int()
	t := dtype.S64
	if l.In(1).Dtype() == dtype.S32 && l.In(2).Dtype() == dtype.S32 {
		t = dtype.S32
	}
	index, offsets := flatten(b, l.In(1)), l.In(2)
	rows, width := matrixSize(weight.Dims())
	count := index.Dims()[0]
	l.CheckRange(1, 0, rows, ir.Refusal{Exception: status.RuntimeError, Text: fmt.Sprintf("An index of input takes value %s which is not in the valid range [0, %d)", ir.CheckedValue, rows)})
	checkOffsets(l, offsets, count)

	d := weight.Dtype()
	inBags := func(of dtype.Dtype, v int64) hlo.Value { return b.FullInt(of, v, bags) }
	bag := b.FullInt(t, 0, count)
	if offsets.Dims()[0] > 0 && count > 0 {
		bag = searchSorted(b, offsets, b.Iota(offsets.Dtype(), []int64{count}, 0), true)
		bag = b.Binary(hlo.Subtract, bag, b.FullInt(bag.Dtype(), 1, count))
	}
	target := usedBag(b, bag, index, bags, padding)
	uses := putSlices(b, inBags(t, 0), target, b.FullInt(t, 1, count), 0, hlo.Add)
	computed := d.OpMath()
	values := as(b, takeSlices(b, weight, index, 0), computed)
	if l.Count() > 3 {
		each := as(b, flatten(b, l.In(3)), computed)
		values = b.Binary(hlo.Multiply, values, b.Broadcast(each, values.Dims(), []int{0}))
	}
	chosen := inBags(t, 0)
	var out hlo.Value
	if mode == bagMax {
		out, chosen = greatestOfBags(b, values, index, target, uses)
	} else {
		out = putSlices(b, b.Full(computed, 0, bags, width), target, values, 0, hlo.Add)
		if mode == bagMean {
			each := b.Binary(hlo.Maximum, uses, inBags(t, 1))
			out = b.Binary(hlo.Divide, out, b.Broadcast(as(b, each, computed), out.Dims(), []int{0}))
		}
	}
	return []hlo.Value{as(b, out, d), as(b, bag, t), uses, chosen}
}

// usedBag gives the bag of each index, or -1 where it belongs to none or is the padding.
func usedBag(b *hlo.Builder, bag, index hlo.Value, bags, padding int64) hlo.Value {
	dims := bag.Dims()
	used := inside(b, bag, bags)
	if padding >= 0 {
		used = b.Binary(hlo.And, used, b.Compare("NE", index, b.FullInt(index.Dtype(), padding, dims...)))
	}
	return narrowPositions(b, b.Select(used, bag, b.FullInt(bag.Dtype(), -1, dims...)), bags)
}

// checkOffsets refuses a first offset that is not 0, and a last one behind the indices.
func checkOffsets(l *ir.Lowering, offsets hlo.Value, count int64) {
	b := l.B
	n := offsets.Dims()[0]
	if n == 0 {
		return
	}
	first, last := sliceDim(b, offsets, 0, 0, 1), sliceDim(b, offsets, 0, n-1, n)
	l.CheckNone(b.Compare("NE", first, b.FullInt(first.Dtype(), 0, 1)), first, ir.Refusal{
		Exception: status.RuntimeError,
		Text:      "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got " + ir.CheckedValue,
	})
	l.CheckNone(b.Compare("GT", last, b.FullInt(last.Dtype(), count, 1)), last, ir.Refusal{
		Exception: status.RuntimeError,
		Text:      fmt.Sprintf("offsets[-1] can not be greater than input's length %d but got offsets[-1] of %s", count, ir.CheckedValue),
	})
}

// greatestOfBags gives the greatest values of each bag, 0 for an empty one, and the index of the first row that has each.
// uses counts the rows of each bag.
func greatestOfBags(b *hlo.Builder, values, index, target, uses hlo.Value) (out, chosen hlo.Value) {
	t, bags := uses.Dtype(), uses.Dims()[0]
	count, width := values.Dims()[0], values.Dims()[1]
	dims := []int64{bags, width}
	d := values.Dtype()
	if count == 0 {
		return b.Full(d, 0, dims...), b.FullInt(t, 0, dims...)
	}
	out = putSlices(b, b.Full(d, math.Inf(-1), dims...), target, values, 0, hlo.Maximum)
	place := positionType(count)
	none := b.FullInt(place, count, dims...)
	isGreatest := b.Compare("EQ", values, takeSlices(b, out, clampPositions(b, target, bags), 0))
	here := b.Select(isGreatest, b.Iota(place, values.Dims(), 0), b.FullInt(place, count, values.Dims()...))
	first := putSlices(b, none, target, here, 0, hlo.Minimum)
	empty := b.Compare("EQ", first, none)
	chosen = as(b, takeSlices(b, index, clampPositions(b, first, count), 0), t)
	chosen = b.Select(empty, b.FullInt(t, 0, dims...), chosen)
	unused := b.Broadcast(b.Compare("EQ", uses, b.FullInt(t, 0, bags)), dims, []int{0})
	return b.Select(unused, b.Full(d, 0, dims...), out), chosen
}

// metaEmbeddingBagBackward: (grad, indices, [offsets,] offset2bag, bag_size, maximum_indices, num_weights,
// scale_grad_by_freq, mode, [sparse,] per_sample_weights, padding_idx), where offset2bag is argument bag.
func metaEmbeddingBagBackward(bag int) func(c *Call) error {
	return func(c *Call) error {
		mode := c.Int(bag+5, bagSum)
		next := bag + 6
		if bag == 3 {
			if c.Bool(next) {
				return fallback(c, "device xla has no sparse layouts")
			}
			next++
		}
		weighted := c.IsTensor(next)
		c.Operand(c.Node(0), c.Node(1), c.Node(bag), c.Node(bag+1), c.Node(bag+2))
		if weighted {
			c.Operand(c.Node(next))
		}
		c.AttrBool(c.Bool(bag + 4))
		c.Attr(mode, c.Int(next+1, -1))
		return c.Out(c.Dtype(0), []int64{c.Int(bag+3, 0), c.Dims(0)[1]})
	}
}

func lowerEmbeddingBagBackward(l *ir.Lowering) hlo.Value {
	b, bag, sizes := l.B, l.In(2), l.In(3)
	scale, mode, padding := l.Bool(), l.Int(), l.Int()
	index := flatten(b, l.In(1))
	count := index.Dims()[0]
	bags, _ := matrixSize(l.In(0).Dims())
	d := l.Dtype.OpMath()
	grad := as(b, l.In(0), d)
	zeros := b.Full(d, 0, l.Dims...)
	if numElements(l.Dims) == 0 || count == 0 || bags == 0 {
		return as(b, zeros, l.Dtype)
	}
	if mode == bagMax {
		chosen := l.In(4)
		empty := b.Broadcast(b.Compare("EQ", sizes, b.FullInt(sizes.Dtype(), 0, bags)), chosen.Dims(), []int{0})
		chosen = b.Select(empty, b.FullInt(chosen.Dtype(), -1, chosen.Dims()...), chosen)
		return as(b, putElements(b, zeros, elementPositions(b, chosen, l.Dims, 0, true), grad, hlo.Add), l.Dtype)
	}
	target := usedBag(b, bag, index, bags, padding)
	if mode == bagMean {
		each := as(b, b.Binary(hlo.Maximum, sizes, b.FullInt(sizes.Dtype(), 1, bags)), d)
		grad = b.Binary(hlo.Divide, grad, b.Broadcast(each, grad.Dims(), []int{0}))
	}
	each := takeSlices(b, grad, clampPositions(b, target, bags), 0)
	if l.Count() > 5 {
		each = b.Binary(hlo.Multiply, each, b.Broadcast(as(b, flatten(b, l.In(5)), d), each.Dims(), []int{0}))
	}
	skipped := b.Compare("LT", target, b.FullInt(target.Dtype(), 0, count))
	index = narrowPositions(b, b.Select(skipped, b.FullInt(index.Dtype(), -1, count), index), l.Dims[0])
	if scale {
		each = byFrequency(b, each, index, l.Dims[0])
	}
	return as(b, putSlices(b, zeros, index, each, 0, hlo.Add), l.Dtype)
}

// metaBagWeightsBackward: (grad, weight, indices, offsets, offset2bag, mode, padding_idx).
func metaBagWeightsBackward(c *Call) error {
	if c.Int(5, bagSum) != bagSum {
		return Errorf("embedding_bag_backward: per_sample_weights only supported for mode='sum'")
	}
	c.Operand(c.Node(0), c.Node(1), c.Node(2), c.Node(4))
	c.Attr(c.Int(6, -1))
	return c.Out(c.Dtype(0), []int64{shape.Product(c.Dims(2))})
}

func lowerBagWeightsBackward(l *ir.Lowering) hlo.Value {
	b, index, bag := l.B, flatten(l.B, l.In(2)), l.In(3)
	padding := l.Int()
	d := l.Dtype.OpMath()
	count := l.Dims[0]
	bags, _ := matrixSize(l.In(0).Dims())
	if count == 0 || bags == 0 {
		return b.Full(l.Dtype, 0, count)
	}
	target := usedBag(b, bag, index, bags, padding)
	grad := as(b, takeSlices(b, l.In(0), clampPositions(b, target, bags), 0), d)
	rows := as(b, takeSlices(b, l.In(1), index, 0), d)
	products := b.ReduceOp(hlo.Add, b.Binary(hlo.Multiply, grad, rows), b.Scalar(d, 0), []int{1})
	skipped := b.Compare("LT", target, b.FullInt(target.Dtype(), 0, count))
	return as(b, b.Select(skipped, b.Full(d, 0, count), products), l.Dtype)
}
