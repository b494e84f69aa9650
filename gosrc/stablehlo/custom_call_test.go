package stablehlo_test

import (
	"strings"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/stablehlo"
)

// TestCustomCallsSayAllThatTheyAre: in the generic form of MLIR with several results, in the form for people with a tuple.
func TestCustomCallsSayAllThatTheyAre(t *testing.T) {
	b := hlo.NewBuilder("calls")
	x := b.Parameter(shape.Make(dtype.F32, 3), "x")
	o := hlo.CallOptions{SideEffect: true, Attributes: []hlo.FrontendAttribute{{Name: "_a", Value: "1"}, {Name: "b c", Value: `"`}}}
	two := b.CustomCalls("first.target", []hlo.Value{x}, []shape.Shape{shape.Make(dtype.S8), shape.Make(dtype.F32, 2)}, []byte("how"), o)
	one := b.CustomCalls("an other", []hlo.Value{two[1]}, []shape.Shape{shape.Make(dtype.S4, 2)}, nil, hlo.CallOptions{})
	module, err := b.Build([]hlo.Value{b.Convert(one[0], dtype.S8), two[0]}, nil)
	if err != nil {
		t.Fatal(err)
	}
	attributes := `mhlo.frontend_attributes = {_a = "1", "b c" = "\22"}`
	for form, test := range map[string]struct {
		write func([]byte) (string, error)
		want  []string
	}{
		"generic": {stablehlo.Text, []string{
			`"stablehlo.custom_call"(%arg0) <{call_target_name = "first.target", has_side_effect = true, backend_config = "how", api_version = 1 : i32}> {` +
				attributes + `} : (tensor<3xf32>) -> (tensor<i8>, tensor<2xf32>)`,
			`tensor<2xi4>`,
		}},
		"readable": {stablehlo.Readable, []string{
			`stablehlo.custom_call @first.target(%arg0) {backend_config = "how", has_side_effect = true, ` + attributes +
				`} : (tensor<3xf32>) -> tuple<tensor<i8>, tensor<2xf32>>`,
			`[1] : (tuple<tensor<i8>, tensor<2xf32>>) -> tensor<2xf32>`,
			`stablehlo.custom_call @"an other"(`,
		}},
	} {
		text, err := test.write(module)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: expected %s in\n%s", form, want, text)
			}
		}
	}
	dump, err := hlo.Dump(module)
	if err != nil || !strings.Contains(dump, `custom_call_has_side_effect=true, frontend_attributes={_a="1",b c="\""}`) {
		t.Errorf("expected the attributes, got %v\n%s", err, dump)
	}
}
