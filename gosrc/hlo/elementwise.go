package hlo

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

// Unary applies op to each element. XLA has no Abs and no Sign of
// unsigned types; here they are x and min(x, 1).
func (b *Builder) Unary(op Opcode, x Value) Value {
	if !b.ok(op, x) {
		return Value{}
	}
	s := x.n.shape
	d := s.Dtype
	want := ""
	switch op {
	case Abs:
		if d.IsUnsigned() {
			return x
		}
		s.Dtype = d.Real()
		if d == dtype.Bool {
			want = "a number"
		}
	case Negate:
		if d == dtype.Bool {
			want = "a number"
		}
	case Sign:
		if d.IsUnsigned() {
			return b.Binary(Minimum, x, b.FullInt(d, 1, s.Dims...))
		}
		if d == dtype.Bool {
			want = "a number"
		}
	case Exp, ExpM1, Log, Log1p, Sqrt, Rsqrt, Tanh, Tan, Sine, Cosine, Logistic:
		if !d.IsFloat() && !d.IsComplex() {
			want = "a floating-point or complex operand"
		}
	case Cbrt, Erf, Floor, Ceil, RoundNearestAfz, RoundNearestEven:
		if !d.IsFloat() {
			want = "a floating-point operand"
		}
	case IsFinite:
		s.Dtype = dtype.Bool
		if !d.IsFloat() {
			want = "a floating-point operand"
		}
	case Not:
		if !d.IsIntegral() {
			want = "an integer or pred operand"
		}
	case PopulationCount, Clz:
		if !d.IsInteger() {
			want = "an integer operand"
		}
	case Real, Imag:
		s.Dtype = d.Real()
		if !d.IsFloat() && !d.IsComplex() {
			want = "a floating-point or complex operand"
		}
	case Copy:
	default:
		return b.fail(op, "expected an operation of one operand")
	}
	if d.Size() == 0 {
		want = "an array"
	}
	if want != "" {
		return b.fail(op, "expected %s, got %v", want, x.n.shape)
	}
	return b.emit(op, s, x)
}

// Binary applies op to the elements of two arrays of equal shape. Complex takes two real arrays.
func (b *Builder) Binary(op Opcode, x, y Value) Value {
	if !b.ok(op, x, y) {
		return Value{}
	}
	s := x.n.shape
	if !s.Equal(y.n.shape) {
		return b.fail(op, "expected operands of equal shape, got %v and %v", s, y.n.shape)
	}
	d := s.Dtype
	want := ""
	switch op {
	case Add, Multiply:
	case Subtract, Divide, Power:
		if d == dtype.Bool {
			want = "numbers"
		}
	case Remainder:
		if d == dtype.Bool || d.IsComplex() {
			want = "real numbers"
		}
	case Maximum, Minimum:
		if d.IsComplex() {
			want = "real numbers or preds"
		}
	case Atan2:
		if !d.IsFloat() && !d.IsComplex() {
			want = "floating-point or complex operands"
		}
	case And, Or, Xor:
		if !d.IsIntegral() {
			want = "integer or pred operands"
		}
	case ShiftLeft, ShiftRightArithmetic, ShiftRightLogical:
		if !d.IsInteger() {
			want = "integer operands"
		}
	case Complex:
		s.Dtype = d.Complex()
		if s.Dtype == d {
			want = "f32 or f64 operands"
		}
	default:
		return b.fail(op, "expected an operation of two operands")
	}
	if d.Size() == 0 {
		want = "arrays"
	}
	if want != "" {
		return b.fail(op, "expected %s, got %v", want, x.n.shape)
	}
	return boundBinary(op, b.emit(op, s, x, y), x, y)
}

// Compare compares elements; direction is EQ, NE, LT, LE, GT or GE. As in IEEE 754, NaN is
// unequal to everything. Complex types take EQ and NE only.
func (b *Builder) Compare(direction string, x, y Value) Value {
	return b.compare(direction, x, y, false)
}

// CompareTotalOrder compares in a total order: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN.
func (b *Builder) CompareTotalOrder(direction string, x, y Value) Value {
	return b.compare(direction, x, y, true)
}

func (b *Builder) compare(direction string, x, y Value, total bool) Value {
	if !b.ok(opCompare, x, y) {
		return Value{}
	}
	if !x.n.shape.Equal(y.n.shape) {
		return b.fail(opCompare, "expected operands of equal shape, got %v and %v", x.n.shape, y.n.shape)
	}
	d := x.Dtype()
	switch direction {
	case "EQ", "NE":
	case "LT", "LE", "GT", "GE":
		if d.IsComplex() {
			return b.fail(opCompare, "expected EQ or NE for complex operands, got %s", direction)
		}
	default:
		return b.fail(opCompare, "expected EQ, NE, LT, LE, GT or GE, got %q", direction)
	}
	kind := "UNSIGNED"
	switch {
	case d.IsSigned():
		kind = "SIGNED"
	case total && d.IsFloat():
		kind = "TOTALORDER"
	case d.IsFloat(), d.IsComplex():
		kind = "FLOAT"
	case d.Size() == 0:
		return b.fail(opCompare, "expected arrays, got %v", x.n.shape)
	}
	n, at := b.begin(opCompare, shape.Shape{Dtype: dtype.Bool, Dims: x.n.shape.Dims})
	b.body.text(63, direction)
	b.body.text(72, kind)
	return b.end(n, at, x, y)
}

// Select takes each element from onTrue or onFalse. pred is Bool and has their dimensions or none.
func (b *Builder) Select(pred, onTrue, onFalse Value) Value {
	if !b.ok(opSelect, pred, onTrue, onFalse) {
		return Value{}
	}
	s := onTrue.n.shape
	if !s.Equal(onFalse.n.shape) {
		return b.fail(opSelect, "expected branches of equal shape, got %v and %v", s, onFalse.n.shape)
	}
	if pred.Dtype() != dtype.Bool || (pred.Rank() != 0 && !slices.Equal(pred.Dims(), s.Dims)) {
		return b.fail(opSelect, "expected a predicate of shape pred[] or %v, got %v",
			shape.Make(dtype.Bool, s.Dims...), pred.n.shape)
	}
	if s.Dtype.Size() == 0 {
		return b.fail(opSelect, "expected arrays, got %v", s)
	}
	return likeOperands(b.emit(opSelect, s, b.spread(pred, s.Dims), onTrue, onFalse), onTrue, onFalse)
}

// Clamp limits x to [low, high], which have its shape or are scalars.
func (b *Builder) Clamp(low, x, high Value) Value {
	if !b.ok(opClamp, low, x, high) {
		return Value{}
	}
	s := x.n.shape
	for _, v := range []Value{low, high} {
		if v.Dtype() != s.Dtype || (v.Rank() != 0 && !slices.Equal(v.Dims(), s.Dims)) {
			return b.fail(opClamp, "expected bounds of shape %v or %v, got %v", shape.Make(s.Dtype), s, v.n.shape)
		}
	}
	if s.Dtype.Size() == 0 || s.Dtype.IsComplex() {
		return b.fail(opClamp, "expected real numbers or preds, got %v", s)
	}
	return boundClamp(b.emit(opClamp, s, b.spread(low, s.Dims), x, b.spread(high, s.Dims)), low, x, high)
}

// spread broadcasts a scalar; any other value has those dimensions already.
func (b *Builder) spread(v Value, dims []int64) Value {
	if v.Rank() == 0 {
		return b.Broadcast(v, dims, nil)
	}
	return v
}

// Convert changes the element type by value; x itself if it has that type. A float goes to an
// integer by truncation, saturating, NaN to 0; anything to Bool by != 0.
func (b *Builder) Convert(x Value, d dtype.Dtype) Value {
	if !b.ok(opConvert, x) {
		return Value{}
	}
	if x.Dtype() == d {
		return x
	}
	if d.Size() == 0 || x.Dtype().Size() == 0 {
		return b.fail(opConvert, "expected arrays, got %v to %v", x.n.shape, d)
	}
	if x.Dtype().IsComplex() && !d.IsComplex() {
		return b.fail(opConvert, "expected a complex type for %v, got %v; take the real part first", x.n.shape, d)
	}
	return boundConvert(b.emit(opConvert, shape.Shape{Dtype: d, Dims: x.n.shape.Dims}, x), x)
}

// BitcastConvert reads the same bits as another type. To a type k times narrower it appends a
// dimension of size k; to one k times wider it removes the last dimension, whose size must be k.
func (b *Builder) BitcastConvert(x Value, d dtype.Dtype) Value {
	if !b.ok(opBitcastConvert, x) {
		return Value{}
	}
	from := x.Dtype()
	if from == d {
		return x
	}
	if d.Size() == 0 || from.Size() == 0 || from == dtype.Bool || d == dtype.Bool {
		return b.fail(opBitcastConvert, "expected numbers, got %v to %v", x.n.shape, d)
	}
	if from.IsComplex() || d.IsComplex() { // XLA:CPU aborts the process on c64 to c128
		return b.fail(opBitcastConvert, "expected real types, got %v to %v; take real and imaginary parts apart", x.n.shape, d)
	}
	dims := x.n.shape.Dims
	switch a, z := from.Size(), d.Size(); {
	case a > z:
		dims = append(slices.Clone(dims), a/z)
	case a < z:
		if len(dims) == 0 || dims[len(dims)-1] != z/a {
			return b.fail(opBitcastConvert, "expected a last dimension of %d, got %v to %v", z/a, x.n.shape, d)
		}
		dims = dims[: len(dims)-1 : len(dims)-1]
	}
	return b.emit(opBitcastConvert, shape.Shape{Dtype: d, Dims: dims}, x)
}

// ReducePrecision rounds a float to fewer exponent and mantissa bits, keeping its type.
func (b *Builder) ReducePrecision(x Value, exponentBits, mantissaBits int) Value {
	if !b.ok(opReducePrecision, x) {
		return Value{}
	}
	if !x.Dtype().IsFloat() || exponentBits < 1 || mantissaBits < 0 {
		return b.fail(opReducePrecision, "expected a floating-point operand and at least 1 exponent bit, got %v, %d and %d bits",
			x.n.shape, exponentBits, mantissaBits)
	}
	n, at := b.begin(opReducePrecision, x.n.shape)
	b.body.varint(18, int64(exponentBits))
	b.body.varint(19, int64(mantissaBits))
	return b.end(n, at, x)
}
