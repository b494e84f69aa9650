package hlo

import (
	"math"
	"math/bits"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

// Bounds gives limits that no element of an integer array can be outside of, both included, as far as the instructions
// that make it say so: positions, constants and what is taken from them. known is false where nothing is known.
func (v Value) Bounds() (low, high int64, known bool) {
	if v.n == nil || !v.n.bounded {
		return 0, 0, false
	}
	return v.n.low, v.n.high, true
}

// bound notes the limits of an integer value; limits that its type cannot hold say nothing, for the value has wrapped
// around then.
func bound(v Value, low, high int64) Value {
	if v.n == nil || low > high {
		return v
	}
	if least, greatest := integerLimits(v.Dtype()); low >= least && high <= greatest {
		v.n.low, v.n.high, v.n.bounded = low, high, true
	}
	return v
}

// integerLimits gives the range of an integer type, cut to that of s64; an empty range for other types.
func integerLimits(d dtype.Dtype) (least, greatest int64) {
	switch {
	case !d.IsInteger():
		return 1, 0
	case d.IsSigned():
		return math.MinInt64 >> (64 - 8*d.Size()), math.MaxInt64 >> (64 - 8*d.Size())
	case d.Size() == 8:
		return 0, math.MaxInt64
	}
	return 0, 1<<(8*d.Size()) - 1
}

// likeOperands notes on v, whose elements are elements of from, what holds for all of those.
func likeOperands(v Value, from ...Value) Value {
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for _, x := range from {
		if x.n == nil || shape.Product(x.n.shape.Dims) == 0 {
			continue
		}
		least, greatest, known := x.Bounds()
		if !known {
			return v
		}
		low, high = min(low, least), max(high, greatest)
	}
	return bound(v, low, high)
}

// boundBinary notes the limits of an operation of two arrays.
func boundBinary(op Opcode, v, x, y Value) Value {
	a, z, known := x.Bounds()
	c, e, alsoKnown := y.Bounds()
	if !known || !alsoKnown {
		return v
	}
	switch op {
	case Add:
		low, fits := addExact(a, c)
		high, alsoFits := addExact(z, e)
		if fits && alsoFits {
			return bound(v, low, high)
		}
	case Subtract:
		low, fits := addExact(a, -e)
		high, alsoFits := addExact(z, -c)
		if fits && alsoFits && c != math.MinInt64 && e != math.MinInt64 {
			return bound(v, low, high)
		}
	case Multiply:
		low, high := int64(math.MaxInt64), int64(math.MinInt64)
		for _, p := range [][2]int64{{a, c}, {a, e}, {z, c}, {z, e}} {
			product, fits := multiplyExact(p[0], p[1])
			if !fits {
				return v
			}
			low, high = min(low, product), max(high, product)
		}
		return bound(v, low, high)
	case Minimum:
		return bound(v, min(a, c), min(z, e))
	case Maximum:
		return bound(v, max(a, c), max(z, e))
	}
	return v
}

func addExact(a, b int64) (sum int64, fits bool) {
	sum = a + b
	return sum, (sum > a) == (b > 0)
}

func multiplyExact(a, b int64) (product int64, fits bool) {
	if a == math.MinInt64 || b == math.MinInt64 {
		return 0, false
	}
	high, low := bits.Mul64(uint64(max(a, -a)), uint64(max(b, -b)))
	return a * b, high == 0 && low <= math.MaxInt64
}

// boundClamp notes the limits of clamp(low, x, high), which is min(max(low, x), high).
func boundClamp(v, low, x, high Value) Value {
	least, _, known := low.Bounds()
	_, greatest, alsoKnown := high.Bounds()
	if !known || !alsoKnown || least > greatest {
		return v
	}
	if a, z, known := x.Bounds(); known {
		_, lowest, _ := low.Bounds()
		highest, _, _ := high.Bounds()
		least, greatest = min(max(least, a), highest), min(max(lowest, z), greatest)
	}
	return bound(v, least, greatest)
}

// boundConvert notes the limits of a conversion to an integer type.
func boundConvert(v, x Value) Value {
	if x.Dtype() == dtype.Bool {
		return bound(v, 0, 1)
	}
	return likeOperands(v, x)
}

// boundReduce notes the limits of a minimum or maximum over some elements and an initial value.
func boundReduce(op Opcode, v, x, init Value) Value {
	if op != Minimum && op != Maximum {
		return v
	}
	if shape.Product(x.n.shape.Dims) == 0 {
		return likeOperands(v, init)
	}
	return boundBinary(op, v, x, init)
}
