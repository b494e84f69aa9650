package hlo_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
)

// chain builds n nodes of the kind that a lowering makes: an operation on an array and a scalar
// that is broadcast.
func chain(n int) ([]byte, error) {
	b := hlo.NewBuilder("chain")
	x := b.Parameter(shape.Make(dtype.F32, 32, 64), "x")
	scale := b.Parameter(shape.Make(dtype.F32), "scale")
	for i := range n {
		b.SetMetadata("aten::add", "model.layer", hlo.Frame{File: "train.py", Line: i, Function: "step"})
		x = b.Binary(hlo.Multiply, x, b.BroadcastTo(scale, x.Dims()))
		x = b.Binary(hlo.Add, x, b.Full(dtype.F32, 1, 32, 64))
	}
	return b.Build([]hlo.Value{x}, nil)
}

func BenchmarkBuild2000Nodes(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := chain(2000); err != nil {
			b.Fatal(err)
		}
	}
}

// A node costs about one allocation; more would be formatting or copies in the hot path.
func TestANodeIsCheap(t *testing.T) {
	const nodes = 1000
	per := testing.AllocsPerRun(5, func() {
		if _, err := chain(nodes); err != nil {
			t.Fatal(err)
		}
	}) / nodes
	if per > 3 {
		t.Errorf("one node of four instructions makes %.1f allocations, want at most 3", per)
	}
}

func TestScalarsAreShared(t *testing.T) {
	b := hlo.NewBuilder("shared")
	if b.Scalar(dtype.F32, 1) != b.ScalarInt(dtype.F32, 1) || b.Scalar(dtype.U8, 255) != b.ScalarInt(dtype.U8, -1) {
		t.Error("equal scalars are two instructions")
	}
	if b.Scalar(dtype.F32, 0) == b.Scalar(dtype.F32, math.Copysign(0, -1)) {
		t.Error("0 and -0 are one instruction")
	}
	if b.Scalar(dtype.S32, 1) == b.Scalar(dtype.U32, 1) {
		t.Error("scalars of two types are one instruction")
	}
	if first, second := b.ScalarComputation(hlo.Add, dtype.F32), b.ScalarComputation(hlo.Add, dtype.F32); first != second {
		t.Error("one combiner is built twice")
	}
}

func TestNothingIsAddedWhereNothingChanges(t *testing.T) {
	b := hlo.NewBuilder("same")
	x := b.Parameter(shape.Make(dtype.F32, 2, 3), "x")
	zero := b.Scalar(dtype.F32, 0)
	before := b.NumInstructions()
	for name, v := range map[string]hlo.Value{
		"convert":     b.Convert(x, dtype.F32),
		"bitcast":     b.BitcastConvert(x, dtype.F32),
		"broadcast":   b.Broadcast(x, []int64{2, 3}, []int{0, 1}),
		"broadcastTo": b.BroadcastTo(x, []int64{2, 3}),
		"reshape":     b.Reshape(x, []int64{2, 3}),
		"transpose":   b.Transpose(x, []int{0, 1}),
		"slice":       b.Slice(x, []int64{0, 0}, []int64{2, 3}, nil),
		"pad":         b.Pad(x, zero, nil, nil, nil),
		"concatenate": b.Concatenate([]hlo.Value{x}, 0),
		"reverse":     b.Reverse(x),
	} {
		if v != x {
			t.Errorf("%s gave another value", name)
		}
	}
	if b.NumInstructions() != before {
		t.Errorf("%d instructions were added", b.NumInstructions()-before)
	}
}

func TestMetadataEndsWhereItIsTold(t *testing.T) {
	b := hlo.NewBuilder("metadata")
	x := b.Parameter(shape.Make(dtype.F32), "x")
	b.SetMetadata("aten::exp", "net/\xff", hlo.Frame{File: "a.py", Line: 3, Function: "f"})
	y := b.Unary(hlo.Exp, x)
	b.SetMetadata("", "")
	module, err := b.Build([]hlo.Value{b.Unary(hlo.Log, y)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := hlo.Module(module)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range m.Computations[0].Instructions {
		want := ""
		if i.Opcode == "exponential" {
			want = "aten::exp net/\uFFFD a.py"
		}
		got := ""
		if d := i.Metadata; d != nil {
			got = d.OpType + " " + d.OpName + " " + d.SourceFile
		}
		if got != want {
			t.Errorf("%s: metadata %q, want %q", i.Opcode, got, want)
		}
	}
}

func TestStacksShareTheirFrames(t *testing.T) {
	b := hlo.NewBuilder("stacks")
	x := b.Parameter(shape.Make(dtype.F32), "x")
	outer := hlo.Frame{File: "train.py", Line: 40, Function: "<module>"}
	for _, line := range []int{7, 9, 7} {
		b.SetMetadata("aten::exp", "exp", hlo.Frame{File: "net.py", Line: line, Function: "forward"}, outer)
		x = b.Unary(hlo.Exp, x)
	}
	b.SetMetadata("aten::neg", "neg", hlo.Frame{Line: 1}, outer)
	x = b.Unary(hlo.Negate, x)
	module, err := b.Build([]hlo.Value{x}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := hlo.Module(module)
	if err != nil {
		t.Fatal(err)
	}
	index := m.StackFrameIndex
	if len(index.FileNames) != 3 || len(index.FunctionNames) != 3 || len(index.FileLocations) != 4 || len(index.StackFrames) != 4 {
		t.Errorf("files %q functions %q, %d locations, %d frames", index.FileNames, index.FunctionNames, len(index.FileLocations), len(index.StackFrames))
	}
	var stacks []string
	for _, i := range m.Computations[0].Instructions {
		text := ""
		for id := i.Metadata.GetStackFrameId(); id != 0; {
			f := index.StackFrames[id-1]
			l := index.FileLocations[f.FileLocationId-1]
			text += fmt.Sprintf("%s:%d %s;", index.FileNames[l.FileNameId-1], l.Line, index.FunctionNames[l.FunctionNameId-1])
			id = f.ParentFrameId
		}
		if text != "" {
			stacks = append(stacks, text)
		}
	}
	want := []string{"net.py:7 forward;train.py:40 <module>;", "net.py:9 forward;train.py:40 <module>;", "net.py:7 forward;train.py:40 <module>;", "?:1 ?;train.py:40 <module>;"}
	if !slices.Equal(stacks, want) {
		t.Errorf("stacks %q, want %q", stacks, want)
	}
	text, err := hlo.Dump(module)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`1 "train.py"`, "{file_name_id=2 function_name_id=2 line=7}", "stack_frame_id=2}", "{file_location_id=2 parent_frame_id=1}"} {
		if !strings.Contains(text, part) {
			t.Errorf("expected %q in\n%s", part, text)
		}
	}
}

func TestCountOpcodesSeesNestedComputations(t *testing.T) {
	b := hlo.NewBuilder("count")
	x := b.Parameter(shape.Make(dtype.F32, 3), "x")
	module, err := b.Build([]hlo.Value{b.ReduceOp(hlo.Add, b.Binary(hlo.Add, x, x), b.Scalar(dtype.F32, 0), []int{0})}, nil)
	if err != nil {
		t.Fatal(err)
	}
	counts, err := hlo.CountOpcodes(module)
	if err != nil {
		t.Fatal(err)
	}
	if counts["add"] != 2 || counts["reduce"] != 1 || counts["parameter"] != 3 || counts["tuple"] != 1 {
		t.Errorf("got %v", counts)
	}
	if _, err := hlo.CountOpcodes([]byte("no module")); err == nil {
		t.Error("bytes that are no module were counted")
	}
	if _, err := hlo.Dump(nil); err == nil {
		t.Error("no bytes were dumped")
	}
}

// An optimized module holds opcodes that the builder does not make, fusions above all.
func TestOptimizedModulesPrint(t *testing.T) {
	b := hlo.NewBuilder("fused")
	x := b.Parameter(shape.Make(dtype.F32, 64, 64), "x")
	y := b.Unary(hlo.Tanh, b.Binary(hlo.Add, x, b.Transpose(x, []int{1, 0})))
	module, err := b.Build([]hlo.Value{b.Dot(y, y, hlo.DotDims{LHSContracting: []int64{1}, RHSContracting: []int64{0}}),
		b.ReduceOp(hlo.Add, y, b.Scalar(dtype.F32, 0), []int{1})}, nil)
	if err != nil {
		t.Fatal(err)
	}
	after := optimized(t, module)
	text, err := hlo.Dump(after)
	if err != nil {
		t.Fatal(err)
	}
	counts, err := hlo.CountOpcodes(after)
	if err != nil {
		t.Fatal(err)
	}
	if counts["fusion"] == 0 || counts["tanh"] == 0 {
		t.Errorf("got %v", counts)
	}
	for _, want := range []string{"HloModule fused", "ENTRY %", " fusion(%", "kind=kLoop", "calls=%", "tanh(%"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "%?") {
		t.Errorf("an operand has no name:\n%s", text)
	}
}
