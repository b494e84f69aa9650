package executor

import (
	"testing"

	"xla_go/gosrc/ir"
)

func queuedStep(compiled bool, donors []ir.Donation, withheld []int, arguments ...*ir.Buffer) *step {
	e := &executable{donors: donors, done: make(chan struct{})}
	if compiled {
		close(e.done)
	}
	return &step{executable: e, arguments: arguments, withheld: withheld}
}

// TestOrderOfTheQueue: a step that waits for the compiler lets others go first, if that cannot be noticed.
func TestOrderOfTheQueue(t *testing.T) {
	a, b := ir.NewBuffer(nil), ir.NewBuffer(nil)
	made := make(chan struct{}) // closed when the first step has run
	promised := ir.NewPromise(made, made)
	for _, buffer := range []*ir.Buffer{a, b, promised} {
		defer buffer.Release()
	}
	donor := []ir.Donation{{Parameter: 0, Output: 0}}
	waiting := func(arguments ...*ir.Buffer) *step { return queuedStep(false, nil, nil, arguments...) }
	for name, test := range map[string]struct {
		queue []*step
		want  int // -1 where all have to wait
	}{
		"in order":                       {[]*step{queuedStep(true, nil, nil, a), queuedStep(true, nil, nil, a)}, 0},
		"past a compile":                 {[]*step{waiting(a), queuedStep(true, nil, nil, a)}, 1},
		"past two":                       {[]*step{waiting(a), waiting(a), queuedStep(true, nil, nil, b)}, 2},
		"it needs the result":            {[]*step{waiting(a), queuedStep(true, nil, nil, promised)}, -1},
		"it reuses what is read":         {[]*step{waiting(a), queuedStep(true, donor, nil, a)}, -1},
		"it would, but is kept from it":  {[]*step{waiting(a), queuedStep(true, donor, []int{0}, a)}, 1},
		"it reuses something else":       {[]*step{waiting(a), queuedStep(true, donor, nil, b, a)}, 1},
		"the first one never is checked": {[]*step{queuedStep(true, donor, nil, promised)}, 0},
		"nothing":                        {nil, -1},
	} {
		d := &Device{queue: append([]*step(nil), test.queue...)}
		got := d.takeNext()
		switch {
		case test.want < 0 && got != nil:
			t.Errorf("%s: a step was taken, want none", name)
		case test.want >= 0 && got != test.queue[test.want]:
			t.Errorf("%s: not step %d was taken", name, test.want)
		case test.want >= 0 && len(d.queue) != len(test.queue)-1:
			t.Errorf("%s: %d steps are left", name, len(d.queue))
		}
	}
}
