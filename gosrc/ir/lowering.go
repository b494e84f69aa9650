package ir

import (
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
}

// Count gives the number of operands.
func (l *Lowering) Count() int { return len(l.operands) }

// In gives operand i.
func (l *Lowering) In(i int) hlo.Value { return l.operands[i][0] }

// Int reads the next attribute.
func (l *Lowering) Int() int64 {
	v := l.attrs[l.next]
	l.next++
	return v
}

// Ints reads the next list of attributes.
func (l *Lowering) Ints() []int64 {
	n := int(l.Int())
	v := l.attrs[l.next : l.next+n : l.next+n]
	l.next += n
	return v
}

// Float reads the next float attribute.
func (l *Lowering) Float() float64 { return math.Float64frombits(uint64(l.Int())) }

// Bool reads the next bool attribute.
func (l *Lowering) Bool() bool { return l.Int() != 0 }

// Rest gives the attributes not read yet.
func (l *Lowering) Rest() []int64 { return l.attrs[l.next:] }
