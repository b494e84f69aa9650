package hlo

import (
	"slices"
	"strconv"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Computation is a finished nested computation, to be called by instructions of its module.
type Computation struct {
	id         int64
	name       string
	module     *module
	parameters []shape.Shape
	result     shape.Shape
}

// Name gives the computation's unique name.
func (c *Computation) Name() string { return c.name }

// Parameters gives the shapes of the parameters. Not to be modified.
func (c *Computation) Parameters() []shape.Shape { return c.parameters }

// Result gives the shape of the result, a tuple where Return was given several values.
func (c *Computation) Result() shape.Shape { return c.result }

// unique makes a computation's name unique in the module.
func (m *module) unique(name string) string {
	n := m.used[name]
	m.used[name]++
	if n == 0 {
		return name
	}
	return m.unique(name + "." + strconv.Itoa(n))
}

// Computation builds a nested computation: build adds parameters and instructions to sub and
// ends with sub.Return. Values of the outer computation cannot be used inside. Nil after an error.
func (b *Builder) Computation(name string, build func(sub *Builder)) *Computation {
	m := b.module
	sub := m.newBuilder(name)
	sub.metadata = slices.Clone(b.metadata)
	build(sub)
	if m.err != nil {
		return nil
	}
	if !sub.result.Valid() {
		b.fail(opCall, "expected computation %s to end with Return", sub.name)
		return nil
	}
	return sub.finish()
}

// finish encodes the computation and adds it to the module.
func (b *Builder) finish() *Computation {
	m := b.module
	m.next++
	c := &Computation{id: m.next, name: b.name, module: m, parameters: b.parameters, result: b.result.n.shape}
	e := &b.body
	at := e.open(4)
	b.appendProgramShape(e)
	e.close(at)
	e.varint(5, c.id)
	e.varint(6, b.result.n.id)
	m.computations = append(m.computations, e.buf)
	return c
}

func (b *Builder) appendProgramShape(e *encoder) {
	for _, p := range b.parameters {
		e.raw(1, b.module.shapes.known(p).bytes)
	}
	e.raw(2, b.result.n.bytes)
	for _, n := range b.names {
		e.text(3, n)
	}
}

type combinerKey struct {
	op Opcode
	d  dtype.Dtype
}

// ScalarComputation gives the computation of two scalars x and y that returns op(x, y), made
// once per module. Besides the opcodes of Binary it knows Second, which returns y.
func (b *Builder) ScalarComputation(op Opcode, d dtype.Dtype) *Computation {
	m := b.module
	key := combinerKey{op, d}
	if c := m.combiners[key]; c != nil {
		return c
	}
	c := b.Computation(string(op)+"_"+d.String(), func(sub *Builder) {
		x := sub.Parameter(shape.Make(d), "x")
		y := sub.Parameter(shape.Make(d), "y")
		if op == Second {
			sub.Return(y)
		} else {
			sub.Return(sub.Binary(op, x, y))
		}
	})
	if c != nil {
		if m.combiners == nil {
			m.combiners = map[combinerKey]*Computation{}
		}
		m.combiners[key] = c
	}
	return c
}

// compareComputation gives the computation of two scalars that compares them.
func (b *Builder) compareComputation(direction string, d dtype.Dtype) *Computation {
	m := b.module
	key := combinerKey{Opcode("compare_" + direction), d}
	if c := m.combiners[key]; c != nil {
		return c
	}
	c := b.Computation("compare_"+direction+"_"+d.String(), func(sub *Builder) {
		x := sub.Parameter(shape.Make(d), "x")
		y := sub.Parameter(shape.Make(d), "y")
		sub.Return(sub.Compare(direction, x, y))
	})
	if c != nil {
		if m.combiners == nil {
			m.combiners = map[combinerKey]*Computation{}
		}
		m.combiners[key] = c
	}
	return c
}

// Second, for ScalarComputation only, keeps the second operand: the combiner of a scatter that
// overwrites.
const Second Opcode = "second"

// usable checks a computation that an instruction wants to call.
func (b *Builder) usable(op Opcode, c *Computation) bool {
	if c == nil {
		b.fail(op, "expected a computation, got nil")
		return false
	}
	if c.module != b.module {
		b.fail(op, "expected a computation of module %s, got one of %s", b.module.name, c.module.name)
		return false
	}
	return true
}

// takes checks a called computation's parameter and result shapes.
func (b *Builder) takes(op Opcode, c *Computation, parameters []shape.Shape, result shape.Shape) bool {
	if !b.usable(op, c) {
		return false
	}
	if !equalShapes(c.parameters, parameters) {
		b.fail(op, "expected computation %s to take %v, got one that takes %v", c.name,
			shape.MakeTuple(parameters...), shape.MakeTuple(c.parameters...))
		return false
	}
	if !c.result.Equal(result) {
		b.fail(op, "expected computation %s to return %v, got %v", c.name, result, c.result)
		return false
	}
	return true
}

func equalShapes(a, b []shape.Shape) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].Equal(b[i]) {
			return false
		}
	}
	return true
}

// Donor names an input whose buffer the program may reuse for its outputs: a parameter and,
// where that is a tuple, the index inside it.
//
// With OutputIndex the buffer becomes that output's (input_output_alias, may-alias) where their
// shapes are equal; without, the compiler chooses an output (buffer_donor). Where a donor is the old value of an
// output, naming it matters: left to itself the compiler pairs equal shapes in order, and then
// copies the inputs that are read after another output was written over them.
type Donor struct {
	Parameter   int64
	ShapeIndex  []int64
	OutputIndex []int64
}

// Build ends the entry computation with a tuple of outputs and gives the HloModuleProto's
// bytes: the same calls give the same bytes. The builder cannot be used after it.
func (b *Builder) Build(outputs []Value, donors []Donor) ([]byte, error) {
	m := b.module
	b.metadata, b.sharding = nil, nil
	root := b.Tuple(outputs...)
	for _, d := range donors {
		b.checkDonor(d, int64(len(outputs)))
	}
	if m.err != nil {
		return nil, m.err
	}
	b.result = root
	entry := b.finish()
	var e encoder
	size := 256
	for _, c := range m.computations {
		size += len(c) + 16
	}
	e.buf = make([]byte, 0, size)
	e.text(1, m.name)
	e.text(2, entry.name)
	for _, c := range m.computations {
		e.raw(3, c)
	}
	at := e.open(4)
	b.appendProgramShape(&e)
	e.close(at)
	e.varint(6, entry.id)
	b.appendDonors(&e, root, donors)
	m.sources.append(&e)
	m.err = status.Errorf(status.FailedPrecondition, "module %s is built already; make a new builder", m.name)
	return e.buf, nil
}

// mayAlias is HloInputOutputAliasProto's kind of an alias that the compiler may leave unused.
const mayAlias = 1

func (b *Builder) appendDonors(e *encoder, root Value, donors []Donor) {
	var aliased, free []Donor
	for _, d := range donors {
		if len(d.OutputIndex) == 1 && b.donorShape(d).Equal(root.Shape().Elements[d.OutputIndex[0]]) {
			aliased = append(aliased, d)
		} else {
			free = append(free, d)
		}
	}
	if len(aliased) > 0 {
		list := e.open(8)
		for _, d := range aliased {
			one := e.open(1)
			e.packed(1, d.OutputIndex)
			e.varint(2, d.Parameter)
			e.packed(3, d.ShapeIndex)
			e.varint(4, mayAlias)
			e.close(one)
		}
		e.close(list)
	}
	if len(free) > 0 {
		list := e.open(18)
		for _, d := range free {
			one := e.open(1)
			e.varint(1, d.Parameter)
			e.packed(2, d.ShapeIndex)
			e.close(one)
		}
		e.close(list)
	}
}

// donorShape gives the shape of a checked donor.
func (b *Builder) donorShape(d Donor) shape.Shape {
	s := b.parameters[d.Parameter]
	for _, i := range d.ShapeIndex {
		s = s.Elements[i]
	}
	return s
}

func (b *Builder) checkDonor(d Donor, outputs int64) {
	if d.Parameter < 0 || d.Parameter >= int64(len(b.parameters)) {
		b.fail("build", "expected a donor below %d, got parameter %d", len(b.parameters), d.Parameter)
		return
	}
	s := b.parameters[d.Parameter]
	for _, i := range d.ShapeIndex {
		if i < 0 || i >= int64(len(s.Elements)) {
			b.fail("build", "expected a donor index inside %v, got %v", b.parameters[d.Parameter], d.ShapeIndex)
			return
		}
		s = s.Elements[i]
	}
	for _, i := range d.OutputIndex {
		if i < 0 || i >= outputs || len(d.OutputIndex) != 1 {
			b.fail("build", "expected the index of one of %d outputs for a donor, got %v", outputs, d.OutputIndex)
			return
		}
	}
	if s.Dtype == dtype.Tuple {
		b.fail("build", "expected a donor that is an array, got %v of parameter %d", s, d.Parameter)
	}
}
