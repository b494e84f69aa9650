package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
)

// Jacobi's method: all pairs of columns are rotated in turn, half of them at once, until nothing is left to rotate. Of XLA's
// instructions none finds eigenvalues or singular values.

// jacobiSweeps is the greatest number of times that each pair is rotated; half of it is enough as a rule.
const jacobiSweeps = 30

// jacobiLimit is the greatest number of columns for which a rotation of all pairs is worth its while: it takes as many steps as
// there are columns, each over the whole matrix. LAPACK, which torch's CPU kernels use, does more in one.
const jacobiLimit = 256

// rotation diagonalises pairs of columns: with the right half multiplied by phase, the left half becomes c·left - s·right,
// the right half s·left + c·right. c and s are real.
type rotation struct{ c, s, phase hlo.Value }

// rotationOf makes the rotation of Hermitian matrices [[a, x], [conj(x), d]]; a and d are real. Where x is 0 nothing is turned.
func rotationOf(b *hlo.Builder, a, d, x hlo.Value) rotation {
	rd, dims := a.Dtype(), a.Dims()
	one, zero := b.Full(rd, 1, dims...), b.Full(rd, 0, dims...)
	size := sizeOf(b, x)
	nothing := b.Compare("EQ", size, zero)
	divisor := b.Select(nothing, one, size)
	tau := divideReal(b, b.Binary(hlo.Subtract, d, a), b.Binary(hlo.Add, divisor, divisor))
	root := b.Unary(hlo.Sqrt, b.Binary(hlo.Add, one, b.Binary(hlo.Multiply, tau, tau)))
	t := b.Binary(hlo.Divide, one, b.Binary(hlo.Add, b.Unary(hlo.Abs, tau), root))
	t = b.Select(b.Compare("LT", tau, zero), b.Unary(hlo.Negate, t), t)
	t = b.Select(nothing, zero, t)
	// Not by rsqrt, which on some devices is so rough that the rotations would not be orthogonal.
	c := b.Binary(hlo.Divide, one, b.Unary(hlo.Sqrt, b.Binary(hlo.Add, one, b.Binary(hlo.Multiply, t, t))))
	phase := divideReal(b, conjugated(b, x), divisor)
	phase = b.Select(nothing, b.Full(x.Dtype(), 1, dims...), phase)
	return rotation{fromReal(b, c, x.Dtype()), fromReal(b, b.Binary(hlo.Multiply, t, c), x.Dtype()), phase}
}

// sizeOf gives the sizes of real or complex numbers.
func sizeOf(b *hlo.Builder, x hlo.Value) hlo.Value {
	if !x.Dtype().IsComplex() {
		return b.Unary(hlo.Abs, x)
	}
	return b.Unary(hlo.Sqrt, sizeSquared(b, x))
}

// turn rotates the columns of x (dim rank-1), or its rows by the adjoint (dim rank-2), and moves each to its next partner.
func (r rotation) turn(b *hlo.Builder, x hlo.Value, dim int) hlo.Value {
	rank := x.Rank()
	half := x.Dims()[dim] / 2
	left, right := sliceDim(b, x, dim, 0, half), sliceDim(b, x, dim, half, 2*half)
	phase := r.phase
	if dim == rank-2 {
		phase = conjugated(b, phase)
	}
	other := 2*rank - 3 - dim // of the last two dimensions
	spread := func(v hlo.Value) hlo.Value { return spreadLast(b, v, other, left.Dims()) }
	multiply := func(v, w hlo.Value) hlo.Value { return b.Binary(hlo.Multiply, spread(v), w) }
	right = multiply(phase, right)
	newLeft := b.Binary(hlo.Subtract, multiply(r.c, left), multiply(r.s, right))
	newRight := b.Binary(hlo.Add, multiply(r.s, left), multiply(r.c, right))
	return partners(b, newLeft, newRight, dim)
}

// partners puts halves together so that each row or column has its next partner, as players of a tournament change their
// seats: the first stays, the others go round. After as many rounds as there are others, all are where they were.
func partners(b *hlo.Builder, left, right hlo.Value, dim int) hlo.Value {
	half := left.Dims()[dim]
	if half == 1 {
		return b.Concatenate([]hlo.Value{left, right}, dim)
	}
	parts := []hlo.Value{sliceDim(b, left, dim, 0, 1), sliceDim(b, right, dim, 0, 1)}
	if half > 2 {
		parts = append(parts, sliceDim(b, left, dim, 1, half-1))
	}
	parts = append(parts, sliceDim(b, right, dim, 1, half), sliceDim(b, left, dim, half-1, half))
	return b.Concatenate(parts, dim)
}

// sweepUntil repeats sweep while it says that something of any batch is still to be rotated.
func sweepUntil(b *hlo.Builder, name string, init []hlo.Value, sweep func(b *hlo.Builder, state []hlo.Value) (next []hlo.Value, unfinished hlo.Value)) []hlo.Value {
	init = append([]hlo.Value{b.ScalarInt(dtype.S32, 0), b.Scalar(dtype.Bool, 1)}, init...)
	cond := b.Computation(name+"_continues", func(sub *hlo.Builder) {
		state := sub.StateParameters(shapesOf(init))
		sub.Return(sub.Binary(hlo.And, state[1], sub.Compare("LT", state[0], sub.ScalarInt(dtype.S32, jacobiSweeps))))
	})
	body := b.Computation(name+"_sweep", func(sub *hlo.Builder) {
		state := sub.StateParameters(shapesOf(init))
		count := sub.Binary(hlo.Add, state[0], sub.ScalarInt(dtype.S32, 1))
		next, unfinished := sweep(sub, state[2:])
		any := unfinished
		if rank := unfinished.Rank(); rank > 0 {
			any = sub.ReduceOp(hlo.Or, unfinished, sub.Scalar(dtype.Bool, 0), leading(rank))
		}
		sub.ReturnTuple(append([]hlo.Value{count, any}, next...)...)
	})
	return b.While(init, cond, body)[2:]
}

// jacobiTolerance is what is left of a pair, relative to the numbers it consists of, when it counts as rotated.
func jacobiTolerance(d dtype.Dtype, n int64) float64 {
	epsilon := math.Ldexp(1, -23)
	if d.Real() == dtype.F64 {
		epsilon = math.Ldexp(1, -52)
	}
	return epsilon * max(1, float64(n)/4)
}

// evenColumns adds a zero row and column to square matrices of odd size, or a zero column alone.
func evenColumns(b *hlo.Builder, x hlo.Value, rowsToo bool) hlo.Value {
	_, n := matrixSize(x.Dims())
	if n%2 == 0 {
		return x
	}
	rank := x.Rank()
	high := make([]int64, rank)
	high[rank-1] = 1
	if rowsToo {
		high[rank-2] = 1
	}
	return b.Pad(x, b.Scalar(x.Dtype(), 0), make([]int64, rank), high, make([]int64, rank))
}

// takeColumns gives column order[i] of each matrix as its column i.
func takeColumns(b *hlo.Builder, x, order hlo.Value) hlo.Value {
	dims := x.Dims()
	dim := len(dims) - 1
	return takeElements(b, x, elementPositions(b, spreadLast(b, order, dim-1, dims), dims, dim, false))
}
