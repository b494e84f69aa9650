package xspace

import (
	"testing"

	"xla_go/gosrc/wire"
)

// FuzzEvents: what a plugin's profiler gives is read or refused.
func FuzzEvents(f *testing.F) {
	event := wire.Varint(wire.Varint(nil, 1, 7), 3, 1000)
	line := wire.Message(wire.Message(wire.Varint(nil, 1, 5), 2, []byte("line")), 4, event)
	names := wire.Message(wire.Varint(nil, 1, 7), 2, wire.Message(nil, 2, []byte("name")))
	plane := wire.Message(wire.Message(wire.Message(nil, 2, []byte("plane")), 4, names), 3, line)
	f.Add(wire.Message(nil, 1, plane))
	f.Fuzz(func(_ *testing.T, serialized []byte) { _, _ = Events(serialized) })
}
