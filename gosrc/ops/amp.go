package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// Gradient scaling of mixed precision training: the loss scale lives on the device, so that a
// training step needs no read.

func init() {
	register(
		&Row{Name: "_amp_foreach_non_finite_check_and_unscale_", Meta: metaUnscale},
		&Row{Name: "_amp_update_scale_", SelfOnly: true, Meta: metaUpdateScale, LowerMany: lowerUpdateScale},
	)
}

var (
	// kindUnscale multiplies a gradient by the inverse scale.
	kindUnscale = defineKind("xla_go::unscale", func(l *ir.Lowering) hlo.Value {
		compute := l.Dtype.OpMath()
		scale := l.B.Reshape(as(l.B, l.In(1), compute), nil)
		return as(l.B, l.B.Binary(hlo.Multiply, operand(l, 0, compute), l.B.BroadcastTo(scale, l.Dims)), l.Dtype)
	})
	// kindFoundInf is 1 where the first operand is 1 or another one has an element that is not finite.
	kindFoundInf = defineKind("xla_go::found_inf", lowerFoundInf)
)

// metaUnscale: (gradients, found_inf, inv_scale), all written but the last.
func metaUnscale(c *Call) error {
	gradients := c.Args[0].Tensors
	if len(gradients) == 0 {
		return nil
	}
	for _, i := range []int{1, 2} {
		name := [...]string{1: "found_inf", 2: "inv_scale"}[i]
		if a := &c.Args[i]; a.Tag != TagTensor || shape.Product(a.View.Sizes) != 1 {
			return Errorf("%s must be a 1-element tensor.", name)
		} else if a.Dtype != dtype.F32 {
			return Errorf("%s must be a float tensor.", name)
		}
	}
	scale := c.Node(2)
	found := c.Build(kindFoundInf, dtype.F32, c.Dims(1), c.Node(1))
	for i := range gradients {
		g := &gradients[i]
		if !g.Dtype.IsFloat() {
			return notImplemented("_amp_foreach_non_finite_check_and_unscale_cpu", g.Dtype)
		}
		n := c.NodeOf(g)
		found.AddOperand(n)
		if err := c.WriteTo(g, c.Build(kindUnscale, g.Dtype, g.View.Sizes, n, scale)); err != nil {
			return err
		}
	}
	return c.Write(1, found)
}

func lowerFoundInf(l *ir.Lowering) hlo.Value {
	e := elementwise{l.B}
	found := e.unequal(l.In(0), e.zero(l.In(0)))
	for i := 1; i < l.Count(); i++ {
		x := l.In(i)
		all := make([]int, x.Rank())
		for k := range all {
			all[k] = k
		}
		bad := e.ReduceOp(hlo.Or, e.not(e.Unary(hlo.IsFinite, x)), e.Scalar(dtype.Bool, 0), all)
		found = e.or(found, e.BroadcastTo(bad, l.Dims))
	}
	return as(l.B, found, l.Dtype)
}

// metaUpdateScale: (scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval).
func metaUpdateScale(c *Call) error {
	switch {
	case c.Dtype(1) != dtype.S32:
		return Errorf("growth_tracker must be an int tensor.")
	case shape.Product(c.Dims(1)) != 1:
		return Errorf("growth_tracker must be a 1-element tensor.")
	case c.Dtype(0) != dtype.F32:
		return Errorf("current_scale must be a float tensor.")
	case shape.Product(c.Dims(0)) != 1:
		return Errorf("current_scale must be a 1-element tensor.")
	case c.operandDtype(2) != dtype.F32:
		return Errorf("found_inf must be a float tensor.")
	}
	c.Operand(c.Node(0), c.Node(1), c.Value(2, dtype.F32))
	c.Operand(c.FloatNode(c.Float(3, 1), dtype.F32), c.FloatNode(c.Float(4, 1), dtype.F32), c.IntNode(c.Int(5, 1)))
	n := c.Many()
	c.Return(c.Element(n, 0, dtype.F32, c.Dims(0)))
	return c.Write(1, c.Element(n, 1, dtype.S32, c.Dims(1)))
}

func lowerUpdateScale(l *ir.Lowering) []hlo.Value {
	e := elementwise{l.B}
	scale, tracker := l.In(0), l.In(1)
	scalar := func(i int, d dtype.Dtype) hlo.Value { return e.Reshape(as(l.B, l.In(i), d), nil) }
	s, count, found := scalar(0, dtype.F32), scalar(1, dtype.S32), scalar(2, dtype.F32)
	stop := e.unequal(found, e.zero(found))
	next := e.addNumber(count, 1)
	due := e.equal(next, scalar(5, dtype.S32))
	grown := e.mul(s, scalar(3, dtype.F32))
	grows := e.and(due, e.Unary(hlo.IsFinite, grown))
	s = e.Select(stop, e.mul(s, scalar(4, dtype.F32)), e.Select(grows, grown, s))
	count = e.Select(e.or(stop, due), e.zero(count), next)
	return []hlo.Value{e.Reshape(s, scale.Dims()), e.Reshape(count, tracker.Dims())}
}
