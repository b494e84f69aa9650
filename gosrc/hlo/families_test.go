package hlo_test

import (
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
)

var numberTypes = []dtype.Dtype{
	dtype.S8, dtype.S16, dtype.S32, dtype.S64, dtype.U8, dtype.U16, dtype.U32, dtype.U64,
	dtype.F16, dtype.F32, dtype.F64, dtype.BF16,
}

func constantFamily(b *hlo.Builder) []hlo.Value {
	out := []hlo.Value{b.Parameter(shape.Make(dtype.F32), "unused")}
	for _, d := range numberTypes {
		out = append(out, b.Scalar(d, 3), b.ScalarInt(d, 4), b.MinValue(d), b.MaxValue(d), b.MinFinite(d), b.MaxFinite(d),
			b.Constant(shape.Make(d, 2), make([]byte, 2*d.Size())))
	}
	return append(out,
		b.Scalar(dtype.Bool, 1), b.MinValue(dtype.Bool), b.MaxValue(dtype.Bool),
		b.ScalarComplex(dtype.C64, 1, -2), b.ScalarComplex(dtype.C128, 1, -2),
		b.Full(dtype.F32, 1.5, 2, 3), b.FullInt(dtype.S64, -1<<63, 2),
		b.Constant(shape.Make(dtype.Bool, 2, 2), []byte{1, 0, 0, 1}),
		b.Constant(shape.Make(dtype.S32, 0, 3), nil), b.Constant(shape.Make(dtype.F32, 2, 0), nil),
		b.Constant(shape.Make(dtype.U8, 11), make([]byte, 11)))
}

func elementwiseFamily(b *hlo.Builder) []hlo.Value {
	b.SetMetadata("aten::add", "model/layer", hlo.Frame{File: "train.py", Line: 12, Function: "step"})
	x := b.Parameter(shape.Make(dtype.F32, 2, 3), "x")
	i := b.Parameter(shape.Make(dtype.S32, 2, 3), "i")
	p := b.Parameter(shape.Make(dtype.Bool, 2, 3), "p")
	c := b.Parameter(shape.Make(dtype.C64, 2), "c")
	empty := b.Parameter(shape.Make(dtype.F32, 0, 3), "empty")
	b.SetMetadata("", "")
	var out []hlo.Value
	for _, op := range []hlo.Opcode{hlo.Abs, hlo.Negate, hlo.Exp, hlo.ExpM1, hlo.Log, hlo.Log1p, hlo.Sqrt, hlo.Rsqrt, hlo.Cbrt,
		hlo.Tanh, hlo.Tan, hlo.Sine, hlo.Cosine, hlo.Logistic, hlo.Erf, hlo.Floor, hlo.Ceil, hlo.RoundNearestAfz,
		hlo.RoundNearestEven, hlo.Sign, hlo.IsFinite, hlo.Copy} {
		out = append(out, b.Unary(op, x), b.Unary(op, empty))
	}
	for _, op := range []hlo.Opcode{hlo.Not, hlo.PopulationCount, hlo.Clz, hlo.Abs, hlo.Negate, hlo.Sign} {
		out = append(out, b.Unary(op, i))
	}
	for _, op := range []hlo.Opcode{hlo.Real, hlo.Imag, hlo.Abs, hlo.Exp, hlo.Sign} {
		out = append(out, b.Unary(op, c))
	}
	for _, op := range []hlo.Opcode{hlo.Add, hlo.Subtract, hlo.Multiply, hlo.Divide, hlo.Remainder, hlo.Power, hlo.Maximum,
		hlo.Minimum, hlo.Atan2, hlo.Complex} {
		out = append(out, b.Binary(op, x, x), b.Binary(op, empty, empty))
	}
	for _, op := range []hlo.Opcode{hlo.And, hlo.Or, hlo.Xor, hlo.ShiftLeft, hlo.ShiftRightArithmetic, hlo.ShiftRightLogical,
		hlo.Divide, hlo.Remainder} {
		out = append(out, b.Binary(op, i, i))
	}
	for _, op := range []hlo.Opcode{hlo.And, hlo.Or, hlo.Xor, hlo.Add, hlo.Multiply, hlo.Maximum, hlo.Minimum} {
		out = append(out, b.Binary(op, p, p))
	}
	for _, d := range []string{"EQ", "NE", "LT", "LE", "GT", "GE"} {
		out = append(out, b.Compare(d, x, x), b.Compare(d, i, i), b.CompareTotalOrder(d, x, x))
	}
	out = append(out, b.Compare("EQ", c, c), b.Compare("GT", p, p),
		b.Select(p, x, x), b.Select(b.Scalar(dtype.Bool, 1), x, x),
		b.Clamp(b.Scalar(dtype.F32, 0), x, b.Scalar(dtype.F32, 6)), b.Clamp(x, x, x),
		b.BitcastConvert(x, dtype.S32), b.BitcastConvert(x, dtype.U8), b.BitcastConvert(b.BitcastConvert(x, dtype.U8), dtype.F32),
		b.ReducePrecision(x, 5, 10))
	for _, d := range append(numberTypes, dtype.Bool, dtype.C64, dtype.C128, dtype.F8E5M2, dtype.F8E4M3FN) {
		out = append(out, b.Convert(x, d), b.Convert(p, d))
	}
	return out
}

func shapeFamily(b *hlo.Builder) []hlo.Value {
	x := b.Parameter(shape.Make(dtype.F32, 2, 1, 3), "x")
	empty := b.Parameter(shape.Make(dtype.F32, 0, 3), "empty")
	i := b.Parameter(shape.Make(dtype.S32), "i")
	zero := b.Scalar(dtype.F32, 0)
	return []hlo.Value{
		b.Broadcast(x, []int64{4, 2, 1, 3}, []int{1, 2, 3}), b.Broadcast(x, []int64{3, 4, 2, 1}, []int{2, 3, 0}),
		b.BroadcastTo(x, []int64{5, 2, 4, 3}), b.BroadcastTo(empty, []int64{2, 0, 3}),
		b.Reshape(x, []int64{6}), b.Reshape(empty, []int64{3, 0, 2}), b.Reshape(zero, []int64{1, 1}),
		b.Transpose(x, []int{2, 0, 1}), b.Transpose(empty, []int{1, 0}),
		b.Slice(x, []int64{0, 0, 0}, []int64{2, 1, 3}, []int64{1, 1, 2}), b.Slice(x, []int64{1, 0, 1}, []int64{2, 0, 3}, nil),
		b.DynamicSlice(x, []hlo.Value{i, i, i}, []int64{1, 1, 2}), b.DynamicSlice(empty, []hlo.Value{i, i}, []int64{0, 2}),
		b.DynamicUpdateSlice(x, b.Full(dtype.F32, 1, 1, 1, 2), []hlo.Value{i, i, i}),
		b.Pad(x, zero, []int64{1, 0, -1}, []int64{0, 2, 0}, []int64{0, 0, 1}), b.Pad(empty, zero, []int64{1, 0}, nil, []int64{2, 0}),
		b.Concatenate([]hlo.Value{x, x}, 1), b.Concatenate([]hlo.Value{empty, b.Full(dtype.F32, 0, 2, 3), empty}, 0),
		b.Reverse(x, 0, 2), b.Reverse(empty, 0), b.Iota(dtype.S64, []int64{2, 3}, 1), b.Iota(dtype.F32, []int64{0, 3}, 0),
	}
}

func reduceFamily(b *hlo.Builder) []hlo.Value {
	x := b.Parameter(shape.Make(dtype.F32, 2, 5), "x")
	i := b.Parameter(shape.Make(dtype.S32, 2, 5), "i")
	empty := b.Parameter(shape.Make(dtype.F32, 0, 5), "empty")
	zero, zeroInt := b.Scalar(dtype.F32, 0), b.Scalar(dtype.S32, 0)
	lowest := b.MinValue(dtype.F32)
	greater := b.Computation("greater", func(sub *hlo.Builder) {
		x, i := sub.Parameter(shape.Make(dtype.F32), "x"), sub.Parameter(shape.Make(dtype.S32), "i")
		y, j := sub.Parameter(shape.Make(dtype.F32), "y"), sub.Parameter(shape.Make(dtype.S32), "j")
		first := sub.Compare("GE", x, y)
		sub.Return(sub.Select(first, x, y), sub.Select(first, i, j))
	})
	less := b.Computation("less", func(sub *hlo.Builder) {
		x, y := sub.Parameter(shape.Make(dtype.F32), "x"), sub.Parameter(shape.Make(dtype.F32), "y")
		sub.Parameter(shape.Make(dtype.S32), "i")
		sub.Parameter(shape.Make(dtype.S32), "j")
		sub.Return(sub.CompareTotalOrder("LT", x, y))
	})
	out := []hlo.Value{
		b.ReduceOp(hlo.Add, x, zero, []int{1}), b.ReduceOp(hlo.Maximum, x, lowest, []int{0, 1}), b.ReduceOp(hlo.Add, x, zero, nil),
		b.ReduceOp(hlo.Add, empty, zero, []int{0}), b.ReduceOp(hlo.Multiply, empty, zero, []int{1}),
		b.ReduceWindow(x, lowest, hlo.Window{Size: []int64{1, 2}, Stride: []int64{1, 2}, PadLow: []int64{0, 1}, PadHigh: []int64{0, 1}}, hlo.Maximum),
		b.ReduceWindow(x, zero, hlo.Window{Size: []int64{1, 2}, WindowDilation: []int64{1, 2}, BaseDilation: []int64{2, 1}}, hlo.Add),
		b.ReduceWindow(empty, zero, hlo.Window{Size: []int64{1, 2}}, hlo.Add),
		b.SelectAndScatter(x, b.Full(dtype.F32, 1, 2, 2), zero, hlo.Window{Size: []int64{1, 2}, Stride: []int64{1, 2}}, "GE", hlo.Add),
	}
	out = append(out, b.Reduce([]hlo.Value{x, i}, []hlo.Value{lowest, zeroInt}, []int{1}, greater)...)
	out = append(out, b.ReduceWindowMany([]hlo.Value{x, i}, []hlo.Value{lowest, zeroInt}, hlo.Window{Size: []int64{1, 2}}, greater)...)
	out = append(out, b.Sort([]hlo.Value{x, i}, 1, true, less)...)
	return append(out, b.Sort([]hlo.Value{empty, b.FullInt(dtype.S32, 0, 0, 5)}, 0, false, less)...)
}

func gatherFamily(b *hlo.Builder) []hlo.Value {
	x := b.Parameter(shape.Make(dtype.F32, 4, 3), "x")
	i := b.Parameter(shape.Make(dtype.S64, 5), "i")
	y := b.Parameter(shape.Make(dtype.F32, 4, 3), "y")
	none := b.Parameter(shape.Make(dtype.S64, 0), "none")
	add := b.ScalarComputation(hlo.Add, dtype.F32)
	rows := hlo.GatherDims{OffsetDims: []int64{1}, CollapsedSliceDims: []int64{0}, StartIndexMap: []int64{0}, IndexVectorDim: 1, SliceSizes: []int64{1, 3}}
	into := hlo.ScatterDims{UpdateWindowDims: []int64{1}, InsertedWindowDims: []int64{0}, ScatterDimsToOperandDims: []int64{0}, IndexVectorDim: 1}
	set := into
	set.UniqueIndices, set.IndicesAreSorted = true, true
	both := b.Computation("both", func(sub *hlo.Builder) {
		x, y := sub.Parameter(shape.Make(dtype.F32), ""), sub.Parameter(shape.Make(dtype.F32), "")
		u, v := sub.Parameter(shape.Make(dtype.F32), ""), sub.Parameter(shape.Make(dtype.F32), "")
		sub.Return(sub.Binary(hlo.Add, x, u), sub.Binary(hlo.Multiply, y, v))
	})
	updates := b.Full(dtype.F32, 2, 5, 3)
	out := []hlo.Value{
		b.Gather(x, i, rows), b.Gather(x, none, rows),
		b.Gather(x, b.Reshape(b.Iota(dtype.S32, []int64{4}, 0), []int64{4, 1}), hlo.GatherDims{
			StartIndexMap: []int64{1}, OperandBatchingDims: []int64{0}, IndicesBatchingDims: []int64{0},
			OffsetDims: []int64{1}, IndexVectorDim: 1, SliceSizes: []int64{1, 2}}),
	}
	out = append(out, b.Scatter([]hlo.Value{x}, i, []hlo.Value{updates}, into, add)...)
	out = append(out, b.Scatter([]hlo.Value{x}, none, []hlo.Value{b.Full(dtype.F32, 1, 0, 3)}, into, add)...)
	out = append(out, b.Scatter([]hlo.Value{x}, i, []hlo.Value{updates}, set, b.ScalarComputation(hlo.Second, dtype.F32))...)
	return append(out, b.Scatter([]hlo.Value{x, y}, i, []hlo.Value{updates, updates}, into, both)...)
}

func dotFamily(b *hlo.Builder) []hlo.Value {
	x := b.Parameter(shape.Make(dtype.F32, 7, 2, 3), "x")
	y := b.Parameter(shape.Make(dtype.F32, 7, 3, 4), "y")
	h := b.Convert(x, dtype.BF16)
	empty := b.Full(dtype.F32, 1, 7, 3, 0)
	nothing := b.Full(dtype.F32, 1, 2, 0)
	batched := hlo.DotDims{LHSContracting: []int64{2}, RHSContracting: []int64{1}, LHSBatch: []int64{0}, RHSBatch: []int64{0}}
	return []hlo.Value{
		b.Dot(x, y, batched), b.Dot(x, empty, batched),
		b.Dot(x, x, hlo.DotDims{LHSContracting: []int64{2}, RHSContracting: []int64{2}}),
		b.Dot(nothing, nothing, hlo.DotDims{LHSContracting: []int64{1}, RHSContracting: []int64{1}}),
		b.DotWith(h, b.Convert(y, dtype.BF16), batched, dtype.F32, hlo.PrecisionHighest),
		b.Dot(b.Reshape(x, []int64{42}), b.Reshape(x, []int64{42}), hlo.DotDims{LHSContracting: []int64{0}, RHSContracting: []int64{0}}),
	}
}

// nchw gives torch's order: input and output N, C, spatial; kernel O, I, spatial.
func nchw(spatial int) hlo.ConvDims {
	var at []int64
	for i := range spatial {
		at = append(at, int64(2+i))
	}
	return hlo.ConvDims{InputBatch: 0, InputFeature: 1, InputSpatial: at, KernelOutputFeature: 0, KernelInputFeature: 1,
		KernelSpatial: at, OutputBatch: 0, OutputFeature: 1, OutputSpatial: at}
}

func convolutionFamily(b *hlo.Builder) []hlo.Value {
	x := b.Parameter(shape.Make(dtype.F32, 2, 4, 8, 8), "x")
	w := b.Parameter(shape.Make(dtype.F32, 6, 4, 3, 3), "w")
	g := b.Parameter(shape.Make(dtype.F32, 6, 2, 3, 3), "grouped")
	empty := b.Parameter(shape.Make(dtype.F32, 0, 4, 8, 8), "empty")
	plain, strided, grouped, transposed, batched := nchw(2), nchw(2), nchw(2), nchw(2), nchw(2)
	strided.Window = hlo.Window{Stride: []int64{2, 2}, PadLow: []int64{1, 1}, PadHigh: []int64{1, 1}, WindowDilation: []int64{2, 1}}
	strided.Precision = hlo.PrecisionHighest
	grouped.FeatureGroupCount = 2
	transposed.Window = hlo.Window{BaseDilation: []int64{2, 2}, PadLow: []int64{1, 1}, PadHigh: []int64{1, 2}, Reversal: []bool{true, true}}
	batched.BatchGroupCount = 2
	one := nchw(1)
	return []hlo.Value{
		b.Convolution(x, w, plain), b.Convolution(x, w, strided), b.Convolution(x, g, grouped), b.Convolution(x, w, transposed),
		b.Convolution(x, w, batched), b.Convolution(empty, w, plain),
		b.Convolution(b.Reshape(x, []int64{2, 4, 64}), b.Reshape(w, []int64{6, 4, 9}), one),
	}
}

func controlFamily(b *hlo.Builder) []hlo.Value {
	x := b.Parameter(shape.Make(dtype.F32, 2), "x")
	n := b.Parameter(shape.Make(dtype.S32), "n")
	p := b.Parameter(shape.Make(dtype.Bool), "p")
	state := []shape.Shape{n.Shape(), x.Shape()}
	below := b.Computation("below", func(sub *hlo.Builder) {
		s := sub.StateParameters(state)
		sub.Return(sub.Compare("LT", s[0], sub.Scalar(dtype.S32, 3)))
	})
	step := b.Computation("step", func(sub *hlo.Builder) {
		s := sub.StateParameters(state)
		sub.Return(sub.Binary(hlo.Add, s[0], sub.Scalar(dtype.S32, 1)), sub.Binary(hlo.Add, s[1], s[1]))
	})
	alone := func(name string, build func(sub *hlo.Builder, v hlo.Value) hlo.Value) *hlo.Computation {
		return b.Computation(name, func(sub *hlo.Builder) {
			sub.Return(build(sub, sub.StateParameters([]shape.Shape{n.Shape()})[0]))
		})
	}
	small := alone("small", func(sub *hlo.Builder, v hlo.Value) hlo.Value { return sub.Compare("LT", v, sub.Scalar(dtype.S32, 3)) })
	next := alone("next", func(sub *hlo.Builder, v hlo.Value) hlo.Value { return sub.Binary(hlo.Add, v, sub.Scalar(dtype.S32, 1)) })
	keep := b.Computation("keep", func(sub *hlo.Builder) { sub.Return(sub.StateParameters(state)...) })
	constant := func(v float64) *hlo.Computation {
		return b.Computation("constant", func(sub *hlo.Builder) {
			sub.StateParameters(nil)
			sub.Return(sub.Scalar(dtype.F32, v))
		})
	}
	out := b.While([]hlo.Value{n, x}, below, step)
	out = append(out, b.While([]hlo.Value{n}, small, next)...)
	out = append(out, b.Conditional(p, step, keep, []hlo.Value{n, x})...)
	out = append(out, b.Conditional(p, constant(1), constant(2), nil)...)
	out = append(out, b.Conditional(p, next, next, []hlo.Value{n})...)
	out = append(out, b.Call(next, n)...)
	out = append(out, b.OptimizationBarrier([]hlo.Value{x, n})...)
	out = append(out, b.Map(b.ScalarComputation(hlo.Multiply, dtype.F32), x, x))
	return append(out, b.GetTupleElement(b.Tuple(x, n), 1))
}

func linalgFamily(b *hlo.Builder) []hlo.Value {
	a := b.Parameter(shape.Make(dtype.F32, 2, 3, 3), "a")
	x := b.Parameter(shape.Make(dtype.F32, 2, 3, 5), "x")
	c := b.Parameter(shape.Make(dtype.C64, 2, 8), "c")
	r := b.Parameter(shape.Make(dtype.F32, 2, 8), "r")
	return []hlo.Value{
		b.Cholesky(a, true), b.Cholesky(a, false), b.Cholesky(b.Full(dtype.F32, 0, 0, 2, 2), true),
		b.TriangularSolve(a, x, true, true, false, "N"), b.TriangularSolve(a, x, true, false, true, "T"),
		b.TriangularSolve(a, b.Transpose(x, []int{0, 2, 1}), false, true, false, "C"),
		b.Fft(c, "FFT", []int64{8}), b.Fft(c, "IFFT", []int64{2, 8}), b.Fft(r, "RFFT", []int64{8}),
		b.Fft(b.Slice(c, []int64{0, 0}, []int64{2, 5}, nil), "IRFFT", []int64{8}),
	}
}

func randomFamily(b *hlo.Builder) []hlo.Value {
	two := b.Parameter(shape.Make(dtype.U64, 2), "two")
	three := b.Parameter(shape.Make(dtype.U64, 3), "three")
	var out []hlo.Value
	add := func(state, bits hlo.Value) { out = append(out, state, bits) }
	add(b.RngBitGenerator(hlo.RngThreeFry, two, shape.Make(dtype.U32, 3, 2)))
	add(b.RngBitGenerator(hlo.RngPhilox, three, shape.Make(dtype.U64, 5)))
	add(b.RngBitGenerator(hlo.RngPhilox, two, shape.Make(dtype.U32, 5)))
	add(b.RngBitGenerator(hlo.RngDefault, two, shape.Make(dtype.U8, 5)))
	add(b.RngBitGenerator(hlo.RngThreeFry, two, shape.Make(dtype.U32, 0, 2)))
	return out
}

func collectiveFamily(b *hlo.Builder) []hlo.Value {
	x := b.Parameter(shape.Make(dtype.F32, 4, 2), "x")
	g := hlo.Group{Replicas: [][]int64{{0}}}
	b.SetSharding(&hlo.Sharding{Kind: hlo.Replicated})
	out := []hlo.Value{b.Unary(hlo.Copy, x)}
	b.SetSharding(nil)
	out = append(out, b.AllReduce([]hlo.Value{x}, hlo.Add, g)...)
	out = append(out, b.AllReduce([]hlo.Value{x, b.Slice(x, []int64{0, 0}, []int64{1, 2}, nil)}, hlo.Maximum, hlo.Group{})...)
	return append(out, b.AllGather(x, 1, 1, g), b.ReduceScatter(x, hlo.Add, 0, 1, g), b.AllToAll(x, 0, 1, 1, g),
		b.CollectivePermute(x, [][2]int64{{0, 0}}, 0), b.ReplicaID(), b.PartitionID())
}
