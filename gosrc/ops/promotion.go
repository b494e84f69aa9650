package ops

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/status"
)

// Promotion follows c10::promoteTypes and at::native::result_type: operands fall into three
// categories (tensors with dimensions, 0-dim tensors, numbers); a lower category only decides
// where its kind (bool < integer < float < complex) is above that of the higher ones.

// promoteTypes gives the smallest type that both convert to without losing their kind.
func promoteTypes(a, b dtype.Dtype) (dtype.Dtype, error) {
	if a == b || b == dtype.Invalid {
		return a, nil
	}
	if a == dtype.Invalid {
		return b, nil
	}
	if a == dtype.Bool {
		return b, nil
	}
	if b == dtype.Bool {
		return a, nil
	}
	switch {
	case a.IsComplex() || b.IsComplex():
		return promoteComplex(a, b), nil
	case a.IsFloat() && b.IsFloat():
		return promoteFloats(a, b)
	case a.IsFloat():
		return a, nil
	case b.IsFloat():
		return b, nil
	}
	return promoteIntegers(a, b)
}

func promoteComplex(a, b dtype.Dtype) dtype.Dtype {
	if a == dtype.C128 || b == dtype.C128 || a == dtype.F64 || b == dtype.F64 {
		return dtype.C128
	}
	return dtype.C64
}

func promoteFloats(a, b dtype.Dtype) (dtype.Dtype, error) {
	if a.Size() == 1 || b.Size() == 1 {
		return dtype.Invalid, Errorf("Promotion for Float8 Types is not supported, attempted to promote %s and %s", torchClass(a), torchClass(b))
	}
	if a.Size() == b.Size() { // f16 with bf16
		return dtype.F32, nil
	}
	if a.Size() > b.Size() {
		return a, nil
	}
	return b, nil
}

func promoteIntegers(a, b dtype.Dtype) (dtype.Dtype, error) {
	if wide := func(d dtype.Dtype) bool { return d.IsUnsigned() && d.Size() > 1 }; wide(a) || wide(b) {
		return dtype.Invalid, Errorf("Promotion for uint16, uint32, uint64 types is not supported, attempted to promote %s and %s", torchClass(a), torchClass(b))
	}
	if a.IsSigned() == b.IsSigned() {
		if a.Size() > b.Size() {
			return a, nil
		}
		return b, nil
	}
	signed := a
	if b.IsSigned() {
		signed = b
	}
	if signed.Size() == 1 { // u8 with s8
		return dtype.S16, nil
	}
	return signed, nil
}

// torchClass gives the name that torch's messages use for a type ("Float", "Long").
func torchClass(d dtype.Dtype) string {
	switch d {
	case dtype.Bool:
		return "Bool"
	case dtype.S8:
		return "Char"
	case dtype.U8:
		return "Byte"
	case dtype.S16:
		return "Short"
	case dtype.S32:
		return "Int"
	case dtype.S64:
		return "Long"
	case dtype.F16:
		return "Half"
	case dtype.BF16:
		return "BFloat16"
	case dtype.F32:
		return "Float"
	case dtype.F64:
		return "Double"
	case dtype.C64:
		return "ComplexFloat"
	case dtype.C128:
		return "ComplexDouble"
	case dtype.U16:
		return "UInt16"
	case dtype.U32:
		return "UInt32"
	case dtype.U64:
		return "UInt64"
	case dtype.F8E5M2:
		return "Float8_e5m2"
	case dtype.F8E4M3FN:
		return "Float8_e4m3fn"
	case dtype.F8E5M2FNUZ:
		return "Float8_e5m2fnuz"
	case dtype.F8E4M3FNUZ:
		return "Float8_e4m3fnuz"
	}
	return d.String()
}

// TorchClass is torchClass for other rooms' messages.
func TorchClass(d dtype.Dtype) string { return torchClass(d) }

// CanCast says whether torch lets a result of type from be stored into a tensor of type to
// (c10::canCast): not complex to real, not float to integer, not anything but bool to bool.
func CanCast(from, to dtype.Dtype) bool {
	if from.IsComplex() && !to.IsComplex() {
		return false
	}
	if from.IsFloat() && to.IsIntegral() {
		return false
	}
	return from == dtype.Bool || to != dtype.Bool
}

// category of an operand: its kind, for choosing between dimensioned, 0-dim and number operands.
func category(d dtype.Dtype) int {
	switch {
	case d == dtype.Invalid:
		return -1
	case d == dtype.Bool:
		return 0
	case d.IsIntegral():
		return 1
	case d.IsFloat():
		return 2
	}
	return 3
}

// scalarDtype gives the type that a number has in promotion.
func (c *Call) scalarDtype(a *Argument) dtype.Dtype {
	switch a.Tag {
	case TagBool:
		return dtype.Bool
	case TagInt:
		return dtype.S64
	case TagDouble:
		return c.DefaultDtype
	case TagComplex:
		return c.DefaultDtype.Complex()
	}
	if a.Wrapped { // a number that torch wrapped into a CPU tensor
		switch {
		case a.Dtype.IsComplex():
			return c.DefaultDtype.OpMath().Complex()
		case a.Dtype.IsFloat():
			return c.DefaultDtype
		}
	}
	return a.Dtype
}

// ResultType promotes arguments (tensors, CPU scalars, numbers) as torch.result_type does.
// Arguments that are None are skipped.
func (c *Call) ResultType(arguments ...int) (dtype.Dtype, error) {
	// The common case, first: tensors of one type.
	first := c.Args[arguments[0]].Dtype
	same := first != dtype.Invalid
	for _, i := range arguments {
		if a := &c.Args[i]; a.Tag != TagTensor || a.Dtype != first {
			same = false
			break
		}
	}
	if same {
		return first, nil
	}
	var dimensioned, zero, number dtype.Dtype
	var err error
	for _, i := range arguments {
		a := &c.Args[i]
		var slot *dtype.Dtype
		d := a.Dtype
		switch {
		case a.Tag == TagNone:
			continue
		case a.Tag == TagTensor && len(a.View.Sizes) > 0:
			slot = &dimensioned
		case a.Tag == TagTensor && !a.Wrapped, a.Tag == TagCPUScalar && !a.Wrapped:
			slot = &zero
		default:
			slot = &number
			d = c.scalarDtype(a)
		}
		if *slot, err = promoteTypes(*slot, d); err != nil {
			return dtype.Invalid, err
		}
	}
	combine := func(higher, lower dtype.Dtype) (dtype.Dtype, error) {
		if category(higher) >= category(lower) {
			return higher, nil
		}
		// A real float tensor with a complex number keeps the tensor's width.
		if lower.IsComplex() && higher.IsFloat() {
			if w := higher.OpMath().Complex(); w.IsComplex() && category(higher) == 2 {
				return promoteTypes(w, higher)
			}
		}
		if higher == dtype.Invalid {
			return lower, nil
		}
		return promoteTypes(higher, lower)
	}
	low, err := combine(zero, number)
	if err != nil {
		return dtype.Invalid, err
	}
	result, err := combine(dimensioned, low)
	if err == nil && result == dtype.Invalid {
		err = status.Errorf(status.InvalidArgument, "%s(): expected at least one operand with a dtype", c.row.Name)
	}
	return result, err
}

// FloatResultType is ResultType for ops that turn integers into the default float type.
func (c *Call) FloatResultType(arguments ...int) (dtype.Dtype, error) {
	d, err := c.ResultType(arguments...)
	if err == nil && d.IsIntegral() {
		d = c.DefaultDtype
	}
	return d, err
}

// BroadcastDims gives the broadcast sizes of tensor arguments; numbers count as 0-dim. The
// result is valid until the next call of BroadcastDims.
func (c *Call) BroadcastDims(arguments ...int) ([]int64, error) {
	dims := c.dims[:0]
	for _, i := range arguments {
		if a := &c.Args[i]; a.Tag == TagTensor {
			var err error
			if dims, err = broadcastInto(dims, a.View.Sizes); err != nil {
				return nil, err
			}
		}
	}
	c.dims = dims
	return dims, nil
}

// broadcastInto widens dims to the broadcast of dims and other, in place where it fits.
func broadcastInto(dims, other []int64) ([]int64, error) {
	for len(dims) < len(other) {
		dims = append(dims, 0)
		copy(dims[1:], dims)
		dims[0] = 1
	}
	offset := len(dims) - len(other)
	for k, o := range other {
		switch d := dims[offset+k]; {
		case d == o || o == 1:
		case d == 1:
			dims[offset+k] = o
		default:
			return nil, Errorf("The size of tensor a (%d) must match the size of tensor b (%d) at non-singleton dimension %d", d, o, offset+k)
		}
	}
	return dims, nil
}
