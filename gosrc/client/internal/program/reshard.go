package program

import (
	"fmt"
	"slices"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/sharding"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Placement is where a client's value lies.
type Placement struct {
	Annotation *client.Sharding   // nil where one device has the whole
	Devices    []*platform.Device // of the annotation, in the order of partitions
	Local      []*platform.Device // of this process, in the order of shards
}

func (p *Placement) partitions() []int {
	result := make([]int, len(p.Local))
	for i, d := range p.Local {
		result[i] = slices.Index(p.Devices, d)
	}
	return result
}

// Placer is a client as Resharder needs it. Data that it gives are the caller's to close.
type Placer interface {
	Compile([]client.CompileInstance) ([]client.Computation, error)
	ExecuteReplicated(k client.Computation, arguments []client.Data, devices []string, options client.ExecuteOptions) ([]client.Data, error)
	HashCompilationEnvironment() [16]byte
	// Check fails for data that is not this client's.
	Check(client.Data) error
	// Place fails for data that has no value.
	Place(client.Data) (Placement, error)
	// Broadcast copies one shard to devices, which become those of the result; it is annotated as replicated.
	Broadcast(d client.Data, shard int, devices []*platform.Device) (client.Data, error)
	// Relabel shares the shards of d under another annotation.
	Relabel(d client.Data, annotation *client.Sharding) (client.Data, error)
}

// Replicated says that every device has the whole.
var Replicated = &client.Sharding{OpSharding: []byte{}} // OpSharding's default

// Resharder lays values out otherwise, by programs that are compiled once.
type Resharder struct{ programs programCache }

// Close drops the programs. Idempotent.
func (r *Resharder) Close() { r.programs.clear() }

// Reshard gives the data laid out by other shardings; data that has its sharding already is returned as
// it is, and shards that stay where they are, are shared. Elements move by a program that is compiled for
// the first value of a shape and pair of shardings; later ones are queued and not waited for. A source that
// is annotated as unknown counts as replicated; one on one device is spread over all devices.
//
// Errors: InvalidArgument where a sharding says that each device has a value of its own (manual), or the
// target is none or unknown.
func (r *Resharder) Reshard(c Placer, everyone []*platform.Device, list []client.Data, shardings []*client.Sharding) ([]client.Data, error) {
	if len(list) != len(shardings) {
		return nil, status.Errorf(status.InvalidArgument, "ReshardData(): expected a sharding for each of %d data, got %d", len(list), len(shardings))
	}
	for i, d := range list {
		if err := c.Check(d); err != nil {
			return nil, status.Annotate(err, "ReshardData(): %d", i)
		}
	}
	result := make([]client.Data, 0, len(list))
	for i, d := range list {
		if sharding.Equal(d.Sharding(), shardings[i]) {
			result = append(result, d)
			continue
		}
		moved, err := r.one(c, everyone, d, shardings[i])
		if err != nil {
			for j, made := range result {
				if made != list[j] {
					made.Close()
				}
			}
			return nil, status.Annotate(err, "ReshardData(): %d (%s)", i, d)
		}
		result = append(result, moved)
	}
	platform.ReshardData.Add(1)
	return result, nil
}

// one lays one value out otherwise.
func (r *Resharder) one(c Placer, everyone []*platform.Device, d client.Data, target *client.Sharding) (client.Data, error) {
	at, err := c.Place(d)
	if err != nil {
		return nil, err
	}
	asked, err := askedOf(target, d.Shape().Rank())
	if err != nil {
		return nil, err
	}
	source, err := only(d, &at)
	if err != nil {
		return nil, err
	}
	spread := d // the value where every device takes part
	if source >= 0 {
		devices := at.Devices
		if at.Annotation == nil {
			devices = everyone
		}
		for _, to := range devices {
			if !to.PJRT.IsAddressable() {
				return nil, status.Errorf(status.Unimplemented, "spreading a value of one device over several processes is not supported yet")
			}
		}
		if spread, err = c.Broadcast(d, source, devices); err != nil {
			return nil, err
		}
		defer spread.Close()
		at = Placement{Annotation: Replicated, Devices: devices, Local: devices}
	}
	laid, err := r.layOut(c, spread, &at, asked)
	if err != nil {
		return nil, err
	}
	defer laid.Close()
	return c.Relabel(laid, target)
}

// askedOf gives what a program has to lay a value out by, for it to have the target's sharding.
func askedOf(target *client.Sharding, rank int) (*client.Sharding, error) {
	if target == nil {
		return nil, status.Errorf(status.InvalidArgument, "expected a sharding, got none: take a shard with GetDataShard instead")
	}
	s, err := sharding.Parse(target.OpSharding)
	if err != nil {
		return nil, err
	}
	switch {
	case s.Kind == sharding.Unknown:
		return nil, status.Errorf(status.InvalidArgument, "expected a sharding that is replicated or tiled, got one that says it is unknown")
	case s.Kind == sharding.Maximal: // the other devices may have the value as well
		return Replicated, nil
	case !s.Spread(rank):
		return nil, status.Errorf(status.InvalidArgument, "expected a sharding that is replicated or tiled, got one that leaves each device a value of its own")
	}
	return target, nil
}

// only gives the shard that alone has the value, -1 where all shards take part.
func only(d client.Data, at *Placement) (int, error) {
	if at.Annotation == nil {
		return 0, nil
	}
	s, err := sharding.Parse(at.Annotation.OpSharding)
	if err != nil {
		return 0, err
	}
	if s.Kind == sharding.Maximal {
		whole := sharding.Whole{Name: d, Partitions: at.partitions()}
		return whole.Only(s)
	}
	if !s.Spread(d.Shape().Rank()) {
		return 0, status.Errorf(status.InvalidArgument, "each device has a value of its own: take its shards")
	}
	return -1, nil
}

// layOut runs the program that changes the sharding of a value which every device takes part in.
func (r *Resharder) layOut(c Placer, d client.Data, at *Placement, target *client.Sharding) (client.Data, error) {
	from := at.Annotation
	if same, err := sharding.Same(from.OpSharding, target.OpSharding, d.Shape().Rank()); err != nil {
		return nil, err
	} else if same {
		return c.Relabel(d, target)
	}
	if s, err := sharding.Parse(from.OpSharding); err != nil {
		return nil, err
	} else if s.Kind == sharding.Unknown {
		from = Replicated
	}
	devices := platform.Names(at.Devices)
	key := fmt.Sprintf("%x %s %x %x %v", c.HashCompilationEnvironment(), d.Shape(), from.OpSharding, target.OpSharding, devices)
	var laid client.Data
	err := r.programs.use(key, func() (client.Computation, error) {
		return compileReshard(c, d.Shape(), from, target, devices)
	}, func(k client.Computation) error {
		out, err := c.ExecuteReplicated(k, []client.Data{d}, platform.Names(at.Local), client.ExecuteOptions{ExplodeTuple: true})
		if err == nil {
			laid = out[0]
		}
		return err
	})
	return laid, err
}

// compileReshard makes the program that changes a sharding. BLOCKING (compiler time).
func compileReshard(c Placer, s shape.Shape, from, target *client.Sharding, devices []string) (client.Computation, error) {
	list, err := c.Compile([]client.CompileInstance{{
		HLO: Identity(s, from.OpSharding, target.OpSharding), CompilationDevice: platform.SPMDDevice, Devices: devices, IsSharded: true,
	}})
	if err != nil {
		return nil, err
	}
	got := list[0].OutputShardings()[0]
	if same, err := sharding.Same(got.OpSharding, target.OpSharding, s.Rank()); err != nil || !same {
		list[0].Close()
		return nil, status.Errorf(status.Internal, "the compiler laid the result out otherwise than it was asked to")
	}
	return list[0], nil
}
