// Package hlo builds XLA's HloModuleProto: instructions with shape inference and plain errors,
// nested computations, and the module's bytes. It also prints modules as HLO text.
//
// Errors are sticky. A method that fails returns an invalid Value; a method that is given an
// invalid Value returns one too; the first error stays in the builder and Build returns it. A
// lowering therefore needs one check, at its end.
package hlo

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Builder adds instructions to one computation: the entry computation of a module (NewBuilder)
// or a nested one (Computation). It is not safe for concurrent use.
type Builder struct {
	module       *module
	name         string
	body         encoder // the HloComputationProto so far: name and instructions
	parameters   []shape.Shape
	names        []string // of the parameters
	result       Value    // set by Return
	multiple     bool     // Return was given other than one value: result is a tuple
	scalars      map[scalarKey]Value
	metadata     []byte // an encoded OpMetadata, empty for none
	sharding     []byte // an encoded OpSharding, nil for none
	shardGroups  int64  // see NextShardGroup
	channels     int64  // see NextChannel
	instructions int
	slab         []instruction // unused ones, allocated together
}

// module is what the computations of one module share.
type module struct {
	name         string
	next         int64 // last identifier given to an instruction or computation
	err          error
	computations [][]byte // encoded, callees first
	used         map[string]int
	combiners    map[combinerKey]*Computation
	shapes       shapeCache
	sources      sourceIndex
	precision    Precision // what PrecisionDefault means
	marks        bool      // see KeepMarks
}

// NewBuilder starts a module of that name and gives the builder of its entry computation.
func NewBuilder(name string) *Builder {
	m := &module{name: name, used: map[string]int{}}
	return m.newBuilder("main")
}

func (m *module) newBuilder(name string) *Builder {
	b := &Builder{module: m, name: m.unique(name)}
	b.body.text(1, b.name)
	return b
}

// Err gives the first error of the module so far, nil if there is none.
func (b *Builder) Err() error { return b.module.err }

// NumInstructions gives the number of instructions added to this computation so far.
func (b *Builder) NumInstructions() int { return b.instructions }

// LastID gives the number of the module's newest instruction or computation; numbers rise.
func (b *Builder) LastID() int64 { return b.module.next }

// Parameter adds the next parameter, numbered in order of creation.
func (b *Builder) Parameter(s shape.Shape, name string) Value {
	if s.Dtype.Size() == 0 {
		return b.fail("parameter", "expected an array shape, got %v", s)
	}
	return b.parameter(s, name)
}

// TupleParameter adds the next parameter, a tuple of arrays; GetTupleElement reads it.
func (b *Builder) TupleParameter(shapes []shape.Shape) Value {
	return b.parameter(shape.MakeTuple(shapes...), "")
}

// StateParameters adds what a computation given to While or Conditional takes: one parameter
// if there is one shape, else one tuple parameter; the result is its elements either way.
func (b *Builder) StateParameters(shapes []shape.Shape) []Value {
	if len(shapes) == 1 {
		return []Value{b.Parameter(shapes[0], "")}
	}
	return b.elements(b.TupleParameter(shapes), true)
}

func (b *Builder) parameter(s shape.Shape, name string) Value {
	number := int64(len(b.parameters))
	if name == "" {
		name = "p" + strconv.FormatInt(number, 10)
	}
	b.parameters = append(b.parameters, s)
	b.names = append(b.names, name)
	v, at := b.beginNamed(opParameter, plainName(name), s)
	b.body.varint(9, number)
	return b.end(v, at)
}

// plainName keeps the characters that HLO text allows in a name.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || ('0' <= r && r <= '9') || ('a' <= r && r <= 'z') || ('A' <= r && r <= 'Z') {
			return r
		}
		return '_'
	}, name)
}

// Return sets the computation's result: the value itself if there is one, else a tuple.
// For the entry computation use Build, whose result is always a tuple.
func (b *Builder) Return(values ...Value) {
	b.multiple = len(values) != 1
	if b.multiple {
		b.result = b.Tuple(values...)
	} else if b.ok("return", values...) {
		b.result = values[0]
	}
}

// ReturnTuple sets a tuple as the computation's result, even of one value.
func (b *Builder) ReturnTuple(values ...Value) {
	b.multiple = true
	b.result = b.Tuple(values...)
}

// fail keeps the first error of the module and gives the invalid value.
func (b *Builder) fail(op Opcode, format string, args ...any) Value {
	if b.module.err == nil {
		b.module.err = status.Errorf(status.InvalidArgument, string(op)+"(): "+format, args...)
	}
	return Value{}
}

// ok checks that the values are valid and were made in this computation.
func (b *Builder) ok(op Opcode, values ...Value) bool {
	for i, v := range values {
		if v.n == nil {
			b.fail(op, "expected a valid value, got an empty one as operand %d", i)
			return false
		}
		if v.n.owner != b {
			b.fail(op, "expected values of computation %s, got one of %s as operand %d; pass it in as a parameter",
				b.name, v.n.owner.name, i)
			return false
		}
	}
	return true
}

// emit adds an instruction without attributes.
func (b *Builder) emit(op Opcode, s shape.Shape, operands ...Value) Value {
	v, at := b.begin(op, s)
	return b.end(v, at, operands...)
}

// begin opens an instruction; its attributes are written to b.body and end closes it.
func (b *Builder) begin(op Opcode, s shape.Shape) (*instruction, int) {
	return b.beginNamed(op, string(op), s)
}

func (b *Builder) beginNamed(op Opcode, prefix string, s shape.Shape) (*instruction, int) {
	m := b.module
	m.next++
	b.instructions++
	e := &b.body
	if cap(e.buf)-len(e.buf) < 256 { // doubling copies less than append's growth
		e.buf = slices.Grow(e.buf, max(2*len(e.buf), 4096))
	}
	at := e.open(2)
	name := e.open(1)
	e.buf = append(e.buf, prefix...)
	e.buf = append(e.buf, '.')
	e.buf = strconv.AppendInt(e.buf, m.next, 10)
	e.close(name)
	e.text(2, string(op))
	k := m.shapes.known(s)
	e.raw(3, k.bytes)
	if len(b.metadata) > 0 {
		e.raw(7, b.metadata)
	}
	if b.sharding != nil {
		e.raw(40, b.sharding)
	}
	e.varint(35, m.next)
	if len(b.slab) == 0 {
		b.slab = make([]instruction, 64)
	}
	n := &b.slab[0]
	b.slab = b.slab[1:]
	n.id, n.knownShape, n.owner = m.next, k, b
	return n, at
}

// An operand that is none, because what was to make it has failed, makes the result none.
func (b *Builder) end(n *instruction, at int, operands ...Value) Value {
	e := &b.body
	if slices.ContainsFunc(operands, func(o Value) bool { return o.n == nil }) {
		e.close(at)
		return Value{}
	}
	if len(operands) > 0 {
		ids := e.open(36)
		for _, o := range operands {
			e.buf = protowire.AppendVarint(e.buf, uint64(o.n.id))
		}
		e.close(ids)
	}
	e.close(at)
	return Value{n}
}

// calls writes the called computations of the open instruction.
func (b *Builder) calls(cs ...*Computation) {
	ids := b.body.open(38)
	for _, c := range cs {
		b.body.buf = protowire.AppendVarint(b.body.buf, uint64(c.id))
	}
	b.body.close(ids)
}

// elements gives the elements of a tuple, or the value itself.
func (b *Builder) elements(v Value, tuple bool) []Value {
	if !tuple || !v.Valid() {
		return []Value{v}
	}
	out := make([]Value, len(v.n.shape.Elements))
	for i := range out {
		out[i] = b.GetTupleElement(v, i)
	}
	return out
}

// shapeCache holds each shape of a module once, with its encoded form; a graph has few.
type shapeCache struct {
	entries map[uint64][]*knownShape
	last    *knownShape
}

type knownShape struct {
	shape shape.Shape
	bytes []byte // a ShapeProto with row-major layout
}

// known gives the entry of s; it keeps copies, so the caller may reuse the slices of s.
func (c *shapeCache) known(s shape.Shape) *knownShape {
	if c.last != nil && c.last.shape.Equal(s) {
		return c.last
	}
	h := hashShape(s)
	for _, k := range c.entries[h] {
		if k.shape.Equal(s) {
			c.last = k
			return k
		}
	}
	var e encoder
	appendShape(&e, s)
	if c.entries == nil {
		c.entries = map[uint64][]*knownShape{}
	}
	k := &knownShape{shape.Shape{Dtype: s.Dtype, Dims: slices.Clone(s.Dims), Elements: slices.Clone(s.Elements)}, e.buf}
	c.entries[h] = append(c.entries[h], k)
	c.last = k
	return k
}

func hashShape(s shape.Shape) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037) ^ uint64(s.Dtype)
	for _, d := range s.Dims {
		h = (h ^ uint64(d)) * prime
	}
	for _, t := range s.Elements {
		h = (h ^ hashShape(t)) * prime
	}
	return h
}

func appendShape(e *encoder, s shape.Shape) {
	e.varint(2, int64(s.Dtype))
	if s.Dtype == dtype.Tuple {
		for _, t := range s.Elements {
			at := e.open(4)
			appendShape(e, t)
			e.close(at)
		}
		return
	}
	e.packed(3, s.Dims)
	if s.Dtype == dtype.Token {
		return
	}
	layout := e.open(5)
	if n := len(s.Dims); n > 0 {
		order := e.open(1)
		for i := n - 1; i >= 0; i-- {
			e.buf = protowire.AppendVarint(e.buf, uint64(i))
		}
		e.close(order)
		e.close(layout)
		dynamic := e.open(6)
		for range s.Dims {
			e.buf = append(e.buf, 0)
		}
		e.close(dynamic)
		return
	}
	e.close(layout)
}
