package pjrtclient

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/client"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

var replicateShardedData = metrics.Counter("ReplicateShardedData")

func equalShardings(a, b *client.Sharding) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(a.OpSharding, b.OpSharding)
}

// Kinds of OpSharding.
const (
	shardingReplicated = 0
	shardingMaximal    = 1
	shardingTuple      = 2
	shardingOther      = 3
	shardingManual     = 4
)

// sharding is a decoded OpSharding.
type sharding struct {
	kind         uint64
	tiles        []int64 // number of tiles along each dimension, then the replicating ones
	devices      []int64 // partition of each tile, row-major; nil where iota says it
	iotaDims     []int64
	iotaPerm     []int64
	replicateEnd bool
	lastTiles    []int64 // kinds of the dimensions of tiles behind those of the array
	elements     [][]byte
}

func parseSharding(proto []byte) (*sharding, error) {
	s := &sharding{}
	err := eachField(proto, func(field protowire.Number, number uint64, bytes []byte) error {
		switch field {
		case 1: // type
			s.kind = number
		case 3: // tile_assignment_dimensions
			s.tiles = int64s(s.tiles, number, bytes)
		case 4: // tile_assignment_devices
			s.devices = int64s(s.devices, number, bytes)
		case 5: // tuple_shardings
			s.elements = append(s.elements, bytes)
		case 6: // replicate_on_last_tile_dim
			s.replicateEnd = number != 0
		case 8: // last_tile_dims
			s.lastTiles = int64s(s.lastTiles, number, bytes)
		case 9: // iota_reshape_dims
			s.iotaDims = int64s(s.iotaDims, number, bytes)
		case 10: // iota_transpose_perm
			s.iotaPerm = int64s(s.iotaPerm, number, bytes)
		}
		return nil
	})
	return s, err
}

// splitSharding gives one sharding for each of n results.
func splitSharding(proto []byte, n int) ([]*client.Sharding, error) {
	s, err := parseSharding(proto)
	if err != nil {
		return nil, err
	}
	result := make([]*client.Sharding, n)
	for i := range result {
		result[i] = &client.Sharding{OpSharding: proto}
	}
	if s.kind == shardingTuple {
		if len(s.elements) != n {
			return nil, status.Errorf(status.Internal, "expected shardings of %d results, got %d", n, len(s.elements))
		}
		for i, e := range s.elements {
			result[i] = &client.Sharding{OpSharding: e}
		}
	}
	return result, nil
}

// partitions gives the partition that has each tile, row-major over tiles.
func (s *sharding) partitions() ([]int64, error) {
	n := shape.Product(s.tiles)
	if s.devices != nil || len(s.iotaDims) == 0 {
		if int64(len(s.devices)) != n {
			return nil, status.Errorf(status.InvalidArgument, "a sharding with tiles %v names %d devices", s.tiles, len(s.devices))
		}
		return s.devices, nil
	}
	if shape.Product(s.iotaDims) != n || len(s.iotaPerm) != len(s.iotaDims) {
		return nil, status.Errorf(status.InvalidArgument, "a sharding with tiles %v counts devices by %v in order %v", s.tiles, s.iotaDims, s.iotaPerm)
	}
	strides := shape.RowMajorStrides(s.iotaDims)
	dims, steps := make([]int64, len(s.iotaPerm)), make([]int64, len(s.iotaPerm))
	for i, p := range s.iotaPerm {
		if p < 0 || p >= int64(len(strides)) {
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

// assemble puts the value of sharded data together on the host, without a program. BLOCKING.
func (c *Client) assemble(d *data, m *memory) ([]byte, error) {
	s, err := parseSharding(d.sharding.OpSharding)
	if err != nil {
		return nil, err
	}
	replicateShardedData.Add(1)
	whole := make([]byte, d.shape.ByteSize())
	switch s.kind {
	case shardingReplicated:
		return whole, c.readShard(m.shards[0], d.shape, whole)
	case shardingMaximal:
		if len(s.devices) != 1 {
			return nil, status.Errorf(status.InvalidArgument, "a sharding to one device names %d", len(s.devices))
		}
		i := slices.Index(m.partitions, int(s.devices[0]))
		if i < 0 {
			return nil, elsewhere(d)
		}
		return whole, c.readShard(m.shards[i], d.shape, whole)
	case shardingOther:
		return whole, c.readTiles(d, m, s, whole)
	}
	return nil, status.Errorf(status.InvalidArgument, "each device has a value of its own in %s: take its shards", d)
}

func elsewhere(d *data) error {
	return status.Errorf(status.Unimplemented, "a part of %s lies in another process, and reading that is not supported yet", d)
}

func (c *Client) readShard(m *memory, s shape.Shape, into []byte) error {
	actual, err := m.buffer.Shape()
	if err != nil {
		return err
	}
	if !actual.Equal(s) {
		return status.Errorf(status.InvalidArgument, "expected a shard of shape %s on %s, got %s", s, m.device.name, actual)
	}
	return c.readBuffer(m, into, s.Rank())
}

// readTiles copies each tile of a tiled value to its place in whole.
func (c *Client) readTiles(d *data, m *memory, s *sharding, whole []byte) error {
	rank := d.shape.Rank()
	extra := len(s.lastTiles)
	if s.replicateEnd {
		extra = 1
	}
	for _, kind := range s.lastTiles {
		if kind != shardingReplicated {
			return status.Errorf(status.InvalidArgument, "each device has a value of its own in a part of %s: take its shards", d)
		}
	}
	if len(s.tiles) != rank+extra {
		return status.Errorf(status.InvalidArgument, "a sharding with tiles %v does not fit %s", s.tiles, d.shape)
	}
	partitions, err := s.partitions()
	if err != nil {
		return err
	}
	grid, copies := s.tiles[:rank], int(shape.Product(s.tiles[rank:]))
	tile := shape.Shape{Dtype: d.shape.Dtype, Dims: make([]int64, rank)}
	for i, n := range grid {
		tile.Dims[i] = (d.shape.Dims[i] + n - 1) / n
	}
	bytes := make([]byte, tile.ByteSize())
	offset := make([]int64, rank)
	for index := range indices(grid) {
		have := -1
		for _, p := range partitions[:copies] {
			if have = slices.Index(m.partitions, int(p)); have >= 0 {
				break
			}
		}
		partitions = partitions[copies:]
		inside := true // a tile may lie wholly in the padding
		for i, x := range index {
			offset[i] = x * tile.Dims[i]
			inside = inside && offset[i] < d.shape.Dims[i]
		}
		if !inside {
			continue
		}
		if have < 0 {
			return elsewhere(d)
		}
		if err := c.readShard(m.shards[have], tile, bytes); err != nil {
			return err
		}
		place(whole, d.shape, bytes, tile, offset)
	}
	return nil
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
