package ops

import (
	"bytes"
	"slices"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/ir"
)

// variableCase is a row whose numbers move. The calls of alike differ in nothing else, and one program serves them all;
// those of apart need another program each.
type variableCase struct {
	row          string
	alike, apart [][]Argument
}

func variableCases() []variableCase {
	x, cube := tensorOf(dtype.F32, 6, 8), tensorOf(dtype.F32, 2, 3, 8)
	row, part := tensorOf(dtype.F32, 8), tensorOf(dtype.F32, 2, 8)
	diagonal := tensorOf(dtype.F32, 6)
	calls := func(list ...[]Argument) [][]Argument { return list }
	args := func(list ...Argument) []Argument { return list }
	pads := func(list ...int64) Argument { return intsArg(list...) }
	cases := []variableCase{
		{"constant_pad_nd", calls(args(x, pads(1, 3), floatArg(0)), args(x, pads(0, 4), floatArg(2)), args(x, pads(-2, 6), none())),
			calls(args(x, pads(1, 4), floatArg(0)), args(x, pads(1, 3, 0, 0), floatArg(0)))},
		{"roll", calls(args(x, intsArg(3), intsArg(0)), args(x, intsArg(-1), intsArg(0)), args(x, intsArg(0), intsArg(0))),
			calls(args(x, intsArg(3), intsArg(1)), args(x, intsArg(3), intsArg()))},
		{"tril", calls(args(x, intArg(-2)), args(x, intArg(0)), args(x, intArg(1<<40))), nil},
		{"triu", calls(args(x, intArg(-2)), args(x, intArg(7))), nil},
		{"diag_embed", calls(args(row, intArg(2), intArg(0), intArg(1)), args(row, intArg(-2), intArg(0), intArg(1))),
			calls(args(row, intArg(3), intArg(0), intArg(1)), args(row, intArg(2), intArg(1), intArg(0)))},
		{"kthvalue", calls(args(x, intArg(1), intArg(1), boolArg(false)), args(x, intArg(8), intArg(1), boolArg(false))),
			calls(args(x, intArg(1), intArg(0), boolArg(false)), args(x, intArg(1), intArg(1), boolArg(true)))},
		{"embedding_dense_backward", calls(args(x, tensorOf(dtype.S64, 6), intArg(9), intArg(0), boolArg(false)), args(x, tensorOf(dtype.S64, 6), intArg(9), intArg(7), boolArg(false))),
			calls(args(x, tensorOf(dtype.S64, 6), intArg(9), intArg(-1), boolArg(false)), args(x, tensorOf(dtype.S64, 6), intArg(9), intArg(0), boolArg(true)))},
		{"select_backward", calls(args(row, intsArg(6, 8), intArg(0), intArg(0)), args(row, intsArg(6, 8), intArg(0), intArg(-1))), nil},
		{"slice_backward", calls(args(part, intsArg(6, 8), intArg(0), intArg(0), intArg(2), intArg(1)), args(part, intsArg(6, 8), intArg(0), intArg(3), intArg(5), intArg(1))),
			calls(args(part, intsArg(6, 8), intArg(0), intArg(0), intArg(4), intArg(2)))},
		{"select_scatter", calls(args(x, row, intArg(0), intArg(0)), args(x, row, intArg(0), intArg(5))), nil},
		{"slice_scatter", calls(args(x, part, intArg(0), intArg(0), intArg(4), intArg(2)), args(x, part, intArg(0), intArg(2), intArg(6), intArg(2))),
			calls(args(x, part, intArg(0), intArg(0), intArg(2), intArg(1)))},
		{"diagonal_backward", calls(args(diagonal, intsArg(6, 8), intArg(0), intArg(0), intArg(1)), args(diagonal, intsArg(6, 8), intArg(2), intArg(0), intArg(1))), nil},
		{"diagonal_scatter", calls(args(x, diagonal, intArg(1), intArg(0), intArg(1)), args(x, diagonal, intArg(2), intArg(0), intArg(1))), nil},
		{"as_strided_scatter", calls(args(x, part, intsArg(2, 8), intsArg(8, 1), intArg(0)), args(x, part, intsArg(2, 8), intsArg(8, 1), intArg(5))),
			calls(args(x, part, intsArg(2, 8), intsArg(9, 1), intArg(0)))},
		{"native_layer_norm", calls(args(x, intsArg(8), none(), none(), floatArg(1e-5)), args(x, intsArg(8), none(), none(), floatArg(1e-3))), nil},
		{"native_group_norm", calls(args(cube, none(), none(), intArg(2), intArg(3), intArg(8), intArg(1), floatArg(1e-5)), args(cube, none(), none(), intArg(2), intArg(3), intArg(8), intArg(1), floatArg(1e-3))),
			calls(args(cube, none(), none(), intArg(2), intArg(3), intArg(8), intArg(3), floatArg(1e-5)))},
		{"pow.Tensor_Scalar", calls(args(x, intArg(2)), args(x, intArg(3)), args(x, floatArg(-2))),
			calls(args(x, floatArg(0.5)), args(x, floatArg(-0.5)))},
		{"round.decimals", calls(args(x, intArg(0)), args(x, intArg(3))), calls(args(x, intArg(-1)))},
		{"renorm", calls(args(x, floatArg(2), intArg(0), floatArg(1)), args(x, floatArg(1.5), intArg(0), floatArg(3))), nil},
		{"embedding_renorm", calls(args(x, tensorOf(dtype.S64, 2), floatArg(1), floatArg(2)), args(x, tensorOf(dtype.S64, 2), floatArg(3), floatArg(1.5))),
			calls(args(x, tensorOf(dtype.S64, 3), floatArg(1), floatArg(2)))},
		{"_cdist_forward", calls(args(x, x, floatArg(2), intArg(2)), args(x, x, floatArg(3), intArg(2))),
			calls(args(x, x, floatArg(2), intArg(1)), args(x, x, floatArg(0), intArg(2)))},
		{"_cdist_backward", calls(args(tensorOf(dtype.F32, 6, 6), x, x, floatArg(2), tensorOf(dtype.F32, 6, 6)), args(tensorOf(dtype.F32, 6, 6), x, x, floatArg(0.5), tensorOf(dtype.F32, 6, 6))), nil},
		{"norm.Scalar", calls(args(x, floatArg(2)), args(x, floatArg(1)), args(x, floatArg(-3))), calls(args(x, floatArg(0)))},
		{"norm.ScalarOpt_dtype", calls(args(x, floatArg(2), intArg(6)), args(x, floatArg(1), intArg(6))), nil},
		{"norm.ScalarOpt_dim", calls(args(x, floatArg(2), intsArg(0), boolArg(false)), args(x, floatArg(3), intsArg(0), boolArg(false))), nil},
		{"norm.ScalarOpt_dim_dtype", calls(args(x, floatArg(2), intsArg(0), boolArg(false), intArg(6)), args(x, floatArg(3), intsArg(0), boolArg(false), intArg(6))), nil},
		{"linalg_vector_norm", calls(args(x, floatArg(2), intsArg(1), boolArg(true), none()), args(x, floatArg(3), intsArg(1), boolArg(true), none())), nil},
	}
	for spatial, name := range []string{"1d", "2d", "3d"} {
		dims := []int64{2, 6, 6, 6, 6}[:spatial+2]
		first, second, padded := make([]int64, 0, 6), make([]int64, 0, 6), slices.Clone(dims)
		for k := range spatial + 1 {
			first, second = append(first, 1, 2), append(second, 3, 0)
			padded[k+1] += 3
		}
		in, out := tensorOf(dtype.F32, dims...), tensorOf(dtype.F32, padded...)
		for _, mode := range []string{"reflection_pad", "replication_pad"} {
			cases = append(cases,
				variableCase{mode + name, calls(args(in, intsArg(first...)), args(in, intsArg(second...))), nil},
				variableCase{mode + name + "_backward", calls(args(out, in, intsArg(first...)), args(out, in, intsArg(second...))), nil})
		}
	}
	return cases
}

// walked is a row's graph: its family, and its program with every number as a parameter.
func walked(t *testing.T, row string, arguments []Argument) (family, varied []byte, numbers []ir.Variable) {
	t.Helper()
	graph := &ir.Graph{}
	call := &Call{Args: slices.Clone(arguments), DefaultDtype: dtype.F32}
	if err := call.Run(rowByName[row], graph, &leaves{graph: graph, nodes: map[any]*ir.Node{}}); err != nil {
		t.Fatalf("%s: %v", row, err)
	}
	var roots []*ir.Node
	for _, result := range call.Results {
		roots = append(roots, result.Node)
	}
	walk := graph.Walk(roots)
	signature := ir.Signature{Outputs: roots}
	family, numbers = walk.AppendFamilyKey(nil, nil, signature)
	p, err := ir.DecodeKey(walk.AppendKey(nil, signature))
	if err != nil {
		t.Fatal(err)
	}
	p = p.Vary(walk.Order, slices.Repeat([]bool{true}, len(numbers)))
	if _, err := p.Lower("varied", 0); err != nil {
		t.Errorf("%s with parameters: %v", row, err)
	}
	varied = p.AppendKey(nil)
	graph.EndCall()
	return family, varied, numbers
}

// TestNumbersThatMoveHaveOneProgram: for every row with variable attributes, calls that differ in those alone are one
// family and one program, in which no value stands; calls that need another shape or lowering are of another family.
func TestNumbersThatMoveHaveOneProgram(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range variableCases() {
		tested[c.row] = true
		family, varied, numbers := walked(t, c.row, c.alike[0])
		if len(numbers) == 0 {
			t.Errorf("%s: nothing of the first call is variable", c.row)
		}
		for i, arguments := range c.alike[1:] {
			again, program, other := walked(t, c.row, arguments)
			if !bytes.Equal(again, family) || !bytes.Equal(program, varied) {
				t.Errorf("%s: call %d is not of the first one's family", c.row, i+1)
			}
			if slices.Equal(other, numbers) {
				t.Errorf("%s: call %d has the numbers of the first one", c.row, i+1)
			}
		}
		for i, arguments := range c.apart {
			if again, _, _ := walked(t, c.row, arguments); bytes.Equal(again, family) {
				t.Errorf("%s: call %d of those apart is of the same family", c.row, i)
			}
		}
	}
	for _, row := range rows {
		if row.Variables != nil && !tested[row.Name] {
			t.Errorf("%s has variable attributes and no case here", row.Name)
		}
	}
}
