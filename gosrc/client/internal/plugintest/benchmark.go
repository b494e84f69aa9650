package plugintest

import (
	"fmt"
	"testing"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/clienttest"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

// sums is a program of n parameters whose results are each the parameter twice.
func sums(n int) []byte {
	p := clienttest.NewProgram(fmt.Sprintf("sums_%d", n))
	s := shape.Make(dtype.F32, 4)
	results := make([]int64, n)
	for i := range results {
		x := p.Parameter(s, nil)
		results[i] = p.Op("add", s, x, x)
	}
	return p.Build(results...)
}

// Benchmark makes the client of one device that a benchmark runs on and closes.
type Benchmark func(t testing.TB) client.Client

func (f Benchmark) program(b *testing.B, n int) (client.Client, client.Computation, []client.Data) {
	c := f(b)
	k, err := c.Compile([]client.CompileInstance{{HLO: sums(n), CompilationDevice: c.GetDefaultDevice()}})
	if err != nil {
		b.Fatal(err)
	}
	sources := make([]client.TensorSource, n)
	for i := range sources {
		sources[i] = client.TensorSource{Shape: shape.Make(dtype.F32, 4), Device: c.GetDefaultDevice(), Bytes: make([]byte, 16)}
	}
	arguments, err := c.TransferToDevice(sources)
	if err != nil {
		b.Fatal(err)
	}
	return c, k[0], arguments
}

func finish(b *testing.B, c client.Client, k client.Computation, arguments []client.Data) {
	b.StopTimer()
	for _, a := range arguments {
		a.Close()
	}
	k.Close()
	if err := c.Close(); err != nil {
		b.Error(err)
	}
}

// BenchmarkExecute is one run of a trivial program, its results closed at once.
func (f Benchmark) BenchmarkExecute(b *testing.B) {
	for _, n := range []int{1, 40, 400} {
		b.Run(fmt.Sprintf("arguments=%d", n), func(b *testing.B) {
			c, k, arguments := f.program(b, n)
			device, options := c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true}
			b.ReportAllocs()
			for b.Loop() {
				out, err := c.ExecuteComputation(k, arguments, device, options)
				if err != nil {
					b.Fatal(err)
				}
				for _, d := range out {
					d.Close()
				}
			}
			finish(b, c, k, arguments)
		})
	}
}

// BenchmarkReadReady is what a read by address of a value that is ready costs.
func (f Benchmark) BenchmarkReadReady(b *testing.B) {
	c, k, arguments := f.program(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if !c.IsReady(arguments[0]) {
			b.Fatal("not ready")
		}
		r, err := c.AcquireExternalReference(arguments[0])
		if err != nil {
			b.Fatal(err)
		}
		r.Release()
	}
	finish(b, c, k, arguments)
}

// BenchmarkTransferToDevice is a small upload, closed at once.
func (f Benchmark) BenchmarkTransferToDevice(b *testing.B) {
	c, k, arguments := f.program(b, 1)
	source := []client.TensorSource{{Shape: shape.Make(dtype.F32, 4), Device: c.GetDefaultDevice(), Bytes: make([]byte, 16)}}
	b.ReportAllocs()
	for b.Loop() {
		d, err := c.TransferToDevice(source)
		if err != nil {
			b.Fatal(err)
		}
		d[0].Close()
	}
	finish(b, c, k, arguments)
}

// BenchmarkTransferFromDevice is a small download of a value that is ready.
func (f Benchmark) BenchmarkTransferFromDevice(b *testing.B) {
	c, k, arguments := f.program(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.TransferFromDevice(arguments); err != nil {
			b.Fatal(err)
		}
	}
	finish(b, c, k, arguments)
}
