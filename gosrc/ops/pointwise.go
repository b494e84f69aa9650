package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Arithmetic on two operands with torch's promotion and broadcasting. The operands are converted
// to the result type and computed in its op-math type, so that bf16 and f16 round once.

func init() {
	register(
		&Row{Name: "add.Tensor", InPlace: []string{"add_.Tensor"}, Out: []string{"add.out"}, Meta: metaAlpha, Lower: lowerAlpha(hlo.Add)},
		&Row{Name: "sub.Tensor", InPlace: []string{"sub_.Tensor"}, Out: []string{"sub.out"}, Meta: metaAlpha, Lower: lowerAlpha(hlo.Subtract)},
		&Row{Name: "mul.Tensor", InPlace: []string{"mul_.Tensor"}, Out: []string{"mul.out"}, Meta: metaBinary, Lower: lowerMultiply},
	)
}

// metaBinary declares a promoted, broadcast result of arguments 0 and 1.
func metaBinary(c *Call) error {
	d, err := c.ResultType(0, 1)
	if err != nil {
		return err
	}
	dims, err := c.BroadcastDims(0, 1)
	if err != nil {
		return err
	}
	c.Operand(c.Value(0, d), c.Value(1, d))
	return c.Out(d, dims)
}

// metaAlpha is metaBinary with the factor alpha (argument 2) of the second operand; the schema's
// default of 1 is part of the program, any other value is a parameter.
func metaAlpha(c *Call) error {
	d, err := c.ResultType(0, 1)
	if err != nil {
		return err
	}
	if c.row.Name == "sub.Tensor" && d == dtype.Bool {
		return Errorf("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.")
	}
	dims, err := c.BroadcastDims(0, 1)
	if err != nil {
		return err
	}
	c.Operand(c.Value(0, d), c.Value(1, d))
	if alpha := &c.Args[2]; !isOne(alpha) {
		if d.IsIntegral() && !alpha.IsIntegralScalar() {
			return Errorf("For integral input tensors, argument alpha must not be a floating point number.")
		}
		c.Operand(c.ScalarOf(alpha, d))
	}
	return c.Out(d, dims)
}

// isOne is true for the integer 1 (the default of alpha and beta) and for None.
func isOne(a *Argument) bool {
	return a.Tag == TagNone || a.IsIntegralScalar() && a.Int == 1
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
