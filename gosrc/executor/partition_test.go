package executor_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/selection"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/env"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// kindSum is the sum of all elements, which takes values of every device.
var kindSum = ir.Define("test::sum", func(l *ir.Lowering) []hlo.Value {
	dims := make([]int, len(l.In(0).Dims()))
	for i := range dims {
		dims[i] = i
	}
	return []hlo.Value{l.B.ReduceOp(hlo.Add, l.In(0), l.B.Scalar(dtype.F32, 0), dims)}
})

// partitionedFixture is a core whose programs are partitioned over four devices.
type partitionedFixture struct {
	*fixture
	recorder *recorder
}

func eachModel(t *testing.T, test func(f *partitionedFixture)) {
	for _, model := range []string{"0", "1"} {
		t.Run("XLA_USE_IFRT="+model, func(t *testing.T) {
			env.Replace(map[string]string{"XLA_USE_IFRT": model})
			t.Cleanup(func() { env.Replace(nil) })
			c, err := selection.New(selection.Options{PluginPath: cpuPlugin(t), CreateOptions: map[string]any{"cpu_device_count": int64(4)}})
			if err != nil {
				t.Fatal(err)
			}
			r := &recorder{Client: c}
			f := startOn(t, r)
			f.core.Partition()
			r.forget()
			test(&partitionedFixture{f, r})
		})
	}
}

func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls, r.moved = nil, nil
}

func (r *recorder) count(method string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, c := range r.calls {
		if c.method == method {
			n++
		}
	}
	return n
}

// upTo gives 0 to n-1.
func upTo(n int) []float32 {
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	return values
}

// deferred makes a root that holds values of the host.
func (f *partitionedFixture) deferred(dims []int64, values ...float32) *executor.Root {
	r := f.empty()
	f.core.LockResolved()
	defer f.core.Mu.Unlock()
	r.Set(f.core.DeferredLeaf(float32Bytes(values), dtype.F32, dims))
	f.core.Graph.EndCall()
	return r
}

// mark annotates a root that holds values of the host.
func (f *partitionedFixture) mark(r *executor.Root, s *hlo.Sharding) {
	f.Helper()
	f.core.LockResolved()
	defer f.core.Mu.Unlock()
	r.Annotate(s, r.Value().Dims)
	if !r.Value().Buffer.BeginSharded(s) {
		f.Error("the transfer has begun before")
	}
}

func (f *partitionedFixture) cutResolved() {
	f.Helper()
	f.core.LockResolved()
	defer f.core.Mu.Unlock()
	if _, err := f.device.Cut("test"); err != nil {
		f.Fatal(err)
	}
}

func (f *partitionedFixture) sharding(r *executor.Root) *hlo.Sharding {
	f.core.LockResolved()
	defer f.core.Mu.Unlock()
	return r.Value().Sharding()
}

func byRows(devices ...int64) *hlo.Sharding {
	return &hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{int64(len(devices)), 1}, Devices: devices}
}

// A value of the host that is divided goes to each device in part, one transfer for each shard, and is read back without a
// program.
func TestHostValuesAreTransferredShardByShard(t *testing.T) {
	eachModel(t, func(f *partitionedFixture) {
		x := f.deferred([]int64{7, 2}, upTo(14)...) // 2, 2, 2 and 1 rows
		f.mark(x, byRows(2, 0, 1, 3))
		compiled := compilerRuns()
		f.expect(x, upTo(14)...)
		if n := compilerRuns() - compiled; n != 0 {
			f.Errorf("%d programs were compiled for the transfer and the read", n)
		}
		if want := []int64{16, 16, 16, 16}; !slices.Equal(f.recorder.moved, want) {
			f.Errorf("transfers of %v bytes, want %v", f.recorder.moved, want)
		}
		data, err := f.data(x)
		if err != nil {
			t.Fatal(err)
		}
		shards, err := f.recorder.GetDataShards(data)
		if err != nil {
			t.Fatal(err)
		}
		want := [][]float32{{4, 5, 6, 7}, {8, 9, 10, 11}, {0, 1, 2, 3}, {12, 13, 0, 0}} // the last padded
		for i, shard := range shards {
			literals, err := f.recorder.TransferFromDevice([]client.Data{shard})
			if err != nil {
				t.Fatal(err)
			}
			if got := literals[0].Bytes; string(got) != string(float32Bytes(want[i])) {
				f.Errorf("device %d has %v, want %v", i, got, want[i])
			}
			shard.Close()
		}
		y := f.deferred([]int64{3}, 1, 2, 3)
		f.expect(y, 1, 2, 3)
		if s := f.sharding(y); s == nil || s.Kind != hlo.Replicated {
			f.Errorf("a value that nobody annotated lies %v, want replicated", s)
		}
	})
}

// The upload of a host value begins with the first node that takes it, before there is a program.
func TestUploadsBeginWhileTheirUserIsTraced(t *testing.T) {
	eachModel(t, func(f *partitionedFixture) {
		x, unused, y := f.deferred([]int64{4}, upTo(4)...), f.deferred([]int64{4}, upTo(4)...), f.empty()
		if !x.Value().Buffer.IsDeferred() {
			f.Error("an upload has begun before anybody takes the value")
		}
		f.apply(y, kindTwice, []int64{4}, x)
		if x.Value().Buffer.IsDeferred() || !unused.Value().Buffer.IsDeferred() {
			f.Errorf("waiting after tracing: %v with a node that takes it, %v without", x.Value().Buffer.IsDeferred(), unused.Value().Buffer.IsDeferred())
		}
		f.core.WaitIdle()
		if len(f.device.Pending()) == 0 || len(f.recorder.moved) != 4 {
			f.Errorf("%d pending values and transfers of %v bytes, want some of the one and 4 of the other", len(f.device.Pending()), f.recorder.moved)
		}
		f.cutResolved()
		f.expect(y, 0, 2, 4, 6)
	})
}

// A training loop in small: what is overwritten keeps its layout, gives its memory, and makes one program.
func TestOverwrittenValuesKeepTheirLayout(t *testing.T) {
	eachModel(t, func(f *partitionedFixture) {
		x := f.deferred([]int64{8, 2}, upTo(16)...)
		f.mark(x, byRows(0, 1, 2, 3))
		before := compiles()
		for i := range 5 {
			old, err := f.data(x)
			if err != nil {
				t.Fatal(err)
			}
			f.addScalar(x, x, 1)
			f.cutResolved()
			if s := f.sharding(x); s == nil || !s.Equal(byRows(0, 1, 2, 3)) {
				f.Errorf("step %d: the value lies %v", i, s)
			}
			f.expect(x, float32(i+1), float32(i+2), float32(i+3))
			if old.HasValue() {
				f.Errorf("step %d has not reused the memory of the value that it replaced", i)
			}
		}
		if n := compiles() - before; n != 1 {
			f.Errorf("%d programs were compiled, want 1", n)
		}
		if n := f.recorder.count("ExecuteReplicated"); n != 5 {
			f.Errorf("%d replicated runs, want 5", n)
		}
	})
}

// What a program makes without being told how lies as the compiler chose, and is known once it is compiled.
func TestTheCompilerLaysResultsOut(t *testing.T) {
	eachModel(t, func(f *partitionedFixture) {
		x := f.deferred([]int64{4, 2}, upTo(8)...)
		f.mark(x, byRows(0, 1, 2, 3))
		y, sum := f.empty(), f.empty()
		f.apply(y, kindTwice, []int64{4, 2}, x)
		f.apply(sum, kindSum, nil, y)
		f.cutResolved()
		if s := f.sharding(y); s == nil || !s.Equal(byRows(0, 1, 2, 3)) {
			f.Errorf("twice a divided value lies %v", s)
		}
		f.expect(sum, 56)
		f.expect(y, 0, 2, 4, 6, 8, 10, 12, 14)
	})
}

// The order of the devices is part of the program.
func TestDeviceOrderIsPartOfTheProgram(t *testing.T) {
	eachModel(t, func(f *partitionedFixture) {
		before := compiles()
		for _, devices := range [][]int64{{0, 1, 2, 3}, {1, 0, 3, 2}, {0, 1, 2, 3}, {3, 2, 1, 0}} {
			x := f.deferred([]int64{4, 1}, upTo(4)...)
			f.mark(x, byRows(devices...))
			y := f.empty()
			f.core.LockResolved()
			n := f.core.Graph.New(kindTwice, dtype.F32, []int64{4, 1})
			n.AddOperand(x.Value())
			y.Set(f.core.Graph.Annotate(n, byRows(0, 1, 2, 3)))
			f.core.Graph.EndCall()
			f.core.Mu.Unlock()
			f.cutResolved()
			f.expect(y, 0, 2, 4, 6)
			if s := f.sharding(y); s == nil || !s.Equal(byRows(0, 1, 2, 3)) {
				f.Errorf("an annotated result lies %v", s)
			}
		}
		if n := compiles() - before; n != 3 {
			f.Errorf("%d programs were compiled for three orders of devices", n)
		}
	})
}

// Values that lie on one device are replicated when a partitioned program takes them, once.
func TestValuesOfOneDeviceAreReplicated(t *testing.T) {
	eachModel(t, func(f *partitionedFixture) {
		x := f.root(1, 2, 3, 4)
		before := compiles()
		for i := range 3 {
			y := f.empty()
			f.addScalar(y, x, float64(i))
			f.cutResolved()
			f.expect(y, float32(1+i), float32(2+i))
		}
		data, err := f.data(x)
		if err != nil || data.Sharding() == nil {
			f.Errorf("the value %v (%v), want it replicated", data, err)
		}
		if n := compiles() - before; n != 1 {
			f.Errorf("%d programs were compiled, want 1", n)
		}
	})
}

// From the tuple threshold on, parameters are one tuple, and so are their shardings.
func TestTupledParametersArePartitioned(t *testing.T) {
	eachModel(t, func(f *partitionedFixture) {
		options := executor.DefaultOptions()
		options.TupleThreshold = 2
		other := &partitionedFixture{f.another(options), f.recorder}
		other.core.Partition()
		x, y := other.deferred([]int64{4, 1}, upTo(4)...), other.deferred([]int64{4, 1}, upTo(4)...)
		other.mark(x, byRows(3, 2, 1, 0))
		other.apply(x, kindAdd, []int64{4, 1}, x, y)
		other.addScalar(x, x, 1)
		other.cutResolved()
		other.expect(x, 1, 3, 5, 7)
		if s := other.sharding(x); s == nil || !s.Equal(byRows(3, 2, 1, 0)) {
			f.Errorf("the sum lies %v", s)
		}
		other.device.WaitIdle()
	})
}

// A result that failed is computed apart, and lies as the keys of later steps have it.
func TestPartitionedErrors(t *testing.T) {
	eachModel(t, func(f *partitionedFixture) {
		x := f.deferred([]int64{4, 1}, upTo(4)...)
		f.mark(x, byRows(0, 1, 2, 3))
		broken := f.empty()
		f.apply(broken, kindBroken, []int64{4, 1}, x)
		f.addScalar(x, x, 1)
		f.cutResolved()
		if _, err := f.data(broken); status.CodeOf(err) != status.Internal {
			f.Errorf("a program that cannot be lowered: %v", err)
		}
		f.device.WaitIdle()
		f.core.Mu.Lock()
		f.device.TakeDeferredError()
		broken.Drop()
		f.core.Mu.Unlock()
		f.expect(x, upTo(4)...) // as before the step
		f.addScalar(x, x, 2)
		f.cutResolved()
		f.expect(x, 2, 3, 4, 5)
		for _, bad := range []*hlo.Sharding{{Kind: hlo.Tiled, Tiles: []int64{2}, Devices: []int64{0, 1}}} {
			y := f.deferred([]int64{4, 1}, upTo(4)...)
			f.core.LockResolved()
			y.Value().Buffer.BeginSharded(bad)
			f.core.Mu.Unlock()
			if _, err := f.data(y); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(fmt.Sprint(err), "2 dimensions") {
				f.Errorf("tiles that do not fit: %v", err)
			}
		}
	})
}

// A second core over the same directory finds the partitioned program, and keeps it apart from the same one of one device.
func TestPartitionedProgramsOutliveTheirProcess(t *testing.T) {
	eachModel(t, func(f *partitionedFixture) {
		options := executor.DefaultOptions()
		options.Cache.Directory = t.TempDir()
		run := func(partition bool) int64 {
			other := &partitionedFixture{f.another(options), f.recorder}
			if partition {
				other.core.Partition()
			}
			compiled := compilerRuns()
			x := other.root(1, 2)
			y := other.empty()
			other.addScalar(y, x, 1)
			other.cutResolved()
			other.expect(y, 2, 3)
			other.device.WaitIdle()
			other.core.FlushCache()
			return compilerRuns() - compiled
		}
		if first, second, single := run(true), run(true), run(false); first != 1 || second != 0 || single != 1 {
			t.Errorf("compiled %d programs at first, %d the second time, %d for one device: want 1, 0, 1", first, second, single)
		}
	})
}

// While the compiler works on a program, a cut that needs the layout of its results waits, and operators do not.
func TestCutsWaitForLayoutsOnly(t *testing.T) {
	eachModel(t, func(f *partitionedFixture) {
		x := f.deferred([]int64{4}, 1, 2, 3, 4)
		y, z := f.empty(), f.empty()
		f.apply(y, kindSlow, []int64{1 << 10}, x)
		f.cutResolved()
		begun := time.Now()
		f.apply(z, kindTwice, []int64{1 << 10}, y)
		f.core.Mu.Lock()
		if err := f.device.EndCall(); err != nil {
			t.Error(err)
		}
		f.core.Mu.Unlock()
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("an operator took %v beside a compile", took)
		}
		f.cutResolved()
		data, err := f.data(z)
		if err != nil {
			t.Fatal(err)
		}
		literals, err := f.recorder.TransferFromDevice([]client.Data{data})
		if err != nil {
			t.Fatal(err)
		}
		// The product of a matrix of tens with itself, divided by its size, is one of ten times as much.
		if v := math.Float32frombits(binary.LittleEndian.Uint32(literals[0].Bytes)); !math.IsInf(float64(v), 1) || len(literals[0].Bytes) != 4<<10 {
			t.Errorf("read %v", v)
		}
	})
}
