// Package executor runs the lazy program: it collects what is live, forms the canonical key,
// finds or compiles the executable, chooses the donors, installs placeholders, and schedules the
// step on the device's queue.
package executor

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Core is the lazy state of the process: the graph and the devices.
//
// Lock order: Core.Mu, then Device.queueMu or Mutex.leftMu, then whatever the client locks inside. Mu is held
// for the length of an operator call or a cut, never across a compile, a transfer or a wait for
// the device; the worker takes it only to put storages back after a failed step. The GIL may be
// held when Mu is taken, since no holder of Mu ever waits for the GIL.
type Core struct {
	Mu      Mutex
	Graph   ir.Graph
	client  client.Client
	devices []*Device
	cache   programCache
	ranges  addressRanges
	options Options
	dumped  atomic.Int64 // programs written to DumpDirectory

	graphs      atomic.Pointer[graphFiles]   // nil for none
	traced      atomic.Pointer[programTrace] // nil for none
	persistence *persistence                 // nil for none
	compiles    compileLog
	analysis    analysis
	replicas    replicas
	uploads     uploads
	deferred    atomic.Bool // a device may have a deferred error
	eager       atomic.Bool
	recorder    *Recorder              // under Mu; nil for none
	strict      atomic.Int32           // how often strict mode was entered and not left
	strictSays  atomic.Pointer[string] // see StrictSays
	precision   atomic.Int64           // an hlo.Precision

	// Of the last cut, under Mu.
	keyScratch, familyScratch []byte
	valueScratch              []*ir.Node
	numberScratch             []ir.Variable
	donorScratch              donors
}

// NewCore makes the lazy state over a client; one Device per local device of the client.
func NewCore(c client.Client, options Options) *Core {
	core := &Core{client: c, options: options, cache: programCache{limit: options.Programs}}
	core.ranges.count = options.AddressRanges
	if core.ranges.count == nil {
		core.ranges.count = heldAddressRanges
	}
	core.Mu.graph = &core.Graph
	core.compiles.ending.L = &core.compiles.mu
	core.uploads.changed.L = &core.uploads.mu
	core.analysis.options = options.Analysis
	if options.DumpDirectory == "" { // what is to be looked at is compiled
		core.persistence = newPersistence(c, options.Cache)
	}
	for i, name := range c.GetLocalDevices() {
		d := &Device{core: core, Index: i, name: name}
		d.queueChanged, d.progressed = sync.NewCond(&d.queueMu), sync.NewCond(&d.queueMu)
		core.devices = append(core.devices, d)
		d.endings.changed = make(chan struct{}, 1)
		go d.work()
		go d.settle()
	}
	if options.Partition {
		core.Partition()
	}
	if options.SaveGraphs != "" {
		if err := core.SaveGraphs(options.SaveGraphs, options.SaveGraphsAs); err != nil {
			fmt.Fprintf(os.Stderr, "xla_go: XLA_SAVE_TENSORS_FMT: %v\n", err)
		}
	}
	return core
}

// Client gives the client that the core runs on.
func (c *Core) Client() client.Client { return c.client }

// Device gives local device index.
func (c *Core) Device(index int) (*Device, error) {
	if index < 0 || index >= len(c.devices) {
		return nil, status.Errorf(status.InvalidArgument, "device xla:%d: expected a device number below %d, the count of local devices", index, len(c.devices))
	}
	if index > 0 && c.Partitioned() {
		return nil, status.Errorf(status.InvalidArgument, "device xla:%d: expected xla:0, which stands for all devices since programs are partitioned over them", index)
	}
	return c.devices[index], nil
}

// WaitIdle waits until every step that any device has queued has ended, and every transfer of a deferred value that has begun.
// BLOCKING; without Core.Mu.
func (c *Core) WaitIdle() {
	c.uploads.wait()
	for _, d := range c.devices {
		d.WaitIdle()
	}
}

// Device is one device's pending work.
type Device struct {
	Index int

	core *Core
	name string

	// Under Core.Mu.
	head, tail     *Root // roots with a pending value, oldest first
	pendingRoots   int
	madeSinceCut   int64
	cuts           int64 // steps that were made of a graph
	queued         int64 // steps that were queued
	deferredErrors deferredErrors
	awaited        *Step   // see TakeAwaited
	unlabelled     []*step // queued, with outputs whose shardings their compile will tell

	partitioning atomic.Pointer[partitioning] // nil while programs run on one device each

	queueMu      sync.Mutex
	queueChanged *sync.Cond // for the worker
	progressed   *sync.Cond // for callers: a step was launched or has settled
	queue        []*step
	launching    *step // was taken from queue and has not been launched yet
	unsettled    int   // steps queued, running or not yet released

	endings endings
	unended atomic.Int64 // steps in endings and being settled
}

// Name gives the client's name of the device, for example CPU:0, or SPMD:0 where it stands for all.
func (d *Device) Name() string {
	if d.partitioning.Load() != nil {
		return spmdDevice
	}
	return d.name
}

// Root is a live place that holds an IR value: a storage, or a read on its way. All its methods
// run under Core.Mu.
type Root struct {
	// HasBuffer is set to 1 once the root holds device memory; may be nil.
	HasBuffer *int32

	value   *ir.Node
	base    *ir.Node // the device value that the pending value replaces: the candidate for donation
	device  *Device
	pending bool
	failure error // the value was lost; reads raise this until it is overwritten

	annotation     *hlo.Sharding // how values of annotationDims are to lie; nil for none
	annotationDims []int64
	loose          bool // the pending value need not lie as its base does

	previous, next *Root
}

// Init ties an empty root to a device.
func (r *Root) Init(d *Device) { *r = Root{device: d} }

// Device gives the device that the root lives on.
func (r *Root) Device() *Device { return r.device }

// Value gives the current value, nil where nothing was written yet.
func (r *Root) Value() *ir.Node { return r.value }

// Refuse gives the error of a value that no step can compute.
func (r *Root) Refuse() error {
	if r.value != nil && r.value.Unknown {
		return ir.ErrUnknown()
	}
	return nil
}

// Failure gives the error that took the value away, if one did.
func (r *Root) Failure() error { return r.failure }

// Set makes n the root's value.
//
// The device value that a pending value replaces is kept as the root's base until the next cut:
// its memory may be reused by the step that overwrites it, and it comes back if that step cannot
// be launched.
func (r *Root) Set(n *ir.Node) {
	graph := &r.device.core.Graph
	graph.Retain(n)
	old := r.value
	r.value, r.failure = n, nil
	if old != nil {
		if old.IsLeaf() && !n.IsLeaf() && r.base == nil {
			r.base = old // the reference moves along
		} else {
			graph.Release(old)
		}
	}
	if n.IsLeaf() {
		r.dropBase()
		r.loose = false
		if r.HasBuffer != nil {
			*r.HasBuffer = 1
		}
	}
	r.setPending(!n.IsLeaf() && !n.Unknown)
}

func (r *Root) dropBase() {
	if r.base != nil {
		r.device.core.Graph.Release(r.base)
		r.base = nil
	}
}

// Drop forgets the value. Idempotent.
func (r *Root) Drop() {
	r.setPending(false)
	if r.value != nil {
		r.device.core.Graph.Release(r.value)
		r.value = nil
	}
	r.dropBase()
}

func (r *Root) setPending(pending bool) {
	if r.pending == pending {
		return
	}
	r.pending = pending
	d := r.device
	if pending {
		d.pendingRoots++
		r.previous, r.next = d.tail, nil
		if d.tail != nil {
			d.tail.next = r
		} else {
			d.head = r
		}
		d.tail = r
		return
	}
	d.pendingRoots--
	if r.previous != nil {
		r.previous.next = r.next
	} else {
		d.head = r.next
	}
	if r.next != nil {
		r.next.previous = r.previous
	} else {
		d.tail = r.previous
	}
	r.previous, r.next = nil, nil
}

// SetEager makes each operator call a step of its own (true), or lets calls gather in a graph again.
func (c *Core) SetEager(on bool) { c.eager.Store(on) }

// IsEager is true where SetEager has said so.
func (c *Core) IsEager() bool { return c.eager.Load() }

// EndCall ends an operator call on the device: frees its unused nodes, and cuts the graph where it
// has grown past the limit, or always in eager mode. A cut only queues work. Under Core.Mu.
func (d *Device) EndCall() error {
	d.madeSinceCut += int64(d.core.Graph.Temporaries())
	d.core.Graph.EndCall()
	if d.label() != nil {
		return nil // the graph waits for the next call: this one must not wait for a compile
	}
	if d.core.eager.Load() {
		_, err := d.Cut("eager mode")
		return err
	}
	// In strict mode only the user ends a graph, and one that is recorded stays whole.
	if limit := d.core.options.NodeLimit; limit > 0 && d.madeSinceCut > limit && d.core.strict.Load() == 0 && d.core.recorder == nil {
		_, err := d.cut("node limit", nil)
		return err
	}
	return nil
}
