package program

import (
	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/gosrc/wire"
)

// A serialized computation is a message of our own around the plugin's bytes: the unsharded shapes
// and the form of the parameters are not in those.
const (
	serializedMagic      = "xla_go computation 1\n"
	fieldBody            = 1
	fieldName            = 2
	fieldParameters      = 3 // as ShapeProto
	fieldResults         = 4 // as ShapeProto
	fieldIsSharded       = 5
	fieldIsTupled        = 6
	fieldSerializedShard = 7 // one OpSharding for each result
	fieldDonors          = 8
)

func appendHeader(k *Program, body []byte) []byte {
	out := append(make([]byte, 0, len(body)+256), serializedMagic...)
	out = wire.Message(out, fieldName, []byte(k.name))
	for _, s := range k.parameters {
		out = wire.Message(out, fieldParameters, shapeProto(s))
	}
	for _, s := range k.results {
		out = wire.Message(out, fieldResults, shapeProto(s))
	}
	if k.isSharded {
		out = wire.Varint(out, fieldIsSharded, 1)
		for _, s := range k.outputShardings {
			out = wire.Message(out, fieldSerializedShard, s.OpSharding)
		}
	}
	for _, d := range k.Donors {
		out = wire.Varint(out, fieldDonors, int64(d))
	}
	if k.isTupled {
		out = wire.Varint(out, fieldIsTupled, 1)
	}
	return wire.Message(out, fieldBody, body)
}

func readHeader(serialized []byte) (*Program, *client.CompileInstance, []byte, error) {
	if len(serialized) < len(serializedMagic) || string(serialized[:len(serializedMagic)]) != serializedMagic {
		return nil, nil, nil, status.Errorf(status.InvalidArgument, "expected what SerializeComputation gave, got %d other bytes", len(serialized))
	}
	k, instance := &Program{}, &client.CompileInstance{}
	var body []byte
	err := wire.EachField(serialized[len(serializedMagic):], func(field protowire.Number, number uint64, bytes []byte) error {
		switch field {
		case fieldBody:
			body = bytes
		case fieldName:
			k.name = string(bytes)
		case fieldParameters, fieldResults:
			s, err := parseShape(bytes)
			if field == fieldParameters {
				k.parameters = append(k.parameters, s)
			} else {
				k.results = append(k.results, s)
			}
			return err
		case fieldIsSharded:
			k.isSharded, instance.IsSharded = number != 0, number != 0
		case fieldIsTupled:
			k.isTupled, instance.ParameterIsTupledArguments = number != 0, number != 0
		case fieldDonors:
			k.Donors = append(k.Donors, int(number))
		case fieldSerializedShard:
			k.outputShardings = append(k.outputShardings, &client.Sharding{OpSharding: append([]byte(nil), bytes...)})
		}
		return nil
	})
	if err == nil && body == nil {
		err = status.Errorf(status.DataLoss, "the serialized computation %s has no program in it", k.name)
	}
	return k, instance, body, err
}

func shapeProto(s shape.Shape) []byte {
	b := wire.Varint(nil, 2, int64(s.Dtype))
	if s.Dtype == dtype.Tuple {
		for _, e := range s.Elements {
			b = wire.Message(b, 4, shapeProto(e))
		}
		return b
	}
	return wire.Packed(b, 3, s.Dims)
}

// SerializeComputation gives the executable in the plugin's own form.
func (c Compiler) SerializeComputation(computed client.Computation) ([]byte, error) {
	k, err := c.Own(computed)
	if err != nil {
		return nil, status.Annotate(err, "SerializeComputation()")
	}
	defer k.Release()
	serialized, err := k.Executable.Serialize()
	if err != nil {
		return nil, status.Annotate(err, "SerializeComputation(): %s", k.name)
	}
	return appendHeader(k, serialized), nil
}

// DeserializeComputation loads it again; devices are those to run on, nil for the default device.
// BLOCKING.
func (c Compiler) DeserializeComputation(serialized []byte, devices []string) (client.Computation, error) {
	if err := c.Enter(); err != nil {
		return nil, status.Annotate(err, "DeserializeComputation()")
	}
	defer c.Leave()
	k, instance, body, err := readHeader(serialized)
	if err != nil {
		return nil, status.Annotate(err, "DeserializeComputation()")
	}
	instance.Devices, instance.CompilationDevice = devices, c.GetDefaultDevice()
	if k.devices, err = c.programDevices(instance); err != nil {
		return nil, status.Annotate(err, "DeserializeComputation()")
	}
	k.platform = c.Platform
	k.Executable, err = c.PJRT.DeserializeAndLoad(body, options(c.Platform, instance, k.devices))
	if err != nil {
		return nil, status.Annotate(err, "DeserializeComputation(): %s", k.name)
	}
	if err := k.finish(); err != nil {
		k.Executable.Destroy()
		return nil, status.Annotate(err, "DeserializeComputation(): %s", k.name)
	}
	createCompileHandles.Add(1)
	return k, nil
}
