package ir

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Stack is the number of a stack of source lines, 0 for none. Nodes carry it, keys do not: where a program was
// written decides nothing about it.
type Stack int32

// stacks are those of the process. They are few: one for each place that calls operators.
var stacks struct {
	sync.RWMutex
	list [][]hlo.Frame
}

// anyStacks is true once there is a stack: before that, nobody looks for them.
var anyStacks atomic.Bool

// AddStack keeps a stack, the innermost frame first, and gives its number. Whoever calls it keeps equal stacks apart.
func AddStack(frames []hlo.Frame) Stack {
	stacks.Lock()
	defer stacks.Unlock()
	stacks.list = append(stacks.list, frames)
	anyStacks.Store(true)
	return Stack(len(stacks.list))
}

// Frames gives the stack, the innermost frame first; nil for none. Not to be modified.
func (s Stack) Frames() []hlo.Frame {
	stacks.RLock()
	defer stacks.RUnlock()
	if s <= 0 || int(s) > len(stacks.list) {
		return nil
	}
	return stacks.list[s-1]
}

// Line gives the stack in one line, the innermost frame first; "" for none.
func (s Stack) Line() string {
	frames := s.Frames()
	parts := make([]string, len(frames))
	for i, f := range frames {
		parts[i] = fmt.Sprintf("%s:%d in %s", f.File, f.Line, f.Function)
	}
	return strings.Join(parts, " < ")
}

// Traceback gives the stack as Python writes one, the innermost frame last; "" for none.
func (s Stack) Traceback() string {
	var b strings.Builder
	frames := s.Frames()
	for i := len(frames) - 1; i >= 0; i-- {
		fmt.Fprintf(&b, "\n  File %q, line %d, in %s", frames[i].File, frames[i].Line, frames[i].Function)
	}
	return b.String()
}

// opName names an operator with the functions that it was called in, the outermost first.
func (s Stack) opName(kind Kind) string {
	frames := s.Frames()
	var b strings.Builder
	for i := len(frames) - 1; i >= 0; i-- {
		b.WriteString(frames[i].Function)
		b.WriteByte('/')
	}
	b.WriteString(kind.String())
	return b.String()
}

// Origin says which operator made a value, and where.
type Origin struct {
	Kind  Kind // KindParameter where no operator did
	Stack Stack
}

// OriginOf gives the origin of a node's value: of one result of several that of the operator with all of them.
func OriginOf(n *Node) Origin {
	if n.Kind == KindElement && len(n.Operands) > 0 {
		return Origin{n.Operands[0].Kind, n.Stack}
	}
	return Origin{n.Kind, n.Stack}
}

// blamed marks an error that says already which operator it came from.
type blamed struct{ error }

func (b *blamed) Unwrap() error { return b.error }

// Blame adds to an error which operator failed and the lines that called it, once: an error that was passed on keeps
// what it says. The code stays.
func (o Origin) Blame(err error) error {
	var already *blamed
	if err == nil || errors.As(err, &already) || o.Kind == KindInvalid {
		return err
	}
	return blame(err, "\nin "+o.Kind.String()+o.Stack.explained())
}

func (s Stack) explained() string {
	if trace := s.Traceback(); trace != "" {
		return ", called at (most recent call last):" + trace
	}
	return " (XLA_GO_IR_DEBUG=1 shows the lines that called it)"
}

func blame(err error, where string) error {
	return &status.Error{Code: status.CodeOf(err), Message: status.MessageOf(err) + where, Cause: &blamed{err}, Exception: status.ExceptionOf(err)}
}

// Blame is Origin.Blame for a node of a program.
func (p *Program) Blame(node int, err error) error {
	n := &p.Nodes[node]
	o := Origin{n.Kind, n.Stack}
	if n.Kind == KindElement {
		o.Kind = p.Nodes[n.Operands[0]].Kind
	}
	return o.Blame(err)
}

// blamedResults is the number of results that BlameAll names.
const blamedResults = 3

// BlameAll adds to an error of the whole program which operators make its results.
func (p *Program) BlameAll(err error) error {
	var already *blamed
	if err == nil || errors.As(err, &already) || len(p.Outputs) == 0 {
		return err
	}
	if len(p.Outputs) == 1 {
		return p.Blame(p.Outputs[0], err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nin a program of %d results, the first of them", len(p.Outputs))
	for _, node := range p.Outputs[:min(len(p.Outputs), blamedResults)] {
		n := &p.Nodes[node]
		kind := n.Kind
		if kind == KindElement {
			kind = p.Nodes[n.Operands[0]].Kind
		}
		fmt.Fprintf(&b, "\n%v : %v", kind, shape.Shape{Dtype: n.Dtype, Dims: n.Dims})
		if trace := n.Stack.Traceback(); trace != "" {
			b.WriteString(", called at (most recent call last):" + trace)
		}
	}
	if !p.HasStacks() {
		b.WriteString("\n(XLA_GO_IR_DEBUG=1 shows the lines that called them)")
	}
	return blame(err, b.String())
}

// Stacks gives the stacks of walked nodes as a program of their key has them, nil where there are none. varied is what
// Vary was given: a scalar that it puts before a node has the stack of that node.
func Stacks(order []*Node, varied []bool) []Stack {
	if !anyStacks.Load() {
		return nil
	}
	var list []Stack
	var numbers [64]Variable
	found := false
	next := 0
	for _, n := range order {
		found = found || n.Stack != 0
		if varied != nil {
			for range AppendVariables(numbers[:0], n) {
				if varied[next] {
					list = append(list, n.Stack)
				}
				next++
			}
		}
		list = append(list, n.Stack)
	}
	if !found {
		return nil
	}
	return list
}

// SetStacks gives the program's nodes their stacks; nil takes them away.
func (p *Program) SetStacks(list []Stack) {
	for i := range p.Nodes {
		p.Nodes[i].Stack = 0
		if i < len(list) {
			p.Nodes[i].Stack = list[i]
		}
	}
}

// Stacks gives what SetStacks was given.
func (p *Program) Stacks() []Stack {
	list := make([]Stack, len(p.Nodes))
	for i := range p.Nodes {
		list[i] = p.Nodes[i].Stack
	}
	return list
}

// HasStacks is true where a node has one.
func (p *Program) HasStacks() bool {
	for i := range p.Nodes {
		if p.Nodes[i].Stack != 0 {
			return true
		}
	}
	return false
}

// WithoutStacks gives the program as it would be without them; they share what does not change.
func (p *Program) WithoutStacks() *Program {
	bare := *p
	bare.Nodes = append([]ProgramNode(nil), p.Nodes...)
	bare.SetStacks(nil)
	return &bare
}
