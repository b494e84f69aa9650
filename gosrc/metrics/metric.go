package metrics

import (
	"sort"
	"sync"
	"time"

	"xla_go/gosrc/env"
)

const defaultSamples = 1024

// Sample is one observation.
type Sample struct {
	Time  time.Time
	Value float64
}

// Data is what a metric holds at one moment.
type Data struct {
	// TotalSamples and Accumulator cover every observation since the last clear.
	TotalSamples int64
	Accumulator  float64
	// Samples are the newest ones, oldest first; at most XLA_METRICS_SAMPLES (1024).
	Samples []Sample
}

// metric accumulates observations and keeps the newest of them in a circular buffer.
type metric struct {
	represent func(float64) string

	mutex       sync.Mutex
	total       int64
	accumulator float64
	samples     []Sample
}

func (m *metric) observe(value float64) {
	now := time.Now()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if capacity := sampleCapacity(); len(m.samples) < capacity {
		m.samples = append(m.samples, Sample{now, value})
	} else {
		m.samples[int(m.total%int64(capacity))] = Sample{now, value}
	}
	m.total++
	m.accumulator += value
}

func (m *metric) data() Data {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	d := Data{TotalSamples: m.total, Accumulator: m.accumulator, Samples: make([]Sample, 0, len(m.samples))}
	oldest := 0
	if n := int64(len(m.samples)); n > 0 && m.total > n {
		oldest = int(m.total % n)
	}
	d.Samples = append(d.Samples, m.samples[oldest:]...)
	d.Samples = append(d.Samples, m.samples[:oldest]...)
	return d
}

func (m *metric) clear() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.total, m.accumulator, m.samples = 0, 0, nil
}

func (m *metric) valid() bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.total > 0
}

// sampleCapacity is fixed at the first observation: the buffers' arithmetic needs one size.
var sampleCapacity = sync.OnceValue(func() int {
	return max(1, env.Int("XLA_METRICS_SAMPLES", defaultSamples))
})

// TimeMetric is a metric of durations, kept in nanoseconds.
type TimeMetric struct {
	metric
	name string
}

// Observe adds one duration, which ends now.
func (t *TimeMetric) Observe(d time.Duration) {
	t.observe(float64(d.Nanoseconds()))
	if tracing.Load() {
		t.span(d)
	}
}

// Since observes the time from start until now: defer metrics.Time("X").Since(time.Now()).
func (t *TimeMetric) Since(start time.Time) { t.Observe(time.Since(start)) }

// BytesMetric is a metric of sizes in bytes.
type BytesMetric struct{ metric }

// Observe adds one size in bytes.
func (b *BytesMetric) Observe(bytes float64) { b.observe(bytes) }

// ValueMetric is a metric of plain numbers.
type ValueMetric struct{ metric }

// Observe adds one number.
func (v *ValueMetric) Observe(value float64) { v.observe(value) }

// The three kinds share one space of names in reports and queries.
var (
	registry sync.Map // string to *metric: what reports and queries see
	times    sync.Map // string to *TimeMetric
	sizes    sync.Map // string to *BytesMetric
	values   sync.Map // string to *ValueMetric
)

// Time gives the duration metric of that name and makes it at first use.
func Time(name string) *TimeMetric {
	if t, ok := times.Load(name); ok {
		return t.(*TimeMetric)
	}
	t, loaded := times.LoadOrStore(name, &TimeMetric{metric{represent: representTime}, name})
	if !loaded {
		registry.Store(name, &t.(*TimeMetric).metric)
	}
	return t.(*TimeMetric)
}

// Bytes gives the size metric of that name and makes it at first use.
func Bytes(name string) *BytesMetric {
	if b, ok := sizes.Load(name); ok {
		return b.(*BytesMetric)
	}
	b, loaded := sizes.LoadOrStore(name, &BytesMetric{metric{represent: representBytes}})
	if !loaded {
		registry.Store(name, &b.(*BytesMetric).metric)
	}
	return b.(*BytesMetric)
}

// Value gives the metric of plain numbers of that name and makes it at first use.
func Value(name string) *ValueMetric {
	if v, ok := values.Load(name); ok {
		return v.(*ValueMetric)
	}
	v, loaded := values.LoadOrStore(name, &ValueMetric{metric{represent: representValue}})
	if !loaded {
		registry.Store(name, &v.(*ValueMetric).metric)
	}
	return v.(*ValueMetric)
}

// MetricNames gives the names of the metrics that have observed something, sorted.
func MetricNames() []string {
	var names []string
	registry.Range(func(name, m any) bool {
		if m.(*metric).valid() {
			names = append(names, name.(string))
		}
		return true
	})
	sort.Strings(names)
	return names
}

// MetricData gives what a metric holds; ok is false where it has observed nothing.
func MetricData(name string) (data Data, ok bool) {
	m, ok := registry.Load(name)
	if !ok {
		return Data{}, false
	}
	data = m.(*metric).data()
	return data, data.TotalSamples > 0
}

// ClearMetrics forgets every observation.
func ClearMetrics() {
	registry.Range(func(_, m any) bool {
		m.(*metric).clear()
		return true
	})
}
