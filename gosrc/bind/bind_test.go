package bind

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"xla_go/gosrc/client/current"
	"xla_go/gosrc/client/ifrtclient"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/env"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/status"
)

const addOne = `
module @add_one {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %one = stablehlo.constant dense<1.0> : tensor<4xf32>
    %y = stablehlo.add %x, %one : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
`

func start(t *testing.T) {
	t.Helper()
	plugin := os.Getenv("XLA_GO_TEST_PLUGIN")
	if plugin == "" {
		t.Skip("XLA_GO_TEST_PLUGIN is not set")
	}
	if ClientInitialized() {
		return
	}
	if ok, err := InitializeClient(plugin, "CPU", "{}"); !ok || err != nil {
		t.Fatal(err)
	}
}

func address(b []byte) int64 { return int64(reflect.ValueOf(b).Pointer()) }

// compile compiles as Python does.
func compile(t *testing.T, program []byte, request string) int64 {
	t.Helper()
	token, err := CompileBegin(address(program), int64(len(program)), request)
	if err != nil {
		t.Fatal(err)
	}
	for over := false; !over; {
		if over, err = ComputationWait(token, 50); err != nil {
			t.Fatal(err)
		}
	}
	handle, err := ComputationTake(token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ComputationTake(token); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("taken twice: %v, want FailedPrecondition", err)
	}
	if ended, err := ComputationEnd(token); !ended || err != nil {
		t.Errorf("ComputationEnd = %v, %v", ended, err)
	}
	if ended, _ := ComputationEnd(token); ended {
		t.Error("ended twice")
	}
	return handle
}

func TestCompileUploadExecuteRead(t *testing.T) {
	start(t)
	program := []byte(addOne)
	computation := compile(t, program, `{"format": "mlir", "name": "add_one"}`)
	input := make([]byte, 16)
	for i := range 4 {
		binary.LittleEndian.PutUint32(input[4*i:], math.Float32bits(float32(i)))
	}
	x, err := Upload(address(input), "f32", "4", "", "")
	if err != nil {
		t.Fatal(err)
	}
	clear(input) // the memory is the caller's again
	handles, err := dispatch.Execute(computation, []int64{x}, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(handles) != 1 {
		t.Fatalf("%d results, want 1", len(handles))
	}
	token, err := ReadBegin(handles[0])
	if err != nil {
		t.Fatal(err)
	}
	for over := false; !over; {
		if over, err = Wait(token, 50); err != nil {
			t.Fatal(err)
		}
	}
	if ended, _ := EndWait(token); !ended {
		t.Error("the token was not open")
	}
	output := make([]byte, 16)
	if n, err := Read(handles[0], address(output), 16); n != 16 || err != nil {
		t.Fatalf("Read = %d, %v", n, err)
	}
	for i := range 4 {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(output[4*i:])); got != float32(i)+1 {
			t.Errorf("element %d is %v, want %v", i, got, float32(i)+1)
		}
	}
	if _, err := Read(handles[0], address(output), 12); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("Read into too little room: %v, want InvalidArgument", err)
	}
	runtime.KeepAlive(output)
	for _, handle := range []int64{x, handles[0]} {
		if !dispatch.CloseData(handle) {
			t.Error("CloseData says that the data was not open")
		}
		if dispatch.CloseData(handle) {
			t.Error("closed twice")
		}
	}
	if closed, err := CloseComputation(computation); !closed || err != nil {
		t.Errorf("CloseComputation = %v, %v", closed, err)
	}
	if LiveData() != 0 || LiveComputations() != 0 || waits.Count() != 0 {
		t.Errorf("left open: %d data, %d computations, %d waits", LiveData(), LiveComputations(), waits.Count())
	}
	if _, err := dispatch.Execute(computation, nil, "", nil, nil); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("Execute of a closed computation: %v, want InvalidArgument", err)
	}
}

// The same over the other client, in a process of its own since the first client stays for a process's life.
func TestIFRT(t *testing.T) {
	if env.Bool("XLA_USE_IFRT", false) {
		t.Skip("this is the other process")
	}
	child := exec.Command(os.Args[0], "-test.v", "-test.run=^(TestCompileUploadExecuteRead|TestWaitDeviceOps|TestDevices|TestClientIsTheOneAskedFor)$")
	child.Env = append(os.Environ(), "XLA_USE_IFRT=1")
	output, err := child.CombinedOutput()
	if err != nil || os.Getenv("XLA_GO_TEST_PLUGIN") != "" && strings.Count(string(output), "--- PASS") != 4 {
		t.Errorf("%v:\n%s", err, output)
	}
}

func TestClientIsTheOneAskedFor(t *testing.T) {
	start(t)
	c, err := current.Get()
	if err != nil {
		t.Fatal(err)
	}
	if _, ifrt := c.(*ifrtclient.Client); ifrt != env.Bool("XLA_USE_IFRT", false) {
		t.Errorf("XLA_USE_IFRT=%q gives %T", os.Getenv("XLA_USE_IFRT"), c)
	}
}

func TestWaitDeviceOps(t *testing.T) {
	start(t)
	token, err := WaitDeviceOpsBegin("")
	if err != nil {
		t.Fatal(err)
	}
	defer EndWait(token)
	for range 200 {
		over, err := Wait(token, 50)
		if err != nil {
			t.Fatal(err)
		}
		if over {
			return
		}
	}
	t.Error("an idle device is still being waited for")
}

func TestDevices(t *testing.T) {
	start(t)
	if kind, err := DeviceType(); kind != "CPU" || err != nil {
		t.Errorf("DeviceType = %q, %v", kind, err)
	}
	names, err := LocalDevices()
	if err != nil || !strings.HasPrefix(names, "CPU:0") {
		t.Errorf("LocalDevices = %q, %v", names, err)
	}
	text, err := DeviceAttributes(split(names)[0])
	var attributes map[string]any
	if err != nil || json.Unmarshal([]byte(text), &attributes) != nil {
		t.Errorf("DeviceAttributes = %q, %v", text, err)
	}
	if _, err := DeviceKind("CPU:99"); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("DeviceKind of no device: %v, want InvalidArgument", err)
	}
}

func TestNothingWorksBeforeInitialization(t *testing.T) {
	defer current.Replace(nil)()
	if ClientInitialized() {
		t.Error("ClientInitialized without a client")
	}
	for name, call := range map[string]func() error{
		"DeviceType":    func() error { _, err := DeviceType(); return err },
		"Upload":        func() error { _, err := Upload(0, "f32", "0", "", ""); return err },
		"DispatchTable": func() error { _, err := DispatchTable(); return err },
	} {
		if err := call(); status.CodeOf(err) != status.FailedPrecondition {
			t.Errorf("%s before initialization: %v, want FailedPrecondition", name, err)
		}
	}
}

func TestOptions(t *testing.T) {
	got, err := readOptions(`{"text": "a", "flag": true, "count": 4, "ratio": 0.5, "list": [1, 2]}`)
	want := map[string]any{"text": "a", "flag": true, "count": int64(4), "ratio": 0.5, "list": []int64{1, 2}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("readOptions = %#v, %v; want %#v", got, err, want)
	}
	for _, bad := range []string{"", "[1]", `{"a": null}`, `{"a": ["x"]}`, `{"a": {}}`} {
		if _, err := readOptions(bad); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("readOptions(%q): %v, want InvalidArgument", bad, err)
		}
	}
}

func TestEnvironmentIsHandedOver(t *testing.T) {
	t.Cleanup(func() { env.Replace(nil) })
	if ok, err := SetEnvironment(`{"XLA_GO_BIND_TEST": "7"}`); !ok || err != nil {
		t.Fatal(err)
	}
	if got := env.Int("XLA_GO_BIND_TEST", 0); got != 7 {
		t.Errorf("the variable is %d, want 7", got)
	}
	if _, err := SetEnvironment("[]"); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("SetEnvironment of a list: %v, want InvalidArgument", err)
	}
}

func TestMetricsAsText(t *testing.T) {
	metrics.ClearCounters() // what this test counted when it ran before in the process
	metrics.ClearMetrics()
	AddToCounter("BindTestCounter", 3)
	if !HasCounter("BindTestCounter") || CounterValue("BindTestCounter") != 3 {
		t.Errorf("the counter is %d, want 3", CounterValue("BindTestCounter"))
	}
	metrics.Value("BindTestMetric").Observe(2.5)
	text, err := MetricData("BindTestMetric")
	var data []any
	if err != nil || json.Unmarshal([]byte(text), &data) != nil || len(data) != 3 || data[0] != 1.0 || data[1] != 2.5 {
		t.Errorf("MetricData = %q, %v", text, err)
	}
	if text, _ := MetricData("absent"); text != "null" {
		t.Errorf("MetricData of nothing = %q, want null", text)
	}
	if report := ShortMetricsReport("BindTestCounter", "BindTestMetric"); !strings.Contains(report, "Counter: BindTestCounter\n  Value: 3\n") {
		t.Errorf("report: %q", report)
	}
}

func TestPanicBecomesAnError(t *testing.T) {
	fail := func() (err error) {
		defer guard(&err)
		panic("broken")
	}
	if err := fail(); status.CodeOf(err) != status.Internal || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a panic became %v", err)
	}
}
