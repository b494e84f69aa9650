package ops

import (
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Random bits and the distributions that follow from them alone. Bits come from Philox, keyed by
// the generator's seed and counting from its offset; both are parameters, so that drawing again
// runs the same program. The counter moves by one per four 32-bit words (measured on XLA's CPU
// plugin; it starts at the offset and a draw of n words ends at offset + ceil(n/4)), and the
// generator's offset by one per word, so that no two draws share bits. Bits are drawn as a
// vector: of other shapes XLA's expansion may count further than the number of words says.

// randomWords gives count random words of 32 or 64 bits.
func randomWords(b *hlo.Builder, seed, offset hlo.Value, d dtype.Dtype, count int64) hlo.Value {
	one := []int64{1}
	state := b.Concatenate([]hlo.Value{b.Reshape(seed, one), b.Reshape(offset, one)}, 0)
	_, bits := b.RngBitGenerator(hlo.RngPhilox, state, shape.Make(d, count))
	return bits
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

// draw adds the state for a draw of count numbers of d as the first two operands.
func (c *Call) draw(count int64, d dtype.Dtype) {
	words := count
	if d.Size() == 8 {
		words *= 2
	}
	seed, offset := c.SeedAndOffset(c.generatorArgument(), words)
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
// deviation 1: two of each pair of uniform ones (Box and Muller).
func standardNormal(b *hlo.Builder, seed, offset hlo.Value, d dtype.Dtype, count int64) hlo.Value {
	half := (count + 1) / 2
	words := randomWords(b, seed, offset, wordType(d), 2*half)
	radius, angle := sliceDim(b, words, 0, 0, half), sliceDim(b, words, 0, half, 2*half)
	dims := []int64{half}
	r := b.Unary(hlo.Log, openUnit(b, radius, d))
	r = b.Unary(hlo.Sqrt, b.Binary(hlo.Multiply, r, b.Full(d, -2, dims...)))
	a := b.Binary(hlo.Multiply, unit(b, angle, mantissaBits(d), d), b.Full(d, 2*math.Pi, dims...))
	both := b.Concatenate([]hlo.Value{
		b.Binary(hlo.Multiply, r, b.Unary(hlo.Cosine, a)),
		b.Binary(hlo.Multiply, r, b.Unary(hlo.Sine, a)),
	}, 0)
	return sliceDim(b, both, 0, 0, count)
}

// normalWords is the number of words that standardNormal draws.
func normalWords(count int64) int64 { return count + count%2 }

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
	return randomWords(r.Builder, r.seed, r.offset, wordType(r.compute), r.count)
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
