package platform_test

import (
	"testing"

	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/plugintest"
	"xla_go/gosrc/env"
)

func environment(t *testing.T, variables map[string]string) {
	t.Helper()
	env.Replace(variables)
	t.Cleanup(func() { env.Replace(nil) })
}

// The hash says whether two processes may share executables.
func TestEnvironmentHash(t *testing.T) {
	hash := func(variables map[string]string, options platform.Options) [16]byte {
		environment(t, variables)
		options.PluginPath = plugintest.CPU(t)
		c, err := platform.New(options)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.HashCompilationEnvironment()
	}
	base := platform.Options{CreateOptions: plugintest.OneDevice}
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
		options   platform.Options
	}{
		"a compiler flag": {map[string]string{"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}, base},
		"a TPU flag":      {map[string]string{"LIBTPU_INIT_ARGS": "--xla_cpu_enable_fast_math=true"}, base},
		"debugging":       {map[string]string{"XLA_HLO_DEBUG": "1"}, base},
		"two devices":     {empty, platform.Options{CreateOptions: map[string]any{"cpu_device_count": int64(2)}}},
		"compile options": {empty, platform.Options{CreateOptions: plugintest.OneDevice, CompileOptions: map[string]string{"xla_cpu_enable_fast_math": "true"}}},
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
	plugintest.WantNothingAlive(t)
}
