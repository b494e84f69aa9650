package hlo

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

// scalarsOf gives the rank-0 shapes of the operands' types, twice: what a combiner takes.
func scalarsOf(xs []Value) (pairs []shape.Shape, result shape.Shape) {
	for _, x := range xs {
		pairs = append(pairs, shape.Make(x.Dtype()))
	}
	if len(xs) == 1 {
		result = pairs[0]
	} else {
		result = shape.MakeTuple(slices.Clone(pairs)...)
	}
	return append(pairs, pairs...), result
}

// together gives the shape of an instruction's results: the one itself, or a tuple.
func together(shapes []shape.Shape) shape.Shape {
	if len(shapes) == 1 {
		return shapes[0]
	}
	return shape.MakeTuple(shapes...)
}

// initials checks the operands of a reduction: arrays of equal dimensions, a scalar for each.
func (b *Builder) initials(op Opcode, xs, inits []Value) bool {
	if !b.ok(op, xs...) || !b.ok(op, inits...) {
		return false
	}
	if len(xs) == 0 || len(xs) != len(inits) {
		b.fail(op, "expected one initial value per operand, got %d operands and %d initial values", len(xs), len(inits))
		return false
	}
	for i, x := range xs {
		if !slices.Equal(x.Dims(), xs[0].Dims()) {
			b.fail(op, "expected operands of equal dimensions, got %v and %v", xs[0].n.shape, x.n.shape)
			return false
		}
		if inits[i].Rank() != 0 || inits[i].Dtype() != x.Dtype() {
			b.fail(op, "expected an initial value of shape %v, got %v", shape.Make(x.Dtype()), inits[i].n.shape)
			return false
		}
	}
	return true
}

// Reduce combines the elements along dims, starting from inits, in an order that is not defined.
// c takes the accumulators, then the elements, as scalars, and returns the new accumulators.
func (b *Builder) Reduce(xs, inits []Value, dims []int, c *Computation) []Value {
	bad := make([]Value, len(xs))
	if !b.initials(opReduce, xs, inits) {
		return bad
	}
	rank := xs[0].Rank()
	if !distinct(dims, rank) {
		b.fail(opReduce, "expected distinct dimensions below %d, got %v", rank, dims)
		return bad
	}
	if pairs, result := scalarsOf(xs); !b.takes(opReduce, c, pairs, result) {
		return bad
	}
	kept := make([]int64, 0, rank)
	for i, n := range xs[0].Dims() {
		if !slices.Contains(dims, i) {
			kept = append(kept, n)
		}
	}
	shapes := make([]shape.Shape, len(xs))
	for i, x := range xs {
		shapes[i] = shape.Shape{Dtype: x.Dtype(), Dims: kept}
	}
	n, at := b.begin(opReduce, together(shapes))
	b.body.packedInts(14, dims)
	b.calls(c)
	return b.elements(b.end(n, at, append(slices.Clone(xs), inits...)...), len(xs) > 1)
}

// ReduceOp reduces one array with a binary operation; with no dims it is op(init, x).
func (b *Builder) ReduceOp(op Opcode, x, init Value, dims []int) Value {
	if !b.ok(opReduce, x, init) {
		return Value{}
	}
	if len(dims) == 0 {
		return b.Binary(op, b.spread(init, x.Dims()), x)
	}
	c := b.ScalarComputation(op, x.Dtype())
	if c == nil {
		return Value{}
	}
	return boundReduce(op, b.Reduce([]Value{x}, []Value{init}, dims, c)[0], x, init)
}

// Window describes how a window moves over an array, with one entry per dimension; nil is the
// default: size, stride and dilations 1, padding 0 (it may be negative), no reversal.
type Window struct {
	Size, Stride, PadLow, PadHigh []int64
	BaseDilation                  []int64 // BaseDilation-1 holes between the array's elements
	WindowDilation                []int64 // WindowDilation-1 holes between the window's elements
	Reversal                      []bool
}

func entry(list []int64, i int, otherwise int64) int64 {
	if list == nil {
		return otherwise
	}
	return list[i]
}

func dilated(n, dilation int64) int64 {
	if n == 0 {
		return 0
	}
	return (n-1)*dilation + 1
}

// output checks w against n dimensions of those sizes and gives the number of its positions.
func (w *Window) output(b *Builder, op Opcode, sizes []int64) ([]int64, bool) {
	rank := len(sizes)
	for _, list := range [][]int64{w.Size, w.Stride, w.PadLow, w.PadHigh, w.BaseDilation, w.WindowDilation} {
		if list != nil && len(list) != rank {
			b.fail(op, "expected a window of %d dimensions, got %v", rank, list)
			return nil, false
		}
	}
	if w.Reversal != nil && len(w.Reversal) != rank {
		b.fail(op, "expected a window of %d dimensions, got %d reversals", rank, len(w.Reversal))
		return nil, false
	}
	out := make([]int64, rank)
	for i, n := range sizes {
		size, stride := entry(w.Size, i, 1), entry(w.Stride, i, 1)
		base, window := entry(w.BaseDilation, i, 1), entry(w.WindowDilation, i, 1)
		if size < 1 || stride < 1 || base < 1 || window < 1 {
			b.fail(op, "expected window size, stride and dilations of at least 1 in dimension %d, got %d, %d, %d and %d",
				i, size, stride, base, window)
			return nil, false
		}
		padded := dilated(n, base) + entry(w.PadLow, i, 0) + entry(w.PadHigh, i, 0)
		if room := padded - dilated(size, window); padded > 0 && room >= 0 {
			out[i] = room/stride + 1
		}
	}
	return out, true
}

// window writes the window of the open instruction.
func (b *Builder) window(w *Window, rank int) {
	e := &b.body
	list := e.open(15)
	for i := range rank {
		one := e.open(1)
		e.varint(1, entry(w.Size, i, 1))
		e.varint(2, entry(w.Stride, i, 1))
		e.varint(3, entry(w.PadLow, i, 0))
		e.varint(4, entry(w.PadHigh, i, 0))
		e.varint(5, entry(w.WindowDilation, i, 1))
		e.varint(6, entry(w.BaseDilation, i, 1))
		e.flag(7, w.Reversal != nil && w.Reversal[i])
		e.close(one)
	}
	e.close(list)
}

// ReduceWindow reduces each position of the window with a binary operation, starting from init,
// which is also the value of the padding.
func (b *Builder) ReduceWindow(x, init Value, w Window, op Opcode) Value {
	if !b.ok(opReduceWindow, x, init) {
		return Value{}
	}
	c := b.ScalarComputation(op, x.Dtype())
	if c == nil {
		return Value{}
	}
	return b.ReduceWindowMany([]Value{x}, []Value{init}, w, c)[0]
}

// ReduceWindowMany is ReduceWindow for several arrays at once and any computation (see Reduce).
func (b *Builder) ReduceWindowMany(xs, inits []Value, w Window, c *Computation) []Value {
	bad := make([]Value, len(xs))
	if !b.initials(opReduceWindow, xs, inits) {
		return bad
	}
	if pairs, result := scalarsOf(xs); !b.takes(opReduceWindow, c, pairs, result) {
		return bad
	}
	dims, ok := w.output(b, opReduceWindow, xs[0].Dims())
	if !ok {
		return bad
	}
	shapes := make([]shape.Shape, len(xs))
	for i, x := range xs {
		shapes[i] = shape.Shape{Dtype: x.Dtype(), Dims: dims}
	}
	n, at := b.begin(opReduceWindow, together(shapes))
	b.window(&w, len(dims))
	b.calls(c)
	return b.elements(b.end(n, at, append(slices.Clone(xs), inits...)...), len(xs) > 1)
}

// SelectAndScatter finds in each position of the window over x the element that compares as
// selectDirection (GE for a maximum, LE for a minimum) to all others, and combines the source's
// element for that position into its place, with scatterOp, starting from init everywhere.
func (b *Builder) SelectAndScatter(x, source, init Value, w Window, selectDirection string, scatterOp Opcode) Value {
	if !b.ok(opSelectAndScatter, x, source, init) {
		return Value{}
	}
	s := x.n.shape
	dims, ok := w.output(b, opSelectAndScatter, s.Dims)
	if !ok {
		return Value{}
	}
	if want := (shape.Shape{Dtype: s.Dtype, Dims: dims}); !source.n.shape.Equal(want) {
		return b.fail(opSelectAndScatter, "expected a source of shape %v, got %v", want, source.n.shape)
	}
	if init.Rank() != 0 || init.Dtype() != s.Dtype {
		return b.fail(opSelectAndScatter, "expected an initial value of shape %v, got %v", shape.Make(s.Dtype), init.n.shape)
	}
	choose := b.compareComputation(selectDirection, s.Dtype)
	combine := b.ScalarComputation(scatterOp, s.Dtype)
	if choose == nil || combine == nil {
		return Value{}
	}
	n, at := b.begin(opSelectAndScatter, s)
	b.window(&w, len(s.Dims))
	b.calls(choose, combine)
	return b.end(n, at, x, source, init)
}

// Sort sorts along dim; several arrays move together. c takes two scalars of each array (the
// first array's pair first) and returns pred: whether the first element comes before the second.
func (b *Builder) Sort(xs []Value, dim int, stable bool, c *Computation) []Value {
	bad := make([]Value, len(xs))
	if !b.ok(opSort, xs...) {
		return bad
	}
	if len(xs) == 0 || dim < 0 || dim >= xs[0].Rank() {
		b.fail(opSort, "expected operands and one of their dimensions, got %d operands and dimension %d", len(xs), dim)
		return bad
	}
	var pairs, shapes []shape.Shape
	for _, x := range xs {
		if !slices.Equal(x.Dims(), xs[0].Dims()) {
			b.fail(opSort, "expected operands of equal dimensions, got %v and %v", xs[0].n.shape, x.n.shape)
			return bad
		}
		pairs = append(pairs, shape.Make(x.Dtype()), shape.Make(x.Dtype()))
		shapes = append(shapes, x.n.shape)
	}
	if !b.takes(opSort, c, pairs, shape.Make(dtype.Bool)) {
		return bad
	}
	n, at := b.begin(opSort, together(shapes))
	b.body.packedInts(14, []int{dim})
	b.body.flag(60, stable)
	b.calls(c)
	sorted := b.elements(b.end(n, at, xs...), len(xs) > 1)
	for i, x := range xs {
		likeOperands(sorted[i], x)
	}
	return sorted
}
