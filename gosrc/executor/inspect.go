package executor

import (
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
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

// Key gives the canonical key of the program that would compute values. Under Core.Mu.
func (c *Core) Key(values []*ir.Node) []byte {
	return ir.AppendKey(nil, c.Graph.Walk(values), ir.Signature{Outputs: values})
}

// Describe writes the program of a key as "ir" (a node a line), "hlo" (the text of the module that is
// compiled) or "dot" (Graphviz's language). Without Core.Mu.
func (c *Core) Describe(key []byte, format string) (string, error) {
	program, err := ir.DecodeKey(key)
	if err != nil {
		return "", err
	}
	switch format {
	case "ir":
		return program.Text(), nil
	case "dot":
		return program.DOT(), nil
	case "hlo":
		module, err := program.Lower("step", c.options.TupleThreshold)
		if err != nil {
			return "", err
		}
		return hlo.Dump(module.HLO)
	}
	return "", status.Errorf(status.InvalidArgument, "Describe(): expected the format ir, hlo or dot, got %q", format)
}
