package plugintest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/clienttest"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/pjrt/testplugin"
)

// Variables of the child: the function whose work never ends, and the plugin.
const (
	neverVariable  = "TESTPLUGIN_NEVER"
	pluginVariable = "TESTPLUGIN_NEVER_PATH"
)

const allChecked = "all checked"

// Never checks what a client does while work of its device never ends: what does not wait comes back, and
// what waits, waits. No wait of the contract has a timeout, so the process that tests it is ended from
// within; the test that calls this has to be named by its full name in test.
func Never(t *testing.T, test string, construct Construct) {
	if entry := os.Getenv(neverVariable); entry != "" {
		neverEnds(t, entry, construct)
		return
	}
	plugin := testplugin.Build(t)
	for _, entry := range asynchronous {
		t.Run(entry, func(t *testing.T) {
			child := exec.Command(os.Args[0], "-test.run", "^"+test+"$", "-test.timeout", "60s")
			child.Env = append(os.Environ(), neverVariable+"="+entry, pluginVariable+"="+plugin)
			if output, err := child.CombinedOutput(); err != nil || !strings.Contains(string(output), allChecked) {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}

func neverEnds(t *testing.T, entry string, construct Construct) {
	c, err := construct(platform.Options{PluginPath: os.Getenv(pluginVariable), CreateOptions: map[string]any{"devices": int64(2), "never:" + entry: true}})
	if err != nil {
		t.Fatal(err)
	}
	// A failed test would wait for what never ends: the process says what is wrong, and ends.
	wrong := func(format string, arguments ...any) {
		fmt.Printf(format+"\n", arguments...)
		os.Exit(1)
	}
	soon := func(what string, call func() error) {
		done := make(chan error, 1)
		go func() { done <- call() }()
		select {
		case err := <-done:
			if err != nil {
				wrong("%s: %v", what, err)
			}
		case <-time.After(10 * time.Second):
			wrong("%s waits", what)
		}
	}
	device, other := c.GetLocalDevices()[0], c.GetLocalDevices()[1]
	vector := shape.Make(dtype.F32, 2)
	p := clienttest.NewProgram("adds")
	module := p.Build(p.Op("add", vector, p.Parameter(vector, nil), p.Parameter(vector, nil)))
	var data, results []client.Data
	var programs []client.Computation
	var copied client.Data
	soon("TransferToDevice", func() (err error) {
		data, err = c.TransferToDevice([]client.TensorSource{{Shape: vector, Device: device, Bytes: make([]byte, 8)}, {Shape: vector, Device: device, Bytes: make([]byte, 8)}})
		return err
	})
	soon("Compile", func() (err error) {
		programs, err = c.Compile([]client.CompileInstance{{HLO: module, CompilationDevice: device}})
		return err
	})
	soon("ExecuteComputation", func() (err error) {
		results, err = c.ExecuteComputation(programs[0], data, device, client.ExecuteOptions{ExplodeTuple: true})
		return err
	})
	soon("CopyToDevice", func() (err error) {
		copied, err = c.CopyToDevice(data[0], other)
		return err
	})
	late := map[string]client.Data{"Client_BufferFromHostBuffer": data[0], "LoadedExecutable_Execute": results[0], "Buffer_CopyToMemory": copied}[entry]
	called := make(chan error, 1)
	if late != nil {
		soon("IsReady", func() error {
			if c.IsReady(late) {
				wrong("ready, and it never will be")
			}
			return nil
		})
		soon("OnReadyCallback", func() error { return c.OnReadyCallback(late, func(err error) { called <- err }) })
	} else {
		late = results[0] // it is there, and cannot be read
	}
	ended := make(chan string, 3)
	go func() { _, _ = c.TransferFromDevice([]client.Data{late}); ended <- "TransferFromDevice" }()
	if entry != "Buffer_ToHostBuffer" {
		go func() { _ = c.WaitDeviceOps(nil); ended <- "WaitDeviceOps" }()
		go func() { _ = c.Close(); ended <- "Close" }()
	}
	select {
	case what := <-ended:
		wrong("%s came back", what)
	case err := <-called:
		wrong("called back with %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	fmt.Println(allChecked)
	os.Exit(0)
}
