package pjrt

// #include "extensions.h"
// #include "host_transfer.h"
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Program formats that plugins take.
const (
	FormatHLO  = "hlo"  // a serialized HloModuleProto
	FormatMLIR = "mlir" // StableHLO, text or bytecode
)

// Executable is a program compiled for and loaded on devices.
type Executable struct {
	client     *Client
	pair       *executablePair
	numOutputs int
	outputs    []shape.Shape
	devices    []*Device
	name       string
}

// executablePair holds the plugin's objects, apart from Executable so that the net can reach them.
type executablePair struct {
	client    *Client
	loaded    *C.PJRT_LoadedExecutable
	described *C.PJRT_Executable
	destroyed atomic.Bool
}

// Compile compiles a program. options is a serialized CompileOptionsProto, nil for one device. BLOCKING: compiler time.
func (c *Client) Compile(program []byte, format string, options []byte) (*Executable, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	p, err := pinProgram("Compile()", program, format, &pinner)
	if err != nil {
		return nil, err
	}
	options = compileOptions(options)
	args := C.PJRT_Client_Compile_Args{struct_size: C.S_PJRT_Client_Compile_Args, client: c.handle, program: p}
	args.compile_options, args.compile_options_size = pinBytes(options, &pinner), C.size_t(len(options))
	if err := c.plugin.call(C.FN_Client_Compile, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return c.newExecutable(args.executable)
}

// DeserializeAndLoad loads what Serialize gave. options is a serialized CompileOptionsProto that
// replaces the one inside, nil to keep that. BLOCKING.
func (c *Client) DeserializeAndLoad(serialized, options []byte) (*Executable, error) {
	if len(serialized) == 0 {
		return nil, status.Errorf(status.InvalidArgument, "DeserializeAndLoad(): expected a serialized executable, got no bytes")
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	args := C.PJRT_Executable_DeserializeAndLoad_Args{struct_size: C.S_PJRT_Executable_DeserializeAndLoad_Args, client: c.handle}
	args.serialized_executable, args.serialized_executable_size = pinBytes(serialized, &pinner), C.size_t(len(serialized))
	if len(options) > 0 {
		args.overridden_serialized_compile_options = pinBytes(options, &pinner)
		args.overridden_serialized_compile_options_size = C.size_t(len(options))
	}
	if err := c.plugin.call(C.FN_Executable_DeserializeAndLoad, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return c.newExecutable(args.loaded_executable)
}

func pinBytes(b []byte, pinner *runtime.Pinner) *C.char {
	if len(b) == 0 {
		return nil
	}
	pinner.Pin(&b[0])
	return (*C.char)(unsafe.Pointer(&b[0]))
}

func (c *Client) newExecutable(loaded *C.PJRT_LoadedExecutable) (*Executable, error) {
	liveExecutables.Add(1)
	c.executables.Add(1)
	pair := &executablePair{client: c, loaded: loaded}
	e := &Executable{client: c, pair: pair}
	runtime.AddCleanup(e, func(pair *executablePair) { pair.destroy() }, pair)
	if err := e.describe(); err != nil {
		e.Destroy()
		return nil, status.Annotate(err, "the compiled program cannot be described")
	}
	return e, nil
}

func (e *Executable) describe() error {
	p := e.client.plugin
	get := C.PJRT_LoadedExecutable_GetExecutable_Args{struct_size: C.S_PJRT_LoadedExecutable_GetExecutable_Args, loaded_executable: e.pair.loaded}
	if err := p.call(C.FN_LoadedExecutable_GetExecutable, unsafe.Pointer(&get)); err != nil {
		return err
	}
	e.pair.described = get.executable
	count := C.PJRT_Executable_NumOutputs_Args{struct_size: C.S_PJRT_Executable_NumOutputs_Args, executable: get.executable}
	if err := p.call(C.FN_Executable_NumOutputs, unsafe.Pointer(&count)); err != nil {
		return err
	}
	e.numOutputs = int(count.num_outputs)
	devices := C.PJRT_LoadedExecutable_AddressableDevices_Args{struct_size: C.S_PJRT_LoadedExecutable_AddressableDevices_Args, executable: e.pair.loaded}
	if err := p.call(C.FN_LoadedExecutable_AddressableDevices, unsafe.Pointer(&devices)); err != nil {
		return err
	}
	if devices.num_addressable_devices > 0 {
		for _, h := range unsafe.Slice(devices.addressable_devices, int(devices.num_addressable_devices)) {
			for _, d := range e.client.devices {
				if d.handle == h {
					e.devices = append(e.devices, d)
				}
			}
		}
	}
	name := C.PJRT_Executable_Name_Args{struct_size: C.S_PJRT_Executable_Name_Args, executable: get.executable}
	if err := p.call(C.FN_Executable_Name, unsafe.Pointer(&name)); err == nil {
		e.name = goString(name.executable_name, name.executable_name_size)
	}
	return e.describeOutputs()
}

// describeOutputs fills outputs; plugins that do not tell leave it nil.
func (e *Executable) describeOutputs() error {
	p := e.client.plugin
	types := C.PJRT_Executable_OutputElementTypes_Args{struct_size: C.S_PJRT_Executable_OutputElementTypes_Args, executable: e.pair.described}
	dims := C.PJRT_Executable_OutputDimensions_Args{struct_size: C.S_PJRT_Executable_OutputDimensions_Args, executable: e.pair.described}
	err := p.call(C.FN_Executable_OutputElementTypes, unsafe.Pointer(&types))
	if err == nil {
		err = p.call(C.FN_Executable_OutputDimensions, unsafe.Pointer(&dims))
	}
	if err != nil {
		if status.CodeOf(err) == status.Unimplemented {
			return nil
		}
		return err
	}
	if int(types.num_output_types) != e.numOutputs || int(dims.num_outputs) != e.numOutputs {
		return status.Errorf(status.Internal, "the plugin tells %d outputs, %d element types and %d shapes", e.numOutputs, types.num_output_types, dims.num_outputs)
	}
	if e.numOutputs == 0 {
		return nil
	}
	kinds := unsafe.Slice((*int32)(unsafe.Pointer(types.output_types)), e.numOutputs)
	ranks := unsafe.Slice((*uintptr)(unsafe.Pointer(dims.dim_sizes)), e.numOutputs)
	total := 0
	for _, r := range ranks {
		total += int(r)
	}
	sizes := copyInt64(dims.dims, C.size_t(total))
	e.outputs = make([]shape.Shape, e.numOutputs)
	for i, r := range ranks {
		e.outputs[i] = shape.Make(dtype.FromPJRT(kinds[i]), sizes[:r:r]...)
		sizes = sizes[r:]
	}
	return nil
}

func (pair *executablePair) destroy() error {
	if pair.destroyed.Swap(true) {
		return nil
	}
	p := pair.client.plugin
	var first error
	if pair.described != nil {
		args := C.PJRT_Executable_Destroy_Args{struct_size: C.S_PJRT_Executable_Destroy_Args, executable: pair.described}
		first = p.call(C.FN_Executable_Destroy, unsafe.Pointer(&args))
	}
	args := C.PJRT_LoadedExecutable_Destroy_Args{struct_size: C.S_PJRT_LoadedExecutable_Destroy_Args, executable: pair.loaded}
	if err := p.call(C.FN_LoadedExecutable_Destroy, unsafe.Pointer(&args)); first == nil {
		first = err
	}
	liveExecutables.Add(-1)
	pair.client.executables.Add(-1)
	return first
}

// Destroy frees the executable. Idempotent. Queued runs finish.
func (e *Executable) Destroy() error { return e.pair.destroy() }

// Name is the program's name.
func (e *Executable) Name() string { return e.name }

// NumOutputs is the number of results on each device.
func (e *Executable) NumOutputs() int { return e.numOutputs }

// OutputShapes are the results' shapes on each device, nil where the plugin does not tell.
func (e *Executable) OutputShapes() []shape.Shape { return e.outputs }

// AddressableDevices are the devices of this process that it runs on, in the order of execution.
func (e *Executable) AddressableDevices() []*Device { return e.devices }

// Run says how to execute. Arguments and Outputs are flat: those of the first device, then those
// of the next. Outputs is filled.
type Run struct {
	Arguments []*Buffer
	Outputs   []*Buffer
	// NumDevices is 1 or len(AddressableDevices()).
	NumDevices int
	// Device is where a program for one device of several runs; nil for where it was compiled to.
	Device *Device
	// LaunchID tells runs on several hosts apart.
	LaunchID int
	// Kept are arguments that this run must not consume although the program donates them.
	Kept []int64
	// Context carries data for custom calls; nil for none. It must outlive the run.
	Context *ExecuteContext
	// Sends and Receives are the program's transfers with the host, flat as Arguments are: in any order, as
	// their channels tell them apart.
	Sends    []Send
	Receives []Receive
}

type runScratch struct {
	words  []uintptr // arguments, then outputs
	events []*C.PJRT_Event
}

var runScratches = sync.Pool{New: func() any { return new(runScratch) }}

// Execute queues a run and fills run.Outputs with buffers that may not be ready. It gives an event
// for each device, which the caller destroys; an entry is nil where the device has already finished
// without an error, and so is the whole slice where all have. Not blocking. One crossing.
func (e *Executable) Execute(run Run) ([]*Event, error) {
	if run.NumDevices < 1 || len(run.Arguments)%run.NumDevices != 0 || len(run.Outputs) != run.NumDevices*e.numOutputs {
		return nil, status.Errorf(status.InvalidArgument, "Execute(): expected arguments for %d devices and %d outputs, got %d arguments and %d outputs",
			run.NumDevices, run.NumDevices*e.numOutputs, len(run.Arguments), len(run.Outputs))
	}
	if e.pair.destroyed.Load() {
		return nil, status.Errorf(status.FailedPrecondition, "Execute(): the executable has been destroyed")
	}
	s := runScratches.Get().(*runScratch)
	defer runScratches.Put(s)
	if n := len(run.Arguments) + len(run.Outputs) + 1; cap(s.words) < n {
		s.words = make([]uintptr, n+n/2)
	}
	if cap(s.events) < run.NumDevices {
		s.events = make([]*C.PJRT_Event, run.NumDevices)
	}
	words, events := s.words[:cap(s.words)], s.events[:run.NumDevices]
	for i, b := range run.Arguments {
		h := atomic.LoadPointer(&b.cell.handle)
		if h == nil {
			return nil, status.Errorf(status.FailedPrecondition, "Execute(): argument %d has been destroyed", i)
		}
		words[i] = uintptr(h)
	}
	outputs := words[len(run.Arguments):][:len(run.Outputs)+1]
	p := e.client.plugin
	var device *C.PJRT_Device
	if run.Device != nil {
		device = run.Device.handle
	}
	var context *C.PJRT_ExecuteContext
	if run.Context != nil {
		h, err := run.Context.get()
		if err != nil {
			return nil, status.Annotate(err, "Execute(): the execute context")
		}
		context = (*C.PJRT_ExecuteContext)(h)
	}
	var kept *C.int64_t
	if len(run.Kept) > 0 {
		kept = (*C.int64_t)(unsafe.Pointer(&run.Kept[0]))
	}
	var transfers *C.xg_host_transfers
	var ids []uintptr
	if len(run.Sends)+len(run.Receives) > 0 {
		pinner := new(runtime.Pinner)
		defer pinner.Unpin()
		var err error
		if transfers, ids, err = p.openTransfers(run.NumDevices, run.Sends, run.Receives, pinner); err != nil {
			return nil, err
		}
	}
	err := p.check(C.xg_execute(p.api, e.pair.loaded, (**C.PJRT_Buffer)(unsafe.Pointer(&words[0])), C.size_t(len(run.Arguments)/run.NumDevices),
		(**C.PJRT_Buffer)(unsafe.Pointer(&outputs[0])), C.size_t(e.numOutputs), C.size_t(run.NumDevices), device, C.int(run.LaunchID), kept, C.size_t(len(run.Kept)), context, transfers, &events[0]))
	runtime.KeepAlive(run.Arguments)
	runtime.KeepAlive(run.Context)
	runtime.KeepAlive(e)
	if err != nil {
		closeTransfers(ids)
		return nil, err
	}
	e.client.adopt(outputs[:len(run.Outputs)], run.Outputs)
	var pending []*Event
	for i, h := range events {
		if h != nil {
			if pending == nil {
				pending = make([]*Event, run.NumDevices)
			}
			pending[i] = p.newEvent(h)
			events[i] = nil
		}
	}
	if len(ids) > 0 {
		closeTransfersAfter(pending, ids)
	}
	return pending, nil
}

// OptimizedProgram gives the program after the compiler's passes and its format.
func (e *Executable) OptimizedProgram() (program []byte, format string, err error) {
	if e.pair.destroyed.Load() {
		return nil, "", status.Errorf(status.FailedPrecondition, "OptimizedProgram(): the executable has been destroyed")
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	p := &C.PJRT_Program{struct_size: C.S_PJRT_Program}
	pinner.Pin(p)
	args := C.PJRT_Executable_OptimizedProgram_Args{struct_size: C.S_PJRT_Executable_OptimizedProgram_Args, executable: e.pair.described, program: p}
	// Asked without memory it tells the size, and then it fills the memory.
	if err := e.client.plugin.call(C.FN_Executable_OptimizedProgram, unsafe.Pointer(&args)); err != nil {
		return nil, "", err
	}
	program = make([]byte, int(p.code_size))
	if len(program) > 0 {
		pinner.Pin(&program[0])
		p.code = (*C.char)(unsafe.Pointer(&program[0]))
		if err := e.client.plugin.call(C.FN_Executable_OptimizedProgram, unsafe.Pointer(&args)); err != nil {
			return nil, "", err
		}
	}
	runtime.KeepAlive(e)
	return program, goString(p.format, p.format_size), nil
}

// Serialize gives the executable in the plugin's own form.
func (e *Executable) Serialize() ([]byte, error) {
	if e.pair.destroyed.Load() {
		return nil, status.Errorf(status.FailedPrecondition, "Serialize(): the executable has been destroyed")
	}
	args := C.PJRT_Executable_Serialize_Args{struct_size: C.S_PJRT_Executable_Serialize_Args, executable: e.pair.described}
	if err := e.client.plugin.call(C.FN_Executable_Serialize, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	bytes := copyBytes(args.serialized_bytes, args.serialized_bytes_size)
	C.xg_delete(unsafe.Pointer(args.serialized_executable_deleter), unsafe.Pointer(args.serialized_executable))
	runtime.KeepAlive(e)
	return bytes, nil
}

// Fingerprint identifies the compiled program; Unimplemented where the plugin has none.
func (e *Executable) Fingerprint() (string, error) {
	if e.pair.destroyed.Load() {
		return "", status.Errorf(status.FailedPrecondition, "Fingerprint(): the executable has been destroyed")
	}
	args := C.PJRT_Executable_Fingerprint_Args{struct_size: C.S_PJRT_Executable_Fingerprint_Args, executable: e.pair.described}
	err := e.client.plugin.call(C.FN_Executable_Fingerprint, unsafe.Pointer(&args))
	if err != nil {
		return "", err
	}
	text := goString(args.executable_fingerprint, args.executable_fingerprint_size)
	runtime.KeepAlive(e)
	return text, nil
}

// MemoryText describes the executable's memory in bytes, a line for each sort.
func (e *Executable) MemoryText() (string, error) {
	if e.pair.destroyed.Load() {
		return "", status.Errorf(status.FailedPrecondition, "MemoryText(): the executable has been destroyed")
	}
	// Room behind the struct: a newer plugin may fill fields that are not known here.
	var args struct {
		known C.PJRT_Executable_GetCompiledMemoryStats_Args
		room  [256]byte
	}
	a := &args.known
	a.struct_size, a.executable = C.S_PJRT_Executable_GetCompiledMemoryStats_Args, e.pair.described
	if err := e.client.plugin.call(C.FN_Executable_GetCompiledMemoryStats, unsafe.Pointer(&args)); err != nil {
		return "", err
	}
	runtime.KeepAlive(e)
	var b strings.Builder
	for _, row := range []struct {
		name  string
		bytes C.int64_t
	}{
		{"generated code", a.generated_code_size_in_bytes}, {"arguments", a.argument_size_in_bytes},
		{"outputs", a.output_size_in_bytes}, {"aliased", a.alias_size_in_bytes}, {"temporary", a.temp_size_in_bytes},
		{"host generated code", a.host_generated_code_size_in_bytes}, {"host arguments", a.host_argument_size_in_bytes},
		{"host outputs", a.host_output_size_in_bytes}, {"host aliased", a.host_alias_size_in_bytes},
		{"host temporary", a.host_temp_size_in_bytes}, {"peak", a.peak_memory_in_bytes},
	} {
		fmt.Fprintf(&b, "%s: %d bytes\n", row.name, int64(row.bytes))
	}
	return b.String(), nil
}
