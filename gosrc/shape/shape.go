// Package shape holds array shapes: an element type and dimensions, major to minor.
package shape

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"xla_go/gosrc/dtype"
)

// Shape is the type of an array: element type and dimensions. A tuple has Dtype Tuple and Elements.
type Shape struct {
	Dtype    dtype.Dtype
	Dims     []int64
	Elements []Shape // of a tuple
}

// Make gives an array shape; dims is kept, not copied.
func Make(d dtype.Dtype, dims ...int64) Shape { return Shape{Dtype: d, Dims: dims} }

// MakeTuple gives a tuple shape.
func MakeTuple(elements ...Shape) Shape { return Shape{Dtype: dtype.Tuple, Elements: elements} }

// Rank gives the number of dimensions.
func (s Shape) Rank() int { return len(s.Dims) }

// NumElements gives the product of the dimensions, 1 for a scalar.
func (s Shape) NumElements() int64 { return Product(s.Dims) }

// ByteSize gives the bytes of a dense array, or the sum over a tuple's elements.
func (s Shape) ByteSize() int64 {
	if s.Dtype == dtype.Tuple {
		var n int64
		for _, e := range s.Elements {
			n += e.ByteSize()
		}
		return n
	}
	return s.NumElements() * s.Dtype.Size()
}

// Equal compares element type and dimensions.
func (s Shape) Equal(o Shape) bool {
	return s.Dtype == o.Dtype && slices.Equal(s.Dims, o.Dims) && slices.EqualFunc(s.Elements, o.Elements, Shape.Equal)
}

// String gives HLO's notation, for example f32[2,3] or (f32[2], s32[]).
func (s Shape) String() string {
	var b strings.Builder
	if s.Dtype == dtype.Tuple {
		b.WriteByte('(')
		for i, e := range s.Elements {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(e.String())
		}
		b.WriteByte(')')
		return b.String()
	}
	b.WriteString(s.Dtype.String())
	b.WriteByte('[')
	for i, d := range s.Dims {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(d, 10))
	}
	b.WriteByte(']')
	return b.String()
}

// Product multiplies the dimensions, 1 for none.
func Product(dims []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}

// Count is Product of dimensions that come from outside: false where one is negative, or there are more elements than
// can be counted.
func Count(dims []int64) (int64, bool) {
	n := int64(1)
	for _, d := range dims {
		if d < 0 {
			return 0, false
		}
		high, low := bits.Mul64(uint64(n), uint64(d))
		if high != 0 || low > math.MaxInt64 {
			return 0, false
		}
		n = int64(low)
	}
	return n, true
}

// RowMajorStrides gives torch's contiguous strides in elements, as c10::TensorType::contiguousStridesOf:
// a dimension of size 0 counts as 1.
func RowMajorStrides(dims []int64) []int64 {
	s := make([]int64, len(dims))
	acc := int64(1)
	for i := len(dims) - 1; i >= 0; i-- {
		s[i] = acc
		acc *= max(dims[i], 1)
	}
	return s
}
