package hlo

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

func identity(n int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	return p
}

func isIdentity(p []int) bool {
	for i, d := range p {
		if i != d {
			return false
		}
	}
	return true
}

// isPermutation says whether p holds 0 to n-1, each once.
func isPermutation(p []int, n int) bool {
	if len(p) != n {
		return false
	}
	return distinct(p, n)
}

// distinct says whether the dimensions are in [0, n) and no two are equal.
func distinct[T int | int64](dims []T, n int) bool {
	for i, d := range dims {
		if d < 0 || d >= T(n) || slices.Contains(dims[:i], d) {
			return false
		}
	}
	return true
}

func negative(dims []int64) bool {
	for _, d := range dims {
		if d < 0 {
			return true
		}
	}
	return false
}

// Broadcast puts operand dimension i at result dimension broadcastDims[i], of equal size, and
// repeats along the others. x itself if nothing changes.
func (b *Builder) Broadcast(x Value, dims []int64, broadcastDims []int) Value {
	if !b.ok(opBroadcast, x) {
		return Value{}
	}
	s := x.n.shape
	if len(broadcastDims) != len(s.Dims) || !distinct(broadcastDims, len(dims)) || negative(dims) {
		return b.fail(opBroadcast, "expected a dimension of %v for each of %v, got %v", dims, s, broadcastDims)
	}
	for i, d := range broadcastDims {
		if s.Dims[i] != dims[d] {
			return b.fail(opBroadcast, "expected dimension %d of %v to have size %d, got %d", i, s, dims[d], s.Dims[i])
		}
	}
	if len(dims) == len(s.Dims) && isIdentity(broadcastDims) {
		return x
	}
	if len(dims) == len(s.Dims) { // a permutation only
		back := make([]int, len(dims))
		for i, d := range broadcastDims {
			back[d] = i
		}
		return b.Transpose(x, back)
	}
	if !slices.IsSorted(broadcastDims) {
		order := identity(len(broadcastDims))
		slices.SortFunc(order, func(i, j int) int { return broadcastDims[i] - broadcastDims[j] })
		x = b.Transpose(x, order)
		broadcastDims = slices.Sorted(slices.Values(broadcastDims))
	}
	n, at := b.begin(opBroadcast, shape.Shape{Dtype: s.Dtype, Dims: dims})
	b.body.packedInts(14, broadcastDims)
	return likeOperands(b.end(n, at, x), x)
}

// BroadcastTo expands x as torch and numpy do: dimensions are aligned at the right, and those of
// size 1 are repeated.
func (b *Builder) BroadcastTo(x Value, dims []int64) Value {
	if !b.ok(opBroadcast, x) {
		return Value{}
	}
	from := x.n.shape.Dims
	lead := len(dims) - len(from)
	if lead < 0 {
		return b.fail(opBroadcast, "expected at least %d dimensions for %v, got %v", len(from), x.n.shape, dims)
	}
	kept := make([]int64, 0, len(from))
	at := make([]int, 0, len(from))
	for i, size := range from {
		switch {
		case size == dims[lead+i]:
			kept = append(kept, size)
			at = append(at, lead+i)
		case size != 1:
			return b.fail(opBroadcast, "expected dimension %d of %v to be 1 or %d, got %d", i, x.n.shape, dims[lead+i], size)
		}
	}
	return b.Broadcast(b.Reshape(x, kept), dims, at)
}

// Reshape gives the elements, in row-major order, other dimensions of the same product.
func (b *Builder) Reshape(x Value, dims []int64) Value {
	if !b.ok(opReshape, x) {
		return Value{}
	}
	s := x.n.shape
	if slices.Equal(s.Dims, dims) {
		return x
	}
	if negative(dims) || s.Dtype.Size() == 0 || s.NumElements() != shape.Product(dims) {
		return b.fail(opReshape, "expected dimensions for %d elements, got %v to %v", s.NumElements(), s, dims)
	}
	return likeOperands(b.emit(opReshape, shape.Shape{Dtype: s.Dtype, Dims: dims}, x), x)
}

// Transpose gives result dimension i the operand's dimension permutation[i].
func (b *Builder) Transpose(x Value, permutation []int) Value {
	if !b.ok(opTranspose, x) {
		return Value{}
	}
	s := x.n.shape
	if !isPermutation(permutation, len(s.Dims)) {
		return b.fail(opTranspose, "expected a permutation of %d dimensions, got %v", len(s.Dims), permutation)
	}
	if isIdentity(permutation) {
		return x
	}
	dims := make([]int64, len(permutation))
	for i, p := range permutation {
		dims[i] = s.Dims[p]
	}
	n, at := b.begin(opTranspose, shape.Shape{Dtype: s.Dtype, Dims: dims})
	b.body.packedInts(14, permutation)
	return likeOperands(b.end(n, at, x), x)
}

// Slice takes the elements start, start+stride, ... below limit of each dimension; stride nil is
// all ones. x itself if that is all of it.
func (b *Builder) Slice(x Value, start, limit, stride []int64) Value {
	if !b.ok(opSlice, x) {
		return Value{}
	}
	s := x.n.shape
	rank := len(s.Dims)
	if len(start) != rank || len(limit) != rank || (stride != nil && len(stride) != rank) {
		return b.fail(opSlice, "expected a start, limit and stride for each of %d dimensions, got %v, %v and %v",
			rank, start, limit, stride)
	}
	dims := make([]int64, rank)
	whole := true
	for i := range dims {
		step := int64(1)
		if stride != nil {
			step = stride[i]
		}
		if start[i] < 0 || start[i] > limit[i] || limit[i] > s.Dims[i] || step < 1 {
			return b.fail(opSlice, "expected 0 <= start <= limit <= %d and stride >= 1 in dimension %d, got %d, %d and %d",
				s.Dims[i], i, start[i], limit[i], step)
		}
		dims[i] = (limit[i] - start[i] + step - 1) / step
		whole = whole && dims[i] == s.Dims[i]
	}
	if whole {
		return x
	}
	n, at := b.begin(opSlice, shape.Shape{Dtype: s.Dtype, Dims: dims})
	for i := range dims {
		one := b.body.open(17)
		b.body.varint(1, start[i])
		b.body.varint(2, limit[i])
		step := int64(1)
		if stride != nil {
			step = stride[i]
		}
		b.body.varint(3, step)
		b.body.close(one)
	}
	return likeOperands(b.end(n, at, x), x)
}

// DynamicSlice takes a block of that size at the starts, one integer scalar per dimension, all
// of one type. A start is clamped so that the block lies inside.
func (b *Builder) DynamicSlice(x Value, starts []Value, sizes []int64) Value {
	if !b.ok(opDynamicSlice, x) || !b.starts(opDynamicSlice, x, starts) {
		return Value{}
	}
	s := x.n.shape
	if len(sizes) != len(s.Dims) {
		return b.fail(opDynamicSlice, "expected a size for each of %d dimensions, got %v", len(s.Dims), sizes)
	}
	for i, n := range sizes {
		if n < 0 || n > s.Dims[i] {
			return b.fail(opDynamicSlice, "expected a size of at most %d in dimension %d, got %d", s.Dims[i], i, n)
		}
	}
	n, at := b.begin(opDynamicSlice, shape.Shape{Dtype: s.Dtype, Dims: sizes})
	b.body.packed(20, sizes)
	return likeOperands(b.end(n, at, append([]Value{x}, starts...)...), x)
}

// DynamicUpdateSlice gives x with update written at the starts (see DynamicSlice).
func (b *Builder) DynamicUpdateSlice(x, update Value, starts []Value) Value {
	if !b.ok(opDynamicUpdateSlice, x, update) || !b.starts(opDynamicUpdateSlice, x, starts) {
		return Value{}
	}
	s, u := x.n.shape, update.n.shape
	if s.Dtype != u.Dtype || len(s.Dims) != len(u.Dims) {
		return b.fail(opDynamicUpdateSlice, "expected an update of %v with %d dimensions, got %v", s.Dtype, len(s.Dims), u)
	}
	for i, n := range u.Dims {
		if n > s.Dims[i] {
			return b.fail(opDynamicUpdateSlice, "expected an update of size at most %d in dimension %d, got %d", s.Dims[i], i, n)
		}
	}
	return b.emit(opDynamicUpdateSlice, s, append([]Value{x, update}, starts...)...)
}

func (b *Builder) starts(op Opcode, x Value, starts []Value) bool {
	if !b.ok(op, starts...) {
		return false
	}
	if len(starts) != x.Rank() {
		b.fail(op, "expected %d start indices, got %d", x.Rank(), len(starts))
		return false
	}
	for _, v := range starts {
		if v.Rank() != 0 || !v.Dtype().IsInteger() || v.Dtype() != starts[0].Dtype() {
			b.fail(op, "expected integer scalars of one type as start indices, got %v and %v", starts[0].n.shape, v.n.shape)
			return false
		}
	}
	return true
}

// Pad adds low and high elements at the ends of each dimension and interior ones between its
// elements, all of value padding; a negative low or high removes elements. nil is all zeros.
func (b *Builder) Pad(x, padding Value, low, high, interior []int64) Value {
	if !b.ok(opPad, x, padding) {
		return Value{}
	}
	s := x.n.shape
	if padding.Rank() != 0 || padding.Dtype() != s.Dtype {
		return b.fail(opPad, "expected padding of shape %v, got %v", shape.Make(s.Dtype), padding.n.shape)
	}
	rank := len(s.Dims)
	dims := make([]int64, rank)
	nothing := true
	for _, list := range []*[]int64{&low, &high, &interior} {
		if *list == nil {
			*list = make([]int64, rank)
		}
		if len(*list) != rank {
			return b.fail(opPad, "expected padding for each of %d dimensions, got %v", rank, *list)
		}
	}
	for i, n := range s.Dims {
		if interior[i] < 0 {
			return b.fail(opPad, "expected interior padding of at least 0, got %d in dimension %d", interior[i], i)
		}
		dims[i] = low[i] + high[i] + n + max(n-1, 0)*interior[i]
		if dims[i] < 0 {
			return b.fail(opPad, "expected a size of at least 0 in dimension %d, got %d from %v with low %d, high %d, interior %d",
				i, dims[i], s, low[i], high[i], interior[i])
		}
		nothing = nothing && low[i] == 0 && high[i] == 0 && (interior[i] == 0 || n < 2)
	}
	if nothing {
		return x
	}
	n, at := b.begin(opPad, shape.Shape{Dtype: s.Dtype, Dims: dims})
	config := b.body.open(21)
	for i := range dims {
		one := b.body.open(1)
		b.body.varint(1, low[i])
		b.body.varint(2, high[i])
		b.body.varint(3, interior[i])
		b.body.close(one)
	}
	b.body.close(config)
	return likeOperands(b.end(n, at, x, padding), x, padding)
}

// Concatenate joins arrays along dim; their other dimensions are equal. A single one is returned as is.
func (b *Builder) Concatenate(xs []Value, dim int) Value {
	if !b.ok(opConcatenate, xs...) {
		return Value{}
	}
	if len(xs) == 0 {
		return b.fail(opConcatenate, "expected at least one operand, got none")
	}
	s := xs[0].n.shape
	if dim < 0 || dim >= len(s.Dims) {
		return b.fail(opConcatenate, "expected a dimension below %d, got %d", len(s.Dims), dim)
	}
	dims := slices.Clone(s.Dims)
	for _, x := range xs[1:] {
		t := x.n.shape
		if t.Dtype != s.Dtype || len(t.Dims) != len(s.Dims) ||
			!slices.Equal(t.Dims[:dim], s.Dims[:dim]) || !slices.Equal(t.Dims[dim+1:], s.Dims[dim+1:]) {
			return b.fail(opConcatenate, "expected shapes equal but for dimension %d, got %v and %v", dim, s, t)
		}
		dims[dim] += t.Dims[dim]
	}
	if len(xs) == 1 {
		return xs[0]
	}
	n, at := b.begin(opConcatenate, shape.Shape{Dtype: s.Dtype, Dims: dims})
	b.body.packedInts(14, []int{dim})
	return likeOperands(b.end(n, at, xs...), xs...)
}

// Reverse reverses the order of the elements along the dimensions.
func (b *Builder) Reverse(x Value, dims ...int) Value {
	if !b.ok(opReverse, x) {
		return Value{}
	}
	if !distinct(dims, x.Rank()) {
		return b.fail(opReverse, "expected distinct dimensions below %d, got %v", x.Rank(), dims)
	}
	if len(dims) == 0 {
		return x
	}
	n, at := b.begin(opReverse, x.n.shape)
	b.body.packedInts(14, dims)
	return likeOperands(b.end(n, at, x), x)
}

// Iota gives an array whose elements are their index in dimension dim.
func (b *Builder) Iota(d dtype.Dtype, dims []int64, dim int) Value {
	if dim < 0 || dim >= len(dims) || negative(dims) {
		return b.fail(opIota, "expected a dimension of %v, got %d", dims, dim)
	}
	if d == dtype.Bool || d.Size() == 0 {
		return b.fail(opIota, "expected a number type, got %v", d)
	}
	n, at := b.begin(opIota, shape.Shape{Dtype: d, Dims: dims})
	b.body.packedInts(14, []int{dim})
	return bound(b.end(n, at), 0, dims[dim]-1)
}
