package testplugin

import (
	"path/filepath"
	"runtime"
	"testing"
)

// BuildExchange compiles the plugin that exchanges values with other processes through the key-value
// callbacks (source/exchange.c), and gives its path, which lasts as long as the test.
func BuildExchange(t testing.TB) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	return Compile(t, filepath.Join(filepath.Dir(here), "source", "exchange.c"))
}
