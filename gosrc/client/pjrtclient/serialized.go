package pjrtclient

import (
	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
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

func appendHeader(k *computation, body []byte) []byte {
	out := append(make([]byte, 0, len(body)+256), serializedMagic...)
	out = appendMessage(out, fieldName, []byte(k.name))
	for _, s := range k.parameters {
		out = appendMessage(out, fieldParameters, shapeProto(s))
	}
	for _, s := range k.results {
		out = appendMessage(out, fieldResults, shapeProto(s))
	}
	if k.isSharded {
		out = appendVarint(out, fieldIsSharded, 1)
		for _, s := range k.outputShardings {
			out = appendMessage(out, fieldSerializedShard, s.OpSharding)
		}
	}
	for _, d := range k.donors {
		out = appendVarint(out, fieldDonors, int64(d))
	}
	if k.isTupled {
		out = appendVarint(out, fieldIsTupled, 1)
	}
	return appendMessage(out, fieldBody, body)
}

func readHeader(serialized []byte) (*computation, *client.CompileInstance, []byte, error) {
	if len(serialized) < len(serializedMagic) || string(serialized[:len(serializedMagic)]) != serializedMagic {
		return nil, nil, nil, status.Errorf(status.InvalidArgument, "expected what SerializeComputation gave, got %d other bytes", len(serialized))
	}
	k, instance := &computation{}, &client.CompileInstance{}
	var body []byte
	err := eachField(serialized[len(serializedMagic):], func(field protowire.Number, number uint64, bytes []byte) error {
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
			k.donors = append(k.donors, int(number))
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
	b := appendVarint(nil, 2, int64(s.Dtype))
	if s.Dtype == dtype.Tuple {
		for _, e := range s.Elements {
			b = appendMessage(b, 4, shapeProto(e))
		}
		return b
	}
	return appendPacked(b, 3, s.Dims)
}

// messageField gives the last occurrence of a field that holds bytes.
func messageField(proto []byte, wanted protowire.Number) ([]byte, error) {
	var found []byte
	err := eachField(proto, func(field protowire.Number, _ uint64, bytes []byte) error {
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
