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

// Padding by reflection and replication of the last one to three dimensions.

// border is one operator of the family.
type border struct {
	name    string
	spatial int
	reflect bool
}

func init() {
	for spatial := 1; spatial <= 3; spatial++ {
		for _, p := range []border{
			{fmt.Sprintf("reflection_pad%dd", spatial), spatial, true},
			{fmt.Sprintf("replication_pad%dd", spatial), spatial, false},
		} {
			register(
				&Row{Name: p.name, Out: []string{p.name + ".out"}, Meta: p.meta, Lower: lowerBorder, Variables: variableFrom(1)},
				&Row{Name: p.name + "_backward", Out: []string{p.name + "_backward.grad_input"}, Meta: p.metaBackward, Lower: lowerBorderBackward, Variables: variableFrom(1)},
			)
		}
	}
}

// output gives the padded sizes of input x, with torch's checks. padding lists (before, after)
// from the last dimension on.
func (p *border) output(x, padding []int64) ([]int64, error) {
	if len(padding) != 2*p.spatial {
		return nil, Errorf("padding size is expected to be %d, but got: %d", 2*p.spatial, len(padding))
	}
	rank := len(x)
	valid := rank == p.spatial+1 || rank == p.spatial+2
	for i := 0; valid && i < rank; i++ {
		valid = x[i] != 0 || i == 0 && rank == p.spatial+2
	}
	if !valid {
		return nil, Errorf("Expected %dD or %dD (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: %s",
			p.spatial+1, p.spatial+2, dimsText(x))
	}
	dims := slices.Clone(x)
	small := false
	for i := range p.spatial {
		k := rank - 1 - i
		before, after := padding[2*i], padding[2*i+1]
		if p.reflect && (before >= x[k] || after >= x[k]) {
			return nil, Errorf("Argument #%d: Padding size should be less than the corresponding input dimension, but got: padding (%d, %d) at dimension %d of input %s",
				2*i+4, before, after, k, dimsText(x))
		}
		dims[k] += before + after
		small = small || dims[k] < 1
	}
	if !small {
		return dims, nil
	}
	if p.spatial == 1 {
		return nil, Errorf("input (W: %d) is too small. Calculated output W: %d", x[rank-1], dims[rank-1])
	}
	first := rank - p.spatial
	return nil, Errorf("Calculated output %s must be >= 1 in every dimension (input %s)",
		strings.ReplaceAll(sizesByAxis(dims[first:]), ",", ""), sizesByAxis(x[first:]))
}

func (p border) meta(c *Call) error {
	dims, err := p.output(c.Dims(0), c.Ints(1))
	if err != nil {
		return err
	}
	d := c.Dtype(0)
	if d == dtype.Bool || d.IsFloat() && d.Size() == 1 {
		return notImplemented(p.name, d)
	}
	c.Operand(c.Node(0))
	p.attributes(c, c.Ints(1))
	return c.Out(d, dims)
}

// attributes adds the mode and what comes before each dimension, from the last one on; what comes after follows from
// the sizes.
func (p *border) attributes(c *Call, padding []int64) {
	c.AttrBool(p.reflect)
	for i := 0; i < len(padding); i += 2 {
		c.Attr(padding[i])
	}
}

// metaBackward: grad_output, self, padding.
func (p border) metaBackward(c *Call) error {
	dims, err := p.output(c.Dims(1), c.Ints(2))
	if err != nil {
		return err
	}
	got := c.Dims(0)
	names := []string{"depth", "height", "width"}
	for k := len(dims) - p.spatial; k < len(dims); k++ {
		if len(got) != len(dims) || got[k] != dims[k] {
			size := int64(0)
			if k < len(got) {
				size = got[k]
			}
			return Errorf("grad_output %s unexpected. Expected: %d, Got: %d", names[3-len(dims)+k], dims[k], size)
		}
	}
	d := c.Dtype(0)
	if !d.IsFloat() && !d.IsComplex() || d.IsFloat() && d.Size() == 1 {
		return notImplemented(p.name+"_backward", d)
	}
	c.Operand(c.Node(0))
	p.attributes(c, c.Ints(2))
	return c.Out(d, c.Dims(1))
}

// bordered gives the inputs of a padded dimension of size inputs.
func bordered(size, before, after int64, reflect bool) resampling {
	r := resampling{index: make([][]int, size+before+after)}
	for o := range r.index {
		at := int64(o) - before
		switch {
		case reflect && at < 0:
			at = -at
		case reflect && at >= size:
			at = 2*(size-1) - at
		}
		r.index[o] = []int{int(min(max(at, 0), size-1))}
	}
	return r
}

func lowerBorder(l *ir.Lowering) hlo.Value {
	b, x, reflect := l.B, l.In(0), l.Bool()
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	in := x.Dims()
	for k := len(in) - 1; l.Left() > 0; k-- {
		before := l.Number()
		if before.IsParameter() {
			x = takeSlices(b, x, borderedIndex(b, in[k], l.Dims[k], before, reflect), k)
			continue
		}
		x = resample(b, x, k, bordered(in[k], before.Constant, l.Dims[k]-in[k]-before.Constant, reflect))
	}
	return x
}

// borderedIndex is bordered as positions that are known only when the program runs: of padded elements in size ones.
func borderedIndex(b *hlo.Builder, size, padded int64, before ir.Number, reflect bool) hlo.Value {
	t, dims := dtype.S64, []int64{padded}
	at := b.Binary(hlo.Subtract, b.Iota(t, dims, 0), b.Broadcast(before.In(b, t), dims, nil))
	if reflect { // at both ends
		last := b.FullInt(t, size-1, padded)
		at = b.Unary(hlo.Abs, at)
		at = b.Binary(hlo.Subtract, last, b.Unary(hlo.Abs, b.Binary(hlo.Subtract, last, at)))
	}
	return narrowPositions(b, clampPositions(b, at, size), size)
}

func lowerBorderBackward(l *ir.Lowering) hlo.Value {
	b, reflect := l.B, l.Bool()
	grad := as(b, l.In(0), l.Dtype.OpMath())
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	for k := len(l.Dims) - 1; l.Left() > 0; k-- {
		before, size, padded := l.Number(), l.Dims[k], grad.Dims()[k]
		if before.IsParameter() {
			zeros := b.Full(grad.Dtype(), 0, replaceDim(grad.Dims(), k, size)...)
			grad = putSlices(b, zeros, borderedIndex(b, size, padded, before, reflect), grad, k, hlo.Add)
			continue
		}
		grad = resample(b, grad, k, bordered(size, before.Constant, padded-size-before.Constant, reflect).transposed(int(size)))
	}
	return as(b, grad, l.Dtype)
}
