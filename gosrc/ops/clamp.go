package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Clamps with bounds that are numbers or tensors, and where.

func init() {
	register(
		&Row{Name: "clamp", InPlace: []string{"clamp_"}, Out: []string{"clamp.out"}, Meta: metaClamp("_scalar_cpu", 1, 2), Lower: lowerClamp},
		&Row{Name: "clamp.Tensor", InPlace: []string{"clamp_.Tensor"}, Out: []string{"clamp.Tensor_out"}, Meta: metaClamp("_cpu", 1, 2), Lower: lowerClamp},
		&Row{Name: "clamp_min", InPlace: []string{"clamp_min_"}, Out: []string{"clamp_min.out"}, Meta: metaClamp("_scalar_cpu", 1, -1), Lower: lowerClamp},
		&Row{Name: "clamp_min.Tensor", InPlace: []string{"clamp_min_.Tensor"}, Out: []string{"clamp_min.Tensor_out"}, Meta: metaClamp("_cpu", 1, -1), Lower: lowerClamp},
		&Row{Name: "clamp_max", InPlace: []string{"clamp_max_"}, Out: []string{"clamp_max.out"}, Meta: metaClamp("_scalar_cpu", -1, 1), Lower: lowerClamp},
		&Row{Name: "clamp_max.Tensor", InPlace: []string{"clamp_max_.Tensor"}, Out: []string{"clamp_max.Tensor_out"}, Meta: metaClamp("_cpu", -1, 1), Lower: lowerClamp},
		&Row{Name: "hardtanh", InPlace: []string{"hardtanh_"}, Out: []string{"hardtanh.out"}, Meta: metaHardtanh, Lower: lowerClamp},
		&Row{Name: "where.self", Out: []string{"where.self_out"}, Meta: metaWhere, Lower: lowerWhere},
	)
}

// metaClamp declares a clamp whose bounds are arguments low and high, -1 for none. Bounds take
// part in promotion. kernel ends the name of torch's kernel: with one tensor as bound it is that of
// maximum or minimum, which bool has.
func metaClamp(kernel string, low, high int) func(c *Call) error {
	return func(c *Call) error {
		arguments := make([]int, 1, 3)
		lowest := low >= 0 && !c.IsNone(low)
		highest := high >= 0 && !c.IsNone(high)
		if lowest {
			arguments = append(arguments, low)
		}
		if highest {
			arguments = append(arguments, high)
		}
		if len(arguments) == 1 {
			return Errorf("torch.clamp: At least one of 'min' or 'max' must not be None")
		}
		if c.operandDtype(0).IsComplex() {
			return status.Torchf(status.NotImplementedError, "clamp is not supported for complex types")
		}
		for _, i := range arguments[1:] {
			if c.operandDtype(i).IsComplex() {
				if c.row.Name == "clamp" && !c.operandDtype(0).IsIntegral() {
					return Errorf("value cannot be converted to type double without overflow")
				}
				return status.Torchf(status.NotImplementedError, "clamp is not supported for complex types")
			}
		}
		d, err := c.ResultType(arguments...)
		if err != nil {
			return err
		}
		if d == dtype.Bool && (kernel != "_cpu" || lowest && highest) || !d.IsIntegral() && !d.IsFloat() {
			bound := ""
			switch {
			case !highest:
				bound = "_min"
			case !lowest:
				bound = "_max"
			}
			return notImplemented("clamp"+bound+kernel, d)
		}
		dims, err := c.BroadcastDims(arguments...)
		if err != nil {
			return err
		}
		c.Operand(c.Value(0, d))
		if lowest {
			if err := c.bound(low, d, false); err != nil {
				return err
			}
		}
		if highest {
			if err := c.bound(high, d, true); err != nil {
				return err
			}
		}
		c.AttrBool(lowest)
		c.AttrBool(highest)
		return c.Out(d, dims)
	}
}

// bound adds argument i as a bound. A number beyond an integer type's range bounds nothing if it is
// on the far side, and is an error if no value could satisfy it.
func (c *Call) bound(i int, d dtype.Dtype, upper bool) error {
	a := &c.Args[i]
	if !d.IsInteger() || !a.IsIntegralScalar() {
		if err := checkConversion(a, d); err != nil {
			return err
		}
		c.Operand(c.Value(i, d))
		return nil
	}
	low, high := conversionRange(d)
	if d.IsUnsigned() {
		low = 0
	}
	v := a.Int
	switch {
	case !upper && v > high:
		return Errorf("Clamp min value %d is outside the representable range of %s", v, torchClass(d))
	case upper && v < low:
		return Errorf("Clamp max value %d is outside the representable range of %s", v, torchClass(d))
	}
	c.Operand(c.IntNode(min(max(v, low), high)))
	return nil
}

// lowerClamp applies the lower bound first, so that the upper one wins where they cross. A NaN in
// the tensor or in a bound gives NaN.
func lowerClamp(l *ir.Lowering) hlo.Value {
	e := elementwise{l.B}
	in := operandsAs(l, l.Dtype)
	x, bounds := in[0], in[1:]
	if l.Bool() {
		x, bounds = e.max(x, bounds[0]), bounds[1:]
	}
	if l.Bool() {
		x = e.min(x, bounds[0])
	}
	return x
}

// metaHardtanh keeps the tensor's type: the bounds are converted to it.
func metaHardtanh(c *Call) error {
	d := c.Dtype(0)
	switch kindOf(d) {
	case bools:
		return status.Torchf(status.NotImplementedError, "Bool inputs not supported for hardtanh")
	case complexes:
		return status.Torchf(status.NotImplementedError, "clamp is not supported for complex types")
	}
	c.Operand(c.Node(0))
	for i := 1; i <= 2; i++ {
		if err := c.bound(i, d, i == 2); err != nil {
			return err
		}
	}
	c.AttrBool(true)
	c.AttrBool(true)
	return c.Out(d, c.Dims(0))
}

func metaWhere(c *Call) error {
	condition := c.operandDtype(0)
	if condition != dtype.Bool && condition != dtype.U8 {
		return Errorf("where expected condition to be a boolean tensor, but got a tensor with dtype %s", torchClass(condition))
	}
	d, err := c.ResultType(1, 2)
	if err != nil {
		return err
	}
	dims, err := c.BroadcastDims(0, 1, 2)
	if err != nil {
		return err
	}
	c.Operand(c.Value(0, condition), c.Value(1, d), c.Value(2, d))
	return c.Out(d, dims)
}

func lowerWhere(l *ir.Lowering) hlo.Value {
	return l.B.Select(operand(l, 0, dtype.Bool), operand(l, 1, l.Dtype), operand(l, 2, l.Dtype))
}
