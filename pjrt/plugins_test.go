package pjrt

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"xla_go/pjrt/testplugin"
)

// testPlugins are the libraries of XLA_GO_TEST_PLUGIN and of the list XLA_GO_TEST_PLUGINS, each once.
func testPlugins(t *testing.T) []string {
	t.Helper()
	paths := []string{testPlugin(t).Path()}
	for _, path := range filepath.SplitList(os.Getenv("XLA_GO_TEST_PLUGINS")) {
		path, err := filepath.EvalSymlinks(path)
		if err != nil {
			t.Fatal("XLA_GO_TEST_PLUGINS: ", err)
		}
		if path != paths[0] {
			paths = append(paths, path)
		}
	}
	return paths
}

// onRealPlugins are the tests of this package that run on XLA_GO_TEST_PLUGIN.
const onRealPlugins = "^Test(RealPlugin|BufferTellsWhatItIs|StridesOfUploads|LendKeepsFromDonation|Events|ForgottenBuffersAreSwept|DestroyAll|Pack|MissingFunctions|CreateOptions|LoadIsOncePerLibrary)$"

// Every test of a real plugin passes on each of the other plugins, in a process of its own: a plugin of
// another version must not bring it down.
func TestOtherPlugins(t *testing.T) {
	for _, path := range testPlugins(t)[1:] {
		t.Run(filepath.Base(path), func(t *testing.T) {
			child := exec.Command(os.Args[0], "-test.v", "-test.run", onRealPlugins)
			child.Env = append(os.Environ(), "XLA_GO_TEST_PLUGIN="+path, "XLA_GO_TEST_PLUGINS=")
			output, err := child.CombinedOutput()
			if err != nil || !strings.Contains(string(output), "--- PASS: TestRealPlugin") {
				t.Errorf("%v\n%s", err, output)
			}
			for _, line := range strings.Split(string(output), "\n") {
				if strings.Contains(line, "API 0.") || strings.HasPrefix(line, "--- ") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}

// What a real plugin itself says of its layout: how long its table, its extensions and the arguments of
// its functions are. It is the word for versions of which no header is published.
func TestLayoutMatchesPlugins(t *testing.T) {
	// Where the fields of each struct end: an older plugin expects fewer of them, and so does a newer
	// one that still takes the older struct.
	ends := map[string][]int{}
	for _, row := range abiTable() {
		if row.Field != "-" {
			ends[row.Struct] = append(ends[row.Struct], row.Offset+row.Size)
		}
	}
	program := testplugin.CompileProgram(t, "testdata/argument_sizes.c")
	for _, path := range testPlugins(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			p, err := Load(path)
			if err != nil {
				t.Fatal(err)
			}
			newest := p.minor >= knownMinor
			ourTable := int(unsafe.Sizeof(*p.api))
			if size := int(p.api.struct_size); size > ourTable && p.minor <= knownMinor || newest && size < ourTable {
				t.Errorf("the table of 0.%d has %d bytes, declared with %d", p.minor, size, ourTable)
			}
			tables := knownExtensions()
			for _, e := range p.Extensions() {
				if size := tables[e.Type]; size != 0 && (e.Size > size && p.minor <= knownMinor || newest && e.Size < size) {
					t.Errorf("extension %s of 0.%d has %d bytes, declared with %d", e.Name, p.minor, e.Size, size)
				}
			}
			output, err := exec.Command(program, path).Output()
			if err != nil {
				t.Fatal(err)
			}
			asked, shorter := 0, 0
			for lines := bufio.NewScanner(strings.NewReader(string(output))); lines.Scan(); {
				var name string
				var size int
				if _, err := fmt.Sscan(lines.Text(), &name, &size); err != nil {
					t.Fatalf("%q: %v", lines.Text(), err)
				}
				known := ends[argumentsOf(name)]
				if known == nil {
					t.Errorf("the arguments of %s are not declared here", name)
					continue
				}
				asked++
				if declared := slices.Max(known); !slices.Contains(known, size) && p.minor <= knownMinor {
					t.Errorf("0.%d expects %d bytes of the arguments of %s, declared with %d", p.minor, size, name, declared)
				} else if newest && size != declared {
					shorter++
					t.Logf("0.%d takes %d of the %d bytes of the arguments of %s", p.minor, size, declared, name)
				}
			}
			t.Logf("0.%d: a table of %d bytes, %d extensions, %d argument structs", p.minor, p.api.struct_size, len(p.Extensions()), asked)
			if shorter > 5 {
				t.Errorf("0.%d takes shorter arguments than are declared here for %d functions", p.minor, shorter)
			}
			if asked < 100 {
				t.Errorf("the plugin told the sizes of %d argument structs only:\n%s", asked, strconv.Quote(string(output)))
			}
		})
	}
}

// knownExtensions gives how many bytes the extensions of each type have, as they are declared here.
func knownExtensions() map[int]int {
	sizes := map[int]int{}
	for _, row := range abiTable() {
		name := strings.TrimSuffix(strings.TrimPrefix(row.Struct, "PJRT_"), "_Extension")
		if number := slices.Index(extensionNames[:], name); number >= 0 && row.Field != "-" {
			sizes[number] = max(sizes[number], row.Offset+row.Size)
		}
	}
	return sizes
}

// argumentsOf gives the struct of a function's arguments.
func argumentsOf(function string) string {
	if named := map[string]string{
		"custom_call": "PJRT_Gpu_Register_Custom_Call_Args", "get_stream": "PJRT_Get_Stream_For_External_Ready_Events_Args",
		"wait_stream": "PJRT_Wait_Until_Buffer_Ready_On_Stream_Args", "type_register": "PJRT_FFI_Type_Register_Args",
		"user_data_add": "PJRT_FFI_UserData_Add_Args", "register_handler": "PJRT_FFI_Register_Handler_Args", "compile": "PJRT_Triton_Compile_Args",
	}[function]; named != "" {
		return named
	}
	return strings.TrimSuffix(function, "_Args") + "_Args"
}
