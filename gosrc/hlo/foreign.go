package hlo

import (
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"xla_go/gosrc/dtype"
	pb "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Foreign is a module that another program has lowered, to be called from a module of ours. It is read-only.
type Foreign struct {
	proto        *pb.HloModuleProto
	entry        *pb.HloComputationProto
	computations map[int64]*pb.HloComputationProto
	parameters   []shape.Shape // of the entry computation, tuples among them
	result       shape.Shape
}

const foreignPurpose = "foreign module"

// exchanging are instructions whose numbers or partners are those of a whole program: inside of another one they would meet
// its own ones.
var exchanging = map[string]bool{
	"all-gather": true, "all-gather-start": true, "all-reduce": true, "all-reduce-start": true, "all-to-all": true, "ragged-all-to-all": true,
	"collective-broadcast": true, "collective-permute": true, "collective-permute-start": true, "reduce-scatter": true,
	"infeed": true, "outfeed": true, "send": true, "recv": true,
}

// ParseForeign reads a serialized HloModuleProto and checks what Builder.CallForeign relies on. InvalidArgument for bytes that are
// no well-formed module, and for parameters or results that are no arrays of fixed sizes; Unimplemented for collectives and transfers.
func ParseForeign(module []byte) (*Foreign, error) {
	m, err := decode(foreignPurpose, module)
	if err != nil {
		return nil, err
	}
	if err := Verify(foreignPurpose, m); err != nil {
		return nil, err
	}
	f := &Foreign{proto: m, computations: make(map[int64]*pb.HloComputationProto, len(m.Computations))}
	for _, c := range m.Computations {
		f.computations[c.Id] = c
		for _, i := range c.Instructions {
			if i.Opcode == "" {
				return nil, Malformed(foreignPurpose, "instruction %s has no opcode", i.Name)
			}
			if exchanging[i.Opcode] {
				return nil, status.Errorf(status.Unimplemented, "%s: expected a module of one device, got one with %s (instruction %s)", foreignPurpose, i.Opcode, i.Name)
			}
		}
	}
	if f.entry = f.computations[m.EntryComputationId]; f.entry == nil {
		return nil, Malformed(foreignPurpose, "the entry computation is missing")
	}
	return f, f.signature()
}

// signature reads the entry computation's parameters and result, as its instructions have them.
func (f *Foreign) signature() (err error) {
	parameters := map[int64]*pb.ShapeProto{}
	for _, i := range f.entry.Instructions {
		if i.Opcode == string(opParameter) {
			if parameters[i.ParameterNumber] != nil {
				return Malformed(foreignPurpose, "parameter %d is there twice", i.ParameterNumber)
			}
			parameters[i.ParameterNumber] = i.Shape
		}
		if i.Id == f.entry.RootId {
			if f.result, err = foreignShape(i.Shape); err != nil {
				return status.Annotate(err, "result")
			}
		}
	}
	if declared := len(f.entry.ProgramShape.GetParameters()); declared != len(parameters) {
		return Malformed(foreignPurpose, "the entry computation declares %d parameters and has %d", declared, len(parameters))
	}
	for number := range len(parameters) {
		s, err := foreignShape(parameters[int64(number)])
		if err != nil {
			return status.Annotate(err, "parameter %d", number)
		}
		f.parameters = append(f.parameters, s)
	}
	return nil
}

// foreignShape reads a shape of arrays, or of tuples of them.
func foreignShape(s *pb.ShapeProto) (shape.Shape, error) {
	if s.GetElementType() == pb.PrimitiveType_TUPLE {
		elements := make([]shape.Shape, len(s.TupleShapes))
		for i, t := range s.TupleShapes {
			element, err := foreignShape(t)
			if err != nil {
				return shape.Shape{}, err
			}
			elements[i] = element
		}
		return shape.MakeTuple(elements...), nil
	}
	d := dtype.Dtype(s.GetElementType())
	if d.Size() == 0 {
		return shape.Shape{}, status.Errorf(status.InvalidArgument, "%s: expected arrays, got %v", foreignPurpose, s.GetElementType())
	}
	if slices.Contains(s.GetIsDynamicDimension(), true) {
		return shape.Shape{}, status.Errorf(status.InvalidArgument, "%s: expected fixed sizes, got a dynamic dimension", foreignPurpose)
	}
	return shape.Make(d, slices.Clone(s.GetDimensions())...), nil
}

// Parameters gives the shapes of the arrays that a call takes: of parameters that are tuples their elements, in order.
func (f *Foreign) Parameters() (list []shape.Shape) {
	for _, s := range f.parameters {
		list = appendArrays(list, s)
	}
	return list
}

// Results gives the shapes of the arrays that a call gives.
func (f *Foreign) Results() []shape.Shape { return appendArrays(nil, f.result) }

func appendArrays(list []shape.Shape, s shape.Shape) []shape.Shape {
	if s.Dtype != dtype.Tuple {
		return append(list, s)
	}
	for _, element := range s.Elements {
		list = appendArrays(list, element)
	}
	return list
}

// CallForeign puts the module's computations into this one, under numbers and names of their own, and calls its entry computation.
// Metadata of its instructions stays. What it says of donated inputs does not hold for the call.
func (b *Builder) CallForeign(f *Foreign, operands []Value) []Value {
	if !b.ok(opCall, operands...) {
		return nil
	}
	wanted := f.Parameters()
	if !equalShapes(shapesOf(operands), wanted) {
		b.fail(opCall, "expected operands of %v for a foreign module, got %v", shape.MakeTuple(wanted...), shape.MakeTuple(shapesOf(operands)...))
		return nil
	}
	arguments := make([]Value, len(f.parameters))
	for i, s := range f.parameters {
		arguments[i], operands = b.gathered(s, operands)
	}
	merge := foreignMerge{b: b, f: f, numbers: map[int64]int64{}}
	if len(b.metadata) > 0 {
		merge.metadata = &pb.OpMetadata{}
		if err := proto.Unmarshal(b.metadata, merge.metadata); err != nil {
			b.fail(opCall, "%v", err)
			return nil
		}
	}
	callee, err := merge.computation(f.entry)
	if err != nil {
		b.fail(opCall, "%v", err)
		return nil
	}
	n, at := b.begin(opCall, f.result)
	b.body.packed(38, []int64{callee})
	return b.arrays(b.end(n, at, arguments...), nil)
}

// gathered makes a value of a shape of the first operands, and gives the others.
func (b *Builder) gathered(s shape.Shape, operands []Value) (Value, []Value) {
	if s.Dtype != dtype.Tuple {
		return operands[0], operands[1:]
	}
	elements := make([]Value, len(s.Elements))
	for i, element := range s.Elements {
		elements[i], operands = b.gathered(element, operands)
	}
	return b.Tuple(elements...), operands
}

// arrays appends the arrays in a value, in order.
func (b *Builder) arrays(v Value, list []Value) []Value {
	if v.Dtype() != dtype.Tuple {
		return append(list, v)
	}
	for i := range v.Shape().Elements {
		list = b.arrays(b.GetTupleElement(v, i), list)
	}
	return list
}

// foreignMerge is one module on its way into another.
type foreignMerge struct {
	b       *Builder
	f       *Foreign
	numbers map[int64]int64 // new ones of computations, by their old ones
	// metadata of the call, for instructions that have none
	metadata *pb.OpMetadata
}

// computation puts one computation into the module, after those that it calls, and gives its number.
func (m *foreignMerge) computation(c *pb.HloComputationProto) (int64, error) {
	if number := m.numbers[c.Id]; number != 0 {
		return number, nil
	}
	for _, i := range c.Instructions {
		for _, called := range i.CalledComputationIds {
			if _, err := m.computation(m.f.computations[called]); err != nil {
				return 0, err
			}
		}
	}
	module := m.b.module
	copied := proto.CloneOf(c)
	numbers := make(map[int64]int64, len(copied.Instructions))
	for _, i := range copied.Instructions {
		module.next++
		numbers[i.Id] = module.next
		i.Id, i.Name = module.next, i.Opcode+"."+strconv.FormatInt(module.next, 10)
	}
	for _, i := range copied.Instructions {
		renumber(i.OperandIds, numbers)
		renumber(i.ControlPredecessorIds, numbers)
		renumber(i.CalledComputationIds, m.numbers)
		if i.Metadata == nil {
			i.Metadata = m.metadata
		} else {
			i.Metadata.StackFrameId = int32(module.sources.stack(frames(m.f.proto.StackFrameIndex, i.Metadata.StackFrameId)))
		}
	}
	module.next++
	copied.RootId, copied.Id, copied.Name = numbers[copied.RootId], module.next, module.unique(plainName(c.Name))
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(copied)
	if err != nil {
		return 0, err
	}
	module.computations = append(module.computations, encoded)
	m.numbers[c.Id] = copied.Id
	return copied.Id, nil
}

// renumber replaces numbers, all of which are known: Verify has seen them.
func renumber(list []int64, numbers map[int64]int64) {
	for i, id := range list {
		list[i] = numbers[id]
	}
}

// frames gives the stack that begins with a frame of an index, the innermost first; numbers that are not there end it.
func frames(index *pb.StackFrameIndexProto, number int32) (stack []Frame) {
	for range index.GetStackFrames() { // each once at most: they may name each other in a circle
		if number <= 0 || int(number) > len(index.StackFrames) {
			break
		}
		frame := index.StackFrames[number-1]
		if at := int(frame.FileLocationId); at > 0 && at <= len(index.FileLocations) {
			l := index.FileLocations[at-1]
			stack = append(stack, Frame{File: nameAt(index.FileNames, l.FileNameId), Line: int(l.Line), Function: nameAt(index.FunctionNames, l.FunctionNameId)})
		}
		number = frame.ParentFrameId
	}
	return stack
}

func nameAt(names []string, number int32) string {
	if number <= 0 || int(number) > len(names) {
		return ""
	}
	return names[number-1]
}
