package clienttest

import (
	"sync"

	"xla_go/gosrc/client"
)

// lentToMany lends and reads one value from many threads at once; then it can be freed.
func lentToMany(t *T, c client.Client) {
	for range 50 {
		x := upload(t, c, f32(2), floats(5, 6))
		address := must[uintptr](t)(c.UnsafeBufferPointer(x))
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				for range 50 {
					if i%4 == 3 {
						if list, err := c.TransferFromDevice([]client.Data{x}); err != nil || asFloats(list[0].Bytes)[1] != 6 {
							t.Errorf("read %v, %v", list, err)
						}
						continue
					}
					r, err := c.AcquireExternalReference(x)
					if err != nil || r.Pointer != address {
						t.Errorf("lent %#x of %#x, %v", r.Pointer, address, err)
						return
					}
					r.Release()
				}
			})
		}
		group.Wait()
		x.Close()
	}
}
