package executor_test

import (
	"encoding/binary"
	"math"
	"os"
	"testing"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/selection"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

var (
	kindAdd = ir.Define("test::add", func(l *ir.Lowering) []hlo.Value {
		return []hlo.Value{l.B.Binary(hlo.Add, l.In(0), l.B.BroadcastTo(l.In(1), l.Dims))}
	})
	kindHuge = ir.Define("test::huge", func(l *ir.Lowering) []hlo.Value { // 16 TiB: no machine of a test has them
		n := int64(1) << 42
		x := l.B.Broadcast(l.B.ReduceOp(hlo.Add, l.In(0), l.B.Scalar(dtype.F32, 0), []int{0}), []int64{n}, nil)
		return []hlo.Value{l.B.Binary(hlo.Add, x, l.B.Convert(l.B.Iota(dtype.S64, []int64{n}, 0), dtype.F32))}
	})
	kindBroken = ir.Define("test::broken", func(l *ir.Lowering) []hlo.Value { panic("this lowering is broken") })
)

type fixture struct {
	*testing.T
	core    *executor.Core
	device  *executor.Device
	devices []string // of the client
}

// start makes a core over the real plugin, with either client (XLA_USE_IFRT). When the test ends nothing may be left.
func start(t *testing.T) *fixture {
	path := os.Getenv("XLA_GO_TEST_PLUGIN")
	if path == "" {
		t.Fatal("XLA_GO_TEST_PLUGIN is not set: expected the path of a CPU plugin (make test-go sets it)")
	}
	c, err := selection.New(selection.Options{PluginPath: path})
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, c)
}

// startOn makes a core over a client. When the test ends nothing may be left.
func startOn(t *testing.T, c client.Client) *fixture {
	core := executor.NewCore(c, executor.DefaultOptions())
	device, err := core.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t, core, device, c.GetLocalDevices()}
	t.Cleanup(func() {
		device.WaitIdle()
		if n := core.Graph.Live(); n != 0 {
			t.Errorf("%d nodes are left", n)
		}
		if n := ir.LiveBuffers(); n != 0 {
			t.Errorf("%d buffers are left", n)
		}
	})
	return f
}

// root makes a root that holds the values on the device.
func (f *fixture) root(values ...float32) *executor.Root {
	f.Helper()
	data, err := f.core.Client().TransferToDevice([]client.TensorSource{{
		Shape: shape.Make(dtype.F32, int64(len(values))), Device: f.devices[0], Bytes: float32Bytes(values),
	}})
	if err != nil {
		f.Fatal(err)
	}
	r := f.empty()
	f.core.Mu.Lock()
	defer f.core.Mu.Unlock()
	r.Set(f.core.Graph.Leaf(ir.NewBuffer(data[0]), dtype.F32, []int64{int64(len(values))}))
	f.core.Graph.EndCall()
	return r
}

func float32Bytes(values []float32) []byte {
	bytes := make([]byte, 0, 4*len(values))
	for _, v := range values {
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(v))
	}
	return bytes
}

func (f *fixture) empty() *executor.Root {
	r := &executor.Root{}
	r.Init(f.device)
	f.Cleanup(func() {
		f.core.Mu.Lock()
		defer f.core.Mu.Unlock()
		r.Drop()
	})
	return r
}

// apply sets out to kind of the roots' values.
func (f *fixture) apply(out *executor.Root, kind ir.Kind, dims []int64, in ...*executor.Root) {
	f.core.Mu.Lock()
	defer f.core.Mu.Unlock()
	n := f.core.Graph.New(kind, dtype.F32, dims)
	for _, r := range in {
		n.AddOperand(r.Value())
	}
	out.Set(n)
	f.core.Graph.EndCall()
}

// addScalar sets out to r + v, where v is a parameter of the program.
func (f *fixture) addScalar(out, r *executor.Root, v float64) {
	f.core.Mu.Lock()
	defer f.core.Mu.Unlock()
	n := f.core.Graph.New(kindAdd, dtype.F32, r.Value().Dims)
	n.AddOperand(r.Value())
	n.AddOperand(f.core.Graph.Scalar(dtype.F32, math.Float64bits(v)))
	out.Set(n)
	f.core.Graph.EndCall()
}

func (f *fixture) cut() error {
	f.core.Mu.Lock()
	defer f.core.Mu.Unlock()
	_, err := f.device.Cut("test")
	return err
}

// wait follows the root's value; the caller closes it.
func (f *fixture) wait(r *executor.Root) *executor.Wait {
	f.core.Mu.Lock()
	buffer := r.Value().Buffer
	buffer.Retain()
	f.core.Mu.Unlock()
	return f.core.NewWait(buffer)
}

// data waits for the root's value and gives it.
func (f *fixture) data(r *executor.Root) (client.Data, error) {
	f.Helper()
	w := f.wait(r)
	defer w.Close()
	done, err := w.Poll(time.Minute)
	if err != nil {
		return nil, err
	}
	if !done {
		f.Fatal("the value is not there after a minute")
	}
	return w.Data(0), nil
}

func (f *fixture) expect(r *executor.Root, want ...float32) {
	f.Helper()
	data, err := f.data(r)
	if err != nil {
		f.Fatal(err)
	}
	literals, err := f.core.Client().TransferFromDevice([]client.Data{data})
	if err != nil {
		f.Fatal(err)
	}
	for i, v := range want {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(literals[0].Bytes[4*i:])); got != v {
			f.Errorf("element %d: got %v, want %v", i, got, v)
		}
	}
}

func compiles() int64 { return metrics.Counter("UncachedCompile").Value() }

func TestScalarsAreParametersAndStepsAreCached(t *testing.T) {
	f := start(t)
	x := f.root(1, 2)
	before := compiles()
	sum := float32(0)
	for _, v := range []float64{0, 1, 2.5, -1e-8, math.Inf(1)} {
		y := f.empty()
		f.addScalar(y, x, v)
		if err := f.cut(); err != nil {
			t.Fatal(err)
		}
		f.expect(y, float32(1+v), float32(2+v))
		sum += float32(v)
	}
	if n := compiles() - before; n != 1 {
		t.Errorf("%d programs were compiled, want 1", n)
	}
}

func TestOverwrittenStorageGivesItsMemory(t *testing.T) {
	f := start(t)
	x := f.root(make([]float32, 1024)...)
	f.addScalar(x, x, 1)
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		old, err := f.data(x)
		if err != nil {
			t.Fatal(err)
		}
		address, err := f.core.Client().UnsafeBufferPointer(old)
		if err != nil {
			t.Fatal(err)
		}
		f.addScalar(x, x, 1)
		if err := f.cut(); err != nil {
			t.Fatal(err)
		}
		now, err := f.data(x)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.core.Client().UnsafeBufferPointer(now); err != nil || got != address {
			t.Errorf("the step wrote to %#x (%v), want the old value's memory %#x", got, err, address)
		}
	}
	f.expect(x, 4, 4)
}

// The program is the same whether the old value is still held or not: it is compiled once, and a
// run that must keep the old value withholds the donation.
func TestHeldValueIsKeptWithoutACompile(t *testing.T) {
	f := start(t)
	x := f.root(1, 2)
	before := compiles()
	f.addScalar(x, x, 1) // nobody else holds the old value: donated
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	held := f.empty()
	f.core.Mu.Lock()
	held.Set(x.Value())
	f.core.Mu.Unlock()
	f.addScalar(x, x, 1)
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	f.expect(held, 2, 3)
	f.expect(x, 3, 4)
	f.addScalar(x, x, 1)
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	f.expect(held, 2, 3)
	f.expect(x, 4, 5)
	if n := compiles() - before; n != 1 {
		t.Errorf("%d programs were compiled, want 1", n)
	}
}

func TestPendingReaderOfTheOldValueIsRight(t *testing.T) {
	f := start(t)
	x := f.root(1, 2)
	reader := f.empty()
	f.addScalar(reader, x, 10)
	f.addScalar(x, x, 1)
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	f.expect(reader, 11, 12)
	f.expect(x, 2, 3)
}

func TestFailedCompilePutsStoragesBack(t *testing.T) {
	f := start(t)
	x, fresh := f.root(1, 2), f.empty()
	f.apply(fresh, kindBroken, []int64{2}, x)
	f.addScalar(x, x, 1)
	if err := f.cut(); err != nil {
		t.Fatalf("the cut itself fails: %v; it must only queue", err)
	}
	if _, err := f.data(fresh); status.CodeOf(err) != status.Internal {
		t.Errorf("a value without a predecessor: got %v, want the lowering's error", err)
	}
	f.device.WaitIdle()
	f.expect(x, 1, 2)
	if err := f.cut(); status.CodeOf(err) != status.Internal {
		t.Errorf("the next cut: got %v, want the error once", err)
	}
	if err := f.cut(); err != nil {
		t.Errorf("the cut after that: %v", err)
	}
	f.addScalar(x, x, 5)
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	f.expect(x, 6, 7)
}

func TestFailedRunFailsOnlyWhatDependsOnTheFault(t *testing.T) {
	f := start(t)
	x, y := f.root(1, 2), f.root(3, 4)
	huge, child, unrelated, overwritten := f.empty(), f.empty(), f.empty(), y
	f.apply(huge, kindHuge, []int64{1 << 42}, x)
	f.addScalar(child, huge, 1)
	f.addScalar(unrelated, x, 1)
	f.core.Mu.Lock()
	keep := &executor.Root{}
	keep.Init(f.device)
	keep.Set(y.Value()) // nothing may be donated, so that the outputs can be run apart
	f.core.Mu.Unlock()
	defer func() {
		f.core.Mu.Lock()
		keep.Drop()
		f.core.Mu.Unlock()
	}()
	f.addScalar(overwritten, y, 1)
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	f.expect(unrelated, 2, 3)
	f.expect(overwritten, 4, 5)
	f.expect(x, 1, 2)
	for name, r := range map[string]*executor.Root{"the fault itself": huge, "what reads it": child} {
		for range 2 {
			if _, err := f.data(r); status.CodeOf(err) != status.ResourceExhausted {
				t.Errorf("%s: got %v, want RESOURCE_EXHAUSTED at each read", name, err)
			}
		}
	}
}

func TestGraphPastItsLimitIsCut(t *testing.T) {
	f := start(t)
	x := f.root(0, 0)
	limit := executor.DefaultOptions().NodeLimit
	for i := int64(0); i < limit; i++ {
		f.core.Mu.Lock()
		n := f.core.Graph.New(kindAdd, dtype.F32, []int64{2})
		n.AddOperand(x.Value())
		n.AddOperand(f.core.Graph.Scalar(dtype.F32, math.Float64bits(1)))
		x.Set(n)
		if err := f.device.EndCall(); err != nil {
			t.Fatal(err)
		}
		leaf := x.Value().IsLeaf()
		f.core.Mu.Unlock()
		if leaf {
			if i < limit/4 {
				t.Fatalf("cut after %d calls", i)
			}
			return
		}
	}
	t.Fatalf("no cut after %d calls of two nodes", limit)
}
