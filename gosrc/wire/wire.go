// Package wire reads and writes those few protobuf messages of XLA of which only some fields are needed, without
// their generated code.
package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/status"
)

// Varint appends a number to a message.
func Varint(b []byte, field protowire.Number, value int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(value))
}

// Message appends a field of bytes: text, or a message inside.
func Message(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}

// Packed appends a list of numbers in the packed form.
func Packed(b []byte, field protowire.Number, values []int64) []byte {
	var packed []byte
	for _, v := range values {
		packed = protowire.AppendVarint(packed, uint64(v))
	}
	return Message(b, field, packed)
}

// EachField calls visit for every field of a message: number for varints, bytes for the rest.
func EachField(message []byte, visit func(field protowire.Number, number uint64, bytes []byte) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return malformed(n)
		}
		message = message[n:]
		var number uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(field, kind, message)
		}
		if n < 0 {
			return malformed(n)
		}
		message = message[n:]
		if err := visit(field, number, bytes); err != nil {
			return err
		}
	}
	return nil
}

func malformed(n int) error {
	return status.Errorf(status.InvalidArgument, "malformed protobuf: %v", protowire.ParseError(n))
}

// Int64s reads a repeated integer field: one number, or several packed.
func Int64s(list []int64, number uint64, packed []byte) []int64 {
	if packed == nil {
		return append(list, int64(number))
	}
	for len(packed) > 0 {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return list
		}
		list, packed = append(list, int64(v)), packed[n:]
	}
	return list
}

// Field gives the last occurrence of a field that holds bytes.
func Field(proto []byte, wanted protowire.Number) ([]byte, error) {
	var found []byte
	err := EachField(proto, func(field protowire.Number, _ uint64, bytes []byte) error {
		if field == wanted {
			found = bytes
		}
		return nil
	})
	if err == nil && found == nil {
		err = status.Errorf(status.Internal, "expected field %d in a message of %d bytes, but it is not there", wanted, len(proto))
	}
	return found, err
}
