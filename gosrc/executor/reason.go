package executor

import (
	"fmt"
	"slices"

	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// explain says in one line why a program was not among those that are known: how it differs from the most alike of
// the candidates, which are keys of earlier programs, the newest first.
func explain(program *ir.Program, candidates [][]byte) string {
	if len(candidates) == 0 {
		return "the first program"
	}
	var nearest *ir.Program
	var nearestFrom string
	best := 0
	for i, key := range candidates {
		known, err := ir.DecodeKey(key)
		if err != nil {
			continue
		}
		distance := distanceOf(program, known)
		if nearest == nil || distance < best {
			nearest, best = known, distance
			nearestFrom = "the program before it"
			if i > 0 {
				nearestFrom = fmt.Sprintf("the program %d before it", i+1)
			}
		}
	}
	if nearest == nil {
		return "another program"
	}
	return difference(program, nearest) + ", beside " + nearestFrom
}

// sameOperators is true where both have the same operators on the same operands, and may differ in shapes, types,
// attributes and results.
func sameOperators(a, b *ir.Program) bool {
	return slices.EqualFunc(a.Nodes, b.Nodes, func(x, y ir.ProgramNode) bool { return x.Kind == y.Kind && slices.Equal(x.Operands, y.Operands) })
}

func sameNode(x, y ir.ProgramNode) bool {
	return x.Kind == y.Kind && x.Dtype == y.Dtype && slices.Equal(x.Dims, y.Dims) && slices.Equal(x.Attributes, y.Attributes) && slices.Equal(x.Operands, y.Operands) &&
		slices.Equal(x.Varied, y.Varied) && x.Case == y.Case
}

// distanceOf counts the nodes that differ; programs of other operators are further away than any of the same.
func distanceOf(a, b *ir.Program) int {
	distance := 0
	if !sameOperators(a, b) {
		distance = 1 << 30
	}
	for i := range min(len(a.Nodes), len(b.Nodes)) {
		if !sameNode(a.Nodes[i], b.Nodes[i]) {
			distance++
		}
	}
	return distance + max(len(a.Nodes), len(b.Nodes)) - min(len(a.Nodes), len(b.Nodes))
}

// difference says how a differs from a known program, by what came first: inputs before what they lead to.
func difference(a, known *ir.Program) string {
	if !sameOperators(a, known) {
		return otherOperators(a, known)
	}
	inputs, other := 0, 0
	var first string
	number := 0
	for i, n := range a.Nodes {
		old := known.Nodes[i]
		isInput := n.Kind == ir.KindParameter
		if !sameNode(n, old) {
			switch {
			case isInput:
				if inputs == 0 {
					first = fmt.Sprintf("input %d: %s → %s", number, typeOf(old), typeOf(n))
				}
				inputs++
			case inputs == 0 && other == 0:
				first = fmt.Sprintf("%s (node %d): %s", n.Kind, i, nodeDifference(n, old))
				other++
			default:
				other++
			}
		}
		if isInput {
			number++
		}
	}
	switch {
	case inputs > 1:
		return fmt.Sprintf("%s, and %d more inputs", first, inputs-1)
	case inputs == 1, other == 1:
		return first
	case other > 1:
		return fmt.Sprintf("%s, and %d more nodes", first, other-1)
	}
	switch {
	case a.Replicas != known.Replicas:
		return fmt.Sprintf("replicas %d → %d", known.Replicas, a.Replicas)
	case a.Precision != known.Precision:
		return fmt.Sprintf("precision %s → %s", known.Precision, a.Precision)
	case a.Device != known.Device:
		return fmt.Sprintf("device %d → %d", known.Device, a.Device)
	}
	return fmt.Sprintf("other values are kept: results %s → %s", someOf(known.Outputs), someOf(a.Outputs))
}

func otherOperators(a, known *ir.Program) string {
	text := fmt.Sprintf("other operators: %d nodes → %d", len(known.Nodes), len(a.Nodes))
	for i := range min(len(a.Nodes), len(known.Nodes)) {
		n, old := a.Nodes[i], known.Nodes[i]
		if n.Kind != old.Kind {
			return fmt.Sprintf("%s, from node %d on: %s → %s", text, i, old.Kind, n.Kind)
		}
		if !slices.Equal(n.Operands, old.Operands) {
			return fmt.Sprintf("%s, from node %d on: %s of other operands", text, i, n.Kind)
		}
	}
	return text
}

func typeOf(n ir.ProgramNode) string { return shape.Shape{Dtype: n.Dtype, Dims: n.Dims}.String() }

func nodeDifference(n, old ir.ProgramNode) string {
	if typeOf(n) != typeOf(old) {
		return typeOf(old) + " → " + typeOf(n)
	}
	if !slices.Equal(n.Varied, old.Varied) {
		return fmt.Sprintf("attributes that are parameters: %s → %s", someOf(old.Varied), someOf(n.Varied))
	}
	return fmt.Sprintf("attributes %s → %s", someOf(old.Attributes), someOf(n.Attributes))
}

// someOf writes the first numbers of a list.
func someOf[T int | int64](numbers []T) string {
	const shown = 8
	if len(numbers) <= shown {
		return fmt.Sprint(numbers)
	}
	return fmt.Sprintf("%v and %d more", numbers[:shown], len(numbers)-shown)
}
