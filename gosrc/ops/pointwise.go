package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Sums and products of two operands with torch's promotion and broadcasting. The operands are
// converted to the result type and computed in its op-math type, so that bf16 and f16 round once.

func init() {
	register(
		&Row{Name: "add.Tensor", InPlace: []string{"add_.Tensor"}, Out: []string{"add.out"}, Meta: metaAlpha, Lower: lowerAlpha(hlo.Add)},
		&Row{Name: "sub.Tensor", InPlace: []string{"sub_.Tensor"}, Out: []string{"sub.out"}, Meta: metaSubtract, Lower: lowerAlpha(hlo.Subtract)},
		&Row{Name: "rsub.Tensor", Out: []string{"rsub.Tensor_out"}, Meta: metaSubtract, Lower: lowerReverseSubtract},
		&Row{Name: "mul.Tensor", InPlace: []string{"mul_.Tensor"}, Out: []string{"mul.out"}, Meta: metaBinary, Lower: lowerMultiply},
		&Row{Name: "addcmul", InPlace: []string{"addcmul_"}, Out: []string{"addcmul.out"}, Meta: metaAddcmul, Lower: lowerFormula(addcmul)},
		&Row{Name: "addcdiv", InPlace: []string{"addcdiv_"}, Out: []string{"addcdiv.out"}, Meta: metaAddcdiv, Lower: lowerFormula(addcdiv)},
		&Row{Name: "lerp.Scalar", InPlace: []string{"lerp_.Scalar"}, Out: []string{"lerp.Scalar_out"}, Meta: metaLerp("lerp_kernel_scalar"), Lower: lowerLerp},
		&Row{Name: "lerp.Tensor", InPlace: []string{"lerp_.Tensor"}, Out: []string{"lerp.Tensor_out"}, Meta: metaLerp("lerp_kernel_tensor"), Lower: lowerLerp},
	)
}

// metaBinary declares a promoted, broadcast result of arguments 0 and 1.
func metaBinary(c *Call) error {
	d, err := c.ResultType(0, 1)
	if err != nil {
		return err
	}
	return c.binary(d)
}

// binary declares a result of type d, broadcast from arguments 0 and 1.
func (c *Call) binary(d dtype.Dtype) error {
	dims, err := c.BroadcastDims(0, 1)
	if err != nil {
		return err
	}
	c.Operand(c.Value(0, d), c.Value(1, d))
	return c.Out(d, dims)
}

// metaKernel is metaBinary for a kernel that only some types have.
func metaKernel(kernel string, allowed kinds) func(c *Call) error {
	return func(c *Call) error {
		d, err := c.ResultType(0, 1)
		if err != nil {
			return err
		}
		if err := require(kernel, d, allowed); err != nil {
			return err
		}
		return c.binary(d)
	}
}

// metaFloatKernel is metaKernel for results in a float type.
func metaFloatKernel(kernel string, allowed kinds) func(c *Call) error {
	return func(c *Call) error {
		d, err := c.FloatResultType(0, 1)
		if err != nil {
			return err
		}
		if err := require(kernel, d, allowed); err != nil {
			return err
		}
		return c.binary(d)
	}
}

// metaAlpha is metaBinary with the factor alpha (argument 2) of the second operand; the schema's
// default of 1 is part of the program, any other value is a parameter.
func metaAlpha(c *Call) error {
	d, err := c.ResultType(0, 1)
	if err != nil {
		return err
	}
	dims, err := c.BroadcastDims(0, 1)
	if err != nil {
		return err
	}
	c.Operand(c.Value(0, d), c.Value(1, d))
	if alpha := &c.Args[2]; !isOne(alpha) {
		if err := checkAlpha(alpha, d); err != nil {
			return err
		}
		c.Operand(c.ScalarOf(alpha, d))
	}
	return c.Out(d, dims)
}

// checkAlpha raises torch's errors for a factor whose kind is above that of the result.
func checkAlpha(alpha *Argument, d dtype.Dtype) error {
	switch {
	case alpha.Tag == TagBool && d != dtype.Bool:
		return Errorf("Boolean alpha only supported for Boolean results.")
	case d.IsIntegral() && !alpha.IsIntegralScalar():
		return Errorf("For integral input tensors, argument alpha must not be a floating point number.")
	case !d.IsComplex() && alpha.IsComplexScalar():
		return Errorf("For non-complex input tensors, argument alpha must not be a complex number.")
	}
	return nil
}

func metaSubtract(c *Call) error {
	if x, y := c.operandDtype(0), c.operandDtype(1); x == dtype.Bool || y == dtype.Bool {
		if x == y {
			return status.Torchf(status.NotImplementedError, "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.")
		}
		return status.Torchf(status.NotImplementedError, "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.")
	}
	return metaAlpha(c)
}

// operandDtype gives the type of a tensor, or the type that a number has by itself.
func (c *Call) operandDtype(i int) dtype.Dtype {
	if a := &c.Args[i]; a.Tag != TagTensor {
		return c.scalarDtype(a)
	}
	return c.Args[i].Dtype
}

// isOne is true for the integer 1 (the default of alpha and beta) and for None.
func isOne(a *Argument) bool {
	return a.Tag == TagNone || a.Tag == TagInt && a.Int == 1
}

func lowerAlpha(op hlo.Opcode) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		compute := l.Dtype.OpMath()
		x, y := operand(l, 0, compute), operand(l, 1, compute)
		if l.Count() == 3 {
			y = arithmetic(l.B, hlo.Multiply, y, operand(l, 2, compute))
		}
		return as(l.B, arithmetic(l.B, op, x, y), l.Dtype)
	}
}

func lowerReverseSubtract(l *ir.Lowering) hlo.Value {
	compute := l.Dtype.OpMath()
	x, y := operand(l, 0, compute), operand(l, 1, compute)
	if l.Count() == 3 {
		x = l.B.Binary(hlo.Multiply, x, operand(l, 2, compute))
	}
	return as(l.B, l.B.Binary(hlo.Subtract, y, x), l.Dtype)
}

func lowerMultiply(l *ir.Lowering) hlo.Value {
	compute := l.Dtype.OpMath()
	return as(l.B, arithmetic(l.B, hlo.Multiply, operand(l, 0, compute), operand(l, 1, compute)), l.Dtype)
}

// arithmetic is a binary op where bool means or for a sum and and for a product.
func arithmetic(b *hlo.Builder, op hlo.Opcode, x, y hlo.Value) hlo.Value {
	if x.Dtype() == dtype.Bool {
		switch op {
		case hlo.Add:
			op = hlo.Or
		case hlo.Multiply:
			op = hlo.And
		}
	}
	return b.Binary(op, x, y)
}

// metaAddcmul declares self + value * tensor1 * tensor2; a value of 1 is part of the program.
func metaAddcmul(c *Call) error {
	return c.scaledTerm("addcmul_cpu_out")
}

func metaAddcdiv(c *Call) error {
	if c.operandDtype(1).IsIntegral() && c.operandDtype(2).IsIntegral() {
		return Errorf("Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes.")
	}
	return c.scaledTerm("addcdiv_cpu_out")
}

func (c *Call) scaledTerm(kernel string) error {
	d, err := c.ResultType(0, 1, 2)
	if err != nil {
		return err
	}
	if err := require(kernel, d, numbers); err != nil {
		return err
	}
	dims, err := c.BroadcastDims(0, 1, 2)
	if err != nil {
		return err
	}
	c.Operand(c.Value(0, d), c.Value(1, d), c.Value(2, d))
	if !c.IsNone(3) && !isOne(&c.Args[3]) {
		if err := checkConversion(&c.Args[3], d); err != nil {
			return err
		}
		c.Operand(c.ScalarOf(&c.Args[3], d))
	}
	return c.Out(d, dims)
}

func addcmul(e elementwise, in []hlo.Value) hlo.Value {
	term := in[1]
	if len(in) == 4 {
		term = e.mul(in[3], term)
	}
	return e.add(in[0], e.mul(term, in[2]))
}

func addcdiv(e elementwise, in []hlo.Value) hlo.Value {
	term := in[1]
	if len(in) == 4 {
		term = e.mul(in[3], term)
	}
	return e.add(in[0], e.div(term, in[2]))
}

// metaLerp declares self + weight * (end - self). Unlike other ops, lerp does not promote.
func metaLerp(kernel string) func(c *Call) error {
	return func(c *Call) error {
		d := c.operandDtype(0)
		if end := c.operandDtype(1); end != d {
			return Errorf("expected dtype %s for `end` but got dtype %s", demangledName(d), demangledName(end))
		}
		weight := &c.Args[2]
		if weight.Tag == TagTensor {
			if weight.Dtype != d && len(weight.View.Sizes) > 0 {
				return Errorf("expected dtype %s for `weight` but got dtype %s", demangledName(d), demangledName(weight.Dtype))
			}
		} else if err := checkConversion(weight, d); err != nil {
			return err
		}
		if err := require(kernel, d, floats|complexes); err != nil {
			return err
		}
		dims, err := c.BroadcastDims(0, 1, 2)
		if err != nil {
			return err
		}
		c.Operand(c.Value(0, d), c.Value(1, d), c.Value(2, d))
		return c.Out(d, dims)
	}
}

// lowerLerp takes the end from which the weight is nearer, as torch does, so that a weight of 1
// gives exactly the end. The choice is made before broadcasting, once for a scalar weight.
func lowerLerp(l *ir.Lowering) hlo.Value {
	e, compute := elementwise{l.B}, l.Dtype.OpMath()
	start, end := operand(l, 0, compute), operand(l, 1, compute)
	weight := as(l.B, l.In(2), compute)
	size := e.abs(weight)
	near := e.less(size, e.number(size, 0.5))
	far := e.sub(weight, e.one(weight))
	factor := l.B.BroadcastTo(e.Select(near, weight, far), l.Dims)
	base := e.Select(l.B.BroadcastTo(near, l.Dims), start, end)
	return as(l.B, e.add(base, e.mul(factor, e.sub(end, start))), l.Dtype)
}
