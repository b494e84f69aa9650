package sharding

import (
	"fmt"
	"slices"

	"xla_go/gosrc/client"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Whole is a sharded value of which some shards are at hand.
type Whole struct {
	// Name is the value in messages.
	Name fmt.Stringer
	// Shape is the shape before sharding.
	Shape    shape.Shape
	Sharding *client.Sharding
	// Partitions has the number of each shard in the sharding.
	Partitions []int
	// Read copies a shard, dense and row-major, to the host; its shape must be tile.
	Read func(shard int, tile shape.Shape, into []byte) error
}

// Assemble puts the value together in memory of its size on the host, without a program. BLOCKING, as Read.
func (w *Whole) Assemble(whole []byte) error {
	s, err := Parse(w.Sharding.OpSharding)
	if err != nil {
		return err
	}
	switch s.Kind {
	case Replicated, Unknown:
		return w.Read(0, w.Shape, whole)
	case Maximal:
		i, err := w.Only(s)
		if err != nil {
			return err
		}
		return w.Read(i, w.Shape, whole)
	case Other:
		return w.readTiles(s, whole)
	}
	return status.Errorf(status.InvalidArgument, "each device has a value of its own in %s: take its shards", w.Name)
}

// Only gives the shard that has the value of a sharding to one device.
func (w *Whole) Only(s *Sharding) (int, error) {
	if len(s.Devices) != 1 {
		return 0, status.Errorf(status.InvalidArgument, "a sharding to one device names %d", len(s.Devices))
	}
	i := slices.Index(w.Partitions, int(s.Devices[0]))
	if i < 0 {
		return 0, w.elsewhere()
	}
	return i, nil
}

func (w *Whole) elsewhere() error {
	return status.Errorf(status.Unimplemented, "a part of %s lies in another process, and reading that is not supported yet", w.Name)
}

// readTiles copies each tile of a tiled value to its place in whole.
func (w *Whole) readTiles(s *Sharding, whole []byte) error {
	rank := w.Shape.Rank()
	extra := len(s.lastTiles)
	if s.replicateEnd {
		extra = 1
	}
	for _, kind := range s.lastTiles {
		if kind != Replicated {
			return status.Errorf(status.InvalidArgument, "each device has a value of its own in a part of %s: take its shards", w.Name)
		}
	}
	if len(s.tiles) != rank+extra {
		return status.Errorf(status.InvalidArgument, "a sharding with tiles %v does not fit %s", s.tiles, w.Shape)
	}
	partitions, err := s.partitions()
	if err != nil {
		return err
	}
	grid, copies := s.tiles[:rank], int(shape.Product(s.tiles[rank:]))
	tile := shape.Shape{Dtype: w.Shape.Dtype, Dims: make([]int64, rank)}
	for i, n := range grid {
		tile.Dims[i] = (w.Shape.Dims[i] + n - 1) / n
	}
	bytes := make([]byte, tile.ByteSize())
	offset := make([]int64, rank)
	for index := range indices(grid) {
		have := -1
		for _, p := range partitions[:copies] {
			if have = slices.Index(w.Partitions, int(p)); have >= 0 {
				break
			}
		}
		partitions = partitions[copies:]
		inside := true // a tile may lie wholly in the padding
		for i, x := range index {
			offset[i] = x * tile.Dims[i]
			inside = inside && offset[i] < w.Shape.Dims[i]
		}
		if !inside {
			continue
		}
		if have < 0 {
			return w.elsewhere()
		}
		if err := w.Read(have, tile, bytes); err != nil {
			return err
		}
		place(whole, w.Shape, bytes, tile, offset)
	}
	return nil
}

// indices counts through all indices of dims in row-major order. The slice is reused.
func indices(dims []int64) func(yield func([]int64) bool) {
	return func(yield func([]int64) bool) {
		index := make([]int64, len(dims))
		for range shape.Product(dims) {
			if !yield(index) {
				return
			}
			for i := len(dims) - 1; i >= 0; i-- {
				if index[i]++; index[i] < dims[i] {
					break
				}
				index[i] = 0
			}
		}
	}
}

// place copies a dense tile to its offset in a dense array and leaves out what reaches over the edge.
func place(whole []byte, s shape.Shape, bytes []byte, tile shape.Shape, offset []int64) {
	item := s.Dtype.Size()
	if s.Rank() == 0 {
		copy(whole, bytes)
		return
	}
	inner := s.Rank() - 1
	run := min(tile.Dims[inner], s.Dims[inner]-offset[inner]) * item
	to, from := shape.RowMajorStrides(s.Dims), shape.RowMajorStrides(tile.Dims)
	rows := make([]int64, inner)
	for i := range rows {
		rows[i] = min(tile.Dims[i], s.Dims[i]-offset[i])
	}
	for index := range indices(rows) {
		target, source := offset[inner]*to[inner], int64(0)
		for i, x := range index {
			target += (offset[i] + x) * to[i]
			source += x * from[i]
		}
		copy(whole[target*item:][:run], bytes[source*item:][:run])
	}
}
