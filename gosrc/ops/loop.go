package ops

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Loops that are one instruction of the program (`xla_go.loop`). Their schemas are ours (torch_adapter/collective.cpp). What
// a loop runs is traced once, on placeholders, by the operators that torch calls: the row is given the placeholders and what
// was made of them, takes the nodes in between as a region, and what that needs from outside as operands.

func init() {
	register(
		&Row{Name: "xla_go::placeholder_like", Meta: metaPlaceholder},
		&Row{Name: "xla_go::scan", Meta: metaLoopScan, LowerMany: lowerLoopScan},
		&Row{Name: "xla_go::while_loop", Meta: metaWhile, LowerMany: lowerWhile},
		&Row{Name: "xla_go::optimization_barrier", Meta: metaBarrier, LowerMany: lowerBarrier},
	)
}

func metaPlaceholder(c *Call) error {
	c.Return(c.Build(ir.KindPlaceholder, c.Dtype(0), c.Dims(0)))
	return nil
}

// list gives the nodes of the tensors in list argument i.
func (c *Call) list(i int) []*ir.Node {
	nodes := make([]*ir.Node, len(c.Args[i].Tensors))
	for k := range nodes {
		nodes[k] = c.NodeOf(&c.Args[i].Tensors[k])
	}
	return nodes
}

// same refuses a state that has another type after a round than before it.
func (c *Call) same(before, after []*ir.Node) error {
	if len(before) != len(after) {
		return status.Torchf(status.ValueError, "%s(): expected a state of %d tensors after each round, got %d", c.row.Name, len(before), len(after))
	}
	for k, n := range before {
		if m := after[k]; m.Dtype != n.Dtype || !slices.Equal(m.Dims, n.Dims) {
			was, is := shape.Shape{Dtype: n.Dtype, Dims: n.Dims}, shape.Shape{Dtype: m.Dtype, Dims: m.Dims}
			return status.Torchf(status.ValueError, "%s(): expected the state to keep its type, got %v for %v in tensor %d of it", c.row.Name, is, was, k)
		}
	}
	return nil
}

// How a region's input is found when it is emitted: a placeholder by its number; the node's operand number k after its own
// ones as ^k; with an offset of a random generator that moves on from round to round as offsetBase - k.
const offsetBase = -1 << 32

// region adds the region that computes the roots, and appends to captured what it needs that is no placeholder.
func (c *Call) region(roots, placeholders []*ir.Node, captured *[]*ir.Node) error {
	r := c.graph.Region(roots)
	if r.Collective {
		return status.Errorf(status.Unimplemented, "%s(): expected a function without collectives, got one with", c.row.Name)
	}
	bindings := make([]int64, len(r.Inputs))
	for i, n := range r.Inputs {
		if k := slices.Index(placeholders, n); k >= 0 {
			bindings[i] = int64(k)
			continue
		}
		k := slices.Index(*captured, n)
		if k < 0 {
			k = len(*captured)
			*captured = append(*captured, n)
		}
		if bindings[i] = int64(^k); n.IsOffset {
			bindings[i] = offsetBase - int64(k)
		}
	}
	c.AttrInts(bindings)
	c.attrBytes(r.Key)
	return nil
}

// loopRegion is what region added.
type loopRegion struct {
	bindings []int64
	key      []byte
}

func readRegion(l *ir.Lowering) (r loopRegion) {
	r.bindings, r.key = slices.Clone(l.Ints()), readBytes(l)
	return r
}

// emit puts the region into b. moved is how far offsets of random generators have come, an empty value where they do not.
func (r loopRegion) emit(l *ir.Lowering, b *hlo.Builder, placeholders, captured []hlo.Value, moved hlo.Value) []hlo.Value {
	inputs := make([]hlo.Value, len(r.bindings))
	for i, k := range r.bindings {
		switch {
		case k >= 0:
			inputs[i] = placeholders[k]
		case k > offsetBase:
			inputs[i] = captured[^k]
		default:
			inputs[i] = captured[offsetBase-k]
			if moved.Valid() {
				inputs[i] = b.Binary(hlo.Add, inputs[i], moved)
			}
		}
	}
	values, err := l.EmitRegion(b, r.key, inputs)
	if err != nil {
		panic(err)
	}
	return values
}

// draws gives by how much the random generator in argument i has moved on since the first draw of a round, 0 where captured
// has no draw of it.
func (c *Call) draws(i int, captured []*ir.Node) (int64, error) {
	first, now := uint64(0), *c.Args[i].Generator.Offset
	found := false
	for _, n := range captured {
		if n.IsOffset && (!found || n.Scalar < first) {
			first, found = n.Scalar, true
		}
	}
	if !found {
		return 0, nil
	}
	if first >= now {
		return 0, status.Errorf(status.Unimplemented, "%s(): expected random numbers of the device's own generator, got another one's", c.row.Name)
	}
	return int64(now - first), nil
}

// metaLoopScan: (init, xs, carry, x, next_carry, y, results, length, reverse, generator). carry and x are placeholders, x of one element
// of xs; next_carry and y were made of them; the last carry and all y go into results. reverse begins with the last element.
func metaLoopScan(c *Call) error {
	init, xs, carry, x, next, ys := c.list(0), c.list(1), c.list(2), c.list(3), c.list(4), c.list(5)
	results, length := c.Args[6].Tensors, c.Int(7, 0)
	if err := c.same(init, next); err != nil {
		return err
	}
	switch {
	case len(carry) != len(init) || len(x) != len(xs) || len(results) != len(init)+len(ys):
		return status.Torchf(status.ValueError, "%s(): expected placeholders for each tensor and a tensor for each result", c.row.Name)
	case length < 1:
		return status.Torchf(status.ValueError, "%s(): expected a length of at least 1, got %d", c.row.Name, length)
	}
	for k, n := range xs {
		if len(n.Dims) == 0 || n.Dims[0] != length || !slices.Equal(n.Dims[1:], x[k].Dims) || n.Dtype != x[k].Dtype {
			return status.Torchf(status.ValueError, "%s(): expected %d elements of %v in a tensor that is scanned, got %v", c.row.Name, length, x[k].Dims, n.Dims)
		}
	}
	c.Attr(length, int64(len(init)), int64(len(xs)), int64(len(ys)))
	for _, y := range ys {
		c.Attr(int64(y.Dtype))
		c.AttrInts(y.Dims)
	}
	var captured []*ir.Node
	c.AttrBool(c.Bool(8))
	drawn := len(c.attrs)
	c.Attr(0)
	if err := c.region(slices.Concat(next, ys), slices.Concat(carry, x), &captured); err != nil {
		return err
	}
	draws, err := c.draws(9, captured)
	if err != nil {
		return err
	}
	c.attrs[drawn] = draws
	*c.Args[9].Generator.Offset += uint64(draws * (length - 1))
	c.Operand(init...)
	c.Operand(xs...)
	c.Operand(captured...)
	many := c.Many()
	for k := range results {
		d, dims := dtype.Invalid, []int64(nil)
		if k < len(init) {
			d, dims = init[k].Dtype, init[k].Dims
		} else {
			y := ys[k-len(init)]
			d, dims = y.Dtype, append([]int64{length}, y.Dims...)
		}
		if err := c.WriteTo(&results[k], c.Element(many, k, d, dims)); err != nil {
			return err
		}
	}
	return nil
}

func operandsOf(l *ir.Lowering) []hlo.Value {
	operands := make([]hlo.Value, l.Count())
	for i := range operands {
		operands[i] = l.In(i)
	}
	return operands
}

// startOf gives the position of element i of an array along its first dimension.
func startOf(b *hlo.Builder, i hlo.Value, rank int) []hlo.Value {
	starts := make([]hlo.Value, rank)
	for d := range starts {
		starts[d] = b.ScalarInt(dtype.S64, 0)
	}
	starts[0] = i
	return starts
}

func lowerLoopScan(l *ir.Lowering) []hlo.Value {
	length, carries, scanned := l.Int(), int(l.Int()), int(l.Int())
	made := make([]shape.Shape, l.Int())
	for k := range made {
		d := dtype.Dtype(l.Int())
		made[k] = shape.Shape{Dtype: d, Dims: append([]int64{length}, l.Ints()...)}
	}
	reverse, draws := l.Bool(), l.Int()
	region, operands := readRegion(l), operandsOf(l)
	// The state is the round's number, the carry, what was made so far, and what stays: xs and the captured values.
	state := append([]hlo.Value{l.B.ScalarInt(dtype.S64, 0)}, operands[:carries]...)
	for _, s := range made {
		state = append(state, l.B.Broadcast(l.B.Scalar(s.Dtype, 0), s.Dims, nil))
	}
	fixed := len(state)
	state = append(state, operands[carries:]...)
	shapes := shapesOf(state)
	cond := l.B.Computation("scan_condition", func(b *hlo.Builder) {
		s := b.StateParameters(shapes)
		b.Return(b.Compare("LT", s[0], b.ScalarInt(dtype.S64, length)))
	})
	body := l.B.Computation("scan_body", func(b *hlo.Builder) {
		s := b.StateParameters(shapes)
		i := s[0]
		if reverse {
			i = b.Binary(hlo.Subtract, b.ScalarInt(dtype.S64, length-1), i)
		}
		placeholders := slices.Clone(s[1 : 1+carries])
		for _, x := range s[fixed : fixed+scanned] {
			sizes := slices.Clone(x.Dims())
			sizes[0] = 1
			placeholders = append(placeholders, b.Reshape(b.DynamicSlice(x, startOf(b, i, len(sizes)), sizes), sizes[1:]))
		}
		moved := hlo.Value{}
		if draws > 0 {
			moved = b.Convert(b.Binary(hlo.Multiply, s[0], b.ScalarInt(dtype.S64, draws)), dtype.U64)
		}
		results := region.emit(l, b, placeholders, s[fixed+scanned:], moved)
		next := append([]hlo.Value{b.Binary(hlo.Add, s[0], b.ScalarInt(dtype.S64, 1))}, results[:carries]...)
		for k, y := range results[carries:] {
			all := s[1+carries+k]
			one := b.Reshape(y, append([]int64{1}, y.Dims()...))
			next = append(next, b.DynamicUpdateSlice(all, one, startOf(b, i, all.Rank())))
		}
		b.Return(append(next, s[fixed:]...)...)
	})
	return l.B.While(state, cond, body)[1:fixed]
}

// metaWhile: (init, state, condition, next, results, generator). state are placeholders; the condition, a bool without
// dimensions, and the next state were made of them.
func metaWhile(c *Call) error {
	init, state, next := c.list(0), c.list(1), c.list(3)
	condition, results := c.Node(2), c.Args[4].Tensors
	if err := c.same(init, next); err != nil {
		return err
	}
	switch {
	case len(state) != len(init) || len(results) != len(init):
		return status.Torchf(status.ValueError, "%s(): expected a placeholder and a result for each tensor of the state", c.row.Name)
	case condition.Dtype != dtype.Bool || len(condition.Dims) != 0:
		return status.Torchf(status.ValueError, "%s(): expected a condition of dtype bool without dimensions, got %v", c.row.Name, shape.Shape{Dtype: condition.Dtype, Dims: condition.Dims})
	}
	var captured []*ir.Node
	c.Attr(int64(len(init)))
	if err := c.region([]*ir.Node{condition}, state, &captured); err != nil {
		return err
	}
	if err := c.region(next, state, &captured); err != nil {
		return err
	}
	for _, n := range captured {
		if n.IsOffset {
			// How many are drawn is known only once it has run.
			return status.Errorf(status.Unimplemented, "%s(): expected a function without random numbers, as the number of rounds is not known before: draw them before the loop, or use scan", c.row.Name)
		}
	}
	c.Operand(init...)
	c.Operand(captured...)
	many := c.Many()
	for k, n := range init {
		if err := c.WriteTo(&results[k], c.Element(many, k, n.Dtype, n.Dims)); err != nil {
			return err
		}
	}
	return nil
}

func lowerWhile(l *ir.Lowering) []hlo.Value {
	own := int(l.Int())
	condition, next, state := readRegion(l), readRegion(l), operandsOf(l)
	shapes := shapesOf(state)
	none := hlo.Value{}
	cond := l.B.Computation("while_condition", func(b *hlo.Builder) {
		s := b.StateParameters(shapes)
		b.Return(condition.emit(l, b, s[:own], s[own:], none)[0])
	})
	body := l.B.Computation("while_body", func(b *hlo.Builder) {
		s := b.StateParameters(shapes)
		b.Return(append(next.emit(l, b, s[:own], s[own:], none), s[own:]...)...)
	})
	return l.B.While(state, cond, body)[:own]
}

// metaBarrier: (values, results).
func metaBarrier(c *Call) error {
	values, results := c.list(0), c.Args[1].Tensors
	if len(values) != len(results) {
		return status.Torchf(status.ValueError, "%s(): expected a tensor for each result", c.row.Name)
	}
	c.Operand(values...)
	many := c.Many()
	for k, n := range values {
		if err := c.WriteTo(&results[k], c.Element(many, k, n.Dtype, n.Dims)); err != nil {
			return err
		}
	}
	return nil
}

func lowerBarrier(l *ir.Lowering) []hlo.Value { return l.B.OptimizationBarrier(operandsOf(l)) }
