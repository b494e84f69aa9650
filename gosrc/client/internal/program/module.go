package program

import (
	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/wire"
)

// module is what this package needs of an HloModuleProto.
type module struct {
	name       string
	parameters []shape.Shape
	result     shape.Shape
	// outputSharding is the OpSharding of the result, nil where there is none.
	outputSharding []byte
	// donors are the flat parameters whose buffers a run may consume.
	donors []int
}

// parseModule reads the name, the entry computation's shape and the output sharding of a
// serialized HloModuleProto.
func parseModule(proto []byte) (*module, error) {
	m := &module{}
	err := wire.EachField(proto, func(field protowire.Number, _ uint64, bytes []byte) error {
		switch field {
		case 1: // name
			m.name = string(bytes)
		case 4: // host_program_shape
			return wire.EachField(bytes, func(field protowire.Number, _ uint64, bytes []byte) error {
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
		case 8: // input_output_alias
			return m.addDonors(bytes, 2, 3)
		case 18: // buffer_donor
			return m.addDonors(bytes, 1, 2)
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

// addDonors reads a list of entries that name a parameter and, of a tuple parameter, an element.
func (m *module) addDonors(list []byte, parameterField, indexField protowire.Number) error {
	return wire.EachField(list, func(_ protowire.Number, _ uint64, entry []byte) error {
		parameter, index := 0, []int64(nil)
		err := wire.EachField(entry, func(field protowire.Number, number uint64, bytes []byte) error {
			switch field {
			case parameterField:
				parameter = int(number)
			case indexField:
				index = wire.Int64s(index, number, bytes)
			}
			return nil
		})
		if len(index) > 0 { // a tuple is the only parameter
			parameter += int(index[0])
		}
		m.donors = append(m.donors, parameter)
		return err
	})
}

// parseShape reads a ShapeProto.
func parseShape(proto []byte) (shape.Shape, error) {
	var s shape.Shape
	err := wire.EachField(proto, func(field protowire.Number, number uint64, bytes []byte) error {
		switch field {
		case 2: // element_type
			s.Dtype = dtype.Dtype(number)
		case 3: // dimensions
			s.Dims = wire.Int64s(s.Dims, number, bytes)
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
