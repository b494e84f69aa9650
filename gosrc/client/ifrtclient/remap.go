package ifrtclient

import (
	"slices"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// CopySemantics say what becomes of the arrays that another array is made from.
type CopySemantics int

const (
	// AlwaysCopy gives the result device memory of its own.
	AlwaysCopy CopySemantics = iota
	// Reuse lets source and result share device memory.
	Reuse
	// Donate moves the source's memory to the result: the source has no value afterwards. Other data of the
	// same array (Assign) keep theirs.
	Donate
)

// Piece is a shard of one of the arrays given to Remap.
type Piece struct{ Input, Shard int }

// Layout is an array that Remap makes.
type Layout struct {
	// Shape is the shape before sharding. That of the shard where Sharding is nil; it may be left out then.
	Shape shape.Shape
	// Sharding is nil for an array on one device.
	Sharding *client.Sharding
	// Devices are those of the sharding in the order of its partitions; nil for all of them.
	Devices []string
	// Shards are one for each device of this process among Devices, in any order, which is the order of the
	// result's shards.
	Shards []Piece
}

// Remap makes arrays from the shards of others. Shards stay on their devices and their elements are not
// looked at, so no program runs. A shard may be in several results, except with Donate. Inputs remain the
// caller's to close. Not blocking.
//
// Errors: InvalidArgument where a shard is not there, lies on another device or in another kind of memory
// than the result asks for; FailedPrecondition for inputs without a value. On an error inputs keep their values.
func (c *Client) Remap(inputs []client.Data, plan []Layout, semantics CopySemantics) ([]client.Data, error) {
	result, err := c.remap(inputs, plan, semantics)
	if err != nil {
		return nil, status.Annotate(err, "Remap()")
	}
	return result, nil
}

func (c *Client) remap(inputs []client.Data, plan []Layout, semantics CopySemantics) (result []client.Data, err error) {
	if semantics < AlwaysCopy || semantics > Donate {
		return nil, status.Errorf(status.InvalidArgument, "expected AlwaysCopy, Reuse or Donate, got %d", semantics)
	}
	arrays := make([]*array, len(inputs))
	defer func() {
		for _, a := range arrays {
			if a != nil {
				a.Release()
			}
		}
		if err != nil {
			closeAll(result)
			result = nil
		}
	}()
	for i, d := range inputs {
		mine, err := c.own(d)
		if err == nil {
			arrays[i], err = mine.usable()
		}
		if err != nil {
			return result, status.Annotate(err, "input %d", i)
		}
	}
	used := map[Piece]bool{}
	for i, layout := range plan {
		if semantics == Donate {
			for _, piece := range layout.Shards {
				if used[piece] {
					return result, status.Errorf(status.InvalidArgument, "array %d: expected each shard once with Donate, got shard %d of input %d again", i, piece.Shard, piece.Input)
				}
				used[piece] = true
			}
		}
		d, err := c.build(arrays, layout, semantics)
		if err != nil {
			return result, status.Annotate(err, "array %d", i)
		}
		result = append(result, d)
	}
	if semantics == Donate {
		for _, d := range inputs {
			d.(*data).giveAway()
		}
	}
	return result, nil
}

func closeAll(list []client.Data) {
	for _, d := range list {
		d.Close()
	}
}

// giveAway drops the hold on an array that others hold now, and remembers that there was one.
func (d *data) giveAway() {
	moved.Retain()
	_ = d.Replace(moved) // of closed data there is nothing to remember
}

// build makes one array of a plan.
func (c *Client) build(arrays []*array, layout Layout, semantics CopySemantics) (d *data, err error) {
	shards := make([]*shard, 0, len(layout.Shards))
	defer func() {
		if err != nil {
			for _, s := range shards {
				s.release()
			}
		}
	}()
	for i, piece := range layout.Shards {
		if piece.Input < 0 || piece.Input >= len(arrays) || piece.Shard < 0 || piece.Shard >= len(arrays[piece.Input].shards) {
			return nil, status.Errorf(status.InvalidArgument, "shard %d: there is no shard %d of input %d", i, piece.Shard, piece.Input)
		}
		s, err := arrays[piece.Input].shards[piece.Shard].take(semantics)
		if err != nil {
			return nil, status.Annotate(err, "shard %d", i)
		}
		shards = append(shards, s)
	}
	if layout.Sharding == nil {
		if len(shards) != 1 {
			return nil, status.Errorf(status.InvalidArgument, "expected one shard for an array that is not sharded, got %d", len(shards))
		}
		s, err := shards[0].buffer.Shape()
		if err != nil {
			return nil, err
		}
		return c.newArray(shards, layoutOn{devices: c.alone[shards[0].device]}, s), nil
	}
	devices, err := c.deviceListOf(shards, layout.Devices)
	if err != nil {
		return nil, err
	}
	return c.newArray(shards, layoutOn{devices: devices, annotation: layout.Sharding}, layout.Shape), nil
}

// take gives a shard for another array to hold.
func (s *shard) take(semantics CopySemantics) (*shard, error) {
	if semantics == AlwaysCopy {
		b, err := s.buffer.CopyTo(s.device.PJRT)
		if err != nil {
			return nil, platform.Exhausted(err, s.device)
		}
		s.device.Track(b)
		platform.CreateDataHandles.Add(1)
		copied := &shard{buffer: b, device: s.device}
		copied.footprint.Take(s.device, s.footprint.Bytes())
		copied.holders.First()
		return copied, nil
	}
	s.holders.Retain() // never fails while an array that holds the shard is held
	return s, nil
}

// deviceListOf checks that shards lie one on each device of this process among the named ones.
func (c *Client) deviceListOf(shards []*shard, names []string) (*deviceList, error) {
	list := &deviceList{all: c.Devices}
	if names != nil {
		list.all = make([]*platform.Device, len(names))
		for i, name := range names {
			d, err := c.Lookup(name)
			if err != nil {
				return nil, err
			}
			if slices.Contains(list.all[:i], d) {
				return nil, status.Errorf(status.InvalidArgument, "expected different devices, got %s twice", name)
			}
			list.all[i] = d
		}
	}
	local := 0
	for _, d := range list.all {
		if d.PJRT.IsAddressable() {
			local++
		}
	}
	if len(shards) != local {
		return nil, status.Errorf(status.InvalidArgument, "expected one shard for each of the %d local devices, got %d", local, len(shards))
	}
	kind := ""
	for i, s := range shards {
		if slices.Contains(list.local, s.device) {
			return nil, status.Errorf(status.InvalidArgument, "shard %d: expected shards on different devices, got a second one on %s", i, s.device.Name)
		}
		partition := slices.Index(list.all, s.device)
		if partition < 0 {
			return nil, status.Errorf(status.InvalidArgument, "shard %d: expected a shard on one of %v, got it on %s", i, platform.Names(list.all), s.device.Name)
		}
		if got := s.memoryKind(); i == 0 {
			kind = got
		} else if got != kind {
			return nil, status.Errorf(status.InvalidArgument, "shard %d: expected memory of kind %q as of shard 0, got %q", i, kind, got)
		}
		list.local, list.partitions = append(list.local, s.device), append(list.partitions, partition)
	}
	return list, nil
}

// Disassemble gives an array for each shard, on one device each. The caller closes them, and d.
func (c *Client) Disassemble(d client.Data, semantics CopySemantics) ([]client.Data, error) {
	_, a, err := c.holdOf(d)
	if err != nil {
		return nil, status.Annotate(err, "Disassemble()")
	}
	defer a.Release()
	plan := make([]Layout, len(a.shards))
	for i := range plan {
		plan[i].Shards = []Piece{{Input: 0, Shard: i}}
	}
	result, err := c.remap([]client.Data{d}, plan, semantics)
	if err != nil {
		return nil, status.Annotate(err, "Disassemble()")
	}
	return result, nil
}

// Assemble joins arrays on one device each into one array with a sharding over devices (in the order of
// its partitions; nil for all). The caller closes the result, and shards.
func (c *Client) Assemble(shards []client.Data, s shape.Shape, annotation *client.Sharding, devices []string, semantics CopySemantics) (client.Data, error) {
	if annotation == nil {
		return nil, status.Errorf(status.InvalidArgument, "Assemble(): expected a sharding, got none")
	}
	layout := Layout{Shape: s, Sharding: annotation, Devices: devices}
	for i, d := range shards {
		_, a, err := c.single(d)
		if err != nil {
			return nil, status.Annotate(err, "Assemble(): shard %d", i)
		}
		a.Release()
		layout.Shards = append(layout.Shards, Piece{Input: i})
	}
	result, err := c.remap(shards, []Layout{layout}, semantics)
	if err != nil {
		return nil, status.Annotate(err, "Assemble()")
	}
	return result[0], nil
}
