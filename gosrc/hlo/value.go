package hlo

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

// Value is the result of one instruction. Two Values are equal (==) iff they are the same
// instruction. The zero Value is invalid; so is every result of a call that failed.
type Value struct{ n *instruction }

type instruction struct {
	id int64
	*knownShape
	owner *Builder

	low, high int64 // see Bounds
	bounded   bool
}

// Valid says whether the value was made by a call that succeeded.
func (v Value) Valid() bool { return v.n != nil }

// Shape gives element type and dimensions; Dtype Invalid for an invalid value. Not to be modified.
func (v Value) Shape() shape.Shape {
	if v.n == nil {
		return shape.Shape{}
	}
	return v.n.shape
}

// Dtype gives the element type.
func (v Value) Dtype() dtype.Dtype {
	if v.n == nil {
		return dtype.Invalid
	}
	return v.n.shape.Dtype
}

// Dims gives the dimensions, major to minor. Not to be modified.
func (v Value) Dims() []int64 {
	if v.n == nil {
		return nil
	}
	return v.n.shape.Dims
}

// Rank gives the number of dimensions.
func (v Value) Rank() int { return len(v.Dims()) }
