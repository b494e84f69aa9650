package ir

import (
	"fmt"
	"math"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
)

// Lowering is what a kind's Lower function sees: the builder, the node's operands as HLO values,
// its attributes in the order in which they were added, and its result's type.
type Lowering struct {
	B        *hlo.Builder
	Dtype    dtype.Dtype // of a node with one result
	Dims     []int64     // of a node with one result
	operands [][]hlo.Value
	attrs    []int64
	next     int
	given    []hlo.Value // the attributes that are parameters, by position; nil where none is
	variant  uint64
	kind     Kind

	checks      *checks // nil where none are wanted
	partitioned bool
}

// take makes the lowering that of a node, whose operands are among the program's values.
func (l *Lowering) take(n *ProgramNode, values [][]hlo.Value) {
	l.Dtype, l.Dims, l.attrs, l.next, l.kind = n.Dtype, n.Dims, n.Attributes, 0, n.Kind
	l.operands, l.given, l.variant = l.operands[:0], nil, n.Case
	own := len(n.Operands) - len(n.Varied)
	for _, operand := range n.Operands[:own] {
		l.operands = append(l.operands, values[operand])
	}
	if len(n.Varied) > 0 {
		l.given = make([]hlo.Value, len(n.Attributes))
		for k, position := range n.Varied {
			l.given[position] = values[n.Operands[own+k]][0]
		}
	}
}

// Count gives the number of operands, without those that give attributes.
func (l *Lowering) Count() int { return len(l.operands) }

// Case gives the Case that the kind's Variables said of the node; meaningful only where an attribute is a parameter.
func (l *Lowering) Case() uint64 { return l.variant }

// In gives operand i.
func (l *Lowering) In(i int) hlo.Value { return l.operands[i][0] }

// Int reads the next attribute, which is no parameter.
func (l *Lowering) Int() int64 {
	v := l.constants(l.next, l.next+1)
	l.next++
	return v[0]
}

// Ints reads the next list of attributes.
func (l *Lowering) Ints() []int64 {
	n := int(l.Int())
	v := l.constants(l.next, l.next+n)
	l.next += n
	return v
}

// Number reads the next attribute, which may be a parameter.
func (l *Lowering) Number() Number {
	n := Number{Constant: l.attrs[l.next]}
	if l.given != nil {
		n.value = l.given[l.next]
	}
	l.next++
	return n
}

// Partitioned is true where the program is partitioned over several devices.
func (l *Lowering) Partitioned() bool { return l.partitioned }

// Left gives the number of attributes not read yet.
func (l *Lowering) Left() int { return len(l.attrs) - l.next }

// Float reads the next float attribute.
func (l *Lowering) Float() float64 { return math.Float64frombits(uint64(l.Int())) }

// Bool reads the next bool attribute.
func (l *Lowering) Bool() bool { return l.Int() != 0 }

// Rest gives the attributes not read yet, none of them a parameter. It reads none: a second Rest gives the same.
func (l *Lowering) Rest() []int64 { return l.constants(l.next, len(l.attrs)) }

// constants gives attributes [from, to), and panics where one is a parameter: a lowering that took its 0 for the value
// would be wrong.
func (l *Lowering) constants(from, to int) []int64 {
	if l.given != nil {
		for position := from; position < to; position++ {
			if l.given[position].Valid() {
				panic(fmt.Sprintf("attribute %d is a parameter and is read as a constant", position))
			}
		}
	}
	return l.attrs[from:to:to]
}
