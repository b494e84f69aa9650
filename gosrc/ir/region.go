package ir

import (
	"slices"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/status"
)

// KindPlaceholder stands for a value that a region is given: it has none of its own. Regions find placeholders by identity.
var KindPlaceholder = Define("xla_go::placeholder", func(*Lowering) []hlo.Value { panic(ErrUnknown()) })

// ErrUnknown is what raises where a value is asked for that is made of a placeholder.
func ErrUnknown() error {
	return status.Errorf(status.FailedPrecondition,
		"expected a value, got a placeholder: the function of a loop is traced once, and what it computes has no value outside of the loop")
}

// isInput is true for what a region is given from outside.
func (k Kind) isInput() bool {
	return k == KindParameter || k == KindScalar || k == KindPlaceholder
}

// Region is a program inside of another's node, such as the body of a loop: its key without values.
type Region struct {
	// Inputs are what the region is given, in order: placeholders, device values and scalars.
	Inputs []*Node
	// Key is the region as a program whose parameters they are.
	Key []byte
	// Collective: the replicas exchange values in it.
	Collective bool
}

// Region captures what the roots are computed from, up to placeholders, device values and scalars. Nodes stay as they are.
func (g *Graph) Region(roots []*Node) Region {
	walk := g.Walk(roots)
	r := Region{Collective: walk.Collective}
	for _, n := range walk.Order {
		if n.Kind.isInput() {
			r.Inputs = append(r.Inputs, n)
		}
	}
	r.Key = walk.AppendKey(nil, Signature{Outputs: roots})
	return r
}

// EmitRegion emits a region's instructions into b, an open computation of l's module, and gives its results. inputs are in
// the order of Region.Inputs. Positions and classes out of range are not told of: what checks them is outside.
func (l *Lowering) EmitRegion(b *hlo.Builder, key []byte, inputs []hlo.Value) ([]hlo.Value, error) {
	p, err := DecodeKey(key)
	if err != nil {
		return nil, err
	}
	inner := Lowering{B: b, partitioned: l.partitioned}
	values := make([][]hlo.Value, len(p.Nodes))
	for i := range p.Nodes {
		n := &p.Nodes[i]
		switch {
		case n.Kind.isInput():
			if len(inputs) == 0 {
				return nil, status.Errorf(status.Internal, "EmitRegion(): expected an input for each of the region's, got too few")
			}
			values[i], inputs = slices.Clone(inputs[:1]), inputs[1:]
		case n.Kind == KindElement:
			if values[i], err = p.element(n, values); err != nil {
				return nil, err
			}
		default:
			inner.take(n, values)
			if values[i], err = lowerNode(&inner, n); err != nil {
				return nil, err
			}
			if err := b.Err(); err != nil {
				return nil, err
			}
		}
	}
	outputs := make([]hlo.Value, len(p.Outputs))
	for i, o := range p.Outputs {
		outputs[i] = values[o][0]
	}
	return outputs, nil
}
