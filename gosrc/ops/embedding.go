package ops

import (
	"fmt"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Embedding tables.

func init() {
	register(
		&Row{Name: "embedding", Checks: true, Meta: metaEmbedding, Lower: lowerEmbedding},
		&Row{Name: "embedding_dense_backward", Meta: metaEmbeddingBackward, Lower: lowerEmbeddingBackward, Variables: variablePadding},
		&Row{Name: "embedding_renorm", Checks: true, InPlace: []string{"embedding_renorm_"}, Out: []string{"embedding_renorm.out"}, Meta: metaEmbeddingRenorm, Lower: lowerEmbeddingRenorm, Variables: variableOrder},
	)
}

// metaEmbeddingRenorm: (self, indices, max_norm, norm_type).
func metaEmbeddingRenorm(c *Call) error {
	const function = "embedding_renorm_"
	if rank := c.Rank(0); rank != 2 {
		return Errorf("Expected 2-dimensional tensor, but got %d-dimensional tensor for argument #1 'self' (while checking arguments for %s)", rank, function)
	}
	if d := c.Dtype(1); !isIndexType(d) {
		return Errorf("Expected tensor for argument #2 'indices' to have one of the following scalar types: Long, Int; but got torch.%sTensor instead (while checking arguments for %s)", torchClass(d), function)
	}
	d := c.Dtype(0)
	if !d.IsFloat() {
		return status.Torchf(status.NotImplementedError, "norm(): input dtype should be either floating point or complex. Got %s instead.", torchClass(d))
	}
	c.Operand(c.Node(0), c.Node(1), c.FloatNode(c.Float(2, 0), d.OpMath()))
	c.AttrFloat(c.Float(3, 2))
	return c.Out(d, c.Dims(0))
}

// lowerEmbeddingRenorm scales down the rows that the indices name and whose norm is above the limit.
func lowerEmbeddingRenorm(l *ir.Lowering) hlo.Value {
	b, weight := l.B, l.In(0)
	order := l.Number()
	rows := weight.Dims()[0]
	l.CheckRange(1, -rows, rows, ir.Refusal{Exception: status.IndexError, Text: fmt.Sprintf("select(): index %s out of range for tensor of size %s at dimension 0", ir.CheckedValue, dimsText(weight.Dims()))})
	if numElements(weight.Dims()) == 0 {
		return weight
	}
	index := wrapNegative(b, flatten(b, l.In(1)), rows)
	d := l.Dtype.OpMath()
	norm := flatten(b, normOver(b, as(b, takeSlices(b, weight, index, 0), d), order, 1<<1))
	dims := norm.Dims()
	largest := b.Broadcast(l.In(2), dims, nil)
	scaled := b.Binary(hlo.Divide, largest, b.Binary(hlo.Add, norm, b.Full(d, 1e-7, dims...)))
	factor := b.Select(b.Compare("GT", norm, largest), scaled, b.Full(d, 1, dims...))
	// A row that is named twice gets the same factor twice.
	factors := putSlices(b, b.Full(d, 1, rows), narrowPositions(b, index, rows), factor, 0, hlo.Minimum)
	return as(b, b.Binary(hlo.Multiply, as(b, weight, d), b.Broadcast(factors, weight.Dims(), []int{0})), l.Dtype)
}

// checkIndices checks the type of an embedding's indices, argument number from zero.
func (c *Call) checkIndices(argument int, function string) error {
	if d := c.Dtype(argument); !isIndexType(d) {
		return Errorf("Expected tensor for argument #%d 'indices' to have one of the following scalar types: Long, Int; but got torch.%sTensor instead (while checking arguments for %s)",
			map[string]int{"embedding": 1, "embedding_backward": 2}[function], torchClass(d), function)
	}
	return nil
}

// metaEmbedding: (weight, indices, padding_idx, scale_grad_by_freq, sparse); the last three only
// concern the gradient.
func metaEmbedding(c *Call) error {
	if c.Rank(0) != 2 {
		return Errorf("'weight' must be 2-D")
	}
	if err := c.checkIndices(1, "embedding"); err != nil {
		return err
	}
	weight := c.Dims(0)
	if weight[0] == 0 && shape.Product(c.Dims(1)) > 0 {
		return Errorf("index_select(): self indexing axis dim should be positive")
	}
	c.Operand(c.Node(0), c.Node(1))
	c.dims = append(append(c.dims[:0], c.Dims(1)...), weight[1])
	return c.Out(c.Dtype(0), c.dims)
}

func lowerEmbedding(l *ir.Lowering) hlo.Value {
	l.CheckRange(1, 0, l.In(0).Dims()[0], outOfRangeInSelf)
	return takeSlices(l.B, l.In(0), l.In(1), 0)
}

// metaEmbeddingBackward: (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq).
func metaEmbeddingBackward(c *Call) error {
	if err := c.checkIndices(1, "embedding_backward"); err != nil {
		return err
	}
	rank := c.Rank(0)
	if rank == 0 || shape.Product(c.Dims(0)[:rank-1]) != shape.Product(c.Dims(1)) {
		return Errorf("embedding_dense_backward(): expected grad_output of the indices' sizes %s and one dimension more, got %s", dimsText(c.Dims(1)), dimsText(c.Dims(0)))
	}
	weights := c.Int(2, 0)
	c.Operand(c.Node(0), c.Node(1))
	c.Attr(c.Int(3, -1))
	c.AttrBool(c.Bool(4))
	c.dims = append(c.dims[:0], weights, c.Dims(0)[rank-1])
	return c.Out(c.Dtype(0), c.dims)
}

// variablePadding is the padding position, where there is one.
func variablePadding(n *ir.Node) ir.Variables {
	if n.Attributes[0] < 0 {
		return ir.Variables{}
	}
	return ir.Variables{Integers: 1}
}

func lowerEmbeddingBackward(l *ir.Lowering) hlo.Value {
	b := l.B
	padding, scale := l.Number(), l.Bool()
	weights, width := l.Dims[0], l.Dims[1]
	d := l.Dtype.OpMath()
	count := shape.Product(l.In(1).Dims())
	index := b.Reshape(l.In(1), []int64{count})
	grad := as(b, b.Reshape(l.In(0), []int64{count, width}), d)
	if count == 0 || weights == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	if padding.IsParameter() || padding.Constant >= 0 {
		// A negative position is skipped.
		same := b.Compare("EQ", index, b.Broadcast(padding.In(b, index.Dtype()), []int64{count}, nil))
		index = b.Select(same, b.FullInt(index.Dtype(), -1, count), index)
	}
	index = narrowPositions(b, index, weights)
	if scale {
		grad = byFrequency(b, grad, index, weights)
	}
	return as(b, putSlices(b, b.Full(d, 0, weights, width), index, grad, 0, hlo.Add), l.Dtype)
}

// byFrequency divides the gradient that each index gives to its row of the table by how often the row is named.
func byFrequency(b *hlo.Builder, grad, index hlo.Value, rows int64) hlo.Value {
	count := index.Dims()[0]
	uses := putSlices(b, b.Full(dtype.S32, 0, rows), index, b.FullInt(dtype.S32, 1, count), 0, hlo.Add)
	each := as(b, takeSlices(b, uses, index, 0), grad.Dtype())
	each = b.Binary(hlo.Maximum, each, b.Full(grad.Dtype(), 1, count))
	return b.Binary(hlo.Divide, grad, b.Broadcast(each, grad.Dims(), []int{0}))
}
