package plugintest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/pjrt"
)

// transferRounds is how often each way is measured, in turn with the others.
const transferRounds = 5

// way is one way to move bytes, measured beside others.
type way struct {
	name string
	// against names the way that this one is compared with, "" for none.
	against string
	// move does it once; after, which is not counted, cleans up.
	move, after func()
	seconds     []float64
}

// BenchmarkTransfer measures uploads and reads of several sizes beside a plain copy of as many bytes, and beside what
// the plugin does by itself. Each round goes through all ways; a figure is the median of the rounds' own ratios, with
// the lowest and the highest. It logs a table and reports the ratios of bandwidths: 1 is as fast as the copy.
func (f Benchmark) BenchmarkTransfer(b *testing.B) {
	for _, size := range []int64{4 << 10, 1 << 20, 256 << 20} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			c := f(b)
			t := newTransfers(b, c, size)
			for b.Loop() {
				t.measure(transferRounds)
			}
			t.report(b)
			t.close()
			if err := c.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}

type transfers struct {
	b                   testing.TB
	client              client.Client
	plugin              *pjrt.Client
	size                int64
	source, warm, fresh *pjrt.HostMemory
	data                client.Data
	buffer              *pjrt.Buffer
	ways                []*way
}

func check[V any](b testing.TB) func(V, error) V {
	return func(v V, err error) V {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
}

func newTransfers(b testing.TB, c client.Client, size int64) *transfers {
	t := &transfers{b: b, client: c, size: size}
	t.plugin = check[*pjrt.Client](b)(check[*pjrt.Plugin](b)(pjrt.Load(CPU(b))).NewClient(OneDevice))
	t.source = check[*pjrt.HostMemory](b)(pjrt.NewHostMemory(2*size + 64))
	t.warm = check[*pjrt.HostMemory](b)(pjrt.NewHostMemory(size))
	for i := range t.source.Bytes {
		t.source.Bytes[i] = byte(i)
	}
	clear(t.warm.Bytes)
	s := shape.Make(dtype.U8, size)
	t.data = t.upload(client.TensorSource{Shape: s, Address: t.source.Address()})
	t.buffer = check[*pjrt.Buffer](b)(t.plugin.FromHost(pjrt.Host{Address: t.source.Address(), Dtype: dtype.U8, Dims: s.Dims}, t.plugin.AddressableDevices()[0], nil))

	var fresh []byte
	remap := func() {
		if t.fresh != nil {
			t.fresh.Free()
		}
		t.fresh = check[*pjrt.HostMemory](b)(pjrt.NewPlainHostMemory(size))
		fresh = t.fresh.Bytes[:size]
	}
	remap()
	t.add("copy to warm memory", "", func() { pjrt.CopyAlone(t.warm.Bytes[:size], t.source.Address()) }, nil)
	t.add("copy to fresh memory", "", func() { pjrt.CopyAlone(fresh, t.source.Address()) }, remap)

	rows := int64(1)
	for rows*rows*4 < size {
		rows *= 2
	}
	columns := size / 4 / rows
	for _, form := range []struct {
		name   string
		source client.TensorSource
	}{
		{"upload, aligned", client.TensorSource{Shape: s, Address: t.source.Address()}},
		{"upload, unaligned", client.TensorSource{Shape: s, Address: t.source.Address() + 12}},
		{"upload, transposed", client.TensorSource{Shape: shape.Make(dtype.F32, rows, columns), Address: t.source.Address(), ByteStrides: []int64{4, 4 * rows}}},
		{"upload, half of the columns", client.TensorSource{Shape: shape.Make(dtype.F32, rows, columns), Address: t.source.Address(), ByteStrides: []int64{8 * columns, 4}}},
	} {
		var d client.Data
		t.add(form.name, "copy to warm memory", func() { d = t.upload(form.source) }, func() { d.Close() })
	}
	var own *pjrt.Buffer
	done := make(chan struct{}, 1)
	t.add("upload by the plugin itself", "copy to warm memory", func() {
		host := pjrt.Host{Address: t.source.Address(), Dtype: dtype.U8, Dims: s.Dims}
		own = check[*pjrt.Buffer](b)(t.plugin.FromHost(host, t.plugin.AddressableDevices()[0], func() { done <- struct{}{} }))
		<-done
		if err := own.Await(); err != nil {
			b.Fatal(err)
		}
	}, func() { own.Destroy() })

	t.add("read to a literal", "copy to fresh memory", func() { check[[]client.Literal](b)(c.TransferFromDevice([]client.Data{t.data})) }, nil)
	into := func(memory func() []byte) func() {
		return func() {
			if err := c.TransferFromDeviceInto(t.data, memory()); err != nil {
				b.Fatal(err)
			}
		}
	}
	t.add("read to fresh memory", "copy to fresh memory", into(func() []byte { return fresh }), remap)
	t.add("read to warm memory", "copy to warm memory", into(func() []byte { return t.warm.Bytes[:size] }), nil)
	t.add("read by the plugin itself", "copy to fresh memory", func() {
		if err := t.buffer.ToHost(fresh, 1); err != nil {
			b.Fatal(err)
		}
	}, remap)
	return t
}

// upload waits until the source may change.
func (t *transfers) upload(source client.TensorSource) client.Data {
	released := make(chan struct{})
	source.Device, source.Release = t.client.GetDefaultDevice(), func() { close(released) }
	d := check[[]client.Data](t.b)(t.client.TransferToDevice([]client.TensorSource{source}))
	<-released
	return d[0]
}

func (t *transfers) add(name, against string, move, after func()) {
	t.ways = append(t.ways, &way{name: name, against: against, move: move, after: after})
}

func (t *transfers) measure(rounds int) {
	repeats := int(min(max(64<<20/t.size, 1), 200))
	for round := range rounds + 1 {
		for _, w := range t.ways {
			var spent time.Duration
			for range repeats {
				start := time.Now()
				w.move()
				spent += time.Since(start)
				if w.after != nil {
					w.after()
				}
			}
			if round > 0 { // the first warms up
				w.seconds = append(w.seconds, spent.Seconds()/float64(repeats))
			}
		}
	}
}

func (t *transfers) report(b *testing.B) {
	var table strings.Builder
	for _, w := range t.ways {
		fmt.Fprintf(&table, "\n%-28s %10.1f us", w.name, 1e6*median(w.seconds))
		if w.against == "" {
			continue
		}
		other := t.ways[slices.IndexFunc(t.ways, func(o *way) bool { return o.name == w.against })]
		ratios := make([]float64, len(w.seconds))
		for i := range ratios {
			ratios[i] = other.seconds[i] / w.seconds[i]
		}
		fmt.Fprintf(&table, "   %5.2f (%.2f to %.2f) of a %s", median(ratios), slices.Min(ratios), slices.Max(ratios), w.against)
		b.ReportMetric(median(ratios), strings.NewReplacer(", ", "-", " ", "-").Replace(w.name))
	}
	fmt.Println(table.String())
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func (t *transfers) close() {
	t.data.Close()
	t.buffer.Destroy()
	for _, m := range []*pjrt.HostMemory{t.source, t.warm, t.fresh} {
		m.Free()
	}
	if err := t.plugin.Close(); err != nil {
		t.b.Error(err)
	}
}
