package hlo_test

import (
	"strings"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	pb "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/stablehlo"
	"xla_go/gosrc/status"
)

// verified decodes a module and checks that it is well formed.
func verified(t *testing.T, module []byte) *pb.HloModuleProto {
	t.Helper()
	m, err := hlo.Module(module)
	if err != nil {
		t.Fatal(err)
	}
	if err := hlo.Verify("test", m); err != nil {
		t.Fatal(err)
	}
	return m
}

// marked is a builder that keeps marks, with x and y as parameters.
func marked() (b *hlo.Builder, x, y hlo.Value) {
	b = hlo.NewBuilder("marked")
	b.KeepMarks()
	return b, b.Parameter(shape.Make(dtype.F32, 3), "x"), b.Parameter(shape.Make(dtype.F32, 3), "y")
}

func outlined(t *testing.T, b *hlo.Builder, marks hlo.Marks, outputs ...hlo.Value) ([]byte, error) {
	t.Helper()
	module, err := b.Build(outputs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return hlo.OutlineComposites(module, marks)
}

func TestWhatLiesBetweenMarksIsACall(t *testing.T) {
	b, x, y := marked()
	in := func(v hlo.Value, name, id string, position int64) hlo.Value {
		return b.Mark(v, hlo.Mark{Name: name, ID: id, Position: position, IsInput: true})
	}
	out := func(v hlo.Value, name, id string, position int64, attributes string) hlo.Value {
		return b.Mark(v, hlo.Mark{Name: name, ID: id, Position: position, Attributes: attributes})
	}
	doubled := b.Binary(hlo.Add, x, x)
	// Two results, a number, and y, which is not marked; in it one of the same name.
	p := in(doubled, "test.part", "0", 0)
	inner := out(b.Unary(hlo.Negate, in(p, "test.part", "1", 0)), "test.part", "1", 0, `{"scale": 2}`)
	sum := b.Binary(hlo.Add, inner, b.Full(dtype.F32, 3, 3))
	first := out(b.Binary(hlo.Multiply, sum, y), "test.part", "0", 0, `{"b": true, "a": [1.5, 2], "c": [1, 2], "d": "\"", "e f": 0.1}`)
	second := out(sum, "test.part", "0", 1, "")
	if _, err := outlined(t, b, hlo.FullyMarked, b.Binary(hlo.Subtract, first, second), second, p); err == nil {
		t.Fatal("expected a list of two kinds to be refused")
	}
	b, x, y = marked()
	doubled = b.Binary(hlo.Add, x, x)
	p = in(doubled, "test.part", "0", 0)
	inner = out(b.Unary(hlo.Negate, in(p, "test.part", "1", 0)), "test.part", "1", 0, `{"scale": 2}`)
	sum = b.Binary(hlo.Add, inner, b.Full(dtype.F32, 3, 3))
	first = out(b.Binary(hlo.Multiply, sum, y), "test.part", "0", 0, `{"b": true, "a": [1.5, 2.0], "c": [1, 2], "d": "\"", "e f": 0.1}`)
	second = out(sum, "test.part", "0", 1, "")
	module, err := outlined(t, b, hlo.FullyMarked, b.Binary(hlo.Subtract, first, second), second, p)
	if err != nil {
		t.Fatal(err)
	}
	verified(t, module)
	readable, err := stablehlo.Readable(module)
	if err != nil {
		t.Fatal(err)
	}
	for want, times := range map[string]int{
		`:2 = stablehlo.composite "test.part" `: 1,
		`{composite_attributes = {a = dense<[1.500000e+00, 2.000000e+00]> : tensor<2xf32>, b = true, c = dense<[1, 2]> : tensor<2xi64>, d = "\22", ` +
			`"e f" = 1.000000e-01 : f32}, decomposition = @test.part.impl_0} : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)`: 1,
		`{composite_attributes = {scale = 2 : i64}, decomposition = @test.part.impl} : (tensor<3xf32>) -> tensor<3xf32>`: 1,
		"custom_call": 0, "stablehlo.negate": 1, "stablehlo.multiply": 1, "dense<3.0": 2,
	} {
		if got := strings.Count(readable, want); got != times {
			t.Errorf("%s is there %d times, want %d, in\n%s", want, got, times, readable)
		}
	}
	results := execute(t, module, []array{f32Array(1, 2, 3), f32Array(4, 5, 6)})
	if got := f32sOf(results[0]); got[0] != 3 || got[2] != -15 {
		t.Errorf("the first result is %v", got)
	}
}

func TestMarksThatMakeNoPart(t *testing.T) {
	mark := func(b *hlo.Builder, v hlo.Value, id string, position int64, input bool) hlo.Value {
		return b.Mark(v, hlo.Mark{Name: "test.part", ID: id, Position: position, IsInput: input})
	}
	for words, build := range map[string]func(b *hlo.Builder, x, y hlo.Value) hlo.Value{
		"got no output 0": func(b *hlo.Builder, x, _ hlo.Value) hlo.Value {
			return mark(b, mark(b, x, "0", 0, true), "0", 1, false)
		},
		"one input 0, got several": func(b *hlo.Builder, x, y hlo.Value) hlo.Value {
			return mark(b, b.Binary(hlo.Add, mark(b, x, "0", 0, true), mark(b, y, "0", 0, true)), "0", 0, false)
		},
		"got a circle": func(b *hlo.Builder, x, y hlo.Value) hlo.Value {
			first := mark(b, b.Unary(hlo.Negate, mark(b, x, "0", 0, true)), "0", 0, false)
			return mark(b, b.Unary(hlo.Negate, mark(b, first, "0", 1, true)), "0", 1, false)
		},
		"which is neither": func(b *hlo.Builder, x, _ hlo.Value) hlo.Value {
			left := b.Unary(hlo.Negate, mark(b, b.Unary(hlo.Negate, mark(b, x, "0", 0, true)), "1", 0, true))
			return mark(b, b.Unary(hlo.Negate, mark(b, left, "0", 0, false)), "1", 0, false)
		},
	} {
		b, x, y := marked()
		_, err := outlined(t, b, hlo.FullyMarked, build(b, x, y))
		if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), words) {
			t.Errorf("expected %q, got %v", words, err)
		}
	}
	b, x, _ := marked()
	module, err := outlined(t, b, hlo.PartlyMarked, mark(b, mark(b, x, "0", 0, true), "0", 1, false))
	if err != nil {
		t.Fatal(err)
	}
	if dump, _ := hlo.Dump(module); strings.Contains(dump, "custom-call") || strings.Contains(dump, " call(") {
		t.Errorf("a part without its first output is\n%s", dump)
	}
}
