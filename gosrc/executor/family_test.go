package executor_test

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"testing"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/fakeclient"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
)

// kindMove has three numbers that move, of which the last is a float, and a fourth that does not.
var kindMove = ir.DefineVariable("test::move", func(l *ir.Lowering) []hlo.Value {
	x := l.In(0)
	for range 2 {
		x = l.B.Binary(hlo.Add, x, l.B.Broadcast(l.B.Convert(l.Number().In(l.B, dtype.S64), dtype.F32), x.Dims(), nil))
	}
	return []hlo.Value{l.B.Binary(hlo.Add, x, l.B.Broadcast(l.Number().FloatIn(l.B, dtype.F32), x.Dims(), nil))}
}, func(*ir.Node) ir.Variables { return ir.Variables{Integers: 0b11, Floats: 0b100} })

// packs notes the scalar packs that programs are run with: the arguments beside x.
type packs struct {
	mu   sync.Mutex
	last []byte
}

func (p *packs) compile(instance client.CompileInstance) (fakeclient.Program, error) {
	program, err := shapesOnly(instance)
	run := program.Run
	program.Run = func(arguments [][]byte) ([][]byte, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.last = nil
		if len(arguments) > 1 {
			p.last = slices.Clone(arguments[1])
		}
		return run(arguments)
	}
	return program, err
}

// TestMovingNumbersBecomeParameters runs one graph with other numbers at each step: what moves is given by the pack, in
// order, and the programs of a family are three at most.
func TestMovingNumbersBecomeParameters(t *testing.T) {
	var seen packs
	f := startOn(t, fakeclient.New(1, seen.compile))
	x := f.root(1, 2)
	type numbers struct {
		a, b   int64
		f      float64
		fixed  int64
		want   []uint64 // the pack
		starts bool     // a compile
	}
	bits := math.Float64bits
	for i, step := range []numbers{
		{1, 5, 0.5, 0, nil, true},                       // as it is
		{1, 5, 0.5, 0, nil, false},                      // known
		{2, 5, 0.5, 0, []uint64{2}, true},               // the first number moves
		{7, 5, 0.5, 0, []uint64{7}, false},              // as before
		{7, 6, 0.5, 0, []uint64{7, 6}, true},            // the second too: now all integers
		{1, 9, 0.5, 0, []uint64{1, 9}, false},           // as before
		{3, 5, 0.5, 0, []uint64{3, 5}, false},           // as before
		{1, 5, 0.5, 0, nil, false},                      // the first program still serves
		{1, 5, 1.5, 0, []uint64{1, 5, bits(1.5)}, true}, // a float when it moves
		{4, 4, 2.5, 0, []uint64{4, 4, bits(2.5)}, false},
		{4, 4, 2.5, 1, nil, true}, // another family: its first program is as it is
	} {
		before := compiles()
		out := f.empty()
		f.core.Mu.Lock()
		n := f.core.Graph.New(kindMove, dtype.F32, x.Value().Dims)
		n.AddInt(step.a)
		n.AddInt(step.b)
		n.AddFloat(step.f)
		n.AddInt(step.fixed)
		n.AddOperand(x.Value())
		out.Set(n)
		f.core.Graph.EndCall()
		f.core.Mu.Unlock()
		if err := f.cut(); err != nil {
			t.Fatal(err)
		}
		f.device.WaitIdle()
		if started := compiles() - before; (started == 1) != step.starts || started > 1 {
			t.Errorf("step %d: %d compiles, want one: %v", i, started, step.starts)
		}
		var want []byte
		for _, v := range step.want {
			want = binary.LittleEndian.AppendUint64(want, v)
		}
		seen.mu.Lock()
		if !slices.Equal(seen.last, want) {
			t.Errorf("step %d: pack %v, want %v", i, seen.last, want)
		}
		seen.mu.Unlock()
	}
}
