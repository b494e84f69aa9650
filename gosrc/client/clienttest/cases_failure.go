package clienttest

import (
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

// outOfMemory asks for a result of 128 TiB: the run fails, at once or later, and each way to the result
// gives the plugin's error. The client lives on.
func outOfMemory(t *T, c client.Client) {
	p := NewProgram("too_large")
	x := p.Parameter(f32(), nil)
	k := compile(t, c, p.Build(p.Op("broadcast", f32(1<<45), x)))
	defer k.Close()
	one := upload(t, c, f32(), floats(1))
	defer one.Close()
	out, err := c.ExecuteComputation(k, []client.Data{one}, c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true})
	if err != nil {
		wantCode(t, "ExecuteComputation", err, status.ResourceExhausted, "too_large")
	} else {
		defer closeAll(out...)
		called := make(chan error, 1)
		if err := c.OnReadyCallback(out[0], func(err error) { called <- err }); err != nil {
			called <- err
		}
		select {
		case err := <-called:
			wantCode(t, "OnReadyCallback", err, status.ResourceExhausted)
		case <-time.After(patience):
			t.Error("not called back after a failure")
		}
		if !c.IsReady(out[0]) {
			t.Error("a failed value is not ready")
		}
		_, err = c.UnsafeBufferPointer(out[0])
		wantCode(t, "UnsafeBufferPointer", err, status.ResourceExhausted)
		_, err = c.AcquireExternalReference(out[0])
		wantCode(t, "AcquireExternalReference", err, status.ResourceExhausted)
	}
	if err := c.WaitDeviceOps(nil); err != nil {
		t.Error(err)
	}
	good := compile(t, c, addProgram(f32()))
	sum := run(t, c, good, one, one)
	wantFloats(t, "a sum after the failure", read(t, c, sum[0]), 2)
	closeAll(sum...)
	good.Close()
}
