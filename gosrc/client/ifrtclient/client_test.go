package ifrtclient_test

import (
	"os"
	"testing"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/clienttest"
	"xla_go/gosrc/client/ifrtclient"
	"xla_go/pjrt"
)

// plugin gives the path of the CPU plugin that the tests run against.
func plugin(t testing.TB) string {
	t.Helper()
	path := os.Getenv("XLA_GO_TEST_PLUGIN")
	if path == "" {
		t.Fatal("XLA_GO_TEST_PLUGIN is not set: it must name a CPU PJRT plugin library (make test-go sets it)")
	}
	return path
}

func newClient(t testing.TB, options map[string]any) client.Client {
	t.Helper()
	c, err := ifrtclient.New(ifrtclient.Options{PluginPath: plugin(t), CreateOptions: options})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wantNothingAlive(t) })
	return c
}

func wantNothingAlive(t testing.TB) {
	t.Helper()
	if b, x, e, r := pjrt.LiveBuffers(), pjrt.LiveExecutables(), pjrt.LiveEvents(), pjrt.LiveErrors(); b != 0 || x != 0 || e != 0 || r != 0 {
		t.Errorf("still alive: %d buffers, %d executables, %d events, %d errors", b, x, e, r)
	}
}

// oneDevice is the usual client of one CPU.
var oneDevice = map[string]any{"cpu_device_count": int64(1)}

func TestConformance(t *testing.T) {
	clienttest.RunAll(t, func(t *testing.T) client.Client { return newClient(t, oneDevice) })
}

func TestShardedConformance(t *testing.T) {
	clienttest.RunSharded(t, func(t *testing.T) client.Client { return newClient(t, map[string]any{"cpu_device_count": int64(4)}) })
}
