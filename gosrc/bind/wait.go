package bind

import (
	"time"

	"xla_go/gosrc/client/current"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/executor"
)

// waits are the waits that Python has begun and not ended.
var waits = dispatch.NewHandles[*pendingWait]("wait")

// pendingWait is something that will happen, waited for in slices.
type pendingWait struct {
	done chan struct{}
	err  error // valid once done is closed
}

func newWait() *pendingWait { return &pendingWait{done: make(chan struct{})} }

func (w *pendingWait) finish(err error) {
	w.err = err
	close(w.done)
}

// waitFor gives a token to wait for the end of wait, which runs on a goroutine of its own.
func waitFor(wait func() error) (token int64) {
	w := newWait()
	go func() {
		var failure error
		defer func() { w.finish(failure) }()
		defer guard(&failure)
		failure = wait()
	}()
	return waits.Add(w)
}

// waitForCore is waitFor with the executor's core; where there is none yet, the wait is over.
func waitForCore(wait func(core *executor.Core)) (token int64) {
	space := dispatch.Space()
	if space == nil { // no tensor, so no program and no step
		w := newWait()
		w.finish(nil)
		return waits.Add(w)
	}
	return waitFor(func() error {
		wait(space.Core)
		return nil
	})
}

// ReadBegin gives a token to wait for data with: Wait until it says true, then EndWait. Not blocking.
func ReadBegin(handle int64) (token int64, err error) {
	defer guard(&err)
	c, data, err := clientAndData(handle)
	if err != nil {
		return 0, err
	}
	w := newWait()
	if ready, failure := c.Readiness(data); ready {
		w.finish(failure)
	} else if err := c.OnReadyCallback(data, w.finish); err != nil {
		return 0, err
	}
	return waits.Add(w), nil
}

// WaitDeviceOpsBegin gives a token to wait for all queued work of the named devices, one a line; none
// named means all local ones. Not blocking.
func WaitDeviceOpsBegin(devices string) (token int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	return waitFor(func() error { return c.WaitDeviceOps(split(devices)) }), nil
}

// QueueWaitBegin gives a token to wait for every step that has been queued so far, its compile
// included. Not blocking.
func QueueWaitBegin() (token int64, err error) {
	defer guard(&err)
	return waitForCore((*executor.Core).WaitIdle), nil
}

// Wait waits at most that many milliseconds and says whether the wait is over; the error is that of
// what was waited for. BLOCKING for one slice.
func Wait(token, milliseconds int64) (over bool, err error) {
	defer guard(&err)
	w, err := waits.Get(token)
	if err != nil {
		return false, err
	}
	return w.wait(milliseconds)
}

// wait waits for one slice and says whether the wait is over.
func (w *pendingWait) wait(milliseconds int64) (over bool, err error) {
	select {
	case <-w.done:
		return true, w.err
	default:
	}
	timer := time.NewTimer(time.Duration(milliseconds) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-w.done:
		return true, w.err
	case <-timer.C:
		return false, nil
	}
}

// EndWait gives a token back, whether or not its wait is over. Idempotent.
func EndWait(token int64) (ended bool, err error) {
	defer guard(&err)
	_, ended = waits.Remove(token)
	return ended, nil
}
