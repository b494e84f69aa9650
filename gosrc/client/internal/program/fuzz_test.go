package program

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

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

// FuzzOverride: an option of the compiler with any name and value is one entry of the map, which says the same.
func FuzzOverride(f *testing.F) {
	f.Add("xla_cpu_enable_fast_min_max", "false")
	f.Add("", "True")
	f.Add("name", "\x00\xff")
	f.Fuzz(func(t *testing.T, name, value string) {
		fields := map[protowire.Number][]byte{}
		for rest := overrideEntry(name, value); len(rest) > 0; {
			number, kind, n := protowire.ConsumeTag(rest)
			if n < 0 || kind != protowire.BytesType {
				t.Fatalf("%q=%q: a tag of kind %d", name, value, kind)
			}
			content, m := protowire.ConsumeBytes(rest[n:])
			if m < 0 {
				t.Fatalf("%q=%q: field %d is cut off", name, value, number)
			}
			fields[number], rest = content, rest[n+m:]
		}
		number, kind, n := protowire.ConsumeTag(fields[2])
		told := ""
		switch {
		case n < 0:
			t.Fatalf("%q=%q has no value", name, value)
		case kind == protowire.VarintType && number == fieldOverrideBool:
			truth, _ := protowire.ConsumeVarint(fields[2][n:])
			told = strconv.FormatBool(truth != 0)
		case kind == protowire.BytesType && number == fieldOverrideString:
			text, _ := protowire.ConsumeBytes(fields[2][n:])
			told = string(text)
		}
		if string(fields[1]) != name || told != value && told != strings.ToLower(value) {
			t.Errorf("%q=%q is written as %q=%q", name, value, fields[1], told)
		}
	})
}
