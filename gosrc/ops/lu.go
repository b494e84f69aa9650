package ops

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// LU factors, and what is computed by them: solutions, inverses, determinants.
//
// _linalg_solve_ex has no row: whether its factors are those of the matrix or of the transposed one, which the
// backward formula relies on, differs between torch releases.

func init() {
	register(
		&Row{Name: "linalg_lu_factor_ex", Out: []string{"linalg_lu_factor_ex.out"}, Meta: metaLUFactor, LowerMany: lowerLUFactor},
		&Row{Name: "linalg_lu", Out: []string{"linalg_lu.out"}, Meta: metaLU, LowerMany: lowerLU},
		&Row{Name: "lu_unpack", Out: []string{"lu_unpack.out"}, Meta: metaLUUnpack, LowerMany: lowerLUUnpack},
		&Row{Name: "linalg_lu_solve", Out: []string{"linalg_lu_solve.out"}, Meta: metaLUSolve, Lower: lowerLUSolve},
		&Row{Name: "linalg_inv_ex", Out: []string{"linalg_inv_ex.inverse"}, Meta: metaInverse, LowerMany: lowerInverse},
		&Row{Name: "_linalg_det", Out: []string{"_linalg_det.result"}, Meta: metaDeterminant("linalg.det", 1), LowerMany: lowerDeterminant},
		&Row{Name: "_linalg_slogdet", Out: []string{"_linalg_slogdet.sign"}, Meta: metaDeterminant("linalg.slogdet", 2), LowerMany: lowerLogDeterminant},
	)
}

// factorable raises torch's errors for what is factored without the conditions of a square matrix.
func (c *Call) factorable(function string) error {
	if c.Rank(0) < 2 {
		return Errorf("%s: Expected tensor with 2 or more dimensions. Got size: %s instead", function, dimsText(c.Dims(0)))
	}
	if !c.IsNone(1) && !c.Bool(1) {
		return Errorf("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
	}
	return require("lu_cpu", c.Dtype(0), kindOfMatrix(c.Dtype(0)))
}

// kindOfMatrix allows the types that LAPACK has.
func kindOfMatrix(d dtype.Dtype) kinds {
	if d != d.OpMath() {
		return 0
	}
	return floats | complexes
}

// pivotDims gives the dimensions of the pivots of a matrix.
func pivotDims(dims []int64) []int64 {
	return append(slices.Clone(batchOf(dims)), min(dims[len(dims)-2], dims[len(dims)-1]))
}

// metaLUFactor: A, pivot, check_errors; results are the factors in one matrix, pivots, the number of the first
// pivot that is 0.
func metaLUFactor(c *Call) error {
	if err := c.factorable("torch.lu_factor"); err != nil {
		return err
	}
	if c.Bool(2) {
		return fallback(c, "check_errors asks for an error at once")
	}
	c.Operand(c.Node(0))
	n := c.Many()
	c.Return(c.Element(n, 0, c.Dtype(0), c.Dims(0)))
	c.Return(c.Element(n, 1, dtype.S32, pivotDims(c.Dims(0))))
	c.Return(c.Element(n, 2, dtype.S32, batchOf(c.Dims(0))))
	return nil
}

func lowerLUFactor(l *ir.Lowering) []hlo.Value {
	f := factorLU(l.B, l.In(0))
	return []hlo.Value{f.matrix, f.pivots, f.failed}
}

// metaLU: A, pivot; results are P, L and U.
func metaLU(c *Call) error {
	if err := c.factorable("linalg.lu"); err != nil {
		return err
	}
	c.Operand(c.Node(0))
	c.returnFactors(true, true)
	return nil
}

// returnFactors declares P, L and U; those that were not asked for are empty.
func (c *Call) returnFactors(data, pivots bool) {
	dims := c.Dims(0)
	m, columns := matrixSize(dims)
	batch, size := batchOf(dims), min(m, columns)
	sizes := [3][]int64{{0}, {0}, {0}}
	if pivots {
		sizes[0] = matricesOf(batch, m, m)
	}
	if data {
		sizes[1], sizes[2] = matricesOf(batch, m, size), matricesOf(batch, size, columns)
	}
	n := c.Many()
	for i := range sizes {
		c.Return(c.Element(n, i, c.Dtype(0), sizes[i]))
	}
}

func lowerLU(l *ir.Lowering) []hlo.Value {
	f := factorLU(l.B, l.In(0))
	lower, upper := factorsOf(l.B, f.matrix)
	return []hlo.Value{permutationMatrix(l.B, f.permutation, f.matrix.Dtype()), lower, upper}
}

// factorsOf takes L and U apart.
func factorsOf(b *hlo.Builder, matrix hlo.Value) (lower, upper hlo.Value) {
	m, n := matrixSize(matrix.Dims())
	size := min(m, n)
	lower = part(b, matrix, 0, m, 0, size)
	row, column := rowAndColumn(b, lower.Dims())
	below := b.Compare("GT", row, column)
	lower = b.Select(below, lower, identityMatrix(b, matrix.Dtype(), lower.Dims()))
	return lower, keepUpper(b, part(b, matrix, 0, size, 0, n))
}

// metaLUUnpack: LU, pivots, unpack_data, unpack_pivots.
func metaLUUnpack(c *Call) error {
	data, pivots := c.IsNone(2) || c.Bool(2), c.IsNone(3) || c.Bool(3)
	if c.Rank(0) < 2 {
		return Errorf("torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: %s instead", dimsText(c.Dims(0)))
	}
	if pivots {
		if c.Dtype(1) != dtype.S32 {
			return Errorf("torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this function is intended to be used with the output produced by torch.linalg.lu_factor")
		}
		if expected := pivotDims(c.Dims(0)); !slices.Equal(expected, c.Dims(1)) {
			return status.Torchf(status.ValueError, "Expected LU_pivots to have shape %s but got %s instead.", dimsText(expected), dimsText(c.Dims(1)))
		}
	}
	c.Operand(c.Node(0), c.Node(1))
	c.AttrBool(data)
	c.AttrBool(pivots)
	c.returnFactors(data, pivots)
	return nil
}

func lowerLUUnpack(l *ir.Lowering) []hlo.Value {
	b, matrix := l.B, l.In(0)
	data, pivots := l.Bool(), l.Bool()
	empty := b.Full(matrix.Dtype(), 0, 0)
	results := []hlo.Value{empty, empty, empty}
	if pivots {
		m, _ := matrixSize(matrix.Dims())
		results[0] = permutationMatrix(b, permutationOf(b, l.In(1), m), matrix.Dtype())
	}
	if data {
		results[1], results[2] = factorsOf(b, matrix)
	}
	return results
}

// metaLUSolve: LU, pivots, B, left, adjoint.
func metaLUSolve(c *Call) error {
	const function = "linalg.lu_solve"
	if err := require("lu_solve", c.Dtype(0), kindOfMatrix(c.Dtype(0))); err != nil {
		return err
	}
	if x, y := c.Dtype(0), c.Dtype(2); x != y {
		return Errorf("%s: Expected LU and B to have the same dtype, but found LU of type %s and B of type %s instead", function, torchClass(x), torchClass(y))
	}
	if c.Dtype(1) != dtype.S32 {
		return Errorf("%s: pivots should be a Tensor of scalar type torch.int32", function)
	}
	if err := c.square("torch.linalg.lu_solve", 0); err != nil {
		return err
	}
	if err := c.matrixRank(function, "B", 2); err != nil {
		return err
	}
	left := c.IsNone(3) || c.Bool(3)
	if err := c.solvable(function, 0, 2, left); err != nil {
		return err
	}
	if c.Rank(1) == 0 || c.Dims(1)[c.Rank(1)-1] != c.Dims(0)[c.Rank(0)-1] {
		return Errorf("%s: Number of pivots per batch should be same as the dimension of the matrix", function)
	}
	if !slices.Equal(batchOf(c.Dims(0)), c.Dims(1)[:c.Rank(1)-1]) {
		return Errorf("%s: Batch dimensions of LU and pivots should be the same", function)
	}
	batch, err := c.commonBatch(0, 2)
	if err != nil {
		return err
	}
	rows, columns := matrixSize(c.Dims(2))
	c.Operand(c.Node(0), c.Node(1), c.Node(2))
	c.AttrBool(left)
	c.AttrBool(c.Bool(4))
	return c.Out(c.Dtype(0), matricesOf(batch, rows, columns))
}

func lowerLUSolve(l *ir.Lowering) hlo.Value {
	b, left, conjugate := l.B, l.Bool(), l.Bool()
	batch := batchOf(l.Dims)
	m, _ := matrixSize(l.In(0).Dims())
	permutation := b.BroadcastTo(permutationOf(b, l.In(1), m), append(slices.Clone(batch), m))
	return solveSide(b, spreadBatch(b, l.In(0), batch), permutation, spreadBatch(b, l.In(2), batch), left, conjugate)
}

// solveSide solves A·y = x, or y·A = x if not left; with Aᴴ for A where conjugate is set.
func solveSide(b *hlo.Builder, matrix, permutation, x hlo.Value, left, conjugate bool) hlo.Value {
	if left {
		return solveLU(b, matrix, permutation, x, conjugate)
	}
	return adjoint(b, solveLU(b, matrix, permutation, adjoint(b, x), !conjugate))
}

// factorsTransposed says whether torch's determinants factor the transposed matrix, as their backward
// formulas assume of a real matrix that lies in rows.
func (c *Call) factorsTransposed(i int) bool {
	v := &c.Args[i].View
	step := int64(1)
	for dim := len(v.Sizes) - 1; dim >= 0; dim-- {
		if v.Sizes[dim] != 1 {
			if v.Strides[dim] != step && numElements(v.Sizes) != 0 {
				return false
			}
			step *= v.Sizes[dim]
		}
	}
	return !v.Dtype.IsComplex()
}

// metaInverse: A, check_errors; results are the inverse and the number of the first pivot that is 0.
func metaInverse(c *Call) error {
	if err := c.square("linalg.inv", 0); err != nil {
		return err
	}
	if err := c.inexact("linalg.inv", 0, ""); err != nil {
		return err
	}
	if c.Bool(1) {
		return fallback(c, "check_errors asks for an error at once")
	}
	c.Operand(c.Node(0))
	n := c.Many()
	c.Return(c.Element(n, 0, c.Dtype(0), c.Dims(0)))
	c.Return(c.Element(n, 1, dtype.S32, batchOf(c.Dims(0))))
	return nil
}

func lowerInverse(l *ir.Lowering) []hlo.Value {
	x := l.In(0)
	f := factorLU(l.B, x)
	return []hlo.Value{solveLU(l.B, f.matrix, f.permutation, identityMatrix(l.B, x.Dtype(), x.Dims()), false), f.failed}
}

// metaDeterminant: A; results are those of the function (determinants of each matrix), LU and pivots.
func metaDeterminant(function string, results int) func(c *Call) error {
	return func(c *Call) error {
		if err := c.square(function, 0); err != nil {
			return err
		}
		kernel := ""
		if results == 1 {
			kernel = "lu_cpu"
		}
		if err := c.inexact(function, 0, kernel); err != nil {
			return err
		}
		d, dims := c.Dtype(0), c.Dims(0)
		c.Operand(c.Node(0))
		c.AttrBool(c.factorsTransposed(0))
		n := c.Many()
		c.Return(c.Element(n, 0, d, batchOf(dims)))
		if results == 2 {
			c.Return(c.Element(n, 1, d.Real(), batchOf(dims)))
		}
		c.Return(c.Element(n, results, d, dims))
		c.Return(c.Element(n, results+1, dtype.S32, pivotDims(dims)))
		return nil
	}
}

// determinantFactors gives LU, its diagonal and the sign of the permutation.
func determinantFactors(l *ir.Lowering) (f luFactors, diagonal, sign hlo.Value) {
	b, x := l.B, l.In(0)
	if l.Bool() {
		x = transposed(b, x)
	}
	f = factorLU(b, x)
	last := f.pivots.Rank() - 1
	one := b.FullInt(dtype.S32, 1, f.pivots.Dims()...)
	own := b.Binary(hlo.Add, b.Iota(dtype.S32, f.pivots.Dims(), last), one)
	d := x.Dtype()
	signs := b.Select(b.Compare("EQ", f.pivots, own), b.Full(d, 1, f.pivots.Dims()...), b.Full(d, -1, f.pivots.Dims()...))
	return f, diagonalOf(b, f.matrix), b.ReduceOp(hlo.Multiply, signs, b.Scalar(d, 1), []int{last})
}

func lowerDeterminant(l *ir.Lowering) []hlo.Value {
	f, diagonal, sign := determinantFactors(l)
	last := diagonal.Rank() - 1
	all := l.B.ReduceOp(hlo.Multiply, diagonal, l.B.Scalar(diagonal.Dtype(), 1), []int{last})
	return []hlo.Value{l.B.Binary(hlo.Multiply, sign, all), f.matrix, f.pivots}
}

func lowerLogDeterminant(l *ir.Lowering) []hlo.Value {
	f, diagonal, sign := determinantFactors(l)
	b, last := l.B, diagonal.Rank()-1
	sign = b.Binary(hlo.Multiply, sign, b.ReduceOp(hlo.Multiply, b.Unary(hlo.Sign, diagonal), b.Scalar(diagonal.Dtype(), 1), []int{last}))
	size := b.Unary(hlo.Abs, diagonal)
	logarithm := b.ReduceOp(hlo.Add, b.Unary(hlo.Log, size), b.Scalar(size.Dtype(), 0), []int{last})
	return []hlo.Value{sign, logarithm, f.matrix, f.pivots}
}
