package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
)

// Products of elementary reflections, H = I - tau·v·vᴴ with v's first element 1, as LAPACK keeps them: the rest of v
// below the diagonal of a matrix, column by column. XLA has no instruction for them.

// reflectorBlock is the number of reflections that are put together to one matrix product.
const reflectorBlock = 32

// factorQR gives R on and above the diagonal and the reflections of Q below it, with their tau. R's diagonal is real, and
// its sign LAPACK's.
func factorQR(b *hlo.Builder, x hlo.Value) (packed, tau hlo.Value) {
	dims := x.Dims()
	rank := len(dims)
	m, n := matrixSize(dims)
	size := min(m, n)
	if numElements(dims) == 0 {
		return x, b.Full(x.Dtype(), 0, append(dims[:rank-2:rank-2], size)...)
	}
	var taus []hlo.Value
	for at := int64(0); at < size; at += reflectorBlock {
		end := min(at+reflectorBlock, size)
		panel, t := reflectPanel(b, part(b, x, at, m, at, end))
		taus = append(taus, t)
		columns := []hlo.Value{panel}
		if at > 0 {
			columns = []hlo.Value{part(b, x, at, m, 0, at), panel}
		}
		if end < n {
			v := reflectorsOf(b, panel)
			columns = append(columns, applyBlock(b, v, blockFactor(b, v, t), part(b, x, at, m, end, n), true))
		}
		x = stackRows(b, part(b, x, 0, at, 0, n), b.Concatenate(columns, rank-1))
	}
	return x, b.Concatenate(taus, rank-2)
}

// stackRows puts rows under others, of which there may be none.
func stackRows(b *hlo.Builder, upper, lower hlo.Value) hlo.Value {
	if m, _ := matrixSize(upper.Dims()); m == 0 {
		return lower
	}
	return b.Concatenate([]hlo.Value{upper, lower}, lower.Rank()-2)
}

// reflectPanel factors a panel of at least as many rows as columns, one column at a time.
func reflectPanel(b *hlo.Builder, x hlo.Value) (packed, tau hlo.Value) {
	dims, d := x.Dims(), x.Dtype()
	rank := len(dims)
	m, n := matrixSize(dims)
	batch := batchOf(dims)
	rows, columns := append(batch[:rank-2:rank-2], m), append(batch[:rank-2:rank-2], n)
	state := countedLoop(b, "qr", n, []hlo.Value{x, b.Full(d, 0, columns...)}, func(b *hlo.Builder, k hlo.Value, state []hlo.Value) []hlo.Value {
		x, taus := state[0], state[1]
		row, column := rowAndColumn(b, dims)
		at := b.BroadcastTo(k, dims)
		inRows, atRow := b.Iota(k.Dtype(), rows, rank-2), b.BroadcastTo(k, rows)
		here, under := b.Compare("EQ", inRows, atRow), b.Compare("GT", inRows, atRow)
		r := reflectionOf(b, pick(b, x, b.Compare("EQ", column, at), rank-1), here, under)

		// Hᴴ on what lies right of the column.
		v := spreadLast(b, r.v, rank-1, dims)
		products := b.ReduceOp(hlo.Add, b.Binary(hlo.Multiply, conjugated(b, v), x), b.Scalar(d, 0), []int{rank - 2})
		products = b.Binary(hlo.Multiply, products, b.Broadcast(conjugated(b, r.tau), columns, leading(rank-2)))
		changed := b.Binary(hlo.Subtract, x, b.Binary(hlo.Multiply, v, spreadLast(b, products, rank-2, dims)))
		isRight := b.Compare("GT", column, at)
		inColumn := b.Compare("EQ", column, at)
		x = b.Select(isRight, changed, x)
		x = b.Select(b.Binary(hlo.And, inColumn, b.Compare("GT", row, at)), v, x)
		x = b.Select(b.Binary(hlo.And, inColumn, b.Compare("EQ", row, at)), spreadOver(b, r.beta, dims), x)

		hereColumn := b.Compare("EQ", b.Iota(k.Dtype(), columns, rank-2), b.BroadcastTo(k, columns))
		taus = b.Select(hereColumn, b.Broadcast(r.tau, columns, leading(rank-2)), taus)
		return []hlo.Value{x, taus}
	})
	return state[0], state[1]
}

// reflection takes a vector to (.., beta, 0, .., 0), with beta real.
type reflection struct{ v, tau, beta hlo.Value }

// reflectionOf makes the reflection of the elements of vectors that are at one place (here) and behind it (under); those
// before are left alone, and 0 in v. A vector that is of that form already gets tau 0, as in LAPACK's larfg.
func reflectionOf(b *hlo.Builder, x, here, under hlo.Value) reflection {
	d, dims := x.Dtype(), x.Dims()
	last := len(dims) - 1
	zeros := b.Full(d, 0, dims...)
	counted := b.Select(b.Binary(hlo.Or, here, under), x, zeros)
	scaled, scale := inUnits(b, counted, 1)
	rd := scale.Dtype()
	number := func(v float64) hlo.Value { return b.Full(rd, v, batchDims(dims)...) }

	alpha := pick(b, scaled, here, last)
	rest := b.Select(under, scaled, zeros)
	restSize := b.ReduceOp(hlo.Add, sizeSquared(b, rest), b.Scalar(rd, 0), []int{last})
	alphaReal := realPart(b, alpha)
	norm := b.Unary(hlo.Sqrt, b.Binary(hlo.Add, sizeSquared(b, alpha), restSize))
	beta := b.Select(b.Compare("LT", alphaReal, number(0)), norm, b.Unary(hlo.Negate, norm))
	done := b.Compare("EQ", restSize, number(0))
	if d.IsComplex() {
		done = b.Binary(hlo.And, done, b.Compare("EQ", b.Unary(hlo.Imag, alpha), number(0)))
	}
	beta = b.Select(done, alphaReal, beta)

	difference := b.Binary(hlo.Subtract, alpha, fromReal(b, beta, d))
	size := b.Select(done, number(1), sizeSquared(b, difference))
	factor := divideReal(b, conjugated(b, difference), size)
	v := b.Binary(hlo.Multiply, rest, b.Broadcast(factor, dims, leading(last)))
	v = b.Select(here, b.Full(d, 1, dims...), v)
	divisor := b.Select(done, number(1), b.Unary(hlo.Negate, beta))
	tau := b.Select(done, b.Full(d, 0, batchDims(dims)...), divideReal(b, difference, divisor))
	return reflection{v, tau, fromReal(b, b.Binary(hlo.Multiply, beta, scale), d)}
}

// batchDims gives the dimensions in front of a vector.
func batchDims(dims []int64) []int64 { return dims[: len(dims)-1 : len(dims)-1] }

// reflectorsOf takes the vectors v out of a panel, whose diagonal and upper part are R's.
func reflectorsOf(b *hlo.Builder, panel hlo.Value) hlo.Value {
	row, column := rowAndColumn(b, panel.Dims())
	return b.Select(b.Compare("GT", row, column), panel, identityMatrix(b, panel.Dtype(), panel.Dims()))
}

// blockFactor gives the upper triangular T with H₁·H₂·..·Hₖ = I - V·T·Vᴴ.
func blockFactor(b *hlo.Builder, v, tau hlo.Value) hlo.Value {
	gram := product(b, adjoint(b, v), v)
	dims := gram.Dims()
	rank := len(dims)
	width := dims[rank-1]
	start := b.Full(v.Dtype(), 0, dims...)
	return countedLoop(b, "reflections", width, []hlo.Value{start, gram, tau}, func(b *hlo.Builder, k hlo.Value, state []hlo.Value) []hlo.Value {
		t, gram, tau := state[0], state[1], state[2]
		row, column := rowAndColumn(b, dims)
		at := b.BroadcastTo(k, dims)
		tauDims := tau.Dims()
		mine := pick(b, tau, b.Compare("EQ", b.Iota(k.Dtype(), tauDims, rank-2), b.BroadcastTo(k, tauDims)), rank-2)
		mine = spreadOver(b, mine, dims)
		// T's columns from k on are still 0, so that only the products with earlier vectors count.
		products := spreadLast(b, pick(b, gram, b.Compare("EQ", column, at), rank-1), rank-2, dims)
		sums := b.ReduceOp(hlo.Add, b.Binary(hlo.Multiply, t, products), b.Scalar(t.Dtype(), 0), []int{rank - 1})
		next := b.Unary(hlo.Negate, b.Binary(hlo.Multiply, mine, spreadLast(b, sums, rank-1, dims)))
		next = b.Select(b.Compare("EQ", row, at), mine, next)
		return []hlo.Value{b.Select(b.Compare("EQ", column, at), next, t), gram, tau}
	})[0]
}

// applyBlock multiplies by I - V·T·Vᴴ from the left, or by its adjoint.
func applyBlock(b *hlo.Builder, v, t, x hlo.Value, adjointed bool) hlo.Value {
	if adjointed {
		t = adjoint(b, t)
	}
	return b.Binary(hlo.Subtract, x, product(b, v, product(b, t, product(b, adjoint(b, v), x))))
}

// applyReflections multiplies x by Q = H₁·H₂·.. from the left, or by Qᴴ. packed has the reflections below its diagonal, and as
// many rows as x; tau says how many there are.
func applyReflections(b *hlo.Builder, packed, tau, x hlo.Value, adjointed bool) hlo.Value {
	rank := x.Rank()
	m, n := matrixSize(x.Dims())
	count := tau.Dims()[rank-2]
	if count == 0 || numElements(x.Dims()) == 0 {
		return x
	}
	blocks := (count + reflectorBlock - 1) / reflectorBlock
	for i := range blocks {
		block := i
		if !adjointed {
			block = blocks - 1 - i
		}
		at := block * reflectorBlock
		end := min(at+reflectorBlock, count)
		v := reflectorsOf(b, part(b, packed, at, m, at, end))
		start := atLast(rank-1, at)
		limit := append(batchOf(x.Dims())[:rank-2:rank-2], end)
		t := blockFactor(b, v, b.Slice(tau, start, limit, nil))
		x = stackRows(b, part(b, x, 0, at, 0, n), applyBlock(b, v, t, part(b, x, at, m, 0, n), adjointed))
	}
	return x
}

// sizeSquared gives the squares of the sizes of real or complex numbers, real.
func sizeSquared(b *hlo.Builder, x hlo.Value) hlo.Value {
	if !x.Dtype().IsComplex() {
		return b.Binary(hlo.Multiply, x, x)
	}
	re, im := b.Unary(hlo.Real, x), b.Unary(hlo.Imag, x)
	return b.Binary(hlo.Add, b.Binary(hlo.Multiply, re, re), b.Binary(hlo.Multiply, im, im))
}

// greatestPart gives the greatest size of the numbers' real and imaginary parts along dims.
func greatestPart(b *hlo.Builder, x hlo.Value, dims []int) hlo.Value {
	size := b.Unary(hlo.Abs, realPart(b, x))
	if x.Dtype().IsComplex() {
		size = b.Binary(hlo.Maximum, size, b.Unary(hlo.Abs, b.Unary(hlo.Imag, x)))
	}
	return b.ReduceOp(hlo.Maximum, size, b.Scalar(size.Dtype(), 0), dims)
}

// inUnits divides numbers by the greatest of them along the last dimensions, or by 1 where all are 0, and gives that scale: their
// squares are numbers then.
func inUnits(b *hlo.Builder, x hlo.Value, last int) (scaled, scale hlo.Value) {
	kept := x.Rank() - last
	over := make([]int, last)
	for i := range over {
		over[i] = kept + i
	}
	scale = greatestPart(b, x, over)
	d, dims := scale.Dtype(), scale.Dims()
	scale = b.Select(b.Compare("EQ", scale, b.Full(d, 0, dims...)), b.Full(d, 1, dims...), scale)
	return divideReal(b, x, spreadOver(b, scale, x.Dims())), scale
}

// fromReal gives real numbers as those of d, which may be complex.
func fromReal(b *hlo.Builder, x hlo.Value, d dtype.Dtype) hlo.Value {
	if !d.IsComplex() {
		return x
	}
	return b.Binary(hlo.Complex, x, b.Full(x.Dtype(), 0, x.Dims()...))
}

// divideReal divides real or complex numbers by real ones.
func divideReal(b *hlo.Builder, x, by hlo.Value) hlo.Value {
	if !x.Dtype().IsComplex() {
		return b.Binary(hlo.Divide, x, by)
	}
	return b.Binary(hlo.Complex, b.Binary(hlo.Divide, b.Unary(hlo.Real, x), by), b.Binary(hlo.Divide, b.Unary(hlo.Imag, x), by))
}
