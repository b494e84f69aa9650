package hlo

import (
	"fmt"
	"slices"
	"strings"

	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Tile is the part of an array that one partition has.
type Tile struct {
	// Offset is where the tile begins and Size how much of the array is in it, by dimension; Size is cut off at the
	// array's end, and 0 for a tile that lies wholly in the padding.
	Offset, Size []int64
	// Replica numbers the partitions that have the same tile, from 0.
	Replica int64
}

// Copies gives the number of partitions that have each tile of a tiled sharding.
func (s *Sharding) Copies() int64 {
	if s.ReplicateOnLast {
		return s.Tiles[len(s.Tiles)-1]
	}
	return 1
}

// Grid gives the number of tiles along each dimension of an array of that rank; ones where every partition has the whole.
func (s *Sharding) Grid(rank int) ([]int64, error) {
	switch s.Kind {
	case Replicated, UnknownLayout, Maximal, Manual:
		return slices.Repeat([]int64{1}, rank), nil
	case Tiled:
		grid := s.Tiles
		if s.ReplicateOnLast {
			grid = grid[:len(grid)-1]
		}
		if len(grid) == rank {
			return grid, nil
		}
	}
	return nil, status.Errorf(status.InvalidArgument, "sharding: expected tiles of an array of %d dimensions, got %s", rank, s)
}

// TileDims gives the dimensions of each partition's memory: those of a tile, rounded up, padding included.
func (s *Sharding) TileDims(dims []int64) ([]int64, error) {
	grid, err := s.Grid(len(dims))
	if err != nil {
		return nil, err
	}
	tile := make([]int64, len(dims))
	for i, n := range dims {
		tile[i] = (n + grid[i] - 1) / grid[i]
	}
	return tile, nil
}

// TileOf gives the part of an array of those dimensions that a partition has. InvalidArgument where the sharding does not
// fit the array or does not name the partition.
func (s *Sharding) TileOf(partition int64, dims []int64) (Tile, error) {
	size, err := s.TileDims(dims)
	if err != nil {
		return Tile{}, err
	}
	tile := Tile{Offset: make([]int64, len(dims)), Size: size}
	if s.Kind != Tiled {
		tile.Replica = partition
		return tile, nil
	}
	place := int64(slices.Index(s.Devices, partition))
	if place < 0 {
		return Tile{}, status.Errorf(status.InvalidArgument, "sharding: expected %s to name device %d", s, partition)
	}
	tile.Replica = place % s.Copies()
	place /= s.Copies()
	grid, _ := s.Grid(len(dims))
	strides := shape.RowMajorStrides(grid)
	for i := range dims {
		tile.Offset[i] = min(place/strides[i]%grid[i]*size[i], dims[i])
		size[i] = min(size[i], dims[i]-tile.Offset[i])
	}
	return tile, nil
}

// String writes the sharding as HLO's text does, for example {devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}.
func (s *Sharding) String() string {
	switch s.Kind {
	case Replicated:
		return "{replicated}"
	case Maximal:
		return fmt.Sprintf("{maximal device=%d}", s.Devices[0])
	case Manual:
		return "{manual}"
	case UnknownLayout:
		return "{unknown}"
	case ShardingTuple:
		parts := make([]string, len(s.Elements))
		for i := range s.Elements {
			parts[i] = s.Elements[i].String()
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	devices := commas(s.Devices)
	if len(s.Devices) == 0 {
		devices = "<=[" + commas(s.IotaDims) + "]"
	}
	text := "{devices=[" + commas(s.Tiles) + "]" + devices
	if s.ReplicateOnLast {
		text += " last_tile_dim_replicate"
	}
	return text + "}"
}

func commas(numbers []int64) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = fmt.Sprint(n)
	}
	return strings.Join(texts, ",")
}
