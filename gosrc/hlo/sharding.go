package hlo

// Sharding says how a value is divided over the devices of an SPMD program.
type Sharding struct {
	Kind            ShardingKind
	Tiles           []int64    // of Tiled: pieces per dimension, and last the replicas of ReplicateLast
	Devices         []int64    // of Tiled: the device of each tile, row-major; of Maximal: the one device
	ReplicateOnLast bool       // the last entry of Tiles counts copies
	Elements        []Sharding // of ShardingTuple
	IotaDims        []int64    // of Tiled, in place of Devices: an iota of these dimensions ...
	IotaPermutation []int64    // ... transposed and read row-major
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
)

// SetSharding attaches a sharding to the instructions that follow, until it is called again;
// nil ends it.
func (b *Builder) SetSharding(s *Sharding) {
	b.sharding = nil
	if s == nil {
		return
	}
	var e encoder
	s.append(&e)
	// Replicated is all zeros, so its message has no bytes, but it must be there.
	b.sharding = append([]byte{}, e.buf...)
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
}
