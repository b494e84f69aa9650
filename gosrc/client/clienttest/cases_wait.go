package clienttest

import (
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

// late are create options with which a run is never over when its call returns, of the test plugin; others need
// a program that takes its time.
func (t *T) late() map[string]any {
	if t.subject.Faults {
		return map[string]any{"delay_ms": int64(20)}
	}
	return nil
}

// isOver says whether a value is there after WaitDeviceOps. A plugin may tell of a run's end a moment before it
// tells of its results, on another thread.
func isOver(c client.Client, d client.Data) bool {
	for deadline := time.Now().Add(delay / 2 * time.Millisecond); !c.IsReady(d) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	return c.IsReady(d)
}

// waitDeviceOps waits for runs, of all devices or of one that is named, until one was seen that had to be
// waited for: what has returned is ready then.
func waitDeviceOps(t *T) {
	c := t.Client(t.late())
	wantCode(t, "an unknown device", c.WaitDeviceOps([]string{"NONE:0"}), status.InvalidArgument, "NONE:0", c.GetDefaultDevice())
	wantCode(t, "a known and an unknown device", c.WaitDeviceOps([]string{c.GetDefaultDevice(), "NONE:0"}), status.InvalidArgument, "NONE:0")
	x := upload(t, c, f32(128, 128), make([]byte, 4*128*128))
	defer x.Close()
	for _, devices := range [][]string{nil, {c.GetDefaultDevice()}, {c.GetDefaultDevice(), "SPMD:0"}} {
		waited := false
		for steps := 20; !waited; steps *= 4 {
			k := compile(t, c, slowProgram(128, min(steps, 320)))
			begin := time.Now()
			out := []client.Data{run(t, c, k, x)[0]}
			for range steps / 320 {
				out = append(out, run(t, c, k, out[len(out)-1])...)
			}
			waited = !c.IsReady(out[len(out)-1])
			if !waited && time.Since(begin) > time.Second/4 {
				t.Skip("every run is over when its call returns, so that there is nothing to wait for")
			}
			if err := c.WaitDeviceOps(devices); err != nil {
				t.Errorf("WaitDeviceOps of %v: %v", devices, err)
			}
			for i, d := range out {
				if !isOver(c, d) {
					t.Errorf("run %d is not over after WaitDeviceOps of %v", i, devices)
				}
			}
			closeAll(out...)
			k.Close()
		}
	}
}

// waitSeveral waits for runs on the last device, and for runs on all.
func waitSeveral(t *T) {
	c := t.severalDevices(t.late())
	devices, n := c.GetLocalDevices(), c.GetNumLocalDevices()
	last := devices[n-1]
	slow := slowProgram(128, 10)
	k := must[[]client.Computation](t)(c.Compile([]client.CompileInstance{{HLO: slow, CompilationDevice: last, Devices: []string{last}}}))[0]
	x := must[[]client.Data](t)(c.TransferToDevice([]client.TensorSource{{Shape: f32(128, 128), Device: last, Bytes: make([]byte, 4*128*128)}}))[0]
	for range 5 {
		out := must[[]client.Data](t)(c.ExecuteComputation(k, []client.Data{x}, last, client.ExecuteOptions{ExplodeTuple: true}))
		if err := c.WaitDeviceOps([]string{last}); err != nil {
			t.Error(err)
		}
		if !isOver(c, out[0]) {
			t.Error("a run is not over after WaitDeviceOps of its device")
		}
		closeAll(out...)
	}
	all := compileReplicas(t, c, slow)
	whole := wrap(t, c, f32(128, 128), replicated(), f32(128, 128), each(n, func(float32) []float32 { return make([]float32, 128*128) })...)
	for _, named := range [][]string{nil, {"SPMD:0"}} {
		out := runReplicated(t, c, all, whole)
		if err := c.WaitDeviceOps(named); err != nil {
			t.Error(err)
		}
		if !isOver(c, out[0]) {
			t.Errorf("a run on all devices is not over after WaitDeviceOps of %v", named)
		}
		closeAll(out...)
	}
	closeAll(x, whole)
	k.Close()
	all.Close()
}

// waitOnlyForNamed has a late run on one of two devices: waiting for the other one ends at once, waiting for
// this one and for all does not.
func waitOnlyForNamed(t *T) {
	for _, test := range []struct {
		name   string
		place  int // of the device to wait for, -1 for all
		waits  bool
		amount int
	}{{"the idle device", 1, false, 0}, {"the busy device", 0, true, 1}, {"all devices", -1, true, 2}} {
		s := start(t, map[string]any{"devices": int64(2), "delay_ms": 3 * delay})
		begin := time.Now()
		out := s.run(t, s.input)
		var named []string
		if test.place >= 0 {
			named = s.GetLocalDevices()[test.place : test.place+1]
		}
		if err := s.WaitDeviceOps(named); err != nil {
			t.Error(err)
		}
		if ready := isOver(s, out); ready != test.waits {
			t.Errorf("%s: after %v ready is %v", test.name, time.Since(begin), ready)
		}
		out.Close()
		s.end(t)
	}
}

// waitForUploads waits for a source that is read late, and for a copy of it.
func waitForUploads(t *T) {
	s := start(t, map[string]any{"devices": int64(2), "delay_ms": 3 * delay})
	d := s.uploadLate(t)
	if s.IsReady(d) {
		t.Error("ready before its time")
	}
	if err := s.WaitDeviceOps(nil); err != nil {
		t.Error(err)
	}
	if !isOver(s, d) {
		t.Error("an upload is under way after WaitDeviceOps")
	}
	copied := must[client.Data](t)(s.CopyToDevice(d, s.GetLocalDevices()[1]))
	if s.IsReady(copied) {
		t.Error("copied before its time")
	}
	if err := s.WaitDeviceOps(s.GetLocalDevices()[1:]); err != nil {
		t.Error(err)
	}
	if !isOver(s, copied) {
		t.Error("a copy is under way after WaitDeviceOps")
	}
	closeAll(d, copied)
}
