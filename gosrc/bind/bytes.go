package bind

import "xla_go/gosrc/dispatch"

// byteResults are results that hold bytes of any value, which cannot cross as text. Python takes each
// one by TakeBytes.
var byteResults = dispatch.NewHandles[[]byte]("bytes")

// BytesLength gives the number of bytes of a result that holds bytes.
func BytesLength(handle int64) (length int64, err error) {
	defer guard(&err)
	b, err := byteResults.Get(handle)
	return int64(len(b)), err
}

// TakeBytes copies such a result to address, which has room for all of it, and closes the handle.
func TakeBytes(handle, address int64) (length int64, err error) {
	defer guard(&err)
	if _, err := byteResults.Get(handle); err != nil {
		return 0, err
	}
	b, _ := byteResults.Remove(handle)
	dispatch.CopyTo(uintptr(address), b)
	return int64(len(b)), nil
}
