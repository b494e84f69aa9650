package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// Running sums, products, extrema and log-sum-exps along one dimension.

func init() {
	register(
		&Row{Name: "cumsum", InPlace: []string{"cumsum_"}, Out: []string{"cumsum.out"}, Meta: metaScan("cumsum_out_cpu"), Lower: lowerScan(scanSum)},
		&Row{Name: "cumprod", InPlace: []string{"cumprod_"}, Out: []string{"cumprod.out"}, Meta: metaScan("cumprod_out_cpu"), Lower: lowerScan(scanProduct)},
		&Row{Name: "logcumsumexp", Out: []string{"logcumsumexp.out"}, Meta: metaLogcumsumexp, Lower: lowerScan(scanLogSumExp)},
		&Row{Name: "cummax", Out: []string{"cummax.out"}, Meta: metaScanExtremum("cummax_cpu"), LowerMany: lowerScanExtremum(scanMaximum)},
		&Row{Name: "cummin", Out: []string{"cummin.out"}, Meta: metaScanExtremum("cummin_cpu"), LowerMany: lowerScanExtremum(scanMinimum)},
	)
}

// scan is an associative operation and what it starts from.
type scan struct {
	name    string
	start   func(b *hlo.Builder, d dtype.Dtype) hlo.Value
	combine func(b *hlo.Builder, x, y hlo.Value) hlo.Value
}

func scanOf(name string, op hlo.Opcode) scan {
	return scan{
		name:    name,
		start:   func(b *hlo.Builder, d dtype.Dtype) hlo.Value { return identityOf(b, op, d) },
		combine: func(b *hlo.Builder, x, y hlo.Value) hlo.Value { return b.Binary(op, x, y) },
	}
}

var (
	scanSum       = scanOf("sum", hlo.Add)
	scanProduct   = scanOf("product", hlo.Multiply)
	scanMaximum   = scanOf("maximum", hlo.Maximum)
	scanMinimum   = scanOf("minimum", hlo.Minimum)
	scanLogSumExp = scan{
		name:    "log_sum_exp",
		start:   func(b *hlo.Builder, d dtype.Dtype) hlo.Value { return b.MinValue(d) },
		combine: logAddExp,
	}
)

// logAddExp is log(exp(x) + exp(y)); equal infinities are kept, as their difference is NaN.
func logAddExp(b *hlo.Builder, x, y hlo.Value) hlo.Value {
	larger, smaller := b.Binary(hlo.Maximum, x, y), b.Binary(hlo.Minimum, x, y)
	sum := b.Binary(hlo.Add, larger, b.Unary(hlo.Log1p, b.Unary(hlo.Exp, b.Binary(hlo.Subtract, smaller, larger))))
	infinity := b.BroadcastTo(b.MaxValue(x.Dtype()), x.Dims())
	infinite := b.Binary(hlo.And, b.Compare("EQ", x, y), b.Compare("EQ", b.Unary(hlo.Abs, x), infinity))
	return b.Select(infinite, x, sum)
}

// scanTile is how many elements a window goes over. A window costs its size for each element, so
// a long dimension is cut into tiles, whose totals are scanned in turn.
const scanTile = 16

// along gives the inclusive scan of x along dim.
func (s scan) along(b *hlo.Builder, x hlo.Value, dim int) hlo.Value {
	dims := x.Dims()
	n := dims[dim]
	if n <= 1 || numElements(dims) == 0 {
		return x
	}
	start := s.start(b, x.Dtype())
	if n <= 2*scanTile {
		return s.window(b, x, start, dim)
	}
	tiles := (n + scanTile - 1) / scanTile
	rank := len(dims)
	none, high := make([]int64, rank), make([]int64, rank)
	high[dim] = tiles*scanTile - n
	tiled := replaceDim(dims, dim, tiles, scanTile)
	padded := b.Reshape(b.Pad(x, start, none, high, nil), tiled)
	inner := s.window(b, padded, start, dim+1)

	// The totals of the tiles, scanned, and moved on by one: what comes before each tile.
	last, limit := make([]int64, rank+1), replaceDim(tiled, dim, tiles-1)
	last[dim+1], limit[dim+1] = scanTile-1, scanTile
	totals := b.Reshape(b.Slice(inner, last, limit, nil), replaceDim(dims, dim, tiles-1))
	low := make([]int64, rank)
	low[dim] = 1
	before := b.Pad(s.along(b, totals, dim), start, low, none, nil)
	kept := make([]int, 0, rank)
	for i := range rank + 1 {
		if i != dim+1 {
			kept = append(kept, i)
		}
	}
	whole := s.combine(b, b.Broadcast(before, tiled, kept), inner)
	limit = replaceDim(dims, dim, n)
	return b.Slice(b.Reshape(whole, replaceDim(dims, dim, tiles*scanTile)), none, limit, nil)
}

// window is a scan by one window over the whole dimension.
func (s scan) window(b *hlo.Builder, x, start hlo.Value, dim int) hlo.Value {
	dims := x.Dims()
	size, low := make([]int64, len(dims)), make([]int64, len(dims))
	for i := range size {
		size[i] = 1
	}
	size[dim], low[dim] = dims[dim], dims[dim]-1
	d := x.Dtype()
	c := b.Computation("scan_"+s.name, func(sub *hlo.Builder) {
		scalar := shape.Make(d)
		sub.Return(s.combine(sub, sub.Parameter(scalar, "before"), sub.Parameter(scalar, "next")))
	})
	return b.ReduceWindowMany([]hlo.Value{x}, []hlo.Value{start}, hlo.Window{Size: size, PadLow: low}, c)[0]
}

// scanDim gives the dimension of argument 1 and adds it to the node.
func (c *Call) scanDim() error {
	mask, err := c.dimMask(1, c.Rank(0))
	if err == nil {
		c.Operand(c.Node(0))
		c.Attr(int64(mask))
	}
	return err
}

func metaScan(kernel string) func(c *Call) error {
	return func(c *Call) error {
		d, err := c.sumDtype(2)
		if err != nil {
			return err
		}
		if err := c.scanDim(); err != nil {
			return err
		}
		if d == dtype.Bool {
			return notImplemented(kernel, d)
		}
		return c.Out(d, c.Dims(0))
	}
}

func metaLogcumsumexp(c *Call) error {
	d := c.Dtype(0)
	if d.IsComplex() {
		return fallback(c, "complex numbers have no running log-sum-exp here")
	}
	if err := c.scanDim(); err != nil {
		return err
	}
	if err := floatOnly("logcumsumexp_out_cpu", d); err != nil {
		return err
	}
	return c.Out(d, c.Dims(0))
}

func lowerScan(s scan) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		x := as(l.B, as(l.B, l.In(0), l.Dtype), l.Dtype.OpMath())
		if mask := uint64(l.Int()); mask != 0 {
			x = s.along(l.B, x, maskDims(mask)[0])
		}
		return as(l.B, x, l.Dtype)
	}
}

func metaScanExtremum(kernel string) func(c *Call) error {
	return func(c *Call) error {
		d := c.Dtype(0)
		if err := c.scanDim(); err != nil {
			return err
		}
		if d.IsComplex() {
			return notImplemented(kernel, d)
		}
		n := c.Many()
		c.Return(c.Element(n, 0, d, c.Dims(0)))
		c.Return(c.Element(n, 1, dtype.S64, c.Dims(0)))
		return nil
	}
}

// lowerScanExtremum gives the running extremum and where it was last met: of equal values, and of
// NaNs, the latest counts. An element was met where it equals the extremum so far.
func lowerScanExtremum(s scan) func(l *ir.Lowering) []hlo.Value {
	return func(l *ir.Lowering) []hlo.Value {
		b, d, mask := l.B, l.In(0).Dtype(), uint64(l.Int())
		x := as(b, l.In(0), d.OpMath())
		if mask == 0 {
			return []hlo.Value{l.In(0), b.FullInt(dtype.S64, 0)}
		}
		if d == dtype.Bool {
			x = as(b, x, dtype.U8)
		}
		dim, dims := maskDims(mask)[0], x.Dims()
		value := s.along(b, x, dim)
		met := b.Compare("EQ", x, value)
		if d.IsFloat() {
			met = b.Binary(hlo.Or, met, isNaN(b, x))
		}
		index := positionType(dims[dim])
		at := b.Select(met, b.Iota(index, dims, dim), b.FullInt(index, 0, dims...))
		return []hlo.Value{as(b, value, d), as(b, scanMaximum.along(b, at, dim), dtype.S64)}
	}
}
