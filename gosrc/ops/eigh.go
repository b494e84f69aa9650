package ops

import (
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Eigenvalues and eigenvectors of symmetric and Hermitian matrices.

func init() {
	register(&Row{Name: "_linalg_eigh", Out: []string{"_linalg_eigh.eigenvalues"}, Meta: metaEigh, LowerMany: lowerEigh})
}

// metaEigh: A, UPLO, compute_v; results are the eigenvalues, ascending, and the eigenvectors.
func metaEigh(c *Call) error {
	if err := c.square("linalg.eigh", 0); err != nil {
		return err
	}
	triangle := "L"
	if !c.IsNone(1) {
		triangle = c.Text(1)
	}
	lower := triangle == "L" || triangle == "l"
	if !lower && triangle != "U" && triangle != "u" {
		return Errorf("Expected UPLO argument to be 'L' or 'U', but got %s", triangle)
	}
	if err := require("linalg_eigh_cpu", c.Dtype(0), kindOfMatrix(c.Dtype(0))); err != nil {
		return err
	}
	dims := c.Dims(0)
	if n := dims[len(dims)-1]; n > jacobiLimit {
		return fallback(c, "LAPACK is faster for large matrices")
	}
	vectors := c.IsNone(2) || c.Bool(2)
	c.Operand(c.Node(0))
	c.AttrBool(lower)
	c.AttrBool(vectors)
	many := c.Many()
	c.Return(c.Element(many, 0, c.Dtype(0).Real(), dims[:len(dims)-1]))
	if !vectors {
		dims = []int64{0}
	}
	c.Return(c.Element(many, 1, c.Dtype(0), dims))
	return nil
}

func lowerEigh(l *ir.Lowering) []hlo.Value {
	b, x := l.B, l.In(0)
	lower, wanted := l.Bool(), l.Bool()
	d := x.Dtype()
	dims := x.Dims()
	rank := len(dims)
	n := dims[rank-1]
	if numElements(dims) == 0 {
		none := b.Full(d, 0, 0)
		if wanted {
			none = b.Full(d, 0, dims...)
		}
		return []hlo.Value{b.Full(d.Real(), 0, dims[:rank-1]...), none}
	}
	x = evenColumns(b, hermitian(b, x, lower), true)
	values, vectors := eigen(b, x, wanted)
	values = sliceDim(b, values, rank-2, 0, n)
	values, order := sortWithPositions(b, values, rank-2, false, true)
	if !wanted {
		return []hlo.Value{values, b.Full(d, 0, 0)}
	}
	return []hlo.Value{values, takeColumns(b, part(b, vectors, 0, n, 0, n), order)}
}

// hermitian completes a triangle, whose diagonal counts as real.
func hermitian(b *hlo.Builder, x hlo.Value, lower bool) hlo.Value {
	row, column := rowAndColumn(b, x.Dims())
	direction := "LT"
	if lower {
		direction = "GT"
	}
	diagonal := fromReal(b, realPart(b, x), x.Dtype())
	x = b.Select(b.Compare("EQ", row, column), diagonal, b.Select(b.Compare(direction, row, column), x, adjoint(b, x)))
	return x
}

// eigen diagonalises Hermitian matrices of even size. It gives the eigenvalues in no order and, where they are wanted, the
// vectors as columns.
func eigen(b *hlo.Builder, x hlo.Value, wanted bool) (values, vectors hlo.Value) {
	d, dims := x.Dtype(), x.Dims()
	rank := len(dims)
	n := dims[rank-1]
	half := n / 2
	x, scale := inUnits(b, x, 2)
	init := []hlo.Value{x}
	if wanted {
		init = append(init, identityMatrix(b, d, dims))
	}
	tolerance := jacobiTolerance(d, n)
	state := sweepUntil(b, "eigen", init, func(b *hlo.Builder, state []hlo.Value) ([]hlo.Value, hlo.Value) {
		state = countedLoop(b, "eigen_round", n-1, state, func(b *hlo.Builder, _ hlo.Value, state []hlo.Value) []hlo.Value {
			x := state[0]
			first := realPart(b, diagonalOf(b, part(b, x, 0, half, 0, half)))
			second := realPart(b, diagonalOf(b, part(b, x, half, n, half, n)))
			r := rotationOf(b, first, second, diagonalOf(b, part(b, x, 0, half, half, n)))
			next := []hlo.Value{r.turn(b, r.turn(b, x, rank-1), rank-2)}
			if wanted {
				next = append(next, r.turn(b, state[1], rank-1))
			}
			return next
		})
		row, column := rowAndColumn(b, dims)
		squares := sizeSquared(b, state[0])
		rd := squares.Dtype()
		sum := func(v hlo.Value) hlo.Value {
			return b.ReduceOp(hlo.Add, v, b.Scalar(rd, 0), []int{rank - 2, rank - 1})
		}
		outside := sum(b.Select(b.Compare("EQ", row, column), b.Full(rd, 0, dims...), squares))
		all := sum(squares)
		limit := b.Binary(hlo.Multiply, all, b.Full(rd, tolerance*tolerance, all.Dims()...))
		return state, b.Compare("GT", outside, limit)
	})
	values = realPart(b, diagonalOf(b, state[0]))
	values = b.Binary(hlo.Multiply, values, spreadOver(b, scale, values.Dims()))
	if wanted {
		vectors = state[1]
	}
	return values, vectors
}
