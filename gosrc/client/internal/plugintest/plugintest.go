// Package plugintest makes clients for tests, over the CPU plugin and over the plugin that fails on demand,
// runs the conformance suite as Go tests, and checks what they leave behind.
package plugintest

import (
	"maps"
	"os"
	"reflect"
	"testing"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/clienttest"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/pjrt/testplugin"
)

// Construct is a client's New.
type Construct func(platform.Options) (client.Client, error)

// OneDevice and FourDevices are the CPU plugin's options for as many virtual devices.
var (
	OneDevice   = map[string]any{"cpu_device_count": int64(1)}
	FourDevices = map[string]any{"cpu_device_count": int64(4)}
)

// CPU gives the path of the CPU plugin that the tests run against.
func CPU(t testing.TB) string {
	t.Helper()
	path := os.Getenv("XLA_GO_TEST_PLUGIN")
	if path == "" {
		t.Fatal("XLA_GO_TEST_PLUGIN is not set: it must name a CPU PJRT plugin library (make test-go sets it)")
	}
	return path
}

// NewClient makes a client of the CPU plugin, which the test closes. Nothing of it may be alive afterwards.
func NewClient(t testing.TB, construct Construct, options map[string]any) client.Client {
	t.Helper()
	c, err := construct(platform.Options{PluginPath: CPU(t), CreateOptions: options})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { WantNothingAlive(t) })
	return c
}

// OnCPU is the CPU plugin as what the conformance suite runs on, with the client of that kind.
func OnCPU(t testing.TB, kind string) *clienttest.Subject { return subject(t, kind, CPU(t)) }

// OnTestPlugin is the same of the plugin that fails on demand, in a library of its own.
func OnTestPlugin(t testing.TB, kind string) *clienttest.Subject {
	return subject(t, kind, testplugin.Build(t))
}

func subject(t testing.TB, kind, path string) *clienttest.Subject {
	t.Helper()
	s, err := clienttest.NewSubject(kind, path, 4, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Conformance runs the cases of the suite as subtests. Together they must call every method of the contract.
func Conformance(t *testing.T, s *clienttest.Subject) {
	called, ran := map[string]bool{}, 0
	cases := clienttest.Cases()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			result := c.RunOn(s)
			ran++
			maps.Copy(called, result.Methods)
			switch result.Outcome {
			case clienttest.Pass:
			case clienttest.Unsupported, clienttest.Skip:
				t.Skipf("%s: %s", result.Outcome, result.Text)
			default:
				t.Error(result.Text)
			}
		})
	}
	WantNothingAlive(t)
	if ran < len(cases) { // by -run
		return
	}
	for method := range reflect.TypeFor[client.Client]().Methods() {
		if !called[method.Name] {
			t.Errorf("no case calls %s of the contract, or clienttest/tracked.go lacks it", method.Name)
		}
	}
}

func alive() bool {
	for _, n := range platform.Alive() {
		if n != 0 {
			return true
		}
	}
	return false
}

// WantNothingAlive checks that everything of the plugin was freed. The plugin's threads free what runs leave
// behind, which may be a little after the client was closed.
func WantNothingAlive(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); alive() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if alive() {
		t.Errorf("still alive: %v", platform.Alive())
	}
}
