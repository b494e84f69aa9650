package pjrt

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// testPluginClient makes a client of the test plugin.
func testPluginClient(t *testing.T, options map[string]any) *Client {
	t.Helper()
	c, err := loadTestPlugin(t).NewClient(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		nothingAlive(t, t.Name())
	})
	return c
}

func vectorOf(t *testing.T, c *Client, device int, values ...float32) *Buffer {
	t.Helper()
	b, err := c.FromHost(Host{Bytes: floats(values...), Dtype: dtype.F32, Dims: []int64{int64(len(values))}}, c.AddressableDevices()[device], nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Destroy() })
	return b
}

func adder(t *testing.T, c *Client, donated bool, options []byte) *Executable {
	t.Helper()
	e, err := c.Compile(addProgram(donated), FormatHLO, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Destroy() })
	return e
}

func execute(t *testing.T, e *Executable, run Run) []*Event {
	t.Helper()
	events, err := e.Execute(run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		DestroyAll(run.Outputs)
		for _, event := range events {
			if event != nil {
				event.Destroy()
			}
		}
	})
	return events
}

func wantVector(t *testing.T, b *Buffer, values ...float32) {
	t.Helper()
	got := make([]byte, 4*len(values))
	if err := b.ToHost(got, 1); err != nil || !slices.Equal(got, floats(values...)) {
		t.Errorf("read % x, %v, want %v", got, err, values)
	}
}

// The calls that block tell the failure of what they wait for, and of waiting itself.
func TestBlockingCalls(t *testing.T) {
	for _, option := range []string{"fail:Event_Await", "outcome:LoadedExecutable_Execute"} {
		t.Run(option, func(t *testing.T) {
			c := testPluginClient(t, map[string]any{option: int64(status.DataLoss), "late:LoadedExecutable_Execute": 20})
			b, e := vectorOf(t, c, 0, 1, 2, 3, 4), adder(t, c, false, nil)
			run := Run{Arguments: []*Buffer{b, b}, Outputs: make([]*Buffer, 1), NumDevices: 1}
			events := execute(t, e, run)
			for what, err := range map[string]error{
				"Await of the value": run.Outputs[0].Await(), "Await of the run": events[0].Await(), "ToHost": run.Outputs[0].ToHost(make([]byte, 16), 1),
			} {
				if status.CodeOf(err) != status.DataLoss {
					t.Errorf("%s gives %v", what, err)
				}
			}
		})
	}
}

// A plugin that cannot even tell the code of an error.
func TestErrorWithoutCode(t *testing.T) {
	c := testPluginClient(t, map[string]any{"fail:Error_GetCode": int64(status.Internal), "fail:Client_Compile": int64(status.DataLoss)})
	if _, err := c.Compile(addProgram(false), FormatHLO, nil); status.CodeOf(err) != status.Unknown || !strings.Contains(err.Error(), "the test asked") {
		t.Errorf("%v, want Unknown with the message", err)
	}
}

func TestErrorPayload(t *testing.T) {
	c := testPluginClient(t, map[string]any{"fail:Client_Compile": int64(status.Aborted)})
	_, err := c.Compile(addProgram(false), FormatHLO, nil)
	var payload *ErrorPayload
	if !errors.As(err, &payload) || string(payload.Values["test.Detail"]) != "the test asked for a failure" {
		t.Errorf("payload %v of %v", payload, err)
	}
}

func TestOutOfMemory(t *testing.T) {
	c := testPluginClient(t, map[string]any{"memory_limit": 40})
	a, e := vectorOf(t, c, 0, 1, 2, 3, 4), adder(t, c, false, nil)
	b := vectorOf(t, c, 0, 1, 2, 3, 4)
	run := Run{Arguments: []*Buffer{a, b}, Outputs: make([]*Buffer, 1), NumDevices: 1}
	if _, err := e.Execute(run); status.CodeOf(err) != status.ResourceExhausted || !strings.Contains(err.Error(), "32 of 40") {
		t.Errorf("a run without room: %v", err)
	}
	stats, err := c.Devices()[0].MemoryStats()
	if err != nil || stats.BytesInUse != 32 || stats.Optional["bytes_limit"] != 40 || stats.Optional["peak_bytes_in_use"] != 32 {
		t.Errorf("%v, %v", stats, err)
	}
	b.Destroy()
	run.Arguments[1] = a
	execute(t, e, run)
	wantVector(t, run.Outputs[0], 2, 4, 6, 8)
}

// Copies that were started last are done first, and each caller gets its own.
func TestOutOfOrder(t *testing.T) {
	c := testPluginClient(t, map[string]any{"late:Buffer_ToHostBuffer": 40, "late:Buffer_CopyRawToHost": 5})
	b := vectorOf(t, c, 0, 1, 2, 3, 4)
	order := make(chan string, 2)
	slow, fast := make([]byte, 16), make([]byte, 4)
	if err := b.StartToHost(slow, 1, func(error) { order <- "slow" }); err != nil {
		t.Fatal(err)
	}
	if err := b.StartReadRaw(fast, 8, func(error) { order <- "fast" }); err != nil {
		t.Fatal(err)
	}
	if first, second := <-order, <-order; first != "fast" || second != "slow" {
		t.Errorf("%s came before %s", first, second)
	}
	if !slices.Equal(slow, floats(1, 2, 3, 4)) || !slices.Equal(fast, floats(3)) {
		t.Errorf("read % x and % x", slow, fast)
	}
}

func TestSeveralDevices(t *testing.T) {
	c := testPluginClient(t, map[string]any{"devices": 3, "delay_ms": 3})
	// Two replicas, on devices 2 and 0.
	assignment := field(number(number(nil, 1, 2), 2, 1), 3, field(nil, 1, []byte{2, 0}))
	e := adder(t, c, false, field(nil, 3, field(number(nil, 4, 2), 9, assignment)))
	if ids := []int{e.AddressableDevices()[0].ID(), e.AddressableDevices()[1].ID()}; !slices.Equal(ids, []int{2, 0}) {
		t.Errorf("devices %v", ids)
	}
	places, err := e.LogicalDevices()
	if err != nil || !slices.Equal(places, []LogicalDevice{{0, 0}, {1, 0}}) {
		t.Errorf("places %v, %v", places, err)
	}
	a, b := vectorOf(t, c, 2, 1, 1, 1, 1), vectorOf(t, c, 0, 2, 2, 2, 2)
	run := Run{Arguments: []*Buffer{a, a, b, b}, Outputs: make([]*Buffer, 2), NumDevices: 2}
	for _, event := range execute(t, e, run) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := event.AwaitContext(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
	wantVector(t, run.Outputs[0], 2, 2, 2, 2)
	wantVector(t, run.Outputs[1], 4, 4, 4, 4)
}

// A donated argument is gone after the run, unless the run keeps it or somebody has borrowed it.
func TestDonationMarks(t *testing.T) {
	c := testPluginClient(t, nil)
	e := adder(t, c, true, nil)
	b := vectorOf(t, c, 0, 1, 1, 1, 1)
	for _, test := range []struct {
		name    string
		kept    []int64
		lent    bool
		deleted bool
	}{{"donated", nil, false, true}, {"kept", []int64{0}, false, false}, {"lent", nil, true, false}} {
		a := vectorOf(t, c, 0, 1, 2, 3, 4)
		if test.lent {
			if _, ready, err := a.Lend(); !ready || err != nil {
				t.Fatal(ready, err)
			}
		}
		run := Run{Arguments: []*Buffer{a, b}, Outputs: make([]*Buffer, 1), NumDevices: 1, Kept: test.kept}
		execute(t, e, run)
		wantVector(t, run.Outputs[0], 2, 3, 4, 5)
		if a.IsDeleted() != test.deleted {
			t.Errorf("%s: deleted %v", test.name, a.IsDeleted())
		}
		if test.lent {
			if err := a.Return(); err != nil {
				t.Error(err)
			}
		}
	}
}

// An alias can be an argument before what it stands for exists; its failure is the run's.
func TestAliasBuffers(t *testing.T) {
	c := testPluginClient(t, nil)
	e, m := adder(t, c, false, nil), c.Devices()[0].DefaultMemory()
	for _, failure := range []error{nil, status.Errorf(status.Unavailable, "it never came to be")} {
		alias, promise, err := c.AliasBuffer(vector, m)
		if err != nil {
			t.Fatal(err)
		}
		run := Run{Arguments: []*Buffer{alias, alias}, Outputs: make([]*Buffer, 1), NumDevices: 1}
		execute(t, e, run)
		if ready, _ := run.Outputs[0].IsReady(); ready {
			t.Error("a run is over before its argument is there")
		}
		var b *Buffer
		if failure == nil {
			b = vectorOf(t, c, 0, 1, 2, 3, 4)
		}
		if err := promise.Fulfill(b, failure); err != nil {
			t.Error(err)
		}
		if err := promise.Fulfill(b, failure); status.CodeOf(err) != status.FailedPrecondition {
			t.Errorf("fulfilled twice: %v", err)
		}
		if failure == nil {
			wantVector(t, run.Outputs[0], 2, 4, 6, 8)
		} else if err := run.Outputs[0].Await(); status.CodeOf(err) != status.Unavailable {
			t.Errorf("a run of what never came to be: %v", err)
		}
		alias.Destroy()
	}
}

// A client stays as long as something of it is alive.
func TestCloseWhileUsed(t *testing.T) {
	c := testPluginClient(t, nil)
	m, err := c.NewTransferManager([]shape.Shape{vector}, c.Devices()[0].DefaultMemory())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), "1 transfer managers") {
		t.Errorf("closed beside a transfer manager: %v", err)
	}
	for range 2 {
		if err := m.Destroy(); err != nil {
			t.Error(err)
		}
	}
	if _, err := m.BufferCount(); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("a destroyed manager: %v", err)
	}
}

func TestCancelledWait(t *testing.T) {
	c := testPluginClient(t, map[string]any{"never:Buffer_ToHostBuffer": true})
	b := vectorOf(t, c, 0, 1, 2, 3, 4)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := b.ToHostContext(ctx, make([]byte, 16), 1); status.CodeOf(err) != status.Cancelled {
		t.Errorf("%v", err)
	}
}

// An older plugin: what it does not have is Unimplemented, by name, and older ways are taken.
func TestOlderPlugin(t *testing.T) {
	t.Setenv("TESTPLUGIN_OPTIONS", "minor=81;functions=118;lack=Buffer_CopyToMemory;extensions=-4 5")
	p := loadTestPlugin(t)
	if _, minor := p.APIVersion(); minor != 81 || p.Has("Client_CreateErrorBuffer") || !p.Has("Client_CreateAliasBuffer") {
		t.Errorf("version 0.%d", minor)
	}
	if !p.HasExtension("Layouts") || !p.HasExtension("FFI") || p.HasExtension("Profiler") || len(p.Extensions()) != 2 {
		t.Errorf("extensions %v", p.Extensions())
	}
	c, err := p.NewClient(map[string]any{"devices": 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		nothingAlive(t, t.Name())
	}()
	e, b := adder(t, c, false, nil), vectorOf(t, c, 0, 1, 2, 3, 4)
	defer e.Destroy()
	defer b.Destroy()
	missing := func(function string, err error) {
		t.Helper()
		if status.CodeOf(err) != status.Unimplemented || !strings.Contains(err.Error(), function) || !strings.Contains(err.Error(), "0.81") || !strings.Contains(err.Error(), p.Path()) {
			t.Errorf("%v, want Unimplemented that names %s, the plugin and its version", err, function)
		}
	}
	_, err = c.ErrorBuffer(err, vector, c.Devices()[0].DefaultMemory())
	missing("PJRT_Client_CreateErrorBuffer", err)
	_, err = p.CreateEvent()
	missing("PJRT_Event_Create", err)
	_, err = e.Program().OutputLayouts()
	if err != nil {
		t.Error(err)
	}
	_, err = e.Program().ParameterLayouts() // behind the end of the older, shorter extension
	missing("PJRT_Layouts_Extension.PJRT_Layouts_PJRT_Executable_GetParameterLayouts", err)
	_, err = b.Raw()
	missing("PJRT_RawBuffer_Extension", err)
	_, err = p.NewProfiler(nil)
	missing("PJRT_Profiler_Extension.create", err)
	_, err = b.CopyToMemory(c.Devices()[1].DefaultMemory())
	missing("PJRT_Buffer_CopyToMemory", err)
	to, err := b.CopyTo(c.Devices()[1])
	if err != nil {
		t.Fatal(err)
	}
	defer to.Destroy()
	wantVector(t, to, 1, 2, 3, 4)
}
