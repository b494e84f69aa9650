package ops

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Products of two tensors that need not be of one type, for quantized weights (`xla_go.quantized`). The schema is ours
// (torch_adapter/collective.cpp).

func init() {
	register(&Row{Name: "xla_go::dot_general", Meta: metaDotGeneral, Lower: lowerDotGeneral})
}

// metaDotGeneral: (lhs, rhs, lhs_contracting, rhs_contracting, lhs_batch, rhs_batch, dtype, four_bits). Dimensions come as batch,
// lhs, rhs. four_bits: rhs has 8-bit integers of four bits each.
func metaDotGeneral(c *Call) error {
	var sides [2][2][]int // of each side its contracting and its batch dimensions
	for side := range sides {
		for k := range sides[side] {
			for _, d := range c.Ints(2 + 2*k + side) {
				dim, err := c.Dim(d, c.Rank(side))
				if err != nil {
					return err
				}
				if slices.Contains(slices.Concat(sides[side][0], sides[side][1]), dim) || dim >= c.Rank(side) {
					return status.Torchf(status.ValueError, "%s(): expected distinct dimensions of a tensor of %d, got %d", c.row.Name, c.Rank(side), d)
				}
				sides[side][k] = append(sides[side][k], dim)
			}
		}
	}
	lhs, rhs := c.Dims(0), c.Dims(1)
	for k := range sides[0] {
		left, right := sides[0][k], sides[1][k]
		if len(left) != len(right) {
			return status.Torchf(status.ValueError, "%s(): expected pairs of dimensions, got %v and %v", c.row.Name, left, right)
		}
		for n := range left {
			if lhs[left[n]] != rhs[right[n]] {
				return status.Torchf(status.ValueError, "%s(): expected dimensions of equal size, got %d and %d of %v and %v", c.row.Name, left[n], right[n], lhs, rhs)
			}
		}
	}
	result, err := c.DtypeArg(6, dtype.Invalid)
	if err != nil {
		return err
	}
	for i := range sides {
		if d := c.Dtype(i); d == dtype.Bool || d.IsComplex() {
			return status.Torchf(status.ValueError, "%s(): expected real numbers, got %v", c.row.Name, d)
		}
	}
	if c.Bool(7) && c.Dtype(1) != dtype.S8 {
		return status.Torchf(status.ValueError, "%s(): expected 8-bit integers of four bits each, got %v", c.row.Name, c.Dtype(1))
	}
	var dims []int64
	for _, d := range sides[0][1] {
		dims = append(dims, lhs[d])
	}
	for side, sizes := range [...][]int64{lhs, rhs} {
		for d, n := range sizes {
			if !slices.Contains(sides[side][0], d) && !slices.Contains(sides[side][1], d) {
				dims = append(dims, n)
			}
		}
		for _, list := range sides[side] {
			c.Attr(int64(len(list)))
			for _, d := range list {
				c.Attr(int64(d))
			}
		}
	}
	c.AttrBool(c.Bool(7))
	c.Operand(c.Node(0), c.Node(1))
	return c.Out(result, dims)
}

func lowerDotGeneral(l *ir.Lowering) hlo.Value {
	d := hlo.DotDims{LHSContracting: l.Ints(), LHSBatch: l.Ints(), RHSContracting: l.Ints(), RHSBatch: l.Ints()}
	rhs := l.In(1)
	if l.Bool() {
		rhs = l.B.Convert(rhs, dtype.S4)
	}
	return l.B.DotWith(l.In(0), rhs, d, l.Dtype, hlo.PrecisionDefault)
}
