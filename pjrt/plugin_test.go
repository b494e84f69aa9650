package pjrt

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xla_go/gosrc/status"
	"xla_go/pjrt/testplugin"
)

// testPlugin loads the CPU plugin that the tests run against.
func testPlugin(t testing.TB) *Plugin {
	t.Helper()
	path := os.Getenv("XLA_GO_TEST_PLUGIN")
	if path == "" {
		t.Fatal("XLA_GO_TEST_PLUGIN is not set: it must name a CPU PJRT plugin library (make test-go sets it)")
	}
	p, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func testClient(t testing.TB) *Client {
	t.Helper()
	c, err := testPlugin(t).NewClient(map[string]any{"cpu_device_count": int64(1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if b, x, e, r := LiveBuffers(), LiveExecutables(), LiveEvents(), LiveErrors(); b != 0 || x != 0 || e != 0 || r != 0 {
			t.Errorf("still alive: %d buffers, %d executables, %d events, %d errors", b, x, e, r)
		}
	})
	return c
}

// smallPlugin compiles testdata/small_plugin.c with definitions.
func smallPlugin(t *testing.T, definitions ...string) string {
	t.Helper()
	return testplugin.Compile(t, "testdata/small_plugin.c", definitions...)
}

func TestLoadRefusesInWords(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, path string
		code       status.Code
		words      string
	}{
		{"no path", "", status.InvalidArgument, "empty path"},
		{"no such file", "/no/such/plugin.so", status.NotFound, "/no/such/plugin.so"},
		{"a directory", t.TempDir(), status.InvalidArgument, "directory"},
		{"not a library", text, status.InvalidArgument, "cannot be loaded"},
		{"a library that is no plugin", smallPlugin(t, "NO_SYMBOL"), status.InvalidArgument, "GetPjrtApi"},
		{"no table", smallPlugin(t, "NO_TABLE"), status.Internal, "no function table"},
		{"a table without a version", smallPlugin(t, "SIZE=3"), status.FailedPrecondition, "3 bytes, too few"},
		{"a table of no size", smallPlugin(t, "SIZE=0"), status.FailedPrecondition, "0 bytes, too few"},
		{"another major version", smallPlugin(t, "MAJOR=3"), status.FailedPrecondition, "3.7"},
		{"a failing start", smallPlugin(t, "FAIL"), status.ResourceExhausted, "there is no room"},
	} {
		_, err := Load(test.path)
		if status.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s: %v, want %v with %q", test.name, err, test.code, test.words)
		}
		if err != nil && strings.Contains(err.Error(), "not told") {
			t.Errorf("%s: %v reads past the message's end", test.name, err)
		}
	}
	if LiveErrors() != 0 {
		t.Errorf("%d errors alive", LiveErrors())
	}
}

// A function that is NULL and one behind the end of the table are both Unimplemented, with
// everything that is needed to see why.
func TestMissingFunctions(t *testing.T) {
	for _, table := range []int{4, 60} { // without and with PJRT_Client_Create, which is NULL then
		path := smallPlugin(t, fmt.Sprintf("TABLE=%d", table))
		p, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if p.Has("Client_Create") || !p.Has("Plugin_Initialize") || p.Has("no such function") {
			t.Errorf("table of %d: Has tells other than is there", table)
		}
		_, err = p.NewClient(nil)
		if status.CodeOf(err) != status.Unimplemented {
			t.Fatalf("table of %d: %v, want Unimplemented", table, err)
		}
		for _, words := range []string{"PJRT_Client_Create", path, "0.7"} {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("table of %d: %q does not say %q", table, err, words)
			}
		}
	}
}

func TestLoadIsOncePerLibrary(t *testing.T) {
	p := testPlugin(t)
	link := filepath.Join(t.TempDir(), "link.so")
	if err := os.Symlink(p.Path(), link); err != nil {
		t.Fatal(err)
	}
	again, err := Load(link)
	if err != nil || again != p {
		t.Errorf("a link to a loaded plugin gives %v, %v", again, err)
	}
	if major, minor := p.APIVersion(); major != 0 || minor < 81 {
		t.Errorf("API version %d.%d", major, minor)
	}
	if _, has := p.Attributes()["xla_version"]; !has {
		t.Errorf("attributes %v", p.Attributes())
	}
}

func TestCreateOptions(t *testing.T) {
	p := testPlugin(t)
	c, err := p.NewClient(map[string]any{"cpu_device_count": 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Devices()) != 3 || len(c.AddressableDevices()) != 3 || c.PlatformName() != "cpu" {
		t.Errorf("%d devices of %s, want 3 of cpu", len(c.Devices()), c.PlatformName())
	}
	if d := c.Devices()[1]; d.Kind() == "" || d.String() == "" || !d.IsAddressable() || d.DefaultMemory() == nil {
		t.Errorf("device %v of kind %q in memory %v", d, d.Kind(), d.DefaultMemory())
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, option := range []struct {
		name  string
		value any
	}{{"strange", struct{}{}}, {"cpu_device_count", "many"}, {"cpu_device_count", 0}, {"cpu_device_count", int64(-4)}, {"", "nameless"}} {
		_, err = p.NewClient(map[string]any{option.name: option.value})
		if status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), option.name) {
			t.Errorf("option %q of %v: %v", option.name, option.value, err)
		}
	}
}
