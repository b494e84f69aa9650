package ir

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"xla_go/gosrc/shape"
)

// Text writes the program for people, a node a line:
//
//	%2 = aten::add.Tensor(%0, %1) : f32[4] attributes=[1]  # train.py:12 in step < train.py:40 in <module>
//
// with the lines that made it where stacks were recorded.
// The last line names the results.
func (p *Program) Text() string {
	var b strings.Builder
	for i := range p.Nodes {
		n := &p.Nodes[i]
		fmt.Fprintf(&b, "%%%d = %s(%s) : %s", i, n.Kind, references(n.Operands), shape.Shape{Dtype: n.Dtype, Dims: n.Dims})
		if len(n.Attributes) > 0 {
			b.WriteString(" attributes=" + attributesText(n.Attributes))
		}
		if len(n.Varied) > 0 {
			fmt.Fprintf(&b, " parameters=%v", n.Varied)
		}
		if line := n.Stack.Line(); line != "" {
			fmt.Fprintf(&b, "  # %s", line)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "return %s\n", references(p.Outputs))
	return b.String()
}

// shownAttributes is how many attributes a text has: more are a program within the node.
const shownAttributes = 64

// attributesText writes attributes; of very many the first ones, their number, and a digest that tells them from others.
func attributesText(attributes []int64) string {
	if len(attributes) <= shownAttributes {
		return fmt.Sprint(attributes)
	}
	digest := fnv.New64a()
	for _, a := range attributes {
		_, _ = digest.Write(binary.LittleEndian.AppendUint64(nil, uint64(a)))
	}
	return fmt.Sprintf("%v and more, %d in all, of digest %016x", attributes[:shownAttributes/4], len(attributes), digest.Sum64())
}

func references(nodes []int) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = "%" + strconv.Itoa(n)
	}
	return strings.Join(names, ", ")
}

// DOT writes the program as a graph in Graphviz's language: inputs as boxes, scalars as plain text, results
// with a double outline, operators as ellipses, an edge from each operand.
func (p *Program) DOT() string {
	var b strings.Builder
	b.WriteString("digraph program {\n  node [fontname=\"Helvetica\", fontsize=10];\n")
	for i := range p.Nodes {
		n := &p.Nodes[i]
		style := ""
		switch {
		case n.Kind == KindParameter:
			style = ", shape=box, style=filled, fillcolor=\"#dce9f5\""
		case n.Kind == KindScalar:
			style = ", shape=plaintext"
		}
		if slices.Contains(p.Outputs, i) {
			style += ", peripheries=2"
		}
		label := strconv.Quote(fmt.Sprintf("%%%d %s\n%s", i, n.Kind, shape.Shape{Dtype: n.Dtype, Dims: n.Dims}))
		fmt.Fprintf(&b, "  n%d [label=%s%s];\n", i, label, style)
		for position, operand := range n.Operands {
			edge := ""
			if len(n.Operands) > 1 {
				edge = fmt.Sprintf(" [label=\"%d\", fontsize=8]", position)
			}
			fmt.Fprintf(&b, "  n%d -> n%d%s;\n", operand, i, edge)
		}
	}
	b.WriteString("}\n")
	return b.String()
}
