package executor_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// kindTake takes elements of operand 0 at operand 1, which it checks.
var kindTake = ir.Define("test::take", func(l *ir.Lowering) []hlo.Value {
	n := l.In(0).Dims()[0]
	l.CheckRange(1, 0, n, ir.Refusal{Exception: status.IndexError, Text: "place " + ir.CheckedValue + " is none"})
	return []hlo.Value{l.B.Gather(l.In(0), l.In(1), hlo.GatherDims{
		CollapsedSliceDims: []int64{0}, StartIndexMap: []int64{0}, IndexVectorDim: 1, SliceSizes: []int64{1},
	})}
})

func init() { ir.MayCheck(kindTake) }

// places makes a root that holds positions on the device.
func (f *fixture) places(values ...int64) *executor.Root {
	f.Helper()
	var bytes []byte
	for _, v := range values {
		bytes = binary.LittleEndian.AppendUint64(bytes, uint64(v))
	}
	data, err := f.core.Client().TransferToDevice([]client.TensorSource{{Shape: shape.Make(dtype.S64, int64(len(values))), Device: f.devices[0], Bytes: bytes}})
	if err != nil {
		f.Fatal(err)
	}
	r := f.empty()
	f.core.Mu.Lock()
	defer f.core.Mu.Unlock()
	r.Set(f.core.Graph.Leaf(ir.NewBuffer(data[0]), dtype.S64, []int64{int64(len(values))}))
	f.core.Graph.EndCall()
	return r
}

func (f *fixture) take(out, from, places *executor.Root) {
	f.Helper()
	f.apply(out, kindTake, places.Value().Dims, from, places)
}

func wantRefusal(t *testing.T, err error, text string) {
	t.Helper()
	if status.ExceptionOf(err) != status.IndexError || !strings.HasPrefix(status.MessageOf(err), text+"\nin test::take") {
		t.Fatalf("expected %q, got %v", text, err)
	}
}

func TestFailedCheckIsToldOnceByTheNextCut(t *testing.T) {
	f := start(t)
	x, out := f.root(1, 2, 3), f.empty()
	f.take(out, x, f.places(0, 7, -1))
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	f.device.WaitIdle()
	wantRefusal(t, f.cut(), "place 7 is none")
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	f.expect(x, 1, 2, 3)
	f.take(out, x, f.places(2, 0, 1))
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	f.device.WaitIdle()
	if err := f.core.TakeDeferredError(); err != nil {
		t.Fatal(err)
	}
	f.expect(out, 3, 1, 2)
}

// A wait for a value that a failed check is behind, in its own step or in one before, ends after the error is known.
func TestWaitEndsAfterTheCheckIsKnown(t *testing.T) {
	f := start(t)
	x, bad := f.root(1, 2, 3), f.places(3)
	for range 30 { // whichever goroutine is faster
		out, later := f.empty(), f.empty()
		f.take(out, x, bad)
		if err := f.cut(); err != nil {
			t.Fatal(err)
		}
		f.addScalar(later, out, 1)
		f.core.Mu.Lock()
		step, err := f.device.Cut("test")
		f.core.Mu.Unlock()
		if err != nil { // the check was known by then
			wantRefusal(t, err, "place 3 is none")
			continue
		}
		wait := f.core.NewWait(step.Buffers()...)
		for done := false; !done; {
			if done, err = wait.Poll(time.Second); err != nil {
				t.Fatal(err)
			}
		}
		wait.Close()
		wantRefusal(t, f.core.TakeDeferredError(), "place 3 is none")
	}
}

func TestEqualValuesAreCheckedOnce(t *testing.T) {
	f := start(t)
	x, places := f.root(1, 2, 3), f.places(2, 0)
	one, two := f.empty(), f.empty()
	f.take(one, x, places)
	f.take(two, x, places)
	f.core.Mu.Lock()
	key, _ := f.device.Key([]*ir.Node{one.Value(), two.Value()})
	f.core.Mu.Unlock()
	program, err := ir.DecodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, unchecked := range []bool{false, true} {
		program.Unchecked = unchecked
		module, err := program.Lower("step", 0)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{false: 1, true: 0}[unchecked]; len(module.Checks) != want {
			t.Errorf("unchecked %v: expected %d checks, got %d", unchecked, want, len(module.Checks))
		}
	}
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	f.expect(one, 3, 1)
	f.expect(two, 3, 1)
}

// Outputs that are run apart after their step has failed are checked as well.
func TestOutputsRunApartAreChecked(t *testing.T) {
	f := start(t)
	x, huge, out := f.root(1, 2, 3), f.empty(), f.empty()
	f.apply(huge, kindHuge, []int64{1 << 42}, x)
	f.take(out, x, f.places(1, 9))
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	f.device.WaitIdle()
	wantRefusal(t, f.core.TakeDeferredError(), "place 9 is none")
	f.expect(out, 2, 3)
}

func TestStrictAndEagerModeAwaitWhatIsChecked(t *testing.T) {
	f := start(t)
	x, bad := f.root(1, 2, 3), f.places(-4)
	out := f.empty()
	awaited := func() *executor.Step {
		f.core.Mu.Lock()
		defer f.core.Mu.Unlock()
		return f.device.TakeAwaited()
	}
	f.take(out, x, bad)
	f.core.SetEager(true)
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	f.core.SetEager(false)
	step := awaited()
	if step == nil {
		t.Fatal("a program with checks is not awaited in eager mode")
	}
	for !step.AwaitChecks(time.Second) {
	}
	wantRefusal(t, f.core.TakeDeferredError(), "place -4 is none")
	f.take(out, x, bad)
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	if awaited() != nil {
		t.Error("a step is awaited without a mode that asks for it")
	}
	f.device.WaitIdle()
	wantRefusal(t, f.core.TakeDeferredError(), "place -4 is none")
	f.core.SetStrict(true) // the program is known by now
	defer f.core.SetStrict(false)
	f.take(out, x, bad)
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	f.core.AwaitChecks()
	wantRefusal(t, f.core.TakeDeferredError(), "place -4 is none")
}
