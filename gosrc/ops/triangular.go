package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Systems with triangular matrices, and Cholesky factors.

func init() {
	register(
		&Row{Name: "linalg_solve_triangular", Out: []string{"linalg_solve_triangular.out"}, Meta: metaSolveTriangular, Lower: lowerSolveTriangular},
		&Row{Name: "triangular_solve", Out: []string{"triangular_solve.X"}, Meta: metaTriangularSolve, LowerMany: lowerTriangularSolve},
		&Row{Name: "linalg_cholesky_ex", Out: []string{"linalg_cholesky_ex.L"}, Meta: metaCholesky, LowerMany: lowerCholesky},
		&Row{Name: "cholesky_inverse", Out: []string{"cholesky_inverse.out"}, Meta: metaCholeskyInverse, Lower: lowerCholeskyInverse},
		&Row{Name: "_cholesky_solve_helper", Out: []string{"_cholesky_solve_helper.out"}, Meta: metaCholeskySolve, Lower: lowerCholeskySolve},
		&Row{Name: "linalg_cross", Out: []string{"linalg_cross.out"}, Meta: metaCross, Lower: lowerCross},
	)
}

// metaSolveTriangular: A, B, upper, left, unitriangular.
func metaSolveTriangular(c *Call) error {
	const function = "linalg.solve_triangular"
	if err := c.square(function, 0); err != nil {
		return err
	}
	if err := c.matrixRank(function, "B", 1); err != nil {
		return err
	}
	left := c.IsNone(3) || c.Bool(3)
	if err := c.solvable(function, 0, 1, left); err != nil {
		return err
	}
	if a, b := c.Dtype(0), c.Dtype(1); a != b {
		return Errorf("%s: Expected A and B to have the same dtype, but found A of type %s and B of type %s instead", function, torchClass(a), torchClass(b))
	}
	if err := require("triangular_solve_cpu", c.Dtype(0), floats|complexes); err != nil {
		return err
	}
	batch, err := c.commonBatch(0, 1)
	if err != nil {
		return err
	}
	rows, columns := matrixSize(c.Dims(1))
	c.Operand(c.Node(0), c.Node(1))
	c.AttrBool(c.Bool(2))
	c.AttrBool(left)
	c.AttrBool(c.Bool(4))
	return c.Out(c.Dtype(0), matricesOf(batch, rows, columns))
}

// solvable raises torch's error where the sizes of A and B do not go together.
func (c *Call) solvable(function string, a, b int, left bool) error {
	m, n := matrixSize(c.Dims(a))
	rows, columns := matrixSize(c.Dims(b))
	if left && m != rows || !left && n != columns {
		equation := "AX = B"
		if !left {
			equation = "XA = B"
		}
		return Errorf("%s: Incompatible shapes of A and B for the equation %s (%dx%d and %dx%d)", function, equation, m, n, rows, columns)
	}
	return nil
}

func lowerSolveTriangular(l *ir.Lowering) hlo.Value {
	upper, left, unit := l.Bool(), l.Bool(), l.Bool()
	a, x := spreadBatch(l.B, l.In(0), batchOf(l.Dims)), spreadBatch(l.B, l.In(1), batchOf(l.Dims))
	return solveTriangle(l.B, a, x, left, !upper, unit, "N")
}

// solveTriangle is XLA's solver; it leaves alone what has no elements.
func solveTriangle(b *hlo.Builder, a, x hlo.Value, left, lower, unit bool, transpose string) hlo.Value {
	if numElements(x.Dims()) == 0 {
		return x
	}
	return b.TriangularSolve(a, x, left, lower, unit, transpose)
}

// spreadBatch broadcasts the dimensions in front of a matrix.
func spreadBatch(b *hlo.Builder, x hlo.Value, batch []int64) hlo.Value {
	rows, columns := matrixSize(x.Dims())
	return b.BroadcastTo(x, matricesOf(batch, rows, columns))
}

// metaTriangularSolve: b, A, upper, transpose, unitriangular; results are the solution and a copy of A.
func metaTriangularSolve(c *Call) error {
	for i, name := range [2]string{"b", "A"} {
		if r := c.Rank(i); r < 2 {
			return Errorf("torch.triangular_solve: Expected %s to have at least 2 dimensions, but it has %d dimensions instead", name, r)
		}
	}
	if err := c.solverSizes("triangular_solve", 0, 1); err != nil {
		return err
	}
	if err := require("triangular_solve_cpu", c.Dtype(0), floats|complexes); err != nil {
		return err
	}
	batch, err := c.commonBatch(0, 1)
	if err != nil {
		return err
	}
	rows, columns := matrixSize(c.Dims(0))
	c.Operand(c.Node(0), c.Node(1))
	c.AttrBool(c.IsNone(2) || c.Bool(2))
	c.AttrBool(c.Bool(3))
	c.AttrBool(c.Bool(4))
	c.AttrInts(batch)
	n := c.Many()
	c.Return(c.Element(n, 0, c.Dtype(0), matricesOf(batch, rows, columns)))
	c.Return(c.Element(n, 1, c.Dtype(0), matricesOf(batch, rows, rows)))
	return nil
}

// solverSizes raises the errors of torch's older solvers, whose first argument is the right side.
func (c *Call) solverSizes(function string, b, a int) error {
	m, n := matrixSize(c.Dims(a))
	rows, columns := matrixSize(c.Dims(b))
	switch {
	case c.Dtype(a) != c.Dtype(b):
		return Errorf("Expected b and A to have the same dtype, but found b of type %s and A of type %s instead.", torchClass(c.Dtype(b)), torchClass(c.Dtype(a)))
	case m != n:
		return Errorf("A must be batches of square matrices, but they are %d by %d matrices", m, n)
	case m != rows:
		return Errorf("Incompatible matrix sizes for %s: each A matrix is %d by %d but each b matrix is %d by %d", function, m, n, rows, columns)
	}
	return nil
}

func lowerTriangularSolve(l *ir.Lowering) []hlo.Value {
	upper, transpose, unit, batch := l.Bool(), l.Bool(), l.Bool(), l.Ints()
	x, a := spreadBatch(l.B, l.In(0), batch), spreadBatch(l.B, l.In(1), batch)
	kind := "N"
	if transpose {
		kind = "T"
	}
	return []hlo.Value{solveTriangle(l.B, a, x, true, !upper, unit, kind), a}
}

// metaCholesky: A, upper, check_errors; results are the factor and the order of the first minor that
// is not positive definite (int32, 0 if there is none).
func metaCholesky(c *Call) error {
	const function = "linalg.cholesky"
	if err := c.square(function, 0); err != nil {
		return err
	}
	if err := c.inexact(function, 0, "cholesky_cpu"); err != nil {
		return err
	}
	if c.Bool(2) {
		return fallback(c, "check_errors asks for an error at once")
	}
	c.Operand(c.Node(0))
	c.AttrBool(c.Bool(1))
	n := c.Many()
	c.Return(c.Element(n, 0, c.Dtype(0), c.Dims(0)))
	c.Return(c.Element(n, 1, dtype.S32, batchOf(c.Dims(0))))
	return nil
}

func lowerCholesky(l *ir.Lowering) []hlo.Value {
	b, x, upper := l.B, l.In(0), l.Bool()
	dims := x.Dims()
	if numElements(dims) == 0 {
		return []hlo.Value{x, b.FullInt(dtype.S32, 0, batchOf(dims)...)}
	}
	if upper {
		x = adjoint(b, x)
	}
	factor := keepLower(b, b.Cholesky(x, true))
	failed := failedMinor(b, x, factor)
	if upper {
		factor = adjoint(b, factor)
	}
	return []hlo.Value{factor, failed}
}

// failedMinor gives the order of the first leading minor of x that is not positive, 0 if all are. XLA
// fills the whole factor of such a matrix with NaN, so only then the minors are looked for one by one.
func failedMinor(b *hlo.Builder, x, factor hlo.Value) hlo.Value {
	batch := batchOf(x.Dims())
	diagonal := realPart(b, diagonalOf(b, factor))
	bad := b.Unary(hlo.Not, b.Compare("GT", diagonal, b.Full(diagonal.Dtype(), 0, diagonal.Dims()...)))
	all := make([]int, bad.Rank())
	for i := range all {
		all[i] = i
	}
	some := b.ReduceOp(hlo.Or, bad, b.Scalar(dtype.Bool, 0), all)
	search := b.Computation("failed_minor", func(sub *hlo.Builder) {
		x := sub.StateParameters(shapesOf([]hlo.Value{x}))[0]
		sub.Return(eliminationFailure(sub, x))
	})
	none := b.Computation("no_failed_minor", func(sub *hlo.Builder) {
		sub.StateParameters(shapesOf([]hlo.Value{x}))
		sub.Return(sub.FullInt(dtype.S32, 0, batch...))
	})
	return b.Conditional(some, search, none, []hlo.Value{x})[0]
}

// eliminationFailure eliminates without pivoting and gives the number, from 1 on, of the first pivot
// that is not positive.
func eliminationFailure(b *hlo.Builder, x hlo.Value) hlo.Value {
	dims := x.Dims()
	rank := len(dims)
	init := []hlo.Value{x, b.FullInt(dtype.S32, 0, batchOf(dims)...)}
	return countedLoop(b, "elimination", dims[rank-1], init, func(b *hlo.Builder, k hlo.Value, state []hlo.Value) []hlo.Value {
		x, failed := state[0], state[1]
		row, column := rowAndColumn(b, dims)
		at := b.BroadcastTo(k, dims)
		zero := b.Full(x.Dtype(), 0, dims...)
		left := b.ReduceOp(hlo.Add, b.Select(b.Compare("EQ", column, at), x, zero), b.Scalar(x.Dtype(), 0), []int{rank - 1})
		inRow := b.Iota(dtype.S32, left.Dims(), rank-2)
		here := b.Compare("EQ", inRow, b.BroadcastTo(k, left.Dims()))
		pivot := b.ReduceOp(hlo.Add, b.Select(here, left, b.Full(x.Dtype(), 0, left.Dims()...)), b.Scalar(x.Dtype(), 0), []int{rank - 2})
		good := b.Compare("GT", realPart(b, pivot), b.Full(x.Dtype().Real(), 0, pivot.Dims()...))
		open := b.Compare("EQ", failed, b.FullInt(dtype.S32, 0, failed.Dims()...))
		number := b.BroadcastTo(b.Binary(hlo.Add, k, b.ScalarInt(dtype.S32, 1)), failed.Dims())
		failed = b.Select(b.Binary(hlo.And, open, b.Unary(hlo.Not, good)), number, failed)
		rows := spreadLast(b, left, rank-1, dims)
		columns := spreadLast(b, conjugated(b, left), rank-2, dims)
		term := b.Binary(hlo.Divide, b.Binary(hlo.Multiply, rows, columns), spreadOver(b, pivot, dims))
		below := b.Binary(hlo.And, b.Compare("GT", row, at), b.Compare("GT", column, at))
		return []hlo.Value{b.Select(below, b.Binary(hlo.Subtract, x, term), x), failed}
	})[1]
}

// metaCholeskyInverse: the factor, upper.
func metaCholeskyInverse(c *Call) error {
	if err := c.square("cholesky_inverse", 0); err != nil {
		return err
	}
	if err := require("cholesky_inverse_out_cpu", c.Dtype(0), floats|complexes); err != nil {
		return err
	}
	c.Operand(c.Node(0))
	c.AttrBool(c.Bool(1))
	return c.Out(c.Dtype(0), c.Dims(0))
}

func lowerCholeskyInverse(l *ir.Lowering) hlo.Value {
	return solveCholesky(l.B, l.In(0), identityMatrix(l.B, l.Dtype, l.Dims), l.Bool())
}

// metaCholeskySolve: the right side, the factor, upper; torch has broadcast their batches.
func metaCholeskySolve(c *Call) error {
	if err := require("cholesky_cpu", c.Dtype(0), floats|complexes); err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1))
	c.AttrBool(c.Bool(2))
	return c.Out(c.Dtype(0), c.Dims(0))
}

func lowerCholeskySolve(l *ir.Lowering) hlo.Value {
	return solveCholesky(l.B, l.In(1), l.In(0), l.Bool())
}

// solveCholesky solves with the matrix whose factor is given.
func solveCholesky(b *hlo.Builder, factor, x hlo.Value, upper bool) hlo.Value {
	first, second := "N", "C"
	if upper {
		first, second = second, first
	}
	y := solveTriangle(b, factor, x, true, !upper, false, first)
	return solveTriangle(b, factor, y, true, !upper, false, second)
}

// metaCross: x, y, dim.
func metaCross(c *Call) error {
	if c.Rank(0) != c.Rank(1) {
		return Errorf("linalg.cross: inputs must have the same number of dimensions.")
	}
	dim, err := c.Dim(c.Int(2, -1), c.Rank(0))
	if err != nil {
		return err
	}
	if c.Rank(0) == 0 || c.Dims(0)[dim] != 3 || c.Dims(1)[dim] != 3 {
		sizes := [2]int64{1, 1}
		for i := range sizes {
			if c.Rank(0) > 0 {
				sizes[i] = c.Dims(i)[dim]
			}
		}
		return Errorf("linalg.cross: inputs dimension %d must have length 3. Got %d and %d", c.Int(2, -1), sizes[0], sizes[1])
	}
	if x, y := c.Dtype(0), c.Dtype(1); x != y {
		return Errorf("expected scalar type %s but found %s", torchClass(x), torchClass(y))
	}
	if c.Dtype(0) == dtype.Bool {
		return notImplemented("cross", dtype.Bool)
	}
	dims, err := c.BroadcastDims(0, 1)
	if err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1))
	c.Attr(int64(dim))
	return c.Out(c.Dtype(0), dims)
}

func lowerCross(l *ir.Lowering) hlo.Value {
	dim, compute := int(l.Int()), l.Dtype.OpMath()
	x, y := operand(l, 0, compute), operand(l, 1, compute)
	// turned gives element i+steps of x in place i.
	turned := func(x hlo.Value, steps int64) hlo.Value {
		return l.B.Concatenate([]hlo.Value{sliceDim(l.B, x, dim, steps, 3), sliceDim(l.B, x, dim, 0, steps)}, dim)
	}
	first := l.B.Binary(hlo.Multiply, turned(x, 1), turned(y, 2))
	second := l.B.Binary(hlo.Multiply, turned(x, 2), turned(y, 1))
	return as(l.B, l.B.Binary(hlo.Subtract, first, second), l.Dtype)
}
