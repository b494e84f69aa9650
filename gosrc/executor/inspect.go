package executor

import (
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/stablehlo"
	"xla_go/gosrc/status"
)

// Pending gives the values of the device that are not computed or queued yet, oldest first. Under Core.Mu.
func (d *Device) Pending() []*ir.Node {
	var values []*ir.Node
	for r := d.head; r != nil; r = r.next {
		values = append(values, r.value)
	}
	return values
}

// Key gives the canonical key of the program that would compute values, and the stacks of its nodes, nil where none
// were recorded. Under Core.Mu.
func (c *Core) Key(values []*ir.Node) ([]byte, []ir.Stack) {
	walk := c.Graph.Walk(values)
	return walk.AppendKey(nil, ir.Signature{Outputs: values}), ir.Stacks(walk.Order, nil)
}

// Describe writes the program of a key as "ir" (a node a line), "hlo" (the text of the module that is compiled),
// "stablehlo" (MLIR that is the same program) or "dot" (Graphviz's language), with the lines that made its nodes where
// stacks has them. Unimplemented where StableHLO has no operation for an instruction. Without Core.Mu.
func (c *Core) Describe(key []byte, stacks []ir.Stack, format string) (string, error) {
	program, err := ir.DecodeKey(key)
	if err != nil {
		return "", err
	}
	program.SetStacks(stacks)
	switch format {
	case "ir":
		return program.Text(), nil
	case "dot":
		return program.DOT(), nil
	case "hlo", "stablehlo":
		program.Unchecked = !c.options.Checks
		module, err := program.Lower("step", c.options.TupleThreshold)
		if err != nil {
			return "", err
		}
		if format == "stablehlo" {
			return stablehlo.Text(module.HLO)
		}
		return hlo.Dump(module.HLO)
	}
	return "", status.Errorf(status.InvalidArgument, "Describe(): expected the format ir, hlo, stablehlo or dot, got %q", format)
}
