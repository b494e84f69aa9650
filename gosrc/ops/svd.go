package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Singular values and vectors.

func init() {
	register(&Row{Name: "_linalg_svd", Out: []string{"_linalg_svd.U"}, Meta: metaSVD, LowerMany: lowerSVD, Checks: true})
}

// metaSVD: A, full_matrices, compute_uv, driver; results are U, S and Vᴴ.
func metaSVD(c *Call) error {
	if err := c.matrixRank("linalg.svd", "A", 0); err != nil {
		return err
	}
	if err := c.inexact("linalg.svd", 0, "linalg_svd_cpu"); err != nil {
		return err
	}
	if !c.IsNone(3) {
		return Errorf("torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.")
	}
	dims := c.Dims(0)
	m, n := matrixSize(dims)
	size := min(m, n)
	if size > jacobiLimit {
		return fallback(c, "LAPACK is faster for large matrices")
	}
	full, vectors := c.Bool(1), c.IsNone(2) || c.Bool(2)
	batch := batchOf(dims)
	u, v := matricesOf(batch, m, size), matricesOf(batch, size, n)
	switch {
	case !vectors:
		u, v = []int64{0}, []int64{0}
	case full:
		u, v = matricesOf(batch, m, m), matricesOf(batch, n, n)
	}
	c.Operand(c.Node(0))
	c.AttrBool(full)
	c.AttrBool(vectors)
	many := c.Many()
	c.Return(c.Element(many, 0, c.Dtype(0), u))
	c.Return(c.Element(many, 1, c.Dtype(0).Real(), pivotDims(dims)))
	c.Return(c.Element(many, 2, c.Dtype(0), v))
	return nil
}

func lowerSVD(l *ir.Lowering) []hlo.Value {
	b, x := l.B, l.In(0)
	full, wanted := l.Bool(), l.Bool()
	checkNoNaN(l, "linalg.svd", x)
	d := x.Dtype()
	m, n := matrixSize(x.Dims())
	batch := batchOf(x.Dims())
	if numElements(x.Dims()) == 0 {
		size := min(m, n)
		u, v := b.Full(d, 0, 0), b.Full(d, 0, 0)
		if wanted {
			columns, rows := size, size
			if full {
				columns, rows = m, n
			}
			u, v = identityMatrix(b, d, matricesOf(batch, m, columns)), identityMatrix(b, d, matricesOf(batch, rows, n))
		}
		return []hlo.Value{u, b.Full(d.Real(), 0, pivotDims(x.Dims())...), v}
	}
	flat := m < n
	if flat {
		x = adjoint(b, x)
	}
	left, values, right := singular(b, x, full, wanted)
	if !wanted {
		return []hlo.Value{b.Full(d, 0, 0), values, b.Full(d, 0, 0)}
	}
	if flat {
		left, right = right, left
	}
	return []hlo.Value{left, values, adjoint(b, right)}
}

// singular gives the singular values of matrices with at least as many rows as columns, and the vectors as columns: all
// m on the left where full is set.
//
// With A = Q·R, the columns of X = Rᴴ are rotated until they are orthogonal: X·V = W, so that R = V·Wᴴ. The left vectors are
// Q·V. Those on the right are W's columns over their lengths; a second QR takes them, since it has vectors too for those
// of length 0.
func singular(b *hlo.Builder, x hlo.Value, full, wanted bool) (left, values, right hlo.Value) {
	d := x.Dtype()
	rank := x.Rank()
	m, n := matrixSize(x.Dims())
	x, scale := inUnits(b, x, 2)
	packed, tau := factorQR(b, x)
	w, v := orthogonalColumns(b, adjoint(b, keepUpper(b, part(b, packed, 0, n, 0, n))), wanted)

	lengths := b.Unary(hlo.Sqrt, b.ReduceOp(hlo.Add, sizeSquared(b, w), b.Scalar(d.Real(), 0), []int{rank - 2}))
	values, order := sortWithPositions(b, lengths, rank-2, true, true)
	values = b.Binary(hlo.Multiply, values, spreadOver(b, scale, values.Dims()))
	if !wanted {
		return left, values, right
	}
	v, w = takeColumns(b, v, order), takeColumns(b, w, order)
	diagonal, t := factorQR(b, w)
	right = applyReflections(b, diagonal, t, identityMatrix(b, d, w.Dims()), false)
	// Each vector over its length has the sign of R's diagonal, which is real.
	sign := realPart(b, diagonalOf(b, diagonal))
	negative := b.Compare("LT", sign, b.Full(sign.Dtype(), 0, sign.Dims()...))
	right = b.Select(spreadLast(b, negative, rank-2, right.Dims()), b.Unary(hlo.Negate, right), right)

	columns := n
	if full {
		columns = m
	}
	start := v
	if m > n {
		high := make([]int64, rank)
		high[rank-2], high[rank-1] = m-n, columns-n
		start = b.Pad(v, b.Scalar(d, 0), make([]int64, rank), high, make([]int64, rank))
		if full {
			row, column := rowAndColumn(b, start.Dims())
			rest := b.Compare("GE", row, b.FullInt(dtype.S32, n, start.Dims()...))
			start = b.Select(b.Binary(hlo.And, rest, b.Compare("EQ", row, column)), b.Full(d, 1, start.Dims()...), start)
		}
	}
	return applyReflections(b, packed, tau, start, false), values, right
}

// orthogonalColumns rotates the columns of square matrices until they are orthogonal. It gives them and, where they are
// wanted, the rotations as one matrix: x·v = w.
func orthogonalColumns(b *hlo.Builder, x hlo.Value, wanted bool) (w, v hlo.Value) {
	d := x.Dtype()
	rank := x.Rank()
	size, _ := matrixSize(x.Dims())
	x = evenColumns(b, x, false)
	_, n := matrixSize(x.Dims())
	half := n / 2
	init := []hlo.Value{x}
	if wanted {
		init = append(init, identityMatrix(b, d, matricesOf(batchOf(x.Dims()), n, n)))
	}
	tolerance := jacobiTolerance(d, n)
	rd := d.Real()
	sum := func(b *hlo.Builder, v hlo.Value) hlo.Value {
		return b.ReduceOp(hlo.Add, v, b.Scalar(v.Dtype(), 0), []int{rank - 2})
	}
	state := sweepUntil(b, "singular", init, func(b *hlo.Builder, state []hlo.Value) ([]hlo.Value, hlo.Value) {
		pairs := append(batchOf(x.Dims())[:rank-2:rank-2], half)
		state = append(state, b.Full(rd, 0, pairs...))
		state = countedLoop(b, "singular_round", n-1, state, func(b *hlo.Builder, _ hlo.Value, state []hlo.Value) []hlo.Value {
			last := len(state) - 1
			x := state[0]
			left, right := sliceDim(b, x, rank-1, 0, half), sliceDim(b, x, rank-1, half, n)
			first, second := sum(b, sizeSquared(b, left)), sum(b, sizeSquared(b, right))
			between := sum(b, b.Binary(hlo.Multiply, conjugated(b, left), right))
			// The sine of what is missing to a right angle, squared.
			zero := b.Full(rd, 0, pairs...)
			squares := b.Binary(hlo.Multiply, first, second)
			empty := b.Compare("EQ", squares, zero)
			angle := b.Select(empty, zero, b.Binary(hlo.Divide, sizeSquared(b, between), b.Select(empty, b.Full(rd, 1, pairs...), squares)))
			r := rotationOf(b, first, second, b.Select(empty, b.Full(d, 0, pairs...), between))
			next := []hlo.Value{r.turn(b, x, rank-1)}
			if wanted {
				next = append(next, r.turn(b, state[1], rank-1))
			}
			return append(next, b.Binary(hlo.Maximum, state[last], angle))
		})
		last := len(state) - 1
		return state[:last], b.Compare("GT", state[last], b.Full(rd, tolerance*tolerance, pairs...))
	})
	w = part(b, state[0], 0, size, 0, size)
	if wanted {
		v = part(b, state[1], 0, size, 0, size)
	}
	return w, v
}

// checkNoNaN refuses matrices with NaN as LAPACK's singular values do.
func checkNoNaN(l *ir.Lowering, function string, x hlo.Value) {
	b := l.B
	dims := x.Dims()
	rank := len(dims)
	where := ""
	if rank > 2 {
		where = " (Batch element " + ir.CheckedValue + "):"
	}
	nan := b.Compare("NE", x, x)
	failed := b.ReduceOp(hlo.Or, nan, b.Scalar(dtype.Bool, 0), []int{rank - 2, rank - 1})
	batch := batchOf(dims)
	number := b.Reshape(b.Iota(dtype.S64, []int64{numElements(batch)}, 0), batch)
	l.CheckNone(failed, number, ir.Refusal{Exception: status.LinAlgError, Text: function + ":" + where + " The algorithm failed to converge because the input matrix contained non-finite values."})
}
