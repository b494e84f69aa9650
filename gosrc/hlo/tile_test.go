package hlo_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"xla_go/gosrc/hlo"
	pb "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/status"
)

func opSharding(t *testing.T, s *pb.OpSharding) []byte {
	t.Helper()
	encoded, err := proto.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// Layouts that are alike are read as the same one, however they are written.
func TestLikeShardingsAreEqual(t *testing.T) {
	const tiled = pb.OpSharding_OTHER
	for want, forms := range map[string][]*pb.OpSharding{
		"{replicated}": {
			{},
			{Type: tiled, TileAssignmentDimensions: []int64{1, 1, 4}, TileAssignmentDevices: []int64{0, 1, 2, 3}, ReplicateOnLastTileDim: true},
			{Type: tiled, TileAssignmentDimensions: []int64{1, 1, 4}, IotaReshapeDims: []int64{4}, IotaTransposePerm: []int32{0}, LastTileDims: []pb.OpSharding_Type{pb.OpSharding_REPLICATED}},
		},
		"{devices=[4,1]0,1,2,3}": {
			{Type: tiled, TileAssignmentDimensions: []int64{4, 1}, TileAssignmentDevices: []int64{0, 1, 2, 3}},
			{Type: tiled, TileAssignmentDimensions: []int64{4, 1}, IotaReshapeDims: []int64{4}, IotaTransposePerm: []int32{0}},
			{Type: tiled, TileAssignmentDimensions: []int64{4, 1, 1}, TileAssignmentDevices: []int64{0, 1, 2, 3}, ReplicateOnLastTileDim: true},
		},
		"{devices=[2,2]0,2,1,3}": {
			{Type: tiled, TileAssignmentDimensions: []int64{2, 2}, IotaReshapeDims: []int64{2, 2}, IotaTransposePerm: []int32{1, 0}},
			{Type: tiled, TileAssignmentDimensions: []int64{2, 2}, TileAssignmentDevices: []int64{0, 2, 1, 3}},
		},
		"{devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}": {
			{Type: tiled, TileAssignmentDimensions: []int64{2, 1, 2}, TileAssignmentDevices: []int64{2, 0, 3, 1}, ReplicateOnLastTileDim: true},
			{Type: tiled, TileAssignmentDimensions: []int64{2, 1, 2}, TileAssignmentDevices: []int64{0, 2, 1, 3}, LastTileDims: []pb.OpSharding_Type{pb.OpSharding_REPLICATED}},
		},
		"{maximal device=3}": {{Type: pb.OpSharding_MAXIMAL, TileAssignmentDimensions: []int64{1}, TileAssignmentDevices: []int64{3}}},
		"{manual}":           {{Type: pb.OpSharding_MANUAL}},
		"{unknown}":          {{Type: pb.OpSharding_UNKNOWN}},
	} {
		for _, form := range forms {
			s, err := hlo.ParseSharding(opSharding(t, form))
			if err != nil || s.String() != want {
				t.Errorf("%v is read as %v (%v), want %s", form, s, err, want)
				continue
			}
			again, err := hlo.ParseSharding(s.Proto())
			if err != nil || !again.Equal(s) {
				t.Errorf("%s comes back as %v (%v)", s, again, err)
			}
		}
	}
	for part, bad := range map[string][]byte{
		"3 other bytes":   {255, 255, 255},
		"expected 4 devi": opSharding(t, &pb.OpSharding{Type: tiled, TileAssignmentDimensions: []int64{4}, TileAssignmentDevices: []int64{0, 1}}),
		"one array":       opSharding(t, &pb.OpSharding{Type: pb.OpSharding_TUPLE}),
		"MANUAL":          opSharding(t, &pb.OpSharding{Type: tiled, TileAssignmentDimensions: []int64{2, 2}, TileAssignmentDevices: []int64{0, 1, 2, 3}, LastTileDims: []pb.OpSharding_Type{pb.OpSharding_MANUAL}}),
		"one device that": opSharding(t, &pb.OpSharding{Type: pb.OpSharding_MAXIMAL}),
	} {
		_, err := hlo.ParseSharding(bad)
		if code := status.CodeOf(err); code != status.InvalidArgument && code != status.Unimplemented || !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("%v, want an error about %q", err, part)
		}
	}
}

// The tiles of all partitions cover each element of the array, as many times as there are copies.
func TestTilesCoverTheArray(t *testing.T) {
	for _, c := range []struct {
		sharding hlo.Sharding
		dims     []int64
		tile     []int64
		copies   int
	}{
		{hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{4, 1}, Devices: []int64{3, 1, 0, 2}}, []int64{8, 3}, []int64{2, 3}, 1},
		{hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{4, 1}, Devices: []int64{0, 1, 2, 3}}, []int64{5, 3}, []int64{2, 3}, 1}, // the last is padding
		{hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{2, 2}, Devices: []int64{0, 2, 1, 3}}, []int64{3, 5}, []int64{2, 3}, 1},
		{hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{1, 2, 2}, Devices: []int64{0, 1, 2, 3}, ReplicateOnLast: true}, []int64{3, 5}, []int64{3, 3}, 2},
		{hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{2, 1, 2}, Devices: []int64{0, 1, 2, 3}}, []int64{2, 3, 4}, []int64{1, 3, 2}, 1},
		{hlo.Sharding{Kind: hlo.Replicated}, []int64{2, 3}, []int64{2, 3}, 4},
	} {
		memory, err := c.sharding.TileDims(c.dims)
		if err != nil || !slices.Equal(memory, c.tile) {
			t.Errorf("%s of %v has tiles of %v (%v), want %v", &c.sharding, c.dims, memory, err, c.tile)
		}
		covered := map[string]int{}
		replicas := map[string]bool{}
		for partition := range int64(4) {
			tile, err := c.sharding.TileOf(partition, c.dims)
			if err != nil {
				t.Fatal(err)
			}
			if name := fmt.Sprint(tile); replicas[name] {
				t.Errorf("%s of %v: two partitions are %s", &c.sharding, c.dims, name)
			} else {
				replicas[name] = tile.Size[0] > 0 // tiles of nothing but padding look alike
			}
			index := make([]int64, len(c.dims))
			var count func(d int)
			count = func(d int) {
				if d == len(c.dims) {
					covered[fmt.Sprint(index)]++
					return
				}
				for i := range tile.Size[d] {
					index[d] = tile.Offset[d] + i
					count(d + 1)
				}
			}
			count(0)
		}
		n := 1
		for _, d := range c.dims {
			n *= int(d)
		}
		if len(covered) != n {
			t.Errorf("%s of %v covers %d elements of %d", &c.sharding, c.dims, len(covered), n)
		}
		for element, times := range covered {
			if times != c.copies {
				t.Errorf("%s of %v has element %s %d times, want %d", &c.sharding, c.dims, element, times, c.copies)
			}
		}
	}
	rows := hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{2, 1}, Devices: []int64{0, 1}}
	if _, err := rows.TileOf(2, []int64{4, 4}); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("a device that is not in it: %v", err)
	}
	if _, err := rows.TileOf(0, []int64{4}); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("an array of other dimensions: %v", err)
	}
}
