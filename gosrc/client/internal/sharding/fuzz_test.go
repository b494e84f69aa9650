package sharding

import (
	"testing"

	"xla_go/gosrc/hlo"
)

// FuzzSharding: an OpSharding of any bytes is read or refused, compared with another and divided.
func FuzzSharding(f *testing.F) {
	tiled := &hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{2, 1, 2}, Devices: []int64{0, 2, 1, 3}, ReplicateOnLast: true}
	counted := &hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{4, 2}, IotaDims: []int64{2, 4}, IotaPermutation: []int64{1, 0}}
	huge := &hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{1 << 62, 4}, IotaDims: []int64{1 << 40}, IotaPermutation: []int64{0}}
	twice := &hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{1 << 20, 1}, IotaDims: []int64{1 << 20, 1}, IotaPermutation: []int64{0, 0}}
	both := &hlo.Sharding{Kind: hlo.ShardingTuple, Elements: []hlo.Sharding{*tiled, *counted}}
	for _, s := range []*hlo.Sharding{tiled, counted, huge, twice, both} {
		f.Add(s.Proto(), counted.Proto(), uint8(2))
	}
	f.Fuzz(func(t *testing.T, a, b []byte, rank uint8) {
		if same, err := Same(a, a, int(rank)); err == nil && !same {
			s, _ := Parse(a)
			if kind := s.kindOf(int(rank)); kind == Replicated || kind == Maximal || kind == Other {
				t.Errorf("%+v is not the same as itself", s)
			}
		}
		_, _ = Same(a, b, int(rank))
		_, _ = Split(a, int(rank))
		if s, err := Parse(a); err == nil {
			s.Spread(int(rank))
		}
	})
}
