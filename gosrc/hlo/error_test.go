package hlo_test

import (
	"strings"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// operands are the values that the error cases use.
type operands struct {
	b                                      *hlo.Builder
	x, y, i, p, c, scalar, state, matrices hlo.Value
	add                                    *hlo.Computation
}

func newOperands() operands {
	b := hlo.NewBuilder("errors")
	o := operands{b: b}
	o.x = b.Parameter(shape.Make(dtype.F32, 2, 3), "x")
	o.y = b.Parameter(shape.Make(dtype.F32, 4, 5), "y")
	o.i = b.Parameter(shape.Make(dtype.S32, 5), "i")
	o.p = b.Parameter(shape.Make(dtype.Bool, 2), "p")
	o.c = b.Parameter(shape.Make(dtype.C64, 2), "c")
	o.scalar = b.Parameter(shape.Make(dtype.F32), "scalar")
	o.state = b.Parameter(shape.Make(dtype.U64, 4), "state")
	o.matrices = b.Parameter(shape.Make(dtype.F32, 2, 3, 3), "matrices")
	o.add = b.ScalarComputation(hlo.Add, dtype.F32)
	return o
}

var errorCases = []struct {
	call func(o operands)
	want string
}{
	{func(o operands) {
		o.b.Dot(o.x, o.y, hlo.DotDims{LHSContracting: []int64{1}, RHSContracting: []int64{0}})
	},
		"dot(): expected contracting dimensions of equal size, got 3 and 4"},
	{func(o operands) {
		o.b.Dot(o.x, o.y, hlo.DotDims{LHSContracting: []int64{1}, RHSContracting: []int64{1}, LHSBatch: []int64{0}, RHSBatch: []int64{0}})
	}, "dot(): expected batch dimensions of equal size, got 2 and 4"},
	{func(o operands) { o.b.Dot(o.x, o.p, hlo.DotDims{}) }, "dot(): expected arrays of one element type, or of two of real numbers, got f32[2,3] and pred[2]"},
	{func(o operands) { o.b.Binary(hlo.Add, o.x, o.y) }, "add(): expected operands of equal shape, got f32[2,3] and f32[4,5]"},
	{func(o operands) { o.b.Binary(hlo.And, o.x, o.x) }, "and(): expected integer or pred operands, got f32[2,3]"},
	{func(o operands) { o.b.Binary(hlo.Exp, o.x, o.x) }, "exponential(): expected an operation of two operands"},
	{func(o operands) { o.b.Unary(hlo.Exp, o.i) }, "exponential(): expected a floating-point or complex operand, got s32[5]"},
	{func(o operands) { o.b.Unary(hlo.Add, o.i) }, "add(): expected an operation of one operand"},
	{func(o operands) { o.b.Compare("XX", o.x, o.x) }, `compare(): expected EQ, NE, LT, LE, GT or GE, got "XX"`},
	{func(o operands) { o.b.Compare("LT", o.c, o.c) }, "compare(): expected EQ or NE for complex operands, got LT"},
	{func(o operands) { o.b.Select(o.p, o.x, o.x) }, "select(): expected a predicate of shape pred[] or pred[2,3], got pred[2]"},
	{func(o operands) { o.b.Clamp(o.i, o.x, o.x) }, "clamp(): expected bounds of shape f32[] or f32[2,3], got s32[5]"},
	{func(o operands) { o.b.Convert(o.c, dtype.F32) }, "convert(): expected a complex type for c64[2], got f32; take the real part first"},
	{func(o operands) { o.b.BitcastConvert(o.x, dtype.F64) }, "bitcast-convert(): expected a last dimension of 2, got f32[2,3] to f64"},
	{func(o operands) { o.b.Broadcast(o.x, []int64{2, 4}, []int{0, 1}) }, "broadcast(): expected dimension 1 of f32[2,3] to have size 4, got 3"},
	{func(o operands) { o.b.BroadcastTo(o.x, []int64{2, 4}) }, "broadcast(): expected dimension 1 of f32[2,3] to be 1 or 4, got 3"},
	{func(o operands) { o.b.Reshape(o.x, []int64{4}) }, "reshape(): expected dimensions for 6 elements, got f32[2,3] to [4]"},
	{func(o operands) { o.b.Transpose(o.x, []int{0, 0}) }, "transpose(): expected a permutation of 2 dimensions, got [0 0]"},
	{func(o operands) { o.b.Slice(o.x, []int64{0, 1}, []int64{2, 4}, nil) },
		"slice(): expected 0 <= start <= limit <= 3 and stride >= 1 in dimension 1, got 1, 4 and 1"},
	{func(o operands) { o.b.DynamicSlice(o.x, []hlo.Value{o.scalar, o.scalar}, []int64{1, 1}) },
		"dynamic-slice(): expected integer scalars of one type as start indices, got f32[] and f32[]"},
	{func(o operands) { o.b.DynamicSlice(o.x, nil, []int64{1, 1}) }, "dynamic-slice(): expected 2 start indices, got 0"},
	{func(o operands) { o.b.Pad(o.x, o.scalar, []int64{-3, 0}, nil, nil) },
		"pad(): expected a size of at least 0 in dimension 0, got -1 from f32[2,3] with low -3, high 0, interior 0"},
	{func(o operands) { o.b.Concatenate([]hlo.Value{o.x, o.y}, 0) },
		"concatenate(): expected shapes equal but for dimension 0, got f32[2,3] and f32[4,5]"},
	{func(o operands) { o.b.Concatenate(nil, 0) }, "concatenate(): expected at least one operand, got none"},
	{func(o operands) { o.b.Reverse(o.x, 2) }, "reverse(): expected distinct dimensions below 2, got [2]"},
	{func(o operands) { o.b.Iota(dtype.S32, []int64{2}, 1) }, "iota(): expected a dimension of [2], got 1"},
	{func(o operands) { o.b.Gather(o.x, o.y, hlo.GatherDims{}) }, "gather(): expected integer indices, got f32[4,5]"},
	{func(o operands) {
		o.b.Gather(o.x, o.i, hlo.GatherDims{StartIndexMap: []int64{0}, IndexVectorDim: 1, SliceSizes: []int64{3, 1}})
	}, "gather(): expected a slice size of at most 2 in dimension 0, got 3"},
	{func(o operands) {
		o.b.Scatter([]hlo.Value{o.x}, o.i, []hlo.Value{o.y}, hlo.ScatterDims{UpdateWindowDims: []int64{1}, InsertedWindowDims: []int64{0},
			ScatterDimsToOperandDims: []int64{0}, IndexVectorDim: 1}, o.add)
	}, "scatter(): expected an update window of at most [3], got [5] in f32[4,5]"},
	{func(o operands) { o.b.ReduceOp(hlo.Add, o.x, o.scalar, []int{2}) }, "reduce(): expected distinct dimensions below 2, got [2]"},
	{func(o operands) { o.b.ReduceOp(hlo.Add, o.x, o.y, []int{0}) }, "reduce(): expected an initial value of shape f32[], got f32[4,5]"},
	{func(o operands) { o.b.Reduce([]hlo.Value{o.i}, []hlo.Value{o.b.Scalar(dtype.S32, 0)}, []int{0}, o.add) },
		"reduce(): expected computation add_f32 to take (s32[], s32[]), got one that takes (f32[], f32[])"},
	{func(o operands) { o.b.ReduceWindow(o.x, o.scalar, hlo.Window{Size: []int64{2}}, hlo.Add) },
		"reduce-window(): expected a window of 2 dimensions, got [2]"},
	{func(o operands) {
		o.b.SelectAndScatter(o.x, o.y, o.scalar, hlo.Window{Size: []int64{1, 2}}, "GE", hlo.Add)
	}, "select-and-scatter(): expected a source of shape f32[2,2], got f32[4,5]"},
	{func(o operands) { o.b.Sort([]hlo.Value{o.x}, 1, false, o.add) },
		"sort(): expected computation add_f32 to return pred[], got f32[]"},
	{func(o operands) {
		o.b.Convolution(o.x, o.y, hlo.ConvDims{InputFeature: 1, KernelOutputFeature: 1, OutputFeature: 1})
	},
		"convolution(): expected 4 input features for 1 groups and a kernel of 4 input features, got 3"},
	{func(o operands) { o.b.Convolution(o.x, o.y, hlo.ConvDims{}) },
		"convolution(): expected dimension numbers that name each of 2 dimensions once, got [0 0]"},
	{func(o operands) { o.b.RngBitGenerator(hlo.RngThreeFry, o.state, shape.Make(dtype.U32, 2)) },
		"rng-bit-generator(): expected a state u64[2] (or u64[3] of RngPhilox), got u64[4]"},
	{func(o operands) {
		o.b.RngBitGenerator(hlo.RngPhilox, o.b.FullInt(dtype.U64, 0, 3), shape.Make(dtype.S32, 2))
	}, "rng-bit-generator(): expected an unsigned integer shape, got s32[2]"},
	{func(o operands) { o.b.BitcastConvert(o.c, dtype.F32) },
		"bitcast-convert(): expected real types, got c64[2] to f32; take real and imaginary parts apart"},
	{func(o operands) { o.b.Cholesky(o.x, true) }, "cholesky(): expected floating-point or complex square matrices, got f32[2,3]"},
	{func(o operands) { o.b.TriangularSolve(o.matrices, o.matrices, true, true, false, "X") },
		`triangular-solve(): expected N, T or C, got "X"`},
	{func(o operands) { o.b.Fft(o.c, "RFFT", []int64{2}) },
		"fft(): expected f32 or f64 for RFFT and a complex type otherwise, got c64[2] for RFFT"},
	{func(o operands) { o.b.GetTupleElement(o.b.Tuple(o.x), 1) }, "get-tuple-element(): expected a tuple of more than 1 elements, got (f32[2,3])"},
	{func(o operands) { o.b.While([]hlo.Value{o.scalar}, o.add, o.add) },
		"while(): expected computation add_f32 to take (f32[]), got one that takes (f32[], f32[])"},
	{func(o operands) { o.b.Conditional(o.p, o.add, o.add, nil) }, "conditional(): expected a predicate of shape pred[], got pred[2]"},
	{func(o operands) { o.b.Constant(shape.Make(dtype.F32, 2), make([]byte, 4)) }, "constant(): expected 8 bytes for f32[2], got 4"},
	{func(o operands) { o.b.Parameter(shape.MakeTuple(), "t") }, "parameter(): expected an array shape, got ()"},
	{func(o operands) { o.b.CustomCall("", nil, shape.Make(dtype.F32), nil, hlo.CallOptions{}) },
		"custom-call(): expected the name of a target, got none"},
	{func(o operands) { o.b.AllGather(o.x, 0, 2, hlo.Group{Replicas: [][]int64{{0, 1, 2}}}) },
		"all-gather(): expected the size of the groups [[0 1 2]], got 2"},
	{func(o operands) { o.b.Unary(hlo.Exp, hlo.Value{}) }, "exponential(): expected a valid value, got an empty one as operand 0"},
	{func(o operands) {
		o.b.Computation("inner", func(sub *hlo.Builder) { sub.Return(sub.Unary(hlo.Exp, o.x)) })
	}, "exponential(): expected values of computation inner, got one of main as operand 0; pass it in as a parameter"},
	{func(o operands) { o.b.Computation("inner", func(*hlo.Builder) {}) }, "call(): expected computation inner to end with Return"},
	{func(o operands) {
		o.b.Call(hlo.NewBuilder("other").ScalarComputation(hlo.Add, dtype.F32), o.scalar, o.scalar)
	},
		"call(): expected a computation of module errors, got one of other"},
}

func TestErrorsSayWhatWasExpected(t *testing.T) {
	for _, c := range errorCases {
		o := newOperands()
		if err := o.b.Err(); err != nil {
			t.Fatal(err)
		}
		c.call(o)
		_, err := o.b.Build(nil, nil)
		if status.CodeOf(err) != status.InvalidArgument || status.MessageOf(err) != c.want {
			t.Errorf("got  %v\nwant INVALID_ARGUMENT: %s", err, c.want)
		}
	}
}

func TestFirstErrorIsKeptAndResultsStayInvalid(t *testing.T) {
	o := newOperands()
	bad := o.b.Binary(hlo.Add, o.x, o.y)
	worse := o.b.Unary(hlo.Exp, bad)
	for _, v := range append(o.b.While([]hlo.Value{worse, o.x}, o.add, o.add), bad, worse, o.b.Reshape(worse, nil),
		o.b.Scatter([]hlo.Value{worse}, o.i, []hlo.Value{bad}, hlo.ScatterDims{}, nil)[0], o.b.Call(nil, bad)[0]) {
		if v.Valid() || v.Rank() != 0 || v.Dtype() != dtype.Invalid {
			t.Errorf("got a valid value %v", v.Shape())
		}
	}
	if _, err := o.b.Build([]hlo.Value{worse}, nil); err == nil || !strings.Contains(err.Error(), "add(): expected operands of equal shape") {
		t.Errorf("Build gave %v", err)
	}
}

func TestDonorsAreChecked(t *testing.T) {
	tuple := []shape.Shape{shape.Make(dtype.F32), shape.Make(dtype.S32)}
	for _, c := range []struct {
		donor hlo.Donor
		want  string
	}{
		{hlo.Donor{Parameter: 2}, "build(): expected a donor below 2, got parameter 2"},
		{hlo.Donor{Parameter: 1}, "build(): expected a donor that is an array, got (f32[], s32[]) of parameter 1"},
		{hlo.Donor{Parameter: 1, ShapeIndex: []int64{2}}, "build(): expected a donor index inside (f32[], s32[]), got [2]"},
		{hlo.Donor{Parameter: 1, ShapeIndex: []int64{1}, OutputIndex: []int64{0}}, "build(): expected the index of one of 0 outputs for a donor, got [0]"},
		{hlo.Donor{Parameter: 1, ShapeIndex: []int64{1}}, ""},
	} {
		b := hlo.NewBuilder("donors")
		b.Parameter(shape.Make(dtype.F32), "x")
		b.TupleParameter(tuple)
		if _, err := b.Build(nil, []hlo.Donor{c.donor}); status.MessageOf(err) != c.want {
			t.Errorf("%v: got %v, want %q", c.donor, err, c.want)
		}
	}
}

func TestABuilderBuildsOnce(t *testing.T) {
	b := hlo.NewBuilder("once")
	if _, err := b.Build(nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Build(nil, nil); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("the second Build gave %v", err)
	}
}
