package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Random numbers. Each is a function of the generator's seed and of a counter, its place in the
// sequence of all draws: element i of a draw takes the counter offset + i. Seed and offset are
// parameters, so that drawing again runs the same program. The function is Threefry-2x32 with 20
// rounds, written out elementwise: XLA fuses it with what consumes the numbers, and measured on
// XLA's CPU backend it costs a sixth of RngBitGenerator's Philox.

func init() {
	register(&Row{Name: "xla_go::generator_state", Meta: metaGeneratorState, Lower: lowerGeneratorState})
}

// threefryRotations are the distances of the rounds' rotations.
var threefryRotations = [8]int64{13, 15, 26, 6, 17, 29, 16, 24}

// threefryParity is combined with the key's words into the third word of the key schedule.
const threefryParity = 0x1BD11BDA

// halves gives the low and the high 32 bits of u64 values.
func halves(b *hlo.Builder, x hlo.Value) (low, high hlo.Value) {
	shift := b.FullInt(dtype.U64, 32, x.Dims()...)
	return b.Convert(x, dtype.U32), b.Convert(b.Binary(hlo.ShiftRightLogical, x, shift), dtype.U32)
}

// randomPairs gives count pairs of random u32 words; counters start at offset + first.
func randomPairs(b *hlo.Builder, seed, offset hlo.Value, first, count int64) (x, y hlo.Value) {
	dims := []int64{count}
	spread := func(v hlo.Value) hlo.Value { return b.Broadcast(v, dims, nil) }
	if first != 0 {
		offset = b.Binary(hlo.Add, offset, b.ScalarInt(dtype.U64, first))
	}
	counter := b.Binary(hlo.Add, b.Iota(dtype.U64, dims, 0), spread(offset))
	x, y = halves(b, counter)
	low, high := halves(b, seed)
	third := b.Binary(hlo.Xor, b.Binary(hlo.Xor, low, high), b.ScalarInt(dtype.U32, threefryParity))
	key := [3]hlo.Value{low, high, third}
	x, y = b.Binary(hlo.Add, x, spread(low)), b.Binary(hlo.Add, y, spread(high))
	var left, right [8]hlo.Value
	for i, distance := range threefryRotations {
		left[i], right[i] = b.FullInt(dtype.U32, distance, count), b.FullInt(dtype.U32, 32-distance, count)
	}
	for round := range 20 {
		i := round % 8
		x = b.Binary(hlo.Add, x, y)
		y = b.Binary(hlo.Or, b.Binary(hlo.ShiftLeft, y, left[i]), b.Binary(hlo.ShiftRightLogical, y, right[i]))
		y = b.Binary(hlo.Xor, y, x)
		if round%4 == 3 { // a group of the key schedule
			group := round/4 + 1
			x = b.Binary(hlo.Add, x, spread(key[group%3]))
			y = b.Binary(hlo.Add, y, spread(b.Binary(hlo.Add, key[(group+1)%3], b.ScalarInt(dtype.U32, int64(group)))))
		}
	}
	return x, y
}

// randomWords gives count random words of 32 or 64 bits, one per counter.
func randomWords(b *hlo.Builder, seed, offset hlo.Value, d dtype.Dtype, first, count int64) hlo.Value {
	x, y := randomPairs(b, seed, offset, first, count)
	if d == dtype.U32 {
		return x
	}
	return joinHalves(b, x, y)
}

// joinHalves gives the u64 values of low and high words.
func joinHalves(b *hlo.Builder, low, high hlo.Value) hlo.Value {
	high = b.Binary(hlo.ShiftLeft, b.Convert(high, dtype.U64), b.FullInt(dtype.U64, 32, high.Dims()...))
	return b.Binary(hlo.Or, b.Convert(low, dtype.U64), high)
}

// generatorArgument gives the number of the generator argument.
func (c *Call) generatorArgument() int {
	for i := len(c.Args) - 1; i >= 0; i-- {
		if c.Args[i].Tag == TagGenerator {
			return i
		}
	}
	panic(status.Errorf(status.Internal, "%s(): expected a generator among the arguments, got none", c.row.Name))
}

// draw adds the state for a draw of that many counters as the first two operands.
func (c *Call) draw(counters int64) {
	seed, offset := c.SeedAndOffset(c.generatorArgument(), counters)
	c.Operand(seed, offset)
}

// randomFloat is a type in which random numbers are made: its width decides how many bits they
// have.
func randomFloat(d dtype.Dtype) dtype.Dtype {
	if d == dtype.F64 || d == dtype.C128 {
		return dtype.F64
	}
	return dtype.F32
}

// wordType is the type of the bits that a random number of d is made of.
func wordType(d dtype.Dtype) dtype.Dtype {
	if d.Size() == 8 {
		return dtype.U64
	}
	return dtype.U32
}

// topBits gives the highest bits of each word as a number of float type d; it must hold them.
func topBits(b *hlo.Builder, words hlo.Value, bits int, d dtype.Dtype) hlo.Value {
	w := words.Dtype()
	shift := w.Size()*8 - int64(bits)
	words = b.Binary(hlo.ShiftRightLogical, words, b.FullInt(w, shift, words.Dims()...))
	if w == dtype.U32 { // s32 converts faster, and the top bit is clear
		words = b.Convert(words, dtype.S32)
	}
	return b.Convert(words, d)
}

// mantissaBits is the number of random bits that an element of d can hold in [0, 1).
func mantissaBits(d dtype.Dtype) int {
	switch d {
	case dtype.F64:
		return 53
	case dtype.F16:
		return 11
	case dtype.BF16:
		return 8
	}
	return 24
}

// unit gives numbers in [0, 1), multiples of 2^-bits, of float type d.
func unit(b *hlo.Builder, words hlo.Value, bits int, d dtype.Dtype) hlo.Value {
	x := topBits(b, words, bits, d)
	return b.Binary(hlo.Multiply, x, b.Full(d, math.Ldexp(1, -bits), x.Dims()...))
}

// openUnit gives numbers in (0, 1) of float type d.
func openUnit(b *hlo.Builder, words hlo.Value, d dtype.Dtype) hlo.Value {
	bits := mantissaBits(d) - 1 // with the half added, the largest still is below 1
	x := topBits(b, words, bits, d)
	x = b.Binary(hlo.Add, x, b.Full(d, 0.5, x.Dims()...))
	return b.Binary(hlo.Multiply, x, b.Full(d, math.Ldexp(1, -bits), x.Dims()...))
}

// standardNormal gives count numbers of float type d, normally distributed with mean 0 and
// deviation 1. f32 is the inverse of the distribution's tail at a number of 31 bits, with a random
// sign, so that it reaches 6 deviations; f64 is the one with the cosine of the two numbers that
// Box and Muller make of two uniform ones.
func standardNormal(b *hlo.Builder, seed, offset hlo.Value, d dtype.Dtype, count int64) hlo.Value {
	x, y := randomPairs(b, seed, offset, 0, count)
	if d == dtype.F64 {
		radius := b.Unary(hlo.Log, openUnit(b, joinHalves(b, x, y), d))
		radius = b.Unary(hlo.Sqrt, b.Binary(hlo.Multiply, radius, b.Full(d, -2, count)))
		angle := unit(b, randomWords(b, seed, offset, dtype.U64, count, count), mantissaBits(d), d)
		angle = b.Binary(hlo.Multiply, angle, b.Full(d, 2*math.Pi, count))
		return b.Binary(hlo.Multiply, radius, b.Unary(hlo.Cosine, angle))
	}
	e := elementwise{b}
	tail := e.scale(e.addNumber(topBits(b, x, 31, d), 0.5), math.Ldexp(1, -31))
	z := e.scale(e.erfinvOfTail(tail), math.Sqrt2)
	return e.Select(b.Compare("LT", b.Convert(y, dtype.S32), b.Full(dtype.S32, 0, count)), e.neg(z), z)
}

// normalCounters is the number of counters that standardNormal uses.
func normalCounters(count int64, d dtype.Dtype) int64 {
	if randomFloat(d) == dtype.F64 {
		return 2 * count
	}
	return count
}

// drawn is what a lowering of a distribution gets: the words' source and the numbers to make.
type drawn struct {
	*hlo.Builder
	seed, offset hlo.Value
	count        int64
	compute      dtype.Dtype // float type of the formula
	result       dtype.Dtype
	parameters   []hlo.Value // broadcast to [count], of type compute
}

func (r *drawn) words() hlo.Value {
	return randomWords(r.Builder, r.seed, r.offset, wordType(r.compute), 0, r.count)
}

func (r *drawn) full(v float64) hlo.Value { return r.Full(r.compute, v, r.count) }

// distribution lowers to a formula on a vector of the result's number of elements. Operands are
// the seed, the offset and the distribution's parameters, scalars or of the result's dimensions.
func distribution(f func(r *drawn) hlo.Value) func(l *ir.Lowering) hlo.Value {
	return func(l *ir.Lowering) hlo.Value {
		b := l.B
		r := &drawn{Builder: b, seed: l.In(0), offset: l.In(1), count: shape.Product(l.Dims),
			compute: randomFloat(l.Dtype), result: l.Dtype}
		if l.Dtype.IsComplex() { // real parts first
			r.count *= 2
		}
		if r.count == 0 {
			return b.Full(l.Dtype, 0, l.Dims...)
		}
		flat := []int64{r.count}
		for i := 2; i < l.Count(); i++ {
			p := as(b, l.In(i), r.compute)
			if p.Rank() > 0 {
				p = b.Reshape(b.BroadcastTo(p, l.Dims), flat)
			}
			r.parameters = append(r.parameters, b.BroadcastTo(p, flat))
		}
		x := f(r)
		if l.Dtype.IsComplex() {
			x = b.Binary(hlo.Complex, sliceDim(b, x, 0, 0, r.count/2), sliceDim(b, x, 0, r.count/2, r.count))
		}
		return b.Reshape(as(b, x, l.Dtype), l.Dims)
	}
}

// uniform is from + u (to - from) with as many random bits as the result holds.
func uniform(r *drawn) hlo.Value {
	u := unit(r.Builder, r.words(), mantissaBits(r.result.Real()), r.compute)
	from, to := r.parameters[0], r.parameters[1]
	return r.Binary(hlo.Add, r.Binary(hlo.Multiply, u, r.Binary(hlo.Subtract, to, from)), from)
}

// normal is mean + deviation * z.
func normal(r *drawn) hlo.Value {
	z := standardNormal(r.Builder, r.seed, r.offset, r.compute, r.count)
	return r.Binary(hlo.Add, r.Binary(hlo.Multiply, z, r.parameters[1]), r.parameters[0])
}

func logNormal(r *drawn) hlo.Value { return r.Unary(hlo.Exp, normal(r)) }

// exponentialUnit is -log(u), never 0: that would divide by zero where it is used as a race.
func exponentialUnit(r *drawn) hlo.Value {
	u := openUnit(r.Builder, r.words(), r.compute)
	return r.Unary(hlo.Negate, r.Unary(hlo.Log, u))
}

func exponential(r *drawn) hlo.Value {
	return r.Binary(hlo.Divide, exponentialUnit(r), r.parameters[0])
}

// cauchy is median + sigma tan(pi (u - 1/2)).
func cauchy(r *drawn) hlo.Value {
	u := r.Binary(hlo.Subtract, openUnit(r.Builder, r.words(), r.compute), r.full(0.5))
	t := r.Unary(hlo.Tan, r.Binary(hlo.Multiply, u, r.full(math.Pi)))
	return r.Binary(hlo.Add, r.Binary(hlo.Multiply, t, r.parameters[1]), r.parameters[0])
}

// geometric is ceil(log(u) / log(1 - p)), at least 1.
func geometric(r *drawn) hlo.Value {
	log := r.Unary(hlo.Log, openUnit(r.Builder, r.words(), r.compute))
	x := r.Binary(hlo.Divide, log, r.Unary(hlo.Log1p, r.Unary(hlo.Negate, r.parameters[0])))
	return r.Binary(hlo.Maximum, r.Unary(hlo.Ceil, x), r.full(1))
}

// bernoulli is u < p.
func bernoulli(r *drawn) hlo.Value {
	u := unit(r.Builder, r.words(), mantissaBits(r.compute), r.compute)
	return r.Compare("LT", u, r.parameters[0])
}

// erfinvOfTail is erfinv(1 - tail) of f32 for tail in [2^-32, 1], where 1 - tail would round.
func (e elementwise) erfinvOfTail(tail hlo.Value) hlo.Value {
	w := e.neg(e.log(e.mul(tail, e.sub(e.number(tail, 2), tail))))
	center := e.mul(e.sub(e.one(tail), tail), e.chebyshev(e.addNumber(e.scale(w, 0.4), -1), erfinvSeries))
	low, high := math.Sqrt(5), 6.2
	t := e.addNumber(e.scale(e.sqrt(w), 2/(high-low)), -(high+low)/(high-low))
	return e.Select(e.less(w, e.number(w, 5)), center, e.chebyshev(t, erfinvTailSeries))
}

// metaGeneratorState: (self, numbers, generator). self says the device alone. The generator moves on by as many numbers.
func metaGeneratorState(c *Call) error {
	numbers := c.Int(1, 0)
	if numbers < 0 {
		return status.Torchf(status.ValueError, "%s(): expected how many numbers will be drawn, got %d", c.row.Name, numbers)
	}
	c.draw(numbers)
	return c.Out(dtype.U64, []int64{2})
}

func lowerGeneratorState(l *ir.Lowering) hlo.Value {
	seed, offset := l.B.Reshape(l.In(0), []int64{1}), l.B.Reshape(l.In(1), []int64{1})
	return l.B.Concatenate([]hlo.Value{seed, offset}, 0)
}
