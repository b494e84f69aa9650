package ir

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
)

// Numbers of a program that are constants at first and may become parameters: positions, shifts and the like that
// change from step to step while shapes and lowering stay the same. Graphs that differ in nothing else are a family.

// Variables says which attributes of a node may be scalar parameters: a bit for each position, of which there are 64.
// A node's shape must not depend on them.
type Variables struct {
	Integers uint64 // s64 where they are parameters
	Floats   uint64 // float64 bits; f64 where they are parameters
	// Case is what the lowering makes of the values: nodes of different cases are of different families.
	Case uint64
}

func (v Variables) all() uint64 { return v.Integers | v.Floats }

// VariablesOf says which of n's attributes may be parameters; none for most kinds.
func VariablesOf(n *Node) Variables {
	variables := definitions[n.Kind].Variables
	if variables == nil {
		return Variables{}
	}
	v := variables(n)
	if count := len(n.Attributes); count < 64 {
		v.Integers &= 1<<count - 1
		v.Floats &= 1<<count - 1
	}
	return v
}

// Variable is the value of an attribute that may be a parameter.
type Variable struct {
	Bits    int64
	IsFloat bool
}

// AppendVariables appends the values of n's attributes that may be parameters, in the order of their positions.
func AppendVariables(values []Variable, n *Node) []Variable {
	v := VariablesOf(n)
	for rest := v.all(); rest != 0; rest &= rest - 1 {
		position := bits.TrailingZeros64(rest)
		values = append(values, Variable{n.Attributes[position], v.Floats>>position&1 != 0})
	}
	return values
}

// AppendFamilyKey is AppendKey with the attributes that may be parameters left out: graphs that differ only in
// those have the same one. The attributes are appended to values, in order.
func (w *Walk) AppendFamilyKey(key []byte, values []Variable, s Signature) ([]byte, []Variable) {
	key = binary.AppendUvarint(key, uint64(len(w.Order)))
	for _, n := range w.Order {
		v := VariablesOf(n)
		if v.all() == 0 {
			key = appendNode(key, n)
			continue
		}
		values = AppendVariables(values, n)
		key = appendHead(key, n.Kind, true, n.Dtype, n.Dims)
		for _, number := range []uint64{v.Integers, v.Floats, v.Case, uint64(len(n.Attributes))} {
			key = binary.AppendUvarint(key, number)
		}
		for position, a := range n.Attributes {
			if position >= 64 || v.all()>>position&1 == 0 {
				key = binary.AppendVarint(key, a)
			}
		}
		key = appendOperands(key, n)
	}
	return appendSignature(key, s), values
}

// appendVaried appends, after a node's operands, which of its attributes are parameters.
func appendVaried(key []byte, n *ProgramNode) []byte {
	key = binary.AppendUvarint(key, uint64(len(n.Varied)))
	for _, position := range n.Varied {
		key = binary.AppendUvarint(key, uint64(position))
	}
	return binary.AppendUvarint(key, n.Case)
}

// varied reads what appendVaried wrote.
func (r *keyReader) varied(n *ProgramNode) {
	n.Varied = make([]int, r.count())
	r.bad = r.bad || len(n.Varied) == 0 || len(n.Varied) > len(n.Operands)
	before := -1
	for i := range n.Varied {
		position := int(r.number(int64(len(n.Attributes)) - 1))
		r.bad = r.bad || position <= before
		n.Varied[i], before = position, position
	}
	n.Case = r.uvarint()
}

// Vary gives the program of a walked graph, which is p, with some of its variable attributes as parameters.
// parameters says, for each of them in the order of AppendFamilyKey's values, whether it becomes one: a scalar that
// stands before the node. The values of those are nowhere in the result.
func (p *Program) Vary(order []*Node, parameters []bool) *Program {
	varied := &Program{Donors: p.Donors, Partitions: p.Partitions, Shardings: p.Shardings, Replicas: p.Replicas, Device: p.Device}
	moved := make([]int, len(p.Nodes))
	next := 0
	for i, n := range p.Nodes {
		operands := make([]int, len(n.Operands), len(n.Operands)+1)
		for k, operand := range n.Operands {
			operands[k] = moved[operand]
		}
		n.Operands = operands
		v := VariablesOf(order[i])
		for rest := v.all(); rest != 0; rest &= rest - 1 {
			position := bits.TrailingZeros64(rest)
			if parameters[next] {
				scalar := ProgramNode{Kind: KindScalar, Dtype: dtype.S64}
				if v.Floats>>position&1 != 0 {
					scalar.Dtype = dtype.F64
				}
				varied.Nodes = append(varied.Nodes, scalar)
				n.Operands = append(n.Operands, len(varied.Nodes)-1)
				if n.Varied == nil {
					n.Attributes = slices.Clone(n.Attributes)
					n.Case = v.Case
				}
				n.Varied = append(n.Varied, position)
				n.Attributes[position] = 0
			}
			next++
		}
		moved[i] = len(varied.Nodes)
		varied.Nodes = append(varied.Nodes, n)
	}
	for _, o := range p.Outputs {
		varied.Outputs = append(varied.Outputs, moved[o])
	}
	return varied
}

// Number is an attribute as a lowering sees it: a constant, or a parameter, whose value only a run knows.
type Number struct {
	Constant int64 // 0 where it is a parameter
	value    hlo.Value
}

// IsParameter is true where the value is known only when the program runs.
func (n Number) IsParameter() bool { return n.value.Valid() }

// Float gives the constant of a float attribute.
func (n Number) Float() float64 { return math.Float64frombits(uint64(n.Constant)) }

// In gives an integer attribute as a scalar of an integer type, which must hold it.
func (n Number) In(b *hlo.Builder, d dtype.Dtype) hlo.Value {
	if n.IsParameter() {
		return n.as(b, d)
	}
	return b.ScalarInt(d, n.Constant)
}

// FloatIn gives a float attribute as a scalar of d, rounded.
func (n Number) FloatIn(b *hlo.Builder, d dtype.Dtype) hlo.Value {
	if n.IsParameter() {
		return n.as(b, d)
	}
	return b.Scalar(d, n.Float())
}

func (n Number) as(b *hlo.Builder, d dtype.Dtype) hlo.Value {
	if n.value.Dtype() == d {
		return n.value
	}
	return b.Convert(n.value, d)
}
