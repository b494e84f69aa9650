package hlo_test

import (
	"bytes"
	"math"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
)

type (
	builder = *hlo.Builder
	params  = []hlo.Value
)

func TestGatherClampsAndOrdersDimensions(t *testing.T) {
	x := count(4, 3) // rows 1 2 3 / 4 5 6 / 7 8 9 / 10 11 12
	out := run(t, func(b builder, p params) []hlo.Value {
		return []hlo.Value{
			b.Gather(p[0], p[1], hlo.GatherDims{OffsetDims: []int64{1}, CollapsedSliceDims: []int64{0}, StartIndexMap: []int64{0},
				IndexVectorDim: 1, SliceSizes: []int64{1, 3}}),
			// The slices' rows come first in the result.
			b.Gather(p[0], p[1], hlo.GatherDims{OffsetDims: []int64{0, 1}, StartIndexMap: []int64{0}, IndexVectorDim: 1, SliceSizes: []int64{2, 1}}),
			// Index vectors (column, row) lie along dimension 0.
			b.Gather(p[0], p[2], hlo.GatherDims{CollapsedSliceDims: []int64{0, 1}, StartIndexMap: []int64{1, 0}, SliceSizes: []int64{1, 1}}),
			// One column for each row.
			b.Gather(p[0], b.Reshape(p[3], []int64{4, 1}), hlo.GatherDims{CollapsedSliceDims: []int64{1}, StartIndexMap: []int64{1},
				OperandBatchingDims: []int64{0}, IndicesBatchingDims: []int64{0}, IndexVectorDim: 1, SliceSizes: []int64{1, 1}}),
		}
	}, x, s32([]int64{3}, 2, 0, 9), s32([]int64{2, 2}, 0, 2, 3, 1), s32([]int64{4}, 0, 2, 1, 0))
	same[float32](t, "rows", out[0], 7, 8, 9, 1, 2, 3, 10, 11, 12)
	same[float32](t, "offsets first", out[1], 7, 1, 7, 10, 4, 10)
	same[float32](t, "elements", out[2], 10, 6)
	same[float32](t, "batched", out[3], 1, 6, 8, 10)
}

func TestScatterAddsSetsAndSkips(t *testing.T) {
	rows := hlo.ScatterDims{UpdateWindowDims: []int64{1}, InsertedWindowDims: []int64{0}, ScatterDimsToOperandDims: []int64{0}, IndexVectorDim: 1}
	out := run(t, func(b builder, p params) []hlo.Value {
		add := b.ScalarComputation(hlo.Add, dtype.F32)
		set := b.ScalarComputation(hlo.Second, dtype.F32)
		updates := b.Slice(p[1], []int64{0, 0}, []int64{3, 2}, nil)
		both := b.Computation("both", func(sub *hlo.Builder) {
			x, i := sub.Parameter(shape.Make(dtype.F32), ""), sub.Parameter(shape.Make(dtype.S32), "")
			u, v := sub.Parameter(shape.Make(dtype.F32), ""), sub.Parameter(shape.Make(dtype.S32), "")
			sub.Return(sub.Binary(hlo.Maximum, x, u), sub.Binary(hlo.Add, i, v))
		})
		two := b.Scatter([]hlo.Value{p[0], b.FullInt(dtype.S32, 0, 3, 2)}, p[2],
			[]hlo.Value{updates, b.FullInt(dtype.S32, 1, 3, 2)}, rows, both)
		return append(append(
			b.Scatter([]hlo.Value{p[0]}, p[2], []hlo.Value{updates}, rows, add),
			b.Scatter([]hlo.Value{p[0]}, p[3], []hlo.Value{updates}, rows, set)...), two...)
	}, f32([]int64{3, 2}, 10, 20, 30, 40, 50, 60), count(3, 2), s32([]int64{3}, 1, 1, 7), s32([]int64{3}, 2, 5, 0))
	same[float32](t, "add", out[0], 10, 20, 30+1+3, 40+2+4, 50, 60)
	same[float32](t, "set", out[1], 5, 6, 30, 40, 1, 2)
	same[float32](t, "maximum", out[2], 10, 20, 30, 40, 50, 60)
	same[int32](t, "counts", out[3], 0, 0, 2, 2, 0, 0)
}

func TestReduceWindowPadsStridesAndDilates(t *testing.T) {
	out := run(t, func(b builder, p params) []hlo.Value {
		zero := b.Scalar(dtype.F32, 0)
		return []hlo.Value{
			b.ReduceWindow(p[0], b.MinValue(dtype.F32), hlo.Window{Size: []int64{3}, Stride: []int64{2}, PadLow: []int64{1}, PadHigh: []int64{1}}, hlo.Maximum),
			b.ReduceWindow(p[0], zero, hlo.Window{Size: []int64{2}, WindowDilation: []int64{3}}, hlo.Add),
			b.ReduceWindow(p[0], zero, hlo.Window{Size: []int64{2}, BaseDilation: []int64{2}}, hlo.Add),
			// A cumulative sum.
			b.ReduceWindow(p[0], zero, hlo.Window{Size: []int64{5}, PadLow: []int64{4}}, hlo.Add),
			b.ReduceWindow(p[0], zero, hlo.Window{Size: []int64{2}, PadLow: []int64{-1}, PadHigh: []int64{-1}}, hlo.Add),
			b.ReduceWindow(p[0], zero, hlo.Window{Size: []int64{6}}, hlo.Add),
		}
	}, count(5))
	same[float32](t, "max", out[0], 2, 4, 5)
	same[float32](t, "window dilation", out[1], 1+4, 2+5)
	same[float32](t, "base dilation", out[2], 1, 2, 2, 3, 3, 4, 4, 5)
	same[float32](t, "cumulative", out[3], 1, 3, 6, 10, 15)
	same[float32](t, "negative padding", out[4], 2+3, 3+4)
	same[float32](t, "window too large", out[5])
}

func TestReduceManyKeepsPairs(t *testing.T) {
	out := run(t, func(b builder, p params) []hlo.Value {
		best := b.Computation("best", func(sub *hlo.Builder) {
			x, i := sub.Parameter(shape.Make(dtype.F32), ""), sub.Parameter(shape.Make(dtype.S32), "")
			y, j := sub.Parameter(shape.Make(dtype.F32), ""), sub.Parameter(shape.Make(dtype.S32), "")
			larger := sub.Binary(hlo.Or, sub.Compare("GT", x, y), sub.Binary(hlo.And, sub.Compare("EQ", x, y), sub.Compare("LT", i, j)))
			sub.Return(sub.Select(larger, x, y), sub.Select(larger, i, j))
		})
		index := b.Iota(dtype.S32, []int64{2, 3}, 1)
		return b.Reduce([]hlo.Value{p[0], index}, []hlo.Value{b.MinValue(dtype.F32), b.MaxValue(dtype.S32)}, []int{1}, best)
	}, f32([]int64{2, 3}, 1, 5, 5, 9, -1, 3))
	same[float32](t, "maximum", out[0], 5, 9)
	same[int32](t, "argmax", out[1], 1, 0)
}

func TestSelectAndScatterIsMaxPoolBackward(t *testing.T) {
	out := run(t, func(b builder, p params) []hlo.Value {
		return one(b.SelectAndScatter(p[0], p[1], b.Scalar(dtype.F32, 0),
			hlo.Window{Size: []int64{2}, Stride: []int64{1}}, "GE", hlo.Add))
	}, f32([]int64{4}, 1, 9, 2, 3), f32([]int64{3}, 10, 20, 30))
	same[float32](t, "gradient", out[0], 0, 30, 0, 30)
}

func TestSortIsStableAndMovesAllOperands(t *testing.T) {
	out := run(t, func(b builder, p params) []hlo.Value {
		less := b.Computation("less", func(sub *hlo.Builder) {
			x, y := sub.Parameter(shape.Make(dtype.F32), ""), sub.Parameter(shape.Make(dtype.F32), "")
			sub.Parameter(shape.Make(dtype.S32), "")
			sub.Parameter(shape.Make(dtype.S32), "")
			sub.Return(sub.CompareTotalOrder("LT", x, y))
		})
		return b.Sort([]hlo.Value{p[0], b.Iota(dtype.S32, []int64{6}, 0)}, 0, true, less)
	}, f32([]int64{6}, 2, 1, float32(math.NaN()), 2, float32(math.Inf(-1)), 1))
	same(t, "sorted", out[0], float32(math.Inf(-1)), 1, 1, 2, 2, float32(math.NaN()))
	same[int32](t, "order", out[1], 4, 1, 5, 0, 3, 2)
}

func TestWhileAndConditionalPassState(t *testing.T) {
	program := func(b builder, p params) []hlo.Value {
		state := []shape.Shape{shape.Make(dtype.S32), shape.Make(dtype.F32, 2)}
		below := b.Computation("below", func(sub *hlo.Builder) {
			s := sub.StateParameters(state)
			sub.Return(sub.Compare("LT", s[0], sub.Scalar(dtype.S32, 5)))
		})
		double := b.Computation("double", func(sub *hlo.Builder) {
			s := sub.StateParameters(state)
			sub.Return(sub.Binary(hlo.Add, s[0], sub.Scalar(dtype.S32, 1)), sub.Binary(hlo.Add, s[1], s[1]))
		})
		negate := b.Computation("negate", func(sub *hlo.Builder) {
			s := sub.StateParameters(state)
			sub.Return(s[0], sub.Unary(hlo.Negate, s[1]))
		})
		out := b.While([]hlo.Value{p[0], p[1]}, below, double)
		return append(out, b.Conditional(p[2], double, negate, out)...)
	}
	x := f32([]int64{2}, 1, 3)
	out := run(t, program, s32(nil, 2), x, of[bool](dtype.Bool, nil, false))
	same[int32](t, "counter", out[0], 5)
	same[float32](t, "doubled", out[1], 8, 24)
	same[float32](t, "false branch", out[3], -8, -24)
	out = run(t, program, s32(nil, 7), x, of[bool](dtype.Bool, nil, true))
	same[float32](t, "no iteration", out[1], 1, 3)
	same[int32](t, "true branch counter", out[2], 8)
	same[float32](t, "true branch", out[3], 2, 6)
}

func TestBitcastAcrossWidths(t *testing.T) {
	out := run(t, func(b builder, p params) []hlo.Value {
		narrow := b.BitcastConvert(p[0], dtype.U8)
		return []hlo.Value{narrow, b.BitcastConvert(narrow, dtype.F32), b.BitcastConvert(p[0], dtype.S32), b.BitcastConvert(p[1], dtype.U64)}
	}, f32([]int64{2}, 1, -2), of[uint32](dtype.U32, []int64{1, 2}, 1, 2))
	same[uint8](t, "bytes", out[0], 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0)
	same[float32](t, "back", out[1], 1, -2)
	same[int32](t, "bits", out[2], 0x3f800000, -0x40000000)
	same[uint64](t, "joined", out[3], 2<<32|1)
}

func TestRandomBitsFollowTheState(t *testing.T) {
	for _, c := range []struct {
		algorithm hlo.Algorithm
		state     array
	}{
		{hlo.RngThreeFry, of[uint64](dtype.U64, []int64{2}, 7, 0)},
		{hlo.RngPhilox, of[uint64](dtype.U64, []int64{3}, 7, 0, 0)},
		{hlo.RngDefault, of[uint64](dtype.U64, []int64{2}, 7, 0)},
	} {
		program := func(b builder, p params) []hlo.Value {
			s, bits := b.RngBitGenerator(c.algorithm, p[0], shape.Make(dtype.U32, 64))
			next, more := b.RngBitGenerator(c.algorithm, s, shape.Make(dtype.U32, 64))
			return []hlo.Value{bits, more, next}
		}
		first, again := run(t, program, c.state), run(t, program, c.state)
		for i := range first {
			if !bytes.Equal(first[i], again[i]) {
				t.Errorf("algorithm %d: equal states give different output %d", c.algorithm, i)
			}
		}
		if bytes.Equal(first[0], first[1]) || bytes.Equal(first[2], c.state.data) {
			t.Errorf("algorithm %d: the state does not move on", c.algorithm)
		}
		ones := 0
		for _, v := range first[0] {
			for ; v != 0; v &= v - 1 {
				ones++
			}
		}
		if ones < 900 || ones > 1150 { // of 2048, five standard deviations
			t.Errorf("algorithm %d: %d of 2048 bits are set", c.algorithm, ones)
		}
	}
}

func TestConstantsReachTheDevice(t *testing.T) {
	out := run(t, func(b builder, _ params) []hlo.Value {
		return []hlo.Value{
			b.Constant(shape.Make(dtype.S32, 3), []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0x80, 1, 0, 0, 0}),
			b.Constant(shape.Make(dtype.U64, 1), bytes.Repeat([]byte{0xff}, 8)),
			b.Constant(shape.Make(dtype.C64, 1), append([]byte{0, 0, 0x80, 0x3f}, 0, 0, 0, 0xc0)),
			b.Constant(shape.Make(dtype.Bool, 3), []byte{0, 1, 1}),
			b.Constant(shape.Make(dtype.BF16, 2), []byte{0x80, 0x3f, 0, 0xc0}),
			b.Constant(shape.Make(dtype.S16, 2), []byte{1, 0, 0xff, 0xff}),
			b.Scalar(dtype.F16, 1.0/3), b.ScalarInt(dtype.S64, math.MinInt64), b.Scalar(dtype.U64, 1<<63), b.MaxFinite(dtype.BF16),
			b.ScalarComplex(dtype.C128, 1, -2), b.MinValue(dtype.F64), b.Full(dtype.F32, 0.1, 2), b.Scalar(dtype.F8E4M3FN, -448),
		}
	})
	same[int32](t, "s32", out[0], -1, math.MinInt32, 1)
	same[uint64](t, "u64", out[1], math.MaxUint64)
	same[complex64](t, "c64", out[2], complex(1, -2))
	same[uint8](t, "pred", out[3], 0, 1, 1)
	same[uint16](t, "bf16", out[4], 0x3f80, 0xc000)
	same[int16](t, "s16", out[5], 1, -1)
	same[uint16](t, "f16", out[6], 0x3555)
	same[int64](t, "s64", out[7], math.MinInt64)
	same[uint64](t, "u64 scalar", out[8], 1<<63)
	same[uint16](t, "largest bf16", out[9], 0x7f7f)
	same[complex128](t, "c128", out[10], complex(1, -2))
	same(t, "lowest f64", out[11], math.Inf(-1))
	same[float32](t, "full", out[12], 0.1, 0.1)
	same[uint8](t, "f8e4m3fn", out[13], 0xfe)
}

// Elements of size-0 arrays do not exist, but the operations on them do.
func TestEmptyArrays(t *testing.T) {
	empty := f32([]int64{0, 3})
	out := run(t, func(b builder, p params) []hlo.Value {
		zero := b.Scalar(dtype.F32, 0)
		return []hlo.Value{
			b.ReduceOp(hlo.Add, p[0], zero, []int{0}), b.ReduceOp(hlo.Maximum, p[0], b.MinValue(dtype.F32), []int{0}),
			b.ReduceOp(hlo.Add, p[0], zero, []int{1}),
			b.Dot(p[0], p[0], hlo.DotDims{LHSContracting: []int64{0}, RHSContracting: []int64{0}}),
			b.Pad(p[0], b.Scalar(dtype.F32, 7), []int64{1, 0}, nil, nil),
			b.Concatenate([]hlo.Value{p[0], p[1], p[0]}, 0),
			b.BroadcastTo(b.Reshape(p[0], []int64{0, 1, 3}), []int64{0, 4, 3}),
			b.Binary(hlo.Add, p[0], p[0]),
		}
	}, empty, count(1, 3))
	inf := float32(math.Inf(-1))
	same[float32](t, "sum", out[0], 0, 0, 0)
	same(t, "maximum", out[1], inf, inf, inf)
	same[float32](t, "sum of none", out[2])
	same[float32](t, "dot", out[3], 0, 0, 0, 0, 0, 0, 0, 0, 0)
	same[float32](t, "pad", out[4], 7, 7, 7)
	same[float32](t, "concatenate", out[5], 1, 2, 3)
	same[float32](t, "broadcast", out[6])
	same[float32](t, "add", out[7])
}
