package ir

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
)

// The test kind shifts by two integers and a float; its third attribute chooses the lowering, its fourth is a case.
var testShift = DefineVariable("test::shift", func(l *Lowering) []hlo.Value {
	x := l.In(0)
	first, twice, second, _ := l.Number(), l.Bool(), l.Number(), l.Number()
	for _, number := range []Number{first, second} {
		x = l.B.Binary(hlo.Add, x, l.B.Broadcast(l.B.Convert(number.In(l.B, dtype.S64), dtype.F32), x.Dims(), nil))
	}
	if twice {
		x = l.B.Binary(hlo.Add, x, x)
	}
	if l.Case() == 1 {
		x = l.B.Unary(hlo.Negate, x)
	}
	return []hlo.Value{l.B.Binary(hlo.Add, x, l.B.Broadcast(l.Number().FloatIn(l.B, dtype.F32), x.Dims(), nil))}
}, func(n *Node) Variables {
	v := Variables{Integers: 1<<0 | 1<<2 | 1<<3, Floats: 1 << 4}
	if n.Attributes[3] < 0 {
		v.Case = 1
	}
	return v
})

// testCareless reads an attribute as a constant that it said may be a parameter.
var testCareless = DefineVariable("test::careless", func(l *Lowering) []hlo.Value {
	return []hlo.Value{l.B.Binary(hlo.Add, l.In(0), l.B.Full(l.Dtype, float64(l.Int()), l.Dims...))}
}, func(*Node) Variables { return Variables{Integers: 1} })

// shifted is a chain of nodes with the given attributes each.
func shifted(g *Graph, attributes ...[]int64) *Walk {
	n := g.New(KindParameter, dtype.F32, []int64{3})
	for _, list := range attributes {
		m := g.New(testShift, dtype.F32, []int64{3})
		m.Attributes = append(m.Attributes, list...)
		m.AddOperand(n)
		n = m
	}
	return g.Walk([]*Node{n})
}

func signatureOf(walk *Walk) Signature { return Signature{Outputs: walk.Order[len(walk.Order)-1:]} }

// TestFamilyIsAllButTheVariables changes one attribute at a time: a variable one leaves the family as it is, any
// other and another case do not. The program with parameters says nothing of their values.
func TestFamilyIsAllButTheVariables(t *testing.T) {
	var g Graph
	base := []int64{1, 0, 5, 2, 9}
	walk := shifted(&g, base, base)
	family, numbers := walk.AppendFamilyKey(nil, nil, signatureOf(walk))
	if want := []Variable{{1, false}, {5, false}, {2, false}, {9, true}}; !slices.Equal(numbers, append(want, want...)) {
		t.Fatalf("numbers %v", numbers)
	}
	p, err := DecodeKey(walk.AppendKey(nil, signatureOf(walk)))
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Repeat([]bool{true}, len(numbers))
	varied := p.Vary(walk.Order, all).AppendKey(nil)
	g.EndCall()
	for position, alike := range []bool{true, false, true, true, true} {
		for _, value := range []int64{3, 1 << 40} {
			other := slices.Clone(base)
			other[position] = value
			walk := shifted(&g, base, other)
			key, changed := walk.AppendFamilyKey(nil, nil, signatureOf(walk))
			if bytes.Equal(key, family) != alike {
				t.Errorf("attribute %d of %d: same family %v, want %v", position, value, !alike, alike)
			}
			if alike == slices.Equal(changed, numbers) {
				t.Errorf("attribute %d of %d: numbers %v", position, value, changed)
			}
			p, err := DecodeKey(walk.AppendKey(nil, signatureOf(walk)))
			if err != nil {
				t.Fatal(err)
			}
			if again := p.Vary(walk.Order, all).AppendKey(nil); bytes.Equal(again, varied) != alike {
				t.Errorf("attribute %d of %d: same program %v, want %v", position, value, !alike, alike)
			}
			g.EndCall()
		}
	}
	walk = shifted(&g, base, []int64{1, 0, 5, -2, 9})
	if key, _ := walk.AppendFamilyKey(nil, nil, signatureOf(walk)); bytes.Equal(key, family) {
		t.Error("another case is in the same family")
	}
	g.EndCall()
}

// TestVariedProgramIsDecodedAndLowered makes parameters of random attributes: the key is read back as it was, it is
// another key than that of any other choice, and it lowers to one scalar for each parameter.
func TestVariedProgramIsDecodedAndLowered(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var g Graph
	seen := map[string][]bool{}
	for range 300 {
		walk := shifted(&g, []int64{7, 1, -3, 4, 0}, []int64{7, 0, 2, -4, 1})
		p, err := DecodeKey(walk.AppendKey(nil, signatureOf(walk)))
		if err != nil {
			t.Fatal(err)
		}
		choice, words := make([]bool, 8), 0
		for i := range choice {
			if choice[i] = random.IntN(2) == 0; choice[i] {
				words += 2
			}
		}
		key := p.Vary(walk.Order, choice).AppendKey(nil)
		if other, ok := seen[string(key)]; ok && !slices.Equal(other, choice) {
			t.Fatalf("parameters %v and %v have one key", choice, other)
		}
		seen[string(key)] = choice
		decoded, err := DecodeKey(key)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(decoded.AppendKey(nil), key) {
			t.Fatal("the key is not read back as it was")
		}
		module, err := decoded.Lower("varied", 0)
		if err != nil {
			t.Fatal(err)
		}
		if module.ScalarWords != words {
			t.Fatalf("%d words of scalars, want %d for %v", module.ScalarWords, words, choice)
		}
		g.EndCall()
		for i := range key {
			if _, err := DecodeKey(key[:i]); err == nil {
				t.Fatalf("a key cut at byte %d of %d is taken", i, len(key))
			}
		}
	}
}

func TestParameterReadAsConstantIsAnError(t *testing.T) {
	var g Graph
	n := g.New(testCareless, dtype.F32, nil)
	n.AddInt(3)
	n.AddOperand(g.New(KindParameter, dtype.F32, nil))
	walk := g.Walk([]*Node{n})
	p, err := DecodeKey(walk.AppendKey(nil, signatureOf(walk)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Lower("constant", 0); err != nil {
		t.Fatal(err)
	}
	_, err = p.Vary(walk.Order, []bool{true}).Lower("varied", 0)
	if err == nil || !strings.Contains(err.Error(), "read as a constant") {
		t.Fatalf("got %v", err)
	}
	g.EndCall()
}
