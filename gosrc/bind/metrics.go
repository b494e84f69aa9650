package bind

import (
	"encoding/json"
	"time"

	"xla_go/gosrc/metrics"
)

// CounterNames gives the counters that have counted something, one a line.
func CounterNames() string { return lines(metrics.CounterNames()) }

// HasCounter says whether a counter has counted something.
func HasCounter(name string) bool { _, ok := metrics.CounterValue(name); return ok }

// CounterValue gives a counter's value, 0 where it has counted nothing.
func CounterValue(name string) int64 { value, _ := metrics.CounterValue(name); return value }

// AddToCounter adds n to a counter.
func AddToCounter(name string, n int64) { metrics.Counter(name).Add(n) }

// ObserveTime adds a duration that ends now to a metric of times.
func ObserveTime(name string, nanoseconds int64) {
	metrics.Time(name).Observe(time.Duration(nanoseconds))
}

// MetricNames gives the metrics that have observed something, one a line.
func MetricNames() string { return lines(metrics.MetricNames()) }

// MetricData gives a metric as JSON: [total samples, accumulator, [[seconds since 1970, value], ...]],
// or null where it has observed nothing. Times are in nanoseconds, sizes in bytes.
func MetricData(name string) (text string, err error) {
	data, ok := metrics.MetricData(name)
	if !ok {
		return "null", nil
	}
	samples := make([][2]float64, 0, len(data.Samples))
	for _, sample := range data.Samples {
		samples = append(samples, [2]float64{float64(sample.Time.UnixNano()) / 1e9, sample.Value})
	}
	encoded, err := json.Marshal([]any{data.TotalSamples, data.Accumulator, samples})
	return string(encoded), err
}

// MetricsReport gives every metric and counter as text.
func MetricsReport() string { return metrics.Report() }

// ShortMetricsReport gives the named counters and metrics, one name a line, as text.
func ShortMetricsReport(counters, names string) string {
	return metrics.ShortReport(split(counters), split(names))
}

// ClearCounters sets every counter to 0.
func ClearCounters() { metrics.ClearCounters() }

// ClearMetrics forgets every observation.
func ClearMetrics() { metrics.ClearMetrics() }

// StartTrace begins to record the spans of all time metrics for an owner. False where a trace of that owner is going on.
func StartTrace(owner string) bool { return metrics.StartTrace(owner) }

// StopTrace ends the owner's trace and gives it as a JSON object: spans, a list of [name, start, duration], with times in
// microseconds since 1970 in the order of their ends, and lost, the number of those that a trace had no room for.
func StopTrace(owner string) (text string, err error) {
	defer guard(&err)
	spans, lost := metrics.StopTrace(owner)
	list := make([][3]any, len(spans))
	for i, s := range spans {
		list[i] = [3]any{s.Name, float64(s.Start.UnixNano()) / 1e3, float64(s.Duration.Nanoseconds()) / 1e3}
	}
	return encode(map[string]any{"spans": list, "lost": lost})
}
