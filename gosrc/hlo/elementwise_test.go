package hlo_test

import (
	"math"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
)

func TestElementwiseConventions(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	out := run(t, func(b builder, p params) []hlo.Value {
		x, y, i, j := p[0], p[1], p[2], p[3]
		return []hlo.Value{
			b.Binary(hlo.Remainder, x, y), b.Unary(hlo.RoundNearestEven, x), b.Unary(hlo.RoundNearestAfz, x),
			b.Binary(hlo.Divide, i, j), b.Binary(hlo.Remainder, i, j), b.Binary(hlo.ShiftRightArithmetic, i, j),
			b.Binary(hlo.ShiftRightLogical, i, j), b.Unary(hlo.PopulationCount, i), b.Unary(hlo.Clz, j),
			b.Unary(hlo.Sign, x), b.Unary(hlo.IsFinite, p[4]), b.Compare("NE", p[4], p[4]),
			b.CompareTotalOrder("LT", p[4], b.Full(dtype.F32, 0, 4)), b.Unary(hlo.Not, p[5]), b.Unary(hlo.Not, i),
			b.Clamp(b.Scalar(dtype.F32, -1), x, b.Scalar(dtype.F32, 1)),
		}
	}, f32([]int64{4}, 2.5, -2.5, 3.5, -0.5), f32([]int64{4}, 2, 2, -2, 2),
		s32([]int64{4}, 7, -7, 7, -8), s32([]int64{4}, 2, 2, 3, 3),
		f32([]int64{4}, nan, inf, float32(math.Copysign(0, -1)), 1), of[bool](dtype.Bool, []int64{2}, true, false))
	same[float32](t, "remainder takes the dividend's sign", out[0], 0.5, -0.5, 1.5, -0.5)
	same[float32](t, "round to even", out[1], 2, -2, 4, float32(math.Copysign(0, -1)))
	same[float32](t, "round away", out[2], 3, -3, 4, -1)
	same[int32](t, "division truncates", out[3], 3, -3, 2, -2)
	same[int32](t, "integer remainder", out[4], 1, -1, 1, -2)
	same[int32](t, "arithmetic shift", out[5], 1, -2, 0, -1)
	same[int32](t, "logical shift", out[6], 1, 0x3ffffffe, 0, 0x1fffffff)
	same[int32](t, "population count", out[7], 3, 30, 3, 29)
	same[int32](t, "leading zeros", out[8], 30, 30, 30, 30)
	same[float32](t, "sign", out[9], 1, -1, 1, -1)
	same[uint8](t, "finite", out[10], 0, 0, 1, 1)
	same[uint8](t, "NaN differs from itself", out[11], 1, 0, 0, 0)
	same[uint8](t, "-0 is below 0 in total order", out[12], 0, 0, 1, 0)
	same[uint8](t, "not", out[13], 0, 1)
	same[int32](t, "bitwise not", out[14], -8, 6, -8, 7)
	same[float32](t, "clamp", out[15], 1, -1, 1, -0.5)
}

func TestConvertTruncatesAndSaturates(t *testing.T) {
	out := run(t, func(b builder, p params) []hlo.Value {
		return []hlo.Value{
			b.Convert(p[0], dtype.S32), b.Convert(p[0], dtype.Bool), b.Convert(p[0], dtype.BF16), b.Convert(p[1], dtype.U8),
			b.Convert(p[0], dtype.C64),
		}
	}, f32([]int64{5}, 1.9, -1.9, 1e10, float32(math.NaN()), 0), s32([]int64{2}, -1, 257))
	same[int32](t, "to s32", out[0], 1, -1, math.MaxInt32, 0, 0)
	same[uint8](t, "to pred", out[1], 1, 1, 1, 1, 0)
	same[uint16](t, "to bf16", out[2], 0x3ff3, 0xbff3, 0x5015, 0x7fc0, 0)
	same[uint8](t, "integers wrap", out[3], 255, 1)
	if got := values[complex64](t, out[4]); got[0] != complex(1.9, 0) {
		t.Errorf("to c64: got %v", got)
	}
}

func TestLinearAlgebra(t *testing.T) {
	// a = l times its transpose.
	l := []float32{2, 0, 0, 1, 3, 0, -1, 2, 1}
	a := f32([]int64{3, 3}, 4, 2, -2, 2, 10, 5, -2, 5, 6)
	out := run(t, func(b builder, p params) []hlo.Value {
		factor := b.Cholesky(p[0], true)
		row, column := b.Iota(dtype.S32, []int64{3, 3}, 0), b.Iota(dtype.S32, []int64{3, 3}, 1)
		lower := b.Select(b.Compare("GE", row, column), factor, b.Full(dtype.F32, 0, 3, 3))
		return []hlo.Value{
			lower, b.TriangularSolve(p[1], p[2], true, true, false, "N"), b.TriangularSolve(p[1], p[2], true, true, false, "T"),
			b.Unary(hlo.Real, b.Fft(b.Binary(hlo.Complex, p[3], b.Full(dtype.F32, 0, 4)), "FFT", []int64{4})),
			b.Fft(b.Fft(p[3], "RFFT", []int64{4}), "IRFFT", []int64{4}),
		}
	}, a, f32([]int64{3, 3}, l...), f32([]int64{3, 1}, 2, 7, 6), f32([]int64{4}, 1, 2, 3, 4))
	near(t, "cholesky", out[0], l...)
	near(t, "solve", out[1], 1, 2, 3)
	near(t, "solve transposed", out[2], 29.0/6, -5.0/3, 6)
	near(t, "fft", out[3], 10, -2, -2, -2)
	near(t, "rfft and back", out[4], 1, 2, 3, 4)
}

// near compares floats to six digits.
func near(t *testing.T, name string, data []byte, want ...float32) {
	t.Helper()
	got := values[float32](t, data)
	for i := range got {
		if len(got) != len(want) || math.Abs(float64(got[i]-want[i])) > 1e-5*(1+math.Abs(float64(want[i]))) {
			t.Errorf("%s: got %v, want %v", name, got, want)
			return
		}
	}
}
