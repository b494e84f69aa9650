package stablehlo

import (
	"math/rand/v2"
	"slices"
	"testing"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
)

// Shardings of any mesh, with its devices in any order, are found to be divisions of one mesh, and what is written is the
// same layout.
func TestShardingsOfAMeshAreFoundToBe(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		var axes []int64
		for range 1 + r.IntN(3) {
			axes = append(axes, []int64{2, 3, 4}[r.IntN(3)])
		}
		count := shape.Product(axes)
		order := make([]int64, count)
		for i := range order {
			order[i] = int64(i)
		}
		if seed%2 == 1 {
			r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		m := &mesh{count: count}
		for range 1 + r.IntN(3) {
			s := randomSharding(r, axes, order)
			if s.Kind == hlo.Tiled {
				m.shardings = append(m.shardings, s)
			}
		}
		if err := m.divide(); err != nil {
			t.Errorf("mesh %v, %v: %v", axes, order, err)
			continue
		}
		for _, s := range m.shardings {
			if got := m.layout(t, s); !got.Equal(s) {
				t.Errorf("mesh %v, %v: expected %v, got %v", axes, order, s, got)
			}
		}
	}
}

// randomSharding divides an array of two dimensions along some axes, in some order.
func randomSharding(r *rand.Rand, axes, order []int64) *hlo.Sharding {
	perm := r.Perm(len(axes))
	first := r.IntN(len(perm) + 1)
	second := first + r.IntN(len(perm)-first+1)
	dims := make([]int64, len(perm)) // of the grid, with the axes in the order of perm
	strides := shape.RowMajorStrides(axes)
	for i, axis := range perm {
		dims[i] = axes[axis]
	}
	s := &hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{shape.Product(dims[:first]), shape.Product(dims[first:second])}}
	if copies := shape.Product(dims[second:]); copies > 1 {
		s.Tiles, s.ReplicateOnLast = append(s.Tiles, copies), true
	}
	inner := shape.RowMajorStrides(dims)
	for at := range shape.Product(dims) {
		place := int64(0)
		for i, axis := range perm {
			place += at / inner[i] % dims[i] * strides[axis]
		}
		s.Devices = append(s.Devices, order[place])
	}
	canonical, err := hlo.ParseSharding(s.Proto())
	if err != nil {
		panic(err)
	}
	return canonical
}

// layout is the sharding that the mesh's axes give, as they are written.
func (m *mesh) layout(t *testing.T, s *hlo.Sharding) *hlo.Sharding {
	dims, ok := m.runs(s)
	if !ok {
		t.Fatalf("expected %v to be a division of the mesh", s)
	}
	result := &hlo.Sharding{Kind: hlo.Tiled}
	offsets := []int64{0}
	grow := func(size, stride int64) {
		next := make([]int64, 0, int64(len(offsets))*size)
		for _, base := range offsets {
			for j := range size {
				next = append(next, base+j*stride)
			}
		}
		offsets = next
	}
	used := []run{}
	for _, runs := range dims {
		tiles := int64(1)
		for _, r := range runs {
			grow(r.size, r.stride)
			tiles *= r.size
			used = append(used, r)
		}
		result.Tiles = append(result.Tiles, tiles)
	}
	copies := m.count / int64(len(offsets))
	if copies > 1 { // the axes that no dimension has
		for k := len(m.bounds) - 2; k >= 0; k-- {
			inside := slices.ContainsFunc(used, func(r run) bool { return r.stride <= m.bounds[k] && m.bounds[k+1] <= r.stride*r.size })
			if !inside {
				grow(m.bounds[k+1]/m.bounds[k], m.bounds[k])
			}
		}
		result.Tiles, result.ReplicateOnLast = append(result.Tiles, copies), true
	}
	for _, place := range offsets {
		device := place
		if m.order != nil {
			device = m.order[place]
		}
		result.Devices = append(result.Devices, device)
	}
	canonical, err := hlo.ParseSharding(result.Proto())
	if err != nil {
		t.Fatal(err)
	}
	return canonical
}
