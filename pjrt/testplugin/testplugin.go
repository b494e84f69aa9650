// Package testplugin builds a PJRT plugin that can be told to fail and to take its time, for tests
// of what no real plugin does on demand. See source/options.c for what it can be told.
package testplugin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

// Build gives the path of a plugin library that nobody else has loaded. It lasts as long as the test.
func Build(t testing.TB) string {
	t.Helper()
	library, err := built()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plugin.so")
	if err := os.WriteFile(path, library, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// built compiles once per process.
var built = sync.OnceValues(func() ([]byte, error) {
	sources, err := filepath.Glob(filepath.Join(here(), "source", "*.c"))
	if err != nil || len(sources) == 0 {
		return nil, fmt.Errorf("the sources of the test plugin are not there: %v", err)
	}
	directory, err := os.MkdirTemp("", "testplugin")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(directory)
	library := filepath.Join(directory, "plugin.so")
	if err := compile(library, sources, nil, "-shared"); err != nil {
		return nil, err
	}
	return os.ReadFile(library)
})

// Compile makes a plugin library of a C file that may include pjrt_abi.h, with definitions such as
// "NAME" or "NAME=value".
func Compile(t testing.TB, source string, definitions ...string) string {
	t.Helper()
	library := filepath.Join(t.TempDir(), "plugin.so")
	if err := compile(library, []string{source}, definitions, "-shared"); err != nil {
		t.Fatal(err)
	}
	return library
}

// CompileProgram makes a program of a C file that may include pjrt_abi.h.
func CompileProgram(t testing.TB, source string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if err := compile(program, []string{source}, nil, "-ldl"); err != nil {
		t.Fatal(err)
	}
	return program
}

func here() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

func compile(output string, sources, definitions []string, more ...string) error {
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	arguments := []string{"-std=gnu11", "-g", "-fPIC", "-pthread", "-Wall", "-Werror", "-Wno-unused-function", "-fvisibility=hidden", "-I" + filepath.Dir(here()), "-I" + filepath.Join(here(), "source"), "-o", output}
	arguments = append(arguments, sanitizer...)
	for _, d := range definitions {
		arguments = append(arguments, "-D"+d)
	}
	arguments = append(append(arguments, sources...), more...)
	if out, err := exec.Command(compiler, arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %v\n%s", compiler, arguments, err, out)
	}
	return nil
}

// Address gives the address of b's first byte, for sources that are named by address. b must be
// used afterwards, so that it lives.
func Address(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }

// Entries are the names of the functions that the plugin can be told to fail, without those of errors
// themselves: of the table and of extensions.
func Entries(t testing.TB) []string {
	t.Helper()
	var names []string
	for header, pattern := range map[string]string{"abi_functions.h": `\bF\((\w+)\)`, "abi_extension_functions.h": `\bF\(\w+, \d+, \d+, (\w+)\)`} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(here()), header))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			if !strings.HasPrefix(match[1], "Error_") && !strings.HasPrefix(match[1], "PJRT_FUNCTIONS") {
				names = append(names, match[1])
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
