// Package testplugin builds a PJRT plugin that can be told to fail and to take its time, for tests
// of what no real plugin does on demand. See source/testplugin.c for its options.
package testplugin

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"
)

// Build compiles the plugin and gives its path, which lasts as long as the test.
func Build(t testing.TB) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	return Compile(t, filepath.Join(filepath.Dir(here), "source", "testplugin.c"))
}

// Compile makes a plugin library of a C file that may include pjrt_abi.h, with definitions such as
// "NAME" or "NAME=value".
func Compile(t testing.TB, source string, definitions ...string) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	library := filepath.Join(t.TempDir(), "plugin.so")
	arguments := []string{"-std=gnu11", "-shared", "-fPIC", "-pthread", "-Wall", "-I" + filepath.Dir(filepath.Dir(here)), "-o", library, source}
	for _, d := range definitions {
		arguments = append(arguments, "-D"+d)
	}
	if out, err := exec.Command(compiler, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", compiler, arguments, err, out)
	}
	return library
}

// Address gives the address of b's first byte, for sources that are named by address. b must be
// used afterwards, so that it lives.
func Address(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
