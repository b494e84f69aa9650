package hlo

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	pb "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/status"
)

// Frontend attributes of a call that is a composite: the names are XLA's own.
const (
	IsComposite         = "is_composite"
	CompositeName       = "composite.name"
	CompositeAttributes = "composite.attributes" // as MLIR writes a dictionary
	CompositeVersion    = "composite.version"
)

// OutlineComposites makes a computation of what lies between the marks of each composite in the entry computation, and a call of
// it that says so, as XLA marks its own. Constants between them go along; what else the part needs from outside are operands
// after those that were marked. A module without marks comes back as it is. InvalidArgument for marks that are no inputs and outputs of
// one part; in a part of a program (PartlyMarked) those that lack an output are no composites instead.
func OutlineComposites(module []byte, marks Marks) ([]byte, error) {
	m, err := decode("composite", module)
	if err != nil {
		return nil, err
	}
	o := &outliner{m: m}
	for _, c := range m.Computations {
		if c.Id == m.EntryComputationId {
			o.entry = c
		}
		o.last = max(o.last, c.Id)
		for _, i := range c.Instructions {
			o.last = max(o.last, i.Id)
		}
	}
	if o.entry == nil {
		return module, nil
	}
	found, err := o.collect()
	if err != nil || len(found) == 0 {
		return module, err
	}
	if found, err = o.complete(found, marks); err != nil {
		return nil, err
	}
	for len(found) > 0 {
		// The smallest first: a composite that lies in another one is a call by the time that one is outlined.
		slices.SortStableFunc(found, func(a, b *composite) int { return len(o.between(a)) - len(o.between(b)) })
		if err := o.outline(found[0]); err != nil {
			return nil, err
		}
		found = found[1:]
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

type outliner struct {
	m     *pb.HloModuleProto
	entry *pb.HloComputationProto
	last  int64 // the highest number given
	named map[string]bool
}

// composite is one part of a program: its marks by their positions.
type composite struct {
	name, id, attributes string
	inputs, outputs      map[int64]*pb.HloInstructionProto
}

func (c *composite) refuse(format string, args ...any) error {
	return status.Errorf(status.InvalidArgument, "composite %s (id %s): "+format, append([]any{c.name, c.id}, args...)...)
}

// collect finds the marks, in the order of the first of each composite.
func (o *outliner) collect() (list []*composite, err error) {
	known := map[[2]string]*composite{}
	for _, i := range o.entry.Instructions {
		mark, is, err := markOf(i)
		if err != nil {
			return nil, err
		}
		if !is {
			continue
		}
		key := [2]string{mark.Name, mark.ID}
		c := known[key]
		if c == nil {
			c = &composite{name: mark.Name, id: mark.ID, inputs: map[int64]*pb.HloInstructionProto{}, outputs: map[int64]*pb.HloInstructionProto{}}
			known[key] = c
			list = append(list, c)
		}
		marks, kind := c.outputs, "output"
		if mark.IsInput {
			marks, kind = c.inputs, "input"
		}
		if marks[mark.Position] != nil {
			return nil, c.refuse("expected one %s %d, got several", kind, mark.Position)
		}
		marks[mark.Position] = i
		if !mark.IsInput && c.attributes == "" {
			c.attributes = mark.Attributes
		}
	}
	return list, nil
}

// complete gives the composites that have all of their outputs, and takes the marks of others out.
func (o *outliner) complete(list []*composite, marks Marks) (complete []*composite, err error) {
	for _, c := range list {
		lacking := int64(0)
		for c.outputs[lacking] != nil {
			lacking++
		}
		if lacking == int64(len(c.outputs)) && lacking > 0 {
			complete = append(complete, c)
			continue
		}
		if marks == FullyMarked {
			return nil, c.refuse("expected marked outputs from 0 on, got no output %d: either it was not marked, or nothing needs it", lacking)
		}
		replaced := map[int64]int64{}
		for _, all := range [...]map[int64]*pb.HloInstructionProto{c.inputs, c.outputs} {
			for _, mark := range all {
				replaced[mark.Id] = mark.OperandIds[0]
			}
		}
		o.replace(nil, replaced, nil)
	}
	return complete, nil
}

// ordered gives marks by their positions. Inputs that nothing needs are not among them.
func ordered(marks map[int64]*pb.HloInstructionProto) (list []*pb.HloInstructionProto) {
	for _, position := range slices.Sorted(maps.Keys(marks)) {
		list = append(list, marks[position])
	}
	return list
}

func (o *outliner) instructions() map[int64]*pb.HloInstructionProto {
	byID := make(map[int64]*pb.HloInstructionProto, len(o.entry.Instructions))
	for _, i := range o.entry.Instructions {
		byID[i.Id] = i
	}
	return byID
}

// between gives the numbers of the instructions that depend on the inputs of a composite and that its outputs need.
func (o *outliner) between(c *composite) map[int64]bool {
	after := map[int64]bool{}
	for _, mark := range c.inputs {
		after[mark.Id] = true
	}
	inputs := maps.Clone(after)
	for _, i := range o.entry.Instructions {
		for _, operand := range i.OperandIds {
			after[i.Id] = after[i.Id] || after[operand]
		}
	}
	byID, inside := o.instructions(), map[int64]bool{}
	var visit func(id int64)
	visit = func(id int64) {
		if inputs[id] || inside[id] || !after[id] {
			return
		}
		inside[id] = true
		for _, operand := range byID[id].OperandIds {
			visit(operand)
		}
	}
	for _, mark := range c.outputs {
		visit(mark.OperandIds[0])
	}
	return inside
}

// constants gives the numbers of the instructions that are made of nothing but constants.
func (o *outliner) constants() map[int64]bool {
	constant := map[int64]bool{}
	for _, i := range o.entry.Instructions {
		switch {
		case len(i.OperandIds) == 0:
			constant[i.Id] = i.Opcode == string(opConstant) || i.Opcode == string(opIota)
		case i.Opcode != string(opCustomCall):
			constant[i.Id] = !slices.ContainsFunc(i.OperandIds, func(operand int64) bool { return !constant[operand] })
		}
	}
	return constant
}

// body is the computation of a composite on its way.
type body struct {
	o            *outliner
	byID         map[int64]*pb.HloInstructionProto
	inside       map[int64]bool
	constant     map[int64]bool
	numbers      map[int64]int64 // of the entry's instructions: those in the body
	operands     []int64         // of the call
	parameters   []*pb.HloInstructionProto
	instructions []*pb.HloInstructionProto
	crossed      string // a composite that has a mark in it
}

func (b *body) add(i *pb.HloInstructionProto) int64 {
	b.o.last++
	i.Id, i.Name = b.o.last, i.Opcode+"."+strconv.FormatInt(b.o.last, 10)
	b.instructions = append(b.instructions, i)
	return i.Id
}

// parameter adds one for a value of the entry computation.
func (b *body) parameter(of *pb.HloInstructionProto) int64 {
	number := int64(len(b.parameters))
	p := &pb.HloInstructionProto{Opcode: string(opParameter), Shape: of.Shape, ParameterNumber: number}
	b.parameters = append(b.parameters, p)
	b.operands = append(b.operands, of.Id)
	return b.add(p)
}

// value gives the number in the body of a value of the entry computation.
func (b *body) value(id int64) int64 {
	if number := b.numbers[id]; number != 0 {
		return number
	}
	i := b.byID[id]
	if !b.inside[id] && !b.constant[id] {
		b.numbers[id] = b.parameter(i)
		return b.numbers[id]
	}
	if mark, is, _ := markOf(i); is {
		b.crossed = mark.Name
	}
	copied := proto.CloneOf(i)
	copied.ControlPredecessorIds = nil
	for k, operand := range i.OperandIds {
		copied.OperandIds[k] = b.value(operand)
	}
	b.numbers[id] = b.add(copied)
	return b.numbers[id]
}

// outline replaces one composite by a call.
func (o *outliner) outline(c *composite) error {
	b := &body{o: o, byID: o.instructions(), inside: o.between(c), constant: o.constants(), numbers: map[int64]int64{}}
	for _, mark := range ordered(c.inputs) {
		number := b.parameter(b.byID[mark.OperandIds[0]])
		b.numbers[mark.Id] = number
	}
	outputs := ordered(c.outputs)
	results, shapes := make([]int64, len(outputs)), make([]*pb.ShapeProto, len(outputs))
	for k, mark := range outputs {
		results[k], shapes[k] = b.value(mark.OperandIds[0]), mark.Shape
	}
	if b.crossed != "" {
		return c.refuse("expected other composites to be within it or around it, got %s, which is neither", b.crossed)
	}
	root, result := results[0], shapes[0]
	if len(outputs) > 1 {
		result = &pb.ShapeProto{ElementType: pb.PrimitiveType_TUPLE, TupleShapes: shapes}
		root = b.add(&pb.HloInstructionProto{Opcode: string(opTuple), Shape: result, OperandIds: results})
	}
	program := &pb.ProgramShapeProto{Result: result}
	for k, p := range b.parameters {
		program.Parameters = append(program.Parameters, p.Shape)
		program.ParameterNames = append(program.ParameterNames, fmt.Sprintf("p%d", k))
	}
	o.last++
	callee := &pb.HloComputationProto{Name: o.uniqueName(c.name + ".impl"), Instructions: b.instructions, ProgramShape: program, Id: o.last, RootId: root}
	at := slices.Index(o.m.Computations, o.entry)
	o.m.Computations = slices.Insert(o.m.Computations, at, callee)
	attributes, err := mlirDictionary(c.attributes)
	if err != nil {
		return c.refuse("%v", err)
	}
	call := o.instruction(opCall, result, b.operands)
	call.CalledComputationIds, call.Metadata = []int64{callee.Id}, outputs[0].Metadata
	call.FrontendAttributes = &pb.FrontendAttributes{Map: map[string]string{
		IsComposite: "true", CompositeName: c.name, CompositeAttributes: attributes, CompositeVersion: "0",
	}}
	added, given := []*pb.HloInstructionProto{call}, []int64{call.Id}
	if len(outputs) > 1 {
		given = given[:0]
		for k := range outputs {
			element := o.instruction(opGetTupleElement, shapes[k], []int64{call.Id})
			element.TupleIndex = int64(k)
			added, given = append(added, element), append(given, element.Id)
		}
	}
	replaced := map[int64]int64{}
	for _, mark := range c.inputs {
		replaced[mark.Id] = mark.OperandIds[0]
	}
	for k, mark := range outputs {
		replaced[mark.Id] = given[k]
	}
	if !o.replace(added, replaced, b.numbers) {
		return c.refuse("expected outputs that its inputs do not depend on, got a circle")
	}
	return nil
}

func (o *outliner) uniqueName(name string) string {
	if o.named == nil {
		o.named = map[string]bool{}
		for _, c := range o.m.Computations {
			o.named[c.Name] = true
		}
	}
	unique := name
	for k := 0; o.named[unique]; k++ {
		unique = fmt.Sprintf("%s_%d", name, k)
	}
	o.named[unique] = true
	return unique
}

func (o *outliner) instruction(op Opcode, s *pb.ShapeProto, operands []int64) *pb.HloInstructionProto {
	o.last++
	return &pb.HloInstructionProto{Opcode: string(op), Name: string(op) + "." + strconv.FormatInt(o.last, 10), Shape: s, Id: o.last, OperandIds: slices.Clone(operands)}
}

// replace puts instructions into the entry computation, has others take some values for others, and leaves out what is now
// in a computation of its own and needed there alone. false where operands would then come after their users.
func (o *outliner) replace(added []*pb.HloInstructionProto, replaced, moved map[int64]int64) bool {
	final := func(id int64) int64 {
		for to, is := replaced[id]; is; to, is = replaced[id] { // a mark of a mark, too
			id = to
		}
		return id
	}
	all := slices.Concat(o.entry.Instructions, added)
	users := map[int64]int{}
	for _, i := range all {
		for k := range i.OperandIds {
			i.OperandIds[k] = final(i.OperandIds[k])
		}
	}
	o.entry.RootId = final(o.entry.RootId)
	byID := make(map[int64]*pb.HloInstructionProto, len(all))
	for _, i := range all {
		byID[i.Id] = i
		for _, operand := range i.OperandIds {
			users[operand]++
		}
	}
	users[o.entry.RootId]++
	dead := map[int64]bool{}
	for _, i := range slices.Backward(o.entry.Instructions) {
		_, isMark := replaced[i.Id]
		_, isMoved := moved[i.Id]
		if users[i.Id] == 0 && (isMark || isMoved) && i.Opcode != string(opParameter) {
			dead[i.Id] = true
			for _, operand := range i.OperandIds {
				users[operand]--
			}
		}
	}
	order, state := make([]*pb.HloInstructionProto, 0, len(all)), map[int64]visit{}
	var place func(i *pb.HloInstructionProto) bool
	place = func(i *pb.HloInstructionProto) bool {
		switch state[i.Id] {
		case open:
			return false
		case closed:
			return true
		}
		state[i.Id] = open
		for _, operand := range i.OperandIds {
			if !place(byID[operand]) {
				return false
			}
		}
		state[i.Id] = closed
		order = append(order, i)
		return true
	}
	for _, i := range all {
		if !dead[i.Id] && !place(i) {
			return false
		}
	}
	o.entry.Instructions = order
	return true
}
