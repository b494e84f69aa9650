package clienttest

import (
	"reflect"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

// stranger is data that no client has made.
type stranger struct{ client.Data }

// takers are the methods that take data, each called with d of shape f32[2] in the place of good data.
func takers(c client.Client, k client.Computation, d client.Data) map[string]func() error {
	device, explode := c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true}
	dropList := func(_ []client.Data, err error) error { return err }
	drop := func(_ client.Data, err error) error { return err }
	return map[string]func() error{
		"TransferFromDevice":       func() error { _, err := c.TransferFromDevice([]client.Data{d}); return err },
		"TransferFromDeviceInto":   func() error { return c.TransferFromDeviceInto(d, make([]byte, 8)) },
		"UnsafeBufferPointer":      func() error { _, err := c.UnsafeBufferPointer(d); return err },
		"AcquireExternalReference": func() error { _, err := c.AcquireExternalReference(d); return err },
		"CopyToDevice":             func() error { return drop(c.CopyToDevice(d, device)) },
		"ExecuteComputation":       func() error { return dropList(c.ExecuteComputation(k, []client.Data{d, d}, device, explode)) },
		"OnReadyCallback":          func() error { return c.OnReadyCallback(d, func(error) {}) },
		"Readiness":                func() error { _, err := c.Readiness(d); return err },
	}
}

// shardTakers are those for several devices.
func shardTakers(c client.Client, k client.Computation, d client.Data) map[string]func() error {
	devices, sharding := c.GetLocalDevices(), &client.Sharding{OpSharding: replicated()}
	shards := make([]client.Data, len(devices))
	for i := range shards {
		shards[i] = d
	}
	return map[string]func() error{
		"TransferFromDevice": func() error { _, err := c.TransferFromDevice([]client.Data{d}); return err },
		"GetDataShards":      func() error { _, err := c.GetDataShards(d); return err },
		"GetDataShard":       func() error { _, err := c.GetDataShard(d, 0); return err },
		"WrapDataShards":     func() error { _, err := c.WrapDataShards(shards, "SPMD:0", f32(2), sharding); return err },
		"ReshardData": func() error {
			_, err := c.ReshardData([]client.Data{d}, []*client.Sharding{{OpSharding: split(len(devices), 1)}})
			return err
		},
		"ExecuteReplicated": func() error {
			_, err := c.ExecuteReplicated(k, []client.Data{d, d}, devices, client.ExecuteOptions{ExplodeTuple: true})
			return err
		},
		"OnReadyCallback": func() error { return c.OnReadyCallback(d, func(error) {}) },
		"Readiness":       func() error { _, err := c.Readiness(d); return err },
	}
}

func wantAll(t *T, calls map[string]func() error, code status.Code, words ...string) {
	t.Helper()
	for name, call := range calls {
		wantCode(t, name, call(), code, words...)
	}
}

func placeholder(t *T, c client.Client) {
	d := must[client.Data](t)(c.CreateDataPlaceholder(c.GetDefaultDevice(), f32(2), nil))
	if d.HasValue() || c.IsReady(d) || !d.Shape().Equal(f32(2)) || d.Device() != c.GetDefaultDevice() || d.Sharding() != nil {
		t.Errorf("a new placeholder: %s", d)
	}
	_, err := d.Handle()
	wantCode(t, "Handle", err, status.FailedPrecondition, "no value")
	k := compile(t, c, addProgram(f32(2)))
	wantAll(t, takers(c, k, d), status.FailedPrecondition, "no value")
	_, err = c.ExecuteComputation(k, []client.Data{d, d}, c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true})
	wantCode(t, "ExecuteComputation", err, status.FailedPrecondition, "argument 0")
	_, err = c.CreateDataPlaceholder("NONE:0", f32(2), nil)
	wantCode(t, "placeholder on an unknown device", err, status.InvalidArgument, "NONE:0", c.GetDefaultDevice())
	d.SetShouldDonate(true)
	if !d.ShouldDonate() {
		t.Error("the wish to donate is lost")
	}
	d.SetShouldDonate(false)
	if d.ShouldDonate() {
		t.Error("the wish to donate cannot be taken back")
	}
	d.Close()
	wantAll(t, takers(c, k, d), status.FailedPrecondition, "closed")
	k.Close()
}

func shardedPlaceholder(t *T, c client.Client) {
	d := must[client.Data](t)(c.CreateDataPlaceholder("SPMD:0", f32(2), &client.Sharding{OpSharding: replicated()}))
	if d.HasValue() || c.IsReady(d) || d.Sharding() == nil {
		t.Errorf("a new placeholder: %s", d)
	}
	_, err := d.Handle()
	wantCode(t, "Handle", err, status.FailedPrecondition, "no value")
	k := compileReplicas(t, c, addProgram(f32(2)))
	wantAll(t, shardTakers(c, k, d), status.FailedPrecondition, "no value")
	d.Close()
	wantAll(t, shardTakers(c, k, d), status.FailedPrecondition, "closed")
	value := wrap(t, c, f32(2), replicated(), f32(2), each(c.GetNumLocalDevices(), func(i float32) []float32 { return []float32{i, i} })...)
	value.Close()
	wantAll(t, shardTakers(c, k, value), status.FailedPrecondition, "closed")
	k.Close()
}

// foreignData gives data of nobody, and no data at all, to every method that takes data.
func foreignData(t *T, c client.Client) {
	k := compile(t, c, addProgram(f32(2)))
	defer k.Close()
	for _, d := range []client.Data{stranger{}, nil} {
		wantAll(t, takers(c, k, d), status.InvalidArgument)
		if c.IsReady(d) {
			t.Error("foreign data is ready")
		}
		for name, call := range map[string]func() error{
			"GetDataShards": func() error { _, err := c.GetDataShards(d); return err },
			"GetDataShard":  func() error { _, err := c.GetDataShard(d, 0); return err },
			"ReshardData":   func() error { _, err := c.ReshardData([]client.Data{d}, []*client.Sharding{nil}); return err },
			"SerializeComputation": func() error {
				_, err := c.SerializeComputation(nil)
				return err
			},
		} {
			wantCode(t, name, call(), status.InvalidArgument)
		}
	}
	x := upload(t, c, f32(2), floats(1, 2))
	_, err := c.ExecuteComputation(nil, []client.Data{x, x}, c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true})
	wantCode(t, "no computation", err, status.InvalidArgument)
	x.Close()
}

// closedData gives data, and a computation, after Close to every method; Close again does nothing.
func closedData(t *T, c client.Client) {
	k := compile(t, c, addProgram(f32(2)))
	x := upload(t, c, f32(2), floats(1, 2))
	x.Close()
	x.Close()
	if x.HasValue() || c.IsReady(x) {
		t.Error("closed data has a value")
	}
	if !x.Shape().Equal(f32(2)) || x.Device() != c.GetDefaultDevice() || x.String() == "" {
		t.Errorf("closed data: %s", x)
	}
	_, err := x.Handle()
	wantCode(t, "Handle", err, status.FailedPrecondition, "closed")
	wantAll(t, takers(c, k, x), status.FailedPrecondition, "closed")

	k.Close()
	k.Close()
	y := upload(t, c, f32(2), floats(1, 2))
	for name, call := range map[string]func() error{
		"ExecuteComputation": func() error {
			_, err := c.ExecuteComputation(k, []client.Data{y, y}, c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true})
			return err
		},
		"ExecuteReplicated": func() error {
			_, err := c.ExecuteReplicated(k, []client.Data{y, y}, c.GetLocalDevices()[:1], client.ExecuteOptions{ExplodeTuple: true})
			return err
		},
		"SerializeComputation": func() error { _, err := c.SerializeComputation(k); return err },
		"OptimizedHLO":         func() error { _, err := k.OptimizedHLO(); return err },
		"MemoryInfo":           func() error { _, err := k.MemoryInfo(); return err },
	} {
		wantCode(t, name+" of a closed computation", call(), status.FailedPrecondition, "closed")
	}
	if k.Name() != "add_multiply" || len(k.ParameterShapes()) != 2 || len(k.ResultShapes()) != 2 || len(k.Devices()) != 1 {
		t.Errorf("a closed computation: %q, %v to %v on %v", k.Name(), k.ParameterShapes(), k.ResultShapes(), k.Devices())
	}
	y.Close()
}

// closed calls every method of the contract after Close.
func closed(t *T, c client.Client) {
	device, devices := c.GetDefaultDevice(), c.GetLocalDevices()
	sharding := &client.Sharding{OpSharding: replicated()}
	explode := client.ExecuteOptions{ExplodeTuple: true}
	k := compile(t, c, addProgram(f32(1)))
	x := upload(t, c, f32(1), floats(1))
	for range 2 {
		wantCode(t, "Close with open data", c.Close(), status.FailedPrecondition)
	}
	wantFloats(t, "after a Close that was refused", read(t, c, x), 1)
	x.Close()
	wantCode(t, "Close with an open computation", c.Close(), status.FailedPrecondition)
	k.Close()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	released := 0
	source := client.TensorSource{Shape: f32(1), Device: device, Bytes: floats(1), Release: func() { released++ }}
	refused := map[string]func() error{
		"TransferToDevice": func() error { _, err := c.TransferToDevice([]client.TensorSource{source}); return err },
		"TransferShardsToDevice": func() error {
			_, err := c.TransferShardsToDevice([]client.TensorSource{source}, "SPMD:0", f32(1), sharding)
			return err
		},
		"CreateViewOfExternalMemory": func() error { _, err := c.CreateViewOfExternalMemory(4096, f32(1), device, nil); return err },
		"Compile": func() error {
			_, err := c.Compile([]client.CompileInstance{{HLO: addProgram(f32(1)), CompilationDevice: device}})
			return err
		},
		"DeserializeComputation": func() error { _, err := c.DeserializeComputation([]byte("nonsense"), nil); return err },
		"GetMemoryInfo":          func() error { _, err := c.GetMemoryInfo(device); return err },
		"RegisterCustomCall":     func() error { return c.RegisterCustomCall("name", 4096, "") },
		"InitializeCoordinator":  func() error { return c.InitializeCoordinator(0, 1, "127.0.0.1", "0") },
		// These fail first on what they are given, which is closed too.
		"CopyToDevice":             func() error { _, err := c.CopyToDevice(x, device); return err },
		"TransferFromDevice":       func() error { _, err := c.TransferFromDevice([]client.Data{x}); return err },
		"TransferFromDeviceInto":   func() error { return c.TransferFromDeviceInto(x, make([]byte, 4)) },
		"UnsafeBufferPointer":      func() error { _, err := c.UnsafeBufferPointer(x); return err },
		"AcquireExternalReference": func() error { _, err := c.AcquireExternalReference(x); return err },
		"OnReadyCallback":          func() error { return c.OnReadyCallback(x, func(error) {}) },
		"Readiness":                func() error { _, err := c.Readiness(x); return err },
		"ExecuteComputation": func() error {
			_, err := c.ExecuteComputation(k, []client.Data{x, x}, device, explode)
			return err
		},
		"ExecuteReplicated": func() error {
			_, err := c.ExecuteReplicated(k, []client.Data{x, x}, devices[:1], explode)
			return err
		},
		"SerializeComputation": func() error { _, err := c.SerializeComputation(k); return err },
		"WrapDataShards":       func() error { _, err := c.WrapDataShards([]client.Data{x}, "SPMD:0", f32(1), sharding); return err },
		"ReshardData": func() error {
			_, err := c.ReshardData([]client.Data{x}, []*client.Sharding{sharding})
			return err
		},
		"GetCoordinator": func() error { _, err := c.GetCoordinator(); return err },
	}
	wantAll(t, refused, status.FailedPrecondition)
	if released != 2 {
		t.Errorf("%d of 2 sources released", released)
	}
	// These answer from what the client knows, or do nothing.
	answered := map[string]func(){
		"CreateDataPlaceholder": func() {
			if d, err := c.CreateDataPlaceholder(device, f32(1), nil); err == nil {
				d.Close()
			}
		},
		"GetDataShards": func() { _, _ = c.GetDataShards(x) },
		"GetDataShard":  func() { _, _ = c.GetDataShard(x, 0) },
		"GetDataSharding": func() {
			if c.GetDataSharding(x) != nil {
				t.Error("a sharding of data on one device")
			}
		},
		"HashCompilationEnvironment": func() { c.HashCompilationEnvironment() },
		"SetCustomCompileOptions":    func() { c.SetCustomCompileOptions(nil) },
		"IsReady": func() {
			if c.IsReady(x) {
				t.Error("closed data is ready")
			}
		},
		"WaitDeviceOps": func() {
			if err := c.WaitDeviceOps(nil); err != nil && status.CodeOf(err) != status.FailedPrecondition {
				t.Errorf("WaitDeviceOps: %v", err)
			}
		},
		"GetDefaultDevice": func() {
			if c.GetDefaultDevice() != device {
				t.Errorf("default device %q", c.GetDefaultDevice())
			}
		},
		"GetDeviceType":          func() { c.GetDeviceType() },
		"GetDeviceKind":          func() { _, _ = c.GetDeviceKind(device) },
		"GetPlatformVersion":     func() { c.GetPlatformVersion() },
		"GetNumLocalDevices":     func() { c.GetNumLocalDevices() },
		"GetNumDevices":          func() { c.GetNumDevices() },
		"GetLocalDevices":        func() { c.GetLocalDevices() },
		"GetAllDevices":          func() { c.GetAllDevices() },
		"GetProcessIndex":        func() { c.GetProcessIndex() },
		"GetNumProcesses":        func() { c.GetNumProcesses() },
		"GetDeviceAttributes":    func() { _, _ = c.GetDeviceAttributes(device) },
		"DeviceOrdinal":          func() { _, _ = c.DeviceOrdinal(device) },
		"SetReplicationDevices":  func() { c.SetReplicationDevices(nil) },
		"GetReplicationDevices":  func() { c.GetReplicationDevices() },
		"GetCompilationDevices":  func() { c.GetCompilationDevices(device, nil) },
		"GetMetrics":             func() { c.GetMetrics() },
		"GetDataMemory":          func() { _, _, _ = c.GetDataMemory(device) },
		"ResetPeakDataMemory":    func() { _ = c.ResetPeakDataMemory(device) },
		"CoordinatorInitialized": func() { c.CoordinatorInitialized() },
		"Close":                  func() { _ = c.Close() },
	}
	for _, call := range answered {
		call()
	}
	for method := range reflect.TypeFor[client.Client]().Methods() {
		if refused[method.Name] == nil && answered[method.Name] == nil {
			t.Errorf("%s is not called after Close: add it to this case", method.Name)
		}
	}
}
