package clienttest

import (
	"fmt"
	"strings"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

// wantNumbers checks that an error for want of memory tells what open data take, and the allocator's numbers
// where the plugin has them.
func wantNumbers(t *T, c client.Client, what string, err error, device string, bytes int64) {
	t.Helper()
	wantCode(t, what, err, status.ResourceExhausted, device, fmt.Sprintf("hold %d bytes", bytes))
	if err == nil {
		return
	}
	info, missing := c.GetMemoryInfo(device)
	if told := strings.Contains(err.Error(), "bytes_in_use="); told != (missing == nil) {
		t.Errorf("%s: %v tells the allocator's numbers: %v, and GetMemoryInfo gives %+v, %v", what, err, told, info, missing)
	}
	if missing == nil && info.BytesLimit > 0 && !strings.Contains(err.Error(), fmt.Sprintf("bytes_limit=%d", info.BytesLimit)) {
		t.Errorf("%s: %v does not tell the limit of %d bytes", what, err, info.BytesLimit)
	}
	if n := strings.Count(err.Error(), "hold "); n != 1 {
		t.Errorf("%s: %v tells %d times what open data hold", what, err, n)
	}
}

// outOfMemoryNumbers asks for more than there is while data of known sizes are open.
func outOfMemoryNumbers(t *T, c client.Client) {
	device := c.GetDefaultDevice()
	p := NewProgram("too_large")
	large := compile(t, c, p.Build(p.Op("broadcast", f32(1<<45), p.Parameter(f32(), nil))))
	donating := compile(t, c, donatingProgram())
	defer large.Close()
	defer donating.Close()
	one := upload(t, c, f32(), floats(1))
	const kib4 = 4 * 1024
	x, y := upload(t, c, f32(1024), make([]byte, kib4)), upload(t, c, f32(1024), make([]byte, kib4))
	demand := func(when string, bytes int64) {
		t.Helper()
		out, err := c.ExecuteComputation(large, []client.Data{one}, device, client.ExecuteOptions{ExplodeTuple: true})
		if err == nil {
			_, err = c.UnsafeBufferPointer(out[0])
			_, failure := c.TransferFromDevice(out) // of a value that no host could hold
			wantNumbers(t, c, when+", read", failure, device, bytes)
			again := make(chan error, 1)
			if failure := c.OnReadyCallback(out[0], func(err error) { again <- err }); failure != nil {
				again <- failure
			}
			wantNumbers(t, c, when+", in a callback", <-again, device, bytes)
			_, failure = c.Readiness(out[0])
			wantNumbers(t, c, when+", asked", failure, device, bytes)
			closeAll(out...)
		}
		wantNumbers(t, c, when, err, device, bytes)
	}
	demand("three arrays", 4+2*kib4)
	out := must[[]client.Data](t)(c.ExecuteComputation(donating, []client.Data{x, y}, device, client.ExecuteOptions{ExplodeTuple: true, NonDonatable: []int{0}}))
	demand("a result more", 4+3*kib4)
	shared := must[client.Data](t)(c.CreateDataPlaceholder(device, f32(1024), nil))
	if err := shared.Assign(y); err != nil {
		t.Fatal(err)
	}
	y.Close()
	demand("another holder of the same memory", 4+3*kib4)
	more := must[[]client.Data](t)(c.ExecuteComputation(donating, []client.Data{x, shared}, device, client.ExecuteOptions{ExplodeTuple: true}))
	demand("a result in the place of a donated value", 4+3*kib4)
	if r, err := c.AcquireExternalReference(shared); err == nil {
		if seen, err := c.CreateViewOfExternalMemory(r.Pointer, f32(1024), device, nil); err == nil {
			demand("a view of memory that is counted already", 4+3*kib4)
			seen.Close()
		}
		r.Release()
	}
	closeAll(append(append(out, more...), x, shared)...)
	demand("one array", 4)
	one.Close()
}

// memoryLimit fills a device of the test plugin up to its limit.
func memoryLimit(t *T) {
	const kib = 1024
	c := t.Client(map[string]any{"memory_limit": int64(10 * kib), "devices": int64(2)})
	device, other := c.GetLocalDevices()[0], c.GetLocalDevices()[1]
	array := func(device string) ([]client.Data, error) {
		return c.TransferToDevice([]client.TensorSource{{Shape: f32(kib), Device: device, Bytes: make([]byte, 4*kib)}})
	}
	first := must[[]client.Data](t)(array(device))
	second := must[[]client.Data](t)(array(other))
	_, err := array(device)
	wantNumbers(t, c, "TransferToDevice", err, device, 4*kib)
	wantCode(t, "TransferToDevice", err, status.ResourceExhausted, "bytes_in_use=8192", "bytes_limit=10240", "4.00 KiB")
	_, err = c.CopyToDevice(first[0], other)
	wantNumbers(t, c, "CopyToDevice", err, other, 4*kib)
	_, err = c.ReshardData(first, annotate(replicated()))
	wantNumbers(t, c, "ReshardData", err, other, 4*kib)
	k := compile(t, c, addProgram(f32(kib)))
	_, err = c.ExecuteComputation(k, []client.Data{first[0], first[0]}, device, client.ExecuteOptions{ExplodeTuple: true})
	wantNumbers(t, c, "ExecuteComputation", err, device, 4*kib)
	closeAll(append(first, second...)...)
	k.Close()
	small := compile(t, c, addProgram(f32(2)))
	x := upload(t, c, f32(2), floats(1, 2))
	out := run(t, c, small, x, x)
	wantFloats(t, "a sum after all those failures", read(t, c, out[0]), 2, 4)
	closeAll(append(out, x)...)
	small.Close()
}

func exhaustedAtOnce(t *T) { exhausted(t, 0) }
func exhaustedLater(t *T)  { exhausted(t, delay) }

// exhausted is told by a value that could not be made; it is not counted itself.
func exhausted(t *T, milliseconds int64) {
	s := start(t, map[string]any{"delay_ms": milliseconds, "fail_result": int64(status.ResourceExhausted)})
	out := s.run(t, s.input)
	for range 2 {
		_, err := s.TransferFromDevice([]client.Data{out})
		wantNumbers(t, s.Client, "TransferFromDevice", err, s.GetDefaultDevice(), 8)
		wantCode(t, "TransferFromDevice", err, status.ResourceExhausted, "the test asked for a failure")
	}
	out.Close()
}

// dataMemory counts what open data take.
func dataMemory(t *T, c client.Client) {
	device := c.GetDefaultDevice()
	want := func(when string, bytes, peak int64) {
		t.Helper()
		if gotBytes, gotPeak, err := c.GetDataMemory(device); err != nil || gotBytes != bytes || gotPeak != peak {
			t.Errorf("%s: %d bytes, peak %d, %v, want %d and %d", when, gotBytes, gotPeak, err, bytes, peak)
		}
	}
	want("nothing", 0, 0)
	x := upload(t, c, f32(1024), make([]byte, 4096))
	y := upload(t, c, f32(1024), make([]byte, 4096))
	want("two arrays", 8192, 8192)
	y.Close()
	want("one array", 4096, 8192)
	if err := c.ResetPeakDataMemory(device); err != nil {
		t.Error(err)
	}
	want("after the reset", 4096, 4096)
	x.Close()
	want("none", 0, 4096)
	_, _, err := c.GetDataMemory("SPMD:0")
	wantCode(t, "the virtual device", err, status.InvalidArgument)
	wantCode(t, "an unknown device", c.ResetPeakDataMemory("nowhere:0"), status.InvalidArgument)
}
