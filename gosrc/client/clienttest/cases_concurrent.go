package clienttest

import (
	"sync"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

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
