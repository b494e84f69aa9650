package hlo_test

import (
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
)

var unaryOps = []hlo.Opcode{hlo.Abs, hlo.Negate, hlo.Exp, hlo.ExpM1, hlo.Log, hlo.Log1p, hlo.Sqrt, hlo.Rsqrt, hlo.Cbrt, hlo.Tanh,
	hlo.Tan, hlo.Sine, hlo.Cosine, hlo.Logistic, hlo.Erf, hlo.Floor, hlo.Ceil, hlo.RoundNearestAfz, hlo.RoundNearestEven, hlo.Sign,
	hlo.Not, hlo.PopulationCount, hlo.Clz, hlo.IsFinite, hlo.Real, hlo.Imag, hlo.Copy}

var binaryOps = []hlo.Opcode{hlo.Add, hlo.Subtract, hlo.Multiply, hlo.Divide, hlo.Remainder, hlo.Power, hlo.Maximum, hlo.Minimum,
	hlo.Atan2, hlo.And, hlo.Or, hlo.Xor, hlo.ShiftLeft, hlo.ShiftRightArithmetic, hlo.ShiftRightLogical, hlo.Complex}

// What the builder accepts, the compiler must accept: every operation on every element type.
func TestEveryAcceptedTypeCompiles(t *testing.T) {
	types := append([]dtype.Dtype{dtype.Bool, dtype.C64, dtype.C128, dtype.F8E5M2, dtype.F8E4M3FN}, numberTypes...)
	for _, d := range types {
		t.Run(d.String(), func(t *testing.T) {
			accepts := func(call func(b *hlo.Builder, x hlo.Value) hlo.Value) bool {
				b := hlo.NewBuilder("probe")
				return call(b, b.Parameter(shape.Make(d, 2, 2), "x")).Valid()
			}
			var calls []func(b *hlo.Builder, x hlo.Value) hlo.Value
			add := func(call func(b *hlo.Builder, x hlo.Value) hlo.Value) {
				if accepts(call) {
					calls = append(calls, call)
				}
			}
			for _, op := range unaryOps {
				add(func(b *hlo.Builder, x hlo.Value) hlo.Value { return b.Unary(op, x) })
			}
			for _, op := range binaryOps {
				add(func(b *hlo.Builder, x hlo.Value) hlo.Value { return b.Binary(op, x, x) })
			}
			for _, direction := range []string{"EQ", "LT"} {
				add(func(b *hlo.Builder, x hlo.Value) hlo.Value { return b.Compare(direction, x, x) })
				add(func(b *hlo.Builder, x hlo.Value) hlo.Value { return b.CompareTotalOrder(direction, x, x) })
			}
			for _, to := range types {
				add(func(b *hlo.Builder, x hlo.Value) hlo.Value { return b.Convert(x, to) })
				add(func(b *hlo.Builder, x hlo.Value) hlo.Value { return b.BitcastConvert(x, to) })
			}
			add(func(b *hlo.Builder, x hlo.Value) hlo.Value { return b.Clamp(x, x, x) })
			add(func(b *hlo.Builder, x hlo.Value) hlo.Value { return b.Iota(d, []int64{2, 2}, 0) })
			add(func(b *hlo.Builder, x hlo.Value) hlo.Value { return b.ReduceOp(hlo.Add, x, b.Scalar(d, 0), []int{0}) })
			add(func(b *hlo.Builder, x hlo.Value) hlo.Value {
				return b.ReduceOp(hlo.Maximum, x, b.MinValue(d), []int{0})
			})
			add(func(b *hlo.Builder, x hlo.Value) hlo.Value {
				return b.Dot(x, x, hlo.DotDims{LHSContracting: []int64{1}, RHSContracting: []int64{0}})
			})
			larger(add, d)
			input := array{shape.Make(d, 2, 2), make([]byte, 4*d.Size())}
			out := run(t, func(b builder, p params) []hlo.Value {
				var out []hlo.Value
				for _, call := range calls {
					out = append(out, call(b, p[0]))
				}
				return out
			}, input)
			if len(out) != len(calls) {
				t.Errorf("got %d outputs of %d operations", len(out), len(calls))
			}
		})
	}
}

// larger adds the operations on more than single elements.
func larger(add func(func(b *hlo.Builder, x hlo.Value) hlo.Value), d dtype.Dtype) {
	add(func(b *hlo.Builder, x hlo.Value) hlo.Value {
		c := nchw(1)
		return b.Convolution(b.Reshape(x, []int64{1, 2, 2}), b.Reshape(x, []int64{1, 2, 2}), c)
	})
	add(func(b *hlo.Builder, x hlo.Value) hlo.Value {
		return b.ReduceWindow(x, b.Scalar(d, 0), hlo.Window{Size: []int64{2, 1}}, hlo.Add)
	})
	add(func(b *hlo.Builder, x hlo.Value) hlo.Value {
		return b.SelectAndScatter(x, b.Full(d, 1, 1, 2), b.Scalar(d, 0), hlo.Window{Size: []int64{2, 1}}, "GE", hlo.Add)
	})
	add(func(b *hlo.Builder, x hlo.Value) hlo.Value {
		less := b.Computation("less", func(sub *hlo.Builder) {
			a, z := sub.Parameter(shape.Make(d), ""), sub.Parameter(shape.Make(d), "")
			sub.Return(sub.CompareTotalOrder("LT", a, z))
		})
		return b.Sort([]hlo.Value{x}, 1, true, less)[0]
	})
	rows := hlo.GatherDims{OffsetDims: []int64{1}, CollapsedSliceDims: []int64{0}, StartIndexMap: []int64{0}, IndexVectorDim: 1, SliceSizes: []int64{1, 2}}
	add(func(b *hlo.Builder, x hlo.Value) hlo.Value { return b.Gather(x, b.FullInt(dtype.S32, 1, 2), rows) })
	add(func(b *hlo.Builder, x hlo.Value) hlo.Value {
		return b.Scatter([]hlo.Value{x}, b.FullInt(dtype.S32, 1, 2), []hlo.Value{x}, hlo.ScatterDims{UpdateWindowDims: []int64{1},
			InsertedWindowDims: []int64{0}, ScatterDimsToOperandDims: []int64{0}, IndexVectorDim: 1}, b.ScalarComputation(hlo.Add, d))[0]
	})
	add(func(b *hlo.Builder, x hlo.Value) hlo.Value {
		return b.Pad(x, b.Scalar(d, 1), []int64{1, 0}, nil, []int64{0, 1})
	})
	add(func(b *hlo.Builder, x hlo.Value) hlo.Value { return b.Cholesky(x, true) })
	add(func(b *hlo.Builder, x hlo.Value) hlo.Value { return b.TriangularSolve(x, x, true, true, false, "C") })
	for _, kind := range []string{"FFT", "RFFT"} {
		add(func(b *hlo.Builder, x hlo.Value) hlo.Value { return b.Fft(x, kind, []int64{2}) })
	}
	add(func(b *hlo.Builder, x hlo.Value) hlo.Value {
		_, bits := b.RngBitGenerator(hlo.RngPhilox, b.FullInt(dtype.U64, 1, 3), shape.Make(d, 2, 2))
		return bits
	})
	add(func(b *hlo.Builder, x hlo.Value) hlo.Value { return b.ReducePrecision(x, 4, 3) })
}
