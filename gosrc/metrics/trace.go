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

var (
	tracing    atomic.Bool
	traceMutex sync.Mutex
	spans      []Span
	lostSpans  int64
)

// StartTrace begins to record every duration that a TimeMetric observes, from nothing. False where a trace is going on.
func StartTrace() bool {
	traceMutex.Lock()
	defer traceMutex.Unlock()
	if tracing.Load() {
		return false
	}
	spans, lostSpans = nil, 0
	tracing.Store(true)
	return true
}

// StopTrace ends the trace and gives its spans in the order of their ends, and how many more there were than a trace
// holds.
func StopTrace() (recorded []Span, lost int64) {
	traceMutex.Lock()
	defer traceMutex.Unlock()
	tracing.Store(false)
	recorded, spans = spans, nil
	return recorded, lostSpans
}

// span records a duration that ends now.
func (t *TimeMetric) span(d time.Duration) {
	start := time.Now().Add(-d)
	traceMutex.Lock()
	defer traceMutex.Unlock()
	switch {
	case !tracing.Load():
	case len(spans) < maxSpans:
		spans = append(spans, Span{t.name, start, d})
	default:
		lostSpans++
	}
}
