package executor_test

import (
	"fmt"
	"testing"
	"time"

	"xla_go/gosrc/executor"
)

// Steps and reads are counted by the line that asked for them, and only while somebody wants to know.
func TestPlaces(t *testing.T) {
	f := startFake(t)
	x := f.root(1, 2)
	step := func(site string) {
		f.addScalar(x, x, 1)
		f.mustCut()
		f.core.LocateCompiles(site, nil)
	}
	step("before.py:1 in main")
	if f.core.NoteRead() != nil {
		t.Error("a read is noted unasked")
	}
	executor.RecordPlaces(true)
	defer executor.RecordPlaces(false)
	before := f.core.Unlocated()
	step("train.py:7 in loop")
	step("train.py:7 in loop")
	for range 3 {
		read := f.core.NoteRead()
		read.End(time.Second)
		f.core.LocateCompiles("train.py:9 in loop", nil)
	}
	if got := f.core.Unlocated() - before; got != 5 {
		t.Errorf("%d things are told to have to be located, want 5", got)
	}
	f.device.WaitIdle()
	places := fmt.Sprint(f.core.Places())
	want := "[{read  train.py:9 in loop 3 0 0 3} {step test train.py:7 in loop 2 0 3 0}]"
	if places != want {
		t.Errorf("got %s, want %s", places, want)
	}
	f.expect(x, 4, 5)
	f.device.WaitIdle()
}

// What happens at more places than are told apart counts together.
func TestPlacesAreBounded(t *testing.T) {
	f := startFake(t)
	executor.RecordPlaces(true)
	defer executor.RecordPlaces(false)
	for i := range 5000 {
		f.core.NoteRead().End(0)
		f.core.LocateCompiles(fmt.Sprintf("train.py:%d in loop", i), nil)
	}
	places := f.core.Places()
	if len(places) != 4097 || places[0].Site != "(other places)" || places[0].Count != 5000-4096 {
		t.Errorf("%d places, the first %+v", len(places), places[0])
	}
}
