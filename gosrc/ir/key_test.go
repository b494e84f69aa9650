package ir

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
)

var (
	testAdd = Define("test::add", func(l *Lowering) []hlo.Value { return []hlo.Value{l.B.Binary(hlo.Add, l.In(0), l.In(1))} })
	testSub = Define("test::sub", func(l *Lowering) []hlo.Value { return []hlo.Value{l.B.Binary(hlo.Subtract, l.In(0), l.In(1))} })
	testTwo = Define("test::two", func(l *Lowering) []hlo.Value {
		return []hlo.Value{l.B.Unary(hlo.Negate, l.In(0)), l.B.Unary(hlo.Abs, l.In(0))}
	})
)

// build describes one small program with every kind of field in it.
type build struct {
	kind     Kind
	dtype    dtype.Dtype
	dims     []int64
	attrs    []int64
	swap     bool // operand order
	same     bool // one parameter used twice
	reversed bool // output order
	scalar   dtype.Dtype
	donors   []int
	// parameter is how the first parameter lies over the devices, output the first output, annotation a node in between.
	partitions                    int
	parameter, output, annotation *hlo.Sharding
	open                          []int64 // dimensions for which the annotation does not count
}

func (c build) key(t testing.TB, scalarBits uint64) []byte {
	t.Helper()
	var g Graph
	a := g.New(KindParameter, c.dtype, c.dims)
	if c.parameter != nil {
		a.Buffer = NewPromise(nil, nil)
		a.Buffer.SetSharding(c.parameter)
	}
	b := g.New(KindParameter, c.dtype, c.dims)
	s := g.Scalar(c.scalar, scalarBits)
	n := g.New(c.kind, c.dtype, c.dims)
	for _, v := range c.attrs {
		n.AddInt(v)
	}
	switch {
	case c.same:
		n.AddOperand(a)
		n.AddOperand(a)
	case c.swap:
		n.AddOperand(b)
		n.AddOperand(a)
	default:
		n.AddOperand(a)
		n.AddOperand(b)
	}
	if c.annotation != nil {
		n = g.Annotate(n, c.annotation, c.open...)
	}
	m := g.New(testSub, c.dtype, c.dims)
	m.AddOperand(n)
	m.AddOperand(b)
	o := g.New(testSub, c.dtype, nil)
	o.AddOperand(a)
	o.AddOperand(s)
	roots := []*Node{m, o, n}
	if c.reversed {
		roots = []*Node{m, n, o}
	}
	walk := g.Walk([]*Node{m, o, n})
	key := walk.AppendKey(nil, Signature{
		Outputs: roots, Donors: c.donors, Partitions: c.partitions, Shardings: []*hlo.Sharding{c.output, nil, nil},
	})
	if p, err := DecodeKey(key); err != nil || !bytes.Equal(p.AppendKey(nil), key) {
		t.Errorf("the key is not that of its own program (%v)", err)
	}
	g.EndCall()
	if g.Live() != 0 {
		t.Fatalf("%d nodes live after the call ended", g.Live())
	}
	return key
}

// rows divides the first of two dimensions.
func rows(devices ...int64) *hlo.Sharding {
	return &hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{int64(len(devices)), 1}, Devices: devices}
}

func TestKeyDiffersInEveryField(t *testing.T) {
	base := build{kind: testAdd, dtype: dtype.F32, dims: []int64{2, 3}, attrs: []int64{1, -1}, scalar: dtype.F32}
	variants := map[string]func(c *build){
		"kind":            func(c *build) { c.kind = testSub },
		"dtype":           func(c *build) { c.dtype = dtype.BF16 },
		"dimension":       func(c *build) { c.dims = []int64{2, 4} },
		"dimension order": func(c *build) { c.dims = []int64{3, 2} },
		"rank":            func(c *build) { c.dims = []int64{6} },
		"attribute":       func(c *build) { c.attrs = []int64{1, 1} },
		"attribute order": func(c *build) { c.attrs = []int64{-1, 1} },
		"attribute count": func(c *build) { c.attrs = []int64{1, -1, 0} },
		"operand order":   func(c *build) { c.swap = true },
		"shared operand":  func(c *build) { c.same = true },
		"output order":    func(c *build) { c.reversed = true },
		"scalar type":     func(c *build) { c.scalar = dtype.S64 },
		"donor":           func(c *build) { c.donors = []int{0} },
		"other donor":     func(c *build) { c.donors = []int{1} },

		"partitions":                 func(c *build) { c.partitions = 4 },
		"other partitions":           func(c *build) { c.partitions = 2 },
		"divided parameter":          func(c *build) { c.partitions, c.parameter = 4, rows(0, 1, 2, 3) },
		"devices of a parameter":     func(c *build) { c.partitions, c.parameter = 4, rows(0, 2, 1, 3) },
		"divided output":             func(c *build) { c.partitions, c.output = 4, rows(0, 1, 2, 3) },
		"devices of an output":       func(c *build) { c.partitions, c.output = 4, rows(3, 2, 1, 0) },
		"replicated output":          func(c *build) { c.partitions, c.output = 4, &hlo.Sharding{Kind: hlo.Replicated} },
		"divided value":              func(c *build) { c.partitions, c.annotation = 4, rows(0, 1, 2, 3) },
		"open dimensions":            func(c *build) { c.partitions, c.annotation, c.open = 4, rows(0, 1, 2, 3), []int64{1} },
		"devices of a divided value": func(c *build) { c.partitions, c.annotation = 4, rows(1, 0, 2, 3) },
		"copies of a divided value": func(c *build) {
			c.partitions, c.annotation = 4, &hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{2, 1, 2}, Devices: []int64{0, 1, 2, 3}, ReplicateOnLast: true}
		},
		"other copies of a divided value": func(c *build) {
			c.partitions, c.annotation = 4, &hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{2, 1, 2}, Devices: []int64{0, 2, 1, 3}, ReplicateOnLast: true}
		},
	}
	seen := map[string]string{string(base.key(t, 0)): "base"}
	for name, change := range variants {
		c := base
		change(&c)
		key := string(c.key(t, 0))
		if other, ok := seen[key]; ok {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[key] = name
	}
}

func TestKeyLeavesScalarValuesOut(t *testing.T) {
	c := build{kind: testAdd, dtype: dtype.F32, dims: []int64{2}, scalar: dtype.F64}
	if !bytes.Equal(c.key(t, 1), c.key(t, 2)) {
		t.Error("a scalar's value is in the key")
	}
}

// TestKeyIsTheProgram encodes random graphs, decodes them and compares every node.
func TestKeyIsTheProgram(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := 0; round < 200; round++ {
		var g Graph
		var nodes []*Node
		for i := 0; i < 1+random.IntN(30); i++ {
			if i < 2 || random.IntN(4) == 0 {
				nodes = append(nodes, g.New(KindParameter, dtype.F32, []int64{random.Int64N(5), random.Int64N(1 << 40)}))
				continue
			}
			n := g.New(testAdd, dtype.F32, []int64{random.Int64N(1 << 20)})
			for k := random.IntN(4); k > 0; k-- {
				n.AddInt(random.Int64() - random.Int64())
			}
			n.AddOperand(nodes[random.IntN(len(nodes))])
			n.AddOperand(nodes[random.IntN(len(nodes))])
			nodes = append(nodes, n)
		}
		roots := []*Node{nodes[len(nodes)-1], nodes[random.IntN(len(nodes))]}
		walk := g.Walk(roots)
		p, err := DecodeKey(walk.AppendKey(nil, Signature{Outputs: roots, Donors: []int{0}}))
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Nodes) != len(walk.Order) {
			t.Fatalf("decoded %d nodes, encoded %d", len(p.Nodes), len(walk.Order))
		}
		for i, n := range walk.Order {
			d := p.Nodes[i]
			if d.Kind != n.Kind || d.Dtype != n.Dtype || !slices.Equal(d.Dims, n.Dims) || !slices.Equal(d.Attributes, n.Attributes) {
				t.Fatalf("node %d: decoded %+v, encoded %+v", i, d, n)
			}
			for k, operand := range n.Operands {
				if d.Operands[k] != operand.Index() {
					t.Fatalf("node %d operand %d: decoded %d, encoded %d", i, k, d.Operands[k], operand.Index())
				}
			}
		}
		if p.Outputs[0] != roots[0].Index() || p.Outputs[1] != roots[1].Index() || !slices.Equal(p.Donors, []Donation{{0, -1}}) {
			t.Fatalf("outputs %v donors %v", p.Outputs, p.Donors)
		}
		g.EndCall()
		if g.Live() != 0 {
			t.Fatalf("%d nodes live", g.Live())
		}
	}
}

// TestDamagedKeyIsAnError cuts and changes a key at every place: never a panic, and a cut key is
// always refused.
func TestDamagedKeyIsAnError(t *testing.T) {
	key := build{kind: testAdd, dtype: dtype.F32, dims: []int64{2, 3}, attrs: []int64{7}, scalar: dtype.F32}.key(t, 0)
	for i := range key {
		if _, err := DecodeKey(key[:i]); err == nil {
			t.Errorf("a key cut at byte %d of %d is taken", i, len(key))
		}
		for _, b := range []byte{0, 0x7f, 0xff, key[i] + 1} {
			changed := slices.Clone(key)
			changed[i] = b
			_, _ = DecodeKey(changed)
		}
	}
	if _, err := DecodeKey(append(slices.Clone(key), 0)); err == nil {
		t.Error("a key with a byte too many is taken")
	}
}

func TestOnlyKeepsWhatOneOutputNeeds(t *testing.T) {
	var g Graph
	a, b, c := g.New(KindParameter, dtype.F32, nil), g.New(KindParameter, dtype.F32, nil), g.New(KindParameter, dtype.F32, nil)
	s0, s1 := g.Scalar(dtype.F32, 0), g.Scalar(dtype.F32, 0)
	add := func(x, y *Node) *Node {
		n := g.New(testAdd, dtype.F32, nil)
		n.AddOperand(x)
		n.AddOperand(y)
		return n
	}
	x := add(add(a, b), s0)
	y := add(add(c, b), s1)
	roots := []*Node{x, y}
	p, err := DecodeKey(g.Walk(roots).AppendKey(nil, Signature{Outputs: roots, Donors: []int{0}}))
	if err != nil {
		t.Fatal(err)
	}
	part, parameters, scalars := p.Only(1)
	// Post-order: a, b, s0 belong to x; then c, s1.
	if !slices.Equal(parameters, []int{1, 2}) || !slices.Equal(scalars, []int{1}) {
		t.Errorf("parameters %v scalars %v, want [1 2] [1]", parameters, scalars)
	}
	if len(part.Nodes) != 5 || len(part.Outputs) != 1 || len(part.Donors) != 0 {
		t.Errorf("part %+v", part)
	}
	if _, err := part.Lower("part", 0); err != nil {
		t.Errorf("the part does not lower: %v", err)
	}
	g.EndCall()
}
