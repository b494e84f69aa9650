package pjrt

// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// ExecuteContext carries data from the caller of a run to its custom calls.
type ExecuteContext struct{ object }

// NewExecuteContext makes an empty context.
func (p *Plugin) NewExecuteContext() (*ExecuteContext, error) {
	args := C.PJRT_ExecuteContext_Create_Args{struct_size: C.S_PJRT_ExecuteContext_Create_Args}
	if err := p.call(C.FN_ExecuteContext_Create, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	x := new(ExecuteContext)
	hold(x, &x.object, p, unsafe.Pointer(args.context), func(h unsafe.Pointer) error {
		args := C.PJRT_ExecuteContext_Destroy_Args{struct_size: C.S_PJRT_ExecuteContext_Destroy_Args, context: (*C.PJRT_ExecuteContext)(h)}
		return p.call(C.FN_ExecuteContext_Destroy, unsafe.Pointer(&args))
	})
	return x, nil
}

// AddUserData gives the custom calls of a run an address under a type that RegisterType named. The
// memory must outlive the run. FFI extension.
func (x *ExecuteContext) AddUserData(typeID int64, address uintptr) error {
	h, err := x.get()
	if err != nil {
		return err
	}
	args := C.PJRT_FFI_UserData_Add_Args{struct_size: C.S_PJRT_FFI_UserData_Add_Args, context: (*C.PJRT_ExecuteContext)(h)}
	args.user_data.type_id = C.int64_t(typeID)
	*(*uintptr)(unsafe.Pointer(&args.user_data.data)) = address
	err = x.plugin.callExtension(C.XF_user_data_add, unsafe.Pointer(&args))
	runtime.KeepAlive(x)
	return err
}
