package pjrt

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The tables are printed by testdata/gen_abi.sh from published headers: 0.81 from a plugin's wheel, 0.114 from
// XLA's sources with all extensions, 0.115 from a nightly wheel of tensorflow (2.22.0.dev20260923), which carries the
// header without all those of the extensions. TestLayoutMatchesPlugins asks plugins for theirs.
func TestLayoutMatchesPublishedHeaders(t *testing.T) {
	files, err := filepath.Glob("testdata/abi_*.txt")
	if err != nil || len(files) < 3 {
		t.Fatalf("expected the layouts of at least three versions in testdata, got %v (%v)", files, err)
	}
	slices.SortFunc(files, func(a, b string) int { return minorOf(t, a) - minorOf(t, b) })
	ours := map[string]abiRow{}
	for _, row := range abiTable() {
		ours[row.Struct+"."+row.Field] = row
	}
	compared := map[string]bool{}
	for _, name := range files {
		published := readTable(t, name)
		if len(published) < 900 {
			t.Errorf("%s has %d rows: print it again", name, len(published))
		}
		for _, row := range published {
			own, found := ours[row.Struct+"."+row.Field]
			compared[row.Struct+"."+row.Field] = true
			switch {
			case !found:
				t.Errorf("%s: %s.%s is not declared here", name, row.Struct, row.Field)
			case row.Field == "-": // what is published may be an older, shorter struct
				if own.Size < row.Size || own.Offset < row.Offset || name == files[len(files)-1] && own != row {
					t.Errorf("%s: %s has %d bytes and %d to send, declared with %d and %d", name, row.Struct, row.Size, row.Offset, own.Size, own.Offset)
				}
			case own.Offset != row.Offset:
				t.Errorf("%s: %s.%s is at %d, declared at %d", name, row.Struct, row.Field, row.Offset, own.Offset)
			case own.Size != row.Size:
				t.Errorf("%s: %s.%s has %d bytes, declared with %d", name, row.Struct, row.Field, row.Size, own.Size)
			}
		}
	}
	for name := range ours {
		if !compared[name] {
			t.Errorf("%s is declared here and in no published table", name)
		}
	}
}

// minorOf gives the minor version in the name of a table.
func minorOf(t *testing.T, name string) int {
	t.Helper()
	var minor int
	if _, err := fmt.Sscanf(filepath.Base(name), "abi_0_%d.txt", &minor); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return minor
}

func readTable(t *testing.T, name string) []abiRow {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	if !lines.Scan() {
		t.Fatalf("%s is empty", name)
	}
	var rows []abiRow
	for lines.Scan() {
		var row abiRow
		if _, err := fmt.Sscan(lines.Text(), &row.Struct, &row.Field, &row.Offset, &row.Size); err != nil {
			t.Fatalf("%s: %q: %v", name, lines.Text(), err)
		}
		rows = append(rows, row)
	}
	return rows
}
