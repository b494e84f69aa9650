package xspace

import (
	"fmt"

	"xla_go/gosrc/wire"
)

// Programs gives an XSpace of one plane, /host:metadata, which has the programs that ran: TensorBoard and XProf look there
// for what the operators of a profile are. An event's metadata is a program's, with its HloProto as a stat (the names are
// those of TSL's profiler). Bytes of several XSpaces, one after the other, are one of all their planes.
func Programs(names []string, modules [][]byte) []byte {
	const hloProto = 1 // the stat
	plane := wire.Message(nil, 2, []byte("/host:metadata"))
	for i, module := range modules {
		id := int64(i + 1)
		stat := wire.Message(wire.Varint(nil, 1, hloProto), 6, wire.Message(nil, 1, module))
		metadata := wire.Varint(nil, 1, id)
		metadata = wire.Message(metadata, 2, fmt.Appendf(nil, "%s(%d)", names[i], id))
		metadata = wire.Message(metadata, 5, stat)
		plane = wire.Message(plane, 4, wire.Message(wire.Varint(nil, 1, id), 2, metadata))
	}
	statName := wire.Message(wire.Varint(nil, 1, hloProto), 2, []byte("Hlo Proto"))
	plane = wire.Message(plane, 5, wire.Message(wire.Varint(nil, 1, hloProto), 2, statName))
	return wire.Message(nil, 1, plane)
}
