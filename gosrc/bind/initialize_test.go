package bind

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/current"
	"xla_go/gosrc/env"
	"xla_go/gosrc/status"
)

// without gives a process's state before its first use of a client, with those variables only.
func without(t *testing.T, variables map[string]string) {
	t.Helper()
	t.Cleanup(current.Replace(nil))
	env.Replace(variables)
	t.Cleanup(func() { env.Replace(nil) })
}

// A first failure is final: each later call and everything that needs a client report it in the same words.
func TestFirstFailureIsReportedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		variables map[string]string
		path      string
		code      status.Code
		words     string
	}{
		"no device": {map[string]string{}, "", status.FailedPrecondition, "$PJRT_DEVICE is not set."},
		"no plugin": {map[string]string{"PJRT_DEVICE": "CPU", "PJRT_LIBRARY_PATH": "/no/such/plugin.so"}, "", status.NotFound, "/no/such/plugin.so"},
		"bad path":  {map[string]string{}, "/nor/this.so", status.NotFound, "/nor/this.so"},
	} {
		t.Run(name, func(t *testing.T) {
			without(t, test.variables)
			ok, first := InitializeClient(test.path, "", "{}")
			if ok || status.CodeOf(first) != test.code || !strings.Contains(first.Error(), test.words) {
				t.Fatalf("%v, %v; want %v with %q", ok, first, test.code, test.words)
			}
			env.Replace(map[string]string{"PJRT_DEVICE": "CPU"}) // too late
			for range 2 {
				for what, call := range map[string]func() error{
					"InitializeClient": func() error { _, err := InitializeClient(os.Getenv("XLA_GO_TEST_PLUGIN"), "CPU", "{}"); return err },
					"DeviceType":       func() error { _, err := DeviceType(); return err },
					"Upload":           func() error { _, err := Upload(0, "f32", "0", "", ""); return err },
					"DispatchTable":    func() error { _, err := DispatchTable(); return err },
				} {
					if err := call(); err == nil || err.Error() != first.Error() {
						t.Errorf("%s: %v, want %v again", what, err, first)
					}
				}
			}
			if ClientInitialized() {
				t.Error("initialized after a failure")
			}
		})
	}
}

func TestSecondInitializationIsRefused(t *testing.T) {
	plugin := os.Getenv("XLA_GO_TEST_PLUGIN")
	if plugin == "" {
		t.Fatal("XLA_GO_TEST_PLUGIN is not set: it must name a CPU PJRT plugin library (make test-go sets it)")
	}
	without(t, map[string]string{"PJRT_DEVICE": "CPU", "XLA_GO_PLUGIN_PATH": plugin, "CPU_NUM_DEVICES": "2"})
	if ok, err := InitializeClient("", "", "{}"); !ok || err != nil {
		t.Fatal(err)
	}
	c, err := current.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer func(c client.Client) {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}(c)
	for range 2 {
		if ok, err := InitializeClient(plugin, "CPU", "{}"); ok || status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), "once") {
			t.Errorf("the second initialization: %v, %v", ok, err)
		}
	}
	if names, err := LocalDevices(); names != "CPU:0\nCPU:1" || err != nil {
		t.Errorf("after a refused initialization: devices %q, %v", names, err)
	}
}

// PJRT_DEVICE unset, as a process finds it that has not been handed an environment.
func TestUnsetDeviceInAProcess(t *testing.T) {
	if os.Getenv("XLA_GO_TEST_NO_DEVICE") != "" {
		_, err := InitializeClient("", "", "{}")
		if status.CodeOf(err) != status.FailedPrecondition || !strings.Contains(err.Error(), "$PJRT_DEVICE is not set.") {
			t.Errorf("%v", err)
		}
		return
	}
	child := exec.Command(os.Args[0], "-test.v", "-test.run=^TestUnsetDeviceInAProcess$")
	child.Env = []string{"XLA_GO_TEST_NO_DEVICE=1"}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PJRT_DEVICE=") {
			child.Env = append(child.Env, variable)
		}
	}
	if output, err := child.CombinedOutput(); err != nil || !strings.Contains(string(output), "--- PASS") {
		t.Errorf("%v: %s", err, output)
	}
}
