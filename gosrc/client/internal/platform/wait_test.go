package platform_test

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/clienttest"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/plugintest"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt/testplugin"
)

// threads counts the OS threads of this process.
func threads(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(tasks)
}

// However many wait for the device, in callbacks or in calls, few OS threads do.
func TestWaitingHoldsFewThreads(t *testing.T) {
	for name, construct := range bothClients {
		t.Run(name, func(t *testing.T) { waitingHoldsFewThreads(t, construct) })
	}
	plugintest.WantNothingAlive(t)
}

func waitingHoldsFewThreads(t *testing.T, construct plugintest.Construct) {
	const values, readers, most = 1000, 300, 60
	c, err := construct(platform.Options{PluginPath: testplugin.Build(t), CreateOptions: map[string]any{"delay_ms": 3000, "fail_result": int64(status.Aborted)}})
	if err != nil {
		t.Fatal(err)
	}
	device := c.GetDefaultDevice()
	s := shape.Make(dtype.U8, 8)
	p := clienttest.NewProgram("copies")
	compiled, err := c.Compile([]client.CompileInstance{{HLO: p.Build(p.Parameter(s, nil)), CompilationDevice: device}})
	if err != nil {
		t.Fatal(err)
	}
	input, err := c.TransferToDevice([]client.TensorSource{{Shape: s, Device: device, Bytes: make([]byte, 8)}})
	if err != nil {
		t.Fatal(err)
	}
	before := threads(t)
	var called, read atomic.Int32
	var group sync.WaitGroup
	var list []client.Data
	for i := range values {
		out, err := c.ExecuteComputation(compiled[0], input, device, client.ExecuteOptions{ExplodeTuple: true})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, out[0])
		group.Add(1)
		if err := c.OnReadyCallback(out[0], func(err error) {
			if status.CodeOf(err) != status.Aborted {
				t.Errorf("called back with %v", err)
			}
			called.Add(1)
			group.Done()
		}); err != nil {
			t.Fatal(err)
		}
		if i >= readers {
			continue
		}
		group.Go(func() {
			var err error
			if i%3 == 0 {
				_, err = c.TransferFromDevice(out)
			} else if i%3 == 1 {
				_, err = c.AcquireExternalReference(out[0])
			} else {
				_, err = c.UnsafeBufferPointer(out[0])
			}
			if status.CodeOf(err) != status.Aborted {
				t.Errorf("reading gives %v", err)
			}
			read.Add(1)
		})
	}
	time.Sleep(200 * time.Millisecond) // until the readers wait
	now := threads(t)
	if called.Load() != 0 || read.Load() != 0 {
		t.Fatalf("%d callbacks and %d reads are over already: the test measures nothing", called.Load(), read.Load())
	}
	if more := now - before; more > most {
		t.Errorf("%d more threads for %d callbacks and %d reads, want at most %d", more, values, readers, most)
	}
	group.Wait()
	if called.Load() != values || read.Load() != readers {
		t.Errorf("%d callbacks and %d reads, want %d and %d", called.Load(), read.Load(), values, readers)
	}
	for _, d := range append(list, input...) {
		d.Close()
	}
	compiled[0].Close()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
