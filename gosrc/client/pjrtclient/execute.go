package pjrtclient

import (
	"slices"
	"sync"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

var (
	executeTime           = metrics.Time("ExecuteTime")
	eagerExecuteTime      = metrics.Time("EagerOpExecuteTime")
	executeReplicatedTime = metrics.Time("ExecuteReplicatedTime")
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
			m.release()
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
	k, err := c.ownComputation(computed)
	if err != nil {
		return nil, status.Annotate(err, "ExecuteComputation()")
	}
	defer k.release()
	on, err := k.checkRun(arguments, name, &options)
	if err != nil {
		return nil, status.Annotate(err, "ExecuteComputation(): %s", k.name)
	}
	s := scratches.Get().(*scratch)
	defer s.free()
	s.room(len(arguments), len(k.results))
	for i, a := range arguments {
		m, err := c.argument(k, a, on, i)
		if err != nil {
			return nil, status.Annotate(err, "ExecuteComputation(): %s, argument %d", k.name, i)
		}
		s.memories = append(s.memories, m)
		s.buffers[i] = m.buffer
	}
	run := pjrt.Run{Arguments: s.buffers, Outputs: s.outputs, NumDevices: 1, Kept: s.keep(options.NonDonatable)}
	if len(k.devices) > 1 {
		run.Device = on.pjrt
	}
	on.work.start()
	events, err := k.executable.Execute(run)
	if err != nil {
		on.work.finish()
		return nil, status.Annotate(k.explain(arguments, err), "ExecuteComputation(): %s", k.name)
	}
	k.suspect(s.memories)
	timer := executeTime
	if options.EagerMode {
		timer = eagerExecuteTime
	}
	if events == nil {
		on.work.finish()
		timer.Observe(time.Since(start))
	} else {
		watch(events[0], func(error) { // the outputs carry the error
			timer.Observe(time.Since(start))
			on.work.finish()
		})
	}
	createDataHandles.Add(int64(len(s.outputs)))
	return c.outputs(k, s.outputs, on), nil
}

// checkRun checks what does not depend on a single argument.
func (k *computation) checkRun(arguments []client.Data, name string, options *client.ExecuteOptions) (*device, error) {
	if !options.ExplodeTuple {
		return nil, status.Errorf(status.InvalidArgument, "expected ExplodeTuple: PJRT always gives the elements of a root tuple")
	}
	on, err := k.client.addressable(name)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(k.devices, on) {
		return nil, status.Errorf(status.InvalidArgument, "expected one of the devices that it was compiled for (%v), got %s", k.Devices(), name)
	}
	return on, k.checkCount(len(arguments), options)
}

func (k *computation) checkCount(arguments int, options *client.ExecuteOptions) error {
	if k.parameters != nil && arguments != len(k.parameters) {
		return status.Errorf(status.InvalidArgument, "expected %d arguments, got %d", len(k.parameters), arguments)
	}
	for _, i := range options.NonDonatable {
		if i < 0 || i >= arguments {
			return status.Errorf(status.InvalidArgument, "expected arguments below %d in NonDonatable, got %d", arguments, i)
		}
	}
	return nil
}

func (s *scratch) keep(arguments []int) []int64 {
	for _, i := range arguments {
		s.kept = append(s.kept, int64(i))
	}
	return s.kept
}

// argument checks one argument and takes a hold on it.
func (c *Client) argument(k *computation, a client.Data, on *device, i int) (*memory, error) {
	d, err := c.own(a)
	if err != nil {
		return nil, err
	}
	if k.parameters != nil && !sameShape(&d.shape, &k.parameters[i]) {
		return nil, status.Errorf(status.InvalidArgument, "expected shape %s, got %s", k.parameters[i], d.shape)
	}
	m, err := d.hold()
	if err != nil {
		return nil, err
	}
	if m.device != on || m.buffer == nil {
		m.release()
		return nil, status.Errorf(status.InvalidArgument, "expected data on %s, got %s", on.name, d)
	}
	if m.suspect.Load() && !m.alive() {
		m.release()
		return nil, d.gone()
	}
	return m, nil
}

func sameShape(a, b *shape.Shape) bool {
	return a.Dtype == b.Dtype && slices.Equal(a.Dims, b.Dims)
}

// suspect marks what a run may have consumed, so that a later use asks the plugin first: a plugin
// may log, or do worse, when it is given a buffer that is gone.
func (k *computation) suspect(arguments []*memory) {
	for _, i := range k.donors {
		if i < len(arguments) {
			arguments[i].suspect.Store(true)
			for _, s := range arguments[i].shards {
				s.suspect.Store(true)
			}
		}
	}
}

// explain names the argument whose memory was donated before, if that is why a run failed.
func (k *computation) explain(arguments []client.Data, err error) error {
	for i, a := range arguments {
		d := a.(*data)
		if m, e := d.hold(); e == nil {
			alive := m.alive()
			m.release()
			if !alive {
				return status.Annotate(d.gone(), "argument %d", i)
			}
		}
	}
	return err
}

// outputs makes data of a run's buffers, in blocks as the buffers themselves.
func (c *Client) outputs(k *computation, buffers []*pjrt.Buffer, on *device) []client.Data {
	const blockSize = 16
	result := make([]client.Data, len(buffers))
	for start := 0; start < len(buffers); start += blockSize {
		block := make([]struct {
			data   data
			memory memory
		}, min(blockSize, len(buffers)-start))
		for i := range block {
			o := &block[i]
			o.memory.buffer, o.memory.device = buffers[start+i], on
			o.memory.learned = &k.rowMajor[start+i]
			o.memory.holders.Store(1)
			o.data.client, o.data.name, o.data.shape = c, on.name, k.results[start+i]
			o.data.memory.Store(&o.memory)
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
	k, err := c.ownComputation(computed)
	if err != nil {
		return nil, status.Annotate(err, "ExecuteReplicated()")
	}
	defer k.release()
	order, err := k.checkReplicated(arguments, devices, &options)
	if err != nil {
		return nil, status.Annotate(err, "ExecuteReplicated(): %s", k.name)
	}
	s := scratches.Get().(*scratch)
	defer s.free()
	s.room(len(order)*len(arguments), len(order)*len(k.results))
	for i, a := range arguments {
		if err := c.shardedArgument(k, s, a, order, i, len(arguments)); err != nil {
			return nil, status.Annotate(err, "ExecuteReplicated(): %s, argument %d", k.name, i)
		}
	}
	c.sharded.start()
	events, err := k.executable.Execute(pjrt.Run{Arguments: s.buffers, Outputs: s.outputs, NumDevices: len(order), Kept: s.keep(options.NonDonatable)})
	if err != nil {
		c.sharded.finish()
		return nil, status.Annotate(k.explain(arguments, err), "ExecuteReplicated(): %s", k.name)
	}
	k.suspect(s.memories)
	c.watchAll(events, func() {
		executeReplicatedTime.Observe(time.Since(start))
		c.sharded.finish()
	})
	return c.shardedOutputs(k, s.outputs, order), nil
}

// watchAll calls finished once all events have happened.
func (c *Client) watchAll(events []*pjrt.Event, finished func()) {
	var group sync.WaitGroup
	waiting := false
	for _, e := range events {
		if e != nil {
			waiting = true
			group.Add(1)
			watch(e, func(error) { group.Done() })
		}
	}
	if !waiting {
		finished()
		return
	}
	go func() {
		group.Wait()
		finished()
	}()
}

// checkReplicated gives the place in devices of each device in the order of execution.
func (k *computation) checkReplicated(arguments []client.Data, devices []string, options *client.ExecuteOptions) ([]int, error) {
	if !options.ExplodeTuple {
		return nil, status.Errorf(status.InvalidArgument, "expected ExplodeTuple: PJRT always gives the elements of a root tuple")
	}
	if err := k.checkCount(len(arguments), options); err != nil {
		return nil, err
	}
	running := k.executable.AddressableDevices()
	if len(devices) != len(running) {
		return nil, status.Errorf(status.InvalidArgument, "expected the %d local devices that it was compiled for, got %d", len(running), len(devices))
	}
	order := make([]int, len(running))
	for i, d := range running {
		place := slices.Index(devices, k.client.byDevice[d].name)
		if place < 0 {
			return nil, status.Errorf(status.InvalidArgument, "expected device %s among %v", k.client.byDevice[d].name, devices)
		}
		order[i] = place
	}
	return order, nil
}

// shardedArgument puts one argument's shards into the flat list [device][argument].
func (c *Client) shardedArgument(k *computation, s *scratch, a client.Data, order []int, i, arguments int) error {
	d, err := c.own(a)
	if err != nil {
		return err
	}
	if k.parameters != nil && !sameShape(&d.shape, &k.parameters[i]) {
		return status.Errorf(status.InvalidArgument, "expected shape %s, got %s", k.parameters[i], d.shape)
	}
	m, err := d.hold()
	if err != nil {
		return err
	}
	s.memories = append(s.memories, m)
	if m.suspect.Load() && !m.alive() {
		return d.gone()
	}
	shards := m.shards
	if m.buffer != nil {
		shards = []*memory{m}
	}
	if len(shards) != len(order) {
		return status.Errorf(status.InvalidArgument, "expected %d shards, got %d of %s", len(order), len(shards), d)
	}
	running := k.executable.AddressableDevices()
	for place, from := range order {
		shard := shards[from]
		if shard.device.pjrt != running[place] {
			return status.Errorf(status.InvalidArgument, "expected shard %d on %s, got it on %s", from, c.byDevice[running[place]].name, shard.device.name)
		}
		s.buffers[place*arguments+i] = shard.buffer
	}
	return nil
}

var manual = &client.Sharding{OpSharding: appendVarint(nil, 1, shardingManual)}

// shardedOutputs makes data of the buffers [device][output].
func (c *Client) shardedOutputs(k *computation, buffers []*pjrt.Buffer, order []int) []client.Data {
	n := len(k.results)
	running := k.executable.AddressableDevices()
	result := make([]client.Data, n)
	for i := range result {
		whole := &memory{shards: make([]*memory, len(order)), partitions: make([]int, len(order))}
		whole.holders.Store(1)
		for place, to := range order {
			m := &memory{buffer: buffers[place*n+i], device: c.byDevice[running[place]], learned: &k.rowMajor[i]}
			m.holders.Store(1)
			whole.shards[to], whole.partitions[to] = m, slices.Index(k.devices, m.device)
		}
		sharding := manual
		if k.outputShardings != nil {
			sharding = k.outputShardings[i]
		}
		result[i] = c.newSharded(whole, k.results[i], sharding)
	}
	createDataHandles.Add(int64(n))
	return result
}
