package xspace_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/status"
	"xla_go/gosrc/xspace"
)

type message []byte

func (m message) number(field protowire.Number, v uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

func (m message) bytes(field protowire.Number, v []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), v)
}

func TestEvents(t *testing.T) {
	var m message
	fusion := m.number(1, 3).bytes(2, m.number(1, 3).bytes(2, []byte("fusion.1")))
	copying := m.number(1, 4).bytes(2, m.number(1, 4).bytes(2, []byte("copy.2")).bytes(4, []byte("copy")))
	// The line comes before the names, and its events before its start.
	line := m.number(1, 9).bytes(4, m.number(1, 3).number(2, 5000).number(3, 70)).bytes(4, m.number(1, 4).number(2, 9000).number(3, 1)).
		bytes(4, m.number(1, 3).number(5, 12)).bytes(2, []byte("ops")).number(3, 1000)
	plane := m.number(1, 1).bytes(3, line).bytes(4, fusion).bytes(4, copying).bytes(2, []byte("/device:GPU:0"))
	plane = protowire.AppendFixed64(protowire.AppendTag(plane, 99, protowire.Fixed64Type), 1) // of a later version
	space := m.bytes(1, plane).bytes(4, []byte("host"))
	got, err := xspace.Events(space)
	if err != nil {
		t.Fatal(err)
	}
	want := []xspace.Event{
		{Plane: "/device:GPU:0", LineID: 9, Line: "ops", Name: "fusion.1", StartNS: 1005, Duration: 70},
		{Plane: "/device:GPU:0", LineID: 9, Line: "ops", Name: "copy", StartNS: 1009, Duration: 1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, err := xspace.Events(nil); err != nil || len(got) != 0 {
		t.Errorf("of no bytes: %v %v", got, err)
	}
	for end := 1; end < len(space)-6; end += 7 {
		if _, err := xspace.Events(space[:end]); err != nil && status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("of %d bytes: %v", end, err)
		}
	}
	if _, err := xspace.Events([]byte("something else")); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("of other bytes: %v", err)
	}
}
