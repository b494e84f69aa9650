package ir

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// DefaultTupleThreshold is the number of parameters from which on all are wrapped into one tuple, as
// XLA_PARAMETER_WRAPPING_THREADSHOLD sets it in torch_xla.
const DefaultTupleThreshold = 3200

// Module is a lowered program.
type Module struct {
	HLO             []byte
	TupledArguments bool
	Partitioned     bool    // over several devices
	Parameters      int     // device values, without the scalar pack
	ScalarWords     int     // 32-bit words of the scalar pack, the last parameter; 0 where there is none
	Checks          []Check // those of the output after the program's own, which is there where there is one

	nodes []int64 // of each node of the program: the number of its last instruction
}

// instructionName is how the builder names instructions, as a compiler's message may quote one.
var instructionName = regexp.MustCompile(`%?\b[a-z][a-z0-9-]*\.([0-9]+)\b`)

// Blame adds to a compiler's error the operator of the instruction that its message names, else those of the results.
func (m *Module) Blame(p *Program, err error) error {
	for _, found := range instructionName.FindAllStringSubmatch(status.MessageOf(err), -1) {
		if !bytes.Contains(m.HLO, []byte(strings.TrimPrefix(found[0], "%"))) {
			continue // it only looks like one
		}
		id, failure := strconv.ParseInt(found[1], 10, 64)
		node, _ := slices.BinarySearch(m.nodes, id)
		if failure != nil || node == len(m.nodes) || node > 0 && id <= m.nodes[node-1] || p.Nodes[node].Kind == KindParameter {
			continue
		}
		return p.Blame(node, err)
	}
	return p.BlameAll(err)
}

// Lower emits the program as an HloModuleProto. Parameters are the device values in post-order;
// then, if there are scalars, one u32 array that packs them all, so that a run makes one small
// transfer whatever the scalars' types are. Those of a program with an Interface are its arguments.
// It needs no lock and runs off the calling thread.
func (p *Program) Lower(name string, tupleThreshold int) (module *Module, err error) {
	module = &Module{Partitioned: p.Partitions > 0}
	b := hlo.NewBuilder(name)
	b.SetPrecision(p.Precision)
	if p.Marks != hlo.Unmarked {
		b.KeepMarks()
	}
	var given entry
	if p.Interface != nil {
		given, err = p.Interface.declare(p, b)
	} else {
		given, err = module.declare(p, b, tupleThreshold)
	}
	if err != nil {
		return nil, err
	}
	values := make([][]hlo.Value, len(p.Nodes))
	parameter := 0
	l := Lowering{B: b, partitioned: module.Partitioned}
	if !p.Unchecked {
		l.checks = newChecks(p)
	}
	recorded := p.HasStacks()
	module.nodes = make([]int64, 0, len(p.Nodes))
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if recorded {
			b.SetMetadata(n.Kind.String(), n.Stack.opName(n.Kind), n.Stack.Frames()...)
		}
		switch n.Kind {
		case KindParameter:
			values[i] = []hlo.Value{given.parameters[parameter]}
			parameter++
		case KindScalar:
			values[i] = []hlo.Value{given.scalar(n.Dtype)}
		case KindElement:
			if values[i], err = p.element(n, values); err != nil {
				return nil, err
			}
		default:
			if l.checks != nil {
				l.checks.node = i
			}
			l.take(n, values)
			if values[i], err = lowerNode(&l, n); err != nil {
				return nil, p.Blame(i, err)
			}
			if err := b.Err(); err != nil {
				return nil, p.Blame(i, err)
			}
		}
		if n.Dtype != dtype.Tuple {
			if err := checkShape(n, values[i]); err != nil {
				return nil, p.Blame(i, err)
			}
		}
		module.nodes = append(module.nodes, b.LastID())
	}
	outputs := make([]hlo.Value, len(p.Outputs))
	for i, o := range p.Outputs {
		outputs[i] = values[o][0]
		if module.Partitioned && p.Shardings[i] != nil {
			outputs[i] = annotated(b, outputs[i], p.Shardings[i], nil)
		}
	}
	if l.checks != nil && len(l.checks.list) > 0 {
		b.SetMetadata("", "")
		module.Checks = l.checks.list
		failed := l.checks.output(b)
		if module.Partitioned {
			failed = annotated(b, failed, &hlo.Sharding{Kind: hlo.Replicated}, nil)
		}
		outputs = append(outputs, failed)
	}
	donors := make([]hlo.Donor, len(p.Donors))
	for i, d := range p.Donors {
		donors[i].Parameter = int64(d.Parameter)
		if module.TupledArguments {
			donors[i] = hlo.Donor{Parameter: 0, ShapeIndex: []int64{int64(d.Parameter)}}
		}
		if d.Output >= 0 {
			donors[i].OutputIndex = []int64{int64(d.Output)}
		}
	}
	if module.HLO, err = b.Build(outputs, donors); err != nil {
		return nil, err
	}
	if p.Marks != hlo.Unmarked {
		module.HLO, err = hlo.OutlineComposites(module.HLO, p.Marks)
	}
	return module, err
}

// declare makes the parameters as the executor gives them.
func (m *Module) declare(p *Program, b *hlo.Builder, tupleThreshold int) (entry, error) {
	var shapes []shape.Shape
	var shardings []hlo.Sharding
	for i := range p.Nodes {
		switch n := &p.Nodes[i]; n.Kind {
		case KindParameter:
			m.Parameters++
			shapes = append(shapes, shape.Shape{Dtype: n.Dtype, Dims: n.Dims})
			s, err := ShardingOf(n.Attributes)
			if err != nil {
				return entry{}, err
			}
			if s == nil {
				s = &hlo.Sharding{Kind: hlo.Replicated}
			}
			shardings = append(shardings, *s)
		case KindScalar:
			m.ScalarWords += ScalarWords(n.Dtype)
		}
	}
	if m.ScalarWords > 0 {
		shapes = append(shapes, shape.Make(dtype.U32, int64(m.ScalarWords)))
		shardings = append(shardings, hlo.Sharding{Kind: hlo.Replicated})
	}
	parameters := make([]hlo.Value, len(shapes))
	if m.TupledArguments = tupleThreshold > 0 && len(shapes) >= tupleThreshold; m.TupledArguments {
		if m.Partitioned {
			b.SetSharding(&hlo.Sharding{Kind: hlo.ShardingTuple, Elements: shardings})
		}
		tuple := b.TupleParameter(shapes)
		b.SetSharding(nil)
		for i := range parameters {
			parameters[i] = b.GetTupleElement(tuple, i)
		}
	} else {
		for i, s := range shapes {
			if m.Partitioned {
				b.SetSharding(&shardings[i])
			}
			parameters[i] = b.Parameter(s, fmt.Sprintf("p%d", i))
		}
		b.SetSharding(nil)
	}
	e := entry{parameters: parameters[:m.Parameters]}
	word := 0
	e.scalar = func(d dtype.Dtype) hlo.Value {
		v := unpackScalar(b, parameters[m.Parameters], word, d)
		word += ScalarWords(d)
		return v
	}
	return e, nil
}

// element gives the value of a KindElement.
func (p *Program) element(n *ProgramNode, values [][]hlo.Value) ([]hlo.Value, error) {
	if len(n.Operands) != 1 || len(n.Attributes) != 1 {
		return nil, status.Errorf(status.DataLoss, "Lower(): expected one of an operation's results, got %d operations and %d numbers", len(n.Operands), len(n.Attributes))
	}
	many, k := values[n.Operands[0]], n.Attributes[0]
	if k < 0 || k >= int64(len(many)) {
		return nil, status.Errorf(status.Internal, "lowering of %v gave %d results, expected one numbered %d",
			p.Nodes[n.Operands[0]].Kind, len(many), k)
	}
	return many[k : k+1], nil
}

// lowerNode turns a panic of a row's lowering into an error that names the operation: it comes
// from a program that the row did not foresee, and must not end the process.
func lowerNode(l *Lowering, n *ProgramNode) (values []hlo.Value, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *status.Error:
			err = r
		default:
			err = status.Errorf(status.Internal, "lowering of %v to %v failed: %v", n.Kind, shape.Shape{Dtype: n.Dtype, Dims: n.Dims}, r)
		}
	}()
	values = definitions[n.Kind].Lower(l)
	if len(values) == 0 {
		return nil, status.Errorf(status.Internal, "lowering of %v gave no value", n.Kind)
	}
	return values, nil
}

// checkShape compares what a lowering made with what the row's meta had promised.
func checkShape(n *ProgramNode, values []hlo.Value) error {
	want := shape.Shape{Dtype: n.Dtype, Dims: n.Dims}
	if v := values[0]; v.Valid() && !v.Shape().Equal(want) {
		return status.Errorf(status.Internal, "lowering of %v gave %v, but its meta said %v", n.Kind, v.Shape(), want)
	}
	return nil
}

func unpackScalar(b *hlo.Builder, pack hlo.Value, word int, d dtype.Dtype) hlo.Value {
	words := int64(ScalarWords(d))
	w := b.Slice(pack, []int64{int64(word)}, []int64{int64(word) + words}, nil)
	if words == 1 {
		return b.Reshape(b.BitcastConvert(w, d), nil)
	}
	return b.BitcastConvert(w, d)
}
