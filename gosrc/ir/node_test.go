package ir

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"xla_go/gosrc/dtype"
)

func TestDropCascadesThroughALongChain(t *testing.T) {
	var g Graph
	n := g.New(KindParameter, dtype.F32, nil)
	for i := 0; i < 100_000; i++ {
		m := g.New(testAdd, dtype.F32, nil)
		m.AddOperand(n)
		m.AddOperand(n)
		n = m
	}
	g.Retain(n)
	g.EndCall()
	if g.Live() != 100_001 {
		t.Fatalf("%d nodes live, want 100001", g.Live())
	}
	if order := g.Walk([]*Node{n}).Order; len(order) != 100_001 {
		t.Fatalf("walk saw %d nodes", len(order))
	}
	g.Release(n)
	if g.Live() != 0 {
		t.Fatalf("%d nodes live after the last release", g.Live())
	}
}

func TestRecycledNodeIsResetInFull(t *testing.T) {
	var g Graph
	a := g.New(testAdd, dtype.F32, []int64{2, 3})
	a.AddInt(5)
	a.Scalar = 9
	g.EndCall()
	b := g.New(testSub, dtype.S64, nil)
	if a != b {
		t.Fatal("the pool did not give the node back")
	}
	if len(b.Dims) != 0 || len(b.Attributes) != 0 || len(b.Operands) != 0 || b.Scalar != 0 || b.Buffer != nil || b.References() != 0 || b.Edges() != 0 {
		t.Fatalf("recycled node keeps state: %+v", b)
	}
}

func TestFailedCallLeavesNothing(t *testing.T) {
	var g Graph
	kept := g.New(KindParameter, dtype.F32, nil)
	g.Retain(kept)
	g.EndCall()
	for i := 0; i < 3; i++ { // operands made, consumer made, then the call gives up
		n := g.New(testAdd, dtype.F32, nil)
		n.AddOperand(kept)
		n.AddOperand(g.Scalar(dtype.F32, 0))
		g.EndCall()
	}
	if g.Live() != 1 || kept.References() != 1 {
		t.Fatalf("%d nodes live, kept has %d references", g.Live(), kept.References())
	}
}

func TestEdgesCountOnlyTheWalkedGraph(t *testing.T) {
	var g Graph
	leaf := g.New(KindParameter, dtype.F32, nil)
	inside := g.New(testAdd, dtype.F32, nil)
	inside.AddOperand(leaf)
	inside.AddOperand(leaf)
	outside := g.New(testAdd, dtype.F32, nil)
	outside.AddOperand(leaf)
	outside.AddOperand(inside)
	g.Walk([]*Node{inside})
	if leaf.Edges() != 2 || leaf.References() != 3 || g.Visited(outside) {
		t.Fatalf("edges %d references %d", leaf.Edges(), leaf.References())
	}
	g.EndCall()
}

func TestMultipleResultsLowerThroughElements(t *testing.T) {
	var g Graph
	x := g.New(KindParameter, dtype.F32, []int64{4})
	two := g.New(testTwo, dtype.Tuple, nil)
	two.AddOperand(x)
	roots := []*Node{g.Element(two, 1, dtype.F32, []int64{4}), g.Element(two, 0, dtype.F32, []int64{4})}
	p, err := DecodeKey(g.Walk(roots).AppendKey(nil, Signature{Outputs: roots}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Lower("two", 0); err != nil {
		t.Fatal(err)
	}
	wrong := []*Node{g.Element(two, 1, dtype.F32, []int64{5})}
	p, err = DecodeKey(g.Walk(wrong).AppendKey(nil, Signature{Outputs: wrong}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Lower("two", 0); err == nil {
		t.Fatal("a result whose shape is not the promised one is taken")
	}
	g.EndCall()
}

// TestAReusedNodeIsLikeANewOne compares all fields but those that say where the node is and what its lists are in.
func TestAReusedNodeIsLikeANewOne(t *testing.T) {
	var g Graph
	operand := g.New(KindParameter, dtype.F32, []int64{2})
	operand.Buffer = NewBuffer(nil)
	used := g.New(testShift, dtype.F64, []int64{1, 2, 3, 4, 5})
	used.Stack, used.Scalar = 7, 9
	used.AddInts([]int64{1, 2, 3})
	for range 3 {
		used.AddOperand(operand)
	}
	g.Walk([]*Node{used})
	g.NoteBase(operand, 5)
	g.EndCall()
	if g.Live() != 0 {
		t.Fatalf("%d nodes are left", g.Live())
	}
	var others Graph
	for range 2 {
		n, fresh := reflect.ValueOf(g.New(KindScalar, dtype.F32, nil)).Elem(), reflect.ValueOf(others.New(KindScalar, dtype.F32, nil)).Elem()
		for i := range n.NumField() {
			field, want := n.Field(i), fresh.Field(i)
			switch name := n.Type().Field(i).Name; {
			case name == "place" || name == "dims" || name == "operands" || name == "attributes":
			case field.Kind() == reflect.Slice:
				if field.Len() != 0 {
					t.Errorf("%s has %d elements", name, field.Len())
				}
			case field.Kind() == reflect.Pointer:
				if !field.IsNil() {
					t.Errorf("%s is set", name)
				}
			default:
				if !field.Equal(want) {
					t.Errorf("%s is %v, want %v", name, field, want)
				}
			}
		}
	}
	if size := reflect.TypeFor[Node]().Size(); size != 192 {
		t.Errorf("a node has %d bytes, want 192: three cache lines", size)
	}
}

// TestPoolGivesNodesInOrderOfTheirPlaces takes thousands, gives them back in a random order, and takes them again.
func TestPoolGivesNodesInOrderOfTheirPlaces(t *testing.T) {
	var p pool
	const count = 10_000
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 3 {
		taken := make([]*Node, count)
		for i := range taken {
			if taken[i] = p.take(); int(taken[i].place) != i {
				t.Fatalf("round %d: node %d has the place %d", round, i, taken[i].place)
			}
		}
		random.Shuffle(count, func(i, j int) { taken[i], taken[j] = taken[j], taken[i] })
		for _, n := range taken {
			p.give(n)
		}
	}
	if blocks := len(p.blocks); blocks != (count+blockNodes-1)/blockNodes {
		t.Errorf("%d blocks for %d nodes", blocks, count)
	}
}
