package ops

import (
	"slices"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// QR factors, and products of the reflections that they are kept as.

func init() {
	register(
		&Row{Name: "linalg_qr", Out: []string{"linalg_qr.out"}, Meta: metaQR, LowerMany: lowerQR},
		&Row{Name: "geqrf", Out: []string{"geqrf.a"}, Meta: metaGeqrf, LowerMany: lowerGeqrf},
		&Row{Name: "linalg_householder_product", Out: []string{"linalg_householder_product.out"}, Meta: metaHouseholderProduct, Lower: lowerHouseholderProduct},
		&Row{Name: "ormqr", Out: []string{"ormqr.out"}, Meta: metaOrmqr, Lower: lowerOrmqr},
	)
}

// metaQR: A, mode; results are Q and R.
func metaQR(c *Call) error {
	if err := c.matrixRank("linalg.qr", "A", 0); err != nil {
		return err
	}
	if err := c.inexact("linalg.qr", 0, "geqrf_cpu"); err != nil {
		return err
	}
	mode := "reduced"
	if !c.IsNone(1) {
		mode = c.Text(1)
	}
	if mode != "reduced" && mode != "complete" && mode != "r" {
		return Errorf("qr received unrecognized mode '%s' but expected one of 'reduced' (default), 'r', or 'complete'", mode)
	}
	dims := c.Dims(0)
	m, n := matrixSize(dims)
	rows := min(m, n)
	if mode == "complete" {
		rows = m
	}
	q := matricesOf(batchOf(dims), m, rows)
	if mode == "r" {
		q = []int64{0}
	}
	c.Operand(c.Node(0))
	c.AttrBool(mode != "r")
	c.Attr(rows)
	many := c.Many()
	c.Return(c.Element(many, 0, c.Dtype(0), q))
	c.Return(c.Element(many, 1, c.Dtype(0), matricesOf(batchOf(dims), rows, n)))
	return nil
}

func lowerQR(l *ir.Lowering) []hlo.Value {
	b, x := l.B, l.In(0)
	wanted, rows := l.Bool(), l.Int()
	m, n := matrixSize(x.Dims())
	packed, tau := factorQR(b, x)
	r := keepUpper(b, part(b, packed, 0, rows, 0, n))
	if !wanted {
		return []hlo.Value{b.Full(x.Dtype(), 0, 0), r}
	}
	start := identityMatrix(b, x.Dtype(), matricesOf(batchOf(x.Dims()), m, rows))
	return []hlo.Value{applyReflections(b, packed, tau, start, false), r}
}

// metaGeqrf: self; results are the factors in one matrix, and tau.
func metaGeqrf(c *Call) error {
	dims := c.Dims(0)
	if len(dims) < 2 {
		return Errorf("torch.geqrf: input must have at least 2 dimensions.")
	}
	if err := require("geqrf_cpu", c.Dtype(0), kindOfMatrix(c.Dtype(0))); err != nil {
		return err
	}
	c.Operand(c.Node(0))
	many := c.Many()
	c.Return(c.Element(many, 0, c.Dtype(0), dims))
	c.Return(c.Element(many, 1, c.Dtype(0), pivotDims(dims)))
	return nil
}

func lowerGeqrf(l *ir.Lowering) []hlo.Value {
	packed, tau := factorQR(l.B, l.In(0))
	return []hlo.Value{packed, tau}
}

// metaHouseholderProduct: input, tau.
func metaHouseholderProduct(c *Call) error {
	const function = "torch.linalg.householder_product"
	dims := c.Dims(0)
	if len(dims) < 2 {
		return Errorf("%s: input must have at least 2 dimensions.", function)
	}
	m, n := matrixSize(dims)
	if m < n {
		return Errorf("%s: input.shape[-2] must be greater than or equal to input.shape[-1]", function)
	}
	count, err := c.lastSize(1)
	if err != nil {
		return err
	}
	if n < count {
		return Errorf("%s: input.shape[-1] must be greater than or equal to tau.shape[-1]", function)
	}
	if err := c.reflections(function); err != nil {
		return err
	}
	if a, t := c.Dtype(0), c.Dtype(1); a != t {
		return Errorf("%s: tau dtype %s does not match input dtype %s", function, torchClass(t), torchClass(a))
	}
	if err := require("orgqr_cpu", c.Dtype(0), kindOfMatrix(c.Dtype(0))); err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1))
	return c.Out(c.Dtype(0), dims)
}

// lastSize gives the size of an argument's last dimension, or torch's error where it has none.
func (c *Call) lastSize(i int) (int64, error) {
	dims := c.Dims(i)
	if len(dims) == 0 {
		return 0, status.Torchf(status.IndexError, "Dimension specified as -1 but tensor has no dimensions")
	}
	return dims[len(dims)-1], nil
}

// reflections raises torch's errors where tau, argument 1, does not go with the matrices of argument 0.
func (c *Call) reflections(function string) error {
	dims, tau := c.Dims(0), c.Dims(1)
	if len(tau) != len(dims)-1 {
		return Errorf("%s: Expected tau to have one dimension less than input, but got tau.ndim equal to %d and input.ndim is equal to %d", function, len(tau), len(dims))
	}
	if got := batchDims(tau); !slices.Equal(got, batchOf(dims)) {
		return Errorf("%s: Expected batch dimensions of tau to be equal to input.shape[:-2], but got %s", function, dimsText(got))
	}
	return nil
}

func lowerHouseholderProduct(l *ir.Lowering) hlo.Value {
	b, packed := l.B, l.In(0)
	return applyReflections(b, packed, l.In(1), identityMatrix(b, packed.Dtype(), l.Dims), false)
}

// metaOrmqr: input, tau, other, left, transpose.
func metaOrmqr(c *Call) error {
	const function = "torch.ormqr"
	dims, other := c.Dims(0), c.Dims(2)
	left := c.IsNone(3) || c.Bool(3)
	if len(dims) < 2 {
		return Errorf("%s: input must have at least 2 dimensions.", function)
	}
	if len(other) < 2 {
		return Errorf("%s: other must have at least 2 dimensions.", function)
	}
	m, n := matrixSize(dims)
	place := -1
	if left {
		place = -2
	}
	side := other[len(other)+place]
	if side != m {
		return Errorf("%s: other.shape[%d] must be equal to input.shape[-2]", function, place)
	}
	count, err := c.lastSize(1)
	if err != nil {
		return err
	}
	if count != min(side, n) {
		return Errorf("%s: tau.shape[-1] must be equal to min(other.shape[%d], input.shape[-1])", function, place)
	}
	if err := c.reflections(function); err != nil {
		return err
	}
	if len(other) != len(dims) {
		return Errorf("%s: Expected other to have the same number of dimensions as input, but got other.ndim equal to %d and input.ndim is equal to %d", function, len(other), len(dims))
	}
	if got := batchOf(other); !slices.Equal(got, batchOf(dims)) {
		return Errorf("%s: Expected batch dimensions of other to be equal to input.shape[:-2], but got %s", function, dimsText(got))
	}
	for i, name := range []string{1: "tau", 2: "other"} {
		if a, d := c.Dtype(0), c.Dtype(i); a != d {
			return Errorf("%s: Expected input and %s to have the same dtype, but input has dtype%s and %s has dtype %s", function, name, torchClass(a), name, torchClass(d))
		}
	}
	if err := require("ormqr_cpu", c.Dtype(0), kindOfMatrix(c.Dtype(0))); err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1), c.Node(2))
	c.AttrBool(left)
	c.AttrBool(c.Bool(4))
	return c.Out(c.Dtype(0), other)
}

func lowerOrmqr(l *ir.Lowering) hlo.Value {
	b, packed, tau, x := l.B, l.In(0), l.In(1), l.In(2)
	left, adjointed := l.Bool(), l.Bool()
	if left {
		return applyReflections(b, packed, tau, x, adjointed)
	}
	// X·Q is the adjoint of Qᴴ·Xᴴ.
	return adjoint(b, applyReflections(b, packed, tau, adjoint(b, x), !adjointed))
}
