// Package sharding reads the OpSharding protos that say how an array is laid over devices, and does the
// sums of tiles with them.
package sharding

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/client"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/gosrc/wire"
)

// Equal says whether two annotations are the same; nil is the same as nil only.
func Equal(a, b *client.Sharding) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(a.OpSharding, b.OpSharding)
}

// Kinds of OpSharding.
const (
	Replicated = 0
	Maximal    = 1
	Tuple      = 2
	Other      = 3
	Manual     = 4
	Unknown    = 5
)

// Sharding is a decoded OpSharding.
type Sharding struct {
	Kind         uint64
	tiles        []int64 // number of tiles along each dimension, then the replicating ones
	Devices      []int64 // partition of each tile, row-major; nil where iota says it
	iotaDims     []int64
	iotaPerm     []int64
	replicateEnd bool
	lastTiles    []int64 // kinds of the dimensions of tiles behind those of the array
	elements     [][]byte
}

// Parse decodes an OpSharding.
func Parse(proto []byte) (*Sharding, error) {
	s := &Sharding{}
	err := wire.EachField(proto, func(field protowire.Number, number uint64, bytes []byte) error {
		switch field {
		case 1: // type
			s.Kind = number
		case 3: // tile_assignment_dimensions
			s.tiles = wire.Int64s(s.tiles, number, bytes)
		case 4: // tile_assignment_devices
			s.Devices = wire.Int64s(s.Devices, number, bytes)
		case 5: // tuple_shardings
			s.elements = append(s.elements, bytes)
		case 6: // replicate_on_last_tile_dim
			s.replicateEnd = number != 0
		case 8: // last_tile_dims
			s.lastTiles = wire.Int64s(s.lastTiles, number, bytes)
		case 9: // iota_reshape_dims
			s.iotaDims = wire.Int64s(s.iotaDims, number, bytes)
		case 10: // iota_transpose_perm
			s.iotaPerm = wire.Int64s(s.iotaPerm, number, bytes)
		}
		return nil
	})
	return s, err
}

// Split gives one sharding for each of n results.
func Split(proto []byte, n int) ([]*client.Sharding, error) {
	s, err := Parse(proto)
	if err != nil {
		return nil, err
	}
	result := make([]*client.Sharding, n)
	for i := range result {
		result[i] = &client.Sharding{OpSharding: proto}
	}
	if s.Kind == Tuple {
		if len(s.elements) != n {
			return nil, status.Errorf(status.Internal, "expected shardings of %d results, got %d", n, len(s.elements))
		}
		for i, e := range s.elements {
			result[i] = &client.Sharding{OpSharding: e}
		}
	}
	return result, nil
}

// maxPartitions is more than any job has devices. A sharding comes from outside, and a few bytes of it may count any number.
const maxPartitions = 1 << 20

// partitions gives the partition that has each tile, row-major over tiles.
func (s *Sharding) partitions() ([]int64, error) {
	n, ok := shape.Count(s.tiles)
	if !ok || n == 0 || n > maxPartitions {
		return nil, status.Errorf(status.InvalidArgument, "expected a sharding with at most %d tiles, at least one along each dimension, got tiles %v", maxPartitions, s.tiles)
	}
	if s.Devices != nil || len(s.iotaDims) == 0 {
		if int64(len(s.Devices)) != n {
			return nil, status.Errorf(status.InvalidArgument, "a sharding with tiles %v names %d devices", s.tiles, len(s.Devices))
		}
		return s.Devices, nil
	}
	if counted, ok := shape.Count(s.iotaDims); !ok || counted != n || len(s.iotaPerm) != len(s.iotaDims) {
		return nil, status.Errorf(status.InvalidArgument, "a sharding with tiles %v counts devices by %v in order %v", s.tiles, s.iotaDims, s.iotaPerm)
	}
	strides := shape.RowMajorStrides(s.iotaDims)
	dims, steps := make([]int64, len(s.iotaPerm)), make([]int64, len(s.iotaPerm))
	for i, p := range s.iotaPerm {
		if p < 0 || p >= int64(len(strides)) || slices.Contains(s.iotaPerm[:i], p) {
			return nil, status.Errorf(status.InvalidArgument, "a sharding transposes devices by %v", s.iotaPerm)
		}
		dims[i], steps[i] = s.iotaDims[p], strides[p]
	}
	result := make([]int64, 0, n)
	for index := range indices(dims) {
		var device int64
		for i, x := range index {
			device += x * steps[i]
		}
		result = append(result, device)
	}
	return result, nil
}

// Same says whether two shardings lay an array of that rank out alike, however they are written.
func Same(a, b []byte, rank int) (bool, error) {
	first, err := Parse(a)
	if err != nil {
		return false, err
	}
	second, err := Parse(b)
	if err != nil {
		return false, err
	}
	kind := first.kindOf(rank)
	if kind != second.kindOf(rank) {
		return false, nil
	}
	switch kind {
	case Replicated:
		return true, nil
	case Maximal:
		return slices.Equal(first.Devices, second.Devices), nil
	case Other:
		tiles, more, err := first.spread(rank)
		if err != nil {
			return false, err
		}
		otherTiles, others, err := second.spread(rank)
		return err == nil && slices.Equal(tiles, otherTiles) && slices.Equal(more, others), err
	}
	return false, nil
}

// kindOf is the kind, where tiles that do not cut anything, and what is unknown, count as replicated.
func (s *Sharding) kindOf(rank int) uint64 {
	if s.Kind == Unknown || s.Kind == Other && len(s.tiles) >= rank && shape.Product(s.tiles[:rank]) == 1 {
		return Replicated
	}
	return s.Kind
}

// spread gives the tiles along each dimension and the partitions that have each, those of one tile sorted.
func (s *Sharding) spread(rank int) (tiles, partitions []int64, err error) {
	if len(s.tiles) < rank {
		return nil, nil, status.Errorf(status.InvalidArgument, "a sharding with tiles %v does not fit an array of %d dimensions", s.tiles, rank)
	}
	partitions, err = s.partitions()
	if err != nil {
		return nil, nil, err
	}
	partitions = slices.Clone(partitions)
	for copies := range slices.Chunk(partitions, max(int(shape.Product(s.tiles[rank:])), 1)) {
		slices.Sort(copies)
	}
	return s.tiles[:rank], partitions, nil
}

// Spread says whether an array of that rank is given over devices so that a program can lay it out
// otherwise: replicated or tiled, and no device with a value of its own.
func (s *Sharding) Spread(rank int) bool {
	for _, kind := range s.lastTiles {
		if kind != Replicated {
			return false
		}
	}
	return s.Kind == Replicated || s.Kind == Unknown || s.Kind == Other && len(s.tiles) >= rank
}
