// Package ops holds the operators: one row per ATen operator, one family per file. A row says how
// the operator looks at its arguments (Meta: shapes, dtypes, errors) and what HLO it is (Lower).
//
// Meta runs under the core's lock for every call and must be cheap; Lower runs once per compiled
// program, later, on another goroutine, and sees only the node's operands and attributes.
package ops

import (
	"fmt"
	"sort"
	"strings"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/metrics"
)

// Row is one operator. One row serves the functional, the in-place and the out= variant.
type Row struct {
	// Name is the functional overload's name without "aten::", for example "add.Tensor" or "relu"; in whole where it is of
	// another namespace.
	// An operator that exists in place only (fill_.Scalar) has that as its Name and SelfOnly set.
	Name string
	// InPlace and Out name the variants' overloads ("add_.Tensor", "add.out"); several, or none.
	InPlace []string
	Out     []string
	// SelfOnly: the schema's result is its first argument, written in place.
	SelfOnly bool
	// Meta checks the arguments and declares operands, attributes and results on the call.
	Meta func(c *Call) error
	// Lower emits the HLO of a node with one result; LowerMany of one with several. A row whose
	// Meta builds its result from other rows' nodes (Call.Return) has neither.
	Lower     func(l *ir.Lowering) hlo.Value
	LowerMany func(l *ir.Lowering) []hlo.Value
	// Variables, where it is set, says which of a node's attributes may become parameters of the program once they
	// change from step to step. Lower reads them with Number; the result's shape must not depend on them.
	Variables func(n *ir.Node) ir.Variables
	// Checks: Lower may ask for checks of values that only a run knows, which raise if they fail (Lowering.CheckRange).
	Checks bool
	// Collective: replicas exchange values in it.
	Collective bool

	kind    ir.Kind
	counter *metrics.CounterData
}

// calls counts the row's calls, under torch_xla's name: xla::add for every overload of aten::add. Under the core's lock.
func (r *Row) calls() *metrics.CounterData {
	if r.counter == nil {
		name := qualified(r.Name)
		name = name[strings.Index(name, "::")+2:]
		if dot := strings.IndexByte(name, '.'); dot >= 0 {
			name = name[:dot]
		}
		r.counter = metrics.Counter("xla::" + name)
	}
	return r.counter
}

// qualified gives an operator's name with its namespace.
func qualified(name string) string {
	if strings.Contains(name, "::") {
		return name
	}
	return "aten::" + name
}

var rows []*Row
var rowByName = map[string]*Row{}

// register adds rows; package initialisation only. Files of families call it from init.
func register(family ...*Row) {
	for _, row := range family {
		if _, ok := rowByName[row.Name]; ok {
			panic(fmt.Sprintf("ops: row %q is defined twice", row.Name))
		}
		switch {
		case row.Lower != nil && row.LowerMany != nil:
			panic(fmt.Sprintf("ops: row %q has both Lower and LowerMany", row.Name))
		case row.Lower != nil:
			lower := row.Lower
			row.kind = ir.DefineVariable(qualified(row.Name), func(l *ir.Lowering) []hlo.Value { return []hlo.Value{lower(l)} }, row.Variables)
		case row.LowerMany != nil:
			row.kind = ir.DefineVariable(qualified(row.Name), row.LowerMany, row.Variables)
		}
		if row.Collective {
			ir.MarkCollective(row.kind)
		}
		if row.Checks {
			ir.MayCheck(row.kind)
		}
		rowByName[row.Name] = row
		rows = append(rows, row)
	}
}

// variableIntegers says that the attributes at positions may become parameters, whatever they are.
func variableIntegers(positions ...int) func(n *ir.Node) ir.Variables {
	v := ir.Variables{}
	for _, p := range positions {
		v.Integers |= 1 << p
	}
	return func(*ir.Node) ir.Variables { return v }
}

// variableFloat says that the float attribute at position may become a parameter.
func variableFloat(position int) func(n *ir.Node) ir.Variables {
	return func(*ir.Node) ir.Variables { return ir.Variables{Floats: 1 << position} }
}

// variableFrom says so of all attributes from position on.
func variableFrom(position int) func(n *ir.Node) ir.Variables {
	return func(*ir.Node) ir.Variables { return ir.Variables{Integers: ^uint64(0) << position} }
}

// defineKind defines an IR operation that is not a row of its own (a building block of rows).
func defineKind(name string, lower func(l *ir.Lowering) hlo.Value) ir.Kind {
	return ir.Define(name, func(l *ir.Lowering) []hlo.Value { return []hlo.Value{lower(l)} })
}

// Names are what the adapter registers for one overload.
type Name struct {
	Number  int    // of the row
	Name    string // with its namespace
	InPlace bool
	Out     bool
}

// Sorted gives the rows in the order of their names, which is the order of their numbers.
func Sorted() []*Row {
	sorted := append([]*Row(nil), rows...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].Name < sorted[j].Name })
	return sorted
}

// Names lists every overload that rows serve, in the order of the rows' numbers.
func Names() []Name {
	var names []Name
	for number, row := range Sorted() {
		names = append(names, Name{number, qualified(row.Name), row.SelfOnly, false})
		for _, n := range row.InPlace {
			names = append(names, Name{number, qualified(n), true, false})
		}
		for _, n := range row.Out {
			names = append(names, Name{number, qualified(n), false, true})
		}
	}
	return names
}
