package pjrt

// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"

	"xla_go/gosrc/status"
)

// Program is a compiled program that is not loaded on devices: the C interface's executable. That of
// an Executable is valid until the Executable is destroyed.
type Program struct {
	object
	loaded *executablePair // whose part it is; nil where it stands alone
}

func (p *Plugin) newProgram(handle *C.PJRT_Executable) *Program {
	program := new(Program)
	hold(program, &program.object, p, unsafe.Pointer(handle), func(h unsafe.Pointer) error {
		args := C.PJRT_Executable_Destroy_Args{struct_size: C.S_PJRT_Executable_Destroy_Args, executable: (*C.PJRT_Executable)(h)}
		return p.call(C.FN_Executable_Destroy, unsafe.Pointer(&args))
	})
	return program
}

// Program describes what was compiled. Destroying it does nothing.
func (e *Executable) Program() *Program {
	program := &Program{loaded: e.pair}
	hold(program, &program.object, e.client.plugin, unsafe.Pointer(e.pair.described), nil)
	return program
}

func (p *Program) program() (*C.PJRT_Executable, error) {
	if p.loaded != nil && p.loaded.destroyed.Load() {
		return nil, status.Errorf(status.FailedPrecondition, "the executable has been destroyed")
	}
	h, err := p.get()
	return (*C.PJRT_Executable)(h), err
}

func pinProgram(operation string, program []byte, format string, pinner *runtime.Pinner) (*C.PJRT_Program, error) {
	if len(program) == 0 {
		return nil, status.Errorf(status.InvalidArgument, "%s: expected a program, got no bytes", operation)
	}
	p := &C.PJRT_Program{struct_size: C.S_PJRT_Program, format_size: C.size_t(len(format)), code_size: C.size_t(len(program))}
	p.format = pinString(format, pinner)
	p.code = pinBytes(program, pinner)
	pinner.Pin(p)
	return p, nil
}

// oneDevice is a CompileOptionsProto for one replica and one partition. Plugins end the process
// where there are none of them.
var oneDevice = []byte{3<<3 | 2, 4, 4 << 3, 1, 5 << 3, 1}

func compileOptions(options []byte) []byte {
	if len(options) == 0 {
		return oneDevice
	}
	return options
}

// Load loads a compiled program on the client's devices. options is a serialized
// CompileOptionsProto. BLOCKING.
func (c *Client) Load(program *Program, options []byte) (*Executable, error) {
	h, err := program.program()
	if err != nil {
		return nil, err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	args := C.PJRT_Client_Load_Args{struct_size: C.S_PJRT_Client_Load_Args, client: c.handle, executable: h, compile_options: pinBytes(options, &pinner), compile_options_size: C.size_t(len(options))}
	err = c.plugin.call(C.FN_Client_Load, unsafe.Pointer(&args))
	runtime.KeepAlive(program)
	if err != nil {
		return nil, err
	}
	return c.newExecutable(args.loaded_executable)
}

// NumReplicas is the number of replicas that it was compiled for.
func (p *Program) NumReplicas() (int, error) {
	h, err := p.program()
	if err != nil {
		return 0, err
	}
	args := C.PJRT_Executable_NumReplicas_Args{struct_size: C.S_PJRT_Executable_NumReplicas_Args, executable: h}
	err = p.plugin.call(C.FN_Executable_NumReplicas, unsafe.Pointer(&args))
	runtime.KeepAlive(p)
	return int(args.num_replicas), err
}

// NumPartitions is the number of partitions that it was compiled for.
func (p *Program) NumPartitions() (int, error) {
	h, err := p.program()
	if err != nil {
		return 0, err
	}
	args := C.PJRT_Executable_NumPartitions_Args{struct_size: C.S_PJRT_Executable_NumPartitions_Args, executable: h}
	err = p.plugin.call(C.FN_Executable_NumPartitions, unsafe.Pointer(&args))
	runtime.KeepAlive(p)
	return int(args.num_partitions), err
}

// CodeSize is the bytes of generated code.
func (p *Program) CodeSize() (int64, error) {
	h, err := p.program()
	if err != nil {
		return 0, err
	}
	args := C.PJRT_Executable_SizeOfGeneratedCodeInBytes_Args{struct_size: C.S_PJRT_Executable_SizeOfGeneratedCodeInBytes_Args, executable: h}
	err = p.plugin.call(C.FN_Executable_SizeOfGeneratedCodeInBytes, unsafe.Pointer(&args))
	runtime.KeepAlive(p)
	return int64(args.size_in_bytes), err
}

// CostAnalysis is the plugin's estimate by name, for example "flops" or "bytes accessed".
func (p *Program) CostAnalysis() (map[string]any, error) {
	h, err := p.program()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(p)
	args := C.PJRT_Executable_GetCostAnalysis_Args{struct_size: C.S_PJRT_Executable_GetCostAnalysis_Args, executable: h}
	if err := p.plugin.call(C.FN_Executable_GetCostAnalysis, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return namedValues(args.properties, args.num_properties), nil
}

// OutputMemoryKinds names the memory that each result lies in.
func (p *Program) OutputMemoryKinds() ([]string, error) {
	h, err := p.program()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(p)
	args := C.PJRT_Executable_OutputMemoryKinds_Args{struct_size: C.S_PJRT_Executable_OutputMemoryKinds_Args, executable: h}
	if err := p.plugin.call(C.FN_Executable_OutputMemoryKinds, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return copyStrings(args.memory_kinds, args.memory_kind_sizes, args.num_outputs), nil
}

// ParameterMemoryKinds names the memory that each parameter has to lie in.
func (p *Program) ParameterMemoryKinds() ([]string, error) {
	h, err := p.program()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(p)
	args := C.PJRT_Executable_ParameterMemoryKinds_Args{struct_size: C.S_PJRT_Executable_ParameterMemoryKinds_Args, executable: h}
	if err := p.plugin.call(C.FN_Executable_ParameterMemoryKinds, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return copyStrings(args.memory_kinds, args.memory_kind_sizes, args.num_parameters), nil
}

// CompileOptions gives the serialized CompileOptionsProto that it was compiled with.
func (p *Program) CompileOptions() ([]byte, error) {
	h, err := p.program()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(p)
	args := C.PJRT_Executable_GetCompileOptions_Args{struct_size: C.S_PJRT_Executable_GetCompileOptions_Args, executable: h}
	if err := p.plugin.call(C.FN_Executable_GetCompileOptions, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	bytes := copyBytes(args.serialized_bytes, args.serialized_bytes_size)
	C.xg_delete(unsafe.Pointer(args.serialized_compile_options_deleter), unsafe.Pointer(args.serialized_compile_options))
	return bytes, nil
}

// Serialize gives the program in the plugin's own form, for DeserializeAndLoad.
func (p *Program) Serialize() ([]byte, error) {
	h, err := p.program()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(p)
	args := C.PJRT_Executable_Serialize_Args{struct_size: C.S_PJRT_Executable_Serialize_Args, executable: h}
	if err := p.plugin.call(C.FN_Executable_Serialize, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	bytes := copyBytes(args.serialized_bytes, args.serialized_bytes_size)
	C.xg_delete(unsafe.Pointer(args.serialized_executable_deleter), unsafe.Pointer(args.serialized_executable))
	return bytes, nil
}

// CompiledMemory is what a run of the program needs, in bytes. A field that the plugin does not know is 0.
type CompiledMemory struct {
	Code, Arguments, Outputs, Aliased, Temporary                     int64
	HostCode, HostArguments, HostOutputs, HostAliased, HostTemporary int64
	Peak, Total, TotalAllocated, IndefiniteAllocations, PeakUnpadded int64
}

// CompiledMemory asks the plugin for it.
func (p *Program) CompiledMemory() (CompiledMemory, error) {
	h, err := p.program()
	if err != nil {
		return CompiledMemory{}, err
	}
	// Room behind the struct: a newer plugin may fill fields that are not known here.
	var args struct {
		known C.PJRT_Executable_GetCompiledMemoryStats_Args
		room  [256]byte
	}
	a := &args.known
	a.struct_size, a.executable = C.S_PJRT_Executable_GetCompiledMemoryStats_Args, h
	err = p.plugin.call(C.FN_Executable_GetCompiledMemoryStats, unsafe.Pointer(&args))
	runtime.KeepAlive(p)
	if err != nil {
		return CompiledMemory{}, err
	}
	return CompiledMemory{
		Code: int64(a.generated_code_size_in_bytes), Arguments: int64(a.argument_size_in_bytes), Outputs: int64(a.output_size_in_bytes),
		Aliased: int64(a.alias_size_in_bytes), Temporary: int64(a.temp_size_in_bytes),
		HostCode: int64(a.host_generated_code_size_in_bytes), HostArguments: int64(a.host_argument_size_in_bytes), HostOutputs: int64(a.host_output_size_in_bytes),
		HostAliased: int64(a.host_alias_size_in_bytes), HostTemporary: int64(a.host_temp_size_in_bytes),
		Peak: int64(a.peak_memory_in_bytes), Total: int64(a.total_size_in_bytes), TotalAllocated: int64(a.total_allocation_bytes),
		IndefiniteAllocations: int64(a.indefinite_allocations), PeakUnpadded: int64(a.peak_unpadded_heap_bytes),
	}, nil
}

// ParameterShardings gives a serialized OpSharding for each parameter, nil where there are none.
// Shardings extension.
func (p *Program) ParameterShardings() ([]string, error) {
	h, err := p.program()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(p)
	args := C.PJRT_Shardings_PJRT_Executable_ParameterShardings_Args{struct_size: C.S_PJRT_Shardings_PJRT_Executable_ParameterShardings_Args, executable: h}
	if err := p.plugin.callExtension(C.XF_PJRT_Shardings_PJRT_Executable_ParameterShardings, unsafe.Pointer(&args)); err != nil || args.shardings == nil {
		return nil, err
	}
	return copyStrings(args.shardings, args.sharding_sizes, args.num_parameters), nil
}

// OutputShardings gives a serialized OpSharding for each result, nil where there are none. Shardings extension.
func (p *Program) OutputShardings() ([]string, error) {
	h, err := p.program()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(p)
	args := C.PJRT_Shardings_PJRT_Executable_OutputShardings_Args{struct_size: C.S_PJRT_Shardings_PJRT_Executable_OutputShardings_Args, executable: h}
	if err := p.plugin.callExtension(C.XF_PJRT_Shardings_PJRT_Executable_OutputShardings, unsafe.Pointer(&args)); err != nil || args.shardings == nil {
		return nil, err
	}
	return copyStrings(args.shardings, args.sharding_sizes, args.num_outputs), nil
}
