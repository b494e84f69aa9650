package clienttest

import (
	"sync"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

// concurrent has many goroutines go the whole way, each with programs and values of its own, while others
// wait for the device and look at it.
func concurrent(t *T, c client.Client) {
	device, explode := c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true}
	goTheWay := func(n int64) error {
		s := f32(n)
		programs, err := c.Compile([]client.CompileInstance{{HLO: addProgram(s), CompilationDevice: device}})
		if err != nil {
			return err
		}
		defer programs[0].Close()
		for round := range 5 {
			values := make([]float32, n)
			for i := range values {
				values[i] = float32(round + i)
			}
			x, err := c.TransferToDevice([]client.TensorSource{{Shape: s, Device: device, Bytes: floats(values...)}})
			if err != nil {
				return err
			}
			defer closeAll(x...)
			out, err := c.ExecuteComputation(programs[0], []client.Data{x[0], x[0]}, device, explode)
			if err != nil {
				return err
			}
			defer closeAll(out...)
			called := make(chan error, 1)
			if err := c.OnReadyCallback(out[0], func(err error) { called <- err }); err != nil {
				return err
			}
			got, err := c.TransferFromDevice(out)
			if err != nil {
				return err
			}
			for i, v := range values {
				if sum, product := asFloats(got[0].Bytes)[i], asFloats(got[1].Bytes)[i]; sum != 2*v || product != v*v {
					t.Errorf("%g gives %g and %g", v, sum, product)
				}
			}
			if err := <-called; err != nil {
				return err
			}
		}
		return nil
	}
	var work, watch sync.WaitGroup
	over := make(chan struct{})
	for n := range int64(8) {
		work.Go(func() {
			if err := goTheWay(n + 1); err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 {
		watch.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if err := c.WaitDeviceOps(nil); err != nil {
					t.Error(err)
				}
				c.SetReplicationDevices(c.GetLocalDevices())
				c.GetReplicationDevices()
				c.SetCustomCompileOptions(nil)
				c.HashCompilationEnvironment()
				c.GetMetrics()
			}
		})
	}
	work.Wait()
	close(over)
	watch.Wait()
}

// clientClosedWhileUsed closes the client while others make things of it and look at it: they work, or say that it
// is closed, and a Close that comes too early says why. In the end it is closed.
func clientClosedWhileUsed(t *T) {
	for range 10 {
		c := t.Client(nil)
		device := c.GetDefaultDevice()
		var group sync.WaitGroup
		use := func(what string, f func() error) {
			group.Go(func() {
				for range 30 {
					err := f()
					if code := status.CodeOf(err); err != nil && code != status.FailedPrecondition && code != status.Unimplemented {
						t.Errorf("%s: %v", what, err)
					}
				}
			})
		}
		use("upload", func() error {
			x, err := c.TransferToDevice([]client.TensorSource{{Shape: f32(2), Device: device, Bytes: floats(1, 2)}})
			closeAll(x...)
			return err
		})
		use("compile", func() error {
			k, err := c.Compile([]client.CompileInstance{{HLO: addProgram(f32(1)), CompilationDevice: device}})
			for _, program := range k {
				program.Close()
			}
			return err
		})
		use("memory", func() error { c.GetMetrics(); _, err := c.GetMemoryInfo(device); return err })
		use("close", c.Close)
		group.Wait()
		if err := c.Close(); err != nil {
			t.Errorf("Close in the end: %v", err)
		}
	}
}

// closedWhileUsed closes data while others execute with, read, lend and wait for it. Each use
// either works with the right value or says that the data has been closed.
func closedWhileUsed(t *T, c client.Client) {
	k := compile(t, c, addProgram(f32(2)))
	defer k.Close()
	for range 50 {
		x := upload(t, c, f32(2), floats(1, 2))
		holder := must[client.Data](t)(c.CreateDataPlaceholder(c.GetDefaultDevice(), f32(2), nil))
		var group sync.WaitGroup
		use := func(what string, f func() error) {
			group.Go(func() {
				for range 5 {
					if err := f(); err != nil && status.CodeOf(err) != status.FailedPrecondition {
						t.Errorf("%s: %v", what, err)
					}
				}
			})
		}
		use("execute", func() error {
			out, err := c.ExecuteComputation(k, []client.Data{x, x}, c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true})
			if err != nil {
				return err
			}
			defer closeAll(out...)
			list, err := c.TransferFromDevice(out[:1])
			if err == nil && asFloats(list[0].Bytes)[1] != 4 {
				t.Errorf("sum %v", asFloats(list[0].Bytes))
			}
			return err
		})
		use("read", func() error {
			list, err := c.TransferFromDevice([]client.Data{x})
			if err == nil && asFloats(list[0].Bytes)[1] != 2 {
				t.Errorf("read %v", asFloats(list[0].Bytes))
			}
			return err
		})
		use("lend", func() error {
			r, err := c.AcquireExternalReference(x)
			if err == nil {
				r.Release()
			}
			return err
		})
		use("assign", func() error { return holder.Assign(x) })
		use("callback", func() error {
			called := make(chan error, 1)
			if err := c.OnReadyCallback(holder, func(err error) { called <- err }); err != nil {
				return err
			}
			return <-called
		})
		use("ask", func() error { c.IsReady(x); _ = x.HasValue(); _ = x.String(); return nil })
		group.Go(x.Close)
		group.Wait()
		holder.Close()
	}
}
