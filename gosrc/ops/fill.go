package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// Filling a tensor with one value, wholly or by a mask.

var (
	kindZeros = defineKind("xla_go::zeros", lowerConstant(0))
	kindOnes  = defineKind("xla_go::ones", lowerConstant(1))
)

func init() {
	register(
		&Row{Name: "fill_.Scalar", SelfOnly: true, Meta: metaFill, Lower: lowerFill},
		&Row{Name: "fill_.Tensor", SelfOnly: true, Meta: metaFill, Lower: lowerFill},
		&Row{Name: "zero_", SelfOnly: true, Meta: metaZero},
		&Row{Name: "masked_fill.Scalar", InPlace: []string{"masked_fill_.Scalar"}, Out: []string{"masked_fill.Scalar_out"}, Meta: metaMaskedFill, Lower: lowerMaskedFill},
		&Row{Name: "masked_fill.Tensor", InPlace: []string{"masked_fill_.Tensor"}, Out: []string{"masked_fill.Tensor_out"}, Meta: metaMaskedFill, Lower: lowerMaskedFill},
	)
}

func lowerConstant(v float64) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value { return l.B.Full(l.Dtype, v, l.Dims...) }
}

// metaFill never reads the tensor that it overwrites.
func metaFill(c *Call) error {
	d, value := c.Dtype(0), &c.Args[1]
	if value.Tag == TagTensor {
		if rank := len(value.View.Sizes); rank > 0 {
			return Errorf("fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.", rank)
		}
	} else if value.Tag != TagCPUScalar {
		if err := checkConversion(value, d); err != nil {
			return err
		}
	}
	c.Operand(c.Value(1, d))
	return c.Out(d, c.Dims(0))
}

func lowerFill(l *ir.Lowering) hlo.Value { return operand(l, 0, l.Dtype) }

func metaZero(c *Call) error {
	c.Return(c.Build(kindZeros, c.Dtype(0), c.Dims(0)))
	return nil
}

// metaMaskedFill keeps the tensor's type and converts the value to it.
func metaMaskedFill(c *Call) error {
	d, mask, value := c.Dtype(0), c.operandDtype(1), &c.Args[2]
	if mask != dtype.Bool {
		return Errorf("masked_fill_ only supports boolean masks, but got mask with dtype %s", demangledName(mask))
	}
	if value.Tag == TagTensor {
		if rank := len(value.View.Sizes); rank > 0 {
			return Errorf("masked_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).", rank)
		}
	} else if err := checkConversion(value, d); err != nil {
		return err
	}
	dims, err := c.BroadcastDims(0, 1)
	if err != nil {
		return err
	}
	c.Operand(c.Value(0, d), c.Value(1, mask), c.Value(2, d))
	return c.Out(d, dims)
}

func lowerMaskedFill(l *ir.Lowering) hlo.Value {
	return l.B.Select(operand(l, 1, dtype.Bool), operand(l, 2, l.Dtype), operand(l, 0, l.Dtype))
}
