package ifrtclient

import (
	"slices"
	"sync"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/program"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

// execution holds the lists of one run, so that the steady state allocates none.
type execution struct {
	program *program.Program
	arrays  []*array
	buffers []*pjrt.Buffer // [device][argument]
	outputs []*pjrt.Buffer // [device][result]
	kept    []int64
}

var executions = sync.Pool{New: func() any { return new(execution) }}

func startExecution(k *program.Program, arguments, devices int, options *client.ExecuteOptions) *execution {
	e := executions.Get().(*execution)
	e.program = k
	e.buffers = slices.Grow(e.buffers[:0], devices*arguments)[:devices*arguments]
	outputs := devices * len(k.ResultShapes())
	e.outputs = slices.Grow(e.outputs[:0], outputs)[:outputs]
	for _, i := range options.NonDonatable {
		e.kept = append(e.kept, int64(i))
	}
	return e
}

func (e *execution) free() {
	for _, a := range e.arrays {
		a.Release()
	}
	clear(e.arrays)
	clear(e.buffers)
	clear(e.outputs)
	e.program, e.arrays, e.kept = nil, e.arrays[:0], e.kept[:0]
	executions.Put(e)
}

// add checks the next argument and puts its shards, one for each of the running devices, where the run
// looks for them. order gives the place of each device among the array's shards.
func (e *execution) add(c *Client, d client.Data, arguments int, running []*platform.Device, order []int) error {
	mine, err := c.own(d)
	if err != nil {
		return err
	}
	i := len(e.arrays)
	if err := e.program.CheckShape(i, &mine.Global); err != nil {
		return err
	}
	a, err := mine.usable()
	if err != nil {
		return err
	}
	e.arrays = append(e.arrays, a) // released with the others
	if len(a.shards) != len(running) {
		return status.Errorf(status.InvalidArgument, "expected %d shards, got %d of %s", len(running), len(a.shards), mine)
	}
	for place, from := range order {
		s := a.shards[from]
		if s.device != running[place] {
			return status.Errorf(status.InvalidArgument, "expected shard %d on %s, got it on %s", from, running[place].Name, s.device.Name)
		}
		e.buffers[place*arguments+i] = s.buffer
	}
	return nil
}

// run queues the execution, which is counted in work and measured from start, and makes its results of the
// outputs.
func (e *execution) run(r pjrt.Run, arguments []client.Data, options *client.ExecuteOptions, work *platform.Operations, timer *metrics.TimeMetric, start time.Time, results func() []client.Data) ([]client.Data, error) {
	r.Arguments, r.Outputs, r.Kept = e.buffers, e.outputs, e.kept
	work.Start()
	events, err := e.program.Executable.Execute(r)
	if err != nil {
		work.Finish()
		return nil, explain(arguments, err)
	}
	for _, i := range e.program.Donors {
		if i < len(e.arrays) {
			for _, s := range e.arrays[i].shards {
				s.suspect.Store(true)
			}
			if !slices.Contains(e.kept, int64(i)) {
				e.arrays[i].forget()
			}
		}
	}
	made := results()
	// The outputs carry the errors.
	platform.WatchAll(events, func(failed bool) {
		if failed {
			forgetAll(made)
		}
		timer.Observe(time.Since(start))
		work.Finish()
		options.End()
	})
	return made, nil
}

// forgetAll stops counting the results of a run that failed. It takes no hold: on a thread of the plugin, where
// it is called, nothing may be freed.
func forgetAll(results []client.Data) {
	for _, d := range results {
		if a := d.(*data).Held.Load(); a != nil {
			a.forget()
		}
	}
}

// explain names the argument whose memory was donated before, if that is why a run failed.
func explain(arguments []client.Data, err error) error {
	for i, argument := range arguments {
		d := argument.(*data)
		if a, e := d.hold(); e == nil {
			alive := a.alive()
			a.Release()
			if !alive {
				return status.Annotate(d.Gone(), "argument %d", i)
			}
		}
	}
	return err
}

var onlyDevice = []int{0}

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
	e := startExecution(k, len(arguments), 1, &options)
	defer e.free()
	running := c.alone[on].local
	for i, d := range arguments {
		if err := e.add(c, d, len(arguments), running, onlyDevice); err != nil {
			return nil, status.Annotate(err, "ExecuteComputation(): %s, argument %d", k.Name(), i)
		}
	}
	r := pjrt.Run{NumDevices: 1}
	if k.NumDevices() > 1 {
		r.Device = on.PJRT
	}
	timer := platform.ExecuteTime
	if options.EagerMode {
		timer = platform.EagerExecuteTime
	}
	made, err := e.run(r, arguments, &options, &on.Work, timer, start, func() []client.Data { return c.outputs(e, on) })
	if err != nil {
		return nil, status.Annotate(platform.Exhausted(err, on), "ExecuteComputation(): %s", k.Name())
	}
	return made, nil
}

// outputs makes arrays on one device of a run's buffers, in blocks as the buffers themselves.
func (c *Client) outputs(e *execution, on *platform.Device) []client.Data {
	const blockSize = 16
	shapes := e.program.ResultShapes()
	result := make([]client.Data, len(e.outputs))
	for start := 0; start < len(result); start += blockSize {
		block := make([]alone, min(blockSize, len(result)-start))
		for i := range block {
			block[i].shard.learned = &e.program.Layouts[start+i]
			result[start+i] = block[i].set(c, e.outputs[start+i], on, shapes[start+i], e.program.OutputBytes[start+i])
		}
	}
	platform.CreateDataHandles.Add(int64(len(result)))
	return result
}

// ExecuteReplicated queues a run on all devices of the computation; each argument has one shard per
// device, in the order of devices. Results are sharded arrays; those of a program that is compiled
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
	e := startExecution(k, len(arguments), len(running), &options)
	defer e.free()
	for i, d := range arguments {
		if err := e.add(c, d, len(arguments), running, order); err != nil {
			return nil, status.Annotate(err, "ExecuteReplicated(): %s, argument %d", k.Name(), i)
		}
	}
	made, err := e.run(pjrt.Run{NumDevices: len(running)}, arguments, &options, &c.Sharded, platform.ExecuteReplicatedTime, start, func() []client.Data {
		return c.shardedOutputs(e, running, order)
	})
	if err != nil {
		return nil, status.Annotate(platform.Exhausted(err, running...), "ExecuteReplicated(): %s", k.Name())
	}
	return made, nil
}

// shardedOutputs makes arrays over the devices of a run, whose results share one list of devices.
func (c *Client) shardedOutputs(e *execution, running []*platform.Device, order []int) []client.Data {
	list := &deviceList{all: e.program.DeviceList(), local: make([]*platform.Device, len(order)), partitions: make([]int, len(order))}
	for place, to := range order {
		list.local[to], list.partitions[to] = running[place], slices.Index(list.all, running[place])
	}
	shapes := e.program.ResultShapes()
	result := make([]client.Data, len(shapes))
	for i := range result {
		shards := make([]*shard, len(order))
		for place, to := range order {
			s := &shard{buffer: e.outputs[place*len(shapes)+i], device: running[place], learned: &e.program.Layouts[i]}
			s.footprint.Take(s.device, e.program.OutputBytes[i])
			s.holders.First()
			shards[to] = s
		}
		result[i] = c.newArray(shards, layoutOn{devices: list, annotation: e.program.OutputSharding(i)}, shapes[i])
	}
	platform.CreateDataHandles.Add(int64(len(result)))
	return result
}
