package executor

import (
	"runtime"
	"testing"
)

// TestAddressRangesOfThisProcess: the system's own count.
func TestAddressRangesOfThisProcess(t *testing.T) {
	held, allowed, ok := heldAddressRanges()
	if runtime.GOOS == "linux" && (!ok || held < 10 || held > allowed) {
		t.Errorf("%d of %d address ranges, %v", held, allowed, ok)
	}
}

// TestAddressRangesAreCountedSeldom: and more often, the fewer are left.
func TestAddressRangesAreCountedSeldom(t *testing.T) {
	counts, held := 0, 1000
	a := addressRanges{count: func() (int, int, bool) { counts++; return held, 65530, true }}
	for range 1000 {
		if share := a.loaded(); share != 0 {
			t.Fatalf("%v of the programs are to go at %d address ranges", share, held)
		}
		held += 48 // as a program of a dozen layers
	}
	if counts > 200 {
		t.Errorf("the ranges of 1000 programs were counted %d times", counts)
	}
	for held < 65530*3/4 {
		held += 48
		a.loaded()
	}
	for a.left > 1 {
		a.loaded()
	}
	if share := a.loaded(); share < 0.25 || share > 0.5 {
		t.Errorf("%v of the programs go at %d address ranges", share, held)
	}
}
