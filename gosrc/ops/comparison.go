package ops

import (
	"math"
	"strings"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/status"
)

// Comparisons and predicates: results are bool.

func init() {
	for _, name := range []string{"eq", "ne", "lt", "le", "gt", "ge"} {
		direction := strings.ToUpper(name)
		allowed := bools | reals
		if name == "eq" || name == "ne" {
			allowed = anyKind
		}
		lower := lowerTyped(func(e elementwise, in []hlo.Value) hlo.Value { return e.Compare(direction, in[0], in[1]) })
		for _, overload := range []string{"Tensor", "Scalar"} {
			register(&Row{
				Name:    name + "." + overload,
				InPlace: []string{name + "_." + overload},
				Out:     []string{name + "." + overload + "_out"},
				Meta:    metaCompare(name+"_cpu", allowed),
				Lower:   lower,
			})
		}
	}
	register(
		&Row{Name: "isnan", Out: []string{"isnan.out"}, Meta: metaPredicate("isnan", anyKind), Lower: lowerTyped(ofOne(elementwise.isNaN))},
		&Row{Name: "isposinf", Out: []string{"isposinf.out"}, Meta: metaPredicate("isposinf", bools|reals), Lower: lowerTyped(isInfinityOf(1))},
		&Row{Name: "isneginf", Out: []string{"isneginf.out"}, Meta: metaPredicate("isneginf", bools|reals), Lower: lowerTyped(isInfinityOf(-1))},
		&Row{Name: "signbit", Out: []string{"signbit.out"}, Meta: metaPredicate("signbit", bools|reals), Lower: lowerTyped(ofOne(elementwise.signBit))},
		&Row{Name: "maximum", Out: []string{"maximum.out"}, Meta: metaMaximum, Lower: lowerFormula(ofTwo(elementwise.max))},
		&Row{Name: "minimum", Out: []string{"minimum.out"}, Meta: metaMaximum, Lower: lowerFormula(ofTwo(elementwise.min))},
		&Row{Name: "fmax", Out: []string{"fmax.out"}, Meta: metaMaximum, Lower: lowerFormula(ignoringNaN(elementwise.max))},
		&Row{Name: "fmin", Out: []string{"fmin.out"}, Meta: metaMaximum, Lower: lowerFormula(ignoringNaN(elementwise.min))},
		&Row{Name: "heaviside", InPlace: []string{"heaviside_"}, Out: []string{"heaviside.out"}, Meta: metaHeaviside, Lower: lowerFormula(heaviside)},
	)
}

// metaCompare compares in the promoted type of the operands, to which numbers are rounded.
func metaCompare(kernel string, allowed kinds) func(c *Call) error {
	return func(c *Call) error {
		d, err := c.ResultType(0, 1)
		if err != nil {
			return err
		}
		if err := require(kernel, d, allowed); err != nil {
			return err
		}
		c.Attr(int64(d))
		dims, err := c.BroadcastDims(0, 1)
		if err != nil {
			return err
		}
		c.Operand(c.Value(0, d), c.Value(1, d))
		return c.Out(dtype.Bool, dims)
	}
}

// metaPredicate declares a bool for each element of argument 0.
func metaPredicate(name string, allowed kinds) func(c *Call) error {
	return func(c *Call) error {
		d := c.Dtype(0)
		if kindOf(d)&allowed == 0 {
			if name == "signbit" {
				return status.Torchf(status.NotImplementedError, "signbit is not implemented for complex tensors.")
			}
			return status.Torchf(status.TypeError, "%s does not support complex inputs.", name)
		}
		c.Operand(c.Node(0))
		c.Attr(int64(d))
		return c.Out(dtype.Bool, c.Dims(0))
	}
}

func isInfinityOf(sign int) formula {
	return func(e elementwise, in []hlo.Value) hlo.Value {
		x := in[0]
		if !x.Dtype().IsFloat() {
			return e.Full(dtype.Bool, 0, x.Dims()...)
		}
		return e.equal(x, e.number(x, math.Inf(sign)))
	}
}

// ofTwo is a formula of two operands.
func ofTwo(f func(e elementwise, x, y hlo.Value) hlo.Value) formula {
	return func(e elementwise, in []hlo.Value) hlo.Value { return f(e, in[0], in[1]) }
}

// ignoringNaN is a formula that takes the other operand where one is NaN.
func ignoringNaN(f func(e elementwise, x, y hlo.Value) hlo.Value) formula {
	return func(e elementwise, in []hlo.Value) hlo.Value {
		x, y := in[0], in[1]
		if !x.Dtype().IsFloat() {
			return f(e, x, y)
		}
		return e.Select(e.isNaN(x), y, e.Select(e.isNaN(y), x, f(e, x, y)))
	}
}

func metaMaximum(c *Call) error {
	for i := 0; i < 2; i++ {
		if c.operandDtype(i).IsComplex() {
			return status.Torchf(status.TypeError, "%s not implemented for complex tensors.", c.row.Name)
		}
	}
	return metaBinary(c)
}

func metaHeaviside(c *Call) error {
	d, values := c.operandDtype(0), c.operandDtype(1)
	switch {
	case d.IsComplex() || values.IsComplex():
		return status.Torchf(status.NotImplementedError, "heaviside is not yet implemented for complex tensors.")
	case d != values:
		return Errorf("heaviside is not yet implemented for tensors with different dtypes.")
	}
	return c.binary(d)
}

func heaviside(e elementwise, in []hlo.Value) hlo.Value {
	x := in[0]
	if x.Dtype() == dtype.Bool {
		return e.or(x, in[1])
	}
	step := e.Select(e.isPositive(x), e.one(x), e.zero(x))
	return e.Select(e.isZero(x), in[1], step)
}
