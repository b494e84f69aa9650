package bind

import (
	"strconv"
	"strings"
	"sync"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

// table keeps the Go values that Python holds by number. Python closes each one explicitly: a
// value in the table holds device memory, which no garbage collector may own.
type table[T any] struct {
	noun  string
	mutex sync.Mutex
	last  int64
	items map[int64]T
}

var (
	dataTable        = table[client.Data]{noun: "data"}
	computationTable = table[client.Computation]{noun: "computation"}
	waitTable        = table[*pendingWait]{noun: "wait"}
)

func (t *table[T]) add(item T) int64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.items == nil {
		t.items = map[int64]T{}
	}
	t.last++
	t.items[t.last] = item
	return t.last
}

func (t *table[T]) get(handle int64) (T, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	item, ok := t.items[handle]
	if !ok {
		return item, status.Errorf(status.InvalidArgument, "expected the handle of open %s, got %d, which is closed or never was one", t.noun, handle)
	}
	return item, nil
}

// remove gives the item and whether the handle was open.
func (t *table[T]) remove(handle int64) (T, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	item, ok := t.items[handle]
	delete(t.items, handle)
	return item, ok
}

func (t *table[T]) count() int64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return int64(len(t.items))
}

// integers reads numbers with commas between them.
func integers(function, what, text string) ([]int64, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, ",")
	numbers := make([]int64, len(parts))
	for i, part := range parts {
		n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil {
			return nil, status.Errorf(status.InvalidArgument, "%s(): expected %s as numbers with commas between them, got %q", function, what, text)
		}
		numbers[i] = n
	}
	return numbers, nil
}

func joinIntegers(numbers []int64) string {
	parts := make([]string, len(numbers))
	for i, n := range numbers {
		parts[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(parts, ",")
}
