package executor_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/fakeclient"
	"xla_go/gosrc/dtype"
	hloproto "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// interpret makes a program of the few operations on f32 that sums with arrays and scalars lower to.
func interpret(instance client.CompileInstance) (fakeclient.Program, error) {
	module := &hloproto.HloModuleProto{}
	if err := proto.Unmarshal(instance.HLO, module); err != nil {
		return fakeclient.Program{}, status.Errorf(status.InvalidArgument, "%v", err)
	}
	i := slices.IndexFunc(module.Computations, func(c *hloproto.HloComputationProto) bool { return c.Id == module.EntryComputationId })
	entry := module.Computations[i]
	p := fakeclient.Program{Run: func(arguments [][]byte) ([][]byte, error) { return evaluate(entry, arguments) }}
	for _, s := range entry.ProgramShape.Parameters {
		p.Parameters = append(p.Parameters, arrayOf(s))
	}
	p.Results = []shape.Shape{arrayOf(entry.ProgramShape.Result)}
	if tuple := entry.ProgramShape.Result.TupleShapes; len(tuple) > 0 {
		p.Results = nil
		for _, s := range tuple {
			p.Results = append(p.Results, arrayOf(s))
		}
	}
	for _, a := range module.InputOutputAlias.GetEntries() {
		p.Donors = append(p.Donors, int(a.ParameterNumber))
	}
	for _, d := range module.BufferDonor.GetEntries() {
		p.Donors = append(p.Donors, int(d.ParameterNumber))
	}
	return p, nil
}

// shapesOnly makes programs that compute nothing: what a step costs without its run.
func shapesOnly(instance client.CompileInstance) (fakeclient.Program, error) {
	module := &hloproto.HloModuleProto{}
	if err := proto.Unmarshal(instance.HLO, module); err != nil {
		return fakeclient.Program{}, status.Errorf(status.InvalidArgument, "%v", err)
	}
	var p fakeclient.Program
	parameters := module.HostProgramShape.Parameters
	if instance.ParameterIsTupledArguments {
		parameters = parameters[0].TupleShapes
	}
	for _, s := range parameters {
		p.Parameters = append(p.Parameters, arrayOf(s))
	}
	var results [][]byte
	for _, s := range module.HostProgramShape.Result.TupleShapes {
		p.Results = append(p.Results, arrayOf(s))
		results = append(results, make([]byte, arrayOf(s).ByteSize()))
	}
	p.Run = func([][]byte) ([][]byte, error) { return results, nil }
	return p, nil
}

func arrayOf(s *hloproto.ShapeProto) shape.Shape {
	return shape.Make(dtype.Dtype(s.ElementType), s.Dimensions...)
}

func evaluate(entry *hloproto.HloComputationProto, arguments [][]byte) ([][]byte, error) {
	values := map[int64][]byte{}
	for _, in := range entry.Instructions {
		var v []byte
		operand := func(i int) []byte { return values[in.OperandIds[i]] }
		switch in.Opcode {
		case "parameter":
			v = arguments[in.ParameterNumber]
		case "slice":
			d := in.SliceDimensions[0]
			v = operand(0)[4*d.Start : 4*d.Limit]
		case "reshape", "bitcast-convert":
			v = operand(0)
		case "broadcast":
			size := int(arrayOf(in.Shape).ByteSize())
			v = slices.Repeat(operand(0), size/len(operand(0)))
		case "add":
			x, y := operand(0), operand(1)
			for i := 0; i < len(x); i += 4 {
				sum := math.Float32frombits(binary.LittleEndian.Uint32(x[i:])) + math.Float32frombits(binary.LittleEndian.Uint32(y[i:]))
				v = binary.LittleEndian.AppendUint32(v, math.Float32bits(sum))
			}
		case "tuple":
			var list [][]byte
			for i := range in.OperandIds {
				list = append(list, operand(i))
			}
			return list, nil
		default:
			return nil, status.Errorf(status.Unimplemented, "the test knows no operation %s", in.Opcode)
		}
		values[in.Id] = v
	}
	return [][]byte{values[entry.RootId]}, nil
}

// faked is a fixture over a fake client, which has to have nothing in memory in the end.
type faked struct {
	*fixture
	client *fakeclient.Client
}

func startFake(t *testing.T) faked {
	c := fakeclient.New(1, interpret)
	t.Cleanup(func() { // after the roots are dropped
		if err := c.WaitDeviceOps(nil); err != nil {
			t.Error(err)
		}
		if values, _ := c.Live(); values != 0 {
			t.Errorf("%d values are left", values)
		}
	})
	return faked{startOn(t, c), c}
}

// wantCode looks for the error of a read, which has to be there each time.
func (f faked) wantCode(what string, err error, code status.Code) {
	f.Helper()
	if status.CodeOf(err) != code {
		f.Errorf("%s: %v, want %v", what, err, code)
	}
}

func (f faked) mustCut() {
	f.Helper()
	if err := f.cut(); err != nil {
		f.Fatal(err)
	}
}

const steps = 4

var failure = status.Errorf(status.DataLoss, "lost")

// everyStep runs a test for a failure of each of the steps.
func everyStep(t *testing.T, test func(f faked, k int)) {
	for k := 1; k <= steps; k++ {
		t.Run(fmt.Sprint(k), func(t *testing.T) { test(startFake(t), k) })
	}
}

// A compile that fails leaves the storages of its step as they were; its error is raised once, by the next cut. The
// steps before and after it are right, and the program is compiled anew when it is asked for again.
func TestCompileOfAnyStepFails(t *testing.T) {
	everyStep(t, func(f faked, k int) {
		f.client.FailAt(fakeclient.Compile, k, failure)
		for i := 1; i <= steps; i++ {
			x := f.root(make([]float32, i)...) // a shape, and so a program, of its own
			f.addScalar(x, x, 1)
			f.mustCut()
			f.device.WaitIdle()
			if i != k {
				f.expect(x, 1)
				continue
			}
			f.expect(x, 0)
			f.wantCode("the next cut", f.cut(), status.DataLoss)
			f.wantCode("the one after that", f.cut(), status.OK)
			f.addScalar(x, x, 5)
			f.mustCut()
			f.expect(x, 5)
		}
		if n := f.client.Count(fakeclient.Compile); n != steps+1 {
			f.Errorf("%d compiles, want %d", n, steps+1)
		}
	})
}

// A transfer of scalars that fails is like a compile that fails: the step is not run.
func TestTransferOfAnyStepFails(t *testing.T) {
	everyStep(t, func(f faked, k int) {
		x, y := f.root(0, 0), f.root(7)
		f.client.FailAt(fakeclient.Upload, k, failure)
		want := float32(0)
		for i := 1; i <= steps; i++ {
			f.addScalar(x, x, 1)
			f.mustCut()
			f.device.WaitIdle()
			if i != k {
				want++
				f.expect(x, want, want)
				continue
			}
			f.expect(x, want, want)
			f.wantCode("the next cut", f.cut(), status.DataLoss)
			f.wantCode("the one after that", f.cut(), status.OK)
		}
		f.expect(y, 7)
	})
}

// A run that fails, in its call or later, gives its error to each read of what it computes and of what is computed
// from that; everything else is right.
func TestAnyRunFails(t *testing.T) {
	for name, operation := range map[string]fakeclient.Operation{"in the call": fakeclient.Execute, "later": fakeclient.Result} {
		t.Run(name, func(t *testing.T) {
			everyStep(t, func(f faked, k int) {
				f.client.FailAt(operation, k, failure)
				x := f.root(1, 2)
				for i := 1; i <= steps; i++ {
					y, after := f.empty(), f.empty()
					f.addScalar(y, x, float64(i))
					f.mustCut()
					if i != k {
						f.expect(y, float32(1+i), float32(2+i))
						continue
					}
					f.addScalar(after, y, 1)
					f.mustCut()
					for range 2 {
						_, err := f.data(y)
						f.wantCode("the step that failed", err, status.DataLoss)
						_, err = f.data(after)
						f.wantCode("what is computed from it", err, status.DataLoss)
					}
					f.addScalar(y, x, 10) // overwritten, it has a value again
					f.mustCut()
					f.expect(y, 11, 12)
				}
				f.expect(x, 1, 2)
				for range 2 { // of the step that could not be launched for want of its argument
					if err := f.cut(); err != nil {
						f.wantCode("a later cut", err, status.DataLoss)
					}
				}
			})
		})
	}
}

// The results of a run that failed are computed one by one: a failure that has passed leaves nothing behind.
func TestPassingFailureOfARunWithSeveralResults(t *testing.T) {
	for name, operation := range map[string]fakeclient.Operation{"in the call": fakeclient.Execute, "later": fakeclient.Result} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t)
			x, y, z := f.root(1), f.root(2, 3), f.root(4, 5, 6)
			a, b, c := f.empty(), f.empty(), f.empty()
			f.addScalar(a, x, 1)
			f.addScalar(b, y, 1)
			f.addScalar(c, z, 1)
			f.client.FailAt(operation, 1, failure)
			f.client.FailAt(operation, 3, failure) // of the single ones the second
			f.mustCut()
			f.expect(a, 2)
			_, err := f.data(b)
			f.wantCode("the result that fails again", err, status.DataLoss)
			f.expect(c, 5, 6, 7)
			f.expect(y, 2, 3)
		})
	}
}

// A read that fails raises its error and does no harm to the value.
func TestReadFails(t *testing.T) {
	f := startFake(t)
	x := f.root(1, 2)
	f.addScalar(x, x, 1)
	f.mustCut()
	value, err := f.data(x)
	if err != nil {
		t.Fatal(err)
	}
	f.client.FailAt(fakeclient.Download, 1, failure)
	_, err = f.client.TransferFromDevice([]client.Data{value})
	f.wantCode("the read", err, status.DataLoss)
	f.expect(x, 2, 3)
}

// A cut only queues: it and the next ones return while nothing on the device has ended.
func TestCutReturnsBeforeTheRunEnds(t *testing.T) {
	f := startFake(t)
	x, y := f.root(0, 0), f.root(10)
	release := f.client.Hold()
	const queued = 8
	for range queued {
		f.addScalar(x, x, 1)
		f.mustCut()
	}
	other := f.empty()
	f.addScalar(other, y, 1)
	f.mustCut()
	for deadline := time.Now().Add(20 * time.Second); f.client.Count(fakeclient.Execute) < queued+1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d runs were queued while the first one goes on, want %d", f.client.Count(fakeclient.Execute), queued+1)
		}
	}
	w := f.wait(x)
	defer w.Close()
	if done, err := w.Poll(20 * time.Millisecond); done || err != nil {
		t.Errorf("a value of a run that goes on: done %v, %v", done, err)
	}
	release()
	f.expect(x, queued, queued)
	f.expect(other, 11)
	f.device.WaitIdle()
}

// Compiles take their time, on threads of their own: a step that is compiled runs meanwhile.
func TestSlowCompileHoldsNobodyUp(t *testing.T) {
	f := startFake(t)
	x, y := f.root(1), f.root(1, 2)
	f.addScalar(x, x, 1)
	f.mustCut()
	f.expect(x, 2)
	f.client.Delay(fakeclient.Compile, time.Second)
	begin := time.Now()
	f.addScalar(y, y, 1) // to be compiled
	f.mustCut()
	f.addScalar(x, x, 1)
	f.mustCut()
	f.expect(x, 3)
	if took := time.Since(begin); took > 900*time.Millisecond {
		t.Errorf("a compiled step took %v, so it waited for the compiler", took)
	}
	f.expect(y, 2, 3)
}
