package ops

import (
	"math"
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// Building blocks of the rows that read or write at positions given by a tensor. A position
// outside the tensor is clamped by a read and skipped by a write, for it must not reach another row's elements, and fails
// a check of the program: whether there is one is known only once that runs.

// windowDims gives the result dimensions that hold a slice's own dimensions, where the dimension
// at is replaced by count index dimensions.
func windowDims(rank, at, count int) []int64 {
	dims := make([]int64, 0, rank)
	for i := range rank {
		switch {
		case i < at:
			dims = append(dims, int64(i))
		case i > at:
			dims = append(dims, int64(i-1+count))
		}
	}
	return dims
}

// replaceDim gives dims with the dimension at replaced by others.
func replaceDim(dims []int64, at int, others ...int64) []int64 {
	return slices.Concat(dims[:at], others, dims[at+1:])
}

// takeSlices gives the slices of x along at that index names: x's dimensions with at replaced by
// those of index.
func takeSlices(b *hlo.Builder, x, index hlo.Value, at int) hlo.Value {
	dims := replaceDim(x.Dims(), at, index.Dims()...)
	if shape.Product(dims) == 0 || x.Dims()[at] == 0 {
		return b.Full(x.Dtype(), 0, dims...)
	}
	return b.Gather(x, index, hlo.GatherDims{
		OffsetDims:         windowDims(x.Rank(), at, index.Rank()),
		CollapsedSliceDims: []int64{int64(at)},
		StartIndexMap:      []int64{int64(at)},
		IndexVectorDim:     int64(index.Rank()),
		SliceSizes:         replaceDim(x.Dims(), at, 1),
	})
}

// putSlices combines updates, shaped as takeSlices gives them, into x.
func putSlices(b *hlo.Builder, x, index, updates hlo.Value, at int, op hlo.Opcode) hlo.Value {
	if shape.Product(updates.Dims()) == 0 || shape.Product(x.Dims()) == 0 {
		return x
	}
	return b.Scatter([]hlo.Value{x}, index, []hlo.Value{updates}, hlo.ScatterDims{
		UpdateWindowDims:         windowDims(x.Rank(), at, index.Rank()),
		InsertedWindowDims:       []int64{int64(at)},
		ScatterDimsToOperandDims: []int64{int64(at)},
		IndexVectorDim:           int64(index.Rank()),
	}, b.ScalarComputation(boolCombiner(op, x.Dtype()), x.Dtype()))[0]
}

// boolCombiner is op, with or for a sum and and for a product of Bool.
func boolCombiner(op hlo.Opcode, d dtype.Dtype) hlo.Opcode {
	if d == dtype.Bool {
		switch op {
		case hlo.Add, hlo.Maximum:
			return hlo.Or
		case hlo.Multiply, hlo.Minimum:
			return hlo.And
		}
	}
	return op
}

// positionType is the integer type for positions among n elements.
func positionType(n int64) dtype.Dtype {
	if n <= math.MaxInt32 {
		return dtype.S32
	}
	return dtype.S64
}

// wrapNegative adds n to negative positions.
func wrapNegative(b *hlo.Builder, index hlo.Value, n int64) hlo.Value {
	dims := index.Dims()
	negative := b.Compare("LT", index, b.FullInt(index.Dtype(), 0, dims...))
	return b.Select(negative, b.Binary(hlo.Add, index, b.FullInt(index.Dtype(), n, dims...)), index)
}

// inside says which positions are in [0, n).
func inside(b *hlo.Builder, index hlo.Value, n int64) hlo.Value {
	dims := index.Dims()
	return b.Binary(hlo.And,
		b.Compare("GE", index, b.FullInt(index.Dtype(), 0, dims...)),
		b.Compare("LT", index, b.FullInt(index.Dtype(), n, dims...)))
}

// clampPositions puts positions into [0, n).
func clampPositions(b *hlo.Builder, index hlo.Value, n int64) hlo.Value {
	d := index.Dtype()
	return b.Clamp(b.ScalarInt(d, 0), index, b.ScalarInt(d, max(n-1, 0)))
}

// narrowPositions makes s64 positions s32 where n elements allow it, without wrapping around.
func narrowPositions(b *hlo.Builder, index hlo.Value, n int64) hlo.Value {
	t := positionType(n)
	if index.Dtype() == t {
		return index
	}
	if t == dtype.S32 {
		index = b.Clamp(b.ScalarInt(index.Dtype(), -1), index, b.ScalarInt(index.Dtype(), n))
	}
	return b.Convert(index, t)
}

// elementPositions gives, for an index along dim of an array of dims, the row-major positions of
// the elements that it names; the other coordinates are the index's own. Positions outside are
// clamped, or made -1 where skip is set.
func elementPositions(b *hlo.Builder, index hlo.Value, dims []int64, dim int, skip bool) hlo.Value {
	t := positionType(shape.Product(dims))
	strides := shape.RowMajorStrides(dims)
	var valid hlo.Value
	if skip {
		valid = inside(b, index, dims[dim])
	}
	at := b.Convert(clampPositions(b, index, dims[dim]), t)
	sizes := index.Dims()
	position := b.Binary(hlo.Multiply, at, b.FullInt(t, strides[dim], sizes...))
	for k := range dims {
		if k == dim || sizes[k] == 1 {
			continue
		}
		coordinate := b.Iota(t, sizes, k)
		if strides[k] != 1 {
			coordinate = b.Binary(hlo.Multiply, coordinate, b.FullInt(t, strides[k], sizes...))
		}
		position = b.Binary(hlo.Add, position, coordinate)
	}
	if skip {
		position = b.Select(valid, position, b.FullInt(t, -1, sizes...))
	}
	return position
}

// takeElements gives the elements of x at row-major positions.
func takeElements(b *hlo.Builder, x, positions hlo.Value) hlo.Value {
	return takeSlices(b, b.Reshape(x, []int64{shape.Product(x.Dims())}), positions, 0)
}

// putElements combines updates, of the positions' dimensions, into x's elements at row-major
// positions.
func putElements(b *hlo.Builder, x, positions, updates hlo.Value, op hlo.Opcode) hlo.Value {
	flat := b.Reshape(x, []int64{shape.Product(x.Dims())})
	count := []int64{shape.Product(positions.Dims())}
	flat = putSlices(b, flat, b.Reshape(positions, count), b.Reshape(updates, count), 0, op)
	return b.Reshape(flat, x.Dims())
}

// atLeast1D makes a 0-dim value one of one element.
func atLeast1D(b *hlo.Builder, x hlo.Value) hlo.Value {
	if x.Rank() == 0 {
		return b.Reshape(x, []int64{1})
	}
	return x
}

// nonEmptyDims counts a 0-dim tensor as one of one element.
func nonEmptyDims(dims []int64) []int64 {
	if len(dims) == 0 {
		return []int64{1}
	}
	return dims
}

// isIndexType says whether d is int32 or int64.
func isIndexType(d dtype.Dtype) bool { return d == dtype.S32 || d == dtype.S64 }

// withDim gives the sizes of argument i with one dimension replaced, in the call's scratch.
func (c *Call) withDim(sizes []int64, dim int, size int64) []int64 {
	c.dims = append(c.dims[:0], sizes...)
	if dim < len(c.dims) {
		c.dims[dim] = size
	}
	return c.dims
}

// indexVector gives the positions of an index whose slices along dim all name one position, as
// expand makes it of a vector: whole slices can then be moved. Nil for any other index.
func (c *Call) indexVector(i, dim int) *ir.Node {
	v := c.Args[i].View
	if len(v.Sizes) < 2 || dim >= len(v.Sizes) {
		return nil
	}
	for k, n := range v.Sizes {
		if k != dim && n != 1 && v.Strides[k] != 0 {
			return nil
		}
	}
	v.Sizes, v.Strides = v.Sizes[dim:dim+1], v.Strides[dim:dim+1]
	return c.access.Read(&v)
}

// fillValue makes the scalar parameter of a number that is stored into elements of d, as torch's
// Scalar::to does: truncated for an integer, compared with zero for a Bool.
func (c *Call) fillValue(i int, d dtype.Dtype) (*ir.Node, error) {
	a := &c.Args[i]
	if a.IsComplexScalar() && a.Imag != 0 && !d.IsComplex() {
		return nil, Errorf("value cannot be converted to type %s without overflow", scalarTypeText(d))
	}
	if d == dtype.Bool {
		if a.AsFloat() != 0 || a.Imag != 0 {
			return c.IntNode(1), nil
		}
		return c.IntNode(0), nil
	}
	return c.ScalarOf(a, d), nil
}

// scalarTypeText gives the C++ name that torch's conversion messages use.
func scalarTypeText(d dtype.Dtype) string {
	switch d {
	case dtype.F32:
		return "float"
	case dtype.F64:
		return "double"
	case dtype.F16:
		return "at::Half"
	case dtype.BF16:
		return "at::BFloat16"
	case dtype.S64:
		return "int64_t"
	case dtype.S32:
		return "int"
	case dtype.S16:
		return "int16_t"
	case dtype.S8:
		return "int8_t"
	case dtype.U8:
		return "uint8_t"
	}
	return d.TorchName()
}
