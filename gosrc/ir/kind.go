package ir

import (
	"fmt"

	"xla_go/gosrc/hlo"
)

// Kind says what a node computes. Kinds are numbered in the order in which they are defined,
// which Go's package initialisation makes the same in every process of one build.
type Kind uint16

// Kinds of the core itself; the others are defined by ops and tensor.
const (
	KindInvalid   Kind = iota
	KindParameter      // a device value
	KindScalar         // a scalar whose value is given at each run
	KindElement        // one result of a node with several; attribute: its number
	firstDefined
)

// Definition is what the core knows of a kind.
type Definition struct {
	// Name shows in dumps and messages, for example "aten::add.Tensor".
	Name string
	// Lower emits the node's HLO: one value, or one per result for a kind with several.
	Lower func(l *Lowering) []hlo.Value
	// Variable, where it is set, says whether the node's first attribute may be given as a scalar
	// parameter (s64, one more operand) in place of the constant that it is.
	Variable func(n *Node) bool
}

var definitions = []Definition{
	KindInvalid:   {Name: "invalid"},
	KindParameter: {Name: "parameter"},
	KindScalar:    {Name: "scalar"},
	KindElement:   {Name: "element"},
}

var kindByName = map[string]Kind{}

// Define registers a kind; package initialisation only.
func Define(name string, lower func(l *Lowering) []hlo.Value) Kind {
	if lower == nil {
		panic(fmt.Sprintf("ir.Define(%q): expected a lowering, got nil", name))
	}
	if _, ok := kindByName[name]; ok {
		panic(fmt.Sprintf("ir.Define(%q): expected a new name, got one that is defined", name))
	}
	kind := Kind(len(definitions))
	definitions = append(definitions, Definition{Name: name, Lower: lower})
	kindByName[name] = kind
	return kind
}

// DefineVariable is Define for a kind whose first attribute can be a parameter instead: Lower then
// finds one operand more, and the attribute is zero.
func DefineVariable(name string, lower func(l *Lowering) []hlo.Value, variable func(n *Node) bool) Kind {
	kind := Define(name, lower)
	definitions[kind].Variable = variable
	return kind
}

// IsVariable is true where n's first attribute may be a parameter instead.
func IsVariable(n *Node) bool {
	variable := definitions[n.Kind].Variable
	return variable != nil && variable(n)
}

// String gives the kind's name.
func (k Kind) String() string {
	if int(k) < len(definitions) {
		return definitions[k].Name
	}
	return fmt.Sprintf("kind%d", uint16(k))
}
