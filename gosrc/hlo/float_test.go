package hlo_test

import (
	"math"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
)

var smallFloats = map[dtype.Dtype]int{
	dtype.F16: 16, dtype.BF16: 16, dtype.F8E5M2: 8, dtype.F8E4M3FN: 8, dtype.F8E5M2FNUZ: 8, dtype.F8E4M3FNUZ: 8,
}

// Every value of every small format rounds to itself, and a point between two neighbours rounds
// to the nearer one, at the middle to the even one.
func TestFloatBitsRoundsToNearestEven(t *testing.T) {
	for d, width := range smallFloats {
		sign := uint64(1) << (width - 1)
		for bits := uint64(0); bits+1 < sign; bits++ {
			low, high := hlo.FloatValue(d, bits), hlo.FloatValue(d, bits+1)
			if math.IsNaN(low) || math.IsInf(low, 0) {
				continue
			}
			if got := hlo.FloatBits(d, low); got != bits {
				t.Fatalf("%v: bits %#x are %v, which rounds to %#x", d, bits, low, got)
			}
			if low != 0 {
				if got := hlo.FloatBits(d, -low); got != bits|sign {
					t.Fatalf("%v: %v rounds to %#x, want %#x", d, -low, got, bits|sign)
				}
			}
			if math.IsNaN(high) || math.IsInf(high, 0) {
				continue
			}
			middle := (low + high) / 2
			even := bits + bits&1
			for v, want := range map[float64]uint64{
				middle: even, math.Nextafter(middle, 0): bits, math.Nextafter(middle, high): bits + 1,
			} {
				if got := hlo.FloatBits(d, v); got != want {
					t.Fatalf("%v: %v between %v and %v rounds to %#x, want %#x", d, v, low, high, got, want)
				}
			}
		}
	}
}

// The limits and special values, from the formats' definitions.
func TestSmallFloatSpecialValues(t *testing.T) {
	for _, c := range []struct {
		d    dtype.Dtype
		v    float64
		want uint64
	}{
		{dtype.F16, 65504, 0x7bff}, {dtype.F16, 65519, 0x7bff}, {dtype.F16, 65520, 0x7c00}, {dtype.F16, math.Inf(-1), 0xfc00},
		{dtype.F16, math.Copysign(0, -1), 0x8000}, {dtype.F16, 5.960464477539063e-08, 1}, {dtype.F16, 2.98e-08, 0},
		{dtype.BF16, 1, 0x3f80}, {dtype.BF16, 1 + 1.0/256, 0x3f80}, {dtype.BF16, 1 + 3.0/256, 0x3f82}, {dtype.BF16, 3.4e38, 0x7f80},
		{dtype.F8E5M2, 57344, 0x7b}, {dtype.F8E5M2, 1e9, 0x7c},
		{dtype.F8E4M3FN, 448, 0x7e}, {dtype.F8E4M3FN, 464, 0x7e}, {dtype.F8E4M3FN, 465, 0x7f}, {dtype.F8E4M3FN, math.Inf(1), 0x7f},
		{dtype.F8E4M3FNUZ, 240, 0x7f}, {dtype.F8E4M3FNUZ, 1e9, 0x80}, {dtype.F8E4M3FNUZ, math.Copysign(0, -1), 0},
		{dtype.F8E5M2FNUZ, 57344, 0x7f}, {dtype.F8E5M2FNUZ, math.NaN(), 0x80},
		// Rounding by way of f32 would lose the last bit and round to even.
		{dtype.BF16, 1 + 1.0/256 + 1.0/(1<<40), 0x3f81}, {dtype.F16, 1 + 1.0/2048 + 1.0/(1<<40), 0x3c01},
	} {
		if got := hlo.FloatBits(c.d, c.v); got != c.want {
			t.Errorf("%v: %v rounds to %#x, want %#x", c.d, c.v, got, c.want)
		}
	}
	for d := range smallFloats {
		if !math.IsNaN(hlo.FloatValue(d, hlo.FloatBits(d, math.NaN()))) {
			t.Errorf("%v: NaN does not stay NaN", d)
		}
	}
}
