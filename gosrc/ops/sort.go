package ops

import (
	"math"

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

// lowerTopK sorts and cuts. Floats are sorted in the total order, by rows of a matrix: XLA's
// backends recognise that and only select, which takes a fraction of the time.
func lowerTopK(l *ir.Lowering) []hlo.Value {
	b, x := l.B, l.In(0)
	dim, k, largest := int(l.Int()), l.Int(), l.Bool()
	d := x.Dtype()
	if x.Rank() == 0 || k == 0 || shape.Product(x.Dims()) == 0 || !d.IsFloat() || d == dtype.F64 {
		if x.Rank() == 0 {
			return []hlo.Value{x, b.Scalar(dtype.S64, 0)}
		}
		values, positions := sortWithPositions(b, x, dim, largest, true)
		return []hlo.Value{sliceDim(b, values, dim, 0, k), as(b, sliceDim(b, positions, dim, 0, k), dtype.S64)}
	}
	order := make([]int, 0, x.Rank())
	for i := range x.Rank() {
		if i != dim {
			order = append(order, i)
		}
	}
	order = append(order, dim)
	rows := as(b, b.Transpose(x, order), dtype.F32)
	moved := rows.Dims()
	n := x.Dims()[dim]
	rows = b.Reshape(rows, []int64{shape.Product(moved) / n, n})
	values, positions := greatest(b, rows, k, largest)
	moved = replaceDim(moved, len(moved)-1, k)
	back := make([]int, len(order))
	for i, o := range order {
		back[o] = i
	}
	return []hlo.Value{
		as(b, b.Transpose(b.Reshape(values, moved), back), d),
		as(b, b.Transpose(b.Reshape(positions, moved), back), dtype.S64),
	}
}

// greatest gives the k greatest or least elements of each row of an f32 matrix, and where they
// are. NaN counts as the greatest number and both zeros as equal, which the total order sees to
// once their signs are alike; the values are read from the rows as they were.
func greatest(b *hlo.Builder, rows hlo.Value, k int64, largest bool) (values, positions hlo.Value) {
	dims := rows.Dims()
	zero := b.Full(dtype.F32, 0, dims...)
	keys := b.Select(b.Compare("EQ", rows, zero), zero, rows)
	keys = b.Select(b.Compare("NE", keys, keys), b.Full(dtype.F32, math.NaN(), dims...), keys)
	if !largest {
		keys = b.Unary(hlo.Negate, keys)
	}
	t := positionType(dims[1])
	before := b.Computation("greater", func(sub *hlo.Builder) {
		x, y := sub.Parameter(shape.Make(dtype.F32), "x"), sub.Parameter(shape.Make(dtype.F32), "y")
		sub.Parameter(shape.Make(t), "i")
		sub.Parameter(shape.Make(t), "j")
		sub.Return(sub.CompareTotalOrder("GT", x, y))
	})
	sorted := b.Sort([]hlo.Value{keys, b.Iota(t, dims, 1)}, 1, true, before)
	positions = sliceDim(b, sorted[1], 1, 0, k)
	return takeElements(b, rows, elementPositions(b, positions, dims, 1, false)), positions
}
