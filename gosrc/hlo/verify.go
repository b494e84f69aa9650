package hlo

import (
	pb "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Verify refuses a module in which a reader would not find its way: it may come from a file, or from another program. What belongs to
// one opcode (how many operands, which attributes) it leaves to that reader. InvalidArgument, with words that begin with purpose.
func Verify(purpose string, m *pb.HloModuleProto) error {
	v := &verifier{purpose: purpose, computations: make(map[int64]*pb.HloComputationProto, len(m.Computations)), state: map[int64]visit{}}
	for _, c := range m.Computations {
		if v.computations[c.Id] != nil {
			return v.invalid("computation %d is there twice", c.Id)
		}
		v.computations[c.Id] = c
	}
	for _, c := range m.Computations {
		if err := v.computation(c); err != nil {
			return err
		}
	}
	return nil
}

// Malformed is the error of a module that is not what it should be.
func Malformed(purpose, format string, args ...any) error {
	return status.Errorf(status.InvalidArgument, purpose+": expected a well-formed module, got one in which "+format, args...)
}

func (v *verifier) invalid(format string, args ...any) error {
	return Malformed(v.purpose, format, args...)
}

type visit int

const (
	unseen visit = iota
	open         // its own calls are being followed
	closed
)

type verifier struct {
	purpose      string
	computations map[int64]*pb.HloComputationProto
	state        map[int64]visit
}

// computation checks one, and those it calls before: none may call itself.
func (v *verifier) computation(c *pb.HloComputationProto) error {
	switch v.state[c.Id] {
	case open:
		return v.invalid("computation %s calls itself", c.Name)
	case closed:
		return nil
	}
	v.state[c.Id] = open
	parameters := c.ProgramShape.GetParameters()
	for _, s := range append(parameters[:len(parameters):len(parameters)], c.ProgramShape.GetResult()) {
		if !isShape(s) {
			return v.invalid("computation %s has a parameter or a result without a shape", c.Name)
		}
	}
	known := make(map[int64]bool, len(c.Instructions))
	for _, i := range c.Instructions {
		if !isShape(i.Shape) {
			return v.invalid("instruction %s has no shape", i.Name)
		}
		if i.Opcode == "parameter" && (i.ParameterNumber < 0 || i.ParameterNumber >= int64(len(parameters))) {
			return v.invalid("instruction %s is parameter %d of %d", i.Name, i.ParameterNumber, len(parameters))
		}
		for _, operand := range i.OperandIds {
			if !known[operand] {
				return v.invalid("an operand of instruction %s does not come before it", i.Name)
			}
		}
		for _, before := range i.ControlPredecessorIds {
			if !known[before] {
				return v.invalid("a predecessor of instruction %s does not come before it", i.Name)
			}
		}
		for _, id := range i.CalledComputationIds {
			called := v.computations[id]
			if called == nil {
				return v.invalid("instruction %s calls computation %d, which is not there", i.Name, id)
			}
			if err := v.computation(called); err != nil {
				return err
			}
		}
		if known[i.Id] {
			return v.invalid("instruction %d of computation %s is there twice", i.Id, c.Name)
		}
		known[i.Id] = true
	}
	if !known[c.RootId] {
		return v.invalid("computation %s has no root", c.Name)
	}
	v.state[c.Id] = closed
	return nil
}

// isShape is false for a missing shape, and for one whose elements cannot be counted.
func isShape(s *pb.ShapeProto) bool {
	if s == nil {
		return false
	}
	for _, element := range s.TupleShapes {
		if !isShape(element) {
			return false
		}
	}
	_, countable := shape.Count(s.Dimensions)
	return countable
}
