package testplugin

import "testing"

// BuildExchange is Build, for tests of the options rank, ranks and timeout_ms: clients that exchange
// values with other processes through the key-value callbacks (source/exchange.c).
func BuildExchange(t testing.TB) string {
	t.Helper()
	return Build(t)
}
