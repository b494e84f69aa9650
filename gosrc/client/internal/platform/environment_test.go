package platform_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/plugintest"
	"xla_go/gosrc/env"
	"xla_go/pjrt/testplugin"
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

// hashOf makes a client of the test plugin and gives its hash.
func hashOf(t *testing.T, plugin string, create map[string]any, compile map[string]string) [16]byte {
	t.Helper()
	c, err := platform.New(platform.Options{PluginPath: plugin, CreateOptions: create, CompileOptions: compile})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.HashCompilationEnvironment()
}

// Each option of either dictionary changes the hash, by its name, its type and its value.
func TestEnvironmentHashOfOptions(t *testing.T) {
	environment(t, map[string]string{})
	plugin := testplugin.Build(t)
	type dictionaries struct {
		create  map[string]any
		compile map[string]string
	}
	seen := map[[16]byte]string{}
	for name, d := range map[string]dictionaries{
		"none":                              {},
		"delay of 1":                        {create: map[string]any{"delay_ms": int64(1)}},
		"delay of 2":                        {create: map[string]any{"delay_ms": int64(2)}},
		"delay of no integer":               {create: map[string]any{"delay_ms": true}},
		"limit of 1":                        {create: map[string]any{"memory_limit": int64(1)}},
		"delay and limit":                   {create: map[string]any{"delay_ms": int64(1), "memory_limit": int64(1)}},
		"text":                              {create: map[string]any{"lack": "optional"}},
		"another text":                      {create: map[string]any{"lack": "Buffer_Memory"}},
		"a list":                            {create: map[string]any{"delay_ms": []int64{1}}},
		"another list":                      {create: map[string]any{"delay_ms": []int64{1, 2}}},
		"a fraction":                        {create: map[string]any{"delay_ms": 1.0}},
		"another fraction":                  {create: map[string]any{"delay_ms": 1.5}},
		"a compile option":                  {compile: map[string]string{"a": "b"}},
		"another value":                     {compile: map[string]string{"a": "c"}},
		"another name":                      {compile: map[string]string{"b": "b"}},
		"both":                              {compile: map[string]string{"a": "b", "b": "b"}},
		"values exchanged":                  {compile: map[string]string{"a": "c", "b": "b"}},
		"the border between name and value": {compile: map[string]string{"ab": ""}},
		"the other dictionary too":          {create: map[string]any{"delay_ms": int64(1)}, compile: map[string]string{"a": "b"}},
	} {
		h := hashOf(t, plugin, d.create, d.compile)
		if other, found := seen[h]; found {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[h] = name
		if again := hashOf(t, plugin, d.create, d.compile); again != h {
			t.Errorf("%s: the hash is another one the second time", name)
		}
	}
	if hashOf(t, plugin, map[string]any{"delay_ms": 1}, nil) != hashOf(t, plugin, map[string]any{"delay_ms": int32(1)}, nil) {
		t.Error("Go's type of an integer changes the hash, which the plugin does not see")
	}
	forward, backward := map[string]string{}, map[string]string{}
	for i := range 26 {
		forward[string(rune('a'+i))] = "1"
		backward[string(rune('z'-i))] = "1"
	}
	if hashOf(t, plugin, nil, forward) != hashOf(t, plugin, nil, backward) {
		t.Error("the order of options changes the hash")
	}
	plugintest.WantNothingAlive(t)
}

// What a client always tells the compiler is part of the hash as if it had been asked for.
func TestEnvironmentHashOfFixedOptions(t *testing.T) {
	environment(t, map[string]string{})
	plain := hashOf(t, plugintest.CPU(t), plugintest.OneDevice, nil)
	if hashOf(t, plugintest.CPU(t), plugintest.OneDevice, map[string]string{"xla_cpu_enable_fast_math": "false"}) != plain {
		t.Error("an option that says what is so anyway changes the hash")
	}
}

const hashVariable = "XLA_GO_TEST_PRINT_HASH"

// Two processes have the same hash for the same options, whatever the order of a map's keys in each.
func TestEnvironmentHashInAnotherProcess(t *testing.T) {
	create := map[string]any{"cpu_device_count": int64(2)}
	compile := map[string]string{"xla_backend_optimization_level": "1", "xla_llvm_disable_expensive_passes": "true", "xla_cpu_enable_fast_math": "true"}
	if os.Getenv(hashVariable) != "" {
		fmt.Printf("hash=%x\n", hashOf(t, plugintest.CPU(t), create, compile))
		return
	}
	want := fmt.Sprintf("hash=%x", hashOf(t, plugintest.CPU(t), create, compile))
	for range 2 {
		child := exec.Command(os.Args[0], "-test.run=^TestEnvironmentHashInAnotherProcess$")
		child.Env = append(os.Environ(), hashVariable+"=1")
		output, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(output), want) {
			t.Errorf("%v: another process gives %s, want %s", err, output, want)
		}
	}
}
