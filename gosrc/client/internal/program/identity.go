package program

import (
	"xla_go/gosrc/shape"
	"xla_go/gosrc/wire"
)

// Identity gives the HloModuleProto that takes an array under one OpSharding and gives it under another,
// both over the same devices.
func Identity(s shape.Shape, from, to []byte) []byte {
	array := shapeProto(s)
	minorToMajor := make([]int64, s.Rank())
	for i := range minorToMajor {
		minorToMajor[i] = int64(s.Rank() - 1 - i)
		array = wire.Varint(array, 6, 0) // is_dynamic_dimension
	}
	array = wire.Message(array, 5, wire.Packed(nil, 1, minorToMajor)) // layout

	instruction := func(name, opcode string, id int64, sharding []byte) []byte {
		b := wire.Message(nil, 1, []byte(name))
		b = wire.Message(b, 2, []byte(opcode))
		b = wire.Message(b, 3, array)
		b = wire.Varint(b, 35, id)
		return wire.Message(b, 40, sharding)
	}
	parameter := wire.Varint(instruction("x", "parameter", 1, from), 9, 0)
	moved := wire.Packed(instruction("y", "copy", 2, to), 36, []int64{1})

	signature := wire.Message(nil, 1, array)
	signature = wire.Message(signature, 2, array)
	signature = wire.Message(signature, 3, []byte("x"))

	entry := wire.Message(nil, 1, []byte("main"))
	entry = wire.Message(entry, 2, parameter)
	entry = wire.Message(entry, 2, moved)
	entry = wire.Message(entry, 4, signature)
	entry = wire.Varint(entry, 5, 1)
	entry = wire.Varint(entry, 6, 2)

	module := wire.Message(nil, 1, []byte("reshard"))
	module = wire.Message(module, 2, []byte("main"))
	module = wire.Message(module, 3, entry)
	module = wire.Message(module, 4, signature)
	return wire.Varint(module, 6, 1)
}
