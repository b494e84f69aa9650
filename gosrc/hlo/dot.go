package hlo

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

// Precision asks a device for more exact products of f32; it matters where the default is less.
type Precision int64

// String is XLA's name.
func (p Precision) String() string { return [...]string{"default", "high", "highest"}[p] }

// Precisions, with XLA's numbers.
const (
	PrecisionDefault Precision = 0
	PrecisionHigh    Precision = 1
	PrecisionHighest Precision = 2
)

// DotDims are the dimension numbers of Dot. Each list of the left side pairs up with the right's.
type DotDims struct {
	LHSContracting, RHSContracting []int64
	LHSBatch, RHSBatch             []int64
}

// SetPrecision says what PrecisionDefault means in the whole module: in what is built from now on.
func (b *Builder) SetPrecision(p Precision) { b.module.precision = p }

// Dot multiplies and sums over the contracting dimensions. The result's dimensions are the batch
// dimensions, then the left side's other ones, then the right side's; its type is the operands'.
func (b *Builder) Dot(x, y Value, d DotDims) Value {
	return b.DotWith(x, y, d, x.Dtype(), PrecisionDefault)
}

// DotWith is Dot with a result type, in which it accumulates, and a precision. Its operands may be numbers of two types, neither
// of them complex, which the device multiplies as it can.
func (b *Builder) DotWith(x, y Value, d DotDims, result dtype.Dtype, p Precision) Value {
	if !b.ok(opDot, x, y) {
		return Value{}
	}
	l, r := x.n.shape, y.n.shape
	if l.Dtype != r.Dtype && !(isReal(l.Dtype) && isReal(r.Dtype)) || l.Dtype.Size() == 0 || result.Size() == 0 {
		return b.fail(opDot, "expected arrays of one element type, or of two of real numbers, got %v and %v", l, r)
	}
	if len(d.LHSContracting) != len(d.RHSContracting) || len(d.LHSBatch) != len(d.RHSBatch) {
		return b.fail(opDot, "expected pairs of dimensions, got contracting %v and %v, batch %v and %v",
			d.LHSContracting, d.RHSContracting, d.LHSBatch, d.RHSBatch)
	}
	left := slices.Concat(d.LHSBatch, d.LHSContracting)
	right := slices.Concat(d.RHSBatch, d.RHSContracting)
	if !distinct(left, len(l.Dims)) || !distinct(right, len(r.Dims)) {
		return b.fail(opDot, "expected distinct dimensions of %v and %v, got %v and %v", l, r, left, right)
	}
	for i := range left {
		if m, n := l.Dims[left[i]], r.Dims[right[i]]; m != n {
			kind := "contracting"
			if i < len(d.LHSBatch) {
				kind = "batch"
			}
			return b.fail(opDot, "expected %s dimensions of equal size, got %d and %d", kind, m, n)
		}
	}
	dims := make([]int64, 0, len(l.Dims)+len(r.Dims))
	for _, i := range d.LHSBatch {
		dims = append(dims, l.Dims[i])
	}
	for i, n := range l.Dims {
		if !slices.Contains(left, int64(i)) {
			dims = append(dims, n)
		}
	}
	for i, n := range r.Dims {
		if !slices.Contains(right, int64(i)) {
			dims = append(dims, n)
		}
	}
	n, at := b.begin(opDot, shape.Shape{Dtype: result, Dims: dims})
	e := &b.body
	numbers := e.open(30)
	e.packed(1, d.LHSContracting)
	e.packed(2, d.RHSContracting)
	e.packed(3, d.LHSBatch)
	e.packed(4, d.RHSBatch)
	e.close(numbers)
	b.precision(p)
	return b.end(n, at, x, y)
}

func isReal(d dtype.Dtype) bool { return d.IsFloat() || d.IsInteger() }

// precision writes the precision of both operands of the open instruction.
func (b *Builder) precision(p Precision) {
	if p == PrecisionDefault {
		p = b.module.precision
	}
	at := b.body.open(51)
	b.body.packed(1, []int64{int64(p), int64(p)})
	b.body.close(at)
}
