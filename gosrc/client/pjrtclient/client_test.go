package pjrtclient_test

import (
	"testing"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/plugintest"
	"xla_go/gosrc/client/pjrtclient"
)

func newClient(t testing.TB, options map[string]any) client.Client {
	t.Helper()
	return plugintest.NewClient(t, pjrtclient.New, options)
}

func TestConformance(t *testing.T) { plugintest.Conformance(t, plugintest.OnCPU(t, "pjrt")) }

func TestConformanceOnTestPlugin(t *testing.T) {
	plugintest.Conformance(t, plugintest.OnTestPlugin(t, "pjrt"))
}

var ofOneDevice plugintest.Benchmark = func(t testing.TB) client.Client { return newClient(t, plugintest.OneDevice) }

func BenchmarkExecute(b *testing.B)            { ofOneDevice.BenchmarkExecute(b) }
func BenchmarkReadReady(b *testing.B)          { ofOneDevice.BenchmarkReadReady(b) }
func BenchmarkTransferToDevice(b *testing.B)   { ofOneDevice.BenchmarkTransferToDevice(b) }
func BenchmarkTransferFromDevice(b *testing.B) { ofOneDevice.BenchmarkTransferFromDevice(b) }
func BenchmarkTransfer(b *testing.B)           { ofOneDevice.BenchmarkTransfer(b) }
