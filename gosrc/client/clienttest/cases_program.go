package clienttest

import (
	"bytes"
	"math"
	"strings"
	"sync"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

func execute(t *T, c client.Client) {
	k := compile(t, c, addProgram(f32(2, 2)))
	if len(k.ParameterShapes()) != 2 || !k.ParameterShapes()[1].Equal(f32(2, 2)) || len(k.ResultShapes()) != 2 || !k.ResultShapes()[0].Equal(f32(2, 2)) {
		t.Errorf("shapes %v to %v", k.ParameterShapes(), k.ResultShapes())
	}
	if k.Name() != "add_multiply" || len(k.Devices()) != 1 {
		t.Errorf("computation %q on %v", k.Name(), k.Devices())
	}
	if _, err := k.MemoryInfo(); err != nil {
		wantCode(t, "MemoryInfo", err, status.Unimplemented)
	}
	x, y := upload(t, c, f32(2, 2), floats(1, 2, 3, 4)), upload(t, c, f32(2, 2), floats(10, 20, 30, 40))
	out := run(t, c, k, x, y)
	again := run(t, c, k, out[0], out[1]) // before anything was waited for
	k.Close()
	k.Close()
	wantFloats(t, "sum", read(t, c, out[0]), 11, 22, 33, 44)
	wantFloats(t, "product", read(t, c, out[1]), 10, 40, 90, 160)
	wantFloats(t, "sum of both", read(t, c, again[0]), 21, 62, 123, 204)
	if err := c.WaitDeviceOps(nil); err != nil {
		t.Error(err)
	}
	if !c.IsReady(out[0]) {
		t.Error("a value that was read is not ready")
	}
	closeAll(append(append(out, again...), x, y)...)
	_, err := c.ExecuteComputation(k, nil, c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true})
	wantCode(t, "execution of a closed computation", err, status.FailedPrecondition, "closed")
}

func executeBadInput(t *T, c client.Client) {
	k := compile(t, c, addProgram(f32(2)))
	defer k.Close()
	x, wrong, gone := upload(t, c, f32(2), floats(1, 2)), upload(t, c, f32(3), floats(1, 2, 3)), upload(t, c, f32(2), floats(1, 2))
	gone.Close()
	defer closeAll(x, wrong)
	device, explode := c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true}
	for _, test := range []struct {
		name      string
		arguments []client.Data
		device    string
		options   client.ExecuteOptions
		code      status.Code
		words     []string
	}{
		{"too few arguments", []client.Data{x}, device, explode, status.InvalidArgument, []string{"2 arguments", "got 1"}},
		{"wrong shape", []client.Data{x, wrong}, device, explode, status.InvalidArgument, []string{"argument 1", "f32[2]", "f32[3]"}},
		{"closed argument", []client.Data{gone, x}, device, explode, status.FailedPrecondition, []string{"argument 0", "closed"}},
		{"foreign data", []client.Data{x, nil}, device, explode, status.InvalidArgument, []string{"argument 1"}},
		{"unknown device", []client.Data{x, x}, "NONE:0", explode, status.InvalidArgument, []string{"NONE:0"}},
		{"root tuple kept", []client.Data{x, x}, device, client.ExecuteOptions{}, status.InvalidArgument, []string{"ExplodeTuple"}},
		{"kept argument that is none", []client.Data{x, x}, device, client.ExecuteOptions{ExplodeTuple: true, NonDonatable: []int{2}}, status.InvalidArgument, []string{"NonDonatable"}},
	} {
		_, err := c.ExecuteComputation(k, test.arguments, test.device, test.options)
		wantCode(t, test.name, err, test.code, test.words...)
	}
	closeAll(run(t, c, k, x, x)...) // nothing of it harmed the computation
}

// executeMany runs a program with more arguments and results than one block of buffers holds, from
// several goroutines.
func executeMany(t *T, c client.Client) {
	const n = 40
	p := NewProgram("many")
	var results []int64
	for range n {
		x := p.Parameter(f32(3), nil)
		results = append(results, p.Op("add", f32(3), x, x))
	}
	k := compile(t, c, p.Build(results...))
	defer k.Close()
	arguments := make([]client.Data, n)
	for i := range arguments {
		arguments[i] = upload(t, c, f32(3), floats(float32(i), 1, 2))
	}
	defer closeAll(arguments...)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20 {
				out, err := c.ExecuteComputation(k, arguments, c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true})
				if err != nil {
					t.Error(err)
					return
				}
				literals, err := c.TransferFromDevice([]client.Data{out[n-1]})
				if err != nil {
					t.Error(err)
				} else if got := asFloats(literals[0].Bytes); got[0] != 2*(n-1) || got[2] != 4 {
					t.Errorf("last result %v", got)
				}
				closeAll(out...)
			}
		})
	}
	group.Wait()
}

func donatingProgram() []byte {
	p := NewProgram("donating")
	x, y := p.Parameter(f32(1024), nil), p.Parameter(f32(1024), nil)
	p.Donate(0)
	return p.Build(p.Op("add", f32(1024), x, y))
}

func donation(t *T, c client.Client) {
	k := compile(t, c, donatingProgram())
	defer k.Close()
	x, y := upload(t, c, f32(1024), floats(make([]float32, 1024)...)), upload(t, c, f32(1024), floats(make([]float32, 1024)...))
	defer closeAll(x, y)
	out := run(t, c, k, x, y)
	defer closeAll(out...)
	if x.HasValue() {
		t.Error("a donated value is still there")
	}
	if !y.HasValue() {
		t.Error("a value that was not donated is gone")
	}
	_, err := x.Handle()
	wantCode(t, "Handle of a donated value", err, status.FailedPrecondition, "donated")
	_, err = c.TransferFromDevice([]client.Data{x})
	wantCode(t, "reading a donated value", err, status.FailedPrecondition, "donated")
	_, err = c.AcquireExternalReference(x)
	wantCode(t, "lending a donated value", err, status.FailedPrecondition, "donated")
	_, err = c.UnsafeBufferPointer(x)
	wantCode(t, "the address of a donated value", err, status.FailedPrecondition, "donated")
	_, err = c.ExecuteComputation(k, []client.Data{x, y}, c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true})
	wantCode(t, "using a donated value", err, status.FailedPrecondition, "argument 0", "donated")
	_ = read(t, c, out[0])
}

func nonDonatable(t *T, c client.Client) {
	k := compile(t, c, donatingProgram())
	defer k.Close()
	ones := make([]float32, 1024)
	for i := range ones {
		ones[i] = 1
	}
	x := upload(t, c, f32(1024), floats(ones...))
	out := must[[]client.Data](t)(c.ExecuteComputation(k, []client.Data{x, x}, c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true, NonDonatable: []int{0}}))
	if !x.HasValue() {
		t.Error("a value that was to be kept is gone")
	}
	wantFloats(t, "the kept value", read(t, c, x), ones...)
	if got := asFloats(read(t, c, out[0])); got[7] != 2 {
		t.Errorf("sum %v, want 2", got[7])
	}
	closeAll(append(out, x)...)
}

// lentValue donates a value whose memory is lent: the memory stays as it is until it is given back,
// whether the run refuses or makes a copy.
func lentValue(t *T, c client.Client) {
	k := compile(t, c, donatingProgram())
	defer k.Close()
	ones := make([]float32, 1024)
	for i := range ones {
		ones[i] = 1
	}
	x := upload(t, c, f32(1024), floats(ones...))
	y := upload(t, c, f32(1024), floats(ones...))
	defer closeAll(x, y)
	r := must[client.ExternalReference](t)(c.AcquireExternalReference(x))
	defer r.Release()
	out, err := c.ExecuteComputation(k, []client.Data{x, y}, c.GetDefaultDevice(), client.ExecuteOptions{ExplodeTuple: true})
	if err == nil {
		if got := asFloats(read(t, c, out[0])); got[7] != 2 {
			t.Errorf("sum %v, want 2", got[7])
		}
		if address := must[uintptr](t)(c.UnsafeBufferPointer(out[0])); address == r.Pointer {
			t.Error("the run has consumed memory that is lent")
		}
		closeAll(out...)
	}
	if r.HostAddressable {
		view := must[client.Data](t)(c.CreateViewOfExternalMemory(r.Pointer, f32(1024), c.GetDefaultDevice(), nil))
		wantFloats(t, "the lent memory", read(t, c, view), ones...)
		view.Close()
	}
}

func onReady(t *T, c client.Client) {
	k := compile(t, c, slowProgram(128, 40))
	defer k.Close()
	x := upload(t, c, f32(128, 128), make([]byte, 4*128*128))
	out := run(t, c, k, x)
	called := make(chan error, 2)
	for range 2 { // the second time the value is ready already
		if err := c.OnReadyCallback(out[0], func(err error) { called <- err }); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-called:
			if err != nil {
				t.Errorf("called back with %v", err)
			}
		case <-time.After(patience):
			t.Fatal("not called back")
		}
		if !c.IsReady(out[0]) {
			t.Error("called back, but not ready")
		}
	}
	// Closed while the callback is on its way: it still comes, once.
	more := run(t, c, k, x)
	if err := c.OnReadyCallback(more[0], func(err error) { called <- err }); err != nil {
		t.Fatal(err)
	}
	closeAll(more...)
	select {
	case <-called:
	case <-time.After(patience):
		t.Fatal("not called back after the data was closed")
	}
	closeAll(append(out, x)...)
}

func endOfRun(t *T, c client.Client) {
	k := compile(t, c, slowProgram(128, 40))
	defer k.Close()
	x := upload(t, c, f32(128, 128), make([]byte, 4*128*128))
	defer x.Close()
	ended := make(chan struct{}, 2)
	options := client.ExecuteOptions{ExplodeTuple: true, OnEnd: func() { ended <- struct{}{} }}
	out := must[[]client.Data](t)(c.ExecuteComputation(k, []client.Data{x}, c.GetDefaultDevice(), options))
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("not told of the run's end")
	}
	closeAll(out...)
	if _, err := c.ExecuteComputation(k, nil, c.GetDefaultDevice(), options); err == nil {
		t.Error("a run without its argument gave no error")
	}
	if err := c.WaitDeviceOps(nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		t.Error("told of an end twice, or of that of a run which has not begun")
	default:
	}
}

func serialization(t *T, c client.Client) {
	k := compile(t, c, addProgram(f32(2)))
	serialized, err := c.SerializeComputation(k)
	k.Close()
	_ = must[[]byte](t)(serialized, err)
	loaded := must[client.Computation](t)(c.DeserializeComputation(serialized, nil))
	if loaded.Name() != "add_multiply" || len(loaded.ParameterShapes()) != 2 || !loaded.ResultShapes()[1].Equal(f32(2)) {
		t.Errorf("loaded %q, %v to %v", loaded.Name(), loaded.ParameterShapes(), loaded.ResultShapes())
	}
	x := upload(t, c, f32(2), floats(3, 4))
	out := run(t, c, loaded, x, x)
	wantFloats(t, "product", read(t, c, out[1]), 9, 16)
	closeAll(append(out, x)...)
	loaded.Close()
	if _, err := c.DeserializeComputation(serialized[:len(serialized)/2], nil); err == nil {
		t.Error("half an executable was loaded")
	}
	_, err = c.DeserializeComputation([]byte("nonsense"), nil)
	wantCode(t, "loading nonsense", err, status.InvalidArgument)
}

func compileErrors(t *T, c client.Client) {
	device := c.GetDefaultDevice()
	p := NewProgram("bad")
	x := p.Parameter(f32(2), nil)
	for _, test := range []struct {
		name     string
		instance client.CompileInstance
	}{
		{"no program", client.CompileInstance{CompilationDevice: device}},
		{"not a protobuf", client.CompileInstance{HLO: []byte{0xff, 0xff, 0xff}, CompilationDevice: device}},
		{"wrong result shape", client.CompileInstance{HLO: p.Build(p.Op("add", f32(3), x, x)), CompilationDevice: device}},
		{"not StableHLO", client.CompileInstance{MLIR: []byte("module {"), CompilationDevice: device}},
		{"unknown device", client.CompileInstance{HLO: addProgram(f32(2)), CompilationDevice: "NONE:0"}},
		{"a device twice", client.CompileInstance{HLO: addProgram(f32(2)), Devices: []string{device, device}}},
	} {
		test.instance.Name = "the_program"
		list, err := c.Compile([]client.CompileInstance{test.instance})
		if err == nil {
			list[0].Close()
			t.Errorf("%s: compiled", test.name)
		} else if !strings.Contains(err.Error(), "the_program") {
			t.Errorf("%s: %v does not name the program", test.name, err)
		} else if len(status.MessageOf(err)) < 30 {
			t.Errorf("%s: %v says little", test.name, err)
		}
	}
}

const mlirProgram = `module @halves {
  func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %half = stablehlo.constant dense<5.0e-01> : tensor<2xf32>
    %y = stablehlo.multiply %x, %half : tensor<2xf32>
    return %y : tensor<2xf32>
  }
}`

func mlir(t *T, c client.Client) {
	device := c.GetDefaultDevice()
	k := must[[]client.Computation](t)(c.Compile([]client.CompileInstance{{MLIR: []byte(mlirProgram), CompilationDevice: device}}))[0]
	defer k.Close()
	if len(k.ResultShapes()) != 1 || !k.ResultShapes()[0].Equal(f32(2)) {
		t.Errorf("results %v", k.ResultShapes())
	}
	x := upload(t, c, f32(2), floats(3, 4))
	out := run(t, c, k, x)
	wantFloats(t, "halves", read(t, c, out[0]), 1.5, 2)
	closeAll(append(out, x)...)
}

func optimized(t *T, c client.Client) {
	k := compile(t, c, addProgram(f32(2)))
	defer k.Close()
	hlo := must[[]byte](t)(k.OptimizedHLO())
	if !bytes.Contains(hlo, []byte("add_multiply")) {
		t.Errorf("the optimized module of %d bytes does not hold the module's name", len(hlo))
	}
}

func environmentHash(t *T, c client.Client) {
	first := c.HashCompilationEnvironment()
	if first == [16]byte{} || first != c.HashCompilationEnvironment() {
		t.Error("the hash is empty or changes")
	}
	c.SetCustomCompileOptions(map[string]string{"xla_llvm_disable_expensive_passes": "true", "xla_backend_optimization_level": "1"})
	if c.HashCompilationEnvironment() == first {
		t.Error("compile options do not change the hash")
	}
	compile(t, c, addProgram(f32(2))).Close()
	c.SetCustomCompileOptions(nil)
	if c.HashCompilationEnvironment() != first {
		t.Error("the hash does not come back with the options")
	}
	c.SetCustomCompileOptions(map[string]string{"no_such_option": "1"})
	_, err := c.Compile([]client.CompileInstance{{HLO: addProgram(f32(2)), CompilationDevice: c.GetDefaultDevice()}})
	if err == nil || !strings.Contains(err.Error(), "no_such_option") {
		t.Errorf("an unknown compile option: %v", err)
	}
}

func nanIsKept(t *T, c client.Client) {
	p := NewProgram("extremes")
	x, y := p.Parameter(f32(2), nil), p.Parameter(f32(2), nil)
	k := compile(t, c, p.Build(p.Op("maximum", f32(2), x, y), p.Op("minimum", f32(2), x, y)))
	defer k.Close()
	nan := float32(math.NaN())
	a, b := upload(t, c, f32(2), floats(nan, 1)), upload(t, c, f32(2), floats(1, nan))
	out := run(t, c, k, a, b)
	for i, d := range out {
		for j, v := range asFloats(read(t, c, d)) {
			if v == v {
				t.Errorf("result %d, value %d is %v, want NaN", i, j, v)
			}
		}
	}
	closeAll(append(out, a, b)...)
}
