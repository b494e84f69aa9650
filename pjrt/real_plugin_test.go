package pjrt

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// addText is addProgram in StableHLO.
var addText = []byte(`func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %sum = stablehlo.add %a, %b : tensor<4xf32>
  return %sum : tensor<4xf32>
}`)

// works fails the test unless err is nil or says that the plugin does not have it, or no compiler without devices. It says whether it is nil.
func works(t *testing.T, what string, err error) bool {
	t.Helper()
	if status.CodeOf(err) == status.Unimplemented || strings.Contains(fmt.Sprint(err), "compiler") && status.CodeOf(err) == status.NotFound {
		t.Logf("%s: %v", what, err)
	} else if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	return err == nil
}

// Everything beyond the common functions, on a real plugin: it works, or the plugin's own word says
// that it does not, and nothing crashes.
func TestRealPlugin(t *testing.T) {
	c := testClient(t)
	p, d := c.Plugin(), c.AddressableDevices()[0]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	t.Logf("API 0.%d, extensions %v", p.minor, p.Extensions())

	b := upload(t, c, Host{Bytes: floats(1, 2, 3, 4), Dtype: dtype.F32, Dims: []int64{4}})
	defer b.Destroy()
	if err := b.AwaitContext(ctx); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 16)
	if err := b.ToHostContext(ctx, got, 1); err != nil || !bytes.Equal(got, floats(1, 2, 3, 4)) {
		t.Errorf("read % x, %v", got, err)
	}
	if part := make([]byte, 8); works(t, "ReadRaw", b.ReadRaw(ctx, part, 4)) && !bytes.Equal(part, floats(2, 3)) {
		t.Errorf("read % x from 4 on", part)
	}
	layout, err := b.Layout()
	works(t, "Layout", err)
	other, err := c.DefaultLayout(vector)
	if works(t, "DefaultLayout", err) && layout != other {
		t.Errorf("layouts %q and %q", layout, other)
	}
	_, err = b.UnpaddedDimensions()
	works(t, "UnpaddedDimensions", err)
	if on, err := b.IsOnCPU(); works(t, "IsOnCPU", err) && !on {
		t.Error("a value on the CPU is not on the CPU")
	}
	if found, err := c.LookupDevice(d.ID()); works(t, "LookupDevice", err) && found != d {
		t.Errorf("device %v", found)
	}
	if _, err := c.LookupDevice(999); err == nil {
		t.Error("there is a device 999")
	}
	memories, err := c.Memories()
	if works(t, "Memories", err) && len(memories) == 0 {
		t.Error("no memories")
	}
	for _, m := range memories {
		_, err = m.KindID()
		works(t, "KindID", err)
		_, err = m.DebugString()
		works(t, "DebugString", err)
		_, err = m.Devices()
		works(t, "Devices", err)
	}
	if ids, err := c.DefaultDeviceAssignment(1, 1); works(t, "DefaultDeviceAssignment", err) && ids[0][0] != d.ID() {
		t.Errorf("assignment %v", ids)
	}
	_, err = d.DebugString()
	works(t, "DebugString", err)
	_, err = d.CurrentAttributes()
	works(t, "CurrentAttributes", err)
	_, err = d.MemoryStats()
	works(t, "MemoryStats", err)
	if description, err := d.description(); works(t, "description", err) {
		_, err := description.Memories() // a plugin may describe none although it has some
		works(t, "memory descriptions", err)
	}
	realTopology(t, c)
	realPrograms(t, c, b)
	realTransfers(t, ctx, c, b)
	if event, err := p.CreateEvent(); works(t, "CreateEvent", err) {
		works(t, "Set", event.Set(status.Errorf(status.Aborted, "as asked")))
		if err := event.AwaitContext(ctx); status.CodeOf(err) != status.Aborted {
			t.Errorf("an event that was set to fail gives %v", err)
		}
		event.Destroy()
	}
	if f, err := p.NewProfiler(nil); works(t, "NewProfiler", err) {
		works(t, "Start", f.Start())
		works(t, "Stop", f.Stop())
		f.Destroy()
	}
}

func realTopology(t *testing.T, c *Client) {
	topology, err := c.TopologyDescription()
	if !works(t, "TopologyDescription", err) {
		return
	}
	if name, err := topology.PlatformName(); works(t, "PlatformName", err) && name != c.PlatformName() {
		t.Errorf("platform %q", name)
	}
	devices, err := topology.Devices()
	if works(t, "Devices", err) && len(devices) != len(c.Devices()) {
		t.Errorf("%d devices", len(devices))
	}
	_, err = topology.Attributes()
	works(t, "Attributes", err)
	_, err = topology.Fingerprint()
	works(t, "Fingerprint", err)
	_, err = topology.DefaultLayout(vector)
	works(t, "DefaultLayout", err)
	_, err = topology.MemoryKindIDs()
	works(t, "MemoryKindIDs", err)
	serialized, err := topology.Serialize()
	if works(t, "Serialize", err) {
		if again, err := c.Plugin().DeserializeTopology(serialized); works(t, "DeserializeTopology", err) {
			again.Destroy()
		}
	}
	if program, err := topology.Compile(addText, FormatMLIR, nil, c); works(t, "Compile", err) {
		if e, err := c.Load(program, nil); works(t, "Load", err) {
			e.Destroy()
		}
		program.Destroy()
	}
}

func realPrograms(t *testing.T, c *Client, b *Buffer) {
	e, err := c.Compile(addText, FormatMLIR, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Destroy()
	p := e.Program()
	if n, err := p.NumReplicas(); works(t, "NumReplicas", err) && n != 1 {
		t.Errorf("%d replicas", n)
	}
	if n, err := p.NumPartitions(); works(t, "NumPartitions", err) && n != 1 {
		t.Errorf("%d partitions", n)
	}
	_, err = p.CodeSize()
	works(t, "CodeSize", err)
	_, err = p.CostAnalysis()
	works(t, "CostAnalysis", err)
	if m, err := p.CompiledMemory(); works(t, "CompiledMemory", err) && (m.Arguments != 32 || m.Outputs != 16) {
		t.Errorf("memory %+v", m)
	}
	kinds, err := p.OutputMemoryKinds()
	if works(t, "OutputMemoryKinds", err) && len(kinds) != 1 {
		t.Errorf("kinds %v", kinds)
	}
	_, err = p.ParameterMemoryKinds()
	works(t, "ParameterMemoryKinds", err)
	_, err = p.CompileOptions()
	works(t, "CompileOptions", err)
	_, err = p.OutputLayouts()
	works(t, "OutputLayouts", err)
	_, err = p.ParameterLayouts()
	works(t, "ParameterLayouts", err)
	_, err = p.ParameterShardings()
	works(t, "ParameterShardings", err)
	_, err = p.OutputShardings()
	works(t, "OutputShardings", err)
	_, err = e.DeviceAssignment()
	works(t, "DeviceAssignment", err)
	_, err = e.LogicalDevices()
	works(t, "LogicalDevices", err)
	run := Run{Arguments: []*Buffer{b, b}, Outputs: make([]*Buffer, 1), NumDevices: 1}
	if x, err := c.Plugin().NewExecuteContext(); works(t, "NewExecuteContext", err) {
		defer x.Destroy()
		run.Context = x
	}
	execute(t, e, run)
	wantVector(t, run.Outputs[0], 2, 4, 6, 8)
	if err := e.Delete(); works(t, "Delete", err) {
		_, err := e.IsDeleted() // CPU plugins keep it all the same
		works(t, "IsDeleted", err)
	}
}

func realTransfers(t *testing.T, ctx context.Context, c *Client, b *Buffer) {
	d := c.AddressableDevices()[0]
	if manager, err := c.NewTransferManager([]shape.Shape{vector}, d.DefaultMemory()); works(t, "NewTransferManager", err) {
		filled, err := manager.Retrieve(0)
		if works(t, "Retrieve", err) {
			first, second := floats(1, 2), floats(3, 4)
			works(t, "TransferData", awaitStarted(ctx, func(done func(error)) error { return manager.TransferData(0, first, 0, false, done) }))
			works(t, "TransferData", awaitStarted(ctx, func(done func(error)) error { return manager.TransferData(0, second, 8, true, done) }))
			if works(t, "the value", filled.AwaitContext(ctx)) {
				wantVector(t, filled, 1, 2, 3, 4)
			}
			filled.Destroy()
		}
		manager.Destroy()
	}
	values := Host{Bytes: floats(4, 3, 2, 1), Dtype: dtype.F32, Dims: []int64{4}}
	for _, m := range d.Memories() {
		if there, err := c.FromHostToMemory(values, m, nil); works(t, "FromHostToMemory "+m.Kind(), err) {
			wantVector(t, there, 4, 3, 2, 1)
			there.Destroy()
		}
	}
	zeroCopy(t, c)
	if empty, err := c.Uninitialized(vector, d); works(t, "Uninitialized", err) {
		empty.Destroy()
	}
	if failed, err := c.ErrorBuffer(status.Errorf(status.DataLoss, "as asked"), vector, d.DefaultMemory()); works(t, "ErrorBuffer", err) {
		if err := failed.AwaitContext(ctx); status.CodeOf(err) != status.DataLoss {
			t.Errorf("a buffer made to fail gives %v", err)
		}
		failed.Destroy()
	}
	if alias, promise, err := c.AliasBuffer(vector, d.DefaultMemory()); works(t, "AliasBuffer", err) {
		value := upload(t, c, Host{Bytes: floats(1, 2, 3, 4), Dtype: dtype.F32, Dims: []int64{4}})
		defer value.Destroy()
		if works(t, "Fulfill", promise.Fulfill(value, nil)) && works(t, "the alias", alias.AwaitContext(ctx)) {
			wantVector(t, alias, 1, 2, 3, 4)
		}
		alias.Destroy()
	}
	if cast, err := b.Bitcast(shape.Make(dtype.S32, 2, 2)); works(t, "Bitcast", err) {
		cast.Destroy()
	}
	if r, err := b.Raw(); works(t, "Raw", err) {
		if n, err := r.Size(); works(t, "Size", err) && n < 16 {
			t.Errorf("%d bytes", n)
		}
		r.Destroy()
	}
	if source, err := c.FromHost(Host{Bytes: floats(5, 6, 7, 8), Dtype: dtype.F32, Dims: []int64{4}}, d, nil); works(t, "FromHost", err) {
		if after, ready, err := source.DonateAfter(); works(t, "DonateAfter", err) {
			ready(nil)
			wantVector(t, after, 5, 6, 7, 8)
			after.Destroy()
		}
		source.Destroy()
	}
}

// The memory is given back, whether the plugin copied it or used it itself.
func zeroCopy(t *testing.T, c *Client) {
	b := upload(t, c, Host{Bytes: floats(1, 2, 3, 4), Dtype: dtype.F32, Dims: []int64{4}})
	defer b.Destroy()
	b.Await()
	address, err := b.UnsafePointer() // host memory outside of Go, as devices are the CPU
	if err != nil {
		t.Fatal(err)
	}
	free := make(chan struct{})
	shared, err := c.FromHostZeroCopy(Host{Address: address, Dtype: dtype.F32, Dims: []int64{4}}, c.AddressableDevices()[0], func() { close(free) })
	if !works(t, "FromHostZeroCopy", err) {
		return
	}
	wantVector(t, shared, 1, 2, 3, 4)
	shared.Destroy()
	select {
	case <-free:
	case <-time.After(10 * time.Second):
		t.Error("the memory was never given back")
	}
}
