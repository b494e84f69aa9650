package executor_test

import (
	"testing"

	"xla_go/gosrc/executor"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/status"
)

// resolve waits until it is known how all values lie.
func (f *partitionedFixture) resolve() {
	f.core.LockResolved()
	f.core.Mu.Unlock()
}

// A recording of a partitioned program runs on inputs that lie as those did that it was traced with, and its outputs lie as they
// were annotated.
func TestPartitionedRecordings(t *testing.T) {
	eachModel(t, func(f *partitionedFixture) {
		dims := []int64{4, 2}
		rows, columns := byRows(0, 1, 2, 3), &hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{1, 2, 2}, ReplicateOnLast: true, Devices: []int64{0, 1, 2, 3}}
		marked := func(s *hlo.Sharding) *executor.Root {
			x := f.deferred(dims, upTo(8)...)
			f.mark(x, s)
			return x
		}
		x, y := marked(rows), f.empty()
		r, err := f.record(roots(x), roots(y), func() {
			f.apply(y, kindTwice, dims, x)
			f.core.Mu.Lock()
			y.Annotate(columns, dims)
			f.core.Mu.Unlock()
			f.addScalar(x, x, 1)
		})
		if err != nil {
			t.Fatal(err)
		}
		f.resolve()
		f.expect(y, 0, 2, 4, 6, 8, 10, 12, 14)
		before := compiles()
		for i := range 3 {
			old, err := f.data(x)
			if err != nil {
				t.Fatal(err)
			}
			y := f.empty()
			f.mustRun(r, roots(x), roots(y))
			f.expect(y, float32(2*i+2), float32(2*i+4))
			f.expect(x, float32(i+2), float32(i+3))
			if a, b := f.sharding(x), f.sharding(y); !a.Equal(rows) || !b.Equal(columns) || !y.Annotation(dims).Equal(columns) {
				t.Errorf("the input lies %v, the output %v, annotated as %v", a, b, y.Annotation(dims))
			}
			if old.HasValue() {
				t.Errorf("run %d has not reused the memory of the value that it replaced", i)
			}
		}
		plain := f.deferred(dims, upTo(8)...)
		for name, other := range map[string]*executor.Root{"divided otherwise": marked(columns), "replicated": plain} {
			if ran, err := f.run(r, roots(other), roots(f.empty())); ran || err != nil {
				t.Errorf("it runs on an input that is %s: %v, %v", name, ran, err)
			}
		}
		last := f.empty()
		f.mustRun(r, roots(marked(rows)), roots(last))
		f.expect(last, 0, 2)
		if n := compiles() - before; n != 0 {
			t.Errorf("%d programs were compiled", n)
		}
		_, err = f.record(roots(plain), roots(f.empty()), func() {
			f.core.Mu.Lock()
			defer f.core.Mu.Unlock()
			plain.Annotate(rows, dims)
		})
		if status.CodeOf(err) != status.Unavailable {
			t.Errorf("a program that annotates its input: %v, want it unavailable", err)
		}
	})
}

// What is not known yet is nobody's error: the caller waits, and tries again.
func TestPartitionedRecordingsWaitForNothing(t *testing.T) {
	eachModel(t, func(f *partitionedFixture) {
		x, y := f.deferred([]int64{4}, upTo(4)...), f.empty()
		r, err := f.record(roots(x), roots(y), func() { f.apply(y, kindTwice, []int64{4}, x) })
		if err != nil {
			t.Fatal(err)
		}
		f.resolve()
		for {
			pending, z := f.empty(), f.empty()
			f.addScalar(pending, x, 1)
			if ran, err := f.run(r, roots(pending), roots(z)); err != nil {
				t.Fatal(err)
			} else if ran {
				f.expect(z, 2, 4, 6, 8)
				break
			}
			f.resolve()
		}
	})
}
