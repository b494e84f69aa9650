package executor

import (
	"slices"
	"sync"
)

// ending is a step on its way to its end.
type ending struct {
	step     *step
	launched bool
	err      error // of the launch
}

// isOver is true where there is nothing to wait for, or nothing that tells when it is there.
func (e *ending) isOver() bool {
	return !e.launched || e.err != nil || !e.step.watched || e.step.over.Load()
}

// endings are launched steps, in order. Whoever settles them sleeps until the first is over, and is woken once for it.
type endings struct {
	mu      sync.Mutex
	list    []ending
	changed chan struct{} // of capacity 1: full where the first may be over
}

// add hands a launched step over. Not blocking.
func (l *endings) add(e ending) {
	l.mu.Lock()
	l.list = append(l.list, e)
	l.mu.Unlock()
	if e.isOver() { // else the client wakes
		l.wake()
	}
}

func (l *endings) wake() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// next takes the first step once it is over. BLOCKING.
func (l *endings) next() ending {
	for {
		l.mu.Lock()
		if len(l.list) > 0 && l.list[0].isOver() {
			e := l.list[0]
			l.list = slices.Delete(l.list, 0, 1)
			l.mu.Unlock()
			return e
		}
		l.mu.Unlock()
		<-l.changed
	}
}

// watch gives what the client calls when the step's run is over.
func (d *Device) watch(s *step) func() {
	s.watched = true
	return func() {
		s.over.Store(true)
		d.endings.wake()
	}
}
