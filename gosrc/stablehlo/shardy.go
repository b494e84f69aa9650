package stablehlo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"xla_go/gosrc/hlo"
	pb "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Shardy gives a module that is partitioned over devices as StableHLO with shardings in terms of the Shardy dialect: one mesh,
// whose axes divide arrays. Text has them as the attributes of XLA's older partitioner (GSPMD).
//
// The axes are found from the shardings, which only say which device has which tile. Unimplemented where no one mesh has
// them all, and for values with manual sharding.
func Shardy(module []byte, devices int) (string, error) {
	m, err := hlo.Module(module)
	if err != nil {
		return "", err
	}
	grid := &mesh{count: int64(devices)}
	for _, c := range m.Computations {
		for _, i := range c.Instructions {
			for _, s := range elementShardings(i.Sharding, len(shapes(i.Shape))) {
				if err := grid.add(s); err != nil {
					return "", err
				}
			}
		}
	}
	if err := grid.divide(); err != nil {
		return "", err
	}
	return text(m, grid, false)
}

// mesh is the devices in a grid, and the arrays' tiles in terms of its axes.
type mesh struct {
	count int64
	// order is the devices by their place in the grid, row-major; nil for 0, 1, 2 and so on.
	order     []int64
	shardings []*hlo.Sharding // tiled ones, to find the axes
	// bounds are the axes: axis k has the places bounds[k] apart, of which there are bounds[k+1]/bounds[k].
	bounds []int64
}

// run is a digit of a tile's number: size tiles whose devices are stride places apart.
type run struct{ size, stride int64 }

// add looks at a sharding, nil for none.
func (m *mesh) add(s *pb.OpSharding) error {
	parsed, err := sharding(s)
	if err != nil || parsed == nil || parsed.Kind != hlo.Tiled {
		return err
	}
	m.shardings = append(m.shardings, parsed)
	return nil
}

func sharding(s *pb.OpSharding) (*hlo.Sharding, error) {
	if s == nil {
		return nil, nil
	}
	serialized, err := proto.Marshal(s)
	if err != nil {
		return nil, err
	}
	return hlo.ParseSharding(serialized)
}

// divide finds an order of the devices and the axes with which all shardings can be written.
func (m *mesh) divide() error {
	for _, order := range [][]int64{nil, m.sorted()} {
		if m.order = order; m.bound() {
			return nil
		}
	}
	return status.Errorf(status.Unimplemented, "Shardy: expected shardings that are all divisions of one mesh, got %v: use XLA's own partitioner for them", m.shardings)
}

// sorted gives the devices in the order of the tiles that they have, of the first sharding before the second and so on: where
// the shardings are of a mesh whose devices are in an order of their own, it is one in which its axes are axes too.
func (m *mesh) sorted() []int64 {
	tiles := make([][]int64, m.count) // by device
	for _, s := range m.shardings {
		for place, device := range s.Devices {
			if device < 0 || device >= m.count {
				return nil
			}
			tiles[device] = append(tiles[device], int64(place)/s.Copies())
		}
	}
	order := make([]int64, m.count)
	for i := range order {
		order[i] = int64(i)
	}
	slices.SortStableFunc(order, func(a, b int64) int { return slices.Compare(tiles[a], tiles[b]) })
	return order
}

// bound sets the axes for the present order, false where there are none.
func (m *mesh) bound() bool {
	m.bounds = []int64{1, m.count}
	for _, s := range m.shardings {
		dims, ok := m.runs(s)
		if !ok {
			return false
		}
		for _, r := range slices.Concat(dims...) {
			m.bounds = append(m.bounds, r.stride, r.stride*r.size)
		}
	}
	slices.Sort(m.bounds)
	m.bounds = slices.Compact(m.bounds)
	for k, b := range m.bounds[1:] {
		if b%m.bounds[k] != 0 {
			return false
		}
	}
	return true
}

// places gives the place in the grid of each device of a sharding, those of one tile ascending.
func (m *mesh) places(s *hlo.Sharding) []int64 {
	devices, copies := s.Devices, s.Copies()
	if m.order == nil {
		return devices
	}
	of := make([]int64, m.count)
	for place, device := range m.order {
		of[device] = int64(place)
	}
	places := make([]int64, len(devices))
	for i, device := range devices {
		places[i] = of[device]
	}
	for one := range slices.Chunk(places, int(copies)) {
		slices.Sort(one)
	}
	return places
}

// runs takes the places of a sharding's tiles apart: the digits of each dimension, from the widest stride of tiles to the
// narrowest. False where they are no such sum.
func (m *mesh) runs(s *hlo.Sharding) ([][]run, bool) {
	places := m.places(s)
	if int64(len(places)) != m.count || places[0] != 0 {
		return nil, false
	}
	strides := shape.RowMajorStrides(s.Tiles)
	along := make([][]int64, len(s.Tiles)) // places of the tiles along each dimension
	for d, n := range s.Tiles {
		for j := range n {
			along[d] = append(along[d], places[j*strides[d]])
		}
	}
	for tile, place := range places {
		for d, n := range s.Tiles {
			place -= along[d][int64(tile)/strides[d]%n]
		}
		if place != 0 {
			return nil, false
		}
	}
	if s.ReplicateOnLast {
		along = along[:len(along)-1]
	}
	dims := make([][]run, len(along))
	for d, list := range along {
		for len(list) > 1 {
			r := run{size: 2, stride: list[1]}
			for r.size < int64(len(list)) && list[r.size] == r.size*r.stride {
				r.size++
			}
			if int64(len(list))%r.size != 0 {
				return nil, false
			}
			var outer []int64
			for at, place := range list {
				inner := int64(at) % r.size
				if inner == 0 {
					outer = append(outer, place)
				}
				if place != outer[len(outer)-1]+inner*r.stride {
					return nil, false
				}
			}
			dims[d], list = append(dims[d], r), outer
		}
		slices.Reverse(dims[d])
	}
	return dims, true
}

// declaration gives the mesh as an operation of the module.
func (m *mesh) declaration() string {
	var axes []string
	for k := len(m.bounds) - 2; k >= 0; k-- {
		axes = append(axes, fmt.Sprintf("%q=%d", axisName(k), m.bounds[k+1]/m.bounds[k]))
	}
	order := ""
	if m.order != nil {
		order = ", device_ids=[" + list(m.order) + "]"
	}
	return "sdy.mesh @mesh = <[" + strings.Join(axes, ", ") + "]" + order + ">"
}

func axisName(k int) string { return fmt.Sprintf("axis%d", k) }

func list(numbers []int64) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = fmt.Sprint(n)
	}
	return strings.Join(texts, ", ")
}

// attribute gives a sharding of an array of that rank in Shardy's terms.
// Open dimensions are those that the partitioner may divide further, by more axes.
func (m *mesh) attribute(s *hlo.Sharding, rank int, open ...int64) (string, error) {
	dims := make([][]string, rank)
	switch s.Kind {
	case hlo.Replicated:
	case hlo.UnknownLayout:
		open = nil
		for d := range dims {
			open = append(open, int64(d))
		}
	case hlo.Tiled:
		divided, ok := m.runs(s)
		if !ok || len(divided) != rank {
			return "", status.Errorf(status.Unimplemented, "Shardy: expected tiles of an array of %d dimensions over the mesh, got %s", rank, s)
		}
		for d, runs := range divided {
			for _, r := range runs {
				low, _ := slices.BinarySearchFunc(m.bounds, r.stride, cmp.Compare[int64])
				high, _ := slices.BinarySearchFunc(m.bounds, r.stride*r.size, cmp.Compare[int64])
				for k := high - 1; k >= low; k-- {
					dims[d] = append(dims[d], fmt.Sprintf("%q", axisName(k)))
				}
			}
		}
	default:
		return "", status.Errorf(status.Unimplemented, "Shardy: expected a sharding that is replicated or tiled, got %s: use XLA's own partitioner for it", s)
	}
	texts := make([]string, rank)
	for d, axes := range dims {
		if slices.Contains(open, int64(d)) {
			axes = append(axes, "?")
		}
		texts[d] = "{" + strings.Join(axes, ", ") + "}"
	}
	return "#sdy.sharding<@mesh, [" + strings.Join(texts, ", ") + "]>", nil
}

// annotation writes the custom call that annotates a value in Shardy's terms.
func (w *writer) annotation(i *pb.HloInstructionProto, operand value) value {
	s, err := sharding(i.Sharding)
	if err == nil && i.CustomCallTarget != "Sharding" {
		err = status.Errorf(status.Unimplemented, "Shardy: expected no values with manual sharding: use XLA's own partitioner for them")
	}
	if err == nil && i.Sharding.GetIsShardGroup() {
		w.operation("sdy.sharding_group", []value{operand}, fmt.Sprintf("group_id = %d : i64", i.Sharding.ShardGroupId), nil, nil)
		return operand
	}
	var attribute string
	var open []int64
	if err == nil {
		open, err = hlo.OpenDimensions(i.BackendConfig)
	}
	if err == nil {
		attribute, err = w.mesh.attribute(s, len(i.Shape.Dimensions), open...)
	}
	if err != nil {
		if w.err == nil {
			w.err = err
		}
		return operand
	}
	names := w.operation("sdy.sharding_constraint", []value{operand}, "sharding = "+attribute, nil, []*pb.ShapeProto{i.Shape})
	return value{name: names[0], shape: i.Shape}
}
