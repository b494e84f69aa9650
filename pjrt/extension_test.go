package pjrt

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"xla_go/gosrc/status"
)

// offeredExtensions are the types of all extensions of the test plugin.
func offeredExtensions(t *testing.T) []int {
	t.Helper()
	c := testPluginClient(t, nil)
	var types []int
	for _, e := range c.Plugin().Extensions() {
		types = append(types, e.Type)
	}
	for _, known := range []string{"Gpu_Custom_Call", "Profiler", "Stream", "Layouts", "FFI", "MemoryDescriptions", "Triton", "RawBuffer", "CrossHostTransfers", "Shardings"} {
		if !slices.Contains(types, slices.Index(extensionNames[:], known)) {
			t.Errorf("the test plugin does not offer %s", known)
		}
	}
	return types
}

// A broken extension is as good as none: everything that needs it is Unimplemented, by its name, and
// everything else works.
func TestBrokenExtensions(t *testing.T) {
	types := offeredExtensions(t)
	p := loadTestPlugin(t)
	before := pluginHolds(t, p)
	for _, broken := range types {
		name := extensionNames[broken]
		for sign, what := range map[string]string{"-": "is one function short", "~": "has NULL for each function", "!": "is too short for a type", "": "is not offered"} {
			var list []string
			for _, number := range types {
				switch {
				case number != broken:
					list = append(list, fmt.Sprint(number))
				case sign != "":
					list = append(list, sign+fmt.Sprint(number))
				}
			}
			if sign == "!" { // what comes behind it in the list is lost as well
				list = []string{sign + fmt.Sprint(broken)}
			}
			s := scenario{t: t, plugin: p, patience: 10 * time.Second}
			s.run(map[string]any{"extensions": strings.Join(list, " ")})
			nothingAlive(t, name+" "+what)
			lacking := 0
			for _, err := range s.failures {
				if sign == "-" && name == "CrossHostTransfers" && status.CodeOf(err) == status.FailedPrecondition && strings.Contains(err.Error(), "WithKeyValueStore") {
					lacking++ // the older way, which needs a store (TestSendByDescriptor)
					continue
				}
				if status.CodeOf(err) != status.Unimplemented || !strings.Contains(err.Error(), "_Extension.") && !strings.Contains(err.Error(), "PJRT_Gpu_Custom_Call.") {
					t.Errorf("%s %s: %v", name, what, err)
				}
				if strings.Contains(err.Error(), "PJRT_"+name) {
					lacking++
				} else if sign != "!" {
					t.Errorf("%s %s, and so another is missing: %v", name, what, err)
				}
			}
			// The last thing in the profiler's extension is no function and not used here.
			if lacking == 0 && !(name == "Profiler" && sign == "-") {
				t.Errorf("%s %s, and nobody was told", name, what)
			}
		}
	}
	if after := pluginHolds(t, p); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the plugin holds %v, before %v", after, before)
	}
}

// Extensions that are not known, and a list without an end.
func TestStrangeExtensionLists(t *testing.T) {
	types := offeredExtensions(t)
	text := strings.Trim(fmt.Sprint(types), "[]")
	p := loadTestPlugin(t)
	for _, test := range []struct {
		list  string
		found int
	}{{"77 " + text + " 30", len(types) + 2}, {text + "@", len(types)}, {"77@", 1}, {"4 77@", 2}} {
		c, err := p.NewClient(map[string]any{"extensions": test.list})
		if err != nil {
			t.Fatal(err)
		}
		list := p.Extensions()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if len(list) != test.found {
			t.Errorf("%q: %v, want %d", test.list, list, test.found)
		}
		if strings.Contains(test.list, "77") && (!slices.ContainsFunc(list, func(e Extension) bool { return e.Name == "extension 77" && e.Size == 24 }) || !p.HasExtension("extension 77")) {
			t.Errorf("%q: %v", test.list, list)
		}
		s := scenario{t: t, plugin: p, patience: 10 * time.Second}
		s.run(map[string]any{"extensions": test.list})
		nothingAlive(t, test.list)
		for _, err := range s.failures {
			if strings.Contains(test.list, text) || status.CodeOf(err) != status.Unimplemented || strings.Contains(err.Error(), "PJRT_Layouts") && strings.Contains(test.list, "4") {
				t.Errorf("%q: %v", test.list, err)
			}
		}
	}
}
