package hlo

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// A message's length is written after its content; both sides of each varint width must hold.
func TestNestedLengthsOfEveryWidth(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 129, 16383, 16384, 16385, 1 << 21} {
		content := bytes.Repeat([]byte{7}, n)
		e := encoder{buf: []byte("before")}
		outer := e.open(5)
		inner := e.open(3)
		e.buf = append(e.buf, content...)
		e.close(inner)
		e.close(outer)
		e.varint(9, -1)

		want := protowire.AppendTag(nil, 3, protowire.BytesType)
		want = protowire.AppendBytes(want, content)
		all := append([]byte("before"), protowire.AppendTag(nil, 5, protowire.BytesType)...)
		all = protowire.AppendBytes(all, want)
		all = protowire.AppendTag(all, 9, protowire.VarintType)
		all = protowire.AppendVarint(all, ^uint64(0))
		if !bytes.Equal(e.buf, all) {
			t.Errorf("length %d: got %d bytes, want %d", n, len(e.buf), len(all))
		}
	}
}

func TestTextIsValidUTF8(t *testing.T) {
	var e encoder
	e.text(1, "a\xffb")
	if want := protowire.AppendString([]byte{0x0a}, "a\uFFFDb"); !bytes.Equal(e.buf, want) {
		t.Errorf("got %q, want %q", e.buf, want)
	}
}
