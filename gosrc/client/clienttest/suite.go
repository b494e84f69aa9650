// Package clienttest is the conformance suite of the client contract: the same cases run against
// every implementation.
package clienttest

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

func f32(dims ...int64) shape.Shape { return shape.Make(dtype.F32, dims...) }

func floats(values ...float32) []byte {
	b := make([]byte, 0, 4*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func asFloats(b []byte) []float32 {
	values := make([]float32, len(b)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return values
}

// must gives the value of a call that a case needs. Where the plugin says that it lacks what is asked for, the
// case ends as unsupported.
func must[V any](t *T) func(value V, err error) V {
	return func(value V, err error) V {
		t.Helper()
		switch {
		case status.CodeOf(err) == status.Unimplemented:
			t.Unsupported(err)
		case err != nil:
			t.Fatal(err)
		}
		return value
	}
}

func upload(t *T, c client.Client, s shape.Shape, bytes []byte) client.Data {
	t.Helper()
	return must[[]client.Data](t)(c.TransferToDevice([]client.TensorSource{{Shape: s, Device: c.GetDefaultDevice(), Bytes: bytes}}))[0]
}

func read(t *T, c client.Client, d client.Data) []byte {
	t.Helper()
	return must[[]client.Literal](t)(c.TransferFromDevice([]client.Data{d}))[0].Bytes
}

func compile(t *T, c client.Client, hlo []byte) client.Computation {
	t.Helper()
	device := c.GetDefaultDevice()
	return must[[]client.Computation](t)(c.Compile([]client.CompileInstance{{HLO: hlo, CompilationDevice: device, Devices: []string{device}}}))[0]
}

func run(t *T, c client.Client, k client.Computation, arguments ...client.Data) []client.Data {
	t.Helper()
	return must[[]client.Data](t)(c.ExecuteComputation(k, arguments, c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true}))
}

// join gives findings one a line, each with how often it came.
func join(findings []string) string {
	var lines []string
	times := map[string]int{}
	for _, f := range findings {
		if times[f]++; times[f] == 1 {
			lines = append(lines, f)
		}
	}
	for i, f := range lines {
		if n := times[f]; n > 1 {
			lines[i] = fmt.Sprintf("%s (%d times)", f, n)
		}
	}
	return strings.Join(lines, "\n")
}

func closeAll(list ...client.Data) {
	for _, d := range list {
		d.Close()
	}
}

func wantFloats(t *T, what string, got []byte, want ...float32) {
	t.Helper()
	values := asFloats(got)
	if len(values) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(values), len(want))
	}
	for i := range want {
		if values[i] != want[i] {
			t.Errorf("%s: value %d is %v, want %v", what, i, values[i], want[i])
		}
	}
}

// wantCode checks an error's code and that it says the words. Where the plugin says instead that it lacks what is
// asked for, the case ends as unsupported.
func wantCode(t *T, what string, err error, code status.Code, words ...string) {
	t.Helper()
	if got := status.CodeOf(err); got == status.Unimplemented && code != got {
		t.Unsupported(err)
	} else if got != code {
		t.Errorf("%s: %v, want code %v", what, err, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q does not say %q", what, err, w)
		}
	}
}

// addProgram gives x + y and x * y of two arrays.
func addProgram(s shape.Shape) []byte {
	p := NewProgram("add_multiply")
	x, y := p.Parameter(s, nil), p.Parameter(s, nil)
	return p.Build(p.Op("add", s, x, y), p.Op("multiply", s, x, y))
}

// slowProgram takes some milliseconds: a chain of matrix products of size n.
func slowProgram(n int64, steps int) []byte {
	p := NewProgram("slow")
	s := f32(n, n)
	x := p.Parameter(s, nil)
	v := x
	for range steps {
		v = p.Dot(s, v, x)
	}
	return p.Build(v)
}

// patience is how long a case waits for what has to come.
var patience = 20 * time.Second
