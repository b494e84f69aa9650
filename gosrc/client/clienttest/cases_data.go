package clienttest

import (
	"bytes"
	"fmt"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

func topology(t *T, c client.Client) {
	device := c.GetDefaultDevice()
	if device != c.GetDeviceType()+":0" {
		t.Errorf("default device %q of type %q", device, c.GetDeviceType())
	}
	if n := c.GetNumLocalDevices(); n < 1 || len(c.GetLocalDevices()) != n || c.GetLocalDevices()[0] != device || len(c.GetAllDevices()) != c.GetNumDevices() {
		t.Errorf("%d local devices %v, %d of %v", n, c.GetLocalDevices(), c.GetNumDevices(), c.GetAllDevices())
	}
	for i, name := range c.GetAllDevices() {
		if o := must[int](t)(c.DeviceOrdinal(name)); o != i || name != fmt.Sprintf("%s:%d", c.GetDeviceType(), i) {
			t.Errorf("device %d is %s with ordinal %d", i, name, o)
		}
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
	if c.GetNumLocalDevices() > c.GetNumDevices() {
		t.Errorf("%d local devices of %d", c.GetNumLocalDevices(), c.GetNumDevices())
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
	_, err = c.GetDeviceAttributes("NONE:7")
	wantCode(t, "GetDeviceAttributes of an unknown device", err, status.InvalidArgument, "NONE:7")
	if o, err := c.DeviceOrdinal("SPMD:0"); o != 0 || err != nil {
		t.Errorf("ordinal of the virtual device %d, %v", o, err)
	}
	if c.CoordinatorInitialized() {
		t.Error("a coordinator without InitializeCoordinator")
	}
}

// memoryInfo counts what an array takes, where the plugin counts.
func memoryInfo(t *T, c client.Client) {
	device := c.GetDefaultDevice()
	_, err := c.GetMemoryInfo("NONE:7")
	wantCode(t, "GetMemoryInfo of an unknown device", err, status.InvalidArgument, "NONE:7")
	before := must[client.MemoryInfo](t)(c.GetMemoryInfo(device))
	const size = 1 << 20
	x := upload(t, c, f32(size/4), make([]byte, size))
	if err := c.WaitDeviceOps(nil); err != nil {
		t.Error(err)
	}
	info := must[client.MemoryInfo](t)(c.GetMemoryInfo(device))
	if info.BytesUsed < before.BytesUsed+size || (info.BytesLimit != 0 && info.BytesLimit < info.BytesUsed) || (info.PeakBytesUsed != 0 && info.PeakBytesUsed < info.BytesUsed) {
		t.Errorf("%+v with an array of %d bytes, %+v without", info, size, before)
	}
	if got := c.GetMetrics()["DeviceBytesInUse"]; got < float64(info.BytesUsed) {
		t.Errorf("%v bytes in the metrics, %d in the memory info", got, info.BytesUsed)
	}
	x.Close()
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
