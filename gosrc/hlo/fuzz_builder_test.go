package hlo_test

import (
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
)

// source draws numbers from what the fuzzer gives; zeros once it is used up.
type source struct{ bytes []byte }

func (s *source) next() byte {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return b
}

// number is a size or a position: small as a rule, now and then negative or too large for a product.
func (s *source) number() int64 {
	switch b := s.next(); {
	case b >= 250:
		return 1 << (b - 192)
	case b >= 240:
		return int64(b) - 250
	default:
		return int64(b % 7)
	}
}

func (s *source) numbers() []int64 {
	list := make([]int64, s.next()%5)
	for i := range list {
		list[i] = s.number()
	}
	return list
}

func (s *source) dims() []int {
	list := make([]int, s.next()%5)
	for i := range list {
		list[i] = int(s.number())
	}
	return list
}

func (s *source) window() hlo.Window {
	w := hlo.Window{Size: s.numbers(), Stride: s.numbers(), PadLow: s.numbers(), PadHigh: s.numbers()}
	if s.next()%2 == 0 {
		w.BaseDilation, w.WindowDilation = s.numbers(), s.numbers()
	}
	return w
}

var (
	fuzzDtypes   = []dtype.Dtype{dtype.F32, dtype.S32, dtype.Bool, dtype.F64, dtype.U8, dtype.C64, dtype.BF16, dtype.S64, dtype.Dtype(99)}
	fuzzUnary    = []hlo.Opcode{hlo.Negate, hlo.Abs, hlo.Exp, hlo.Not, hlo.Sign, "no such operation"}
	fuzzBinary   = []hlo.Opcode{hlo.Add, hlo.Multiply, hlo.Divide, hlo.Maximum, hlo.And, hlo.Power, "no such operation"}
	fuzzCompares = []string{"LT", "EQ", "?"}
)

// FuzzBuilder: whatever is asked of a builder gives a module that can be printed, or an error; never a panic.
func FuzzBuilder(f *testing.F) {
	f.Add([]byte{0, 2, 2, 3, 1, 2, 2, 3, 2, 0, 0, 1})
	for operation := range byte(24) {
		f.Add([]byte{0, 2, 2, 3, 0, 2, 2, 3, operation, 0, 1, 2, 0, 1, 2, 2, 3, 1, 0, 0, 1, 2, 1, 1})
		f.Add([]byte{0, 2, 255, 255, 1, 1, 244, operation, 1, 0, 3, 250, 241, 2, 2, 255, 243})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &source{data}
		b := hlo.NewBuilder("fuzz")
		var values []hlo.Value
		for range 2 {
			values = append(values, b.Parameter(shape.Make(fuzzDtypes[int(s.next())%len(fuzzDtypes)], s.numbers()...), "x"))
		}
		some := func() hlo.Value { return values[int(s.next())%len(values)] }
		for range 24 {
			if len(s.bytes) == 0 {
				break
			}
			values = append(values, grow(b, s, some)...)
			if b.Err() != nil {
				break
			}
		}
		module, err := b.Build([]hlo.Value{values[len(values)-1], values[0]}, nil)
		if err != nil {
			return
		}
		if text, err := hlo.Dump(module); err != nil || text == "" {
			t.Errorf("a module that was built cannot be printed: %v", err)
		}
	})
}

// grow asks for one instruction more.
func grow(b *hlo.Builder, s *source, some func() hlo.Value) []hlo.Value {
	some2 := func() []hlo.Value { return []hlo.Value{some(), some()} }
	d := fuzzDtypes[int(s.next())%len(fuzzDtypes)]
	unary, binary := fuzzUnary[int(s.next())%len(fuzzUnary)], fuzzBinary[int(s.next())%len(fuzzBinary)]
	switch s.next() % 24 {
	case 0:
		return []hlo.Value{b.Unary(unary, some())}
	case 1:
		return []hlo.Value{b.Binary(binary, some(), some())}
	case 2:
		return []hlo.Value{b.Compare(fuzzCompares[int(s.next())%len(fuzzCompares)], some(), some())}
	case 3:
		return []hlo.Value{b.Select(some(), some(), some())}
	case 4:
		return []hlo.Value{b.Convert(some(), d)}
	case 5:
		return []hlo.Value{b.BitcastConvert(some(), d)}
	case 6:
		return []hlo.Value{b.Broadcast(some(), s.numbers(), s.dims())}
	case 7:
		return []hlo.Value{b.Reshape(some(), s.numbers())}
	case 8:
		return []hlo.Value{b.Transpose(some(), s.dims())}
	case 9:
		return []hlo.Value{b.Slice(some(), s.numbers(), s.numbers(), s.numbers())}
	case 10:
		return []hlo.Value{b.DynamicSlice(some(), some2()[:s.next()%3], s.numbers())}
	case 11:
		return []hlo.Value{b.DynamicUpdateSlice(some(), some(), some2()[:s.next()%3])}
	case 12:
		return []hlo.Value{b.Pad(some(), b.Scalar(d, 0), s.numbers(), s.numbers(), s.numbers())}
	case 13:
		return []hlo.Value{b.Concatenate(some2()[:s.next()%3], int(s.number()))}
	case 14:
		return []hlo.Value{b.Reverse(some(), s.dims()...)}
	case 15:
		return []hlo.Value{b.Iota(d, s.numbers(), int(s.number()))}
	case 16:
		return []hlo.Value{b.ReduceOp(binary, some(), b.Scalar(d, 1), s.dims())}
	case 17:
		return []hlo.Value{b.ReduceWindow(some(), b.Scalar(d, 0), s.window(), binary)}
	case 18:
		return []hlo.Value{b.Dot(some(), some(), hlo.DotDims{LHSContracting: s.numbers(), RHSContracting: s.numbers(), LHSBatch: s.numbers(), RHSBatch: s.numbers()})}
	case 19:
		return []hlo.Value{b.Gather(some(), some(), hlo.GatherDims{OffsetDims: s.numbers(), CollapsedSliceDims: s.numbers(), StartIndexMap: s.numbers(),
			OperandBatchingDims: s.numbers(), IndicesBatchingDims: s.numbers(), IndexVectorDim: s.number(), SliceSizes: s.numbers()})}
	case 20:
		return []hlo.Value{b.Convolution(some(), some(), hlo.ConvDims{Window: s.window(), InputBatch: s.number(), InputFeature: s.number(), InputSpatial: s.numbers(),
			KernelInputFeature: s.number(), KernelOutputFeature: s.number(), KernelSpatial: s.numbers(), OutputBatch: s.number(), OutputFeature: s.number(),
			OutputSpatial: s.numbers(), FeatureGroupCount: s.number(), BatchGroupCount: s.number()})}
	case 21:
		return b.Sort(some2()[:s.next()%3], int(s.number()), true, b.ScalarComputation(binary, d))
	case 22:
		return []hlo.Value{b.GetTupleElement(b.Tuple(some2()...), int(s.number())), b.Clamp(some(), some(), some())}
	default:
		return []hlo.Value{b.Cholesky(some(), true), b.Fft(some(), "FFT", s.numbers()), b.TriangularSolve(some(), some(), true, false, false, "NO_TRANSPOSE")}
	}
}
