package hlo

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

// Cholesky factors the square matrices in the last two dimensions; only the named triangle of x
// is read, and the other triangle of the result holds unspecified values.
func (b *Builder) Cholesky(x Value, lower bool) Value {
	if !b.ok(opCholesky, x) {
		return Value{}
	}
	s := x.n.shape
	if n := len(s.Dims); n < 2 || s.Dims[n-1] != s.Dims[n-2] || (!s.Dtype.IsFloat() && !s.Dtype.IsComplex()) {
		return b.fail(opCholesky, "expected floating-point or complex square matrices, got %v", s)
	}
	n, at := b.begin(opCholesky, s)
	options := b.body.open(62)
	b.body.flag(1, lower)
	b.body.close(options)
	return b.end(n, at, x)
}

// TriangularSolve solves op(a)·y = x, or y·op(a) = x if not leftSide, for triangular a. transpose
// is N, T or C (conjugate). Leading dimensions are equal and make a batch.
func (b *Builder) TriangularSolve(a, x Value, leftSide, lower, unitDiagonal bool, transpose string) Value {
	if !b.ok(opTriangularSolve, a, x) {
		return Value{}
	}
	s, t := a.n.shape, x.n.shape
	rank := len(s.Dims)
	if s.Dtype != t.Dtype || (!s.Dtype.IsFloat() && !s.Dtype.IsComplex()) {
		return b.fail(opTriangularSolve, "expected floating-point or complex matrices of equal type, got %v and %v", s, t)
	}
	if rank < 2 || len(t.Dims) != rank || s.Dims[rank-1] != s.Dims[rank-2] || !slices.Equal(s.Dims[:rank-2], t.Dims[:rank-2]) {
		return b.fail(opTriangularSolve, "expected square matrices and right sides with equal leading dimensions, got %v and %v", s, t)
	}
	side := rank - 1
	if leftSide {
		side = rank - 2
	}
	if t.Dims[side] != s.Dims[rank-1] {
		return b.fail(opTriangularSolve, "expected size %d in dimension %d of the right side, got %d", s.Dims[rank-1], side, t.Dims[side])
	}
	kind := int64(slices.Index([]string{"", "N", "T", "C"}, transpose))
	if kind < 1 {
		return b.fail(opTriangularSolve, "expected N, T or C, got %q", transpose)
	}
	n, at := b.begin(opTriangularSolve, t)
	options := b.body.open(59)
	b.body.flag(1, leftSide)
	b.body.flag(2, lower)
	b.body.flag(3, unitDiagonal)
	b.body.varint(4, kind)
	b.body.close(options)
	return b.end(n, at, a, x)
}

// Fft transforms the last len(lengths) dimensions. kind is FFT, IFFT (complex to complex), RFFT
// (real to complex, last dimension n/2+1) or IRFFT (its inverse); lengths are of the real side.
func (b *Builder) Fft(x Value, kind string, lengths []int64) Value {
	if !b.ok(opFft, x) {
		return Value{}
	}
	s := x.n.shape
	rank, count := len(s.Dims), len(lengths)
	number := int64(slices.Index([]string{"FFT", "IFFT", "RFFT", "IRFFT"}, kind))
	if number < 0 || count < 1 || count > 3 || count > rank {
		return b.fail(opFft, "expected FFT, IFFT, RFFT or IRFFT and 1 to 3 lengths for %v, got %q and %v", s, kind, lengths)
	}
	result := s.Dtype
	input := slices.Clone(lengths)
	output := slices.Clone(lengths)
	switch kind {
	case "RFFT":
		result = s.Dtype.Complex()
		output[count-1] = lengths[count-1]/2 + 1
	case "IRFFT":
		result = s.Dtype.Real()
		input[count-1] = lengths[count-1]/2 + 1
	}
	if real := s.Dtype == dtype.F32 || s.Dtype == dtype.F64; real != (kind == "RFFT") || (!real && !s.Dtype.IsComplex()) {
		return b.fail(opFft, "expected f32 or f64 for RFFT and a complex type otherwise, got %v for %s", s, kind)
	}
	if !slices.Equal(s.Dims[rank-count:], input) {
		return b.fail(opFft, "expected last dimensions %v for %s of lengths %v, got %v", input, kind, lengths, s)
	}
	dims := append(slices.Clone(s.Dims[:rank-count]), output...)
	n, at := b.begin(opFft, shape.Shape{Dtype: result, Dims: dims})
	b.body.varint(31, number)
	b.body.packed(32, lengths)
	return b.end(n, at, x)
}
