package hlo_test

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/pjrtclient"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/stablehlo"
)

// testClient opens the plugin named by XLA_GO_TEST_PLUGIN, once.
var testClient = sync.OnceValues(func() (client.Client, error) {
	path := os.Getenv("XLA_GO_TEST_PLUGIN")
	if path == "" {
		return nil, fmt.Errorf("XLA_GO_TEST_PLUGIN is not set: give it the path of a PJRT CPU plugin")
	}
	return pjrtclient.New(pjrtclient.Options{PluginPath: path, CompileOptions: map[string]string{
		"xla_cpu_enable_fast_min_max": "false",
	}})
})

// execute compiles a module, runs it once and gives the bytes of its outputs. The module's StableHLO text has to give the
// same ones, so that every program of these tests is a test of that as well.
func execute(t *testing.T, module []byte, inputs []array) [][]byte {
	t.Helper()
	out := executeInstance(t, client.CompileInstance{HLO: module}, inputs)
	text, err := stablehlo.Text(module)
	if err != nil {
		t.Fatal(err)
	}
	for i, bytes := range executeInstance(t, client.CompileInstance{MLIR: []byte(text)}, inputs) {
		if string(bytes) != string(out[i]) {
			t.Errorf("output %d of the StableHLO text differs from that of the module: %x, want %x\n%s", i, bytes, out[i], text)
		}
	}
	return out
}

func executeInstance(t *testing.T, instance client.CompileInstance, inputs []array) [][]byte {
	t.Helper()
	c, err := testClient()
	if err != nil {
		t.Fatal(err)
	}
	device := c.GetDefaultDevice()
	instance.Name, instance.CompilationDevice, instance.Devices = t.Name(), device, []string{device}
	programs, err := c.Compile([]client.CompileInstance{instance})
	if err != nil {
		t.Fatalf("%v\n%s", err, instance.MLIR)
	}
	program := programs[0]
	defer program.Close()
	var sources []client.TensorSource
	for _, a := range inputs {
		sources = append(sources, client.TensorSource{Shape: a.shape, Device: device, Bytes: a.data})
	}
	arguments, err := c.TransferToDevice(sources)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(arguments)
	results, err := c.ExecuteComputation(program, arguments, device, client.ExecuteOptions{ExplodeTuple: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(results)
	literals, err := c.TransferFromDevice(results)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, l := range literals {
		out = append(out, l.Bytes)
	}
	return out
}

func closeAll(data []client.Data) {
	for _, d := range data {
		d.Close()
	}
}

// optimized compiles a module and gives what the compiler made of it.
func optimized(t *testing.T, module []byte) []byte {
	t.Helper()
	c, err := testClient()
	if err != nil {
		t.Fatal(err)
	}
	device := c.GetDefaultDevice()
	programs, err := c.Compile([]client.CompileInstance{{HLO: module, CompilationDevice: device, Devices: []string{device}}})
	if err != nil {
		t.Fatal(err)
	}
	defer programs[0].Close()
	out, err := programs[0].OptimizedHLO()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// inputsOf gives zeros for each parameter of a module.
func inputsOf(shapes []shape.Shape) []array {
	var out []array
	for _, s := range shapes {
		out = append(out, array{s, make([]byte, s.ByteSize())})
	}
	return out
}
