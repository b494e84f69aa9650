package executor

import (
	"slices"
	"sync"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

var (
	countReplicated  = metrics.Counter("ExecuteReplicated")
	countVirtual     = metrics.Counter("VirtualDeviceUsage") // values that stay on the host until it is known how they lie
	shardingWaitTime = metrics.Time("ShardingWaitTime")      // for compiles whose results' shardings a cut needs to know
)

// spmdDevice is the client's name of all devices together.
const spmdDevice = "SPMD:0"

var replicated = &hlo.Sharding{Kind: hlo.Replicated}

// partitioning is a device's part as the one that stands for all.
type partitioning struct {
	count int // of devices, those of other processes among them
}

// Partition makes device 0 stand for all devices from now on: each program is partitioned over them, by the shardings of
// its values. Values that are there are replicated when a program first takes them. For the life of the process;
// idempotent. BLOCKING until queued steps have ended; without Core.Mu.
func (c *Core) Partition() {
	c.WaitIdle()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.devices[0].partitioning.CompareAndSwap(nil, &partitioning{count: c.client.GetNumDevices()})
}

// Partitioned is true once programs are partitioned over all devices.
func (c *Core) Partitioned() bool {
	return len(c.devices) > 0 && c.devices[0].partitioning.Load() != nil
}

// LockResolved takes Core.Mu with the shardings of all values known, as a cut needs it: where the program that makes one is
// still with the compiler, it waits for that without the lock. BLOCKING.
func (c *Core) LockResolved() {
	for !c.TryLockResolved(time.Hour) {
	}
}

// TryLockResolved is LockResolved that gives up after timeout: false then, and the lock is not held. BLOCKING, but for a
// timeout of 0.
func (c *Core) TryLockResolved(timeout time.Duration) bool {
	var expired <-chan time.Time
	for {
		c.Mu.Lock()
		compiled := c.devices[0].label()
		if compiled == nil {
			return true
		}
		c.Mu.Unlock()
		if timeout <= 0 {
			return false
		}
		if expired == nil {
			defer shardingWaitTime.Since(time.Now())
			timer := time.NewTimer(timeout)
			defer timer.Stop()
			expired = timer.C
		}
		select {
		case <-compiled:
		case <-expired:
			return false
		}
	}
}

// label notes on the outputs of queued steps how they lie, as far as their programs are compiled, and gives what is
// closed once the next one is; nil where nothing is left. Under Core.Mu.
func (d *Device) label() <-chan struct{} {
	for len(d.unlabelled) > 0 {
		s := d.unlabelled[0]
		if !s.executable.isDone() {
			return s.executable.done
		}
		for i, sharding := range s.executable.shardings {
			s.outputs[i].SetSharding(sharding)
		}
		d.unlabelled[0] = nil
		d.unlabelled = d.unlabelled[1:]
	}
	d.unlabelled = nil
	return nil
}

// signature says what the program of roots, which hold values, depends on beside its graph.
func (d *Device) signature(roots []*Root, values []*ir.Node, collective bool) ir.Signature {
	s := ir.Signature{Outputs: values, Device: d.Index, Precision: d.core.Precision()}
	if replicas := d.core.replicas.count(); collective && replicas > 1 {
		s.Replicas, s.Device = replicas, 0
	}
	if p := d.partitioning.Load(); p != nil {
		s.Partitions, s.Shardings = p.count, make([]*hlo.Sharding, len(roots))
		for i, r := range roots {
			s.Shardings[i] = r.wanted()
		}
	}
	return s
}

// Annotate says how values of those dimensions are to lie whenever a program computes one for the root. Under Core.Mu.
func (r *Root) Annotate(s *hlo.Sharding, dims []int64) {
	r.annotation, r.annotationDims = s, slices.Clone(dims)
}

// ClearAnnotation forgets what Annotate was told: the next value may lie otherwise than the one that it replaces. Under Core.Mu.
func (r *Root) ClearAnnotation() { r.annotation, r.annotationDims, r.loose = nil, nil, true }

// Loose is true where ClearAnnotation was the last that was said of how the value lies, until a step has ended.
func (r *Root) Loose() bool { return r.loose }

// Annotation gives the sharding that Annotate was told for values of those dimensions, nil for none. Under Core.Mu.
func (r *Root) Annotation(dims []int64) *hlo.Sharding {
	if slices.Equal(r.annotationDims, dims) {
		return r.annotation
	}
	return nil
}

// wanted is how the root's pending value is to lie: as annotated, else as the value that it replaces, so that a loop comes
// to the same program again; nil leaves it to the compiler.
func (r *Root) wanted() *hlo.Sharding {
	if s := r.Annotation(r.value.Dims); s != nil {
		return s
	}
	if s := r.value.Sharding(); s != nil {
		return s
	}
	if r.base != nil && !r.loose && r.base.Dtype == r.value.Dtype && slices.Equal(r.base.Dims, r.value.Dims) {
		if s := r.base.Sharding(); s != nil && s.Kind == hlo.Tiled {
			return s
		}
	}
	return nil
}

// outputShardings reads how the compiler lays the results out, without the one that a program with checks has after them.
func outputShardings(computation client.Computation, results int, checks []ir.Check) ([]*hlo.Sharding, error) {
	told := computation.OutputShardings()
	if len(checks) > 0 && len(told) == results+1 {
		told = told[:results]
	}
	if len(told) != results {
		return nil, status.Errorf(status.Internal, "compile: expected the shardings of %d results, got %d", results, len(told))
	}
	var list []*hlo.Sharding
	for i, s := range told {
		parsed, err := hlo.ParseSharding(s.OpSharding)
		if err != nil {
			return nil, status.Annotate(err, "compile: result %d", i)
		}
		list = append(list, parsed)
	}
	return list, nil
}

// launchPartitioned hands a partitioned step to the client. What lies on one device is replicated first.
func (d *Device) launchPartitioned(s *step, arguments []client.Data) (outputs []client.Data, launched bool, err error) {
	c := d.core.client
	for i, data := range arguments {
		if data.Sharding() != nil {
			continue
		}
		moved, err := c.ReshardData([]client.Data{data}, []*client.Sharding{{OpSharding: replicated.Proto()}})
		if err != nil {
			return nil, false, err
		}
		arguments[i] = moved[0]
		s.arguments[i].Replace(moved[0], nil)
	}
	local := c.GetLocalDevices()
	if len(s.scalars) > 0 {
		pack, err := transferShards(c, local, s.scalars, shape.Make(dtype.U32, int64(len(s.scalars)/4)), replicated)
		if err != nil {
			return nil, false, err
		}
		defer pack.Close()
		arguments = append(arguments, pack)
	}
	countReplicated.Add(1)
	options := client.ExecuteOptions{ExplodeTuple: true, NonDonatable: s.withheld, EagerMode: s.executable.eager, OnEnd: d.watch(s)}
	outputs, err = c.ExecuteReplicated(s.executable.computation, arguments, local, options)
	outputs, err = s.takeChecked(outputs, err)
	return outputs, true, s.checkResults(outputs, err)
}

// Leaf makes the node of data that exists and takes it over: with its sharding, if it has one. Under Core.Mu.
func (c *Core) Leaf(data client.Data, d dtype.Dtype, dims []int64) (*ir.Node, error) {
	var sharding *hlo.Sharding
	if s := c.client.GetDataSharding(data); s != nil {
		var err error
		if sharding, err = hlo.ParseSharding(s.OpSharding); err != nil {
			data.Close()
			return nil, err
		}
	}
	return c.Graph.Leaf(ir.NewSharded(data, sharding), d, dims), nil
}

// DeferredLeaf makes the node of a value in host memory, dense and row-major, which the core takes over. It is transferred
// when somebody needs it, replicated or as it was annotated by then. Under Core.Mu.
func (c *Core) DeferredLeaf(bytes []byte, d dtype.Dtype, dims []int64) *ir.Node {
	countVirtual.Add(1)
	s := shape.Shape{Dtype: d, Dims: slices.Clone(dims)}
	return c.Graph.Leaf(ir.NewDeferred(replicated, c.uploads.begin, func(b *ir.Buffer, sharding *hlo.Sharding) {
		defer c.uploads.end()
		data, err := transferShards(c.client, c.client.GetLocalDevices(), bytes, s, sharding)
		if err != nil {
			b.Fail(err)
			return
		}
		b.Fulfill(data)
	}), d, dims)
}

// uploads counts the transfers of deferred values that have begun and not ended.
type uploads struct {
	mu      sync.Mutex
	changed sync.Cond
	running int
}

func (u *uploads) begin() {
	u.mu.Lock()
	u.running++
	u.mu.Unlock()
}

func (u *uploads) end() {
	u.mu.Lock()
	u.running--
	u.changed.Broadcast()
	u.mu.Unlock()
}

// wait waits until none is left. BLOCKING.
func (u *uploads) wait() {
	u.mu.Lock()
	for u.running > 0 {
		u.changed.Wait()
	}
	u.mu.Unlock()
}

// transferShards uploads to each local device the part of an array that a sharding gives it, and no more.
func transferShards(c client.Client, local []string, bytes []byte, s shape.Shape, sharding *hlo.Sharding) (client.Data, error) {
	memory, err := sharding.TileDims(s.Dims)
	if err != nil {
		return nil, err
	}
	sources := make([]client.TensorSource, len(local))
	for i, device := range local {
		sources[i] = client.TensorSource{Shape: shape.Shape{Dtype: s.Dtype, Dims: memory}, Device: device, Bytes: bytes}
		if sharding.Kind != hlo.Tiled {
			continue
		}
		ordinal, err := c.DeviceOrdinal(device)
		if err != nil {
			return nil, err
		}
		tile, err := sharding.TileOf(int64(ordinal), s.Dims)
		if err != nil {
			return nil, err
		}
		sources[i].Bytes = cutTile(bytes, s, tile, memory)
	}
	return c.TransferShardsToDevice(sources, spmdDevice, s, &client.Sharding{OpSharding: sharding.Proto()})
}

// cutTile copies a tile out of a dense array into dense memory of its own, with zeros after the array's end.
func cutTile(bytes []byte, s shape.Shape, tile hlo.Tile, memory []int64) []byte {
	item := s.Dtype.Size()
	out := make([]byte, shape.Product(memory)*item)
	if shape.Product(tile.Size) == 0 {
		return out
	}
	from, to := shape.RowMajorStrides(s.Dims), shape.RowMajorStrides(memory)
	inner := len(memory) - 1
	run := tile.Size[inner] * item
	index := make([]int64, inner)
	for {
		source, target := tile.Offset[inner]*from[inner], int64(0)
		for i, x := range index {
			source += (tile.Offset[i] + x) * from[i]
			target += x * to[i]
		}
		copy(out[target*item:][:run], bytes[source*item:])
		k := inner - 1
		for ; k >= 0; k-- {
			if index[k]++; index[k] < tile.Size[k] {
				break
			}
			index[k] = 0
		}
		if k < 0 {
			return out
		}
	}
}
