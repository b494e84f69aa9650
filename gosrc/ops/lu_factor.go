package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
)

// LU factors with partial pivoting, and solving with them, as HLO. XLA has no instruction for them.

// luBlock is the width of the panels that are eliminated column by column; what lies right of a panel is
// then updated by a matrix product.
const luBlock = 64

// luFactors is a factored batch: P·L·U with both factors in one matrix, the pivots that torch gives
// (s32, from 1 on), the permutation of rows that they make (row i of the permuted matrix is row
// permutation[i]), and the number of the first pivot that is 0 (from 1 on, 0 if none is).
type luFactors struct {
	matrix, pivots, permutation, failed hlo.Value
}

func factorLU(b *hlo.Builder, x hlo.Value) luFactors {
	dims := x.Dims()
	batch, rank := batchOf(dims), len(dims)
	m, n := matrixSize(dims)
	size := min(m, n)
	f := luFactors{
		matrix:      x,
		permutation: b.Iota(dtype.S32, append(batch[:rank-2:rank-2], m), rank-2),
		failed:      b.FullInt(dtype.S32, 0, batch...),
	}
	if size == 0 {
		f.pivots = b.FullInt(dtype.S32, 0, append(batch[:rank-2:rank-2], 0)...)
		return f
	}
	var pivots []hlo.Value
	for at := int64(0); at < size; at += luBlock {
		width := min(luBlock, size-at)
		panel := part(b, f.matrix, at, m, at, at+width)
		done := eliminate(b, panel)
		pivots = append(pivots, b.Binary(hlo.Add, done.pivots, b.FullInt(dtype.S32, at, done.pivots.Dims()...)))
		f.failed = firstFailure(b, f.failed, done.failed, at)
		left := takeRows(b, part(b, f.matrix, at, m, 0, at), done.permutation)
		below := b.Slice(f.permutation, atLast(rank-1, at), f.permutation.Dims(), nil)
		below = takeElements(b, below, elementPositions(b, done.permutation, below.Dims(), rank-2, false))
		f.permutation = b.Concatenate([]hlo.Value{b.Slice(f.permutation, make([]int64, rank-1), replaceDim(f.permutation.Dims(), rank-2, at), nil), below}, rank-2)
		rows := []hlo.Value{left, done.matrix}
		if right := takeRows(b, part(b, f.matrix, at, m, at+width, n), done.permutation); at+width < n {
			top := solveTriangle(b, part(b, done.matrix, 0, width, 0, width), part(b, right, 0, width, 0, n-at-width), true, true, true, "N")
			rest := part(b, right, width, m-at, 0, n-at-width)
			rest = b.Binary(hlo.Subtract, rest, product(b, part(b, done.matrix, width, m-at, 0, width), top))
			rows = append(rows, b.Concatenate([]hlo.Value{top, rest}, rank-2))
		}
		f.matrix = b.Concatenate([]hlo.Value{part(b, f.matrix, 0, at, 0, n), b.Concatenate(rows, rank-1)}, rank-2)
	}
	f.pivots = b.Concatenate(pivots, rank-2)
	return f
}

// firstFailure keeps an earlier failure; one within a panel counts from the panel's first column.
func firstFailure(b *hlo.Builder, earlier, inPanel hlo.Value, at int64) hlo.Value {
	zero := b.FullInt(dtype.S32, 0, earlier.Dims()...)
	number := b.Binary(hlo.Add, inPanel, b.FullInt(dtype.S32, at, earlier.Dims()...))
	now := b.Select(b.Compare("EQ", inPanel, zero), zero, number)
	return b.Select(b.Compare("EQ", earlier, zero), now, earlier)
}

// part cuts rows and columns out of matrices.
func part(b *hlo.Builder, x hlo.Value, row, rowEnd, column, columnEnd int64) hlo.Value {
	batch := batchOf(x.Dims())
	start := append(make([]int64, len(batch)), row, column)
	return b.Slice(x, start, matricesOf(batch, rowEnd, columnEnd), nil)
}

// atLast gives a start of 0 in all dimensions but the last.
func atLast(rank int, at int64) []int64 {
	start := make([]int64, rank)
	start[rank-1] = at
	return start
}

// takeRows gives row permutation[i] of each matrix as its row i.
func takeRows(b *hlo.Builder, x, permutation hlo.Value) hlo.Value {
	dims := x.Dims()
	if numElements(dims) == 0 {
		return x
	}
	dim := len(dims) - 2
	index := spreadLast(b, permutation, len(dims)-1, dims)
	return takeElements(b, x, elementPositions(b, index, dims, dim, false))
}

// eliminate factors a panel of at least as many rows as columns, one column at a time.
func eliminate(b *hlo.Builder, x hlo.Value) luFactors {
	dims := x.Dims()
	rank := len(dims)
	m, n := matrixSize(dims)
	batch := batchOf(dims)
	rowsOf, columnsOf := append(batch[:rank-2:rank-2], m), append(batch[:rank-2:rank-2], n)
	init := []hlo.Value{x, b.FullInt(dtype.S32, 0, columnsOf...), b.Iota(dtype.S32, rowsOf, rank-2), b.FullInt(dtype.S32, 0, batch...)}
	state := countedLoop(b, "lu", n, init, func(b *hlo.Builder, k hlo.Value, state []hlo.Value) []hlo.Value {
		x, pivots, permutation, failed := state[0], state[1], state[2], state[3]
		row, column := rowAndColumn(b, dims)
		at := b.BroadcastTo(k, dims)
		inRows := b.Iota(dtype.S32, rowsOf, rank-2)
		atRow := b.BroadcastTo(k, rowsOf)

		size := pivotSize(b, pick(b, x, b.Compare("EQ", column, at), rank-1))
		size = b.Select(b.Compare("GE", inRows, atRow), size, b.Full(size.Dtype(), -1, rowsOf...))
		best := b.ReduceOp(hlo.Maximum, size, b.MinValue(size.Dtype()), []int{rank - 2})
		none := b.FullInt(dtype.S32, m, rowsOf...)
		isBest := b.Compare("EQ", size, b.Broadcast(best, rowsOf, leading(rank-2)))
		pivot := b.ReduceOp(hlo.Minimum, b.Select(isBest, inRows, none), b.ScalarInt(dtype.S32, m), []int{rank - 2})
		// A NaN is equal to nothing: then the row stays.
		pivot = b.Select(b.Compare("EQ", pivot, b.FullInt(dtype.S32, m, batch...)), b.BroadcastTo(k, batch), pivot)

		chosen := b.Compare("EQ", row, spreadOver(b, pivot, dims))
		here := b.Compare("EQ", row, at)
		upper, lower := pick(b, x, chosen, rank-2), pick(b, x, here, rank-2)
		x = b.Select(here, spreadLast(b, upper, rank-2, dims), b.Select(chosen, spreadLast(b, lower, rank-2, dims), x))
		chosenRow := b.Compare("EQ", inRows, b.Broadcast(pivot, rowsOf, leading(rank-2)))
		hereRow := b.Compare("EQ", inRows, atRow)
		permutation = exchange(b, permutation, hereRow, chosenRow, rank-2)

		inColumns := b.Iota(dtype.S32, columnsOf, rank-2)
		hereColumn := b.Compare("EQ", inColumns, b.BroadcastTo(k, columnsOf))
		divisor := pick(b, upper, hereColumn, rank-2)
		singular := b.Compare("EQ", divisor, b.Full(x.Dtype(), 0, batch...))
		divisor = b.Select(singular, b.Full(x.Dtype(), 1, batch...), divisor)
		below := b.Compare("GT", row, at)
		inColumn := b.Binary(hlo.And, below, b.Compare("EQ", column, at))
		x = b.Select(inColumn, b.Binary(hlo.Divide, x, spreadOver(b, divisor, dims)), x)
		factor := pick(b, x, b.Compare("EQ", column, at), rank-1)
		term := b.Binary(hlo.Multiply, spreadLast(b, factor, rank-1, dims), spreadLast(b, upper, rank-2, dims))
		right := b.Binary(hlo.And, below, b.Compare("GT", column, at))
		x = b.Select(right, b.Binary(hlo.Subtract, x, term), x)

		number := b.Binary(hlo.Add, pivot, b.FullInt(dtype.S32, 1, batch...))
		pivots = b.Select(hereColumn, b.Broadcast(number, columnsOf, leading(rank-2)), pivots)
		first := b.Binary(hlo.And, singular, b.Compare("EQ", failed, b.FullInt(dtype.S32, 0, batch...)))
		failed = b.Select(first, b.BroadcastTo(b.Binary(hlo.Add, k, b.ScalarInt(dtype.S32, 1)), batch), failed)
		return []hlo.Value{x, pivots, permutation, failed}
	})
	return luFactors{state[0], state[1], state[2], state[3]}
}

// pick gives the element along dim where the mask is set, which it is at one place. Adding negative zeros
// to it keeps the sign of a zero.
func pick(b *hlo.Builder, x, mask hlo.Value, dim int) hlo.Value {
	d := x.Dtype()
	if d.IsIntegral() {
		return b.ReduceOp(hlo.Add, b.Select(mask, x, b.FullInt(d, 0, x.Dims()...)), b.ScalarInt(d, 0), []int{dim})
	}
	if d.IsComplex() {
		return b.Binary(hlo.Complex, pick(b, b.Unary(hlo.Real, x), mask, dim), pick(b, b.Unary(hlo.Imag, x), mask, dim))
	}
	return b.ReduceOp(hlo.Add, b.Select(mask, x, b.Full(d, negativeZero, x.Dims()...)), b.Scalar(d, negativeZero), []int{dim})
}

// exchange swaps the elements along dim that two masks choose.
func exchange(b *hlo.Builder, x, first, second hlo.Value, dim int) hlo.Value {
	dims := x.Dims()
	a, z := pick(b, x, first, dim), pick(b, x, second, dim)
	return b.Select(first, b.Broadcast(z, dims, leading(dim)), b.Select(second, b.Broadcast(a, dims, leading(dim)), x))
}

// leading numbers the first n dimensions.
func leading(n int) []int {
	dims := make([]int, n)
	for i := range dims {
		dims[i] = i
	}
	return dims
}

// pivotSize is what LAPACK compares pivots by: of a complex number the sum of its parts' sizes.
func pivotSize(b *hlo.Builder, x hlo.Value) hlo.Value {
	if !x.Dtype().IsComplex() {
		return b.Unary(hlo.Abs, x)
	}
	return b.Binary(hlo.Add, b.Unary(hlo.Abs, b.Unary(hlo.Real, x)), b.Unary(hlo.Abs, b.Unary(hlo.Imag, x)))
}

// permutationOf gives the order of m rows after the exchanges that pivots (from 1 on) name.
func permutationOf(b *hlo.Builder, pivots hlo.Value, m int64) hlo.Value {
	dims := pivots.Dims()
	last := len(dims) - 1
	rows := append(dims[:last:last], m)
	if numElements(rows) == 0 {
		return b.FullInt(dtype.S32, 0, rows...)
	}
	return countedLoop(b, "permutation", dims[last], []hlo.Value{b.Iota(dtype.S32, rows, last), pivots}, func(b *hlo.Builder, k hlo.Value, state []hlo.Value) []hlo.Value {
		permutation, pivots := state[0], state[1]
		here := b.Compare("EQ", b.Iota(dtype.S32, dims, last), b.BroadcastTo(k, dims))
		number := pick(b, pivots, here, last)
		place := b.Binary(hlo.Subtract, number, b.FullInt(dtype.S32, 1, number.Dims()...))
		row := b.Iota(dtype.S32, rows, last)
		hereRow := b.Compare("EQ", row, b.BroadcastTo(k, rows))
		return []hlo.Value{exchange(b, permutation, hereRow, b.Compare("EQ", row, b.Broadcast(place, rows, leading(last))), last), pivots}
	})[0]
}

// inverseOf gives the permutation that undoes another.
func inverseOf(b *hlo.Builder, permutation hlo.Value) hlo.Value {
	dims := permutation.Dims()
	last := len(dims) - 1
	square := append(dims[:last:last], dims[last], dims[last])
	place, number := rowAndColumn(b, square)
	names := b.Compare("EQ", spreadLast(b, permutation, last+1, square), number)
	return pick(b, place, names, last)
}

// permutationMatrix gives P with P·x having row i of x in its row permutation[i].
func permutationMatrix(b *hlo.Builder, permutation hlo.Value, d dtype.Dtype) hlo.Value {
	dims := permutation.Dims()
	last := len(dims) - 1
	square := append(dims[:last:last], dims[last], dims[last])
	row, _ := rowAndColumn(b, square)
	return as(b, b.Compare("EQ", row, spreadLast(b, permutation, last, square)), d)
}

// solveLU solves A·y = x, or Aᴴ·y = x.
func solveLU(b *hlo.Builder, matrix, permutation, x hlo.Value, conjugate bool) hlo.Value {
	if conjugate {
		x = solveTriangle(b, matrix, x, true, false, false, "C")
		x = solveTriangle(b, matrix, x, true, true, true, "C")
		return takeRows(b, x, inverseOf(b, permutation))
	}
	x = takeRows(b, x, permutation)
	x = solveTriangle(b, matrix, x, true, true, true, "N")
	return solveTriangle(b, matrix, x, true, false, false, "N")
}
