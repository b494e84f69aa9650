package testplugin

// #cgo LDFLAGS: -ldl
// #include <dlfcn.h>
// #include <stdlib.h>
import "C"

import (
	"testing"
	"unsafe"
)

// Symbol loads a library, which stays loaded for the process's life, and gives the address of one of its
// functions.
func Symbol(t testing.TB, library, name string) uintptr {
	t.Helper()
	path, symbol := C.CString(library), C.CString(name)
	defer C.free(unsafe.Pointer(path))
	defer C.free(unsafe.Pointer(symbol))
	handle := C.dlopen(path, C.RTLD_NOW)
	if handle == nil {
		t.Fatalf("%s: %s", library, C.GoString(C.dlerror()))
	}
	address := C.dlsym(handle, symbol)
	if address == nil {
		t.Fatalf("%s has no function %s", library, name)
	}
	return uintptr(address)
}
