package hlo

import (
	"slices"

	pb "xla_go/gosrc/hlo/proto"
)

// CheckSignature refuses a serialized module that says of its parameters and results something else than its entry computation has:
// compilers take the one for the other, and XLA ends the process where they differ. InvalidArgument, with words that begin with the operation.
func CheckSignature(op string, module []byte) error {
	m, err := decode(op, module)
	if err != nil {
		return err
	}
	purpose := op + "()"
	var entry *pb.HloComputationProto
	for _, c := range m.Computations {
		if c.Id == m.EntryComputationId {
			entry = c
		}
	}
	if entry == nil {
		return Malformed(purpose, "the entry computation is missing")
	}
	told := []*pb.ProgramShapeProto{entry.ProgramShape}
	if m.HostProgramShape != nil {
		told = append(told, m.HostProgramShape)
	}
	declared := len(entry.ProgramShape.GetParameters())
	for _, t := range told {
		if n := len(t.GetParameters()); n != declared {
			return Malformed(purpose, "the entry computation has %d parameters and the module %d", declared, n)
		}
	}
	for _, i := range entry.Instructions {
		for _, t := range told {
			switch {
			case i.Id == entry.RootId && !sameForm(i.Shape, t.GetResult()):
				return Malformed(purpose, "the result %s has another shape than the program", i.Name)
			case i.Opcode != string(opParameter):
			case i.ParameterNumber < 0 || i.ParameterNumber >= int64(declared):
				return Malformed(purpose, "instruction %s is parameter %d of %d", i.Name, i.ParameterNumber, declared)
			case !sameForm(i.Shape, t.Parameters[i.ParameterNumber]):
				return Malformed(purpose, "parameter %d has another shape than that of the program", i.ParameterNumber)
			}
		}
	}
	return nil
}

// sameForm compares shapes without their layouts.
func sameForm(a, b *pb.ShapeProto) bool {
	return a.GetElementType() == b.GetElementType() && slices.Equal(a.GetDimensions(), b.GetDimensions()) &&
		slices.EqualFunc(a.GetTupleShapes(), b.GetTupleShapes(), sameForm)
}
