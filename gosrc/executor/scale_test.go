//go:build linux

package executor_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/fakeclient"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
)

// processorTime is what the calling thread has had of a processor: what other threads and processes do does not count.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// cutTime gives the least processor time of a cut whose program is known: of storages with a chain of operators each.
func cutTime(tb testing.TB, nodes int) time.Duration {
	tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	options := executor.DefaultOptions()
	options.NodeLimit = 0
	core := executor.NewCore(fakeclient.New(1, shapesOnly), options)
	device, err := core.Device(0)
	if err != nil {
		tb.Fatal(err)
	}
	const chain = 4 // each with a scalar of its own: 8 nodes, and one input
	roots := make([]executor.Root, nodes/(2*chain+1))
	for i := range roots {
		data, err := core.Client().TransferToDevice([]client.TensorSource{{Shape: shape.Make(dtype.F32, 2), Device: device.Name(), Bytes: make([]byte, 8)}})
		if err != nil {
			tb.Fatal(err)
		}
		roots[i].Init(device)
		core.Mu.Lock()
		roots[i].Set(core.Graph.Leaf(ir.NewBuffer(data[0]), dtype.F32, []int64{2}))
		core.Graph.EndCall()
		core.Mu.Unlock()
	}
	var times []time.Duration
	for step := range 12 {
		core.Mu.Lock()
		for i := range roots {
			for range chain {
				n := core.Graph.New(kindAdd, dtype.F32, []int64{2})
				n.AddOperand(roots[i].Value())
				n.AddOperand(core.Graph.Scalar(dtype.F32, 0))
				roots[i].Set(n)
				core.Graph.EndCall()
			}
		}
		begin := processorTime(tb)
		_, err := device.Cut("test")
		took := processorTime(tb) - begin
		core.Mu.Unlock()
		if err != nil {
			tb.Fatal(err)
		}
		device.WaitIdle()
		if step > 1 {
			times = append(times, took)
		}
	}
	core.Mu.Lock()
	for i := range roots {
		roots[i].Drop()
	}
	core.Mu.Unlock()
	return slices.Min(times)
}

// TestCutIsLinear: a cut's time for each node does not grow with the graph. The limit is wide, since other tests run
// beside this one; BenchmarkCut tells the figures.
func TestCutIsLinear(t *testing.T) {
	small, large := cutTime(t, 1_000), cutTime(t, 50_000)
	if perNode := float64(large) / 50 / float64(small); perNode > 8 {
		t.Errorf("a node of a graph of 50,000 costs %.1f times one of a graph of 1,000 (%v, %v)", perNode, large, small)
	}
}

func BenchmarkCut(b *testing.B) {
	for _, nodes := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("%d nodes", nodes), func(b *testing.B) {
			least := time.Duration(math.MaxInt64)
			for range b.N {
				least = min(least, cutTime(b, nodes))
			}
			b.ReportMetric(float64(least.Nanoseconds())/float64(nodes), "ns/node")
		})
	}
}
