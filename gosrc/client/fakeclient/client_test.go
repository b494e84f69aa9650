package fakeclient_test

import (
	"slices"
	"testing"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/clienttest"
	"xla_go/gosrc/client/fakeclient"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// The cases of the conformance suite that need no compiler and no plugin.
func TestConformance(t *testing.T) {
	var last *fakeclient.Client
	subject := &clienttest.Subject{
		New: func(map[string]any) (client.Client, error) { last = fakeclient.New(1, nil); return last, nil },
		Alive: func() map[string]int64 {
			if last == nil {
				return nil
			}
			values, programs := last.Live()
			return map[string]int64{"values": values, "programs": programs}
		},
	}
	passed := 0
	for _, c := range clienttest.Cases() {
		if !slices.Contains([]string{"TransferRoundTrip", "TransferEveryType", "AssignSharesMemory"}, c.Name) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if result := c.RunOn(subject); result.Outcome != clienttest.Pass {
				t.Errorf("%s: %s", result.Outcome, result.Text)
			} else {
				passed++
			}
		})
	}
	if passed != 3 {
		t.Errorf("%d cases passed, want 3", passed)
	}
}

var bytes4 = shape.Make(dtype.U8, 4)

// negate is a program that consumes its argument.
func negate(client.CompileInstance) (fakeclient.Program, error) {
	return fakeclient.Program{
		Parameters: []shape.Shape{bytes4}, Results: []shape.Shape{bytes4}, Donors: []int{0},
		Run: func(arguments [][]byte) ([][]byte, error) {
			result := slices.Clone(arguments[0])
			for i := range result {
				result[i] = -result[i]
			}
			return [][]byte{result}, nil
		},
	}, nil
}

type fake struct {
	*testing.T
	*fakeclient.Client
	program client.Computation
}

func start(t *testing.T) fake {
	c := fakeclient.New(2, negate)
	list, err := c.Compile([]client.CompileInstance{{Name: "negate", CompilationDevice: "FAKE:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		list[0].Close()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return fake{t, c, list[0]}
}

func (f fake) upload() client.Data {
	f.Helper()
	list, err := f.TransferToDevice([]client.TensorSource{{Shape: bytes4, Device: "FAKE:1", Bytes: []byte{1, 2, 3, 4}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(list[0].Close)
	return list[0]
}

func (f fake) run(x client.Data, kept ...int) (client.Data, error) {
	out, err := f.ExecuteComputation(f.program, []client.Data{x}, "FAKE:1", client.ExecuteOptions{ExplodeTuple: true, NonDonatable: kept})
	if err != nil {
		return nil, err
	}
	f.Cleanup(out[0].Close)
	return out[0], nil
}

func TestRunsAreAsynchronousAndDonate(t *testing.T) {
	f := start(t)
	x := f.upload()
	release := f.Hold()
	first, err := f.run(x, 0)
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.run(first)
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan error, 1)
	if err := f.OnReadyCallback(second, func(err error) { called <- err }); err != nil {
		t.Fatal(err)
	}
	if f.IsReady(second) || len(called) != 0 {
		t.Error("ready while the run is held up")
	}
	if !x.HasValue() || first.HasValue() {
		t.Errorf("kept %v and donated %v, want true and false", x.HasValue(), first.HasValue())
	}
	_, err = f.TransferFromDevice([]client.Data{first})
	if status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("reading a donated value: %v", err)
	}
	release()
	if err := <-called; err != nil || !f.IsReady(second) {
		t.Errorf("called back with %v, ready %v", err, f.IsReady(second))
	}
	got, err := f.TransferFromDevice([]client.Data{second})
	if err != nil || !slices.Equal(got[0].Bytes, []byte{1, 2, 3, 4}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestEachOperationFailsWhenAsked(t *testing.T) {
	f := start(t)
	x := f.upload()
	failure := status.Errorf(status.Aborted, "words of the test")
	do := map[fakeclient.Operation]func() error{
		fakeclient.Compile: func() error {
			list, err := f.Compile([]client.CompileInstance{{CompilationDevice: "FAKE:0"}})
			for _, k := range list {
				k.Close()
			}
			return err
		},
		fakeclient.Execute: func() error { _, err := f.run(x, 0); return err },
		fakeclient.Result: func() error {
			d, err := f.run(x, 0)
			if err == nil {
				_, err = f.TransferFromDevice([]client.Data{d})
			}
			return err
		},
		fakeclient.Upload: func() error {
			list, err := f.TransferToDevice([]client.TensorSource{{Shape: bytes4, Device: "FAKE:0", Bytes: make([]byte, 4)}})
			for _, d := range list {
				d.Close()
			}
			return err
		},
		fakeclient.Download: func() error { _, err := f.TransferFromDevice([]client.Data{x}); return err },
	}
	for operation, call := range do {
		f.FailAt(operation, 2, failure)
		f.Delay(operation, 20*time.Millisecond)
		begin := time.Now()
		for i := 1; i <= 3; i++ {
			if err := call(); (status.CodeOf(err) == status.Aborted) != (i == 2) || i != 2 && err != nil {
				t.Errorf("operation %d, call %d: %v", operation, i, err)
			}
		}
		if took := time.Since(begin); took < 60*time.Millisecond {
			t.Errorf("operation %d: three calls took %v, want 60 ms", operation, took)
		}
		f.Delay(operation, 0)
	}
}

func TestOpenDataKeepTheClient(t *testing.T) {
	f := start(t)
	x := f.upload()
	if err := f.Client.Close(); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("Close with open data: %v", err)
	}
	x.Close()
	if values, programs := f.Live(); values != 0 || programs != 1 {
		t.Errorf("%d values and %d programs, want 0 and 1", values, programs)
	}
}
