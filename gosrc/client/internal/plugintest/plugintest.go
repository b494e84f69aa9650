// Package plugintest makes clients for tests, over the CPU plugin and over the plugin that fails on demand,
// and checks what they leave behind.
package plugintest

import (
	"os"
	"testing"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/clienttest"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/pjrt"
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
	return build(t, construct, platform.Options{PluginPath: CPU(t), CreateOptions: options})
}

func build(t testing.TB, construct Construct, options platform.Options) client.Client {
	t.Helper()
	c, err := construct(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { WantNothingAlive(t) })
	return c
}

// Faults makes clients of the plugin that fails on demand.
func Faults(construct Construct) clienttest.FaultClient {
	return clienttest.FaultClient{Address: testplugin.Address, New: func(t *testing.T, options map[string]any) client.Client {
		t.Helper()
		return build(t, construct, platform.Options{PluginPath: testplugin.Build(t), CreateOptions: options})
	}}
}

func alive() bool {
	return pjrt.LiveBuffers() != 0 || pjrt.LiveExecutables() != 0 || pjrt.LiveEvents() != 0 || pjrt.LiveErrors() != 0
}

// WantNothingAlive checks that everything of the plugin was freed. The plugin's threads free what runs leave
// behind, which may be a little after the client was closed.
func WantNothingAlive(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); alive() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if alive() {
		t.Errorf("still alive: %d buffers, %d executables, %d events, %d errors", pjrt.LiveBuffers(), pjrt.LiveExecutables(), pjrt.LiveEvents(), pjrt.LiveErrors())
	}
}
