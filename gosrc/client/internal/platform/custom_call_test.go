package platform_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/ifrtclient"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/plugintest"
	"xla_go/gosrc/client/pjrtclient"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt/testplugin"
)

var bothClients = map[string]plugintest.Construct{"pjrt": pjrtclient.New, "ifrt": ifrtclient.New}

// handler gives the address of a custom call's C function, built from testdata.
func handler(t *testing.T) uintptr {
	t.Helper()
	source := filepath.Join("..", "plugintest", "testdata", "handler.c")
	return testplugin.Symbol(t, testplugin.Compile(t, source), "scaled")
}

// runCustomCall compiles a program that is one custom call on f32[3] and runs it on 1, 2 and 3.
func runCustomCall(t *testing.T, c client.Client, call string) ([]float32, error) {
	t.Helper()
	device := c.GetDefaultDevice()
	compiled, err := c.Compile([]client.CompileInstance{{CompilationDevice: device, MLIR: fmt.Appendf(nil, `module @calls {
  func.func public @main(%%x: tensor<3xf32>) -> tensor<3xf32> {
    %%y = stablehlo.custom_call @%s : (tensor<3xf32>) -> tensor<3xf32>
    return %%y : tensor<3xf32>
  }
}`, call)}})
	if err != nil {
		return nil, err
	}
	defer compiled[0].Close()
	var bytes []byte
	for _, v := range []float32{1, 2, 3} {
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(v))
	}
	x, err := c.TransferToDevice([]client.TensorSource{{Shape: shape.Make(dtype.F32, 3), Device: device, Bytes: bytes}})
	if err != nil {
		t.Fatal(err)
	}
	defer x[0].Close()
	out, err := c.ExecuteComputation(compiled[0], x, device, client.ExecuteOptions{ExplodeTuple: true})
	if err != nil {
		return nil, err
	}
	defer out[0].Close()
	read, err := c.TransferFromDevice(out)
	if err != nil {
		return nil, err
	}
	result := make([]float32, 3)
	for i := range result {
		result[i] = math.Float32frombits(binary.LittleEndian.Uint32(read[0].Bytes[4*i:]))
	}
	return result, nil
}

// A registration cannot be taken back, so that each needs a name of its own.
var registrations int

func TestCustomCall(t *testing.T) {
	function := handler(t)
	for name, construct := range bothClients {
		for _, platform := range []string{"", "CPU", "host"} {
			t.Run(name+" "+platform, func(t *testing.T) {
				c := plugintest.NewClient(t, construct, plugintest.OneDevice)
				defer c.Close()
				registrations++
				target := fmt.Sprintf("scaled_%d", registrations)
				if _, err := runCustomCall(t, c, target+"(%x) {api_version = 4 : i32, backend_config = {factor = 2.5 : f32}}"); err == nil {
					t.Error("a custom call that nobody has registered runs")
				}
				if err := c.RegisterCustomCall(target, function, platform); err != nil {
					t.Fatal(err)
				}
				got, err := runCustomCall(t, c, target+"(%x) {api_version = 4 : i32, backend_config = {factor = 2.5 : f32}}")
				if err != nil || !slices.Equal(got, []float32{2.5, 5, 7.5}) {
					t.Errorf("the call gives %v, %v", got, err)
				}
				_, err = runCustomCall(t, c, target+"(%x) {api_version = 4 : i32, backend_config = {}}")
				if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "needs a factor") {
					t.Errorf("the function's own error: %v", err)
				}
				for what, err := range map[string]error{
					"no name":     c.RegisterCustomCall("", function, platform),
					"no function": c.RegisterCustomCall("nothing", 0, platform),
				} {
					if status.CodeOf(err) != status.InvalidArgument {
						t.Errorf("%s: %v", what, err)
					}
				}
			})
		}
	}
}

// A plugin for GPUs may have an extension of its own instead; one without either says so.
func TestCustomCallExtensions(t *testing.T) {
	function := handler(t)
	for _, test := range []struct {
		name    string
		options map[string]any
		code    status.Code
		words   string
	}{
		{"FFI", map[string]any{"extensions": "5", "fail:custom_call": int64(status.DataLoss)}, status.OK, ""},
		{"FFI fails", map[string]any{"fail:register_handler": int64(status.AlreadyExists)}, status.AlreadyExists, "the test asked for a failure"},
		{"GPU only", map[string]any{"extensions": "0"}, status.OK, ""},
		{"GPU only, fails", map[string]any{"extensions": "0", "fail:custom_call": int64(status.DataLoss)}, status.DataLoss, "the test asked for a failure"},
		{"FFI before it could register handlers, and GPU", map[string]any{"extensions": "-5 0"}, status.OK, ""},
		{"neither", map[string]any{"extensions": "4"}, status.Unimplemented, "FFI"},
	} {
		c, err := platform.New(platform.Options{PluginPath: testplugin.Build(t), CreateOptions: test.options})
		if err != nil {
			t.Fatal(err)
		}
		err = c.RegisterCustomCall("scaled", function, "CUDA")
		if status.CodeOf(err) != test.code || err != nil && (!strings.Contains(err.Error(), test.words) || !strings.Contains(err.Error(), "scaled")) {
			t.Errorf("%s: %v, want %v with %q", test.name, err, test.code, test.words)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := c.RegisterCustomCall("scaled", function, ""); status.CodeOf(err) != status.FailedPrecondition {
			t.Errorf("%s: a closed client: %v", test.name, err)
		}
	}
	plugintest.WantNothingAlive(t)
}
