package platform

import (
	"sync/atomic"

	"xla_go/pjrt"
)

// NotifyReady calls fn once, on a goroutine of its own, when all buffers are ready or have failed, with
// the first failure. On an error fn is not called. Not blocking.
func NotifyReady(buffers []*pjrt.Buffer, fn func(error)) error {
	events := make([]*pjrt.Event, len(buffers))
	for i, b := range buffers {
		var err error
		if events[i], err = b.ReadyEvent(); err != nil {
			for _, e := range events[:i] {
				e.Destroy()
			}
			return err
		}
	}
	var failure atomic.Pointer[error]
	var left atomic.Int32
	left.Store(int32(len(events)))
	for _, e := range events {
		Watch(e, func(err error) {
			if err != nil {
				failure.CompareAndSwap(nil, &err)
			}
			if left.Add(-1) != 0 {
				return
			}
			go func() { // off the plugin's thread, which must not be held up
				if f := failure.Load(); f != nil {
					fn(*f)
					return
				}
				fn(nil)
			}()
		})
	}
	return nil
}

// WatchAll calls finished once all events have happened, with whether one of them failed, and destroys them.
// finished may run on a thread of the plugin.
func WatchAll(events []*pjrt.Event, finished func(failed bool)) {
	switch len(events) {
	case 0:
		finished(false)
		return
	case 1: // the usual run: nothing to count
		Watch(events[0], func(err error) { finished(err != nil) })
		return
	}
	var left atomic.Int32
	var failed atomic.Bool
	left.Store(1) // until all are watched
	done := func(err error) {
		if err != nil {
			failed.Store(true)
		}
		if left.Add(-1) == 0 {
			finished(failed.Load())
		}
	}
	for _, e := range events {
		if e != nil {
			left.Add(1)
			Watch(e, done)
		}
	}
	done(nil)
}
