// Package fakeclient is the contract in plain Go, for tests of what stands on a client: no plugin, no compiler,
// but real threads, and each compile, run and transfer can be made to fail, to wait or to take its time. What
// a program computes is a Go function that the test gives.
//
// It has what the executor needs. Nothing of shards, addresses, memory owned outside and serialized programs.
package fakeclient

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Program is what a compile makes.
type Program struct {
	Parameters, Results []shape.Shape
	Donors              []int // parameters that a run consumes
	// Run computes the results, dense and row-major, from such arguments, which it must not change.
	Run func(arguments [][]byte) ([][]byte, error)
}

// Client is the contract over host memory.
type Client struct {
	rest
	compile  func(client.CompileInstance) (Program, error)
	devices  []string
	faults   faults
	live     atomic.Int64 // values in memory
	programs atomic.Int64
	working  sync.Mutex
	idle     *sync.Cond
	running  map[string]int // runs under way, by device
}

var _ client.Client = (*Client)(nil)

// New makes a client of that many devices. compile may be nil where nothing is compiled.
func New(devices int, compile func(client.CompileInstance) (Program, error)) *Client {
	c := &Client{compile: compile, running: map[string]int{}}
	c.idle = sync.NewCond(&c.working)
	for i := range devices {
		c.devices = append(c.devices, fmt.Sprintf("FAKE:%d", i))
	}
	return c
}

// Live counts what is not closed yet: values in memory (runs under way hold theirs) and programs.
func (c *Client) Live() (values, programs int64) { return c.live.Load(), c.programs.Load() }

// Close waits for running work. FailedPrecondition while Data or Computations are open. Idempotent.
func (c *Client) Close() error {
	if err := c.WaitDeviceOps(nil); err != nil {
		return err
	}
	if values, programs := c.Live(); values != 0 || programs != 0 {
		return status.Errorf(status.FailedPrecondition, "Close(): %d data and %d computations are open", values, programs)
	}
	return nil
}

// CreateDataPlaceholder makes Data without memory, to be filled by Assign.
func (c *Client) CreateDataPlaceholder(device string, s shape.Shape, _ *client.Sharding) (client.Data, error) {
	if err := c.check(device); err != nil {
		return nil, status.Annotate(err, "CreateDataPlaceholder()")
	}
	return c.newData(device, s, nil), nil
}

// TransferToDevice copies host arrays that are dense and given as Bytes. Each Release is called once.
func (c *Client) TransferToDevice(sources []client.TensorSource) ([]client.Data, error) {
	result := make([]client.Data, 0, len(sources))
	var failure error
	for i := range sources {
		if failure == nil {
			d, err := c.upload(&sources[i])
			if err == nil {
				result = append(result, d)
			}
			failure = status.Annotate(err, "TransferToDevice(): array %d (%s)", i, sources[i].Shape)
		}
		if sources[i].Release != nil {
			sources[i].Release()
		}
	}
	if failure != nil {
		for _, d := range result {
			d.Close()
		}
		return nil, failure
	}
	return result, nil
}

func (c *Client) upload(source *client.TensorSource) (*data, error) {
	size := source.Shape.ByteSize()
	if source.Address != 0 || source.ByteStrides != nil {
		return nil, unsupported("TransferToDevice of strided memory or by address")
	}
	if int64(len(source.Bytes)) < size {
		return nil, status.Errorf(status.InvalidArgument, "expected %d bytes for shape %s, got %d", size, source.Shape, len(source.Bytes))
	}
	if err := c.check(source.Device); err != nil {
		return nil, err
	}
	if err := c.faults.begin(Upload); err != nil {
		return nil, err
	}
	m := c.newMemory()
	m.settle(slices.Clone(source.Bytes[:size]), nil)
	return c.newData(source.Device, source.Shape, m), nil
}

// TransferFromDevice waits for the values and copies them. BLOCKING.
func (c *Client) TransferFromDevice(list []client.Data) ([]client.Literal, error) {
	result := make([]client.Literal, len(list))
	for i, d := range list {
		m, err := c.usable(d)
		if err == nil {
			var bytes []byte
			if bytes, err = m.wait(); err == nil {
				err = c.faults.begin(Download)
			}
			m.Release()
			result[i] = client.Literal{Shape: d.Shape(), Bytes: slices.Clone(bytes)}
		}
		if err != nil {
			return nil, status.Annotate(err, "TransferFromDevice(): array %d", i)
		}
	}
	return result, nil
}

// Compile makes programs of what the test's function gives. BLOCKING.
func (c *Client) Compile(instances []client.CompileInstance) ([]client.Computation, error) {
	var result []client.Computation
	for _, instance := range instances {
		device := slices.Concat(instance.Devices, []string{instance.CompilationDevice})[0]
		err := c.check(device)
		if err == nil {
			err = c.faults.begin(Compile)
		}
		var p Program
		if err == nil {
			p, err = c.compile(instance)
		}
		if err != nil {
			for _, made := range result {
				made.Close()
			}
			return nil, status.Annotate(err, "Compile(): program %s", instance.Name)
		}
		c.programs.Add(1)
		result = append(result, &computation{Program: p, client: c, name: instance.Name, device: device})
	}
	return result, nil
}

// ExecuteComputation queues a run, which goes on on a thread of its own, and returns at once.
func (c *Client) ExecuteComputation(computed client.Computation, arguments []client.Data, device string, options client.ExecuteOptions) ([]client.Data, error) {
	k, ok := computed.(*computation)
	if !ok || k.client != c || k.closed.Load() {
		return nil, status.Errorf(status.FailedPrecondition, "ExecuteComputation(): expected an open computation of this client, got %T", computed)
	}
	if device != k.device || len(arguments) != len(k.Parameters) || !options.ExplodeTuple {
		return nil, status.Errorf(status.InvalidArgument, "ExecuteComputation(): %s: expected %d arguments on %s and ExplodeTuple, got %d on %s", k.name, len(k.Parameters), k.device, len(arguments), device)
	}
	held := make([]*memory, 0, len(arguments))
	release := func() {
		for _, m := range held {
			m.Release()
		}
	}
	for i, a := range arguments {
		m, err := c.usable(a)
		if err != nil {
			release()
			return nil, status.Annotate(err, "ExecuteComputation(): %s, argument %d", k.name, i)
		}
		held = append(held, m)
	}
	if err := c.faults.begin(Execute); err != nil {
		release()
		return nil, status.Annotate(err, "ExecuteComputation(): %s", k.name)
	}
	for _, i := range k.Donors {
		if !slices.Contains(options.NonDonatable, i) {
			held[i].donated.Store(true)
		}
	}
	outputs, result := make([]*memory, len(k.Results)), make([]client.Data, len(k.Results))
	for i, s := range k.Results {
		outputs[i] = c.newMemory()
		outputs[i].Retain() // the run's own hold
		result[i] = c.newData(device, s, outputs[i])
	}
	delay, gate, failure := c.faults.next(Result)
	c.work(device, 1)
	go func() {
		values, err := run(k.Run, held, delay, gate, failure)
		for i, o := range outputs {
			var bytes []byte
			if err == nil {
				bytes = values[i]
			}
			o.settle(bytes, err)
			o.Release()
		}
		release()
		c.work(device, -1)
		options.End()
	}()
	return result, nil
}

// run computes once the arguments are there. A failed argument fails the run.
func run(f func([][]byte) ([][]byte, error), arguments []*memory, delay time.Duration, gate chan struct{}, failure error) ([][]byte, error) {
	values := make([][]byte, len(arguments))
	for i, m := range arguments {
		var err error
		if values[i], err = m.wait(); err != nil {
			return nil, err
		}
	}
	if gate != nil {
		<-gate
	}
	time.Sleep(delay)
	if failure != nil {
		return nil, failure
	}
	return f(values)
}

// OnReadyCallback calls fn once, on a goroutine of its own.
func (c *Client) OnReadyCallback(d client.Data, fn func(err error)) error {
	m, err := c.usable(d)
	if err != nil {
		return status.Annotate(err, "OnReadyCallback()")
	}
	// Its hold on the memory is work that WaitDeviceOps waits for; what fn does is not.
	device := d.Device()
	c.work(device, 1)
	go func() {
		_, err := m.wait()
		m.Release()
		c.work(device, -1)
		fn(err)
	}()
	return nil
}

// IsReady is true where a value can be read without waiting.
func (c *Client) IsReady(d client.Data) bool {
	ready, _ := c.Readiness(d)
	return ready
}

// Readiness is IsReady together with the error that a ready value failed with.
func (c *Client) Readiness(d client.Data) (ready bool, err error) {
	m, err := c.usable(d)
	if err != nil {
		return false, err
	}
	defer m.Release()
	select {
	case <-m.ready:
		return true, m.err
	default:
		return false, nil
	}
}
