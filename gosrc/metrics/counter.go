// Package metrics counts and times what the runtime does, under the names and in the text form
// that users of torch_xla's metrics read.
//
// Look a counter or metric up once and keep it: the pointers stay valid for the process's life,
// through every Clear. All operations may be called from several goroutines at once.
package metrics

import (
	"sort"
	"sync"
	"sync/atomic"
)

// CounterData is a named count. Its zero value counts, but is in no report; see Counter.
type CounterData struct {
	value atomic.Int64
}

// Add adds n.
func (c *CounterData) Add(n int64) { c.value.Add(n) }

// Value gives the count since the process started or since the last clear.
func (c *CounterData) Value() int64 { return c.value.Load() }

var counters sync.Map // string to *CounterData

// Counter gives the counter of that name and makes it at first use.
func Counter(name string) *CounterData {
	if c, ok := counters.Load(name); ok {
		return c.(*CounterData)
	}
	c, _ := counters.LoadOrStore(name, new(CounterData))
	return c.(*CounterData)
}

// CounterValue gives a counter's value; ok is false where it has counted nothing.
func CounterValue(name string) (value int64, ok bool) {
	c, ok := counters.Load(name)
	if !ok {
		return 0, false
	}
	value = c.(*CounterData).Value()
	return value, value != 0
}

// CounterNames gives the names of the counters that have counted something, sorted.
func CounterNames() []string {
	var names []string
	counters.Range(func(name, c any) bool {
		if c.(*CounterData).Value() != 0 {
			names = append(names, name.(string))
		}
		return true
	})
	sort.Strings(names)
	return names
}

// ClearCounters sets every counter to 0.
func ClearCounters() {
	counters.Range(func(_, c any) bool {
		c.(*CounterData).value.Store(0)
		return true
	})
}
