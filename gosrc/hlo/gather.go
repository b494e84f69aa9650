package hlo

import (
	"slices"

	"xla_go/gosrc/shape"
)

// GatherDims are the dimension numbers of Gather, with XLA's meaning. Lists are sorted but for
// StartIndexMap and the batching dimensions, which pair up in order.
type GatherDims struct {
	OffsetDims          []int64 // result dimensions that hold a slice's dimensions
	CollapsedSliceDims  []int64 // operand dimensions that the slice drops (their slice size is 1)
	StartIndexMap       []int64 // operand dimension of each entry of an index vector
	OperandBatchingDims []int64 // operand dimensions that go with IndicesBatchingDims
	IndicesBatchingDims []int64
	IndexVectorDim      int64 // of indices; its rank if each index is a scalar
	SliceSizes          []int64
	IndicesAreSorted    bool
}

// Gather takes a slice of x for each index vector in indices. A start is clamped so that the
// slice lies inside.
func (b *Builder) Gather(x, indices Value, g GatherDims) Value {
	if !b.ok(opGather, x, indices) {
		return Value{}
	}
	s := x.n.shape
	rank := len(s.Dims)
	batch, ok := b.indexDims(opGather, indices, g.IndexVectorDim, g.StartIndexMap, g.IndicesBatchingDims)
	if !ok {
		return Value{}
	}
	if len(g.SliceSizes) != rank {
		return b.fail(opGather, "expected a slice size for each of %d dimensions, got %v", rank, g.SliceSizes)
	}
	dropped := slices.Concat(g.CollapsedSliceDims, g.OperandBatchingDims)
	if !distinct(dropped, rank) || !slices.IsSorted(g.CollapsedSliceDims) {
		return b.fail(opGather, "expected sorted distinct dimensions of %v to drop, got %v and batching %v",
			s, g.CollapsedSliceDims, g.OperandBatchingDims)
	}
	if !distinct(slices.Concat(g.StartIndexMap, g.OperandBatchingDims), rank) {
		return b.fail(opGather, "expected distinct dimensions of %v as start index map, got %v and batching %v",
			s, g.StartIndexMap, g.OperandBatchingDims)
	}
	if !b.batching(opGather, s, indices.n.shape, g.OperandBatchingDims, g.IndicesBatchingDims) {
		return Value{}
	}
	var window []int64
	for i, n := range g.SliceSizes {
		if n < 0 || n > s.Dims[i] {
			return b.fail(opGather, "expected a slice size of at most %d in dimension %d, got %d", s.Dims[i], i, n)
		}
		if slices.Contains(dropped, int64(i)) {
			if n > 1 {
				return b.fail(opGather, "expected slice size 1 in dropped dimension %d, got %d", i, n)
			}
			continue
		}
		window = append(window, n)
	}
	dims, ok := b.interleave(opGather, batch, window, g.OffsetDims)
	if !ok {
		return Value{}
	}
	n, at := b.begin(opGather, shape.Shape{Dtype: s.Dtype, Dims: dims})
	e := &b.body
	numbers := e.open(33)
	e.packed(1, g.OffsetDims)
	e.packed(2, g.CollapsedSliceDims)
	e.packed(3, g.StartIndexMap)
	e.varint(4, g.IndexVectorDim)
	e.packed(5, g.OperandBatchingDims)
	e.packed(6, g.IndicesBatchingDims)
	e.close(numbers)
	e.packed(34, g.SliceSizes)
	e.flag(67, g.IndicesAreSorted)
	return likeOperands(b.end(n, at, x, indices), x)
}

// indexDims gives the dimensions of indices without the one that holds the index vector.
func (b *Builder) indexDims(op Opcode, indices Value, vector int64, toOperand, batching []int64) ([]int64, bool) {
	s := indices.n.shape
	if !s.Dtype.IsInteger() {
		b.fail(op, "expected integer indices, got %v", s)
		return nil, false
	}
	rank := int64(len(s.Dims))
	if vector < 0 || vector > rank {
		b.fail(op, "expected an index vector dimension of at most %d, got %d", rank, vector)
		return nil, false
	}
	length := int64(1)
	batch := slices.Clone(s.Dims)
	if vector < rank {
		length = s.Dims[vector]
		batch = slices.Delete(batch, int(vector), int(vector)+1)
	}
	if length != int64(len(toOperand)) {
		b.fail(op, "expected index vectors of length %d, got %d in %v", len(toOperand), length, s)
		return nil, false
	}
	if slices.Contains(batching, vector) {
		b.fail(op, "expected batching dimensions other than the index vector's %d, got %v", vector, batching)
		return nil, false
	}
	return batch, true
}

func (b *Builder) batching(op Opcode, x, indices shape.Shape, operandDims, indexDims []int64) bool {
	if len(operandDims) != len(indexDims) || !distinct(indexDims, len(indices.Dims)) {
		b.fail(op, "expected pairs of batching dimensions, got %v and %v", operandDims, indexDims)
		return false
	}
	for i := range operandDims {
		if a, z := x.Dims[operandDims[i]], indices.Dims[indexDims[i]]; a != z {
			b.fail(op, "expected batching dimensions of equal size, got %d and %d", a, z)
			return false
		}
	}
	return true
}

// interleave puts the window's sizes at the offset dimensions and the batch's at the others.
func (b *Builder) interleave(op Opcode, batch, window, offsets []int64) ([]int64, bool) {
	rank := len(batch) + len(offsets)
	if len(window) != len(offsets) || !distinct(offsets, rank) || !slices.IsSorted(offsets) {
		b.fail(op, "expected %d sorted distinct window dimensions below %d, got %v", len(window), rank, offsets)
		return nil, false
	}
	dims := make([]int64, 0, rank)
	for i := range rank {
		if slices.Contains(offsets, int64(i)) {
			dims, window = append(dims, window[0]), window[1:]
		} else {
			dims, batch = append(dims, batch[0]), batch[1:]
		}
	}
	return dims, true
}

// ScatterDims are the dimension numbers of Scatter, with XLA's meaning (see GatherDims).
type ScatterDims struct {
	UpdateWindowDims         []int64 // update dimensions that hold a window's dimensions
	InsertedWindowDims       []int64 // operand dimensions that the window lacks
	ScatterDimsToOperandDims []int64 // operand dimension of each entry of an index vector
	InputBatchingDims        []int64 // operand dimensions that go with IndicesBatchingDims
	IndicesBatchingDims      []int64
	IndexVectorDim           int64
	IndicesAreSorted         bool
	UniqueIndices            bool // the caller promises that no two windows overlap
}

// Scatter combines each window of the updates into xs at its index vector; a window that does
// not lie inside is skipped. combine takes the present elements, then the updates, as scalars.
func (b *Builder) Scatter(xs []Value, indices Value, updates []Value, s ScatterDims, combine *Computation) []Value {
	bad := make([]Value, len(xs))
	if !b.ok(opScatter, xs...) || !b.ok(opScatter, indices) || !b.ok(opScatter, updates...) {
		return bad
	}
	if len(xs) == 0 || len(xs) != len(updates) {
		b.fail(opScatter, "expected one update per operand, got %d operands and %d updates", len(xs), len(updates))
		return bad
	}
	x := xs[0].n.shape
	rank := len(x.Dims)
	batch, ok := b.indexDims(opScatter, indices, s.IndexVectorDim, s.ScatterDimsToOperandDims, s.IndicesBatchingDims)
	if !ok {
		return bad
	}
	inserted := slices.Concat(s.InsertedWindowDims, s.InputBatchingDims)
	if !distinct(inserted, rank) || !slices.IsSorted(s.InsertedWindowDims) {
		b.fail(opScatter, "expected sorted distinct dimensions of %v to insert, got %v and batching %v",
			x, s.InsertedWindowDims, s.InputBatchingDims)
		return bad
	}
	if !distinct(slices.Concat(s.ScatterDimsToOperandDims, s.InputBatchingDims), rank) {
		b.fail(opScatter, "expected distinct dimensions of %v as scatter dimensions, got %v and batching %v",
			x, s.ScatterDimsToOperandDims, s.InputBatchingDims)
		return bad
	}
	if !b.batching(opScatter, x, indices.n.shape, s.InputBatchingDims, s.IndicesBatchingDims) {
		return bad
	}
	var largest []int64
	for i, n := range x.Dims {
		if !slices.Contains(inserted, int64(i)) {
			largest = append(largest, n)
		}
	}
	shapes := make([]shape.Shape, len(xs))
	for i, v := range xs {
		shapes[i] = v.n.shape
		u := updates[i].n.shape
		if !slices.Equal(v.Dims(), x.Dims) || !slices.Equal(u.Dims, updates[0].Dims()) || u.Dtype != v.Dtype() {
			b.fail(opScatter, "expected operands of equal dimensions and updates of their types, got %v with update %v", v.n.shape, u)
			return bad
		}
	}
	u := updates[0].n.shape
	window := make([]int64, 0, len(largest))
	for _, d := range s.UpdateWindowDims {
		if d < 0 || d >= int64(len(u.Dims)) {
			b.fail(opScatter, "expected update window dimensions below %d, got %v", len(u.Dims), s.UpdateWindowDims)
			return bad
		}
		window = append(window, u.Dims[d])
	}
	if len(window) != len(largest) {
		b.fail(opScatter, "expected %d update window dimensions, got %v", len(largest), s.UpdateWindowDims)
		return bad
	}
	for i, n := range window {
		if n > largest[i] {
			b.fail(opScatter, "expected an update window of at most %v, got %v in %v", largest, window, u)
			return bad
		}
	}
	want, ok := b.interleave(opScatter, batch, window, s.UpdateWindowDims)
	if !ok {
		return bad
	}
	if !slices.Equal(want, u.Dims) {
		b.fail(opScatter, "expected updates of dimensions %v, got %v", want, u)
		return bad
	}
	if pairs, result := scalarsOf(xs); !b.takes(opScatter, combine, pairs, result) {
		return bad
	}
	n, at := b.begin(opScatter, together(shapes))
	e := &b.body
	numbers := e.open(48)
	e.packed(1, s.UpdateWindowDims)
	e.packed(2, s.InsertedWindowDims)
	e.packed(3, s.ScatterDimsToOperandDims)
	e.varint(4, s.IndexVectorDim)
	e.packed(5, s.InputBatchingDims)
	e.packed(6, s.IndicesBatchingDims)
	e.close(numbers)
	e.flag(67, s.IndicesAreSorted)
	e.flag(69, s.UniqueIndices)
	b.calls(combine)
	return b.elements(b.end(n, at, slices.Concat(xs, []Value{indices}, updates)...), len(xs) > 1)
}
