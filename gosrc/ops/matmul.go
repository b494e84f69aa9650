package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Matrix products. Each is one dot; a product that adds to a third operand (addmm and its kin)
// scales and adds in the op-math type and rounds once.

func init() {
	register(
		&Row{Name: "mm", Out: []string{"mm.out"}, Meta: metaMM, Lower: lowerProduct(matrixMatrix)},
		&Row{Name: "bmm", Out: []string{"bmm.out"}, Meta: metaBMM, Lower: lowerProduct(batchMatrix)},
		&Row{Name: "mv", Out: []string{"mv.out"}, Meta: metaMV, Lower: lowerProduct(matrixVector)},
		&Row{Name: "dot", Out: []string{"dot.out"}, Meta: metaDot, Lower: lowerProduct(vectorVector)},
		&Row{Name: "vdot", Out: []string{"vdot.out"}, Meta: metaDot, Lower: lowerVdot},
		&Row{Name: "addmm", InPlace: []string{"addmm_"}, Out: []string{"addmm.out"}, Meta: metaAddmm, Lower: lowerProduct(matrixMatrix)},
		&Row{Name: "baddbmm", InPlace: []string{"baddbmm_"}, Out: []string{"baddbmm.out"}, Meta: metaBaddbmm, Lower: lowerProduct(batchMatrix)},
		&Row{Name: "addbmm", InPlace: []string{"addbmm_"}, Out: []string{"addbmm.out"}, Meta: metaAddbmm, Lower: lowerProduct(batchSum)},
		&Row{Name: "addmv", InPlace: []string{"addmv_"}, Out: []string{"addmv.out"}, Meta: metaAddmv, Lower: lowerProduct(matrixVector)},
		&Row{Name: "addr", InPlace: []string{"addr_"}, Out: []string{"addr.out"}, Meta: metaAddr, Lower: lowerAddr},
		&Row{Name: "_addmm_activation", Out: []string{"_addmm_activation.out"}, Meta: metaAddmmActivation, Lower: lowerAddmmActivation},
	)
}

var (
	matrixMatrix = hlo.DotDims{LHSContracting: []int64{1}, RHSContracting: []int64{0}}
	matrixVector = hlo.DotDims{LHSContracting: []int64{1}, RHSContracting: []int64{0}}
	vectorVector = hlo.DotDims{LHSContracting: []int64{0}, RHSContracting: []int64{0}}
	batchMatrix  = hlo.DotDims{LHSContracting: []int64{2}, RHSContracting: []int64{1}, LHSBatch: []int64{0}, RHSBatch: []int64{0}}
	batchSum     = hlo.DotDims{LHSContracting: []int64{0, 2}, RHSContracting: []int64{0, 1}}
)

// dotProduct contracts x with y and gives the sum in the op-math type. A 16-bit dot has 16-bit
// operands, because that is what the devices have units for, and they accumulate in f32.
func dotProduct(b *hlo.Builder, x, y hlo.Value, dims hlo.DotDims) hlo.Value {
	return b.DotWith(x, y, dims, x.Dtype().OpMath(), hlo.PrecisionDefault)
}

// lowerProduct is beta*self + alpha*(x . y); operands are x, y, then those that the meta declared.
func lowerProduct(dims hlo.DotDims) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value { return as(l.B, scaledProduct(l, dims), l.Dtype) }
}

// Attribute of a product with a third operand: which of self, beta and alpha are operands.
const (
	productSelf = 1 << iota
	productBeta
	productAlpha
)

func scaledProduct(l *ir.Lowering, dims hlo.DotDims) hlo.Value {
	if len(l.Rest()) == 0 {
		return l.B.Dot(l.In(0), l.In(1), dims)
	}
	return addScaled(l, dotProduct(l.B, l.In(0), l.In(1), dims))
}

// addScaled gives beta*self + alpha*product, of the op-math type like product.
func addScaled(l *ir.Lowering, product hlo.Value) hlo.Value {
	b, compute := l.B, l.Dtype.OpMath()
	parts, next := l.Int(), 2
	operandAt := func(part int64) (v hlo.Value, ok bool) {
		if parts&part == 0 {
			return v, false
		}
		v = operand(l, next, compute)
		next++
		return v, true
	}
	self, hasSelf := operandAt(productSelf)
	if beta, ok := operandAt(productBeta); ok {
		self = arithmetic(b, hlo.Multiply, self, beta)
	}
	if alpha, ok := operandAt(productAlpha); ok {
		product = arithmetic(b, hlo.Multiply, product, alpha)
	}
	if !hasSelf {
		return product
	}
	return arithmetic(b, hlo.Add, product, self)
}

// addProduct declares x and y (arguments 1 and 2), self (argument 0) and the factors beta and
// alpha (arguments 3 and 4). A beta of 0 leaves self out, so that its NaN and inf do not count.
func (c *Call) addProduct(d dtype.Dtype, dims []int64) error {
	if err := c.expandable(0, dims); err != nil {
		return err
	}
	c.Operand(c.Node(1), c.Node(2))
	var parts int64
	beta, alpha := &c.Args[3], &c.Args[4]
	if beta.Tag == TagNone || beta.AsFloat() != 0 || beta.Imag != 0 {
		parts |= productSelf
		c.Operand(c.Node(0))
		if !isUnit(beta) {
			parts |= productBeta
			c.Operand(c.ScalarOf(beta, d))
		}
	}
	if !isUnit(alpha) {
		parts |= productAlpha
		c.Operand(c.ScalarOf(alpha, d))
	}
	c.Attr(parts)
	return c.Out(d, dims)
}

// isUnit is true for a factor of exactly 1, whatever its type, and for None.
func isUnit(a *Argument) bool {
	return a.Tag == TagNone || a.AsFloat() == 1 && a.Imag == 0
}

// expandable checks that tensor argument i expands to dims, with the wording of Tensor.expand.
func (c *Call) expandable(i int, dims []int64) error {
	sizes := c.Dims(i)
	if len(sizes) > len(dims) {
		return Errorf("expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%d) must be greater or equal to the number of dimensions in the tensor (%d)",
			torchClass(c.Dtype(i)), dimsText(sizes), dimsText(dims), len(dims), len(sizes))
	}
	offset := len(dims) - len(sizes)
	for k := len(sizes) - 1; k >= 0; k-- {
		if sizes[k] != 1 && sizes[k] != dims[offset+k] {
			return Errorf("The expanded size of the tensor (%d) must match the existing size (%d) at non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s",
				dims[offset+k], sizes[k], offset+k, dimsText(dims), dimsText(sizes))
		}
	}
	return nil
}

func metaMM(c *Call) error {
	if err := c.matrices(0, 1); err != nil {
		return err
	}
	if c.Dtype(0) != c.Dtype(1) {
		return Errorf("expected m1 and m2 to have the same dtype, but got: %s != %s", demangledName(c.Dtype(0)), demangledName(c.Dtype(1)))
	}
	if err := c.unsupported("addmm_impl_cpu_", c.Dtype(0)); err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1))
	return c.Out(c.Dtype(0), []int64{c.Dims(0)[0], c.Dims(1)[1]})
}

// matrices checks that arguments i and j are matrices that can be multiplied.
func (c *Call) matrices(i, j int) error {
	name := c.row.Name
	if name == "_addmm_activation" {
		name = "addmm"
	}
	if c.Rank(i) != 2 {
		return Errorf("%s: self must be a matrix, got %d-D tensor", name, c.Rank(i))
	}
	if c.Rank(j) != 2 {
		return Errorf("%s: mat2 must be a matrix, got %d-D tensor", name, c.Rank(j))
	}
	if x, y := c.Dims(i), c.Dims(j); x[1] != y[0] {
		return Errorf("%s: mat1 and mat2 shapes cannot be multiplied (%dx%d and %dx%d)", name, x[0], x[1], y[0], y[1])
	}
	return nil
}

// unsupported refuses the types for which torch's CPU kernel has no product, but for 8-bit floats, for which devices have units.
func (c *Call) unsupported(kernel string, d dtype.Dtype) error {
	if d == dtype.Bool || d.IsUnsigned() && d.Size() > 1 {
		return notImplemented(kernel, d)
	}
	return nil
}

func metaBMM(c *Call) error {
	if err := c.batches(0, 1); err != nil {
		return err
	}
	if c.Dtype(0) != c.Dtype(1) {
		return Errorf("expected scalar type %s but found %s", torchClass(c.Dtype(0)), torchClass(c.Dtype(1)))
	}
	if err := c.unsupported("bmm", c.Dtype(0)); err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1))
	x, y := c.Dims(0), c.Dims(1)
	return c.Out(c.Dtype(0), []int64{x[0], x[1], y[2]})
}

func (c *Call) batches(i, j int) error {
	if c.Rank(i) != 3 {
		return Errorf("batch1 must be a 3D tensor")
	}
	if c.Rank(j) != 3 {
		return Errorf("batch2 must be a 3D tensor")
	}
	if x, y := c.Dims(i), c.Dims(j); x[0] != y[0] || x[2] != y[1] {
		return Errorf("Expected size for first two dimensions of batch2 tensor to be: [%d, %d] but got: [%d, %d].", x[0], x[2], y[0], y[1])
	}
	return nil
}

func metaBaddbmm(c *Call) error {
	if err := c.batches(1, 2); err != nil {
		return err
	}
	x, y := c.Dims(1), c.Dims(2)
	dims := []int64{x[0], x[1], y[2]}
	if err := c.expandable(0, dims); err != nil {
		return err
	}
	d := c.Dtype(0)
	if d != c.Dtype(1) {
		return Errorf("Input dtypes must be the same, got: input %s, batch1: %s, batch2: %s", demangledName(d), demangledName(c.Dtype(1)), demangledName(c.Dtype(2)))
	}
	if d != c.Dtype(2) {
		return Errorf("expected scalar type %s but found %s", torchClass(d), torchClass(c.Dtype(2)))
	}
	if err := c.unsupported("baddbmm", d); err != nil {
		return err
	}
	return c.addProduct(d, dims)
}

func metaAddbmm(c *Call) error {
	if c.Rank(1) != 3 {
		return Errorf("batch1 must be a 3D tensor")
	}
	if c.Rank(2) != 3 {
		return Errorf("batch2 must be a 3D tensor")
	}
	x, y := c.Dims(1), c.Dims(2)
	if x[0] != y[0] {
		return Errorf("batch1 and batch2 must have same number of batches, got %d and %d", x[0], y[0])
	}
	if x[2] != y[1] {
		return Errorf("Incompatible matrix sizes for bmm (%dx%d and %dx%d)", x[1], x[2], y[1], y[2])
	}
	dims := []int64{x[1], y[2]}
	if err := c.expandable(0, dims); err != nil {
		return err
	}
	if err := c.sameAsMat2(); err != nil {
		return err
	}
	return c.addProduct(c.Dtype(0), dims)
}

// sameAsMat2 checks the types of addmm and addbmm: self, mat1, mat2.
func (c *Call) sameAsMat2() error {
	if c.Dtype(0) != c.Dtype(2) {
		return Errorf("self and mat2 must have the same dtype, but got %s and %s", torchClass(c.Dtype(0)), torchClass(c.Dtype(2)))
	}
	if c.Dtype(1) != c.Dtype(2) {
		return Errorf("mat1 and mat2 must have the same dtype, but got %s and %s", torchClass(c.Dtype(1)), torchClass(c.Dtype(2)))
	}
	return c.unsupported("addmm_impl_cpu_", c.Dtype(0))
}

func metaAddmm(c *Call) error {
	if err := c.matrices(1, 2); err != nil {
		return err
	}
	dims := []int64{c.Dims(1)[0], c.Dims(2)[1]}
	if err := c.expandable(0, dims); err != nil {
		return err
	}
	if err := c.sameAsMat2(); err != nil {
		return err
	}
	return c.addProduct(c.Dtype(0), dims)
}

func metaAddmmActivation(c *Call) error {
	gelu := c.Bool(5)
	if d := c.Dtype(0); gelu && !d.IsFloat() {
		return notImplemented("GeluKernelImpl", d)
	}
	if err := metaAddmm(c); err != nil {
		return err
	}
	n := c.Results[0].Node
	n.AddBool(gelu)
	return nil
}

// lowerAddmmActivation rounds to the result's type before the activation, as torch does.
func lowerAddmmActivation(l *ir.Lowering) hlo.Value {
	b := l.B
	x := as(b, scaledProduct(l, matrixMatrix), l.Dtype)
	compute := l.Dtype.OpMath()
	if !l.Bool() {
		return b.Binary(hlo.Maximum, x, b.Full(l.Dtype, 0, l.Dims...))
	}
	x = as(b, x, compute)
	full := func(v float64) hlo.Value { return b.Full(compute, v, l.Dims...) }
	phi := b.Unary(hlo.Erf, b.Binary(hlo.Multiply, x, full(0.70710678118654752440)))
	phi = b.Binary(hlo.Multiply, full(0.5), b.Binary(hlo.Add, full(1), phi))
	return as(b, b.Binary(hlo.Multiply, x, phi), l.Dtype)
}

func metaMV(c *Call) error {
	if c.Rank(0) != 2 || c.Rank(1) != 1 {
		return Errorf("vector + matrix @ vector expected, got 1, %d, %d", c.Rank(0), c.Rank(1))
	}
	x, y := c.Dims(0), c.Dims(1)
	if x[1] != y[0] {
		return Errorf("size mismatch, got input (%d), mat (%dx%d), vec (%d)", x[0], x[0], x[1], y[0])
	}
	d := c.Dtype(1)
	if c.Dtype(0) != d {
		return Errorf("addmv input tensors must have the same dtype, but got %s, %s, and %s", torchClass(d), torchClass(c.Dtype(0)), torchClass(d))
	}
	if err := c.unsupported("addmv_impl_cpu", d); err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1))
	return c.Out(d, x[:1])
}

func metaAddmv(c *Call) error {
	if c.Rank(1) != 2 || c.Rank(2) != 1 || c.Rank(0) > 1 {
		return Errorf("vector + matrix @ vector expected, got %d, %d, %d", c.Rank(0), c.Rank(1), c.Rank(2))
	}
	x, y := c.Dims(1), c.Dims(2)
	self := int64(1)
	if c.Rank(0) == 1 {
		self = c.Dims(0)[0]
	}
	if x[1] != y[0] || self != x[0] && self != 1 {
		return Errorf("size mismatch, got input (%d), mat (%dx%d), vec (%d)", self, x[0], x[1], y[0])
	}
	d := c.Dtype(0)
	if c.Dtype(1) != d || c.Dtype(2) != d {
		return Errorf("addmv input tensors must have the same dtype, but got %s, %s, and %s", torchClass(d), torchClass(c.Dtype(1)), torchClass(c.Dtype(2)))
	}
	if err := c.unsupported("addmv_impl_cpu", d); err != nil {
		return err
	}
	return c.addProduct(d, x[:1])
}

func metaDot(c *Call) error {
	if c.Rank(0) != 1 || c.Rank(1) != 1 {
		return Errorf("1D tensors expected, but got %dD and %dD tensors", c.Rank(0), c.Rank(1))
	}
	if c.Dtype(0) != c.Dtype(1) {
		return Errorf("dot : expected both vectors to have same dtype, but found %s and %s", torchClass(c.Dtype(0)), torchClass(c.Dtype(1)))
	}
	if x, y := c.Dims(0), c.Dims(1); x[0] != y[0] {
		return Errorf("inconsistent tensor size, expected tensor %s and src %s to have the same number of elements, but got %d and %d elements respectively",
			dimsText(x), dimsText(y), x[0], y[0])
	}
	if err := c.unsupported("dot", c.Dtype(0)); err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1))
	return c.Out(c.Dtype(0), nil)
}

func lowerVdot(l *ir.Lowering) hlo.Value {
	x := l.In(0)
	if x.Dtype().IsComplex() {
		x = l.B.Binary(hlo.Complex, l.B.Unary(hlo.Real, x), l.B.Unary(hlo.Negate, l.B.Unary(hlo.Imag, x)))
	}
	return l.B.Dot(x, l.In(1), vectorVector)
}

func metaAddr(c *Call) error {
	for i := 1; i <= 2; i++ {
		if c.Rank(i) != 1 {
			return Errorf("addr: Expected 1-D argument vec%d, but got %d-D", i, c.Rank(i))
		}
	}
	d, err := c.ResultType(0, 1, 2)
	if err != nil {
		return err
	}
	for i, name := range [...]string{3: "beta", 4: "alpha"} {
		if i >= 3 && d.IsIntegral() && !c.IsNone(i) && !c.Args[i].IsIntegralScalar() {
			return Errorf("For integral input tensors, argument %s must not be a floating point number.", name)
		}
	}
	dims := []int64{c.Dims(1)[0], c.Dims(2)[0]}
	return c.addProduct(d, dims)
}

// lowerAddr multiplies element by element: its operands may differ in type, and bool means and, or.
func lowerAddr(l *ir.Lowering) hlo.Value {
	b, compute := l.B, l.Dtype.OpMath()
	column := b.Broadcast(as(b, l.In(0), compute), l.Dims, []int{0})
	row := b.Broadcast(as(b, l.In(1), compute), l.Dims, []int{1})
	return as(b, addScaled(l, arithmetic(b, hlo.Multiply, column, row)), l.Dtype)
}
