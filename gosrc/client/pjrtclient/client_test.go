package pjrtclient_test

import (
	"testing"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/clienttest"
	"xla_go/gosrc/client/internal/plugintest"
	"xla_go/gosrc/client/pjrtclient"
)

func newClient(t testing.TB, options map[string]any) client.Client {
	t.Helper()
	return plugintest.NewClient(t, pjrtclient.New, options)
}

func TestConformance(t *testing.T) {
	clienttest.RunAll(t, func(t *testing.T) client.Client { return newClient(t, plugintest.OneDevice) })
}

func TestShardedConformance(t *testing.T) {
	clienttest.RunSharded(t, func(t *testing.T) client.Client { return newClient(t, plugintest.FourDevices) })
}

func TestFaults(t *testing.T) {
	clienttest.RunFaults(t, plugintest.Faults(pjrtclient.New))
}

var ofOneDevice clienttest.NewClient = func(t testing.TB) client.Client { return newClient(t, plugintest.OneDevice) }

func BenchmarkExecute(b *testing.B)            { ofOneDevice.BenchmarkExecute(b) }
func BenchmarkReadReady(b *testing.B)          { ofOneDevice.BenchmarkReadReady(b) }
func BenchmarkTransferToDevice(b *testing.B)   { ofOneDevice.BenchmarkTransferToDevice(b) }
func BenchmarkTransferFromDevice(b *testing.B) { ofOneDevice.BenchmarkTransferFromDevice(b) }
