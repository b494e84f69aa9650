package stablehlo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// special are the opcodes that instruction treats apart.
var special = set("call", "conditional", "copy", "custom-call", "dot", "erf", "broadcast", "get-tuple-element", "opt-barrier",
	"parameter", "tuple", "while")

// Every opcode that the builder can emit has an operation: what the builder's tests make is compared, value by value, with
// its StableHLO in package hlo.
func TestEveryOpcodeOfTheBuilderIsKnown(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../hlo/opcode.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != "Opcode" {
			return true
		}
		opcode, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found++
		ways := 0
		for _, known := range []bool{special[opcode] && properties[opcode] == nil, plain[opcode], properties[opcode] != nil, regional[opcode] != nil} {
			if known {
				ways++
			}
		}
		if ways != 1 {
			t.Errorf("opcode %s is written in %d ways, want 1", opcode, ways)
		}
		return true
	})
	if found < 80 {
		t.Errorf("found %d opcodes in package hlo, want at least 80", found)
	}
}
