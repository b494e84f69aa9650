package stablehlo

import (
	"fmt"
	"strconv"
	"strings"

	"xla_go/gosrc/hlo"
	pb "xla_go/gosrc/hlo/proto"
)

// Readable gives the module as StableHLO in the forms that MLIR prints for people: operations of one type without their
// operands' types, dimensions in brackets, and numbers as C's %e writes them. It is the same program as Text, but that a
// number which is broadcast is written as an array of it. Lines of a program that says where it was written have their locations.
func Readable(module []byte) (string, error) {
	m, err := hlo.Module(module)
	if err != nil {
		return "", err
	}
	return text(m, nil, true)
}

// short writes an operation in the form of its own that MLIR prints; false for one of which only the generic form is known here.
func (w *writer) short(name string, i *pb.HloInstructionProto, operands []value) (value, bool) {
	if i.Opcode == "custom-call" && i.Sharding == nil && i.CustomCallApiVersion <= pb.CustomCallApiVersion_API_VERSION_STATUS_RETURNING_UNIFIED {
		return w.shortCustomCall(i, leavesOf(operands)), true
	}
	if isTuple(i.Shape) || i.Sharding != nil {
		return value{}, false
	}
	names, types := make([]string, len(operands)), make([]string, len(operands))
	same := true
	for n, o := range operands {
		if isTuple(o.shape) {
			return value{}, false
		}
		names[n], types[n] = o.name, w.typeOf(o.shape)
		same = same && types[n] == w.typeOf(i.Shape)
	}
	list := strings.Join(names, ", ")
	own, signature := w.typeOf(i.Shape), "("+strings.Join(types, ", ")+") -> "+w.typeOf(i.Shape)
	var body string
	switch {
	case i.Opcode == "constant":
		body = w.dense(i.Literal)
	case i.Opcode == "broadcast" && w.numbers[operands[0].name] != "":
		body = fmt.Sprintf("dense<%s> : %s", w.numbers[operands[0].name], own)
		name = "stablehlo.constant"
	case i.Opcode == "broadcast":
		body = fmt.Sprintf("%s, dims = [%s] : %s", list, integers(i.Dimensions), signature)
		name = "stablehlo.broadcast_in_dim"
	case i.Opcode == "concatenate":
		body = fmt.Sprintf("%s, dim = %d : %s", list, i.Dimensions[0], signature)
	case i.Opcode == "transpose":
		body = fmt.Sprintf("%s, dims = [%s] : %s", list, integers(i.Dimensions), signature)
	case i.Opcode == "iota":
		body = fmt.Sprintf("dim = %d : %s", i.Dimensions[0], own)
	case i.Opcode == "compare":
		kind := strings.Split(compare(w, i, operands), " ")
		body = fmt.Sprintf("%s, %s, %s : %s", i.ComparisonDirection, list, strings.TrimSuffix(kind[len(kind)-1], ">"), signature)
	case i.Opcode == "select":
		body = fmt.Sprintf("%s : %s, %s", list, types[0], own)
	case i.Opcode == "dynamic-update-slice" || i.Opcode == "complex":
		return value{}, false
	case plain[i.Opcode] && len(operands) > 0 && same:
		body = list + " : " + own
	case plain[i.Opcode] && len(operands) == 1:
		body = list + " : " + signature
	default:
		return value{}, false
	}
	results, declared := w.fresh(1)
	w.line(declared, " = ", name, " ", body, location(i))
	if i.Opcode == "constant" && len(i.Shape.Dimensions) == 0 {
		number, _, _ := strings.Cut(strings.TrimPrefix(body, "dense<"), "> : ")
		w.numbers[results[0]] = number
	}
	return value{name: results[0], shape: i.Shape}, true
}

// shortCustomCall writes a call of a target that the plugin knows. Of several results it gives a tuple, as XLA writes it.
func (w *writer) shortCustomCall(i *pb.HloInstructionProto, operands []value) value {
	names, types := make([]string, len(operands)), make([]string, len(operands))
	for n, o := range operands {
		names[n], types[n] = o.name, w.typeOf(o.shape)
	}
	leaves := shapes(i.Shape)
	results := make([]string, len(leaves))
	for n, s := range leaves {
		results[n] = w.typeOf(s)
	}
	attributes, result := "", strings.Join(results, ", ")
	if len(i.BackendConfig) > 0 {
		attributes = "backend_config = " + quoted(string(i.BackendConfig))
	}
	if i.CustomCallHasSideEffect {
		attributes = join(attributes, "has_side_effect = true")
	}
	if attributes = join(attributes, frontendAttributes(i)); attributes != "" {
		attributes = " {" + attributes + "}"
	}
	if isTuple(i.Shape) {
		result = "tuple<" + result + ">"
	}
	called, declared := w.fresh(1)
	w.line(declared, " = stablehlo.custom_call @", mlirSymbol(i.CustomCallTarget), "(", strings.Join(names, ", "), ")", attributes,
		" : (", strings.Join(types, ", "), ") -> ", result, location(i))
	if isTuple(i.Shape) {
		tuple := called[0]
		called = called[:0]
		for n := range leaves {
			element, declared := w.fresh(1)
			w.line(declared, " = stablehlo.get_tuple_element ", tuple, fmt.Sprintf("[%d] : (", n), result, ") -> ", results[n])
			called = append(called, element[0])
		}
	}
	v, _ := valueOf(i.Shape, called)
	return v
}

// mlirSymbol writes a name after @: bare where MLIR takes it so.
func mlirSymbol(name string) string {
	if name == symbol(name) {
		return name
	}
	return quoted(name)
}

// returned writes the end of a function.
func returned(w *writer, values []value) string {
	if len(values) == 0 {
		return "return"
	}
	names, types := make([]string, len(values)), make([]string, len(values))
	for n, v := range values {
		names[n], types[n] = v.name, w.typeOf(v.shape)
	}
	return "return " + strings.Join(names, ", ") + " : " + strings.Join(types, ", ")
}

// location gives where an instruction comes from, "" where that is not known.
func location(i *pb.HloInstructionProto) string {
	m := i.GetMetadata()
	switch {
	case m.GetSourceFile() != "":
		return fmt.Sprintf(" loc(%s(%s:%d:0))", quoted(m.GetOpName()), quoted(m.GetSourceFile()), m.GetSourceLine())
	case m.GetOpName() != "":
		return " loc(" + quoted(m.GetOpName()) + ")"
	}
	return ""
}

// readableFloat writes a number as MLIR does: with six digits where those are all of it, else with as many as it takes.
func readableFloat(v float64, precise int) string {
	text := strconv.FormatFloat(v, 'e', 6, 64)
	if back, _ := strconv.ParseFloat(text, precise); back == v {
		return text
	}
	return strconv.FormatFloat(v, 'e', -1, precise)
}
