package selection_test

import (
	"strings"
	"testing"

	"xla_go/gosrc/client/ifrtclient"
	"xla_go/gosrc/client/internal/plugintest"
	"xla_go/gosrc/client/pjrtclient"
	"xla_go/gosrc/client/selection"
	"xla_go/gosrc/env"
	"xla_go/gosrc/status"
)

func environment(t *testing.T, variables map[string]string) {
	t.Helper()
	env.Replace(variables)
	t.Cleanup(func() { env.Replace(nil) })
}

func TestSelectRefusesInWords(t *testing.T) {
	for _, test := range []struct {
		name      string
		variables map[string]string
		path      string
		code      status.Code
		words     []string
	}{
		{"nothing set", nil, "", status.FailedPrecondition, []string{"$PJRT_DEVICE is not set."}},
		{"blank", map[string]string{"PJRT_DEVICE": " "}, "", status.FailedPrecondition, []string{"$PJRT_DEVICE is not set."}},
		{"unknown device", map[string]string{"PJRT_DEVICE": "ABACUS"}, "", status.InvalidArgument, []string{"ABACUS", "XLA_GO_PLUGIN_PATH", "PJRT_LIBRARY_PATH"}},
		{"TPU without a library", map[string]string{"PJRT_DEVICE": "TPU"}, "", status.InvalidArgument, []string{"TPU_LIBRARY_PATH", "PTXLA_TPU_LIBRARY_PATH"}},
		{"wrong path passed", map[string]string{"PJRT_DEVICE": "CPU"}, "/no/such/plugin.so", status.NotFound, []string{"PJRT_DEVICE=CPU", "/no/such/plugin.so"}},
		{"wrong path set", map[string]string{"PJRT_DEVICE": "cpu", "PJRT_LIBRARY_PATH": "/nor/this.so"}, "", status.NotFound, []string{"/nor/this.so"}},
		{"path set before path passed", map[string]string{"PJRT_DEVICE": "CPU", "XLA_GO_PLUGIN_PATH": "/first.so"}, "/second.so", status.NotFound, []string{"/first.so"}},
	} {
		environment(t, test.variables)
		if test.variables == nil {
			environment(t, map[string]string{})
		}
		_, err := selection.Select(selection.Options{PluginPath: test.path})
		if status.CodeOf(err) != test.code {
			t.Errorf("%s: %v, want %v", test.name, err, test.code)
			continue
		}
		for _, w := range test.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", test.name, err, w)
			}
		}
	}
}

func TestSelectCPU(t *testing.T) {
	for _, test := range []struct {
		variables map[string]string
		options   map[string]any
		devices   int
	}{
		{nil, nil, 1},
		{map[string]string{"CPU_NUM_DEVICES": "3"}, nil, 3},
		{map[string]string{"XLA_FLAGS": "--xla_other=1 --xla_force_host_platform_device_count=2"}, nil, 2},
		{map[string]string{"CPU_NUM_DEVICES": "3"}, map[string]any{"cpu_device_count": int64(5)}, 5},
	} {
		variables := map[string]string{"PJRT_DEVICE": "CPU"}
		for name, value := range test.variables {
			variables[name] = value
		}
		environment(t, variables)
		c, err := selection.Select(selection.Options{PluginPath: plugintest.CPU(t), CreateOptions: test.options})
		if err != nil {
			t.Fatal(err)
		}
		if c.GetNumDevices() != test.devices || c.GetDeviceType() != "CPU" {
			t.Errorf("%v with %v: %d devices of %s, want %d", test.variables, test.options, c.GetNumDevices(), c.GetDeviceType(), test.devices)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSelectModel(t *testing.T) {
	for value, isIFRT := range map[string]bool{"": false, "0": false, "1": true, "true": true} {
		environment(t, map[string]string{"PJRT_DEVICE": "CPU", "XLA_USE_IFRT": value})
		c, err := selection.Select(selection.Options{PluginPath: plugintest.CPU(t)})
		if err != nil {
			t.Fatal(err)
		}
		_, pjrt := c.(*pjrtclient.Client)
		_, ifrt := c.(*ifrtclient.Client)
		if ifrt != isIFRT || pjrt == isIFRT {
			t.Errorf("XLA_USE_IFRT=%q gives %T", value, c)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	plugintest.WantNothingAlive(t)
}
