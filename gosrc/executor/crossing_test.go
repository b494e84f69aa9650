package executor_test

import (
	"bytes"
	"fmt"
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
	"xla_go/pjrt/testplugin"
)

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
	moved []int64 // bytes of each array that was transferred to a device
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

func (r *recorder) transfers(sources []client.TensorSource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range sources {
		r.moved = append(r.moved, sources[i].Shape.ByteSize())
	}
}

func (r *recorder) TransferToDevice(sources []client.TensorSource) ([]client.Data, error) {
	defer r.note("TransferToDevice")()
	r.transfers(sources)
	return r.Client.TransferToDevice(sources)
}

func (r *recorder) TransferShardsToDevice(sources []client.TensorSource, device string, s shape.Shape, sharding *client.Sharding) (client.Data, error) {
	defer r.note("TransferShardsToDevice")()
	r.transfers(sources)
	return r.Client.TransferShardsToDevice(sources, device, s, sharding)
}

func (r *recorder) CreateDataPlaceholder(device string, s shape.Shape, sharding *client.Sharding) (client.Data, error) {
	defer r.note("CreateDataPlaceholder")()
	return r.Client.CreateDataPlaceholder(device, s, sharding)
}

func (r *recorder) GetDataSharding(data client.Data) *client.Sharding {
	defer r.note("GetDataSharding")()
	return r.Client.GetDataSharding(data)
}

func (r *recorder) GetLocalDevices() []string {
	defer r.note("GetLocalDevices")()
	return r.Client.GetLocalDevices()
}

func (r *recorder) GetCompilationDevices(device string, devices []string) []string {
	defer r.note("GetCompilationDevices")()
	return r.Client.GetCompilationDevices(device, devices)
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

func (r *recorder) ExecuteReplicated(c client.Computation, arguments []client.Data, devices []string, options client.ExecuteOptions) ([]client.Data, error) {
	defer r.note("ExecuteReplicated")()
	return r.Client.ExecuteReplicated(c, arguments, devices, options)
}

func (r *recorder) TransferFromDevice(data []client.Data) ([]client.Literal, error) {
	defer r.note("TransferFromDevice")()
	return r.Client.TransferFromDevice(data)
}

// way is one tensor's way through the executor: over which plugin, with which program, in which arm.
type way struct {
	plugin     func(t *testing.T) string
	options    map[string]any
	kind       ir.Kind
	size       int64
	replicated bool
	tiled      bool // the input is divided over the devices
}

// kindSlow is a product of large matrices that takes a good part of a second.
var kindSlow = ir.Define("test::slow", func(l *ir.Lowering) []hlo.Value {
	const n = 1 << 10
	x := l.B.Broadcast(l.B.ReduceOp(hlo.Add, l.In(0), l.B.Scalar(dtype.F32, 0), []int{0}), []int64{n, n}, nil)
	for range 6 {
		x = l.B.Dot(x, x, hlo.DotDims{LHSContracting: []int64{1}, RHSContracting: []int64{0}})
		x = l.B.Binary(hlo.Divide, x, l.B.Broadcast(l.B.Scalar(dtype.F32, n), []int64{n, n}, nil))
	}
	return []hlo.Value{l.B.ReduceOp(hlo.Maximum, x, l.B.Scalar(dtype.F32, -1), []int{0})}
})

// kindTwice is within the test plugin's means.
var kindTwice = ir.Define("test::twice", func(l *ir.Lowering) []hlo.Value { return []hlo.Value{l.B.Binary(hlo.Add, l.In(0), l.In(0))} })

func cpuPlugin(t *testing.T) string {
	path := os.Getenv("XLA_GO_TEST_PLUGIN")
	if path == "" {
		t.Fatal("XLA_GO_TEST_PLUGIN is not set: expected the path of a CPU plugin (make test-go sets it)")
	}
	return path
}

func testPlugin(t *testing.T) string { return testplugin.Build(t) }

// The runs of the test plugin take half a second, whatever else the machine does.
var ways = map[string]way{
	"one device":                 {plugin: cpuPlugin, options: map[string]any{"cpu_device_count": int64(1)}, kind: kindSlow, size: 1 << 10},
	"one slow device":            {plugin: testPlugin, options: map[string]any{"late:LoadedExecutable_Execute": int64(500)}, kind: kindTwice, size: 4},
	"replicated, slow devices":   {plugin: testPlugin, options: map[string]any{"devices": int64(4), "late:LoadedExecutable_Execute": int64(500)}, kind: kindTwice, size: 4, replicated: true},
	"replicated, divided over 4": {plugin: cpuPlugin, options: map[string]any{"cpu_device_count": int64(4)}, kind: kindSlow, size: 1 << 10, replicated: true, tiled: true},
}

// TestOneTensorsWay follows a tensor from the host through an operator to the device and back, with either client, on one
// device and replicated over several: which calls cross into the client, in which order, on whose goroutine, and which of
// them wait for the device. The step does not wait for the run, and the first thing that does is the read.
func TestOneTensorsWay(t *testing.T) {
	for name, w := range ways {
		for _, model := range []string{"0", "1"} {
			t.Run(fmt.Sprintf("%s/XLA_USE_IFRT=%s", name, model), func(t *testing.T) {
				env.Replace(map[string]string{"XLA_USE_IFRT": model})
				defer env.Replace(nil)
				real, err := selection.New(selection.Options{PluginPath: w.plugin(t), CreateOptions: w.options})
				if err != nil {
					t.Fatal(err)
				}
				directory := filepath.Join(t.TempDir(), "programs")
				for _, process := range []string{"first", "second"} {
					w.follow(t, real, directory, process == "second")
				}
				if err := real.Close(); err == nil {
					t.Error("the client was closed while the executor's programs are open")
				}
			})
		}
	}
}

// upload makes a root whose value comes from the host, in one transfer for each device.
func (w *way) upload(f *fixture, c client.Client) *executor.Root {
	values := []float32{1, 1, 1, 1}
	if !w.replicated {
		return f.root(values...)
	}
	sharding := hlo.Sharding{Kind: hlo.Replicated}
	part := values
	if w.tiled {
		sharding = hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{4}, Devices: []int64{0, 1, 2, 3}}
		part = values[:1]
	}
	var sources []client.TensorSource
	for i := range 4 {
		sources = append(sources, client.TensorSource{Shape: shape.Make(dtype.F32, int64(len(part))), Device: f.devices[i], Bytes: float32Bytes(part)})
	}
	data, err := c.TransferShardsToDevice(sources, "SPMD:0", shape.Make(dtype.F32, 4), &client.Sharding{OpSharding: sharding.Proto()})
	if err != nil {
		f.Fatal(err)
	}
	r := f.empty()
	f.core.Mu.Lock()
	defer f.core.Mu.Unlock()
	leaf, err := f.core.Leaf(data, dtype.F32, []int64{4})
	if err != nil {
		f.Fatal(err)
	}
	r.Set(leaf)
	f.core.Graph.EndCall()
	return r
}

func (w *way) follow(t *testing.T, real client.Client, directory string, known bool) {
	r := &recorder{Client: real}
	options := executor.DefaultOptions()
	options.Cache = diskcache.Options{Directory: directory}
	core := executor.NewCore(r, options)
	if w.replicated {
		core.Partition()
	}
	device, err := core.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, core: core, device: device, devices: real.GetLocalDevices()}
	r.calls = nil // of the making of the core
	caller := goroutineID()
	x := w.upload(f, r)
	y := f.empty()
	f.apply(y, w.kind, []int64{w.size}, x)

	begun := time.Now()
	if err := f.cut(); err != nil {
		t.Fatal(err)
	}
	cutTook := time.Since(begun)
	core.LockResolved()
	value := y.Value()
	if !value.IsLeaf() {
		t.Fatal("the storage holds no placeholder after the cut")
	}
	buffer := value.Buffer
	buffer.Retain()
	core.Mu.Unlock()
	defer buffer.Release()
	data, err := buffer.Wait() // until it is scheduled
	if err != nil {
		t.Fatal(err)
	}
	scheduled := time.Now()
	if real.IsReady(data) {
		t.Error("the value is there when the run has just been queued")
	}
	if literals, err := r.TransferFromDevice([]client.Data{data}); err != nil || !shape.Make(dtype.F32, w.size).Equal(literals[0].Shape) {
		t.Errorf("read: %v, %v", literals, err)
	}
	ran := time.Since(scheduled)
	if cutTook > ran/4 {
		t.Errorf("the cut took %v, the run %v: it has waited", cutTook, ran)
	}
	device.WaitIdle()
	core.FlushCache()
	w.check(t, r.calls, caller, ran, known)
}

// check compares the calls with what is to cross. In both arms a placeholder is the executor's own promise, and no call.
func (w *way) check(t *testing.T, calls []crossing, caller string, ran time.Duration, known bool) {
	t.Helper()
	want := "TransferToDevice GetCompilationDevices HashCompilationEnvironment Compile ExecuteComputation TransferFromDevice"
	if w.replicated {
		want = "TransferShardsToDevice GetDataSharding GetCompilationDevices HashCompilationEnvironment Compile GetLocalDevices ExecuteReplicated TransferFromDevice"
	}
	if known {
		want = strings.Replace(want, "Compile ", "DeserializeComputation ", 1)
	} else {
		want += " SerializeComputation"
	}
	var order []string
	goroutines := map[string]string{}
	for _, c := range calls {
		order = append(order, c.method)
		goroutines[c.method] = c.goroutine
		waited := c.took > ran/4
		switch c.method {
		case "Compile", "DeserializeComputation", "SerializeComputation": // the compiler's time
		case "TransferFromDevice":
			if c.took < ran/2 {
				t.Errorf("TransferFromDevice took %v of the run's %v: something else has waited for the run", c.took, ran)
			}
		default:
			if waited {
				t.Errorf("%s took %v beside a run of %v: it has waited for it", c.method, c.took, ran)
			}
		}
	}
	got := slices.Clone(order)
	if !known { // serialization goes on beside the run
		got = slices.DeleteFunc(got, func(m string) bool { return m == "SerializeComputation" })
		got = append(got, "SerializeComputation")
	}
	if strings.Join(got, " ") != want || len(order) != len(got) {
		t.Errorf("crossings: %v, want %s", order, want)
	}
	onCaller := []string{"TransferToDevice", "TransferShardsToDevice", "GetDataSharding", "TransferFromDevice"}
	onWorker := []string{"GetLocalDevices", "ExecuteComputation", "ExecuteReplicated"}
	compiler, worker := goroutines["GetCompilationDevices"], goroutines["ExecuteComputation"]+goroutines["ExecuteReplicated"]
	if compiler == worker || compiler == caller || worker == caller {
		t.Errorf("caller %s, compiler %s, worker %s: expected a goroutine for each", caller, compiler, worker)
	}
	for method, goroutine := range goroutines {
		expected := compiler
		switch {
		case slices.Contains(onCaller, method):
			expected = caller
		case slices.Contains(onWorker, method):
			expected = worker
		case method == "SerializeComputation": // by the cache, after all others
			continue
		}
		if goroutine != expected {
			t.Errorf("%s on goroutine %s, expected %s of caller %s, compiler %s, worker %s", method, goroutine, expected, caller, compiler, worker)
		}
	}
}
