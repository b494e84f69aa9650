package executor_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/selection"
	"xla_go/gosrc/diskcache"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/env"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// kindSlow is a product of large matrices that takes a good part of a second.
var kindSlow = ir.Define("test::slow", func(l *ir.Lowering) []hlo.Value {
	const n = 1 << 10
	x := l.B.Broadcast(l.B.ReduceOp(hlo.Add, l.In(0), l.B.Scalar(dtype.F32, 0), []int{0}), []int64{n, n}, nil)
	for range 12 {
		x = l.B.Dot(x, x, hlo.DotDims{LHSContracting: []int64{1}, RHSContracting: []int64{0}})
		x = l.B.Binary(hlo.Divide, x, l.B.Broadcast(l.B.Scalar(dtype.F32, n), []int64{n, n}, nil))
	}
	return []hlo.Value{l.B.ReduceOp(hlo.Maximum, x, l.B.Scalar(dtype.F32, -1), []int{0})}
})

// crossing is a call from the lazy side into the client.
type crossing struct {
	method    string
	goroutine string
	took      time.Duration
}

// recorder notes the calls that one tensor's way makes.
type recorder struct {
	client.Client
	mu    sync.Mutex
	calls []crossing
}

func (r *recorder) note(method string) func() {
	goroutine, begun := goroutineID(), time.Now()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, crossing{method, goroutine, time.Since(begun)})
	}
}

func goroutineID() string {
	stack := make([]byte, 64)
	return string(bytes.Fields(stack[:runtime.Stack(stack, false)])[1])
}

func (r *recorder) TransferToDevice(sources []client.TensorSource) ([]client.Data, error) {
	defer r.note("TransferToDevice")()
	return r.Client.TransferToDevice(sources)
}

func (r *recorder) HashCompilationEnvironment() [16]byte {
	defer r.note("HashCompilationEnvironment")()
	return r.Client.HashCompilationEnvironment()
}

func (r *recorder) Compile(instances []client.CompileInstance) ([]client.Computation, error) {
	defer r.note("Compile")()
	return r.Client.Compile(instances)
}

func (r *recorder) SerializeComputation(c client.Computation) ([]byte, error) {
	defer r.note("SerializeComputation")()
	return r.Client.SerializeComputation(c)
}

func (r *recorder) DeserializeComputation(serialized []byte, devices []string) (client.Computation, error) {
	defer r.note("DeserializeComputation")()
	return r.Client.DeserializeComputation(serialized, devices)
}

func (r *recorder) ExecuteComputation(c client.Computation, arguments []client.Data, device string, options client.ExecuteOptions) ([]client.Data, error) {
	defer r.note("ExecuteComputation")()
	return r.Client.ExecuteComputation(c, arguments, device, options)
}

func (r *recorder) TransferFromDevice(data []client.Data) ([]client.Literal, error) {
	defer r.note("TransferFromDevice")()
	return r.Client.TransferFromDevice(data)
}

// TestOneTensorsWay follows a tensor from the host through an operator to the device and back, with either client:
// which calls cross into the client, in which order, on whose goroutine, and which of them wait for the device.
func TestOneTensorsWay(t *testing.T) {
	for _, model := range []string{"0", "1"} {
		t.Run("XLA_USE_IFRT="+model, func(t *testing.T) {
			env.Replace(map[string]string{"XLA_USE_IFRT": model})
			defer env.Replace(nil)
			real, err := selection.New(selection.Options{PluginPath: os.Getenv("XLA_GO_TEST_PLUGIN")})
			if err != nil {
				t.Fatal(err)
			}
			directory := filepath.Join(t.TempDir(), "programs")
			for _, process := range []string{"first", "second"} {
				oneTensorsWay(t, real, directory, process == "second")
			}
			if err := real.Close(); err == nil {
				t.Error("the client was closed while the executor's programs are open")
			}
		})
	}
}

func oneTensorsWay(t *testing.T, real client.Client, directory string, known bool) {
	r := &recorder{Client: real}
	options := executor.DefaultOptions()
	options.Cache = diskcache.Options{Directory: directory}
	core := executor.NewCore(r, options)
	device, err := core.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t, core, device}
	caller := goroutineID()
	x := f.root(1, 1, 1, 1)
	y := f.empty()
	f.apply(y, kindSlow, []int64{1 << 10}, x)

	cut := time.Now()
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	cutTook := time.Since(cut)
	f.core.Mu.Lock()
	placeholder := y.Value().IsLeaf()
	f.core.Mu.Unlock()
	if !placeholder {
		t.Error("the storage holds no placeholder after the cut")
	}
	data, err := f.data(y)
	if err != nil {
		t.Fatal(err)
	}
	ended := time.Since(cut)
	if literals, err := core.Client().TransferFromDevice([]client.Data{data}); err != nil || !shape.Make(dtype.F32, 1<<10).Equal(literals[0].Shape) {
		t.Errorf("read: %v, %v", literals, err)
	}
	if cutTook > ended/4 {
		t.Errorf("the cut took %v of the %v until the value was there: it has waited", cutTook, ended)
	}
	device.WaitIdle()
	core.FlushCache()

	var order []string
	goroutines := map[string]string{}
	for _, c := range r.calls {
		order = append(order, c.method)
		goroutines[c.method] = c.goroutine
		if c.method == "ExecuteComputation" && c.took > ended/4 {
			t.Errorf("ExecuteComputation took %v of %v: it has waited for the run", c.took, ended)
		}
	}
	want := "TransferToDevice HashCompilationEnvironment Compile ExecuteComputation TransferFromDevice SerializeComputation"
	if known {
		want = "TransferToDevice HashCompilationEnvironment DeserializeComputation ExecuteComputation TransferFromDevice"
	}
	got := slices.Clone(order)
	if !known { // serialization goes on beside the run
		got = slices.DeleteFunc(got, func(m string) bool { return m == "SerializeComputation" })
		got = append(got, "SerializeComputation")
	}
	if strings.Join(got, " ") != want || len(order) != len(got) {
		t.Errorf("crossings: %v, want %s", order, want)
	}
	for method, goroutine := range goroutines {
		onCaller := method == "TransferToDevice" || method == "TransferFromDevice"
		if (goroutine == caller) != onCaller {
			t.Errorf("%s on the caller's goroutine: %v, want %v", method, goroutine == caller, onCaller)
		}
	}
	if goroutines["ExecuteComputation"] == goroutines["Compile"] {
		t.Error("the device's worker compiles")
	}
}
