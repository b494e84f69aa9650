package ops

import (
	"fmt"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// Average pooling: a sum over the window, divided by what torch counts.

// metaAvgPool: self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override.
func metaAvgPool(spatial int) func(c *Call) error {
	name := fmt.Sprintf("avg_pool%dd", spatial)
	kernel := name
	if spatial == 3 {
		kernel = "avg_pool3d_out_frame"
	}
	return func(c *Call) error {
		p, err := c.avgPoolArguments(name, spatial, 1)
		if err != nil {
			return err
		}
		dims, err := c.poolOutput(name+"()", &p, c.Dims(0), spatial, true)
		if err != nil {
			return err
		}
		d := c.Dtype(0)
		if !d.IsFloat() && d != dtype.S64 || d.Size() == 1 {
			return notImplemented(kernel, d)
		}
		c.Operand(c.Node(0))
		p.attach(c)
		c.AttrBool(c.Bool(5))
		c.Attr(c.Int(6, 0))
		return c.Out(d, dims)
	}
}

// avgPoolArguments reads kernel_size, stride, padding and ceil_mode from argument first on, and
// checks the divisor two after.
func (c *Call) avgPoolArguments(name string, spatial, first int) (pool, error) {
	p, err := c.poolArguments(name, spatial, first, -1, first+3)
	if err == nil && !c.IsNone(first+5) && c.Int(first+5, 1) == 0 {
		err = Errorf("divisor must be not zero")
	}
	return p, err
}

// divisor gives what each output is divided by, of dims out: a number that all share, or the
// product over the dimensions of how many positions count.
func (p *pool) divisor(b *hlo.Builder, d dtype.Dtype, in, out []int64, includePadding bool, override int64) hlo.Value {
	if override != 0 {
		return b.Full(d, float64(override), out...)
	}
	first := len(out) - len(p.kernel)
	shared := float64(1)
	var product hlo.Value
	for i, kernel := range p.kernel {
		size := in[first+i]
		counts := make([]float64, out[first+i])
		same := true
		for o := range counts {
			start := int64(o)*p.stride[i] - p.padding[i]
			end := min(start+kernel, size+p.padding[i])
			if !includePadding {
				start, end = max(start, 0), min(end, size)
			}
			counts[o] = float64(end - start)
			same = same && counts[o] == counts[0]
		}
		if same {
			shared *= counts[0]
			continue
		}
		v := b.Broadcast(vector(b, d, counts), out, []int{first + i})
		if product.Valid() {
			v = b.Binary(hlo.Multiply, product, v)
		}
		product = v
	}
	if !product.Valid() {
		return b.Full(d, shared, out...)
	}
	if shared != 1 {
		product = b.Binary(hlo.Multiply, product, b.Full(d, shared, out...))
	}
	return product
}

func lowerAvgPool(l *ir.Lowering) hlo.Value {
	b, p := l.B, readPool(l)
	includePadding, override := l.Bool(), l.Int()
	compute := l.Dtype.OpMath()
	x := as(b, l.In(0), compute)
	if shape.Product(l.Dims) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	sum := b.ReduceWindow(x, b.Full(compute, 0), p.window(x.Dims(), l.Dims), hlo.Add)
	return as(b, b.Binary(hlo.Divide, sum, p.divisor(b, compute, x.Dims(), l.Dims, includePadding, override)), l.Dtype)
}

// metaAvgPoolBackward: grad_output, self, then as metaAvgPool from kernel_size on.
func metaAvgPoolBackward(spatial int) func(c *Call) error {
	name := fmt.Sprintf("avg_pool%dd", spatial)
	return func(c *Call) error {
		p, err := c.avgPoolArguments(name, spatial, 2)
		if err != nil {
			return err
		}
		d := c.Dtype(1)
		if c.Dtype(0) != d {
			return Errorf("expected dtype %s for `gradOutput` but got dtype %s", demangledName(d), demangledName(c.Dtype(0)))
		}
		dims, err := c.poolOutput(name+"_backward()", &p, c.Dims(1), spatial, true)
		if err != nil {
			return err
		}
		if err := c.poolSizes(0, dims, spatial); err != nil {
			return err
		}
		c.Operand(c.Node(0))
		p.attach(c)
		c.AttrBool(c.Bool(6))
		c.Attr(c.Int(7, 0))
		return c.Out(d, c.Dims(1))
	}
}

// lowerAvgPoolBackward divides, spreads the gradient with holes for the stride, and sums the
// windows that an input is in.
func lowerAvgPoolBackward(l *ir.Lowering) hlo.Value {
	b, p := l.B, readPool(l)
	includePadding, override := l.Bool(), l.Int()
	compute := l.Dtype.OpMath()
	grad := as(b, l.In(0), compute)
	out := grad.Dims()
	if shape.Product(l.Dims) == 0 || shape.Product(out) == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	grad = b.Binary(hlo.Divide, grad, p.divisor(b, compute, l.Dims, out, includePadding, override))
	spread := *p
	spread.stride, spread.padding = []int64{1, 1, 1}[:len(p.kernel)], []int64{0, 0, 0}[:len(p.kernel)]
	low, high, holes := make([]int64, len(out)), make([]int64, len(out)), make([]int64, len(out))
	first := len(out) - len(p.kernel)
	for i, kernel := range p.kernel {
		k := first + i
		low[k], holes[k] = kernel-1-p.padding[i], p.stride[i]-1
		high[k] = l.Dims[k] + kernel - 1 - low[k] - (out[k]-1)*p.stride[i] - 1
	}
	grad = b.Pad(grad, b.Full(compute, 0), low, high, holes)
	return as(b, b.ReduceWindow(grad, b.Full(compute, 0), spread.window(grad.Dims(), l.Dims), hlo.Add), l.Dtype)
}
