package ops

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/status"
)

// What the rows of linear algebra share: batches of matrices in the last two dimensions.

// matrixRank raises torch's error for fewer than two dimensions.
func (c *Call) matrixRank(function, name string, i int) error {
	if c.Rank(i) < 2 {
		return Errorf("%s: The input tensor %s must have at least 2 dimensions.", function, name)
	}
	return nil
}

// square raises torch's errors for an argument that is no batch of square matrices.
func (c *Call) square(function string, i int) error {
	if err := c.matrixRank(function, "A", i); err != nil {
		return err
	}
	if m, n := matrixSize(c.Dims(i)); m != n {
		return Errorf("%s: A must be batches of square matrices, but they are %d by %d matrices", function, m, n)
	}
	return nil
}

// inexact raises torch's errors for types that are neither float nor complex, or too narrow.
func (c *Call) inexact(function string, i int, kernel string) error {
	d := c.Dtype(i)
	switch {
	case d.IsIntegral():
		return status.Torchf(status.NotImplementedError, "%s: Expected a floating point or complex tensor as input. Got %s", function, torchClass(d))
	case d != d.OpMath() && kernel != "":
		return notImplemented(kernel, d)
	case d != d.OpMath():
		return status.Torchf(status.NotImplementedError, "%s: Low precision dtypes not supported. Got %s", function, torchClass(d))
	}
	return nil
}

// matrixSize gives rows and columns.
func matrixSize(dims []int64) (rows, columns int64) {
	return dims[len(dims)-2], dims[len(dims)-1]
}

// batchOf gives the dimensions in front of a matrix.
func batchOf(dims []int64) []int64 { return dims[:len(dims)-2] }

// matrices gives the dimensions of a batch of matrices.
func matricesOf(batch []int64, rows, columns int64) []int64 {
	return append(slices.Clone(batch), rows, columns)
}

// commonBatch broadcasts the batches of arguments i and j.
func (c *Call) commonBatch(i, j int) ([]int64, error) {
	return broadcastInto(slices.Clone(batchOf(c.Dims(i))), batchOf(c.Dims(j)))
}

// transposed exchanges rows and columns.
func transposed(b *hlo.Builder, x hlo.Value) hlo.Value {
	order := make([]int, x.Rank())
	for i := range order {
		order[i] = i
	}
	r := len(order)
	order[r-2], order[r-1] = r-1, r-2
	return b.Transpose(x, order)
}

// adjoint is transposed with conjugated elements.
func adjoint(b *hlo.Builder, x hlo.Value) hlo.Value { return conjugated(b, transposed(b, x)) }

func conjugated(b *hlo.Builder, x hlo.Value) hlo.Value {
	if !x.Dtype().IsComplex() {
		return x
	}
	return b.Binary(hlo.Complex, b.Unary(hlo.Real, x), b.Unary(hlo.Negate, b.Unary(hlo.Imag, x)))
}

// rowAndColumn gives the positions within each matrix of a batch.
func rowAndColumn(b *hlo.Builder, dims []int64) (row, column hlo.Value) {
	return b.Iota(dtype.S32, dims, len(dims)-2), b.Iota(dtype.S32, dims, len(dims)-1)
}

// keepLower keeps the elements on and below the diagonal, keepUpper those on and above it.
func keepLower(b *hlo.Builder, x hlo.Value) hlo.Value { return triangleOf(b, x, "GE") }

func keepUpper(b *hlo.Builder, x hlo.Value) hlo.Value { return triangleOf(b, x, "LE") }

func triangleOf(b *hlo.Builder, x hlo.Value, direction string) hlo.Value {
	row, column := rowAndColumn(b, x.Dims())
	return b.Select(b.Compare(direction, row, column), x, b.Full(x.Dtype(), 0, x.Dims()...))
}

// identityMatrix gives ones on the diagonal.
func identityMatrix(b *hlo.Builder, d dtype.Dtype, dims []int64) hlo.Value {
	row, column := rowAndColumn(b, dims)
	return as(b, b.Compare("EQ", row, column), d)
}

// diagonalOf gives the diagonals of square matrices, or of their upper left squares.
func diagonalOf(b *hlo.Builder, x hlo.Value) hlo.Value {
	row, column := rowAndColumn(b, x.Dims())
	r := x.Rank()
	dim := r - 2
	if m, n := matrixSize(x.Dims()); m < n {
		dim = r - 1
	}
	zero := b.Full(x.Dtype(), 0, x.Dims()...)
	return b.ReduceOp(hlo.Add, b.Select(b.Compare("EQ", row, column), x, zero), b.Scalar(x.Dtype(), 0), []int{dim})
}

// product multiplies matrices of equal batches.
func product(b *hlo.Builder, x, y hlo.Value) hlo.Value {
	r := int64(x.Rank())
	batch := make([]int64, r-2)
	for i := range batch {
		batch[i] = int64(i)
	}
	return b.DotWith(x, y, hlo.DotDims{LHSContracting: []int64{r - 1}, RHSContracting: []int64{r - 2}, LHSBatch: batch, RHSBatch: batch}, x.Dtype(), hlo.PrecisionHighest)
}

// realPart gives the real parts of complex numbers, and real numbers as they are.
func realPart(b *hlo.Builder, x hlo.Value) hlo.Value {
	if !x.Dtype().IsComplex() {
		return x
	}
	return b.Unary(hlo.Real, x)
}

// spreadLast repeats a batch of vectors along dimension dim of a batch of matrices of size dims.
func spreadLast(b *hlo.Builder, x hlo.Value, dim int, dims []int64) hlo.Value {
	kept := make([]int, 0, len(dims))
	for i := range dims {
		if i != dim {
			kept = append(kept, i)
		}
	}
	return b.Broadcast(x, dims, kept)
}

// spreadOver repeats one number for each batch over the matrices.
func spreadOver(b *hlo.Builder, x hlo.Value, dims []int64) hlo.Value {
	kept := make([]int, x.Rank())
	for i := range kept {
		kept[i] = i
	}
	return b.Broadcast(x, dims, kept)
}

// countedLoop runs step for k from 0 to count-1 (an s32) on the state and gives the last state.
func countedLoop(b *hlo.Builder, name string, count int64, init []hlo.Value, step func(b *hlo.Builder, k hlo.Value, state []hlo.Value) []hlo.Value) []hlo.Value {
	init = append([]hlo.Value{b.ScalarInt(dtype.S32, 0)}, init...)
	cond := b.Computation(name+"_continues", func(sub *hlo.Builder) {
		state := sub.StateParameters(shapesOf(init))
		sub.Return(sub.Compare("LT", state[0], sub.ScalarInt(dtype.S32, count)))
	})
	body := b.Computation(name+"_step", func(sub *hlo.Builder) {
		state := sub.StateParameters(shapesOf(init))
		next := sub.Binary(hlo.Add, state[0], sub.ScalarInt(dtype.S32, 1))
		sub.ReturnTuple(append([]hlo.Value{next}, step(sub, state[0], state[1:])...)...)
	})
	return b.While(init, cond, body)[1:]
}
