package metrics

import (
	"sync"
	"sync/atomic"
	"time"
)

// Span is one observed duration with its place in time.
type Span struct {
	Name     string
	Start    time.Time
	Duration time.Duration
}

// maxSpans bounds a trace that nobody ends: some hundred megabytes.
const maxSpans = 2_000_000

// trace is what was recorded for one owner.
type trace struct {
	spans []Span
	lost  int64
}

var (
	tracing    atomic.Bool // some trace is going on
	traceMutex sync.Mutex
	traces     = map[string]*trace{} // by owner
)

// StartTrace begins to record every duration that a TimeMetric observes, from nothing, for an owner: who profiles a block and
// who explains a whole program do not get into each other's way. False where a trace of that owner is going on.
func StartTrace(owner string) bool {
	traceMutex.Lock()
	defer traceMutex.Unlock()
	if traces[owner] != nil {
		return false
	}
	traces[owner] = &trace{}
	tracing.Store(true)
	return true
}

// StopTrace ends the owner's trace and gives its spans in the order of their ends, and how many more there were than a trace
// holds.
func StopTrace(owner string) (recorded []Span, lost int64) {
	traceMutex.Lock()
	defer traceMutex.Unlock()
	t := traces[owner]
	if t == nil {
		return nil, 0
	}
	delete(traces, owner)
	tracing.Store(len(traces) > 0)
	return t.spans, t.lost
}

// span records a duration that ends now.
func (t *TimeMetric) span(d time.Duration) {
	start := time.Now().Add(-d)
	traceMutex.Lock()
	defer traceMutex.Unlock()
	for _, trace := range traces {
		if len(trace.spans) < maxSpans {
			trace.spans = append(trace.spans, Span{t.name, start, d})
		} else {
			trace.lost++
		}
	}
}
