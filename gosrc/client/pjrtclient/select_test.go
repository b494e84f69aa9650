package pjrtclient_test

import (
	"strings"
	"testing"

	"xla_go/gosrc/client/pjrtclient"
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
		_, err := pjrtclient.Select(pjrtclient.Options{PluginPath: test.path})
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
		c, err := pjrtclient.Select(pjrtclient.Options{PluginPath: plugin(t), CreateOptions: test.options})
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

// The hash says whether two processes may share executables.
func TestEnvironmentHash(t *testing.T) {
	hash := func(variables map[string]string, options pjrtclient.Options) [16]byte {
		environment(t, variables)
		options.PluginPath = plugin(t)
		c, err := pjrtclient.New(options)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.HashCompilationEnvironment()
	}
	base := pjrtclient.Options{CreateOptions: oneDevice}
	empty := map[string]string{}
	reference := hash(empty, base)
	for name, variables := range map[string]map[string]string{
		"nothing":             {},
		"a dump flag":         {"XLA_FLAGS": "--xla_dump_to=somewhere"},
		"a flag that is none": {"XLA_FLAGS": "something else"},
	} {
		if hash(variables, base) != reference {
			t.Errorf("%s changes the hash", name)
		}
	}
	seen := map[[16]byte]string{reference: "the reference"}
	for name, test := range map[string]struct {
		variables map[string]string
		options   pjrtclient.Options
	}{
		"a compiler flag": {map[string]string{"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}, base},
		"a TPU flag":      {map[string]string{"LIBTPU_INIT_ARGS": "--xla_cpu_enable_fast_math=true"}, base},
		"debugging":       {map[string]string{"XLA_HLO_DEBUG": "1"}, base},
		"two devices":     {empty, pjrtclient.Options{CreateOptions: map[string]any{"cpu_device_count": int64(2)}}},
		"compile options": {empty, pjrtclient.Options{CreateOptions: oneDevice, CompileOptions: map[string]string{"xla_cpu_enable_fast_math": "true"}}},
	} {
		h := hash(test.variables, test.options)
		if other, found := seen[h]; found {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[h] = name
	}
	sorted := hash(map[string]string{"XLA_FLAGS": "--xla_a=1 --xla_b=2"}, base)
	if sorted != hash(map[string]string{"XLA_FLAGS": "--xla_b=2  --xla_a=1"}, base) {
		t.Error("the order of flags changes the hash")
	}
	wantNothingAlive(t)
}
