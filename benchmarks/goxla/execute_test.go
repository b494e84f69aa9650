// Package goxla measures a run of a small program beside go-xla, on the same plugin in one process:
//
//	cd benchmarks/goxla && XLA_GO_TEST_PLUGIN=path go test -v
package goxla

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gomlx/go-xla/pjrt"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/selection"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

const (
	program = `
module @add {
  func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %z = stablehlo.add %x, %y : tensor<4xf32>
    return %z : tensor<4xf32>
  }
}
`
	rounds      = 101
	runsInRound = 500
	// The most that our time of queueing a run may be of go-xla's time, which has a wait in it.
	limit = 1.2
)

func plugin(t *testing.T) string {
	t.Helper()
	path := os.Getenv("XLA_GO_TEST_PLUGIN")
	if path == "" {
		t.Skip("XLA_GO_TEST_PLUGIN is not set")
	}
	return path
}

// ours gives a function that runs the program once, waiting for the result or not, and closes the result.
func ours(t *testing.T, path string, wait bool) func() error {
	t.Helper()
	c, err := selection.New(selection.Options{PluginPath: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	device := c.GetDefaultDevice()
	computations, err := c.Compile([]client.CompileInstance{{MLIR: []byte(program), CompilationDevice: device, Devices: []string{device}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(computations[0].Close)
	source := client.TensorSource{Shape: shape.Make(dtype.F32, 4), Device: device, Bytes: make([]byte, 16)}
	arguments, err := c.TransferToDevice([]client.TensorSource{source, source})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, a := range arguments {
			a.Close()
		}
	})
	options := client.ExecuteOptions{ExplodeTuple: true}
	return func() error {
		results, err := c.ExecuteComputation(computations[0], arguments, device, options)
		if err != nil {
			return err
		}
		defer results[0].Close()
		if wait {
			_, err = c.UnsafeBufferPointer(results[0])
		}
		return err
	}
}

// theirs is ours over go-xla, which always waits.
func theirs(t *testing.T, path string) func() error {
	t.Helper()
	// go-xla takes a library only by a name of this form.
	named := filepath.Join(t.TempDir(), "pjrt_c_api_cpu_plugin.so")
	if err := os.Symlink(path, named); err != nil {
		t.Fatal(err)
	}
	loaded, err := pjrt.GetPlugin(named)
	if err != nil {
		t.Fatal(err)
	}
	c, err := loaded.NewClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Destroy(); err != nil {
			t.Error(err)
		}
	})
	loaded.UseStableHLO = true
	executable, err := c.Compile().WithStableHLO([]byte(program)).Done()
	if err != nil {
		t.Fatal(err)
	}
	var arguments [2]*pjrt.Buffer
	for i := range arguments {
		if arguments[i], err = pjrt.ArrayToBuffer(c, make([]float32, 4), 4); err != nil {
			t.Fatal(err)
		}
	}
	return func() error {
		results, err := executable.Execute(arguments[0], arguments[1]).DonateNone().Done()
		if err != nil {
			return err
		}
		return results[0].Destroy()
	}
}

func round(t *testing.T, run func() error) float64 {
	t.Helper()
	start := time.Now()
	for range runsInRound {
		if err := run(); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(start).Seconds() / runsInRound * 1e6
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Rounds are interleaved, and a ratio is the median of the rounds' own ratios.
func TestExecuteBesideGoXLA(t *testing.T) {
	path := plugin(t)
	peer := theirs(t, path)
	for _, wait := range []bool{false, true} {
		run := ours(t, path, wait)
		var mine, others, ratios []float64
		for range rounds {
			a, b := round(t, run), round(t, peer)
			mine, others, ratios = append(mine, a), append(others, b), append(ratios, a/b)
		}
		t.Logf("waiting %v: %s us, go-xla, which waits, %s us; ratio %s", wait, summary(mine), summary(others), summary(ratios))
		if middle := median(ratios); !wait && middle > limit {
			t.Errorf("ratio %.2f, want at most %.1f", middle, limit)
		}
	}
}

func summary(values []float64) string {
	return fmt.Sprintf("%.2f (%.2f to %.2f)", median(values), slices.Min(values), slices.Max(values))
}
