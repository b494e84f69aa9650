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
	// Variables, where it is set, says which attributes of a node may be scalar parameters.
	Variables func(n *Node) Variables

	mayCheck bool // see MayCheck
	// Collective: replicas exchange values in it, so that its program runs on all of them together.
	Collective bool
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

// DefineVariable is Define for a kind of which some attributes can be parameters instead. Lower reads
// those with Lowering.Number.
func DefineVariable(name string, lower func(l *Lowering) []hlo.Value, variables func(n *Node) Variables) Kind {
	kind := Define(name, lower)
	definitions[kind].Variables = variables
	return kind
}

// MarkCollective says that replicas exchange values in a kind; package initialisation only.
func MarkCollective(kind Kind) { definitions[kind].Collective = true }

// IsCollective is true for what MarkCollective was called with.
func (k Kind) IsCollective() bool { return int(k) < len(definitions) && definitions[k].Collective }

// String gives the kind's name.
func (k Kind) String() string {
	if int(k) < len(definitions) {
		return definitions[k].Name
	}
	return fmt.Sprintf("kind%d", uint16(k))
}
