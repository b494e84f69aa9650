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
	run := func(size int) {
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
	f.device.WaitIdle()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		_, computations := f.client.Live()
		if computations <= limit {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d programs are loaded", computations)
		}
	}
}
