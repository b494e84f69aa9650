package hlo

import (
	"encoding/json"

	pb "xla_go/gosrc/hlo/proto"
)

// Mark says that a value is an input or an output of a part of a program, which OutlineComposites makes a computation of its own.
type Mark struct {
	Name       string `json:"name"` // of the composite
	ID         string `json:"id"`   // tells composites of one name apart
	Position   int64  `json:"position"`
	IsInput    bool   `json:"is_input"`
	Attributes string `json:"attributes"` // a JSON object, of an output; "" for none
}

// Marks says what becomes of marks.
type Marks int8

// Marks are nothing, as in what is run, or make composites: of a program, or of a part of one, which may lack outputs.
const (
	Unmarked Marks = iota
	FullyMarked
	PartlyMarked
)

// markTarget is the name under which a module has a mark until it is outlined.
const markTarget = "xla_go.mark"

// KeepMarks makes Mark add an instruction, for OutlineComposites; without it a mark is nothing.
func (b *Builder) KeepMarks() { b.module.marks = true }

// Mark marks a value, where marks are kept.
func (b *Builder) Mark(x Value, m Mark) Value {
	if !b.module.marks || !b.ok(opCustomCall, x) {
		return x
	}
	configuration, err := json.Marshal(m)
	if err != nil {
		return b.fail(opCustomCall, "%v", err)
	}
	return b.CustomCall(markTarget, []Value{x}, x.n.shape, configuration, CallOptions{})
}

// markOf reads an instruction that Mark added; false for another one.
func markOf(i *pb.HloInstructionProto) (m Mark, is bool, err error) {
	if i.Opcode != string(opCustomCall) || i.CustomCallTarget != markTarget || len(i.OperandIds) != 1 {
		return m, false, nil
	}
	if err := json.Unmarshal(i.BackendConfig, &m); err != nil {
		return m, true, Malformed("mark", "instruction %s has a configuration that is no mark: %v", i.Name, err)
	}
	return m, true, nil
}
