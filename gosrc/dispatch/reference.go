package dispatch

/*
static void call_release(void (*release)(void *), void *context) { release(context); }
typedef void (*release_function)(void *);
*/
import "C"

import (
	"unsafe"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/current"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// ReferenceHandles are the pieces of device memory that are lent to someone outside.
var ReferenceHandles = NewHandles[client.ExternalReference]("reference")

// ElementTypes maps the names that HLO's notation uses.
var ElementTypes = func() map[string]dtype.Dtype {
	types := map[string]dtype.Dtype{}
	for d := dtype.Bool; d <= dtype.F8E4M3FNUZ; d++ {
		if d.Size() > 0 {
			types[d.String()] = d
		}
	}
	return types
}()

// ReleaseReference gives lent memory back. Idempotent.
func ReleaseReference(handle int64) {
	if reference, ok := ReferenceHandles.Remove(handle); ok {
		reference.Release()
	}
}

//export xlaGoReleaseReference
func xlaGoReleaseReference(handle C.longlong) (failure *C.char) {
	defer panicText(&failure)
	ReleaseReference(int64(handle))
	return nil
}

//export xlaGoViewForeign
func xlaGoViewForeign(address C.longlong, element *C.char, dims *C.longlong, rank C.int, device *C.char, release C.release_function, context unsafe.Pointer, handle *C.longlong) (failure *C.char) {
	defer panicText(&failure)
	c, err := current.Get()
	if err != nil {
		return failureText(err)
	}
	d, ok := ElementTypes[C.GoString(element)]
	if !ok {
		return failureText(status.Errorf(status.InvalidArgument, "expected an element type as HLO spells it, got %q", C.GoString(element)))
	}
	s := shape.Make(d, append([]int64(nil), int64s(dims, rank)...)...)
	data, err := c.CreateViewOfExternalMemory(uintptr(address), s, C.GoString(device), func() { C.call_release(release, context) })
	if err != nil {
		return failureText(err)
	}
	*handle = C.longlong(DataHandles.Add(data))
	return nil
}
