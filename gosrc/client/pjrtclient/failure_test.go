package pjrtclient_test

import (
	"testing"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/clienttest"
	"xla_go/gosrc/client/pjrtclient"
	"xla_go/pjrt"
	"xla_go/pjrt/testplugin"
)

func TestFaults(t *testing.T) {
	clienttest.RunFaults(t, clienttest.FaultClient{Address: testplugin.Address, New: newFaulty})
}

// newFaulty makes a client of the test plugin. What its runs leave behind is freed by the plugin's threads,
// a little after the client was closed.
func newFaulty(t *testing.T, options map[string]any) client.Client {
	t.Helper()
	c, err := pjrtclient.New(pjrtclient.Options{PluginPath: testplugin.Build(t), CreateOptions: options})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		alive := func() bool {
			return pjrt.LiveBuffers() != 0 || pjrt.LiveExecutables() != 0 || pjrt.LiveEvents() != 0 || pjrt.LiveErrors() != 0
		}
		for deadline := time.Now().Add(20 * time.Second); alive() && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		wantNothingAlive(t)
	})
	return c
}
