package ops

import (
	"math"
	"strconv"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// Tensors made from numbers. The functional overloads and their out= forms put the same arguments
// first; after them stands the dtype, or the tensor that says it.

func init() {
	register(
		&Row{Name: "arange.start_step", Out: []string{"arange.start_out"}, Meta: metaArange, Lower: lowerArange},
		&Row{Name: "range.step", Out: []string{"range.out"}, Meta: metaRange, Lower: lowerArange},
		&Row{Name: "linspace", Out: []string{"linspace.out"}, Meta: metaLinspace, Lower: lowerLinspace},
		&Row{Name: "logspace", Out: []string{"logspace.out"}, Meta: metaLogspace, Lower: lowerLogspace},
		&Row{Name: "eye", Out: []string{"eye.out"}, Meta: metaEye, Lower: lowerEye},
		&Row{Name: "eye.m", Out: []string{"eye.m_out"}, Meta: metaEye, Lower: lowerEye},
		&Row{Name: "tril_indices", Meta: metaTriangleIndices, Lower: lowerTriangleIndices},
		&Row{Name: "triu_indices", Meta: metaTriangleIndices, Lower: lowerTriangleIndices},
	)
}

// madeDtype gives the type of a made tensor: that of the out= tensor or of the dtype argument.
func (c *Call) madeDtype(argument int, def dtype.Dtype) (dtype.Dtype, error) {
	if c.IsTensor(argument) {
		return c.Dtype(argument), nil
	}
	return c.DtypeArg(argument, def)
}

// sequence is start, start+step, ... as numbers: integers where all of them are.
type sequence struct {
	start, end, step Argument
}

func (s *sequence) integral() bool {
	return s.start.IsIntegralScalar() && s.end.IsIntegralScalar() && s.step.IsIntegralScalar()
}

// sequenceArguments reads start, end and step (1 where it is left out).
func (c *Call) sequenceArguments() (s sequence, err error) {
	s = sequence{c.Args[0], c.Args[1], Argument{Tag: TagInt, Int: 1}}
	if !c.IsNone(2) {
		s.step = c.Args[2]
	}
	for _, a := range []*Argument{&s.start, &s.end, &s.step} {
		if a.IsComplexScalar() && a.Imag != 0 {
			return s, Errorf("value cannot be converted to type double without overflow")
		}
	}
	start, end, step := s.start.AsFloat(), s.end.AsFloat(), s.step.AsFloat()
	switch {
	case step == 0:
		return s, Errorf("step must be nonzero")
	case math.IsNaN(start+end) || math.IsInf(start, 0) || math.IsInf(end, 0):
		return s, Errorf("unsupported range: %s -> %s", numberText(start), numberText(end))
	case step > 0 && end < start || step < 0 && end > start:
		return s, Errorf("upper bound and lower bound inconsistent with step sign")
	}
	return s, nil
}

// numberText prints a number as C++ streams do.
func numberText(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// defaultDtype is the type of a sequence without dtype argument.
func (c *Call) sequenceDtype(s *sequence) dtype.Dtype {
	if s.integral() {
		return dtype.S64
	}
	return c.DefaultDtype
}

func metaArange(c *Call) error {
	s, err := c.sequenceArguments()
	if err != nil {
		return err
	}
	d, err := c.madeDtype(3, c.sequenceDtype(&s))
	if err != nil {
		return err
	}
	if d == dtype.Bool || d.IsComplex() {
		return notImplemented("arange_cpu", d)
	}
	var size float64
	if d == dtype.S64 && s.integral() {
		size = math.Ceil(float64(s.end.Int-s.start.Int) / float64(s.step.Int))
	} else {
		size = math.Ceil((s.end.AsFloat() - s.start.AsFloat()) / s.step.AsFloat())
	}
	return c.declareSequence(&s, d, size)
}

func metaRange(c *Call) error {
	s, err := c.sequenceArguments()
	if err != nil {
		return err
	}
	d, err := c.madeDtype(3, c.DefaultDtype)
	if err != nil {
		return err
	}
	if d == dtype.Bool || d.IsComplex() || d == dtype.F16 || d == dtype.BF16 {
		return notImplemented("range_cpu", d)
	}
	return c.declareSequence(&s, d, math.Floor((s.end.AsFloat()-s.start.AsFloat())/s.step.AsFloat())+1)
}

// declareSequence adds start and step: 0 and 1 are part of the program, others parameters.
func (c *Call) declareSequence(s *sequence, d dtype.Dtype, size float64) error {
	if size < 0 || size > math.MaxInt64 {
		return Errorf("invalid size, possible overflow?")
	}
	wide := dtype.F64
	if d.IsIntegral() {
		wide = dtype.S64
	}
	for i, a := range []*Argument{&s.start, &s.step} {
		constant := a.AsFloat() == float64(i)
		c.AttrBool(constant)
		if !constant {
			c.Operand(c.ScalarOf(a, wide))
		}
	}
	c.dims = append(c.dims[:0], int64(size))
	return c.Out(d, c.dims)
}

// lowerArange computes in f64 and s64, as torch's CPU kernel does, and rounds once.
func lowerArange(l *ir.Lowering) hlo.Value {
	b := l.B
	wide := dtype.F64
	if l.Dtype.IsIntegral() {
		wide = dtype.S64
	}
	zero, one := l.Bool(), l.Bool()
	x := b.Iota(wide, l.Dims, 0)
	if !one {
		x = b.Binary(hlo.Multiply, x, operand(l, l.Count()-1, wide))
	}
	if !zero {
		x = b.Binary(hlo.Add, x, operand(l, 0, wide))
	}
	return as(b, x, l.Dtype)
}

// spaceType is the type in which linspace and logspace compute.
func spaceType(d dtype.Dtype) dtype.Dtype {
	if d == dtype.F64 || d.IsIntegral() {
		return dtype.F64
	}
	return d.OpMath()
}

func (c *Call) metaSpace(dtypeArgument int, name string) error {
	steps := c.Int(2, 0)
	if steps < 0 {
		return Errorf("number of steps must be non-negative")
	}
	def := c.DefaultDtype
	if c.Args[0].IsComplexScalar() || c.Args[1].IsComplexScalar() {
		def = def.Complex()
	}
	d, err := c.madeDtype(dtypeArgument, def)
	if err != nil {
		return err
	}
	if d == dtype.Bool {
		return notImplemented(name+"_cpu", d)
	}
	wide := spaceType(d)
	for i := range 2 {
		a := &c.Args[i]
		if a.IsComplexScalar() && !d.IsComplex() {
			return Errorf("%s(): inferred dtype %s can't be safely cast to passed dtype %s", "torch."+name, torchClass(def), torchClass(d))
		}
		if d.IsIntegral() { // the ends are converted first
			c.Operand(c.FloatNode(math.Trunc(a.AsFloat()), wide))
		} else {
			c.Operand(c.ScalarOf(a, wide))
		}
	}
	c.dims = append(c.dims[:0], steps)
	return c.Out(d, c.dims)
}

func metaLinspace(c *Call) error { return c.metaSpace(3, "linspace") }

// metaLogspace: (start, end, steps, base, dtype); the base is a parameter.
func metaLogspace(c *Call) error {
	c.Operand(c.FloatNode(c.Float(3, 10), dtype.F64))
	return c.metaSpace(4, "logspace")
}

// linearSpace counts up from start in the first half and down from end in the second, so that
// both ends are exact.
func linearSpace(b *hlo.Builder, start, end hlo.Value, steps int64) hlo.Value {
	d, dims := start.Dtype(), []int64{steps}
	if steps == 1 {
		return b.Reshape(start, dims)
	}
	step := b.Binary(hlo.Divide, b.Binary(hlo.Subtract, end, start), b.Scalar(d, float64(max(steps-1, 1))))
	i := b.Iota(dtype.S64, dims, 0)
	wide := func(x hlo.Value) hlo.Value { return b.BroadcastTo(x, dims) }
	along := func(n hlo.Value) hlo.Value { return b.Binary(hlo.Multiply, as(b, n, d), wide(step)) }
	up := b.Binary(hlo.Add, wide(start), along(i))
	down := b.Binary(hlo.Subtract, wide(end), along(b.Binary(hlo.Subtract, b.FullInt(dtype.S64, steps-1, steps), i)))
	return b.Select(b.Compare("LT", i, b.FullInt(dtype.S64, steps/2, steps)), up, down)
}

func lowerLinspace(l *ir.Lowering) hlo.Value {
	d := spaceType(l.Dtype)
	return as(l.B, linearSpace(l.B, as(l.B, l.In(0), d), as(l.B, l.In(1), d), l.Dims[0]), l.Dtype)
}

func lowerLogspace(l *ir.Lowering) hlo.Value {
	b, d := l.B, spaceType(l.Dtype)
	exponent := linearSpace(b, as(b, l.In(1), d), as(b, l.In(2), d), l.Dims[0])
	base := b.BroadcastTo(as(b, l.In(0), d), l.Dims)
	return as(b, b.Binary(hlo.Power, base, exponent), l.Dtype)
}

// metaEye: (n[, m], dtype or out).
func metaEye(c *Call) error {
	n := c.Int(0, 0)
	m, dtypeArgument := n, 1
	if c.row.Name == "eye.m" {
		m, dtypeArgument = c.Int(1, 0), 2
	}
	if n < 0 {
		return Errorf("n must be greater or equal to 0, got %d", n)
	}
	if m < 0 {
		return Errorf("m must be greater or equal to 0, got %d", m)
	}
	d, err := c.madeDtype(dtypeArgument, c.DefaultDtype)
	if err != nil {
		return err
	}
	c.dims = append(c.dims[:0], n, m)
	return c.Out(d, c.dims)
}

func lowerEye(l *ir.Lowering) hlo.Value {
	return as(l.B, diagonalMask(l.B, l.Dims, 0, 1, ir.Number{}), l.Dtype)
}

// metaTriangleIndices: (row, col, offset, dtype, ...).
func metaTriangleIndices(c *Call) error {
	rows, columns, offset := c.Int(0, 0), c.Int(1, 0), c.Int(2, 0)
	if rows < 0 {
		return Errorf("row must be non-negative, got%d", rows)
	}
	if columns < 0 {
		return Errorf("col must be non-negative, got%d", columns)
	}
	d, err := c.DtypeArg(3, dtype.S64)
	if err != nil {
		return err
	}
	if !isIndexType(d) {
		return notImplemented(c.row.Name, d)
	}
	upper := c.row.Name == "triu_indices"
	c.Attr(rows, columns, offset)
	c.AttrBool(upper)
	count := int64(0)
	for r := range rows {
		first, last := triangleRow(r, columns, offset, upper)
		count += last - first
	}
	c.dims = append(c.dims[:0], 2, count)
	return c.Out(d, c.dims)
}

// triangleRow gives the columns [first, last) of a row that belong to the triangle.
func triangleRow(row, columns, offset int64, upper bool) (first, last int64) {
	bound := func(v int64) int64 { return min(max(v, 0), columns) }
	if upper {
		return bound(row + offset), columns
	}
	return 0, bound(row + offset + 1)
}

// lowerTriangleIndices finds the row of each element by a search in the rows' ends, a constant.
func lowerTriangleIndices(l *ir.Lowering) hlo.Value {
	b := l.B
	rows, columns, offset, upper := l.Int(), l.Int(), l.Int(), l.Bool()
	count := l.Dims[1]
	if count == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	ends, shifts := make([]int64, rows), make([]int64, rows)
	total := int64(0)
	for r := range rows {
		first, last := triangleRow(r, columns, offset, upper)
		shifts[r] = first - total // column = element number + shift
		total += last - first
		ends[r] = total
	}
	number := b.Iota(dtype.S64, []int64{count}, 0)
	row := searchSorted(b, constantInts(b, ends), number, true)
	column := b.Binary(hlo.Add, number, takeSlices(b, constantInts(b, shifts), row, 0))
	pair := []int64{1, count}
	return as(b, b.Concatenate([]hlo.Value{b.Reshape(row, pair), b.Reshape(column, pair)}, 0), l.Dtype)
}

// constantInts gives an s64 constant of one dimension.
func constantInts(b *hlo.Builder, values []int64) hlo.Value {
	data := make([]byte, 0, 8*len(values))
	for _, v := range values {
		for shift := 0; shift < 64; shift += 8 {
			data = append(data, byte(uint64(v)>>shift))
		}
	}
	return b.Constant(shape.Make(dtype.S64, int64(len(values))), data)
}
