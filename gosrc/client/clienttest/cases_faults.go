package clienttest

import (
	"bytes"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

const delay = 100 // milliseconds

// started is a client of the test plugin with a run of its copying program under way.
type started struct {
	client.Client
	program client.Computation
	input   client.Data
}

func start(t *T, options map[string]any) *started {
	t.Helper()
	c := t.Client(options)
	s := &started{Client: c}
	device := c.GetDefaultDevice()
	input, err := c.TransferToDevice([]client.TensorSource{{Shape: values, Device: device, Bytes: []byte("the data")}})
	if err != nil {
		t.Fatal(err)
	}
	p := NewProgram("copies")
	programs, err := c.Compile([]client.CompileInstance{{HLO: p.Build(p.Parameter(values, nil)), CompilationDevice: device}})
	if err != nil {
		t.Fatal(err)
	}
	s.program, s.input = programs[0], input[0]
	t.Cleanup(func() {
		s.program.Close()
		s.input.Close()
	})
	return s
}

// end closes everything, so that another client can be made: the plugin's options are those of the last one.
func (s *started) end(t *T) {
	t.Helper()
	s.program.Close()
	s.input.Close()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// uploadLate uploads a source that is read after the call.
func (s *started) uploadLate(t *T) client.Data {
	t.Helper()
	source := bytes.Repeat([]byte{7}, 1<<20)
	return must[[]client.Data](t)(s.TransferToDevice([]client.TensorSource{{
		Shape: shape.Make(dtype.U8, 1<<20), Device: s.GetDefaultDevice(), Address: reflect.ValueOf(source).Pointer(), Release: func() { runtime.KeepAlive(source) },
	}}))[0]
}

var values = shape.Make(dtype.U8, 8)

func (s *started) run(t *T, input client.Data) client.Data {
	t.Helper()
	out, err := s.ExecuteComputation(s.program, []client.Data{input}, s.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true})
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

func eventually(t *T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("it never came that %s", what)
			return
		}
	}
}

func executionDoesNotWait(t *T) {
	s := start(t, map[string]any{"delay_ms": delay})
	begin := time.Now()
	first := s.run(t, s.input)
	second := s.run(t, first) // of a value that is not there yet
	if took := time.Since(begin); took > delay*time.Millisecond {
		t.Errorf("two executions took %v, so they waited", took)
	}
	if s.IsReady(first) || s.IsReady(second) || !second.HasValue() {
		t.Error("ready before its time")
	}
	called := make(chan error, 1)
	if err := s.OnReadyCallback(second, func(err error) { called <- err }); err != nil {
		t.Fatal(err)
	}
	first.Close() // while the second run still reads it
	if err := s.WaitDeviceOps(nil); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took < 2*delay*time.Millisecond {
		t.Errorf("waiting for the device ended after %v, before its work", took)
	}
	if err := <-called; err != nil || !isOver(s, second) {
		t.Errorf("called back with %v, ready %v", err, s.IsReady(second))
	}
	got, err := s.TransferFromDevice([]client.Data{second})
	if err != nil || string(got[0].Bytes) != "the data" {
		t.Errorf("read %q, %v", got, err)
	}
	second.Close()
}

func readWaits(t *T) {
	s := start(t, map[string]any{"delay_ms": delay, "lack": "optional"})
	out := s.run(t, s.input)
	defer out.Close()
	r, err := s.AcquireExternalReference(out)
	if err != nil {
		t.Fatal(err)
	}
	if r.HostAddressable || r.RowMajor || r.Pointer == 0 {
		t.Errorf("reference %+v: a plugin that tells nothing of its memory promises nothing", r)
	}
	r.Release()
	several := make([]client.Data, 20)
	for i := range several {
		several[i] = s.run(t, s.input)
		defer several[i].Close()
	}
	got, err := s.TransferFromDevice(several)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if string(got[i].Bytes) != "the data" || !got[i].Shape.Equal(values) {
			t.Errorf("read %q of %s", got[i].Bytes, got[i].Shape)
		}
	}
}

// A run that fails after it was queued: every way to its result gives the plugin's code and words,
// at each call, and so does everything computed from it.
func failureAtOnce(t *T) { failureOfAResult(t, 0) }
func failureLater(t *T)  { failureOfAResult(t, delay) }

func failureOfAResult(t *T, milliseconds int64) {
	s := start(t, map[string]any{"delay_ms": milliseconds, "fail_result": int64(status.DataLoss)})
	out := s.run(t, s.input)
	after := s.run(t, out)
	wrong := func(what string, err error) {
		t.Helper()
		if status.CodeOf(err) != status.DataLoss || !strings.Contains(err.Error(), "the test asked for a failure") {
			t.Errorf("delay %d, %s: %v", milliseconds, what, err)
		}
	}
	called := make(chan error, 2)
	for _, d := range []client.Data{out, after} {
		if err := s.OnReadyCallback(d, func(err error) { called <- err }); err != nil {
			t.Fatal(err)
		}
		wrong("OnReadyCallback", <-called)
		ready, err := s.Readiness(d)
		wrong("Readiness", err)
		if !ready || !s.IsReady(d) || !d.HasValue() {
			t.Error("a failed value is not ready")
		}
		holder := must[client.Data](t)(s.CreateDataPlaceholder(s.GetDefaultDevice(), values, nil))
		if err := holder.Assign(d); err != nil {
			t.Error(err)
		}
		_, err = s.TransferFromDevice([]client.Data{holder})
		wrong("TransferFromDevice of what it was assigned to", err)
		holder.Close()
		for range 2 {
			_, err := s.TransferFromDevice([]client.Data{d})
			wrong("TransferFromDevice", err)
			_, err = s.UnsafeBufferPointer(d)
			wrong("UnsafeBufferPointer", err)
			_, err = s.AcquireExternalReference(d)
			wrong("AcquireExternalReference", err)
		}
	}
	if err := s.WaitDeviceOps(nil); err != nil {
		t.Error(err)
	}
	out.Close()
	after.Close()

}

func failureOfACall(t *T) {
	s := start(t, map[string]any{"fail_execute": int64(status.Unavailable)})
	_, err := s.ExecuteComputation(s.program, []client.Data{s.input}, s.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true})
	if status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), "copies") {
		t.Errorf("%v", err)
	}
	if err := s.WaitDeviceOps(nil); err != nil { // nothing was queued
		t.Error(err)
	}
}

// failureOfAnUpload is one that fails after the call: its value and what is copied from it carry the error.
func failureOfAnUpload(t *T) {
	s := start(t, map[string]any{"devices": int64(2), "delay_ms": delay, "fail_upload": int64(status.Aborted)})
	d := s.uploadLate(t)
	copied := must[client.Data](t)(s.CopyToDevice(d, s.GetLocalDevices()[1]))
	for what, data := range map[string]client.Data{"the value": d, "its copy": copied} {
		_, err := s.TransferFromDevice([]client.Data{data})
		wantCode(t, what, err, status.Aborted, "the test asked for a failure")
	}
	if err := s.WaitDeviceOps(nil); err != nil {
		t.Error(err)
	}
	closeAll(d, copied)
}

// failureOfShards is a run on four devices that fails after the call: every way to the whole, to a shard and to
// what is computed from it gives the error, once for each call.
func failureOfShards(t *T) {
	s := start(t, map[string]any{"devices": int64(4), "delay_ms": delay, "fail_result": int64(status.DataLoss)})
	devices := s.GetLocalDevices()
	p := NewProgram("copies_all")
	k := compileReplicas(t, s, p.Build(p.Parameter(f32(2), nil)))
	x := wrap(t, s, f32(2), replicated(), f32(2), each(4, func(i float32) []float32 { return []float32{i, i} })...)
	out := runReplicated(t, s, k, x)
	after := runReplicated(t, s, k, out[0])
	wrong := func(what string, err error) {
		t.Helper()
		wantCode(t, what, err, status.DataLoss, "the test asked for a failure")
	}
	for _, d := range []client.Data{out[0], after[0]} {
		called := make(chan error, 5)
		if err := s.OnReadyCallback(d, func(err error) { called <- err }); err != nil {
			t.Fatal(err)
		}
		wrong("OnReadyCallback", <-called)
		if ready, err := s.Readiness(d); !ready {
			t.Error("failed shards are not ready")
		} else {
			wrong("Readiness", err)
		}
		parts := must[[]client.Data](t)(s.GetDataShards(d))
		for _, part := range parts {
			_, err := s.TransferFromDevice([]client.Data{part})
			wrong("TransferFromDevice of a shard", err)
		}
		joined := must[client.Data](t)(s.WrapDataShards(parts, "SPMD:0", f32(2), x.Sharding()))
		_, err := s.TransferFromDevice([]client.Data{joined})
		wrong("TransferFromDevice of joined shards", err)
		copied := must[client.Data](t)(s.CopyToDevice(parts[0], devices[1]))
		_, err = s.TransferFromDevice([]client.Data{copied})
		wrong("TransferFromDevice of a copy", err)
		closeAll(append(parts, joined, copied)...)
		if n := len(called); n != 0 {
			t.Errorf("called back %d times more", n)
		}
	}
	if err := s.WaitDeviceOps(nil); err != nil {
		t.Error(err)
	}
	closeAll(out[0], after[0], x)
	k.Close()
}

// A large source with a Release is read after the call; the memory is given back once, when it
// has been read or when that failed.
func releaseOfSource(t *T)       { releaseOfASource(t, status.OK) }
func releaseOfFailedSource(t *T) { releaseOfASource(t, status.Aborted) }

func releaseOfASource(t *T, code status.Code) {
	s := start(t, map[string]any{"delay_ms": delay, "fail_upload": int64(code)})
	large := shape.Make(dtype.U8, 1<<20)
	source := bytes.Repeat([]byte{7}, 1<<20)
	var released atomic.Int32
	d, err := s.TransferToDevice([]client.TensorSource{{
		Shape: large, Device: s.GetDefaultDevice(), Address: reflect.ValueOf(source).Pointer(), Release: func() { released.Add(1) },
	}})
	if err != nil {
		t.Fatal(err)
	}
	if released.Load() != 0 {
		t.Error("released before it was read")
	}
	got, err := s.TransferFromDevice(d)
	if code == status.OK && (err != nil || !bytes.Equal(got[0].Bytes, source)) {
		t.Errorf("read back other bytes, %v", err)
	}
	if code != status.OK && status.CodeOf(err) != code {
		t.Errorf("%v, want %v", err, code)
	}
	runtime.KeepAlive(source)
	eventually(t, "the source is released", func() bool { return released.Load() == 1 })
	d[0].Close()

}

// The plugin lacks what is optional: what asks for it says so, and the rest works.
func withoutOptional(t *T) {
	s := start(t, map[string]any{"lack": "optional"})
	missing := func(what, function string, err error) {
		t.Helper()
		if status.CodeOf(err) != status.Unimplemented || !strings.Contains(err.Error(), function) {
			t.Errorf("%s: %v, want Unimplemented that names %s", what, err, function)
		}
	}
	_, err := s.GetMemoryInfo(s.GetDefaultDevice())
	missing("GetMemoryInfo", "PJRT_Device_MemoryStats", err)
	_, err = s.program.OptimizedHLO()
	missing("OptimizedHLO", "PJRT_Executable_OptimizedProgram", err)
	_, err = s.program.MemoryInfo()
	missing("MemoryInfo", "PJRT_Executable_GetCompiledMemoryStats", err)
	_, err = s.SerializeComputation(s.program)
	missing("SerializeComputation", "PJRT_Executable_Serialize", err)
	_, err = s.CreateViewOfExternalMemory(4096, values, s.GetDefaultDevice(), nil)
	missing("CreateViewOfExternalMemory", "PJRT_Client_CreateViewOfDeviceBuffer", err)
	if !s.program.ResultShapes()[0].Equal(values) {
		t.Errorf("results %v", s.program.ResultShapes())
	}
}
