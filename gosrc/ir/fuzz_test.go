package ir

import (
	"bytes"
	"reflect"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
)

// FuzzDecodeKey: a key of any bytes is a program, whose own key decodes to it again, or refused; a program can be written
// as text, cut to one output, and lowered or refused.
func FuzzDecodeKey(f *testing.F) {
	tiled := &hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{2, 1}, Devices: []int64{1, 0}}
	for _, c := range []build{
		{kind: testAdd, dtype: dtype.F32, dims: []int64{2, 3}, scalar: dtype.F32},
		{kind: testTwo, dtype: dtype.S64, dims: []int64{4}, attrs: []int64{-1, 5}, scalar: dtype.F64, donors: []int{1}, reversed: true},
		{kind: testAdd, dtype: dtype.F32, dims: []int64{2, 2}, scalar: dtype.F32, partitions: 2, parameter: tiled, output: tiled, annotation: tiled},
	} {
		f.Add(c.key(f, 7))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		p, err := DecodeKey(key)
		if err != nil {
			return
		}
		again, err := DecodeKey(p.AppendKey(nil))
		if err != nil || !reflect.DeepEqual(again, p) || !bytes.Equal(again.AppendKey(nil), p.AppendKey(nil)) {
			t.Fatalf("%+v is decoded again as %+v: %v", p, again, err)
		}
		p.Text()
		p.DOT()
		elements := int64(0)
		for i := range p.Nodes {
			elements += shape.Product(p.Nodes[i].Dims)
		}
		if elements > 1<<16 || len(p.Nodes) > 1<<10 {
			return // lowering some kinds takes time in proportion
		}
		if len(p.Outputs) > 0 {
			p.Only(len(p.Outputs) - 1)
		}
		_, _ = p.Lower("fuzz", 3)
	})
}
