package hlo_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
)

// array is an input or output of a test program.
type array struct {
	shape shape.Shape
	data  []byte
}

// of makes an array of d from values of the matching Go type (uint16 bits for f16 and bf16).
func of[T any](d dtype.Dtype, dims []int64, values ...T) array {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, values); err != nil {
		panic(err)
	}
	a := array{shape.Make(d, dims...), b.Bytes()}
	if int64(b.Len()) != a.shape.ByteSize() {
		panic("values do not fill " + a.shape.String())
	}
	return a
}

// f32 makes a float32 array.
func f32(dims []int64, values ...float32) array { return of(dtype.F32, dims, values...) }

// s32 makes an int32 array.
func s32(dims []int64, values ...int32) array { return of(dtype.S32, dims, values...) }

// count makes a float32 array of 1, 2, 3, ...
func count(dims ...int64) array {
	values := make([]float32, shape.Product(dims))
	for i := range values {
		values[i] = float32(i + 1)
	}
	return f32(dims, values...)
}

// values reads elements back.
func values[T any](t *testing.T, data []byte) []T {
	t.Helper()
	var zero T
	out := make([]T, len(data)/int(reflect.TypeOf(zero).Size()))
	if err := binary.Read(bytes.NewReader(data), binary.LittleEndian, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// build makes a program whose parameters have the inputs' shapes.
func build(t *testing.T, inputs []array, program func(b *hlo.Builder, p []hlo.Value) []hlo.Value) []byte {
	t.Helper()
	b := hlo.NewBuilder("test")
	var p []hlo.Value
	for _, a := range inputs {
		p = append(p, b.Parameter(a.shape, ""))
	}
	module, err := b.Build(program(b, p), nil)
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// run builds a program, runs it on the test plugin and gives its outputs' bytes.
func run(t *testing.T, program func(b *hlo.Builder, p []hlo.Value) []hlo.Value, inputs ...array) [][]byte {
	t.Helper()
	return execute(t, build(t, inputs, program), inputs)
}

// same compares one output with the elements expected; NaN equals NaN.
func same[T any](t *testing.T, name string, data []byte, want ...T) {
	t.Helper()
	got := values[T](t, data)
	if len(got) != len(want) {
		t.Errorf("%s: got %v, want %v", name, got, want)
		return
	}
	for i := range got {
		g, w := reflect.ValueOf(got[i]), reflect.ValueOf(want[i])
		if g.CanFloat() && math.IsNaN(g.Float()) && math.IsNaN(w.Float()) {
			continue
		}
		if !g.Equal(w) {
			t.Errorf("%s: got %v, want %v", name, got, want)
			return
		}
	}
}

// one wraps a single output.
func one(v hlo.Value) []hlo.Value { return []hlo.Value{v} }
