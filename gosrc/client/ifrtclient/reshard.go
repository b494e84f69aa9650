package ifrtclient

import (
	"fmt"
	"slices"
	"sync"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/program"
	"xla_go/gosrc/client/internal/sharding"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// maxReshards bounds how many programs that change a layout are kept.
const maxReshards = 256

// reshards keeps the programs that change a layout, since compiling one takes a thousand times as long as
// running it.
type reshards struct {
	mutex    sync.Mutex
	programs map[string]*reshardProgram
	order    []string // oldest first
}

// reshardProgram is compiled by the first that needs it, while others wait.
type reshardProgram struct {
	once        sync.Once
	using       sync.RWMutex // held while a run is queued
	computation client.Computation
	err         error
}

func (p *reshardProgram) close() {
	p.once.Do(func() {})
	p.using.Lock()
	defer p.using.Unlock()
	if p.computation != nil {
		p.computation.Close()
		p.computation = nil
	}
	if p.err == nil {
		p.err = status.Errorf(status.Aborted, "the program was dropped meanwhile")
	}
}

// clear forgets all programs.
func (r *reshards) clear() {
	r.mutex.Lock()
	programs := r.programs
	r.programs, r.order = nil, nil
	r.mutex.Unlock()
	for _, p := range programs {
		p.close()
	}
}

// find gives the program of a key, compiled or not.
func (r *reshards) find(key string) *reshardProgram {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if p := r.programs[key]; p != nil {
		return p
	}
	if r.programs == nil {
		r.programs = map[string]*reshardProgram{}
	}
	if len(r.order) == maxReshards {
		go r.programs[r.order[0]].close() // it may be compiling
		delete(r.programs, r.order[0])
		r.order = r.order[1:]
	}
	p := &reshardProgram{}
	r.programs[key], r.order = p, append(r.order, key)
	return p
}

// forget drops a program that failed to compile, so that the next one tries again.
func (r *reshards) forget(key string, p *reshardProgram) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.programs[key] == p {
		delete(r.programs, key)
		r.order = slices.DeleteFunc(r.order, func(k string) bool { return k == key })
	}
}

// use finds or makes the program of a key and calls run with it.
func (r *reshards) use(key string, compile func() (client.Computation, error), run func(client.Computation) error) error {
	p := r.find(key)
	p.once.Do(func() {
		if p.computation, p.err = compile(); p.err != nil {
			r.forget(key, p)
		}
	})
	p.using.RLock()
	defer p.using.RUnlock()
	if p.err != nil {
		return p.err
	}
	return run(p.computation)
}

var replicated = &client.Sharding{OpSharding: []byte{}} // OpSharding's default

// ReshardData gives the data laid out by other shardings; data that has its sharding already is returned as
// it is. Elements move by a program that is compiled for the first value of a shape and pair of shardings;
// later ones are queued and not waited for. Data on one device are spread over all devices.
//
// Errors: InvalidArgument where a sharding says that each device has a value of its own (manual), or the
// target is none.
func (c *Client) ReshardData(list []client.Data, shardings []*client.Sharding) ([]client.Data, error) {
	if len(list) != len(shardings) {
		return nil, status.Errorf(status.InvalidArgument, "ReshardData(): expected a sharding for each of %d data, got %d", len(list), len(shardings))
	}
	for i, d := range list {
		if _, err := c.own(d); err != nil {
			return nil, status.Annotate(err, "ReshardData(): %d", i)
		}
	}
	result := make([]client.Data, 0, len(list))
	for i, d := range list {
		if sharding.Equal(d.Sharding(), shardings[i]) {
			result = append(result, d)
			continue
		}
		moved, err := c.reshard(d, shardings[i])
		if err != nil {
			for j, r := range result {
				if r != list[j] {
					r.Close()
				}
			}
			return nil, status.Annotate(err, "ReshardData(): %d (%s)", i, d)
		}
		result = append(result, moved)
	}
	return result, nil
}

// reshard lays one value out otherwise.
func (c *Client) reshard(d client.Data, target *client.Sharding) (client.Data, error) {
	if target == nil {
		return nil, status.Errorf(status.InvalidArgument, "expected a sharding, got none: take a shard with GetDataShard instead")
	}
	mine, err := c.own(d)
	if err != nil {
		return nil, err
	}
	a, err := mine.usable()
	if err != nil {
		return nil, err
	}
	defer a.Release()
	spread := mine // the value where every device takes part
	if source, err := a.only(mine); err != nil {
		return nil, err
	} else if source >= 0 {
		if spread, err = c.broadcast(a, source, mine.Global); err != nil {
			return nil, err
		}
		defer spread.Close()
	}
	s, err := sharding.Parse(target.OpSharding)
	if err != nil {
		return nil, err
	}
	asked := target
	if s.Kind == sharding.Maximal { // the other devices may have the value as well
		asked = replicated
	} else if !s.Spread(mine.Global.Rank()) {
		return nil, status.Errorf(status.InvalidArgument, "expected a sharding that is replicated or tiled, got one that leaves each device a value of its own")
	}
	laid, err := c.layOut(spread, asked)
	if err != nil {
		return nil, err
	}
	defer laid.Close()
	return c.relabel(laid, target)
}

// only gives the shard that alone has the value, -1 where all shards take part.
func (a *array) only(d *data) (int, error) {
	if a.single() {
		return 0, nil
	}
	s, err := sharding.Parse(a.sharding.annotation.OpSharding)
	if err != nil {
		return 0, err
	}
	if s.Kind == sharding.Maximal {
		whole := sharding.Whole{Name: d, Partitions: a.sharding.devices.partitions}
		return whole.Only(s)
	}
	if !s.Spread(d.Global.Rank()) {
		return 0, status.Errorf(status.InvalidArgument, "each device has a value of its own: take its shards")
	}
	return -1, nil
}

// broadcast copies the value of one shard to all devices of its array, of an array on one device to all.
func (c *Client) broadcast(a *array, source int, s shape.Shape) (*data, error) {
	devices := a.sharding.devices
	if a.single() {
		devices = c.everyone
	}
	if len(devices.local) != len(devices.all) {
		return nil, status.Errorf(status.Unimplemented, "spreading a value of one device over several processes is not supported yet")
	}
	from := a.shards[source]
	shards := make([]*shard, 0, len(devices.local))
	for _, to := range devices.local {
		if to == from.device {
			from.holders.Retain() // never fails while its array is held
			shards = append(shards, from)
			continue
		}
		b, err := from.buffer.CopyTo(to.PJRT)
		if err != nil {
			for _, s := range shards {
				s.release()
			}
			return nil, err
		}
		platform.CreateDataHandles.Add(1)
		copied := &shard{buffer: b, device: to}
		copied.holders.First()
		shards = append(shards, copied)
	}
	return c.newArray(shards, layoutOn{devices: devices, annotation: replicated}, s), nil
}

// layOut runs the program that changes the sharding of a value which every device takes part in.
func (c *Client) layOut(d *data, target *client.Sharding) (client.Data, error) {
	a, err := d.usable()
	if err != nil {
		return nil, err
	}
	defer a.Release()
	from, rank := a.sharding.annotation, d.Global.Rank()
	if same, err := sharding.Same(from.OpSharding, target.OpSharding, rank); err != nil {
		return nil, err
	} else if same {
		return c.relabel(d, target)
	}
	devices := platform.Names(a.sharding.devices.all)
	key := fmt.Sprintf("%x %s %x %x %v", c.HashCompilationEnvironment(), d.Global, from.OpSharding, target.OpSharding, devices)
	var laid client.Data
	err = c.reshards.use(key, func() (client.Computation, error) {
		return c.compileReshard(d.Global, from, target, devices)
	}, func(k client.Computation) error {
		out, err := c.ExecuteReplicated(k, []client.Data{d}, platform.Names(a.sharding.devices.local), client.ExecuteOptions{ExplodeTuple: true})
		if err == nil {
			laid = out[0]
		}
		return err
	})
	return laid, err
}

// compileReshard makes the program that changes a sharding. BLOCKING (compiler time).
func (c *Client) compileReshard(s shape.Shape, from, target *client.Sharding, devices []string) (client.Computation, error) {
	list, err := c.Compile([]client.CompileInstance{{
		HLO: program.Identity(s, from.OpSharding, target.OpSharding), CompilationDevice: SPMDDevice, Devices: devices, IsSharded: true,
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

// relabel gives an array of the same shards under another name of their layout.
func (c *Client) relabel(d client.Data, target *client.Sharding) (client.Data, error) {
	mine, a, err := c.holdOf(d)
	if err != nil {
		return nil, err
	}
	defer a.Release()
	shards := make([]*shard, len(a.shards))
	for i, s := range a.shards {
		s.holders.Retain() // never fails while its array is held
		shards[i] = s
	}
	return c.newArray(shards, layoutOn{devices: a.sharding.devices, annotation: target}, mine.Global), nil
}
