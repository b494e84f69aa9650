package program

import (
	"bytes"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

// FuzzReadHeader: a serialized computation of any bytes is read or refused; what is read is written as what is read again.
func FuzzReadHeader(f *testing.F) {
	k := &Program{name: "step", parameters: []shape.Shape{shape.Make(dtype.F32, 2, 3)}, results: []shape.Shape{shape.MakeTuple(shape.Make(dtype.S64))}}
	f.Add(appendHeader(k, []byte("body")))
	f.Add([]byte(serializedMagic))
	f.Fuzz(func(t *testing.T, serialized []byte) {
		k, _, body, err := readHeader(serialized)
		if err != nil {
			return
		}
		_, _, again, err := readHeader(appendHeader(k, body))
		if err != nil || !bytes.Equal(again, body) {
			t.Errorf("a header that was read cannot be read again: %v", err)
		}
		for _, s := range flat(append(k.parameters, k.results...)...) {
			_ = s.String()
		}
	})
}
