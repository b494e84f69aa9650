package metrics

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func clearAll() { ClearCounters(); ClearMetrics() }

func TestCounterSurvivesClear(t *testing.T) {
	clearAll()
	c := Counter("TestCounter")
	if _, ok := CounterValue("TestCounter"); ok {
		t.Error("a counter that counted nothing has a value")
	}
	c.Add(2)
	Counter("TestCounter").Add(3)
	if v, ok := CounterValue("TestCounter"); !ok || v != 5 {
		t.Errorf("CounterValue = %d, %v; want 5, true", v, ok)
	}
	ClearCounters()
	if slices.Contains(CounterNames(), "TestCounter") {
		t.Error("a cleared counter is still named")
	}
	c.Add(1)
	if v, _ := CounterValue("TestCounter"); v != 1 {
		t.Errorf("after a clear the held counter counts elsewhere: %d, want 1", v)
	}
}

func TestConcurrentUse(t *testing.T) {
	clearAll()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				Counter("Concurrent").Add(1)
				Time("ConcurrentTime").Observe(time.Microsecond)
				_ = Report()[:0]
			}
		})
	}
	group.Wait()
	if v := Counter("Concurrent").Value(); v != 1600 {
		t.Errorf("counter = %d, want 1600", v)
	}
	if d, _ := MetricData("ConcurrentTime"); d.TotalSamples != 1600 || d.Accumulator != 1600e3 {
		t.Errorf("metric has %d samples and %v, want 1600 and 1.6e6", d.TotalSamples, d.Accumulator)
	}
}

func TestCircularBufferKeepsTheNewest(t *testing.T) {
	clearAll()
	m := Value("Circular")
	for i := range 1500 {
		m.Observe(float64(i))
	}
	d, ok := MetricData("Circular")
	if !ok || d.TotalSamples != 1500 || len(d.Samples) != 1024 {
		t.Fatalf("%d samples of %d, want 1024 of 1500", len(d.Samples), d.TotalSamples)
	}
	for i, s := range d.Samples {
		if want := float64(1500 - 1024 + i); s.Value != want {
			t.Fatalf("sample %d is %v, want %v", i, s.Value, want)
		}
	}
	ClearMetrics()
	if _, ok := MetricData("Circular"); ok {
		t.Error("a cleared metric has data")
	}
}

func TestReportFormat(t *testing.T) {
	clearAll()
	compile := Time("CompileTime")
	compile.Observe(22*time.Millisecond + 119144*time.Nanosecond)
	time.Sleep(time.Millisecond)
	compile.Observe(25*time.Millisecond + 901502*time.Nanosecond)
	Bytes("InboundData").Observe(16)
	Counter("ExecuteComputation").Add(2)
	want := regexp.MustCompile(`^Metric: CompileTime
  TotalSamples: 2
  Accumulator: 048ms020\.646us
  ValueRate: [0-9dhms.u]+us / second
  Rate: [0-9.e+]+ / second
  Percentiles: 1%=022ms119\.144us; 5%=022ms119\.144us; 10%=022ms119\.144us; 20%=022ms119\.144us; 50%=025ms901\.502us; 80%=025ms901\.502us; 90%=025ms901\.502us; 95%=025ms901\.502us; 99%=025ms901\.502us
Metric: InboundData
  TotalSamples: 1
  Accumulator: 16\.00B
  Percentiles: 1%=16\.00B;.*
Counter: ExecuteComputation
  Value: 2
$`)
	if got := Report(); !want.MatchString(got) {
		t.Errorf("report:\n%s", got)
	}
	short := ShortReport([]string{"ExecuteComputation", "Nothing"}, []string{"InboundData", "Nothing"})
	if !strings.HasPrefix(short, "Metric: InboundData\n") || !strings.HasSuffix(short, "  Value: 2\n") ||
		strings.Contains(short, "CompileTime") || strings.Contains(short, "Nothing") {
		t.Errorf("short report:\n%s", short)
	}
}

func TestRepresentations(t *testing.T) {
	for value, want := range map[float64]string{
		0: "000.000us", 1: "000.001us", 999999.9: "999.999us", 1e6: "001ms000.000us",
		47020646: "047ms020.646us", 2675878314: "02s675ms878.314us",
		3600e9 + 61e9: "01h01m01s000ms000.000us", 90000e9: "01d01h00m00s000ms000.000us",
	} {
		if got := representTime(value); got != want {
			t.Errorf("representTime(%v) = %q, want %q", value, got, want)
		}
	}
	for value, want := range map[float64]string{16: "16.00B", 1536: "1.50KB", 3 << 30: "3.00GB"} {
		if got := representBytes(value); got != want {
			t.Errorf("representBytes(%v) = %q, want %q", value, got, want)
		}
	}
	if got := representValue(2); got != "2.00" {
		t.Errorf("representValue(2) = %q, want 2.00", got)
	}
}

func TestTracesOfTwoOwners(t *testing.T) {
	m := Time("TraceTest")
	m.Observe(time.Second)
	if !StartTrace("a") || StartTrace("a") {
		t.Error("expected one trace of an owner")
	}
	m.Observe(1)
	if !StartTrace("b") {
		t.Error("one owner's trace is in the way of another's")
	}
	m.Observe(2)
	of := func(owner string) (durations []time.Duration) {
		spans, lost := StopTrace(owner)
		if lost != 0 {
			t.Error("spans are lost")
		}
		for _, s := range spans {
			durations = append(durations, s.Duration)
		}
		return durations
	}
	if got := of("a"); !slices.Equal(got, []time.Duration{1, 2}) {
		t.Error("a:", got)
	}
	m.Observe(3)
	if got := of("b"); !slices.Equal(got, []time.Duration{2, 3}) {
		t.Error("b:", got)
	}
	m.Observe(4)
	if got := of("a"); got != nil || tracing.Load() {
		t.Error("after the end:", got)
	}
}
