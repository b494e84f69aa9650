package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Rows of random numbers. Their parameters are parameters of the program.

func init() {
	register(
		&Row{Name: "uniform_", SelfOnly: true, Meta: metaUniform, Lower: distribution(uniform)},
		&Row{Name: "normal_", SelfOnly: true, Meta: metaNormalSelf, Lower: distribution(normal)},
		&Row{Name: "log_normal_", SelfOnly: true, Meta: metaLogNormal, Lower: distribution(logNormal)},
		&Row{Name: "exponential_", SelfOnly: true, Meta: metaExponential, Lower: distribution(exponential)},
		&Row{Name: "cauchy_", SelfOnly: true, Meta: metaCauchy, Lower: distribution(cauchy)},
		&Row{Name: "geometric_", SelfOnly: true, Meta: metaGeometric, Lower: distribution(geometric)},
		&Row{Name: "bernoulli_.float", SelfOnly: true, Meta: metaBernoulli(0, 1), Lower: distribution(bernoulli)},
		&Row{Name: "bernoulli_.Tensor", SelfOnly: true, Meta: metaBernoulli(0, 1), Lower: distribution(bernoulli)},
		&Row{Name: "bernoulli.p", Meta: metaBernoulli(0, 1), Lower: distribution(bernoulli)},
		&Row{Name: "bernoulli", Out: []string{"bernoulli.out"}, Meta: metaBernoulli(0, 0), Lower: distribution(bernoulli)},
		&Row{Name: "normal.Tensor_Tensor", Out: []string{"normal.Tensor_Tensor_out"}, Meta: metaNormal, Lower: distribution(normal)},
		&Row{Name: "normal.Tensor_float", Out: []string{"normal.Tensor_float_out"}, Meta: metaNormal, Lower: distribution(normal)},
		&Row{Name: "normal.float_Tensor", Out: []string{"normal.float_Tensor_out"}, Meta: metaNormal, Lower: distribution(normal)},
		&Row{Name: "random_", SelfOnly: true, Meta: metaRandom, Lower: lowerRandomInteger},
		&Row{Name: "random_.to", SelfOnly: true, Meta: metaRandom, Lower: lowerRandomInteger},
		&Row{Name: "random_.from", SelfOnly: true, Meta: metaRandom, Lower: lowerRandomInteger},
		&Row{Name: "randperm.generator", Out: []string{"randperm.generator_out"}, Meta: metaPermutation, Lower: lowerPermutation},
		&Row{Name: "native_dropout", Meta: metaDropout, LowerMany: lowerDropout},
		&Row{Name: "native_dropout_backward", Meta: metaDropoutBackward, Lower: lowerDropoutBackward},
	)
}

// fillRandom declares self filled with random numbers: the state, then the parameters.
func (c *Call) fillRandom(counters int64, parameters ...*ir.Node) error {
	c.draw(counters)
	c.Operand(parameters...)
	return c.Out(c.Dtype(0), c.Dims(0))
}

// floatSelf refuses a self that is not of a float type, in the words of torch's CPU kernel.
func (c *Call) floatSelf(kernel string) error {
	if d := c.Dtype(0); !d.IsFloat() {
		return status.Torchf(status.NotImplementedError, "\"%s\" not implemented for '%s'", kernel, torchClass(d))
	}
	return nil
}

// randomNumber makes the parameter of float argument i, in the type in which self's numbers are made.
func (c *Call) randomNumber(i int, def float64) *ir.Node {
	return c.FloatNode(c.Float(i, def), randomFloat(c.Dtype(0)))
}

// largest gives the greatest finite value of a float type.
func largest(d dtype.Dtype) float64 {
	switch d {
	case dtype.F16:
		return 65504
	case dtype.BF16:
		return math.Ldexp(255, 120)
	case dtype.F64:
		return math.MaxFloat64
	}
	return math.MaxFloat32
}

// metaUniform: (self, from, to, generator).
func metaUniform(c *Call) error {
	if !c.Dtype(0).IsComplex() {
		if err := c.floatSelf("check_uniform_bounds"); err != nil {
			return err
		}
	}
	from, to := c.Float(1, 0), c.Float(2, 1)
	limit := largest(c.Dtype(0).Real())
	name := demangledName(c.Dtype(0).Real())
	switch {
	case !(from >= -limit && from <= limit):
		return Errorf("from is out of bounds for %s", name)
	case !(to >= -limit && to <= limit):
		return Errorf("to is out of bounds for %s", name)
	case from > to:
		return Errorf("uniform_ expects to return a [from, to) range, but found from=%s > to=%s", numberText(from), numberText(to))
	case to-from > limit:
		return Errorf("uniform_ expects to-from <= std::numeric_limits<%s>::max(), but found to=%s and from=%s which result in to-from to exceed the limit",
			torchClass(c.Dtype(0)), numberText(to), numberText(from))
	}
	return c.fillRandom(c.randomCount(), c.randomNumber(1, 0), c.randomNumber(2, 1))
}

// randomCount is how many real numbers fill self.
func (c *Call) randomCount() int64 {
	count := shape.Product(c.Dims(0))
	if c.Dtype(0).IsComplex() {
		count *= 2
	}
	return count
}

// metaNormalSelf: (self, mean, std, generator).
func metaNormalSelf(c *Call) error {
	if std := c.Float(2, 1); !(std >= 0) {
		return Errorf("normal expects std >= 0.0, but found std %s", numberText(std))
	}
	wide := randomFloat(c.Dtype(0))
	std := c.FloatNode(c.Float(2, 1), wide)
	if c.Dtype(0).IsComplex() { // half of the variance for each part
		std = c.FloatNode(c.Float(2, 1)/math.Sqrt2, wide)
	} else if err := c.floatSelf("normal_kernel_cpu"); err != nil {
		return err
	}
	return c.fillRandom(normalCounters(c.randomCount(), c.Dtype(0)), c.randomNumber(1, 0), std)
}

func metaLogNormal(c *Call) error {
	if std := c.Float(2, 2); !(std > 0) {
		return Errorf("log_normal_ expects std > 0.0, but found std=%s", numberText(std))
	}
	if err := c.floatSelf("log_normal_cpu"); err != nil {
		return err
	}
	return c.fillRandom(normalCounters(shape.Product(c.Dims(0)), c.Dtype(0)), c.randomNumber(1, 1), c.randomNumber(2, 2))
}

func metaExponential(c *Call) error {
	if rate := c.Float(1, 1); !(rate > 0) {
		return Errorf("exponential_ expects lambda > 0.0, but found lambda=%s", numberText(rate))
	}
	if d := c.Dtype(0); !d.IsFloat() {
		return Errorf("Exponential distribution is a continuous probability distribution. dtype must be a floating point but you specified %s", torchClass(d))
	}
	return c.fillRandom(shape.Product(c.Dims(0)), c.randomNumber(1, 1))
}

func metaCauchy(c *Call) error {
	if sigma := c.Float(2, 1); !(sigma > 0) {
		return Errorf("cauchy_ expects sigma > 0.0, but found sigma=%s", numberText(sigma))
	}
	if d := c.Dtype(0); !d.IsFloat() {
		return Errorf("Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified %s", demangledName(d))
	}
	return c.fillRandom(shape.Product(c.Dims(0)), c.randomNumber(1, 0), c.randomNumber(2, 1))
}

func metaGeometric(c *Call) error {
	if p := c.Float(1, 0); !(p > 0 && p < 1) {
		return Errorf("geometric_ expects p to be in (0, 1), but got p=%s", numberText(p))
	}
	if d := c.Dtype(0); d == dtype.Bool || d.IsComplex() {
		return notImplemented("geometric_cpu", d)
	}
	return c.fillRandom(shape.Product(c.Dims(0)), c.randomNumber(1, 0))
}

// metaBernoulli: the result has the sizes and type of argument self; the probability is argument p.
func metaBernoulli(self, p int) func(c *Call) error {
	return func(c *Call) error {
		d, sizes := c.Dtype(self), c.Dims(self)
		if v := c.Float(p, 0.5); !c.IsTensor(p) && !(v >= 0 && v <= 1) {
			return Errorf("bernoulli_ expects p to be in [0, 1], but got p=%s", numberText(v))
		}
		switch {
		case d.IsComplex() && c.IsTensor(p):
			return notImplemented("bernoulli_tensor_cpu_self_", d)
		case d.IsComplex():
			return notImplemented("bernoulli_scalar_cpu_", d)
		case c.IsTensor(p) && !c.Dtype(p).IsFloat():
			return notImplemented("bernoulli_tensor_cpu_p_", c.Dtype(p))
		case c.IsTensor(p) && !broadcastsTo(c.Dims(p), sizes):
			return expandError(c.Dims(p), sizes)
		}
		wide := randomFloat(d)
		c.draw(shape.Product(sizes))
		if c.IsNone(p) {
			c.Operand(c.FloatNode(0.5, wide))
		} else {
			c.Operand(c.Value(p, wide))
		}
		return c.Out(d, sizes)
	}
}

// expandError is the error for sizes that do not expand to target.
func expandError(sizes, target []int64) error {
	if len(sizes) > len(target) {
		return Errorf("expand(torch.xlaTensor{%s}, size=%s): the number of sizes provided (%d) must be greater or equal to the number of dimensions in the tensor (%d)",
			dimsText(sizes), dimsText(target), len(target), len(sizes))
	}
	lead := len(target) - len(sizes)
	for k, n := range sizes {
		if n != 1 && n != target[lead+k] {
			return Errorf("The expanded size of the tensor (%d) must match the existing size (%d) at non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s",
				target[lead+k], n, lead+k, dimsText(target), dimsText(sizes))
		}
	}
	return nil
}

// metaNormal: (mean, std, generator), tensors or numbers.
func metaNormal(c *Call) error {
	d := c.Dtype(0)
	if !c.IsTensor(0) {
		d = c.Dtype(1)
	}
	for i := range 2 {
		if !c.IsTensor(i) {
			if v := c.Float(i, 0); i == 1 && !(v >= 0) {
				return Errorf("normal expects std >= 0.0, but found std %s", numberText(v))
			}
		} else if c.Dtype(i).IsComplex() {
			return Errorf("normal expects standard deviation to be non-complex")
		}
	}
	if !d.IsFloat() {
		return notImplemented("normal_kernel_cpu", d)
	}
	dims, err := c.BroadcastDims(0, 1)
	if err != nil {
		return err
	}
	wide := randomFloat(d)
	c.draw(normalCounters(shape.Product(dims), d))
	c.Operand(c.Value(0, wide), c.Value(1, wide))
	return c.Out(d, dims)
}

// integerRange gives the numbers [0, to) that a type's random_() draws from.
func integerRange(d dtype.Dtype) uint64 {
	switch d {
	case dtype.Bool:
		return 2
	case dtype.F16:
		return 1<<11 + 1
	case dtype.BF16:
		return 1<<8 + 1
	case dtype.F32:
		return 1<<24 + 1
	case dtype.F64:
		return 1<<53 + 1
	}
	if d.IsUnsigned() {
		if d.Size() == 8 {
			return 0 // all 64 bits
		}
		return 1 << (8 * d.Size())
	}
	return 1 << (8*d.Size() - 1)
}

// integerLimits gives the least and greatest integer that random_ may put into d.
func integerLimits(d dtype.Dtype) (low, high float64) {
	if d.IsFloat() {
		return -largest(d), largest(d)
	}
	if d == dtype.Bool {
		return 0, 1
	}
	if d.IsUnsigned() {
		return 0, math.Ldexp(1, int(8*d.Size())) - 1
	}
	high = math.Ldexp(1, int(8*d.Size())-1)
	return -high, high - 1
}

// metaRandom: (self, generator), (self, to, generator) or (self, from, to, generator).
func metaRandom(c *Call) error {
	d := c.Dtype(0)
	if d.IsComplex() {
		if c.row.Name == "random_" {
			return notImplemented("random_kernel_cpu", d)
		}
		return Errorf("check_random_bounds handles only integral, floating-point and boolean types")
	}
	from, size := int64(0), integerRange(d)
	name := demangledName(d)
	low, high := integerLimits(d)
	switch c.row.Name {
	case "random_.to", "random_.from":
		to := int64(0)
		if c.row.Name == "random_.to" {
			to = c.Int(1, 0)
		} else {
			from = c.Int(1, 0)
			if c.IsNone(2) { // up to the type's greatest integer
				if float64(from) < low || float64(from) > high {
					return Errorf("from is out of bounds for %s", name)
				}
				switch {
				case d.IsFloat():
					size = uint64(int64(size-1)-from) + 1
				case d.Size() == 8 && from == math.MinInt64:
					size = 0
				default:
					size -= uint64(from)
				}
				break
			}
			to = c.Int(2, 0)
		}
		if from >= to {
			return Errorf("random_ expects 'from' to be less than 'to', but got from=%d >= to=%d", from, to)
		}
		if float64(from) < low || float64(from) > high {
			return Errorf("from is out of bounds for %s", name)
		}
		if float64(to-1) < low || float64(to-1) > high {
			return Errorf("to - 1 is out of bounds for %s", name)
		}
		size = uint64(to) - uint64(from)
	}
	count := shape.Product(c.Dims(0))
	wide := size == 0 || size > 1<<32
	c.draw(count)
	c.Operand(c.IntNode(from), c.graph.Scalar(dtype.U64, size))
	c.AttrBool(wide)
	c.AttrBool(size == 0)
	return c.Out(d, c.Dims(0))
}

// lowerRandomInteger maps bits to [0, size): 32 of them by a multiplication whose high half is
// the number, 64 by the remainder (the bias is below 2^-32 for what anyone draws).
func lowerRandomInteger(l *ir.Lowering) hlo.Value {
	b := l.B
	count := shape.Product(l.Dims)
	if count == 0 {
		return b.Full(l.Dtype, 0, l.Dims...)
	}
	flat := []int64{count}
	size := b.BroadcastTo(l.In(3), flat)
	wide, whole := l.Bool(), l.Bool()
	var x hlo.Value
	switch {
	case whole:
		x = randomWords(b, l.In(0), l.In(1), dtype.U64, 0, count)
	case wide:
		x = b.Binary(hlo.Remainder, randomWords(b, l.In(0), l.In(1), dtype.U64, 0, count), size)
	default:
		x = b.Convert(randomWords(b, l.In(0), l.In(1), dtype.U32, 0, count), dtype.U64)
		x = b.Binary(hlo.ShiftRightLogical, b.Binary(hlo.Multiply, x, size), b.FullInt(dtype.U64, 32, count))
	}
	x = b.Binary(hlo.Add, b.Convert(x, dtype.S64), b.BroadcastTo(l.In(2), flat))
	return b.Reshape(as(b, x, l.Dtype), l.Dims)
}

// metaPermutation: (n, generator, dtype or out).
func metaPermutation(c *Call) error {
	n := c.Int(0, 0)
	if n < 0 {
		return Errorf("Trying to create tensor with negative dimension %d: [%d]", n, n)
	}
	d, err := c.madeDtype(2, dtype.S64)
	if err != nil {
		return err
	}
	if d == dtype.Bool || d.IsComplex() {
		return notImplemented("randperm", d)
	}
	if _, high := integerLimits(d); !d.IsFloat() && float64(n) > high {
		return Errorf("value cannot be converted to type %s without overflow", scalarTypeText(d))
	}
	if d == dtype.F16 && n > 2049 {
		return Errorf("n cannot be greater than 2049 for Half type.")
	}
	c.draw(n)
	c.dims = append(c.dims[:0], n)
	return c.Out(d, c.dims)
}

// lowerPermutation sorts the numbers by random keys.
func lowerPermutation(l *ir.Lowering) hlo.Value {
	b, n := l.B, l.Dims[0]
	if n == 0 {
		return b.Full(l.Dtype, 0, 0)
	}
	keys := randomWords(b, l.In(0), l.In(1), dtype.U64, 0, n)
	t := positionType(n)
	before := b.Computation("before", func(sub *hlo.Builder) {
		x, y := sub.Parameter(shape.Make(dtype.U64), "x"), sub.Parameter(shape.Make(dtype.U64), "y")
		sub.Parameter(shape.Make(t), "i")
		sub.Parameter(shape.Make(t), "j")
		sub.Return(sub.Compare("LT", x, y))
	})
	return as(b, b.Sort([]hlo.Value{keys, b.Iota(t, l.Dims, 0)}, 0, true, before)[1], l.Dtype)
}

func metaDropoutBackward(c *Call) error {
	d, err := c.FloatResultType(0)
	if err != nil {
		return err
	}
	c.Operand(c.Node(0), c.Node(1), c.FloatNode(c.Float(2, 1), d))
	return c.Out(d, c.Dims(0))
}

func lowerDropoutBackward(l *ir.Lowering) hlo.Value {
	b, d := l.B, l.Dtype.OpMath()
	kept := b.Binary(hlo.Multiply, operand(l, 0, d), operand(l, 1, d))
	return as(b, b.Binary(hlo.Multiply, kept, operand(l, 2, d)), l.Dtype)
}

// metaDropout: (input, p, train), and the default generator after them.
func metaDropout(c *Call) error {
	d, sizes, p := c.Dtype(0), c.Dims(0), c.Float(1, 0)
	if !(p >= 0 && p <= 1) {
		return Errorf("dropout probability has to be between 0 and 1, but got %s", numberText(p))
	}
	if !d.IsFloat() {
		return fallback(c, "the input is not of a float type")
	}
	train := c.IsNone(2) || c.Bool(2)
	c.draw(shape.Product(sizes))
	scale := 0.0
	if p < 1 {
		scale = 1 / (1 - p)
	}
	c.Operand(c.Node(0), c.FloatNode(1-p, d), c.FloatNode(scale, d))
	c.AttrBool(train)
	n := c.Many()
	c.Return(c.Element(n, 0, d, sizes))
	c.Return(c.Element(n, 1, dtype.Bool, sizes))
	return nil
}

func lowerDropout(l *ir.Lowering) []hlo.Value {
	b, x := l.B, l.In(2)
	dims := x.Dims()
	if !l.Bool() || shape.Product(dims) == 0 {
		return []hlo.Value{x, b.Full(dtype.Bool, 1, dims...)}
	}
	d := x.Dtype().OpMath()
	wide := randomFloat(d)
	words := randomWords(b, l.In(0), l.In(1), wordType(wide), 0, shape.Product(dims))
	u := b.Reshape(unit(b, words, mantissaBits(wide), wide), dims)
	keep := b.Compare("LT", u, b.BroadcastTo(as(b, l.In(3), wide), dims))
	kept := b.Binary(hlo.Multiply, as(b, x, d), as(b, keep, d))
	kept = b.Binary(hlo.Multiply, kept, b.BroadcastTo(as(b, l.In(4), d), dims))
	return []hlo.Value{as(b, kept, x.Dtype()), keep}
}
