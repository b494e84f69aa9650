package pjrtclient

import (
	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

// module is what this package needs of an HloModuleProto.
type module struct {
	name       string
	parameters []shape.Shape
	result     shape.Shape
	// outputSharding is the OpSharding of the result, nil where there is none.
	outputSharding []byte
}

// parseModule reads the name, the entry computation's shape and the output sharding of a
// serialized HloModuleProto.
func parseModule(proto []byte) (*module, error) {
	m := &module{}
	err := eachField(proto, func(field protowire.Number, _ uint64, bytes []byte) error {
		switch field {
		case 1: // name
			m.name = string(bytes)
		case 4: // host_program_shape
			return eachField(bytes, func(field protowire.Number, _ uint64, bytes []byte) error {
				var err error
				var s shape.Shape
				switch field {
				case 1: // parameters
					s, err = parseShape(bytes)
					m.parameters = append(m.parameters, s)
				case 2: // result
					m.result, err = parseShape(bytes)
				}
				return err
			})
		case 12: // spmd_output_sharding
			m.outputSharding = bytes
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// parseShape reads a ShapeProto.
func parseShape(proto []byte) (shape.Shape, error) {
	var s shape.Shape
	err := eachField(proto, func(field protowire.Number, number uint64, bytes []byte) error {
		switch field {
		case 2: // element_type
			s.Dtype = dtype.Dtype(number)
		case 3: // dimensions
			s.Dims = int64s(s.Dims, number, bytes)
		case 4: // tuple_shapes
			element, err := parseShape(bytes)
			s.Elements = append(s.Elements, element)
			return err
		}
		return nil
	})
	return s, err
}

// flat gives the arrays of shapes, tuples opened.
func flat(shapes ...shape.Shape) []shape.Shape {
	var result []shape.Shape
	for _, s := range shapes {
		if s.Dtype == dtype.Tuple {
			result = append(result, flat(s.Elements...)...)
		} else {
			result = append(result, s)
		}
	}
	return result
}

// Kinds of OpSharding.
const (
	shardingReplicated = 0
	shardingMaximal    = 1
	shardingTuple      = 2
	shardingOther      = 3
	shardingManual     = 4
	shardingUnknown    = 5
)

// splitSharding gives one sharding for each of n results.
func splitSharding(proto []byte, n int) ([]*client.Sharding, error) {
	kind, elements := uint64(shardingReplicated), []*client.Sharding(nil)
	err := eachField(proto, func(field protowire.Number, number uint64, bytes []byte) error {
		switch field {
		case 1: // type
			kind = number
		case 5: // tuple_shardings
			elements = append(elements, &client.Sharding{OpSharding: bytes})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if kind == shardingTuple && len(elements) == n {
		return elements, nil
	}
	one := &client.Sharding{OpSharding: proto}
	for range n {
		elements = append(elements, one)
	}
	return elements[len(elements)-n:], nil
}
