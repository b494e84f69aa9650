package clienttest

import (
	"bytes"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

func topology(t *T, c client.Client) {
	device := c.GetDefaultDevice()
	if device != c.GetDeviceType()+":0" {
		t.Errorf("default device %q of type %q", device, c.GetDeviceType())
	}
	if n := c.GetNumLocalDevices(); n != 1 || len(c.GetLocalDevices()) != 1 || len(c.GetAllDevices()) != c.GetNumDevices() {
		t.Errorf("%d local devices %v, %d of %v", n, c.GetLocalDevices(), c.GetNumDevices(), c.GetAllDevices())
	}
	if kind := must[string](t)(c.GetDeviceKind(device)); kind == "" {
		t.Error("no device kind")
	}
	if c.GetPlatformVersion() == "" {
		t.Error("no platform version")
	}
	if c.GetProcessIndex() != 0 || c.GetNumProcesses() != 1 {
		t.Errorf("process %d of %d, want 0 of 1", c.GetProcessIndex(), c.GetNumProcesses())
	}
	if o := must[int](t)(c.DeviceOrdinal(device)); o != 0 {
		t.Errorf("ordinal %d of %s", o, device)
	}
	_ = must[map[string]any](t)(c.GetDeviceAttributes(device))
	_, err := c.GetDeviceKind("NONE:7")
	wantCode(t, "GetDeviceKind of an unknown device", err, status.InvalidArgument, "NONE:7", device)
	_, err = c.DeviceOrdinal("nonsense")
	wantCode(t, "DeviceOrdinal of nonsense", err, status.InvalidArgument)

	if got := c.GetCompilationDevices(device, nil); len(got) != 1 || got[0] != device {
		t.Errorf("compilation devices %v", got)
	}
	c.SetReplicationDevices([]string{"A:0", "A:1"})
	if got := c.GetCompilationDevices(device, nil); len(got) != 2 || got[1] != "A:1" {
		t.Errorf("compilation devices %v, want the replication devices", got)
	}
	if got := c.GetCompilationDevices(device, []string{"B:0"}); len(got) != 1 || got[0] != "B:0" {
		t.Errorf("compilation devices %v, want those given", got)
	}
	c.SetReplicationDevices(nil)
	if got := c.GetReplicationDevices(); len(got) != 0 {
		t.Errorf("replication devices %v after they were cleared", got)
	}
	if info, err := c.GetMemoryInfo(device); err == nil && info.BytesUsed < 0 {
		t.Errorf("memory info %+v", info)
	} else if err != nil {
		wantCode(t, "GetMemoryInfo", err, status.Unimplemented)
	}
	if c.CoordinatorInitialized() {
		t.Error("a coordinator without InitializeCoordinator")
	}
}

func placeholder(t *T, c client.Client) {
	d := must[client.Data](t)(c.CreateDataPlaceholder(c.GetDefaultDevice(), f32(2), nil))
	defer d.Close()
	if d.HasValue() || c.IsReady(d) {
		t.Error("a placeholder has a value")
	}
	_, err := d.Handle()
	wantCode(t, "Handle", err, status.FailedPrecondition, "no value")
	_, err = c.TransferFromDevice([]client.Data{d})
	wantCode(t, "TransferFromDevice", err, status.FailedPrecondition, "no value")
	_, err = c.UnsafeBufferPointer(d)
	wantCode(t, "UnsafeBufferPointer", err, status.FailedPrecondition)
	_, err = c.AcquireExternalReference(d)
	wantCode(t, "AcquireExternalReference", err, status.FailedPrecondition)
	wantCode(t, "OnReadyCallback", c.OnReadyCallback(d, func(error) { t.Error("called back") }), status.FailedPrecondition)
	k := compile(t, c, addProgram(f32(2)))
	defer k.Close()
	_, err = c.ExecuteComputation(k, []client.Data{d, d}, c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true})
	wantCode(t, "ExecuteComputation", err, status.FailedPrecondition, "argument 0", "no value")
	_, err = c.CreateDataPlaceholder("NONE:0", f32(2), nil)
	wantCode(t, "placeholder on an unknown device", err, status.InvalidArgument)
}

func transferRoundTrip(t *T, c client.Client) {
	for _, s := range []shape.Shape{f32(), f32(1), f32(2, 3), f32(0), f32(3, 0, 2), f32(64, 65), f32(300, 401), f32(1, 2, 1, 2, 1, 2)} {
		want := make([]byte, s.ByteSize())
		for i := range want {
			want[i] = byte(i * 7)
		}
		d := upload(t, c, s, want)
		if !d.Shape().Equal(s) || d.Device() != c.GetDefaultDevice() || !d.HasValue() {
			t.Errorf("%s: got %s", s, d)
		}
		if got := read(t, c, d); !bytes.Equal(got, want) {
			t.Errorf("%s: bytes differ after a round trip", s)
		}
		d.Close()
	}
}

func transferEveryType(t *T, c client.Client) {
	for d := dtype.Bool; d <= dtype.F8E4M3FNUZ; d++ {
		if d.Size() == 0 {
			continue
		}
		s := shape.Make(d, 3, 5)
		want := make([]byte, s.ByteSize())
		for i := range want {
			want[i] = byte(i % 2)
		}
		data := upload(t, c, s, want)
		if got := read(t, c, data); !bytes.Equal(got, want) {
			t.Errorf("%s: bytes differ after a round trip", d)
		}
		data.Close()
	}
}

func transferStrided(t *T, c client.Client) {
	source := floats(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	for _, test := range []struct {
		name    string
		shape   shape.Shape
		strides []int64
		want    []float32
	}{
		{"dense", f32(3, 4), []int64{16, 4}, []float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{"transposed", f32(4, 3), []int64{4, 16}, []float32{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}},
		{"every other column", f32(3, 2), []int64{16, 8}, []float32{0, 2, 4, 6, 8, 10}},
		{"broadcast", f32(2, 3), []int64{0, 4}, []float32{0, 1, 2, 0, 1, 2}},
		{"one row, odd stride", f32(1, 3), []int64{999, 4}, []float32{0, 1, 2}},
		{"empty", f32(0, 3), []int64{12, 4}, nil},
	} {
		list := must[[]client.Data](t)(c.TransferToDevice([]client.TensorSource{{Shape: test.shape, Device: c.GetDefaultDevice(), Bytes: source, ByteStrides: test.strides}}))
		wantFloats(t, test.name, read(t, c, list[0]), test.want...)
		list[0].Close()
	}
}

func transferBadInput(t *T, c client.Client) {
	device := c.GetDefaultDevice()
	released := 0
	release := func() { released++ }
	for _, test := range []struct {
		name   string
		source client.TensorSource
		words  string
	}{
		{"unknown device", client.TensorSource{Shape: f32(1), Device: "NONE:3", Bytes: floats(1), Release: release}, "NONE:3"},
		{"too few bytes", client.TensorSource{Shape: f32(4), Device: device, Bytes: floats(1), Release: release}, "16 bytes"},
		{"no memory", client.TensorSource{Shape: f32(4), Device: device, Release: release}, "either Bytes or Address"},
		{"tuple", client.TensorSource{Shape: shape.MakeTuple(f32(1)), Device: device, Bytes: floats(1), Release: release}, "array"},
		{"negative size", client.TensorSource{Shape: f32(-1), Device: device, Bytes: floats(1), Release: release}, "f32[-1]"},
		{"strides outside", client.TensorSource{Shape: f32(2), Device: device, Bytes: floats(1, 2), ByteStrides: []int64{8}, Release: release}, "inside"},
		{"strides of another rank", client.TensorSource{Shape: f32(2), Device: device, Bytes: floats(1, 2), ByteStrides: []int64{8, 4}, Release: release}, "stride"},
	} {
		released = 0
		good := client.TensorSource{Shape: f32(1), Device: device, Bytes: floats(1), Release: release}
		_, err := c.TransferToDevice([]client.TensorSource{good, test.source, good})
		wantCode(t, test.name, err, status.InvalidArgument, "array 1", test.words)
		if released != 3 {
			t.Errorf("%s: %d of 3 sources released", test.name, released)
		}
	}
}

func assign(t *T, c client.Client) {
	value := upload(t, c, f32(2), floats(1, 2))
	d := must[client.Data](t)(c.CreateDataPlaceholder(c.GetDefaultDevice(), f32(2), nil))
	if err := d.Assign(value); err != nil {
		t.Fatal(err)
	}
	a, b := must[uintptr](t)(d.Handle()), must[uintptr](t)(value.Handle())
	if a != b {
		t.Error("handles of shared memory differ")
	}
	value.Close()
	value.Close()
	if _, err := value.Handle(); err == nil {
		t.Error("closed data has a handle")
	}
	wantFloats(t, "the other holder", read(t, c, d), 1, 2)
	other := upload(t, c, f32(3), floats(1, 2, 3))
	wantCode(t, "Assign of another shape", d.Assign(other), status.InvalidArgument, "f32[2]", "f32[3]")
	if h := must[uintptr](t)(other.Handle()); h == a {
		t.Error("handles of different memory are equal")
	}
	closeAll(d, other)
	if d.HasValue() {
		t.Error("closed data has a value")
	}
}

func externalReference(t *T, c client.Client) {
	k := compile(t, c, addProgram(f32(2, 2)))
	defer k.Close()
	x := upload(t, c, f32(2, 2), floats(1, 2, 3, 4))
	out := run(t, c, k, x, x)
	defer closeAll(append(out, x)...)
	for _, d := range []client.Data{x, out[0]} {
		for range 2 {
			r := must[client.ExternalReference](t)(c.AcquireExternalReference(d))
			if r.Pointer == 0 || !r.Shape.Equal(f32(2, 2)) || r.Device != c.GetDefaultDevice() {
				t.Errorf("reference %+v", r)
			}
			if p := must[uintptr](t)(c.UnsafeBufferPointer(d)); p != r.Pointer {
				t.Errorf("two addresses of one value: %#x and %#x", p, r.Pointer)
			}
			r.Release()
			r.Release()
		}
	}
}

func referenceKeepsMemory(t *T, c client.Client) {
	x := upload(t, c, f32(2), floats(3, 4))
	r := must[client.ExternalReference](t)(c.AcquireExternalReference(x))
	x.Close()
	if !r.HostAddressable {
		t.Skip("the device's memory cannot be read by address")
	}
	back := must[client.Data](t)(c.CreateViewOfExternalMemory(r.Pointer, f32(2), c.GetDefaultDevice(), nil))
	wantFloats(t, "memory that is lent", read(t, c, back), 3, 4)
	back.Close()
	r.Release()
}

func view(t *T, c client.Client) {
	x := upload(t, c, f32(2, 2), floats(1, 2, 3, 4))
	r := must[client.ExternalReference](t)(c.AcquireExternalReference(x))
	released := make(chan struct{})
	v := must[client.Data](t)(c.CreateViewOfExternalMemory(r.Pointer, f32(4), c.GetDefaultDevice(), func() { close(released) }))
	if p := must[uintptr](t)(c.UnsafeBufferPointer(v)); p != r.Pointer {
		t.Errorf("the view is at %#x, its memory at %#x", p, r.Pointer)
	}
	k := compile(t, c, addProgram(f32(4)))
	out := run(t, c, k, v, v)
	wantFloats(t, "sum of views", read(t, c, out[0]), 2, 4, 6, 8)
	v.Close()
	select {
	case <-released:
	case <-time.After(patience):
		t.Error("the memory was not released")
	}
	r.Release()
	closeAll(append(out, x)...)
	k.Close()
	_, err := c.CreateViewOfExternalMemory(0, f32(4), c.GetDefaultDevice(), nil)
	wantCode(t, "a view of address 0", err, status.InvalidArgument)
}

func closed(t *T, c client.Client) {
	x := upload(t, c, f32(1), floats(1))
	if err := c.Close(); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("Close with open data: %v, want FailedPrecondition", err)
	}
	x.Close()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := c.TransferToDevice([]client.TensorSource{{Shape: f32(1), Device: c.GetDefaultDevice(), Bytes: floats(1)}})
	wantCode(t, "TransferToDevice", err, status.FailedPrecondition, "closed")
	_, err = c.Compile([]client.CompileInstance{{HLO: addProgram(f32(1)), CompilationDevice: c.GetDefaultDevice()}})
	wantCode(t, "Compile", err, status.FailedPrecondition, "closed")
}
