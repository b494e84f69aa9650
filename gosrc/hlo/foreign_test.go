package hlo_test

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	pb "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// foreignModule takes (f32[3], (f32[3], s32[])) and gives a sum with itself, a maximum and a tuple; its numbers are as XLA's own
// modules have them, and its metadata names a line.
func foreignModule(tb testing.TB) []byte {
	tb.Helper()
	b := hlo.NewBuilder("foreign")
	b.SetMetadata("sum", "jit/sum", hlo.Frame{File: "user.py", Line: 7, Function: "f"}, hlo.Frame{File: "main.py", Line: 1, Function: "main"})
	x := b.Parameter(shape.Make(dtype.F32, 3), "x")
	pair := b.TupleParameter([]shape.Shape{shape.Make(dtype.F32, 3), shape.Make(dtype.S32)})
	sum := b.Binary(hlo.Add, x, b.GetTupleElement(pair, 0))
	b.SetMetadata("", "")
	largest := b.ReduceOp(hlo.Maximum, sum, b.Scalar(dtype.F32, math.Inf(-1)), []int{0})
	module, err := b.Build([]hlo.Value{sum, largest, b.Tuple(b.GetTupleElement(pair, 1))}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := hlo.Module(module)
	if err != nil {
		tb.Fatal(err)
	}
	for _, c := range m.Computations { // numbers of another program: the computation's in the upper half
		for _, i := range c.Instructions {
			i.Id += c.Id << 32
			for k := range i.OperandIds {
				i.OperandIds[k] += c.Id << 32
			}
		}
		c.RootId += c.Id << 32
	}
	return encoded(tb, m)
}

func encoded(tb testing.TB, m *pb.HloModuleProto) []byte {
	tb.Helper()
	module, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return module
}

func TestAForeignModuleIsCalledTwice(t *testing.T) {
	f, err := hlo.ParseForeign(foreignModule(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := shape.MakeTuple(f.Parameters()...).String() + shape.MakeTuple(f.Results()...).String(); got != "(f32[3], f32[3], s32[])(f32[3], f32[], s32[])" {
		t.Fatalf("a call takes and gives %s", got)
	}
	b := hlo.NewBuilder("ours")
	x := b.Parameter(shape.Make(dtype.F32, 3), "x")
	n := b.Parameter(shape.Make(dtype.S32), "n")
	b.SetMetadata("call", "ours/call")
	first := b.CallForeign(f, []hlo.Value{x, x, n})
	second := b.CallForeign(f, []hlo.Value{first[0], x, first[2]})
	module, err := b.Build(append(second, first[1]), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := verified(t, module)
	seen := map[int64]bool{}
	for _, c := range m.Computations {
		for _, i := range c.Instructions {
			if seen[i.Id] {
				t.Errorf("number %d is there twice", i.Id)
			}
			seen[i.Id] = true
		}
	}
	dump, err := hlo.Dump(module)
	if err != nil {
		t.Fatal(err)
	}
	for want, times := range map[string]int{`op_name="jit/sum"`: 8, `"user.py"`: 9, "main.1 ": 1, " call(": 2, "parent_frame_id=1": 1} {
		if got := strings.Count(dump, want); got != times {
			t.Errorf("%s is there %d times, want %d, in\n%s", want, got, times, dump)
		}
	}
	out := execute(t, module, []array{f32Array(1, 2, 3), {shape.Make(dtype.S32), []byte{5, 0, 0, 0}}})
	if got := [][]float32{f32sOf(out[0]), f32sOf(out[1]), f32sOf(out[3])}; got[0][2] != 9 || got[1][0] != 9 || got[2][0] != 6 || out[2][0] != 5 {
		t.Errorf("the results are %v %v", got, out[2])
	}
}

func f32Array(values ...float32) array {
	a := array{shape: shape.Make(dtype.F32, int64(len(values)))}
	for _, v := range values {
		bits := math.Float32bits(v)
		a.data = append(a.data, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	return a
}

func f32sOf(data []byte) (values []float32) {
	for ; len(data) >= 4; data = data[4:] {
		values = append(values, math.Float32frombits(uint32(data[0])|uint32(data[1])<<8|uint32(data[2])<<16|uint32(data[3])<<24))
	}
	return values
}

func TestForeignModulesThatCannotBeCalled(t *testing.T) {
	entry := func(m *pb.HloModuleProto) *pb.HloComputationProto { return m.Computations[len(m.Computations)-1] }
	for name, test := range map[string]struct {
		damage func(m *pb.HloModuleProto)
		code   status.Code
		words  string
	}{
		"no entry":            {func(m *pb.HloModuleProto) { m.EntryComputationId = 99 }, status.InvalidArgument, "entry computation is missing"},
		"a parameter is gone": {func(m *pb.HloModuleProto) { entry(m).Instructions[1].ParameterNumber = 0 }, status.InvalidArgument, "parameter 0 is there twice"},
		"an operand is gone":  {func(m *pb.HloModuleProto) { entry(m).Instructions[2].OperandIds[0] = 1 }, status.InvalidArgument, "does not come before it"},
		"a predecessor is gone": {func(m *pb.HloModuleProto) { entry(m).Instructions[2].ControlPredecessorIds = []int64{1} }, status.InvalidArgument,
			"predecessor"},
		"no opcode":    {func(m *pb.HloModuleProto) { entry(m).Instructions[2].Opcode = "" }, status.InvalidArgument, "no opcode"},
		"a collective": {func(m *pb.HloModuleProto) { entry(m).Instructions[2].Opcode = "all-reduce" }, status.Unimplemented, "one device"},
		"an open size": {func(m *pb.HloModuleProto) { entry(m).Instructions[0].Shape.IsDynamicDimension = []bool{true} }, status.InvalidArgument, "fixed sizes"},
		"a token":      {func(m *pb.HloModuleProto) { entry(m).Instructions[0].Shape.ElementType = pb.PrimitiveType_TOKEN }, status.InvalidArgument, "arrays"},
		"one parameter": {func(m *pb.HloModuleProto) {
			entry(m).ProgramShape.Parameters = append(entry(m).ProgramShape.Parameters, entry(m).ProgramShape.Parameters[0])
		}, status.InvalidArgument, "declares 3"},
	} {
		m, err := hlo.Module(foreignModule(t))
		if err != nil {
			t.Fatal(err)
		}
		test.damage(m)
		_, err = hlo.ParseForeign(encoded(t, m))
		if status.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s: expected %v with %q, got %v", name, test.code, test.words, err)
		}
	}
	f, err := hlo.ParseForeign(foreignModule(t))
	if err != nil {
		t.Fatal(err)
	}
	b := hlo.NewBuilder("ours")
	b.CallForeign(f, []hlo.Value{b.Parameter(shape.Make(dtype.F32, 2), "x")})
	if b.Err() == nil || !strings.Contains(b.Err().Error(), "expected operands of (f32[3], f32[3], s32[])") {
		t.Errorf("expected a refusal of other operands, got %v", b.Err())
	}
}

// FuzzForeign: bytes are refused, or are a module that calls of are built and written.
func FuzzForeign(f *testing.F) {
	f.Add(foreignModule(f))
	f.Add(smallModule(f))
	f.Fuzz(func(t *testing.T, serialized []byte) {
		foreign, err := hlo.ParseForeign(serialized)
		if err != nil {
			return
		}
		b := hlo.NewBuilder("ours")
		var operands []hlo.Value
		for _, s := range foreign.Parameters() {
			operands = append(operands, b.Parameter(s, ""))
		}
		module, err := b.Build(b.CallForeign(foreign, operands), nil)
		if err != nil {
			return
		}
		if _, err := hlo.Dump(module); err != nil {
			t.Error(err)
		}
		_, _ = hlo.OutlineComposites(serialized, hlo.FullyMarked)
	})
}
