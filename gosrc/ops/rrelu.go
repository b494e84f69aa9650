package ops

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// The leaky relu with a random slope below zero.

func init() {
	register(&Row{Name: "rrelu_with_noise", InPlace: []string{"rrelu_with_noise_"}, Out: []string{"rrelu_with_noise.out"}, Meta: metaRrelu, LowerMany: lowerRrelu})
}

// metaRrelu: (self, noise, lower, upper, training, generator). Training writes the slopes to noise,
// which the gradient reads; otherwise the slope is halfway between the limits, and noise stays.
func metaRrelu(c *Call) error {
	const kernel = "rrelu_with_noise_out_cpu"
	d, dims := c.Dtype(0), c.Dims(0)
	lower, upper := c.Float(2, 1./8), c.Float(3, 1./3)
	noise := c.Dims(1)
	if !slices.Equal(noise, dims) {
		return Errorf("noise tensor shape must match self tensor shape. Got self.shape = %s noise.shape = %s", dimsText(dims), dimsText(noise))
	}
	if !c.Bool(4) {
		if err := require("leaky_relu_cpu", d, floats); err != nil {
			return err
		}
		c.Return(c.BuildRow("leaky_relu", d, dims, c.Node(0), c.FloatNode((lower+upper)/2, d)))
		return nil
	}
	if !(lower <= upper) {
		return Errorf("Expected from <= to to be true, but got false.")
	}
	if d == dtype.F16 {
		return notImplemented(kernel, d)
	}
	if err := require(kernel, d, floats); err != nil {
		return err
	}
	if n := c.Dtype(1); n != d {
		return Errorf("expected scalar type %s but found %s", torchClass(d), torchClass(n))
	}
	c.draw(shape.Product(dims))
	c.Operand(c.Node(0), c.FloatNode(lower, d), c.FloatNode(upper, d))
	n := c.Many()
	c.Return(c.Element(n, 0, d, dims))
	return c.Write(1, c.Element(n, 1, d, dims))
}

func lowerRrelu(l *ir.Lowering) []hlo.Value {
	e, x := elementwise{l.B}, l.In(2)
	d, dims := x.Dtype(), x.Dims()
	if shape.Product(dims) == 0 {
		return []hlo.Value{x, x}
	}
	wide := randomFloat(d)
	words := randomWords(l.B, l.In(0), l.In(1), wordType(wide), 0, shape.Product(dims))
	u := e.Reshape(unit(l.B, words, mantissaBits(d), wide), dims)
	lower, upper := as(l.B, l.In(3), wide), as(l.B, l.In(4), wide)
	slope := e.add(e.mul(u, e.BroadcastTo(e.sub(upper, lower), dims)), e.BroadcastTo(lower, dims))
	slope = as(l.B, slope, d)
	x = as(l.B, x, d.OpMath())
	below := e.atMost(x, e.zero(x))
	factor := e.Select(below, as(l.B, slope, d.OpMath()), e.one(x))
	return []hlo.Value{as(l.B, e.mul(x, factor), d), as(l.B, factor, d)}
}
