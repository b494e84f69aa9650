package plugintest

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/clienttest"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt/testplugin"
)

// surfacing are functions whose failure no client can do without telling.
var surfacing = []string{
	"Client_Create", "Client_PlatformName", "Client_Devices", "Client_AddressableDevices", "Client_Compile", "Client_BufferFromHostBuffer",
	"LoadedExecutable_Execute", "Executable_NumOutputs", "Executable_Serialize", "Executable_DeserializeAndLoad", "Executable_OptimizedProgram",
	"Buffer_ReadyEvent", "Device_MemoryStats", "Client_Destroy",
}

// asynchronous are functions that start work which the clients wait for.
var asynchronous = []string{"Client_BufferFromHostBuffer", "LoadedExecutable_Execute", "Buffer_ToHostBuffer", "Buffer_CopyToMemory"}

// Faults goes through the contract while each function of the plugin fails in turn, with every status
// code: whatever comes out is an error of the contract, nothing hangs, and nothing is left on either side.
func Faults(t *testing.T, construct Construct) {
	path := testplugin.Build(t)
	before := pluginHolds(t, construct, path)
	for _, entry := range testplugin.Entries(t) {
		told := 0
		for code := status.Cancelled; code <= status.Unauthenticated; code++ {
			what := fmt.Sprintf("%s fails with %v", entry, code)
			failures := walk(t, what, construct, path, map[string]any{"fail:" + entry: int64(code)})
			if slices.ContainsFunc(failures, func(err error) bool { return status.CodeOf(err) == code }) {
				told++
			}
			for _, err := range failures {
				var typed *status.Error
				if !errors.As(err, &typed) {
					t.Errorf("%s: %v is a %T", what, err, err)
				}
			}
		}
		if codes := int(status.Unauthenticated); slices.Contains(surfacing, entry) && told < codes-1 { // one may be a missing function's
			t.Errorf("%s fails, and was told for %d of %d codes", entry, told, codes)
		}
		if after := pluginHolds(t, construct, path); after != before {
			t.Fatalf("%s: the plugin holds %s, before %s", entry, after, before)
		}
	}
	for _, entry := range asynchronous {
		for code := status.Cancelled; code <= status.Unauthenticated; code++ {
			what := fmt.Sprintf("the work of %s ends with %v", entry, code)
			for _, err := range walk(t, what, construct, path, map[string]any{"outcome:" + entry: int64(code), "late:" + entry: 1}) {
				if status.CodeOf(err) != code && status.CodeOf(err) != status.FailedPrecondition {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		if failures := walk(t, entry+" is late", construct, path, map[string]any{"late:" + entry: 3}); len(failures) != 0 {
			t.Errorf("%s is late: %v", entry, failures)
		}
	}
	if after := pluginHolds(t, construct, path); after != before {
		t.Errorf("the plugin holds %s, before %s", after, before)
	}
}

// pluginHolds gives what the plugin itself counts as alive beside a fresh client.
func pluginHolds(t *testing.T, construct Construct, path string) string {
	t.Helper()
	c, err := construct(platform.Options{PluginPath: path})
	if err != nil {
		t.Fatal(err)
	}
	attributes, err := c.GetDeviceAttributes(c.GetDefaultDevice())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(attributes)
}

// walk goes through the contract once and gives all failures.
func walk(t *testing.T, what string, construct Construct, path string, options map[string]any) []error {
	t.Helper()
	done := make(chan []error, 1)
	go func() {
		var failures []error
		defer func() { done <- failures }()
		note := func(err error) bool {
			if err != nil {
				failures = append(failures, err)
			}
			return err == nil
		}
		options["devices"] = int64(2)
		c, err := construct(platform.Options{PluginPath: path, CreateOptions: options})
		if note(err) {
			everything(c, note)
			note(c.Close())
		}
	}()
	select {
	case failures := <-done:
		WantNothingAlive(t)
		return failures
	case <-time.After(time.Minute):
		stacks := make([]byte, 1<<16)
		t.Fatalf("%s: it hangs\n%s", what, stacks[:runtime.Stack(stacks, true)])
		return nil
	}
}

func everything(c client.Client, note func(error) bool) {
	device, other := c.GetLocalDevices()[0], c.GetLocalDevices()[1]
	_, err := c.GetDeviceKind(device)
	note(err)
	_, err = c.GetDeviceAttributes(device)
	note(err)
	_, err = c.GetMemoryInfo(device)
	note(err)
	vector := shape.Make(dtype.F32, 2)
	source := func(device string) client.TensorSource {
		return client.TensorSource{Shape: vector, Device: device, Bytes: make([]byte, 8)}
	}
	var open []client.Data
	keep := func(data []client.Data, err error) bool {
		open = append(open, data...)
		return note(err)
	}
	defer func() {
		for _, d := range open {
			d.Close()
		}
	}()
	uploaded, err := c.TransferToDevice([]client.TensorSource{source(device), source(device)})
	if !keep(uploaded, err) {
		return
	}
	read := func(data []client.Data) {
		_, err := c.TransferFromDevice(data)
		note(err)
	}
	read(uploaded)
	_, err = c.UnsafeBufferPointer(uploaded[0])
	note(err)
	if r, err := c.AcquireExternalReference(uploaded[0]); note(err) {
		r.Release()
	}
	if copied, err := c.CopyToDevice(uploaded[0], other); keep([]client.Data{copied}[:present(copied)], err) {
		read([]client.Data{copied})
	}
	called := make(chan error, 1)
	if note(c.OnReadyCallback(uploaded[0], func(err error) { called <- err })) {
		note(<-called)
	}
	p := clienttest.NewProgram("adds")
	module := p.Build(p.Op("add", vector, p.Parameter(vector, nil), p.Parameter(vector, nil)))
	programs, err := c.Compile([]client.CompileInstance{{HLO: module, CompilationDevice: device}, {HLO: module, CompilationDevice: device, Devices: []string{device, other}}})
	if !note(err) {
		return
	}
	defer func() {
		for _, p := range programs {
			p.Close()
		}
	}()
	_, err = programs[0].OptimizedHLO()
	note(err)
	_, err = programs[0].MemoryInfo()
	note(err)
	if serialized, err := c.SerializeComputation(programs[0]); note(err) {
		if again, err := c.DeserializeComputation(serialized, []string{device}); note(err) {
			again.Close()
		}
	}
	out, err := c.ExecuteComputation(programs[0], uploaded, device, client.ExecuteOptions{ExplodeTuple: true})
	if keep(out, err) {
		read(out)
	}
	sharded := func() (client.Data, error) {
		return c.TransferShardsToDevice([]client.TensorSource{source(device), source(other)}, "SPMD:0", vector, &client.Sharding{OpSharding: []byte{}})
	}
	first, err := sharded()
	if !keep([]client.Data{first}[:present(first)], err) {
		note(c.WaitDeviceOps(nil))
		return
	}
	out, err = c.ExecuteReplicated(programs[1], []client.Data{first, first}, []string{device, other}, client.ExecuteOptions{ExplodeTuple: true})
	if keep(out, err) {
		if shards, err := c.GetDataShards(out[0]); keep(shards, err) {
			read(shards)
		}
	}
	note(c.WaitDeviceOps(nil))
}

// present is how many of one value there are.
func present(d client.Data) int {
	if d == nil {
		return 0
	}
	return 1
}
