package pjrt

// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// Stream extension: the order of work with a queue outside of the plugin, for example a CUDA stream.

// Stream gives the stream on which the device shows to others that values are ready.
func (d *Device) Stream() (uintptr, error) {
	args := C.PJRT_Get_Stream_For_External_Ready_Events_Args{struct_size: C.S_PJRT_Get_Stream_For_External_Ready_Events_Args, device: d.handle}
	err := d.client.plugin.callExtension(C.XF_get_stream, unsafe.Pointer(&args))
	return uintptr(args.stream), err
}

// WaitOnStream makes what is queued on a stream from now on wait until the value is ready. Not blocking.
func (b *Buffer) WaitOnStream(stream uintptr) error {
	h, err := b.handle()
	if err != nil {
		return err
	}
	args := C.PJRT_Wait_Until_Buffer_Ready_On_Stream_Args{struct_size: C.S_PJRT_Wait_Until_Buffer_Ready_On_Stream_Args, stream: C.intptr_t(stream), buffer: h}
	err = b.client.plugin.callExtension(C.XF_wait_stream, unsafe.Pointer(&args))
	runtime.KeepAlive(b)
	return err
}
