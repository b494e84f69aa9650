package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Sorting. NaN counts as the greatest number.

func init() {
	register(
		&Row{Name: "sort.stable", Out: []string{"sort.values_stable"}, Meta: metaSort, LowerMany: lowerSort},
		&Row{Name: "topk", Out: []string{"topk.values"}, Meta: metaTopK, LowerMany: lowerTopK},
	)
}

// sortWithPositions sorts along dim with NaN above all other numbers, and gives each element's
// position before.
func sortWithPositions(b *hlo.Builder, x hlo.Value, dim int, descending, stable bool) (values, positions hlo.Value) {
	d := x.Dtype()
	if d == dtype.Bool {
		values, positions = sortWithPositions(b, b.Convert(x, dtype.U8), dim, descending, stable)
		return as(b, values, d), positions
	}
	t := positionType(x.Dims()[dim])
	direction := "LT"
	if descending {
		direction = "GT"
	}
	before := b.Computation("before", func(sub *hlo.Builder) {
		x, y := sub.Parameter(shape.Make(d), "x"), sub.Parameter(shape.Make(d), "y")
		sub.Parameter(shape.Make(t), "i")
		sub.Parameter(shape.Make(t), "j")
		first := sub.Compare(direction, x, y)
		if d.IsFloat() {
			// The NaN goes last, or first when descending.
			a, z := x, y
			if descending {
				a, z = y, x
			}
			nan := sub.Binary(hlo.And, sub.Compare("EQ", a, a), sub.Compare("NE", z, z))
			first = sub.Binary(hlo.Or, first, nan)
		}
		sub.Return(first)
	})
	sorted := b.Sort([]hlo.Value{x, b.Iota(t, x.Dims(), dim)}, dim, stable, before)
	return sorted[0], sorted[1]
}

// valuesAndPositions declares the two results of a row of this family.
func (c *Call) valuesAndPositions(dims []int64) error {
	d := c.Dtype(0)
	n := c.Many()
	c.Return(c.Element(n, 0, d, dims))
	c.Return(c.Element(n, 1, dtype.S64, dims))
	return nil
}

// metaSort: (self, stable, dim, descending). XLA's stable sort costs what the other one does, and
// makes results the same everywhere.
func metaSort(c *Call) error {
	d, sizes := c.Dtype(0), c.Dims(0)
	dim, err := c.Dim(c.Int(2, -1), len(sizes))
	if err != nil {
		return err
	}
	if d.IsComplex() {
		return status.Torchf(status.TypeError, " Sort does not support complex dtypes on CPU")
	}
	c.Operand(c.Node(0))
	c.Attr(int64(dim))
	c.AttrBool(c.Bool(3))
	return c.valuesAndPositions(sizes)
}

func lowerSort(l *ir.Lowering) []hlo.Value {
	x := l.In(0)
	dim, descending := int(l.Int()), l.Bool()
	if x.Rank() == 0 {
		return []hlo.Value{x, l.B.Scalar(dtype.S64, 0)}
	}
	values, positions := sortWithPositions(l.B, x, dim, descending, true)
	return []hlo.Value{values, as(l.B, positions, dtype.S64)}
}

// metaTopK: (self, k, dim, largest, sorted).
func metaTopK(c *Call) error {
	d, sizes, k := c.Dtype(0), c.Dims(0), c.Int(1, 1)
	dim, err := c.Dim(c.Int(2, -1), len(sizes))
	if err != nil {
		return err
	}
	if n := nonEmptyDims(sizes)[dim]; k < 0 || k > n {
		return Errorf("selected index k out of range")
	}
	if d.IsComplex() {
		return status.Torchf(status.TypeError, " topk does not support complex dtypes on CPU")
	}
	if d == dtype.Bool {
		return status.Torchf(status.NotImplementedError, "topk does not support bool dtypes on CPU")
	}
	c.Operand(c.Node(0))
	c.Attr(int64(dim), k)
	c.AttrBool(c.IsNone(3) || c.Bool(3))
	return c.valuesAndPositions(c.withDim(sizes, dim, k))
}

func lowerTopK(l *ir.Lowering) []hlo.Value {
	b, x := l.B, l.In(0)
	dim, k, largest := int(l.Int()), l.Int(), l.Bool()
	if x.Rank() == 0 {
		return []hlo.Value{x, b.Scalar(dtype.S64, 0)}
	}
	values, positions := sortWithPositions(b, x, dim, largest, true)
	return []hlo.Value{sliceDim(b, values, dim, 0, k), as(b, sliceDim(b, positions, dim, 0, k), dtype.S64)}
}
