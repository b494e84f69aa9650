package executor_test

import (
	"runtime"
	"testing"
	"time"

	"xla_go/gosrc/executor"
	"xla_go/gosrc/metrics"
)

// TestProgramsBeyondTheLimitGo: those used longest ago, which are compiled again when they are wanted.
func TestProgramsBeyondTheLimitGo(t *testing.T) {
	const limit = 8
	f := startFake(t)
	options := executor.DefaultOptions()
	options.Programs = limit
	f.fixture = f.another(options)
	run := f.runSize
	compiles := metrics.Counter("UncachedCompile")
	before := compiles.Value()
	for size := 1; size <= 40; size++ {
		run(size)
		run(1) // always wanted
	}
	if n := f.core.CachedPrograms(); n > limit || n < 2 {
		t.Errorf("%d programs are held, expected at most %d", n, limit)
	}
	if n := compiles.Value() - before; n != 40 {
		t.Errorf("%d compiles of 40 programs of which one is always in use", n)
	}
	run(2)
	if n := compiles.Value() - before; n != 41 {
		t.Errorf("%d compiles with a program that had gone, expected 41", n)
	}
	f.closesTo(limit)
}

// runSize runs a program of which there is one for each size.
func (f faked) runSize(size int) {
	f.Helper()
	x, want := f.root(make([]float32, size)...), make([]float32, size)
	f.addScalar(x, x, 1)
	f.mustCut()
	for i := range want {
		want[i] = 1
	}
	f.expect(x, want...)
	f.core.Mu.Lock()
	x.Drop()
	f.core.Mu.Unlock()
}

// closesTo waits until at most that many programs are loaded.
func (f faked) closesTo(most int) {
	f.Helper()
	f.device.WaitIdle()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		_, computations := f.client.Live()
		if computations <= int64(most) {
			break
		}
		if time.Now().After(deadline) {
			f.Fatalf("%d programs are loaded, expected at most %d", computations, most)
		}
	}
}

// TestProgramsGoWhereAddressRangesRunOut: before the system refuses more, and as many as it takes.
func TestProgramsGoWhereAddressRangesRunOut(t *testing.T) {
	const others, each, allowed = 100, 400, 8000
	f := startFake(t)
	most := 0
	options := executor.DefaultOptions()
	options.AddressRanges = func() (held, limit int, ok bool) {
		held = others + each*f.core.CachedPrograms() // as if those that went were closed at once
		most = max(most, held)
		return held, allowed, true
	}
	f.fixture = f.another(options)
	for size := 1; size <= 60; size++ {
		f.runSize(size)
	}
	if most >= allowed || most < allowed/2 {
		t.Errorf("%d address ranges were held at most, expected fewer than %d", most, allowed)
	}
	f.closesTo(allowed / each)
}
