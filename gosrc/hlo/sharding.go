package hlo

import (
	"bytes"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Sharding says how a value is divided over the devices of an SPMD program.
type Sharding struct {
	Kind            ShardingKind
	Tiles           []int64    // of Tiled: pieces per dimension, and last the replicas of ReplicateLast
	Devices         []int64    // of Tiled: the device of each tile, row-major; of Maximal: the one device
	ReplicateOnLast bool       // the last entry of Tiles counts copies
	Elements        []Sharding // of ShardingTuple
	IotaDims        []int64    // of Tiled, in place of Devices: an iota of these dimensions ...
	IotaPermutation []int64    // ... transposed and read row-major
	Group           int64      // above 0: lies as the others of that number do, which NextShardGroup gives
}

// ShardingKind is XLA's OpSharding type.
type ShardingKind int64

// Sharding kinds, with XLA's numbers.
const (
	Replicated    ShardingKind = 0
	Maximal       ShardingKind = 1
	ShardingTuple ShardingKind = 2
	Tiled         ShardingKind = 3
	Manual        ShardingKind = 4
	UnknownLayout ShardingKind = 5
)

// maxDevices is more than any mesh has, and few enough to write out.
const maxDevices = 1 << 20

// ParseSharding reads a serialized OpSharding. Layouts that are alike come out alike: a device list that is counted (iota)
// is written out, the devices that have copies of one tile are sorted, and tiles that divide nothing are Replicated.
//
// Errors: InvalidArgument where the bytes are no OpSharding or its devices do not fit its tiles, Unimplemented for a
// tuple and for tiles that are partly manual.
func ParseSharding(serialized []byte) (*Sharding, error) {
	var message pb.OpSharding
	if err := proto.Unmarshal(serialized, &message); err != nil {
		return nil, status.Errorf(status.InvalidArgument, "ParseSharding(): expected a serialized OpSharding, got %d other bytes", len(serialized))
	}
	s := &Sharding{Kind: ShardingKind(message.Type)}
	switch s.Kind {
	case Replicated, Manual, UnknownLayout:
		return s, nil
	case Maximal:
		s.Devices = message.TileAssignmentDevices
		if len(s.Devices) != 1 {
			return nil, status.Errorf(status.InvalidArgument, "ParseSharding(): expected one device that has the value, got %d", len(s.Devices))
		}
		return s, nil
	case Tiled:
	default:
		return nil, status.Errorf(status.Unimplemented, "ParseSharding(): expected the sharding of one array, got type %v", message.Type)
	}
	for _, kind := range message.LastTileDims {
		if kind != pb.OpSharding_REPLICATED {
			return nil, status.Errorf(status.Unimplemented, "ParseSharding(): expected tiles that are replicated at most, got some that are %v", kind)
		}
	}
	rank := len(message.TileAssignmentDimensions) - len(message.LastTileDims)
	if message.ReplicateOnLastTileDim {
		rank = len(message.TileAssignmentDimensions) - 1
	}
	if rank < 0 {
		return nil, status.Errorf(status.InvalidArgument, "ParseSharding(): expected more than %d tile dimensions", len(message.TileAssignmentDimensions))
	}
	tiles := message.TileAssignmentDimensions
	if count, ok := shape.Count(tiles); !ok || count == 0 || count > maxDevices {
		return nil, status.Errorf(status.InvalidArgument, "ParseSharding(): expected tiles for 1 to %d devices, got %v", maxDevices, tiles)
	}
	s.Tiles = slices.Clone(tiles[:rank])
	copies := shape.Product(tiles[rank:])
	if copies > 1 {
		s.Tiles, s.ReplicateOnLast = append(s.Tiles, copies), true
	}
	if s.Devices = message.TileAssignmentDevices; len(s.Devices) == 0 {
		s.Devices = countDevices(message.IotaReshapeDims, message.IotaTransposePerm, shape.Product(tiles))
	}
	return s.canonical()
}

// canonical checks a tiled sharding and gives the one form of all that lay an array out alike.
func (s *Sharding) canonical() (*Sharding, error) {
	count := shape.Product(s.Tiles)
	if int64(len(s.Devices)) != count {
		return nil, status.Errorf(status.InvalidArgument, "sharding: expected %d devices for tiles %v, got %d", count, s.Tiles, len(s.Devices))
	}
	copies := s.Copies()
	if copies == count {
		return &Sharding{Kind: Replicated}, nil
	}
	s.Devices = slices.Clone(s.Devices)
	for one := range slices.Chunk(s.Devices, int(copies)) {
		slices.Sort(one)
	}
	return s, nil
}

// countDevices counts through dims, transposed by permutation, as OpSharding's iota form says; nil where that does not
// give count devices.
func countDevices(dims []int64, permutation []int32, count int64) []int64 {
	if n, ok := shape.Count(dims); !ok || n != count || len(dims) == 0 || len(permutation) != len(dims) {
		return nil
	}
	seen := make([]bool, len(dims))
	strides := shape.RowMajorStrides(dims)
	list := []int64{0}
	for _, from := range permutation {
		if from < 0 || int(from) >= len(dims) || seen[from] {
			return nil
		}
		seen[from] = true
		next := make([]int64, 0, int64(len(list))*dims[from])
		for _, base := range list {
			for i := range dims[from] {
				next = append(next, base+i*strides[from])
			}
		}
		list = next
	}
	return list
}

// Proto gives the serialized OpSharding.
func (s *Sharding) Proto() []byte {
	var e encoder
	s.append(&e)
	// Replicated is all zeros, so its message has no bytes; it must not be nil.
	return append([]byte{}, e.buf...)
}

// Equal is true where both are written alike; see ParseSharding for the form in which like layouts are.
func (s *Sharding) Equal(o *Sharding) bool {
	return s.Kind == o.Kind && s.Group == o.Group && s.ReplicateOnLast == o.ReplicateOnLast && slices.Equal(s.Tiles, o.Tiles) && slices.Equal(s.Devices, o.Devices) &&
		slices.EqualFunc(s.Elements, o.Elements, func(a, b Sharding) bool { return a.Equal(&b) }) &&
		slices.Equal(s.IotaDims, o.IotaDims) && slices.Equal(s.IotaPermutation, o.IotaPermutation)
}

// SetSharding attaches a sharding to the instructions that follow, until it is called again;
// nil ends it.
func (b *Builder) SetSharding(s *Sharding) {
	b.sharding = nil
	if s == nil {
		return
	}
	b.sharding = s.Proto()
}

func (s *Sharding) append(e *encoder) {
	e.varint(1, int64(s.Kind))
	e.packed(3, s.Tiles)
	e.packed(4, s.Devices)
	for i := range s.Elements {
		at := e.open(5)
		s.Elements[i].append(e)
		e.close(at)
	}
	e.flag(6, s.ReplicateOnLast)
	e.packed(9, s.IotaDims)
	e.packed(10, s.IotaPermutation)
	if s.Group > 0 {
		e.flag(11, true)
		e.varint(12, s.Group)
	}
}

// NextShardGroup gives a number for Sharding.Group that the module has not used.
func (b *Builder) NextShardGroup() int64 {
	b.shardGroups++
	return b.shardGroups
}

// openDimensions begins the configuration of a "Sharding" call whose dimensions in the JSON list that follows are left to the
// partitioner.
const openDimensions = "unspecified_dims="

// Sharded emits one of the custom calls that the partitioner knows ("Sharding", "SPMDFullToShardShape" and its reverse), whose
// result has those dimensions and that sharding. In dimensions that open names, ascending, it may lie otherwise.
func (b *Builder) Sharded(target string, x Value, dims []int64, s *Sharding, open ...int64) Value {
	if !b.ok(opCustomCall, x) {
		return Value{}
	}
	b.SetSharding(s)
	defer b.SetSharding(nil)
	var configuration []byte
	if len(open) > 0 {
		list, _ := json.Marshal(open) // numbers cannot fail
		configuration = append([]byte(openDimensions), list...)
	}
	return b.CustomCall(target, []Value{x}, shape.Make(x.Dtype(), dims...), configuration, CallOptions{})
}

// OpenDimensions gives the dimensions that a "Sharding" call with such a configuration leaves to the partitioner.
func OpenDimensions(configuration []byte) ([]int64, error) {
	list, found := bytes.CutPrefix(configuration, []byte(openDimensions))
	if !found {
		if len(configuration) > 0 {
			return nil, status.Errorf(status.Unimplemented, "sharding: expected a configuration that begins with %s, got %q", openDimensions, configuration)
		}
		return nil, nil
	}
	var open []int64
	if err := json.Unmarshal(list, &open); err != nil {
		return nil, status.Errorf(status.InvalidArgument, "sharding: expected a list of dimensions, got %q", list)
	}
	return open, nil
}
