package ops

import (
	"math/bits"
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// What the reductions share: which dimensions are reduced, the sizes that are left, and the HLO
// of one reduction. The reduced dimensions travel as a bit mask in one attribute.

// dimMask gives the dimensions that argument i names as a bit mask: an int, a list, or all of
// them for None, for an empty list and for i < 0.
func (c *Call) dimMask(i, rank int) (uint64, error) {
	if i >= 0 && !c.IsNone(i) {
		if c.Args[i].Tag == TagInt {
			d, err := c.Dim(c.Args[i].Int, rank)
			return 1 << d & allDims(rank), err
		}
		if list := c.Ints(i); len(list) > 0 {
			return c.listMask(list, rank)
		}
	}
	return allDims(rank), nil
}

// listMask is dimMask for a list that may be empty.
func (c *Call) listMask(list []int64, rank int) (uint64, error) {
	var mask uint64
	for _, number := range list {
		d, err := c.Dim(number, rank)
		if err != nil {
			return 0, err
		}
		if mask>>d&1 != 0 {
			return 0, Errorf("dim %d appears multiple times in the list of dims", d)
		}
		mask |= 1 << d
	}
	// A 0-dim tensor takes dimension 0 and -1, and there is nothing to reduce.
	return mask & allDims(rank), nil
}

func allDims(rank int) uint64 { return 1<<rank - 1 }

// reducedDims gives the sizes that are left of dims, valid until the call infers other sizes.
func (c *Call) reducedDims(dims []int64, mask uint64, keep bool) []int64 {
	left := c.dims[:0]
	for i, size := range dims {
		switch {
		case mask>>i&1 == 0:
			left = append(left, size)
		case keep:
			left = append(left, 1)
		}
	}
	c.dims = left
	return left
}

// checkNotEmpty raises where an operation without an identity would reduce an empty dimension.
// listed says that the caller named dimensions.
func checkNotEmpty(function string, dims []int64, mask uint64, listed bool) error {
	if !slices.Contains(dims, 0) {
		return nil
	}
	if !listed {
		return Errorf("%s(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.", function)
	}
	for i, size := range dims {
		if mask>>i&1 != 0 && size == 0 {
			return status.Torchf(status.IndexError, "%s(): Expected reduction dim %d to have non-zero size.", function, i)
		}
	}
	return nil
}

// notImplemented is torch's error for a kernel that has no version for a type.
func notImplemented(kernel string, d dtype.Dtype) error {
	return status.Torchf(status.NotImplementedError, "%q not implemented for '%s'", kernel, torchClass(d))
}

// maskDims lists the dimensions of a mask.
func maskDims(mask uint64) []int {
	dims := make([]int, 0, bits.OnesCount64(mask))
	for ; mask != 0; mask &= mask - 1 {
		dims = append(dims, bits.TrailingZeros64(mask))
	}
	return dims
}

// keptDims lists the dimensions below rank that mask does not have.
func keptDims(mask uint64, rank int) []int { return maskDims(allDims(rank) &^ mask) }

// reduceMask reduces the dimensions of mask with op; the result is without them.
func reduceMask(b *hlo.Builder, op hlo.Opcode, x hlo.Value, mask uint64) hlo.Value {
	if mask == 0 {
		return x
	}
	return b.ReduceOp(op, x, identityOf(b, op, x.Dtype()), maskDims(mask))
}

// spread broadcasts what reduceMask gave back to the sizes from before.
func spread(b *hlo.Builder, x hlo.Value, mask uint64, dims []int64) hlo.Value {
	if mask == 0 {
		return x
	}
	return b.Broadcast(x, dims, keptDims(mask, len(dims)))
}

// reduceCount gives the number of elements that each result of a reduction is made of.
func reduceCount(dims []int64, mask uint64) int64 {
	n := int64(1)
	for _, d := range maskDims(mask) {
		n *= dims[d]
	}
	return n
}

// identityOf gives the scalar that op starts from.
func identityOf(b *hlo.Builder, op hlo.Opcode, d dtype.Dtype) hlo.Value {
	switch op {
	case hlo.Multiply:
		return b.Scalar(d, 1)
	case hlo.And:
		return b.ScalarInt(d, -1) // all bits; of a bool, true
	case hlo.Maximum:
		return b.MinValue(d)
	case hlo.Minimum:
		return b.MaxValue(d)
	}
	return b.Scalar(d, 0)
}

// dividedBy divides by a number. Of a complex value both parts are divided, so that 0/0 is NaN
// in both.
func dividedBy(b *hlo.Builder, x hlo.Value, n float64) hlo.Value {
	if x.Dtype().IsComplex() {
		return b.Binary(hlo.Complex, dividedBy(b, b.Unary(hlo.Real, x), n), dividedBy(b, b.Unary(hlo.Imag, x), n))
	}
	return b.Binary(hlo.Divide, x, b.Full(x.Dtype(), n, x.Dims()...))
}

// sumOver sums mask and gives the result the sizes dims, in x's type.
func sumOver(b *hlo.Builder, x hlo.Value, mask uint64) hlo.Value {
	return reduceMask(b, hlo.Add, x, mask)
}

// meanOver is sumOver divided by the count.
func meanOver(b *hlo.Builder, x hlo.Value, mask uint64) hlo.Value {
	return dividedBy(b, sumOver(b, x, mask), float64(reduceCount(x.Dims(), mask)))
}

// shortRow is the length up to which a sum over the last dimension is left to the compiler.
const shortRow = 32

// twoSums sums x and y, of equal sizes, over mask. Where the last dimension is a long one both are
// summed along it in one pass: XLA's CPU compiler rewrites a long reduction of one array into
// windows, which it does not vectorise and which are several times slower than the sum itself.
func twoSums(b *hlo.Builder, x, y hlo.Value, mask uint64) (sumX, sumY hlo.Value) {
	dims := x.Dims()
	rank := len(dims)
	if rank == 0 || mask>>(rank-1)&1 == 0 || dims[rank-1] <= shortRow {
		return sumOver(b, x, mask), sumOver(b, y, mask)
	}
	scalar := shape.Make(x.Dtype())
	both := b.Computation("two_sums", func(sub *hlo.Builder) {
		sumX, sumY := sub.Parameter(scalar, "sum_x"), sub.Parameter(scalar, "sum_y")
		x, y := sub.Parameter(scalar, "x"), sub.Parameter(scalar, "y")
		sub.Return(sub.Binary(hlo.Add, sumX, x), sub.Binary(hlo.Add, sumY, y))
	})
	zero := b.Scalar(x.Dtype(), 0)
	rows := b.Reduce([]hlo.Value{x, y}, []hlo.Value{zero, zero}, []int{rank - 1}, both)
	rest := mask &^ (1 << (rank - 1))
	return sumOver(b, rows[0], rest), sumOver(b, rows[1], rest)
}

// rowsMean is meanOver, by the means of the rows where the last dimension is a long one: a sum over
// separate dimensions is slow on the CPU, and the compiler joins two sums into one such again.
func rowsMean(b *hlo.Builder, x hlo.Value, mask uint64) hlo.Value {
	dims := x.Dims()
	last := uint64(1) << max(len(dims)-1, 0)
	if mask&last == 0 || mask == last || dims[len(dims)-1] <= shortRow {
		return meanOver(b, x, mask)
	}
	return meanOver(b, meanOver(b, x, last), mask&^last)
}

// isNaN gives a bool array; false for types that have no NaN.
func isNaN(b *hlo.Builder, x hlo.Value) hlo.Value { return b.Compare("NE", x, x) }

// numElements gives the product of sizes.
func numElements(dims []int64) int64 { return shape.Product(dims) }
