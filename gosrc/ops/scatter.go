package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Writing elements at positions given by a tensor: scatter, its reductions, and put_.

func init() {
	register(
		&Row{Name: "scatter.src", Checks: true, InPlace: []string{"scatter_.src"}, Out: []string{"scatter.src_out"}, Meta: metaScatter(-1), Lower: lowerScatter},
		&Row{Name: "scatter.value", Checks: true, InPlace: []string{"scatter_.value"}, Out: []string{"scatter.value_out"}, Meta: metaScatter(-1), Lower: lowerScatter},
		&Row{Name: "scatter.reduce", Checks: true, InPlace: []string{"scatter_.reduce"}, Out: []string{"scatter.reduce_out"}, Meta: metaScatter(4), Lower: lowerScatter},
		&Row{Name: "scatter.value_reduce", Checks: true, InPlace: []string{"scatter_.value_reduce"}, Out: []string{"scatter.value_reduce_out"}, Meta: metaScatter(4), Lower: lowerScatter},
		&Row{Name: "scatter_add", Checks: true, InPlace: []string{"scatter_add_"}, Out: []string{"scatter_add.out"}, Meta: metaScatter(-1), Lower: lowerScatter},
		&Row{Name: "scatter_reduce.two", Checks: true, InPlace: []string{"scatter_reduce_.two"}, Out: []string{"scatter_reduce.two_out"}, Meta: metaScatter(4), Lower: lowerScatter},
		&Row{Name: "put_", Checks: true, SelfOnly: true, Meta: metaPut, Lower: lowerPut},
	)
}

// scatterOp is how a scatter combines what is there with what is written.
type scatterOp int64

const (
	scatterAssign scatterOp = iota
	scatterAdd
	scatterMultiply
	scatterMean
	scatterMaximum
	scatterMinimum
)

// opcode gives the combining operation, a mean's sum included.
func (r scatterOp) opcode() hlo.Opcode {
	return [...]hlo.Opcode{hlo.Second, hlo.Add, hlo.Multiply, hlo.Add, hlo.Maximum, hlo.Minimum}[r]
}

// compute gives the type in which r accumulates elements of d.
func (r scatterOp) compute(d dtype.Dtype) dtype.Dtype {
	switch r {
	case scatterAdd, scatterMultiply, scatterMean:
		return d.OpMath()
	}
	return d
}

// identity gives the value that r leaves another one unchanged by.
func (r scatterOp) identity(b *hlo.Builder, d dtype.Dtype) hlo.Value {
	switch r {
	case scatterMultiply:
		return b.Scalar(d, 1)
	case scatterMaximum:
		return b.MinValue(d)
	case scatterMinimum:
		return b.MaxValue(d)
	}
	return b.Scalar(d, 0)
}

// scatterReduction reads the row's reduction.
func (c *Call) scatterReduction(argument int) (scatterOp, error) {
	if argument < 0 {
		if c.row.Name == "scatter_add" {
			return scatterAdd, nil
		}
		return scatterAssign, nil
	}
	text := c.Text(argument)
	if c.row.Name != "scatter_reduce.two" {
		switch text {
		case "add":
			return scatterAdd, nil
		case "multiply":
			return scatterMultiply, nil
		}
		return 0, Errorf("reduce argument must be either add or multiply.")
	}
	return namedReduction(text)
}

func namedReduction(text string) (scatterOp, error) {
	switch text {
	case "sum":
		return scatterAdd, nil
	case "prod":
		return scatterMultiply, nil
	case "mean":
		return scatterMean, nil
	case "amax":
		return scatterMaximum, nil
	case "amin":
		return scatterMinimum, nil
	}
	return 0, Errorf("reduce argument must be either sum, prod, mean, amax or amin, got %s", text)
}

// metaScatter serves (self, dim, index, src or value, ...); reduceArgument is the number of the
// argument that names the reduction, -1 for none.
func metaScatter(reduceArgument int) func(c *Call) error {
	return func(c *Call) error {
		dim, err := c.Dim(c.Int(1, 0), c.Rank(0))
		if err != nil {
			return err
		}
		d := c.Dtype(0)
		index := c.Dims(2)
		empty := shape.Product(index) == 0
		if !empty {
			if err := c.checkScatter(dim); err != nil {
				return err
			}
		}
		r, err := c.scatterReduction(reduceArgument)
		if err != nil {
			return err
		}
		if d == dtype.Bool && r == scatterMean {
			return status.Torchf(status.NotImplementedError, "\"scatter_gather_tensor_cpu_reduce_mean\" not implemented for 'Bool'")
		}
		if d.IsComplex() && (r == scatterMaximum || r == scatterMinimum) {
			name := map[scatterOp]string{scatterMaximum: "amax", scatterMinimum: "amin"}[r]
			return status.Torchf(status.NotImplementedError, "\"scatter_gather_tensor_cpu_reduce_%s\" not implemented for '%s'", name, torchClass(d))
		}
		if empty {
			c.Return(c.Node(0))
			return nil
		}
		vector := c.indexVector(2, dim)
		if vector != nil {
			c.Operand(c.Node(0), vector)
		} else {
			c.Operand(c.Node(0), c.Node(2))
		}
		if c.IsTensor(3) {
			c.Operand(c.Node(3))
		} else {
			value, err := c.fillValue(3, d)
			if err != nil {
				return err
			}
			c.Operand(value)
		}
		includeSelf := c.row.Name != "scatter_reduce.two" || c.IsNone(5) || c.Bool(5)
		c.Attr(int64(dim), int64(r))
		c.AttrBool(includeSelf)
		c.AttrBool(vector != nil)
		c.AttrInts(index)
		return c.Out(d, c.Dims(0))
	}
}

// checkScatter compares a scatter's self, index and source.
func (c *Call) checkScatter(dim int) error {
	if !isIndexType(c.Dtype(2)) {
		return Errorf("scatter(): Expected dtype int32/int64 for index")
	}
	src := &c.Args[3]
	if src.Tag == TagTensor && src.Dtype != c.Dtype(0) {
		return Errorf("scatter(): Expected self.dtype to be equal to src.dtype")
	}
	self, index := nonEmptyDims(c.Dims(0)), nonEmptyDims(c.Dims(2))
	if len(self) != len(index) {
		return Errorf("Index tensor must have the same number of dimensions as self tensor")
	}
	if src.Tag != TagTensor {
		for k, n := range index {
			if k != dim && n > self[k] {
				return Errorf("Expected index %s to be no larger than self %s apart from dimension %d", dimsText(c.Dims(2)), dimsText(c.Dims(0)), dim)
			}
		}
		return nil
	}
	source := nonEmptyDims(src.View.Sizes)
	for k, n := range index {
		if k >= len(source) {
			return status.Torchf(status.IndexError, "Dimension out of range (expected to be in range of [%d, %d], but got %d)", -len(source), len(source)-1, k)
		}
		if k != dim && n > self[k] || n > source[k] {
			return Errorf("Expected index %s to be no larger than self %s apart from dimension %d and to be no larger size than src %s",
				dimsText(c.Dims(2)), dimsText(c.Dims(0)), dim, dimsText(src.View.Sizes))
		}
	}
	if len(source) != len(index) {
		return Errorf("Index tensor must have the same number of dimensions as src tensor")
	}
	return nil
}

func lowerScatter(l *ir.Lowering) hlo.Value {
	b := l.B
	dim, r, includeSelf := int(l.Int()), scatterOp(l.Int()), l.Bool()
	vector, sizes := l.Bool(), nonEmptyDims(l.Ints())
	d := r.compute(l.Dtype)
	x, index := as(b, atLeast1D(b, l.In(0)), d), atLeast1D(b, l.In(1))
	l.CheckRange(1, 0, x.Dims()[dim], outOfBounds(status.RuntimeError, dim, x.Dims()[dim]))
	source := as(b, l.In(2), d)
	if source.Rank() == 0 {
		source = b.BroadcastTo(source, sizes)
	} else {
		source = b.Slice(source, make([]int64, source.Rank()), sizes, nil)
	}
	var put func(x, source hlo.Value, op hlo.Opcode) hlo.Value
	if vector {
		index = narrowPositions(b, index, x.Dims()[dim])
		put = func(x, source hlo.Value, op hlo.Opcode) hlo.Value {
			return putSlices(b, x, index, source, dim, op)
		}
	} else {
		positions := elementPositions(b, index, x.Dims(), dim, true)
		put = func(x, source hlo.Value, op hlo.Opcode) hlo.Value {
			return putElements(b, x, positions, source, op)
		}
	}
	result := putReduced(b, x, r, includeSelf, put, source)
	return b.Reshape(as(b, result, l.Dtype), l.Dims)
}

// putReduced combines source into x with put, which writes at given positions: where x's own
// element is not to count, it is first replaced by the reduction's identity; a mean divides by
// the number of elements that were combined.
func putReduced(b *hlo.Builder, x hlo.Value, r scatterOp, includeSelf bool, put func(x, source hlo.Value, op hlo.Opcode) hlo.Value, source hlo.Value) hlo.Value {
	d := x.Dtype()
	base := x
	if !includeSelf && r != scatterAssign {
		base = put(x, b.BroadcastTo(r.identity(b, d), source.Dims()), hlo.Second)
	}
	result := put(base, source, r.opcode())
	if r != scatterMean {
		return result
	}
	start := 0.0
	if includeSelf {
		start = 1
	}
	count := put(b.Full(d, start, x.Dims()...), b.Full(d, 1, source.Dims()...), hlo.Add)
	count = b.Select(b.Compare("EQ", count, b.Full(d, 0, x.Dims()...)), b.Full(d, 1, x.Dims()...), count)
	return meanQuotient(b, result, count)
}

// meanQuotient divides by a positive count, rounding integers down.
func meanQuotient(b *hlo.Builder, x, positive hlo.Value) hlo.Value {
	quotient := b.Binary(hlo.Divide, x, positive)
	if !x.Dtype().IsSigned() {
		return quotient
	}
	zero := b.FullInt(x.Dtype(), 0, x.Dims()...)
	below := b.Compare("LT", b.Binary(hlo.Remainder, x, positive), zero)
	return b.Binary(hlo.Subtract, quotient, b.Convert(below, x.Dtype()))
}

func metaPut(c *Call) error {
	if d := c.Dtype(1); d != dtype.S64 {
		return Errorf("put_(): Expected a long tensor for index, but got %s", torchClass(d))
	}
	if c.Dtype(0) != c.Dtype(2) {
		return Errorf("put_(): self and source expected to have the same dtype, but got self.dtype = %s and source.dtype = %s",
			torchClass(c.Dtype(0)), torchClass(c.Dtype(2)))
	}
	index, source := shape.Product(c.Dims(1)), shape.Product(c.Dims(2))
	if index != source {
		return status.Torchf(status.IndexError, "put_(): Expected source and index to have the same number of elements, but got source.numel() = %d, index.numel() = %d", source, index)
	}
	if shape.Product(c.Dims(0)) == 0 && index > 0 {
		return status.Torchf(status.IndexError, "put_(): Tried to put elements into an empty tensor")
	}
	c.Operand(c.Node(0), c.Node(1), c.Value(2, c.Dtype(0)))
	c.AttrBool(c.Bool(3))
	return c.Out(c.Dtype(0), c.Dims(0))
}

func lowerPut(l *ir.Lowering) hlo.Value {
	b := l.B
	op, d := hlo.Second, l.Dtype
	if l.Bool() {
		op, d = hlo.Add, l.Dtype.OpMath()
	}
	x, index := as(b, l.In(0), d), l.In(1)
	elements := shape.Product(x.Dims())
	checkWrapped(l, 1, elements, triedToAccess(elements))
	index = wrapNegative(b, index, elements)
	return as(b, putElements(b, x, narrowPositions(b, index, elements), as(b, l.In(2), d), op), l.Dtype)
}

// unmerge undoes mergeIndices on a value of the merged array's dimensions.
func (m *mergedIndex) unmerge(b *hlo.Builder, x hlo.Value) hlo.Value {
	x = b.Reshape(x, m.moved)
	if m.permute == nil {
		return x
	}
	back := make([]int, len(m.permute))
	for i, p := range m.permute {
		back[p] = i
	}
	return b.Transpose(x, back)
}
