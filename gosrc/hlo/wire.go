package hlo

import (
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// encoder writes protobuf wire format. The builder writes each instruction once, straight into
// its computation's bytes: generated message structs would hold more than fifty fields per
// instruction and cost more than the whole of a lowering. The messages in proto/ describe the
// same bytes, and the tests decode every field through them.
//
// As in proto3, a zero is not written.
type encoder struct{ buf []byte }

func (e *encoder) tag(field protowire.Number, t protowire.Type) {
	e.buf = protowire.AppendTag(e.buf, field, t)
}

func (e *encoder) varint(field protowire.Number, v int64) {
	if v != 0 {
		e.tag(field, protowire.VarintType)
		e.buf = protowire.AppendVarint(e.buf, uint64(v))
	}
}

func (e *encoder) flag(field protowire.Number, v bool) {
	if v {
		e.varint(field, 1)
	}
}

func (e *encoder) text(field protowire.Number, s string) {
	if s != "" {
		e.tag(field, protowire.BytesType)
		if !utf8.ValidString(s) { // a reader of proto3 refuses the whole message
			s = strings.ToValidUTF8(s, "\uFFFD")
		}
		e.buf = protowire.AppendString(e.buf, s)
	}
}

func (e *encoder) bytes(field protowire.Number, b []byte) {
	if len(b) > 0 {
		e.raw(field, b)
	}
}

// raw writes a length-delimited field even when it is empty, as a present message needs.
func (e *encoder) raw(field protowire.Number, b []byte) {
	e.tag(field, protowire.BytesType)
	e.buf = protowire.AppendBytes(e.buf, b)
}

// packed writes a repeated integer.
func (e *encoder) packed(field protowire.Number, vs []int64) {
	if len(vs) == 0 {
		return
	}
	at := e.open(field)
	for _, v := range vs {
		e.buf = protowire.AppendVarint(e.buf, uint64(v))
	}
	e.close(at)
}

// packedInts is packed for dimension numbers.
func (e *encoder) packedInts(field protowire.Number, vs []int) {
	if len(vs) == 0 {
		return
	}
	at := e.open(field)
	for _, v := range vs {
		e.buf = protowire.AppendVarint(e.buf, uint64(v))
	}
	e.close(at)
}

// open starts a length-delimited field and close, given what open returned, ends it.
func (e *encoder) open(field protowire.Number) int {
	e.tag(field, protowire.BytesType)
	e.buf = append(e.buf, 0)
	return len(e.buf)
}

func (e *encoder) close(at int) {
	n := len(e.buf) - at
	if n < 0x80 {
		e.buf[at-1] = byte(n)
		return
	}
	extra := (bits.Len64(uint64(n))+6)/7 - 1
	e.buf = slices.Insert(e.buf, at, make([]byte, extra)...)
	protowire.AppendVarint(e.buf[:at-1], uint64(n))
}
