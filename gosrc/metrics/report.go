package metrics

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"xla_go/gosrc/env"
)

const defaultPercentiles = "0.01:0.05:0.1:0.2:0.5:0.8:0.9:0.95:0.99"

// Report gives all metrics, then all counters, each in alphabetical order, as text.
func Report() string { return report(MetricNames(), CounterNames()) }

// ShortReport gives the named counters and metrics, in the given order, without those that are empty.
func ShortReport(counterNames, metricNames []string) string {
	return report(metricNames, counterNames)
}

func report(metricNames, counterNames []string) string {
	var text strings.Builder
	for _, name := range metricNames {
		if m, ok := registry.Load(name); ok {
			reportMetric(&text, name, m.(*metric))
		}
	}
	for _, name := range counterNames {
		if value, ok := CounterValue(name); ok {
			fmt.Fprintf(&text, "Counter: %s\n  Value: %d\n", name, value)
		}
	}
	return text.String()
}

func reportMetric(text *strings.Builder, name string, m *metric) {
	data := m.data()
	if data.TotalSamples == 0 {
		return
	}
	fmt.Fprintf(text, "Metric: %s\n  TotalSamples: %d\n  Accumulator: %s\n",
		name, data.TotalSamples, m.represent(data.Accumulator))
	var sum float64
	sorted := make([]float64, len(data.Samples))
	for i, sample := range data.Samples {
		sum += sample.Value
		sorted[i] = sample.Value
	}
	count := len(data.Samples)
	if seconds := data.Samples[count-1].Time.Sub(data.Samples[0].Time).Seconds(); seconds > 0 {
		fmt.Fprintf(text, "  ValueRate: %s / second\n  Rate: %.6g / second\n",
			m.represent(sum/seconds), float64(count)/seconds)
	}
	sort.Float64s(sorted)
	parts := make([]string, 0, 9)
	for _, p := range percentiles() {
		index := min(int(p*float64(count)), count-1)
		parts = append(parts, fmt.Sprintf("%.6g%%=%s", p*100, m.represent(sorted[index])))
	}
	fmt.Fprintf(text, "  Percentiles: %s\n", strings.Join(parts, "; "))
}

// percentiles reads XLA_METRICS_PERCENTILES: fractions in [0, 1] with colons between them.
// Anything else in it is left out.
func percentiles() []float64 {
	var fractions []float64
	for part := range strings.SplitSeq(env.String("XLA_METRICS_PERCENTILES", defaultPercentiles), ":") {
		if p, err := strconv.ParseFloat(part, 64); err == nil && p >= 0 && p <= 1 {
			fractions = append(fractions, p)
		}
	}
	return fractions
}

// representTime writes nanoseconds as days, hours, minutes, seconds, milliseconds and
// microseconds from the first part that is not 0, for example 02s675ms878.314us.
func representTime(nanoseconds float64) string {
	var text strings.Builder
	for _, part := range []struct {
		suffix string
		unit   float64
		width  int
	}{
		{"d", 86400e9, 2}, {"h", 3600e9, 2}, {"m", 60e9, 2}, {"s", 1e9, 2}, {"ms", 1e6, 3},
	} {
		whole := math.Floor(nanoseconds / part.unit)
		if whole >= 1 || text.Len() > 0 {
			fmt.Fprintf(&text, "%0*.0f%s", part.width, whole, part.suffix)
		}
		nanoseconds -= whole * part.unit
	}
	// Cut, not rounded, so that 999.9996us does not become 1000.000us.
	fmt.Fprintf(&text, "%07.3fus", math.Floor(nanoseconds)/1e3)
	return text.String()
}

func representBytes(bytes float64) string {
	suffixes := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	i := 0
	for i+1 < len(suffixes) && bytes >= 1024 {
		bytes /= 1024
		i++
	}
	return fmt.Sprintf("%.2f%s", bytes, suffixes[i])
}

func representValue(value float64) string { return fmt.Sprintf("%.2f", value) }
