package pjrtclient

import (
	"slices"
	"sync"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/program"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

// scratch holds the lists of one execution, so that the steady state allocates none.
type scratch struct {
	memories []*memory
	buffers  []*pjrt.Buffer
	outputs  []*pjrt.Buffer
	kept     []int64
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (s *scratch) free() {
	for _, m := range s.memories {
		if m != nil {
			m.Release()
		}
	}
	clear(s.memories)
	clear(s.buffers)
	clear(s.outputs)
	s.memories, s.buffers, s.outputs, s.kept = s.memories[:0], s.buffers[:0], s.outputs[:0], s.kept[:0]
	scratches.Put(s)
}

func (s *scratch) room(arguments, outputs int) {
	s.buffers = slices.Grow(s.buffers[:0], arguments)[:arguments]
	s.outputs = slices.Grow(s.outputs[:0], outputs)[:outputs]
}

// ExecuteComputation queues a run on one device and returns at once.
func (c *Client) ExecuteComputation(computed client.Computation, arguments []client.Data, name string, options client.ExecuteOptions) ([]client.Data, error) {
	start := time.Now()
	k, err := c.Own(computed)
	if err != nil {
		return nil, status.Annotate(err, "ExecuteComputation()")
	}
	defer k.Release()
	on, err := k.CheckRun(len(arguments), name, &options)
	if err != nil {
		return nil, status.Annotate(err, "ExecuteComputation(): %s", k.Name())
	}
	s := scratches.Get().(*scratch)
	defer s.free()
	s.room(len(arguments), len(k.ResultShapes()))
	for i, a := range arguments {
		m, err := c.argument(k, a, on, i)
		if err != nil {
			return nil, status.Annotate(err, "ExecuteComputation(): %s, argument %d", k.Name(), i)
		}
		s.memories = append(s.memories, m)
		s.buffers[i] = m.buffer
	}
	run := pjrt.Run{Arguments: s.buffers, Outputs: s.outputs, NumDevices: 1, Kept: s.keep(options.NonDonatable)}
	if k.NumDevices() > 1 {
		run.Device = on.PJRT
	}
	on.Work.Start()
	events, err := k.Executable.Execute(run)
	if err != nil {
		on.Work.Finish()
		return nil, status.Annotate(platform.Exhausted(explain(arguments, err), on), "ExecuteComputation(): %s", k.Name())
	}
	suspect(k, s.memories, s.kept)
	timer := platform.ExecuteTime
	if options.EagerMode {
		timer = platform.EagerExecuteTime
	}
	platform.CreateDataHandles.Add(int64(len(s.outputs)))
	result := c.outputs(k, s.outputs, on)
	if events == nil {
		on.Work.Finish()
		timer.Observe(time.Since(start))
		options.End()
	} else {
		platform.Watch(events[0], func(err error) { // the outputs carry the error
			if err != nil {
				forgetAll(result)
			}
			timer.Observe(time.Since(start))
			on.Work.Finish()
			options.End()
		})
	}
	return result, nil
}

func (s *scratch) keep(arguments []int) []int64 {
	for _, i := range arguments {
		s.kept = append(s.kept, int64(i))
	}
	return s.kept
}

// argument checks one argument and takes a hold on it.
func (c *Client) argument(k *program.Program, a client.Data, on *platform.Device, i int) (*memory, error) {
	d, err := c.own(a)
	if err != nil {
		return nil, err
	}
	if err := k.CheckShape(i, &d.Global); err != nil {
		return nil, err
	}
	m, err := d.Hold()
	if err != nil {
		return nil, err
	}
	if m.device != on || m.buffer == nil {
		m.Release()
		return nil, status.Errorf(status.InvalidArgument, "expected data on %s, got %s", on.Name, d)
	}
	if m.suspect.Load() && !m.alive() {
		m.Release()
		return nil, d.Gone()
	}
	return m, nil
}

// suspect marks what a run may have consumed, so that a later use asks the plugin first: a plugin
// may log, or do worse, when it is given a buffer that is gone.
func suspect(k *program.Program, arguments []*memory, kept []int64) {
	for _, i := range k.Donors {
		if i < len(arguments) {
			arguments[i].suspect.Store(true)
			for _, s := range arguments[i].shards {
				s.suspect.Store(true)
			}
			if !slices.Contains(kept, int64(i)) {
				arguments[i].forget()
			}
		}
	}
}

// explain names the argument whose memory was donated before, if that is why a run failed.
func explain(arguments []client.Data, err error) error {
	for i, a := range arguments {
		d := a.(*data)
		if m, e := d.Hold(); e == nil {
			alive := m.alive()
			m.Release()
			if !alive {
				return status.Annotate(d.Gone(), "argument %d", i)
			}
		}
	}
	return err
}

// outputs makes data of a run's buffers, in blocks as the buffers themselves.
func (c *Client) outputs(k *program.Program, buffers []*pjrt.Buffer, on *platform.Device) []client.Data {
	const blockSize = 16
	results := k.ResultShapes()
	result := make([]client.Data, len(buffers))
	for start := 0; start < len(buffers); start += blockSize {
		block := make([]struct {
			data   data
			memory memory
		}, min(blockSize, len(buffers)-start))
		for i := range block {
			o := &block[i]
			o.memory.buffer, o.memory.device = buffers[start+i], on
			o.memory.learned = &k.Layouts[start+i]
			o.memory.footprint.Take(on, k.OutputBytes[start+i])
			o.memory.holders.First()
			o.data.client, o.data.DeviceName, o.data.Global = c, on.Name, results[start+i]
			o.data.Held.Store(&o.memory)
			result[start+i] = &o.data
		}
	}
	return result
}

// ExecuteReplicated queues a run on all devices of the computation; each argument has one shard per
// device, in the order of devices. Results are sharded Data; those of a program that is compiled
// as replicas are annotated as manual: each device has a whole value of its own.
func (c *Client) ExecuteReplicated(computed client.Computation, arguments []client.Data, devices []string, options client.ExecuteOptions) ([]client.Data, error) {
	start := time.Now()
	k, err := c.Own(computed)
	if err != nil {
		return nil, status.Annotate(err, "ExecuteReplicated()")
	}
	defer k.Release()
	running, order, err := k.CheckReplicated(len(arguments), devices, &options)
	if err != nil {
		return nil, status.Annotate(err, "ExecuteReplicated(): %s", k.Name())
	}
	s := scratches.Get().(*scratch)
	defer s.free()
	s.room(len(order)*len(arguments), len(order)*len(k.ResultShapes()))
	for i, a := range arguments {
		if err := c.shardedArgument(k, s, a, running, order, i, len(arguments)); err != nil {
			return nil, status.Annotate(err, "ExecuteReplicated(): %s, argument %d", k.Name(), i)
		}
	}
	c.Sharded.Start()
	events, err := k.Executable.Execute(pjrt.Run{Arguments: s.buffers, Outputs: s.outputs, NumDevices: len(order), Kept: s.keep(options.NonDonatable)})
	if err != nil {
		c.Sharded.Finish()
		return nil, status.Annotate(platform.Exhausted(explain(arguments, err), running...), "ExecuteReplicated(): %s", k.Name())
	}
	suspect(k, s.memories, s.kept)
	result := c.shardedOutputs(k, s.outputs, running, order)
	platform.WatchAll(events, func(failed bool) {
		if failed {
			forgetAll(result)
		}
		platform.ExecuteReplicatedTime.Observe(time.Since(start))
		c.Sharded.Finish()
		options.End()
	})
	return result, nil
}

// forgetAll stops counting the results of a run that failed. It takes no hold: on a thread of the plugin, where
// it is called, nothing may be freed.
func forgetAll(results []client.Data) {
	for _, d := range results {
		if m := d.(*data).Held.Load(); m != nil {
			m.forget()
		}
	}
}

// shardedArgument puts one argument's shards into the flat list [device][argument].
func (c *Client) shardedArgument(k *program.Program, s *scratch, a client.Data, running []*platform.Device, order []int, i, arguments int) error {
	d, err := c.own(a)
	if err != nil {
		return err
	}
	if err := k.CheckShape(i, &d.Global); err != nil {
		return err
	}
	m, err := d.usable()
	if err != nil {
		return err
	}
	s.memories = append(s.memories, m)
	shards := m.shards
	if m.buffer != nil {
		shards = []*memory{m}
	}
	if len(shards) != len(order) {
		return status.Errorf(status.InvalidArgument, "expected %d shards, got %d of %s", len(order), len(shards), d)
	}
	for place, from := range order {
		shard := shards[from]
		if shard.device != running[place] {
			return status.Errorf(status.InvalidArgument, "expected shard %d on %s, got it on %s", from, running[place].Name, shard.device.Name)
		}
		s.buffers[place*arguments+i] = shard.buffer
	}
	return nil
}

// shardedOutputs makes data of the buffers [device][output].
func (c *Client) shardedOutputs(k *program.Program, buffers []*pjrt.Buffer, running []*platform.Device, order []int) []client.Data {
	results := k.ResultShapes()
	n := len(results)
	result := make([]client.Data, n)
	for i := range result {
		whole := newWhole(k.DeviceList(), len(order))
		whole.shards = whole.shards[:len(order)]
		for place, to := range order {
			m := &memory{buffer: buffers[place*n+i], device: running[place], learned: &k.Layouts[i]}
			m.footprint.Take(m.device, k.OutputBytes[i])
			m.holders.First()
			whole.shards[to] = m
		}
		result[i] = c.newSharded(whole, results[i], k.OutputSharding(i))
	}
	platform.CreateDataHandles.Add(int64(n))
	return result
}
