// Package stablehlo writes a module of package hlo as StableHLO: MLIR text in its generic form, which a plugin compiles
// to the same program.
//
// HLO's tuples have no counterpart that is used in practice: each becomes the list of its elements, so that a parameter
// that is a tuple is as many arguments, and an instruction with a tuple as its result an operation with as many results.
package stablehlo

import (
	"fmt"
	"strconv"
	"strings"

	"xla_go/gosrc/hlo"
	pb "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/status"
)

// Text gives the module (an HloModuleProto as hlo.Builder.Build gives it) as StableHLO. Unimplemented, with the
// opcode's name, for what StableHLO has no operation for.
func Text(module []byte) (string, error) {
	m, err := hlo.Module(module)
	if err != nil {
		return "", err
	}
	return text(m, nil, false)
}

// text writes the module, with shardings in terms of a mesh where there is one.
func text(m *pb.HloModuleProto, grid *mesh, readable bool) (written string, err error) {
	if err := hlo.Verify(purpose, m); err != nil {
		return "", err
	}
	w := &writer{mesh: grid, readable: readable, computations: map[int64]*pb.HloComputationProto{}, functions: map[int64]string{}, text: &strings.Builder{}, numbers: map[string]string{}}
	for _, c := range m.Computations {
		w.computations[c.Id] = c
	}
	defer w.malformed(&err)
	entry := w.computations[m.EntryComputationId]
	if entry == nil {
		return "", status.Errorf(status.InvalidArgument, "stablehlo.Text(): expected a module with an entry computation, got none")
	}
	w.functions[entry.Id] = "main"
	if grid != nil {
		w.line(grid.declaration())
	}
	w.function(entry, "public", w.argumentAttributes(m, entry))
	for len(w.called) > 0 && w.err == nil { // calls come to light while functions are written
		c := w.called[0]
		w.called = w.called[1:]
		w.function(c, "private", nil)
	}
	if w.err != nil {
		return "", w.err
	}
	head := ""
	if readable {
		head = "#loc = loc(unknown)\n"
	}
	return head + "module @" + symbol(m.Name) + " {\n" + w.text.String() + "}\n", nil
}

// writer writes one module. Errors are sticky, as in the builder.
type writer struct {
	text         *strings.Builder // of the function or region that is being written
	indent       int
	next         int // number of the next value
	computations map[int64]*pb.HloComputationProto
	functions    map[int64]string // of computations that are called
	called       []*pb.HloComputationProto
	mesh         *mesh // in terms of which shardings are written; nil for XLA's older form
	readable     bool
	numbers      map[string]string       // of a readable text: the constants of rank 0, by the names of their values
	regions      int                     // written so far
	current      *pb.HloInstructionProto // the one that is being written
	err          error
}

// value is what an instruction gives: an array with a name, or a tuple of values.
type value struct {
	name     string
	shape    *pb.ShapeProto
	elements []value // of a tuple
}

// leaves gives the arrays in a value, in order.
func (v value) leaves() []value {
	if !isTuple(v.shape) {
		return []value{v}
	}
	return leavesOf(v.elements)
}

func leavesOf(values []value) []value {
	var all []value
	for _, v := range values {
		all = append(all, v.leaves()...)
	}
	return all
}

func isTuple(s *pb.ShapeProto) bool { return s.GetElementType() == pb.PrimitiveType_TUPLE }

// shapes gives the arrays in a shape, in order.
func shapes(s *pb.ShapeProto) []*pb.ShapeProto {
	if !isTuple(s) {
		return []*pb.ShapeProto{s}
	}
	var all []*pb.ShapeProto
	for _, t := range s.TupleShapes {
		all = append(all, shapes(t)...)
	}
	return all
}

// valueOf gives the value of a shape whose arrays have the names.
func valueOf(s *pb.ShapeProto, names []string) (v value, rest []string) {
	v.shape = s
	if !isTuple(s) {
		v.name = names[0]
		return v, names[1:]
	}
	for _, t := range s.TupleShapes {
		var element value
		element, names = valueOf(t, names)
		v.elements = append(v.elements, element)
	}
	return v, names
}

// fresh gives count new names of one operation's results, and how the operation declares them.
func (w *writer) fresh(count int) (names []string, declared string) {
	base := "%" + strconv.Itoa(w.next)
	w.next++
	if count == 1 {
		return []string{base}, base
	}
	for i := range count {
		names = append(names, base+"#"+strconv.Itoa(i))
	}
	return names, base + ":" + strconv.Itoa(count)
}

func (w *writer) fail(format string, args ...any) {
	if w.err == nil {
		w.err = status.Errorf(status.Unimplemented, "StableHLO text: "+format, args...)
	}
}

func (w *writer) line(parts ...string) {
	w.text.WriteString(strings.Repeat("  ", w.indent+1))
	for _, part := range parts {
		w.text.WriteString(part)
	}
	w.text.WriteByte('\n')
}

// block names an argument for each array of a computation's parameters, and gives the parameters' values and the
// arguments as a block or function declares them.
func (w *writer) block(c *pb.HloComputationProto, attributes map[int]string) (parameters []value, declared string) {
	var list []string
	for _, s := range c.ProgramShape.GetParameters() {
		var names []string
		for _, leaf := range shapes(s) {
			name := "%arg" + strconv.Itoa(w.next)
			w.next++
			names = append(names, name)
			list = append(list, name+": "+w.typeOf(leaf)+attributes[len(list)])
		}
		v, _ := valueOf(s, names)
		parameters = append(parameters, v)
	}
	return parameters, strings.Join(list, ", ")
}

func (w *writer) function(c *pb.HloComputationProto, visibility string, attributes map[int]string) {
	parameters, declared := w.block(c, attributes)
	results := shapes(c.ProgramShape.GetResult())
	list := make([]string, len(results))
	shardings := w.resultShardings(c, results)
	for i, s := range results {
		list[i] = w.typeOf(s)
		if visibility == "public" {
			list[i] += shardings[i]
		}
	}
	w.line("func.func ", visibility, " @", w.functions[c.Id], "(", declared, ") -> (", strings.Join(list, ", "), ") {")
	w.indent++
	result := w.body(c, parameters)
	if w.readable {
		w.line(returned(w, result.leaves()))
	} else {
		w.operation("func.return", result.leaves(), "", nil, nil)
	}
	w.indent--
	w.line("}")
}

// region writes a computation as a region of an operation: with arguments of its own for its parameters or, where
// captured is given, with those values in their place.
func (w *writer) region(id int64, captured []value) string {
	c := w.computations[id]
	if w.regions++; w.regions > maxRegions {
		w.fail("calls of calls make more than %d regions", maxRegions)
	}
	if w.err != nil {
		return "({})"
	}
	outside := w.text
	w.text = &strings.Builder{}
	w.indent++
	parameters := captured
	if captured == nil {
		var declared string
		parameters, declared = w.block(c, nil)
		if declared != "" {
			w.line("^bb0(", declared, "):")
		}
	}
	w.indent++
	result := w.body(c, parameters)
	w.operation("stablehlo.return", result.leaves(), "", nil, nil)
	w.indent -= 2
	inside := w.text.String()
	w.text = outside
	return "{\n" + inside + strings.Repeat("  ", w.indent+1) + "}"
}

// body writes a computation's instructions and gives its result.
func (w *writer) body(c *pb.HloComputationProto, parameters []value) value {
	values := make(map[int64]value, len(c.Instructions))
	for _, i := range c.Instructions {
		operands := make([]value, len(i.OperandIds))
		for n, id := range i.OperandIds {
			operands[n] = values[id]
		}
		w.current = i
		if i.Opcode == "parameter" {
			values[i.Id] = parameters[i.ParameterNumber]
			continue
		}
		values[i.Id] = w.instruction(i, operands)
		if w.err != nil {
			return value{}
		}
	}
	return values[c.RootId]
}

// operation writes one operation in the generic form and gives the names of its results.
func (w *writer) operation(name string, operands []value, properties string, regions []string, results []*pb.ShapeProto, attributes ...string) []string {
	var b strings.Builder
	var names []string
	if len(results) > 0 {
		var declared string
		names, declared = w.fresh(len(results))
		b.WriteString(declared + " = ")
	}
	fmt.Fprintf(&b, "%q(", name)
	types := make([]string, len(operands))
	for i, o := range operands {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(o.name)
		types[i] = w.typeOf(o.shape)
	}
	b.WriteString(")")
	if properties != "" {
		b.WriteString(" <{" + properties + "}>")
	}
	if len(regions) > 0 {
		b.WriteString(" (" + strings.Join(regions, ", ") + ")")
	}
	if list := nonEmpty(attributes); len(list) > 0 {
		b.WriteString(" {" + strings.Join(list, ", ") + "}")
	}
	resultTypes := make([]string, len(results))
	for i, s := range results {
		resultTypes[i] = w.typeOf(s)
	}
	fmt.Fprintf(&b, " : (%s) -> (%s)", strings.Join(types, ", "), strings.Join(resultTypes, ", "))
	w.line(b.String())
	return names
}

func nonEmpty(texts []string) []string {
	var list []string
	for _, text := range texts {
		if text != "" {
			list = append(list, text)
		}
	}
	return list
}

// symbol keeps the characters that a name after @ may have.
func symbol(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '_' || r == '.' || r == '$' || ('0' <= r && r <= '9') || ('a' <= r && r <= 'z') || ('A' <= r && r <= 'Z') {
			return r
		}
		return '_'
	}, name)
	if clean == "" || '0' <= clean[0] && clean[0] <= '9' {
		clean = "_" + clean
	}
	return clean
}
