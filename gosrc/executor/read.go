package executor

import (
	"sync"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/ir"
)

// Wait follows device values until they are computed. It lets the caller wait in slices, so that
// signals can be looked at between them.
//
// Ownership: it holds a reference on each buffer until Close. Safe for one goroutine at a time.
type Wait struct {
	client  client.Client
	buffers []*ir.Buffer
	next    int        // the first buffer that is not known to be ready
	ready   chan error // of buffers[next], once a callback is under way
	closed  sync.Once
}

// NewWait waits for all of buffers and takes over one reference of each.
func (c *Core) NewWait(buffers ...*ir.Buffer) *Wait {
	return &Wait{client: c.client, buffers: buffers}
}

// Poll waits at most timeout. done is true once every value is computed; an error is that of the
// first value that failed for good. BLOCKING; without Core.Mu.
func (w *Wait) Poll(timeout time.Duration) (done bool, err error) {
	var expired <-chan time.Time
	wait := func() <-chan time.Time {
		if expired == nil {
			expired = time.After(timeout)
		}
		return expired
	}
	for w.next < len(w.buffers) {
		b := w.buffers[w.next]
		data, err, scheduled := b.Scheduled()
		if !scheduled {
			select {
			case <-b.Done():
				continue
			case <-wait():
				return false, nil
			}
		}
		if err == nil && w.ready == nil {
			ready, failure := w.client.Readiness(data)
			if ready && failure == nil {
				if b.IsUnverified() {
					select {
					case <-b.Settled():
					case <-wait():
						return false, nil
					}
				}
				w.next++
				continue
			}
			err = failure
			if !ready && failure == nil {
				called := make(chan error, 1)
				if err = w.client.OnReadyCallback(data, func(err error) { called <- err }); err == nil {
					w.ready = called
				}
			}
		}
		if err == nil {
			select {
			case <-w.ready: // and what it says is asked again above
				w.ready = nil
				continue
			case <-wait():
				return false, nil
			}
		}
		// A failed value may yet be run apart from what failed with it.
		if settled := b.Settled(); settled != nil {
			select {
			case <-settled:
			case <-wait():
				return false, nil
			}
			now, final, _ := b.Scheduled()
			if now != nil && now != data {
				continue
			}
			if final != nil { // which says more
				err = final
			}
		}
		return false, err
	}
	return true, nil
}

// Data gives the value of buffer i once Poll has said done.
func (w *Wait) Data(i int) client.Data {
	data, _, _ := w.buffers[i].Scheduled()
	return data
}

// Close lets go of the buffers. Idempotent.
func (w *Wait) Close() {
	w.closed.Do(func() {
		for _, b := range w.buffers {
			b.Release()
		}
	})
}
