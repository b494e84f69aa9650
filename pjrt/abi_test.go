package pjrt

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The tables are printed by testdata/gen_abi.sh from published headers.
func TestLayoutMatchesPublishedHeaders(t *testing.T) {
	files, err := filepath.Glob("testdata/abi_*.txt")
	if err != nil || len(files) < 2 {
		t.Fatalf("expected the layouts of at least two versions in testdata, got %v (%v)", files, err)
	}
	ours := map[string]abiRow{}
	for _, row := range abiTable() {
		ours[row.Struct+"."+row.Field] = row
	}
	for _, name := range files {
		published := readTable(t, name)
		if len(published) != len(ours) {
			t.Errorf("%s has %d rows, expected %d: print it again with gen_abi.sh", name, len(published), len(ours))
		}
		for _, row := range published {
			own, found := ours[row.Struct+"."+row.Field]
			switch {
			case !found:
				t.Errorf("%s: %s.%s is not declared here", name, row.Struct, row.Field)
			case own.Offset != row.Offset:
				t.Errorf("%s: %s.%s is at %d, declared at %d", name, row.Struct, row.Field, row.Offset, own.Offset)
			case row.Field == "-" && own.Size > row.Size: // newer versions may be longer
				t.Errorf("%s: %s has %d bytes, declared with %d", name, row.Struct, row.Size, own.Size)
			case row.Field != "-" && own.Size != row.Size:
				t.Errorf("%s: %s.%s has %d bytes, declared with %d", name, row.Struct, row.Field, row.Size, own.Size)
			}
		}
	}
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
