package clienttest

import (
	"bytes"
	"encoding/binary"
	"math"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// elementTypes are those that arrays can have.
func elementTypes() (all []dtype.Dtype) {
	for d := dtype.Bool; d <= dtype.F8E4M3FNUZ; d++ {
		if d.Size() != 0 && d.PJRT() != 0 {
			all = append(all, d)
		}
	}
	return all
}

func transferEveryType(t *T, c client.Client) {
	for _, d := range elementTypes() {
		s := shape.Make(d, 3, 5)
		want := make([]byte, s.ByteSize())
		for i := range want {
			want[i] = byte(i % 2)
		}
		data := upload(t, c, s, want)
		if got := read(t, c, data); !bytes.Equal(got, want) {
			t.Errorf("%s: bytes differ after a round trip", d)
		}
		data.Close()
	}
}

// executeEveryType passes every type through a program.
func executeEveryType(t *T, c client.Client) {
	for _, d := range elementTypes() {
		s := shape.Make(d, 5)
		p := NewProgram("passes_" + d.String())
		x := p.Parameter(s, nil)
		k := compile(t, c, p.Build(p.Op("copy", s, x), x))
		if got := k.ResultShapes(); len(got) != 2 || !got[0].Equal(s) || !got[1].Equal(s) {
			t.Errorf("%s: results %v", d, got)
		}
		want := make([]byte, s.ByteSize())
		for i := range want {
			want[i] = byte(i % 2)
		}
		data := upload(t, c, s, want)
		out := run(t, c, k, data)
		for i, o := range out {
			if got := read(t, c, o); !bytes.Equal(got, want) || !o.Shape().Equal(s) {
				t.Errorf("%s: result %d is %x of %s, want %x", d, i, got, o.Shape(), want)
			}
		}
		closeAll(append(out, data)...)
		k.Close()
	}
}

// oneAndTwo are two numbers as each type that the frontend computes in has them; nil for other types.
func oneAndTwo(d dtype.Dtype) (one, two []byte) {
	little := func(one, two uint64) ([]byte, []byte) {
		return binary.LittleEndian.AppendUint64(nil, one)[:d.Size()], binary.LittleEndian.AppendUint64(nil, two)[:d.Size()]
	}
	switch d {
	case dtype.S8, dtype.U8, dtype.S16, dtype.U16, dtype.S32, dtype.U32, dtype.S64, dtype.U64:
		return little(1, 2)
	case dtype.F16:
		return little(0x3c00, 0x4000)
	case dtype.BF16:
		return little(0x3f80, 0x4000)
	case dtype.F32:
		return floats(1), floats(2)
	case dtype.F64:
		return little(math.Float64bits(1), math.Float64bits(2))
	case dtype.C64:
		return floats(1, 0), floats(2, 0)
	}
	return nil, nil
}

// addEveryType computes 1 + 1 in every type that the frontend computes in.
func addEveryType(t *T, c client.Client) {
	for _, d := range elementTypes() {
		one, two := oneAndTwo(d)
		if one == nil {
			continue
		}
		s := shape.Make(d, 2)
		p := NewProgram("adds_" + d.String())
		x := p.Parameter(s, nil)
		k := compile(t, c, p.Build(p.Op("add", s, x, x)))
		data := upload(t, c, s, append(append([]byte{}, one...), one...))
		out := run(t, c, k, data)
		if got, want := read(t, c, out[0]), append(append([]byte{}, two...), two...); !bytes.Equal(got, want) {
			t.Errorf("%s: 1 + 1 is %x, want %x", d, got, want)
		}
		closeAll(append(out, data)...)
		k.Close()
	}
}

// emptyAndScalar passes arrays without elements and scalars along every way.
func emptyAndScalar(t *T, c client.Client) {
	for _, s := range []shape.Shape{f32(), f32(0), f32(3, 0, 2)} {
		var bytes []byte
		var want []float32
		if s.Rank() == 0 {
			bytes, want = floats(3), []float32{6}
		}
		x := must[[]client.Data](t)(c.TransferToDevice([]client.TensorSource{{Shape: s, Device: c.GetDefaultDevice(), Bytes: append(bytes, 0, 0, 0, 0)[:max(len(bytes), 1)]}}))[0]
		k := compile(t, c, addProgram(s))
		out := run(t, c, k, x, x)
		wantFloats(t, "sum of "+s.String(), read(t, c, out[0]), want...)
		if !out[0].Shape().Equal(s) || !out[0].HasValue() {
			t.Errorf("result %s for %s", out[0], s)
		}
		if err := c.WaitDeviceOps(nil); err != nil {
			t.Error(err)
		}
		if ready, err := c.Readiness(out[0]); !ready || err != nil {
			t.Errorf("%s: ready %v, %v", s, ready, err)
		}
		holder := must[client.Data](t)(c.CreateDataPlaceholder(c.GetDefaultDevice(), s, nil))
		if err := holder.Assign(out[0]); err != nil {
			t.Error(err)
		}
		wantFloats(t, "assigned "+s.String(), read(t, c, holder), want...)
		r := must[client.ExternalReference](t)(c.AcquireExternalReference(x))
		if !r.Shape.Equal(s) {
			t.Errorf("reference to %s, want %s", r.Shape, s)
		}
		r.Release()
		copied := must[client.Data](t)(c.CopyToDevice(x, c.GetDefaultDevice()))
		closeAll(append(out, x, holder, copied)...)
		k.Close()
	}
	several := must[[]client.Data](t)(c.TransferToDevice(nil))
	literals := must[[]client.Literal](t)(c.TransferFromDevice(nil))
	programs := must[[]client.Computation](t)(c.Compile(nil))
	if len(several) != 0 || len(literals) != 0 || len(programs) != 0 {
		t.Errorf("of nothing: %v, %v, %v", several, literals, programs)
	}
}

// noArguments runs a program without parameters, and one without results.
func noArguments(t *T, c client.Client) {
	p := NewProgram("constant")
	k := compile(t, c, p.Build(p.Constant(2.5), p.Constant(-1)))
	for range 2 {
		out := run(t, c, k)
		wantFloats(t, "a constant", read(t, c, out[0]), 2.5)
		wantFloats(t, "another", read(t, c, out[1]), -1)
		closeAll(out...)
	}
	k.Close()
	p = NewProgram("nothing")
	p.Parameter(f32(2), nil)
	k = compile(t, c, p.Build())
	x := upload(t, c, f32(2), floats(1, 2))
	if out := run(t, c, k, x); len(out) != 0 {
		t.Errorf("%d results of a program without any", len(out))
	}
	if err := c.WaitDeviceOps(nil); err != nil {
		t.Error(err)
	}
	x.Close()
	k.Close()
}

// sameArgumentTwice donates a value that the run also reads: the run refuses or gives the right result.
func sameArgumentTwice(t *T, c client.Client) {
	k := compile(t, c, donatingProgram())
	defer k.Close()
	ones := make([]float32, 1024)
	for i := range ones {
		ones[i] = 1
	}
	x := upload(t, c, f32(1024), floats(ones...))
	defer x.Close()
	out, err := c.ExecuteComputation(k, []client.Data{x, x}, c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true})
	if err != nil {
		if code := status.CodeOf(err); code != status.InvalidArgument && code != status.FailedPrecondition {
			t.Errorf("refused with %v", err)
		}
		return
	}
	if got := asFloats(read(t, c, out[0])); got[0] != 2 || got[1023] != 2 {
		t.Errorf("sum %v, want 2", got[0])
	}
	closeAll(out...)
}
