package ops

import (
	"regexp"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Marks of the inputs and outputs of a part of a program, which exported programs have as a composite (`xla_go.composite`). The schema
// is ours (torch_adapter/collective.cpp). What is run has no trace of them.

// compositeName is what StableHLO takes as the name of a composite.
var compositeName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+$`)

func init() {
	register(&Row{Name: "xla_go::mark", Meta: metaMark, Lower: lowerMark})
}

// metaMark: (self, name, position, id, is_input, attributes).
func metaMark(c *Call) error {
	if name := c.Text(1); !compositeName.MatchString(name) {
		return status.Torchf(status.ValueError, "%s(): expected the name of a composite with its namespace, such as my_library.attention, got %q", c.row.Name, name)
	}
	if c.Int(2, 0) < 0 {
		return status.Torchf(status.ValueError, "%s(): expected the position of an input or output, got %d", c.row.Name, c.Int(2, 0))
	}
	c.Operand(c.Node(0))
	c.Attr(c.Int(2, 0))
	c.AttrBool(c.Bool(4))
	for _, i := range [...]int{1, 3, 5} {
		c.attrBytes([]byte(c.Text(i)))
	}
	return c.Out(c.Dtype(0), c.Dims(0))
}

func lowerMark(l *ir.Lowering) hlo.Value {
	m := hlo.Mark{Position: l.Int(), IsInput: l.Bool(), Name: string(readBytes(l)), ID: string(readBytes(l)), Attributes: string(readBytes(l))}
	return l.B.Mark(l.In(0), m)
}
