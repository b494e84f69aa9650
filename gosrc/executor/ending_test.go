package executor

import (
	"errors"
	"testing"
	"time"
)

func TestStepsAreSettledInOrderOnceTheFirstIsOver(t *testing.T) {
	d := &Device{}
	d.endings.changed = make(chan struct{}, 1)
	first, second, failed := &step{}, &step{}, &step{}
	firstOver, secondOver := d.watch(first), d.watch(second)
	d.watch(failed)
	settled := make(chan *step, 3)
	go func() {
		for range 3 {
			e := d.endings.next()
			settled <- e.step
		}
	}()
	d.endings.add(ending{first, true, nil})
	secondOver() // also before it is handed over
	d.endings.add(ending{second, true, nil})
	d.endings.add(ending{failed, true, errors.New("no run to wait for")})
	select {
	case s := <-settled:
		t.Fatalf("step %p was settled, but the first, %p, is not over", s, first)
	case <-time.After(20 * time.Millisecond):
	}
	firstOver()
	for _, want := range []*step{first, second, failed} {
		select {
		case s := <-settled:
			if s != want {
				t.Fatalf("settled step %p, want %p", s, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a step that is over was not settled")
		}
	}
}
