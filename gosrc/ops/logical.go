package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Logical and bitwise operators, and shifts.

func init() {
	for _, op := range []hlo.Opcode{hlo.And, hlo.Or, hlo.Xor} {
		name := string(op)
		f := func(e elementwise, in []hlo.Value) hlo.Value { return e.Binary(op, in[0], in[1]) }
		logical, bitwise := "logical_"+name, "bitwise_"+name
		register(
			&Row{Name: logical, InPlace: []string{logical + "_"}, Out: []string{logical + ".out"}, Meta: metaLogical, Lower: lowerFormula(f)},
			&Row{Name: bitwise + ".Tensor", InPlace: []string{bitwise + "_.Tensor"}, Out: []string{bitwise + ".Tensor_out"},
				Meta: metaKernel(bitwise+"_cpu", integral), Lower: lowerFormula(f)},
		)
	}
	register(
		&Row{Name: "logical_not", InPlace: []string{"logical_not_"}, Out: []string{"logical_not.out"}, Meta: metaLogicalNot, Lower: lowerFormula(opcode(hlo.Not))},
		unary{name: "bitwise_not", kernel: "bitwise_not_cpu", allowed: integral, f: opcode(hlo.Not)}.row(),
	)
	left, right := metaKernel("lshift_cpu", integers), metaKernel("rshift_cpu", integers)
	shiftLeft, shiftRight := lowerFormula(ofTwo(elementwise.shiftLeft)), lowerFormula(ofTwo(elementwise.shiftRight))
	register(
		&Row{Name: "bitwise_left_shift.Tensor", InPlace: []string{"bitwise_left_shift_.Tensor"}, Out: []string{"bitwise_left_shift.Tensor_out"}, Meta: left, Lower: shiftLeft},
		&Row{Name: "bitwise_right_shift.Tensor", InPlace: []string{"bitwise_right_shift_.Tensor"}, Out: []string{"bitwise_right_shift.Tensor_out"}, Meta: right, Lower: shiftRight},
		&Row{Name: "__lshift__.Tensor", InPlace: []string{"__ilshift__.Tensor"}, Meta: left, Lower: shiftLeft},
		&Row{Name: "__lshift__.Scalar", InPlace: []string{"__ilshift__.Scalar"}, Meta: left, Lower: shiftLeft},
		&Row{Name: "__rshift__.Tensor", InPlace: []string{"__irshift__.Tensor"}, Meta: right, Lower: shiftRight},
		&Row{Name: "__rshift__.Scalar", InPlace: []string{"__irshift__.Scalar"}, Meta: right, Lower: shiftRight},
		&Row{Name: "gcd", InPlace: []string{"gcd_"}, Out: []string{"gcd.out"}, Meta: metaKernel("gcd_cpu", integers), Lower: lowerDivisor(false)},
		&Row{Name: "lcm", InPlace: []string{"lcm_"}, Out: []string{"lcm.out"}, Meta: metaKernel("lcm_cpu", integers), Lower: lowerDivisor(true)},
	)
}

func metaLogical(c *Call) error { return c.binary(dtype.Bool) }

func metaLogicalNot(c *Call) error {
	c.Operand(c.Node(0))
	return c.Out(dtype.Bool, c.Dims(0))
}

// shiftLeft gives 0 for a shift that is negative or not below the width: HLO reads the amount as
// unsigned, and torch's kernel agrees.
func (e elementwise) shiftLeft(x, y hlo.Value) hlo.Value { return e.Binary(hlo.ShiftLeft, x, y) }

// shiftRight fills with the sign for such a shift.
func (e elementwise) shiftRight(x, y hlo.Value) hlo.Value {
	if x.Dtype().IsUnsigned() {
		return e.Binary(hlo.ShiftRightLogical, x, y)
	}
	return e.Binary(hlo.ShiftRightArithmetic, x, y)
}

// lowerDivisor is Euclid's algorithm on all elements at once, until each has a remainder of 0.
func lowerDivisor(multiple bool) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		e := elementwise{l.B}
		x, y := e.magnitude(operand(l, 0, l.Dtype)), e.magnitude(operand(l, 1, l.Dtype))
		cond := l.B.Computation("gcd_continues", func(sub *hlo.Builder) {
			state := sub.StateParameters(shapesOf([]hlo.Value{x, y}))
			s := elementwise{sub}
			open := s.unequal(state[1], s.zero(state[1]))
			all := make([]int, len(l.Dims))
			for i := range all {
				all[i] = i
			}
			sub.Return(sub.ReduceOp(hlo.Or, open, sub.Scalar(dtype.Bool, 0), all))
		})
		body := l.B.Computation("gcd_step", func(sub *hlo.Builder) {
			state := sub.StateParameters(shapesOf([]hlo.Value{x, y}))
			s := elementwise{sub}
			a, b := state[0], state[1]
			done := s.isZero(b)
			rest := sub.Binary(hlo.Remainder, a, sub.Select(done, s.one(b), b))
			sub.ReturnTuple(sub.Select(done, a, b), sub.Select(done, b, rest))
		})
		gcd := l.B.While([]hlo.Value{x, y}, cond, body)[0]
		if !multiple {
			return gcd
		}
		divisor := e.Select(e.isZero(gcd), e.one(gcd), gcd)
		return e.mul(e.div(x, divisor), y)
	}
}
