package ops

import (
	"fmt"
	"slices"
	"strings"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// Interpolation to a given size. Every mode is separable: one resampling per spatial dimension,
// made of the sizes and the scales that the caller gave; its gradient is the transposed one.

// Interpolation modes; attributes of the nodes.
const (
	modeNearest = iota
	modeNearestExact
	modeLinear
	modeCubic
	modeLinearAntialias
	modeCubicAntialias
)

// upsampling is one operator of the family.
type upsampling struct {
	name    string
	spatial int
	mode    int64
	kernel  string // in the message for types that torch's kernel does not have
	bytes   bool   // uint8 images are taken
}

func init() {
	weights := "compute_indices_weights_"
	for _, u := range []upsampling{
		{"upsample_nearest1d", 1, modeNearest, weights + "nearest", true},
		{"upsample_nearest2d", 2, modeNearest, "upsample_nearest2d_channels_last", true},
		{"upsample_nearest3d", 3, modeNearest, weights + "nearest", true},
		{"_upsample_nearest_exact1d", 1, modeNearestExact, weights + "nearest", true},
		{"_upsample_nearest_exact2d", 2, modeNearestExact, "upsample_nearest2d_channels_last", true},
		{"_upsample_nearest_exact3d", 3, modeNearestExact, weights + "nearest", true},
		{"upsample_linear1d", 1, modeLinear, weights + "linear", false},
		{"upsample_bilinear2d", 2, modeLinear, "upsample_bilinear2d_channels_last", true},
		{"upsample_trilinear3d", 3, modeLinear, weights + "linear", false},
		{"upsample_bicubic2d", 2, modeCubic, weights + "cubic", true},
		{"_upsample_bilinear2d_aa", 2, modeLinearAntialias, "compute_index_ranges_weights", true},
		{"_upsample_bicubic2d_aa", 2, modeCubicAntialias, "compute_index_ranges_weights", true},
	} {
		register(
			&Row{Name: u.name, Out: []string{u.name + ".out"}, Meta: u.meta, Lower: lowerUpsample},
			&Row{Name: u.name + "_backward", Out: []string{u.name + "_backward.grad_input"}, Meta: u.metaBackward, Lower: lowerUpsampleBackward},
		)
	}
}

// aligns says whether the operator has an align_corners argument.
func (u *upsampling) aligns() bool { return u.mode >= modeLinear }

// describe adds the attributes: mode, align_corners and one scale per dimension, 0 for none.
func (u *upsampling) describe(c *Call, next int) {
	c.Attr(u.mode)
	align := false
	if u.aligns() {
		align = c.Bool(next)
		next++
	}
	c.AttrBool(align)
	for i := range u.spatial {
		c.AttrFloat(c.Float(next+i, 0))
	}
}

// check is torch's upsample_*_common_check, for an input of sizes in.
func (u *upsampling) check(in, out []int64) error {
	if len(out) != u.spatial {
		return Errorf("It is expected output_size equals to %d, but got size %d", u.spatial, len(out))
	}
	if len(in) != u.spatial+2 {
		return Errorf("It is expected input_size equals to %d, but got size %d", u.spatial+2, len(in))
	}
	for i := range u.spatial {
		if in[i+2] <= 0 || out[i] <= 0 {
			and := ""
			if u.spatial == 1 {
				and = "and "
			}
			return Errorf("Input and output sizes should be greater than 0, but got input (%s) %soutput (%s)", sizesByAxis(in[2:]), and, sizesByAxis(out))
		}
	}
	return nil
}

func sizesByAxis(v []int64) string {
	names := []string{"D", "H", "W"}[3-len(v):]
	parts := make([]string, len(v))
	for i := range v {
		parts[i] = fmt.Sprintf("%s: %d", names[i], v[i])
	}
	return strings.Join(parts, ", ")
}

// meta: self, output_size, then align_corners for all but nearest, then a scale per dimension.
func (u upsampling) meta(c *Call) error {
	in, out := c.Dims(0), c.Ints(1)
	if err := u.check(in, out); err != nil {
		return err
	}
	if shape.Product(in) == 0 && shape.Product(in[1:]) == 0 {
		return Errorf("Non-empty %dD data tensor expected but got a tensor with sizes %s", u.spatial+2, dimsText(in))
	}
	d := c.Dtype(0)
	if !(d.IsFloat() && d.Size() > 1) && !(u.bytes && d == dtype.U8) {
		return notImplemented(u.kernel, d)
	}
	c.Operand(c.Node(0))
	u.describe(c, 2)
	return c.Out(d, append(slices.Clone(in[:2]), out...))
}

// metaBackward: grad_output, output_size, input_size, then as meta.
func (u upsampling) metaBackward(c *Call) error {
	out, in := c.Ints(1), c.Ints(2)
	if err := u.check(in, out); err != nil {
		return err
	}
	want := append(slices.Clone(in[:2]), out...)
	if u.spatial == 1 {
		if err := c.poolSizes(0, want, 2); err != nil {
			return err
		}
	}
	got := c.Dims(0)
	if len(got) != len(want) {
		return Errorf("Expected grad_output to be a tensor of dimension %d but got: dimension %d", len(want), len(got))
	}
	for i := range want {
		if got[i] != want[i] {
			return Errorf("Expected grad_output to have the same shape as output; output.size(%d) = %d but got grad_output.size(%d) = %d", i, want[i], i, got[i])
		}
	}
	d := c.Dtype(0)
	if !d.IsFloat() || d.Size() == 1 {
		return notImplemented(u.name+"_backward", d)
	}
	c.Operand(c.Node(0))
	u.describe(c, 3)
	return c.Out(d, in)
}

func lowerUpsample(l *ir.Lowering) hlo.Value {
	b, x, mode, align := l.B, l.In(0), l.Int(), l.Bool()
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	exact := l.Dtype == dtype.F64
	weighs := mode >= modeLinear
	if compute := computeType(l.Dtype); weighs {
		x = as(b, x, compute)
	}
	in := x.Dims()
	for i := len(l.Dims) - 1; i >= 2; i-- {
		x = resample(b, x, i, interpolation(mode, in[i], l.Dims[i], align, scaleAt(l, i-2), exact))
	}
	if l.Dtype == dtype.U8 && weighs {
		x = b.Unary(hlo.RoundNearestEven, x)
		x = b.Clamp(b.Full(x.Dtype(), 0), x, b.Full(x.Dtype(), 255))
	}
	return as(b, x, l.Dtype)
}

func lowerUpsampleBackward(l *ir.Lowering) hlo.Value {
	b, mode, align := l.B, l.Int(), l.Bool()
	grad := as(b, l.In(0), l.Dtype.OpMath())
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	out := grad.Dims()
	for i := len(l.Dims) - 1; i >= 2; i-- {
		r := interpolation(mode, l.Dims[i], out[i], align, scaleAt(l, i-2), l.Dtype == dtype.F64)
		grad = resample(b, grad, i, r.transposed(int(l.Dims[i])))
	}
	return as(b, grad, l.Dtype)
}

// scaleAt reads the scale of spatial dimension i from the attributes that are left.
func scaleAt(l *ir.Lowering, i int) float64 { return floatOf(l.Rest()[i]) }

// computeType is the type in which images are weighed.
func computeType(d dtype.Dtype) dtype.Dtype {
	if d.IsFloat() {
		return d.OpMath()
	}
	return dtype.F32
}
