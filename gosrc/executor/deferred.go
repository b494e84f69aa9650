package executor

import "errors"

// deferredErrors are those of a device's steps whose storages have good values all the same: a step could not be
// launched and they have their last values again, or its outputs came right when they were run apart, or a check did
// not hold. The next cut or read raises them, so that they do not pass unseen. Under Core.Mu.
type deferredErrors struct {
	untold []error
	// What was told last, and the newest step then: a step that was queued by then and fails of the same cause is
	// part of what the user knows of.
	told   error
	toldAt int64
}

// cause is the error at the bottom of err: values that are lost of one failure each have an error of their own, which
// says where they were to be made.
func cause(err error) error {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return err
}

// add keeps an error of step number unless that cause is told already.
func (e *deferredErrors) add(err error, number int64) {
	origin := cause(err)
	if e.told == origin && number <= e.toldAt {
		return
	}
	for _, other := range e.untold {
		if cause(other) == origin {
			return
		}
	}
	e.untold = append(e.untold, err)
}

// take gives the oldest error, nil where there is none; newest is the newest step of the device.
func (e *deferredErrors) take(newest int64) error {
	if len(e.untold) == 0 {
		return nil
	}
	err := e.untold[0]
	e.untold = e.untold[1:]
	e.told, e.toldAt = cause(err), newest
	return err
}

// tell notes that err has been raised by other means.
func (e *deferredErrors) tell(err error, newest int64) {
	e.told, e.toldAt = cause(err), newest
	kept := e.untold[:0]
	for _, other := range e.untold {
		if cause(other) != e.told {
			kept = append(kept, other)
		}
	}
	e.untold = kept
}

// TakeDeferredError gives, once, the error of a step whose storages have good values all the same; see
// deferredErrors. A cut and a read raise it. Under Core.Mu.
func (d *Device) TakeDeferredError() error { return d.deferredErrors.take(d.queued) }

// deferError keeps the error of a step for the next cut or read. Under Core.Mu.
func (d *Device) deferError(s *step, err error) {
	d.deferredErrors.add(err, s.number)
	d.core.deferred.Store(true)
}

// TakeDeferredError is that of any device, for the end of a read. Without Core.Mu, which it takes only where a
// step has failed.
func (c *Core) TakeDeferredError() error {
	if !c.deferred.Load() {
		return nil
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for _, d := range c.devices {
		if err := d.TakeDeferredError(); err != nil {
			return err
		}
	}
	c.deferred.Store(false)
	return nil
}

// Reported notes that err has been raised, so that its cause is not raised again as a deferred error: neither one
// that waits, nor that of a step which is queued already and has yet to fail of it.
func (c *Core) Reported(err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for _, d := range c.devices {
		d.deferredErrors.tell(err, d.queued)
	}
}
