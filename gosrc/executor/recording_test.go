package executor_test

import (
	"testing"

	"xla_go/gosrc/client/fakeclient"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/status"
)

// record traces a program of inputs that fills outputs, and gives its recording.
func (f *fixture) record(inputs, outputs []*executor.Root, trace func()) (*executor.Recording, error) {
	f.Helper()
	return f.recordAs(false, inputs, outputs, trace)
}

func (f *fixture) recordAs(closed bool, inputs, outputs []*executor.Root, trace func()) (*executor.Recording, error) {
	f.Helper()
	var offset uint64
	f.core.Mu.Lock()
	recorder, err := f.device.Record(inputs, &offset, closed)
	f.core.Mu.Unlock()
	if err != nil {
		return nil, err
	}
	trace()
	f.core.Mu.Lock()
	defer f.core.Mu.Unlock()
	recording, err := recorder.Finish(outputs)
	if err == nil {
		f.Cleanup(func() {
			f.core.Mu.Lock()
			defer f.core.Mu.Unlock()
			recording.Close()
			recording.Close()
		})
	}
	return recording, err
}

func (f *fixture) run(r *executor.Recording, inputs, outputs []*executor.Root) (bool, error) {
	defer f.device.LaunchQueued()
	f.core.Mu.Lock()
	defer f.core.Mu.Unlock()
	var offset uint64
	return r.Run(inputs, outputs, 0, &offset)
}

func (f *fixture) mustRun(r *executor.Recording, inputs, outputs []*executor.Root) {
	f.Helper()
	if ran, err := f.run(r, inputs, outputs); !ran || err != nil {
		f.Fatalf("the recording ran: %v, %v", ran, err)
	}
}

// roots is a list of them.
func roots(list ...*executor.Root) []*executor.Root { return list }

func TestRecordingRunsOnOtherValues(t *testing.T) {
	f := startFake(t)
	x, y := f.root(1, 2), f.empty()
	r, err := f.record(roots(x), roots(y), func() {
		f.addScalar(y, x, 10) // an output
		f.addScalar(x, x, 1)  // and an input that is written to
	})
	if err != nil {
		t.Fatal(err)
	}
	f.expect(y, 11, 12)
	f.expect(x, 2, 3)
	before, donated := compiles(), f.client.Count(fakeclient.Execute)
	for i := range 3 {
		y := f.empty()
		f.mustRun(r, roots(x), roots(y))
		f.expect(y, float32(12+i), float32(13+i))
		f.expect(x, float32(3+i), float32(4+i))
	}
	other, z := f.root(5, 6), f.empty()
	f.addScalar(other, other, 1) // pending: it is made first
	f.mustRun(r, roots(other), roots(z))
	f.expect(z, 16, 17)
	f.expect(other, 7, 8)
	if n := f.client.Count(fakeclient.Execute) - donated; n != 5 {
		t.Errorf("%d runs, want 5", n)
	}
	if n := compiles() - before; n != 1 {
		t.Errorf("%d programs were compiled, want 1, of the pending sum", n)
	}
	if ran, err := f.run(r, roots(f.root(1, 2, 3)), roots(f.empty())); ran || err != nil {
		t.Errorf("it runs on another shape: %v, %v", ran, err)
	}
}

// What is left of a run that cannot be launched is what was there before it.
func TestRecordingThatCannotBeLaunchedRestoresItsInputs(t *testing.T) {
	f := startFake(t)
	x, y := f.root(1), f.empty()
	r, err := f.record(roots(x), roots(y), func() {
		f.addScalar(y, x, 10)
		f.addScalar(x, x, 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	f.expect(x, 2)
	f.client.FailAt(fakeclient.Upload, 1, failure)
	lost := f.empty()
	f.mustRun(r, roots(x), roots(lost))
	f.device.WaitIdle()
	_, err = f.data(lost)
	f.wantCode("the output", err, status.DataLoss)
	f.expect(x, 2)
	_, err = f.run(r, roots(x), roots(f.empty()))
	f.wantCode("the next run", err, status.DataLoss)
	again := f.empty()
	f.mustRun(r, roots(x), roots(again))
	f.expect(again, 12)
	f.expect(x, 3)
}

// Inputs that held one value are one parameter: the recording serves only inputs that do so again.
func TestRecordingOfInputsThatShareAValue(t *testing.T) {
	f := startFake(t)
	x, twin, y := f.root(1), f.empty(), f.empty()
	share := func(to, from *executor.Root) {
		f.core.Mu.Lock()
		defer f.core.Mu.Unlock()
		to.Set(from.Value())
	}
	share(twin, x)
	r, err := f.record(roots(x, twin), roots(y), func() { f.apply(y, kindAdd, []int64{1}, x, twin) })
	if err != nil {
		t.Fatal(err)
	}
	f.expect(y, 2)
	if ran, err := f.run(r, roots(x, f.root(5)), roots(f.empty())); ran || err != nil {
		t.Errorf("it runs on two values: %v, %v", ran, err)
	}
	a, b, sum := f.root(4), f.empty(), f.empty()
	share(b, a)
	f.mustRun(r, roots(a, b), roots(sum))
	f.expect(sum, 8)
}

// Outputs may be an input's value, or a constant of the program; inputs may change their places.
func TestRecordingHandsValuesOn(t *testing.T) {
	f := startFake(t)
	x, y, copied, constant := f.root(1), f.root(2), f.empty(), f.empty()
	r, err := f.record(roots(x, y), roots(copied, constant), func() {
		k := f.root(9)
		f.core.Mu.Lock()
		defer f.core.Mu.Unlock()
		constant.Set(k.Value())
		copied.Set(x.Value())
		x.Set(y.Value())
		y.Set(copied.Value())
	})
	if err != nil {
		t.Fatal(err)
	}
	f.expect(x, 2)
	f.expect(y, 1)
	runs := f.client.Count(fakeclient.Execute)
	a, b := f.empty(), f.empty()
	f.mustRun(r, roots(x, y), roots(a, b))
	f.expect(x, 1)
	f.expect(y, 2)
	f.expect(a, 2)
	f.expect(b, 9)
	if n := f.client.Count(fakeclient.Execute) - runs; n != 0 {
		t.Errorf("%d runs for values that are only handed on", n)
	}
}

// What depends on more than the inputs is not recorded, and what was traced goes on.
func TestWhatCannotBeRecorded(t *testing.T) {
	for name, spoil := range map[string]func(f faked){
		"a read": func(f faked) {
			f.core.Mu.Lock()
			defer f.core.Mu.Unlock()
			f.core.Break("a read")
		},
		"a cut":         func(f faked) { f.mustCut() },
		"another write": func(f faked) { x := f.root(3); f.addScalar(x, x, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t)
			x, y := f.root(1), f.empty()
			_, err := f.record(roots(x), roots(y), func() {
				f.addScalar(y, x, 10)
				spoil(f)
			})
			f.wantCode("the end", err, status.Unavailable)
			f.mustCut()
			f.expect(y, 11)
			if _, err := f.record(roots(x), roots(y), func() { f.addScalar(y, x, 1) }); err != nil {
				t.Errorf("the next recording: %v", err)
			}
		})
	}
}

// A closed program reads nothing but its inputs: another value could be another one at the next run.
func TestClosedRecordingTakesNoOtherValues(t *testing.T) {
	f := startFake(t)
	x, other, y := f.root(1), f.root(5), f.empty()
	_, err := f.recordAs(true, roots(x), roots(y), func() { f.apply(y, kindAdd, []int64{1}, x, other) })
	f.wantCode("a value that is no input", err, status.Unavailable)
	f.expect(y, 6)
	z := f.empty()
	r, err := f.recordAs(true, roots(x, other), roots(z), func() { f.apply(z, kindAdd, []int64{1}, x, other) })
	if err != nil {
		t.Fatal(err)
	}
	again := f.empty()
	f.mustRun(r, roots(x, f.root(7)), roots(again))
	f.expect(again, 8)
}

func TestRecordingsAreTheSameWhereProgramNumbersAndInputsAre(t *testing.T) {
	f := startFake(t)
	x, y := f.root(1), f.root(2)
	record := func(number float64, inputs ...*executor.Root) *executor.Recording {
		out := f.empty()
		r, err := f.recordAs(true, inputs, roots(out), func() { f.addScalar(out, x, number) })
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := record(10, x)
	if !first.Same(record(10, x)) {
		t.Error("two recordings of one program differ")
	}
	if first.Same(record(11, x)) {
		t.Error("recordings with different numbers are the same")
	}
	if first.Same(record(10, x, y)) || record(10, x, y).Same(record(10, y, x)) {
		t.Error("recordings of different inputs are the same")
	}
}

// Numbers that never change are brought to the device once, and freed with the recording and the last of its steps.
func TestNumbersOfARecordingAreSentOnce(t *testing.T) {
	f := startFake(t)
	x, y := f.root(1), f.empty()
	r, err := f.record(roots(x), roots(y), func() { f.addScalar(y, x, 10) })
	if err != nil {
		t.Fatal(err)
	}
	f.expect(y, 11)
	sent := f.client.Count(fakeclient.Upload)
	for range 5 {
		again := f.empty()
		f.mustRun(r, roots(x), roots(again))
		f.expect(again, 11)
	}
	if n := f.client.Count(fakeclient.Upload) - sent; n != 1 {
		t.Errorf("%d transfers in 5 runs, want 1", n)
	}
}
