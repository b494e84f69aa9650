package dispatch

import "unsafe"

// CopyFrom copies length bytes of the caller's memory at address.
func CopyFrom(address uintptr, length int) []byte {
	return append([]byte(nil), Memory(address, length)...)
}

// Memory gives length bytes of the caller's memory at address in the form of Go's. Not to be kept: it is the caller's.
func Memory(address uintptr, length int) []byte {
	if length == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(pointer(address)), length)
}

// CopyTo copies data to the caller's memory at address, which has room for it.
func CopyTo(address uintptr, data []byte) {
	copy(Memory(address, len(data)), data)
}

// pointer reads an address as a pointer to memory that Go did not allocate. Written this way round
// because go vet takes a conversion from uintptr for one of a moving object.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
