package pjrt

// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"

	"xla_go/gosrc/status"
)

// RegisterType gives a number to a type of data that ExecuteContext.AddUserData passes to custom
// calls. The data stays the caller's. FFI extension.
func (p *Plugin) RegisterType(name string) (int64, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	info := new(C.PJRT_FFI_Type_Info)
	pinner.Pin(info)
	args := C.PJRT_FFI_Type_Register_Args{struct_size: C.S_PJRT_FFI_Type_Register_Args, type_name: pinString(name, &pinner), type_name_size: C.size_t(len(name)), type_info: info}
	err := p.callExtension(C.XF_type_register, unsafe.Pointer(&args))
	return int64(args.type_id), err
}

// RegisterHandler makes a C function, an XLA FFI handler, answer the custom calls of a name on a
// platform ("Host", "CUDA", ...). traits are the interface's bits; 1 lets it be part of a command
// buffer. FFI extension.
func (p *Plugin) RegisterHandler(target, platform string, handler uintptr, traits int) error {
	if handler == 0 {
		return status.Errorf(status.InvalidArgument, "RegisterHandler(): expected the address of a handler for %q, got NULL", target)
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	args := C.PJRT_FFI_Register_Handler_Args{struct_size: C.S_PJRT_FFI_Register_Handler_Args, target_name: pinString(target, &pinner), target_name_size: C.size_t(len(target)),
		platform_name: pinString(platform, &pinner), platform_name_size: C.size_t(len(platform)), traits: C.int(traits)}
	*(*uintptr)(unsafe.Pointer(&args.handler)) = handler
	return p.callExtension(C.XF_register_handler, unsafe.Pointer(&args))
}

// CustomCall is a custom call of GPU plugins. APIVersion 1 is an XLA FFI handler with up to four
// stages, 0 an untyped function in Execute. Addresses are C functions, 0 for none.
type CustomCall struct {
	Name                                      string
	APIVersion                                int
	Instantiate, Prepare, Initialize, Execute uintptr
	Traits                                    int // the interface's bits; 1 lets it be part of a command buffer
}

// RegisterCustomCall registers it. GPU custom call extension.
// Unimplemented where there are traits and the plugin would not look at them.
func (p *Plugin) RegisterCustomCall(call CustomCall) error {
	if call.Traits != 0 && !bool(C.xg_custom_calls_have_traits(p.api)) {
		return status.Errorf(status.Unimplemented, "RegisterCustomCall(): the plugin %q knows no traits of custom calls: register %q without", p.path, call.Name)
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	args := C.PJRT_Gpu_Register_Custom_Call_Args{struct_size: C.S_PJRT_Gpu_Register_Custom_Call_Args, function_name: pinString(call.Name, &pinner), function_name_size: C.size_t(len(call.Name)), api_version: C.int(call.APIVersion), traits: C.uint32_t(call.Traits)}
	for _, f := range []struct {
		field   *unsafe.Pointer
		address uintptr
	}{{&args.handler_instantiate, call.Instantiate}, {&args.handler_prepare, call.Prepare}, {&args.handler_initialize, call.Initialize}, {&args.handler_execute, call.Execute}} {
		*(*uintptr)(unsafe.Pointer(f.field)) = f.address
	}
	return p.callExtension(C.XF_custom_call, unsafe.Pointer(&args))
}

// TritonKernel is what a plugin made of a Triton module.
type TritonKernel struct {
	Assembly    []byte
	SharedBytes int64  // dynamic shared memory that a launch must reserve
	Path        string // of the plugin's own file, "" for none
}

// CompileTriton compiles a Triton module (MLIR). arch is the compute capability, for example "9.0". Triton extension.
func (p *Plugin) CompileTriton(module []byte, arch string, warps, ctas, stages int) (TritonKernel, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	args := C.PJRT_Triton_Compile_Args{struct_size: C.S_PJRT_Triton_Compile_Args, module: pinBytes(module, &pinner), module_size: C.size_t(len(module)),
		arch_name: pinString(arch, &pinner), arch_name_size: C.size_t(len(arch)), num_warps: C.int(warps), num_ctas: C.int(ctas), num_stages: C.int(stages)}
	if err := p.callExtension(C.XF_compile, unsafe.Pointer(&args)); err != nil {
		return TritonKernel{}, err
	}
	return TritonKernel{copyBytes(args.out_asm, args.out_asm_size), int64(args.out_smem_bytes), goString(args.out_path, args.out_path_size)}, nil
}
