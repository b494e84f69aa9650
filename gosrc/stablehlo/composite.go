package stablehlo

import (
	"fmt"
	"strings"

	"xla_go/gosrc/hlo"
	pb "xla_go/gosrc/hlo/proto"
)

// composite writes a call of which hlo.OutlineComposites says that it is one, or XLA itself.
func (w *writer) composite(i *pb.HloInstructionProto, operands []value) value {
	about := i.FrontendAttributes.GetMap()
	attributes := ""
	if text := about[hlo.CompositeAttributes]; text != "" && text != "{}" {
		attributes = "composite_attributes = " + text
	}
	version := ""
	if number := about[hlo.CompositeVersion]; number != "" && number != "0" {
		version = "version = " + number + " : i32"
	}
	decomposition := "decomposition = @" + w.functionOf(i.CalledComputationIds[0])
	results := shapes(i.Shape)
	if !w.readable {
		properties := join(attributes, decomposition, "name = "+quoted(about[hlo.CompositeName]), version)
		v, _ := valueOf(i.Shape, w.operation("stablehlo.composite", operands, properties, nil, results))
		return v
	}
	names, types, given := make([]string, len(operands)), make([]string, len(operands)), make([]string, len(results))
	for n, o := range operands {
		names[n], types[n] = o.name, w.typeOf(o.shape)
	}
	for n, s := range results {
		given[n] = w.typeOf(s)
	}
	called, declared := w.fresh(len(results))
	signature := strings.Join(given, ", ")
	if len(results) != 1 {
		signature = "(" + signature + ")"
	}
	w.line(declared, " = stablehlo.composite ", quoted(about[hlo.CompositeName]), " ", strings.Join(names, ", "),
		fmt.Sprintf(" {%s} : (%s) -> %s", join(attributes, decomposition, version), strings.Join(types, ", "), signature), location(i))
	v, _ := valueOf(i.Shape, called)
	return v
}
