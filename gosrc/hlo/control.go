package hlo

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

func shapesOf(values []Value) []shape.Shape {
	out := make([]shape.Shape, len(values))
	for i, v := range values {
		out[i] = v.n.shape
	}
	return out
}

// Tuple puts values together.
func (b *Builder) Tuple(values ...Value) Value {
	if !b.ok(opTuple, values...) {
		return Value{}
	}
	return b.emit(opTuple, shape.MakeTuple(shapesOf(values)...), values...)
}

// GetTupleElement gives element i of a tuple.
func (b *Builder) GetTupleElement(x Value, i int) Value {
	if !b.ok(opGetTupleElement, x) {
		return Value{}
	}
	s := x.n.shape
	if s.Dtype != dtype.Tuple || i < 0 || i >= len(s.Elements) {
		return b.fail(opGetTupleElement, "expected a tuple of more than %d elements, got %v", i, s)
	}
	n, at := b.begin(opGetTupleElement, s.Elements[i])
	b.body.varint(13, int64(i))
	return b.end(n, at, x)
}

// OptimizationBarrier gives the values back, and XLA moves no work across it.
func (b *Builder) OptimizationBarrier(xs []Value) []Value {
	t := b.Tuple(xs...)
	if !t.Valid() {
		return make([]Value, len(xs))
	}
	return b.elements(b.emit(opOptBarrier, t.n.shape, t), true)
}

// state makes one value of those that a While or Conditional passes on (see StateParameters).
func (b *Builder) state(op Opcode, values []Value) Value {
	if !b.ok(op, values...) {
		return Value{}
	}
	if len(values) == 1 {
		return values[0]
	}
	return b.Tuple(values...)
}

// While runs body on the state as long as cond of it holds. Both take the state as
// StateParameters gives it; cond returns pred[], body the new state with Return.
func (b *Builder) While(init []Value, cond, body *Computation) []Value {
	bad := make([]Value, len(init))
	state := b.state(opWhile, init)
	if !state.Valid() {
		return bad
	}
	takes := []shape.Shape{state.n.shape}
	if !b.takes(opWhile, cond, takes, shape.Make(dtype.Bool)) || !b.takes(opWhile, body, takes, state.n.shape) {
		return bad
	}
	n, at := b.begin(opWhile, state.n.shape)
	b.calls(body, cond)
	return b.elements(b.end(n, at, state), len(init) != 1)
}

// Conditional runs one of two computations on the operands. Both take them as StateParameters
// gives them and return equal shapes; the results are the values that they gave to Return.
func (b *Builder) Conditional(pred Value, onTrue, onFalse *Computation, operands []Value) []Value {
	state := b.state(opConditional, operands)
	if !state.Valid() || !b.ok(opConditional, pred) || !b.usable(opConditional, onTrue) {
		return b.invalid(onTrue)
	}
	if pred.Dtype() != dtype.Bool || pred.Rank() != 0 {
		b.fail(opConditional, "expected a predicate of shape pred[], got %v", pred.n.shape)
		return b.invalid(onTrue)
	}
	takes := []shape.Shape{state.n.shape}
	if !b.takes(opConditional, onTrue, takes, onTrue.result) || !b.takes(opConditional, onFalse, takes, onTrue.result) {
		return b.invalid(onTrue)
	}
	n, at := b.begin(opConditional, onTrue.result)
	b.calls(onTrue, onFalse)
	return b.elements(b.end(n, at, pred, state, state), onTrue.result.Dtype == dtype.Tuple)
}

// Call runs a computation; the results are the values that it gave to Return.
func (b *Builder) Call(c *Computation, xs ...Value) []Value {
	if !b.ok(opCall, xs...) || !b.usable(opCall, c) || !b.takes(opCall, c, shapesOf(xs), c.result) {
		return b.invalid(c)
	}
	n, at := b.begin(opCall, c.result)
	b.calls(c)
	return b.elements(b.end(n, at, xs...), c.result.Dtype == dtype.Tuple)
}

// Map applies a computation of scalars to the elements of arrays of equal dimensions.
func (b *Builder) Map(c *Computation, xs ...Value) Value {
	if !b.ok(opMap, xs...) || !b.usable(opMap, c) {
		return Value{}
	}
	if len(xs) == 0 {
		return b.fail(opMap, "expected at least one operand, got none")
	}
	var scalars []shape.Shape
	for _, x := range xs {
		if !slices.Equal(x.Dims(), xs[0].Dims()) {
			return b.fail(opMap, "expected operands of equal dimensions, got %v and %v", xs[0].n.shape, x.n.shape)
		}
		scalars = append(scalars, shape.Make(x.Dtype()))
	}
	if !b.takes(opMap, c, scalars, shape.Make(c.result.Dtype)) {
		return Value{}
	}
	n, at := b.begin(opMap, shape.Shape{Dtype: c.result.Dtype, Dims: xs[0].Dims()})
	b.body.packedInts(14, identity(xs[0].Rank()))
	b.calls(c)
	return b.end(n, at, xs...)
}

// invalid gives as many invalid values as c has results, so that callers may index them.
func (b *Builder) invalid(c *Computation) []Value {
	if c == nil || c.result.Dtype != dtype.Tuple {
		return make([]Value, 1)
	}
	return make([]Value, len(c.result.Elements))
}
