package executor

import (
	"strings"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/ir"
)

// program makes a program of two inputs and one operator.
func program(change func(p *ir.Program)) *ir.Program {
	p := &ir.Program{
		Nodes: []ir.ProgramNode{
			{Kind: ir.KindParameter, Dtype: dtype.F32, Dims: []int64{4}},
			{Kind: ir.KindParameter, Dtype: dtype.F32, Dims: []int64{2, 2}},
			{Kind: ir.KindElement, Dtype: dtype.F32, Dims: []int64{4}, Attributes: []int64{0, 7}, Operands: []int{0}},
			{Kind: ir.KindScalar, Dtype: dtype.F64},
		},
		Outputs: []int{2},
	}
	if change != nil {
		change(p)
	}
	return p
}

func TestReasons(t *testing.T) {
	known := program(nil).AppendKey(nil)
	far := program(func(p *ir.Program) { p.Nodes = p.Nodes[:3] }).AppendKey(nil)
	for want, change := range map[string]func(p *ir.Program){
		"input 0: f32[4] → f32[5], beside the program before it":                     func(p *ir.Program) { p.Nodes[0].Dims = []int64{5}; p.Nodes[2].Dims = []int64{5} },
		"input 1: f32[2,2] → s64[2,2]":                                               func(p *ir.Program) { p.Nodes[1].Dtype = dtype.S64 },
		"input 0: f32[4] → f64[4], and 1 more inputs":                                func(p *ir.Program) { p.Nodes[0].Dtype, p.Nodes[1].Dtype = dtype.F64, dtype.F64 },
		"element (node 2): attributes [0 7] → [0 8]":                                 func(p *ir.Program) { p.Nodes[2].Attributes = []int64{0, 8} },
		"scalar (node 3): f64[] → f32[]":                                             func(p *ir.Program) { p.Nodes[3].Dtype = dtype.F32 },
		"other values are kept: results [2] → [2 2]":                                 func(p *ir.Program) { p.Outputs = []int{2, 2} },
		"other operators: 4 nodes → 5, beside":                                       func(p *ir.Program) { p.Nodes = append(p.Nodes, p.Nodes[3]) },
		"other operators: 4 nodes → 4, from node 3 on: scalar → parameter":           func(p *ir.Program) { p.Nodes[3].Kind = ir.KindParameter },
		"other operators: 4 nodes → 4, from node 2 on: element of other operands":    func(p *ir.Program) { p.Nodes[2].Operands = []int{1} },
		"element (node 2): attributes [0 7] → [0 7 0], and 1 more nodes, beside the": func(p *ir.Program) { p.Nodes[2].Attributes = []int64{0, 7, 0}; p.Nodes[3].Dtype = dtype.F32 },
	} {
		if got := explain(program(change), [][]byte{known}); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := explain(program(change), [][]byte{far, known}); !strings.HasSuffix(got, ", beside the program 2 before it") && !strings.Contains(want, "other operators") {
			t.Errorf("the program that is nearest was not taken: %q", got)
		}
	}
	if got := explain(program(nil), nil); got != "the first program" {
		t.Error(got)
	}
}
