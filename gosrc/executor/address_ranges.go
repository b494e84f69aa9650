package executor

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// rangesPerProgram is more address ranges than a program is expected to take. On XLA's CPU platform a training step of
// twelve layers takes about 50.
const rangesPerProgram = 512

// addressRanges watches how many address ranges the process has. Each program that is loaded takes some, the system allows
// a number of them (Linux: vm.max_map_count, 65,530 unless it is set), and XLA ends the process where there are no more.
// It counts seldom: to read the list takes tens of milliseconds where it is long.
type addressRanges struct {
	count func() (held, allowed int, ok bool)

	mu   sync.Mutex
	left int // programs that may be loaded before the next count
}

// loaded notes a program, and gives the share of all programs that has to go: 0 but where three quarters of what is allowed
// are held, and then so many that half of it would be.
func (a *addressRanges) loaded() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left--; a.left > 0 {
		return 0
	}
	held, allowed, ok := a.count()
	if !ok {
		a.left = rangesPerProgram
		return 0
	}
	if much := allowed / 4 * 3; held < much {
		a.left = (much - held) / rangesPerProgram
		return 0
	}
	a.left = 8 // those that go are closed a little later
	return 1 - float64(allowed/2)/float64(held)
}

// relieve removes programs where the process runs out of address ranges. Without Core.Mu.
func (c *Core) relieve() {
	share := c.ranges.loaded()
	if share == 0 {
		return
	}
	c.Mu.Lock()
	c.cache.evict(int(share*float64(c.cache.size())) + 1)
	c.Mu.Unlock()
	runtime.GC() // finds that nobody has them, which closes them
}

// heldAddressRanges counts those of this process; false where the system does not tell.
func heldAddressRanges() (held, allowed int, ok bool) {
	limit, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return 0, 0, false
	}
	if allowed, err = strconv.Atoi(strings.TrimSpace(string(limit))); err != nil {
		return 0, 0, false
	}
	list, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0, 0, false
	}
	defer list.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := list.Read(buffer)
		held += bytes.Count(buffer[:n], []byte("\n"))
		if err != nil {
			return held, allowed, errors.Is(err, io.EOF)
		}
	}
}
