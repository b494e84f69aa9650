package executor_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"xla_go/gosrc/diskcache"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/metrics"
)

// compilerRuns counts the runs of the plugin's compiler.
func compilerRuns() int64 { data, _ := metrics.MetricData("CompileTime"); return data.TotalSamples }

// another makes a core like that of another process: nothing of the first one's memory, over the same directory.
func (f *fixture) another(options executor.Options) *fixture {
	f.Helper()
	core := executor.NewCore(f.core.Client(), options)
	device, err := core.Device(0)
	if err != nil {
		f.Fatal(err)
	}
	return &fixture{f.T, core, device, f.devices}
}

// sum runs one program and gives what it counted: runs of the compiler, and hits, misses and failures of the cache.
func (f *fixture) sum(size int) (compiled, hit, miss, failure int64) {
	f.Helper()
	counters := []*metrics.CounterData{
		metrics.Counter("PersistentCacheHit"), metrics.Counter("PersistentCacheMiss"), metrics.Counter("PersistentCacheDeserializeFailure"),
	}
	var before []int64
	for _, c := range counters {
		before = append(before, c.Value())
	}
	compiled = compilerRuns()
	values := make([]float32, size)
	values[0] = 3
	a := f.root(values...)
	b := f.root(values...)
	out := f.empty()
	f.apply(out, kindAdd, []int64{int64(size)}, a, b)
	if err := f.cut(); err != nil {
		f.Fatal(err)
	}
	f.expect(out, 6, 0)
	f.device.WaitIdle()
	f.core.FlushCache()
	return compilerRuns() - compiled, counters[0].Value() - before[0], counters[1].Value() - before[1], counters[2].Value() - before[2]
}

func TestProgramsOutliveTheirProcess(t *testing.T) {
	first := start(t)
	options := executor.DefaultOptions()
	options.Cache = diskcache.Options{Directory: filepath.Join(t.TempDir(), "programs")}
	check := func(what string, f *fixture, compiled, hit, miss, failure int64) {
		t.Helper()
		if a, b, c, d := f.sum(3); a != compiled || b != hit || c != miss || d != failure {
			t.Errorf("%s: %d compiles, %d hits, %d misses, %d failures, want %d, %d, %d, %d", what, a, b, c, d, compiled, hit, miss, failure)
		}
	}
	check("the first process", first.another(options), 1, 0, 1, 0)
	second := first.another(options)
	check("the second", second, 0, 1, 0, 0)
	check("the second, from its memory", second, 0, 0, 0, 0)

	files, _ := filepath.Glob(filepath.Join(options.Cache.Directory, "*.entry"))
	if len(files) != 1 {
		t.Fatalf("files: %v", files)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	check("after damage", first.another(options), 1, 0, 1, 0)
	check("after its repair", first.another(options), 0, 1, 0, 0)

	// An entry that is whole and not what the plugin can load.
	cache, err := diskcache.Open(options.Cache)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := cache.Entries()
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	if err := cache.Put(keyOf(t, entries[0].Key), "", []byte("no program")); err != nil {
		t.Fatal(err)
	}
	check("a refused entry", first.another(options), 1, 0, 1, 1)
	check("after it was compiled anew", first.another(options), 0, 1, 0, 0)

	first.core.Client().SetCustomCompileOptions(map[string]string{"xla_cpu_enable_fast_math": "true"})
	check("with another compile option", first.another(options), 1, 0, 1, 0)
	first.core.Client().SetCustomCompileOptions(nil)
	options.Cache.ReadOnly = true
	reader := first.another(options)
	check("a reader", reader, 0, 1, 0, 0)
	if compiled, _, _, _ := reader.sum(5); compiled != 1 {
		t.Error("a program of another shape was not compiled")
	}
	if entries, _ := cache.Entries(); len(entries) != 2 {
		t.Errorf("a reader wrote: %d entries", len(entries))
	}
}

func keyOf(t *testing.T, text string) diskcache.Key {
	t.Helper()
	decoded, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return diskcache.Key(decoded)
}
