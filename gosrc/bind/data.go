package bind

import (
	"xla_go/gosrc/client"
	"xla_go/gosrc/client/current"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// elementTypes maps the names that HLO's notation uses.
var elementTypes = func() map[string]dtype.Dtype {
	types := map[string]dtype.Dtype{}
	for d := dtype.Bool; d <= dtype.F8E4M3FNUZ; d++ {
		if d.Size() > 0 {
			types[d.String()] = d
		}
	}
	return types
}()

// Upload copies an array to a device ("" is the default device) and gives its handle, to be closed with
// CloseData. The array lies at address, dense and row-major; the memory may be changed or freed
// once Upload returns. element is the type in HLO's notation ("f32", "pred"), dimensions are numbers
// with commas between them, "" for a scalar. BLOCKING until the memory has been copied.
func Upload(address int64, element, dimensions, device string) (handle int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	d, ok := elementTypes[element]
	if !ok {
		return 0, status.Errorf(status.InvalidArgument, "Upload(): expected an element type as HLO spells it (f32, s64, pred, ...), got %q", element)
	}
	dims, err := integers("Upload", "dimensions", dimensions)
	if err != nil {
		return 0, err
	}
	for _, n := range dims {
		if n < 0 {
			return 0, status.Errorf(status.InvalidArgument, "Upload(): expected dimensions of at least 0, got %q", dimensions)
		}
	}
	if device == "" {
		device = c.GetDefaultDevice()
	}
	source := client.TensorSource{Shape: shape.Make(d, dims...), Device: device}
	released := make(chan struct{})
	if address == 0 || source.Shape.ByteSize() == 0 {
		// Nothing to read; an empty array has no address.
		if source.Shape.ByteSize() != 0 {
			return 0, status.Errorf(status.InvalidArgument, "Upload(): expected the address of %d bytes, got 0", source.Shape.ByteSize())
		}
		source.Bytes = []byte{}
		close(released)
	} else {
		source.Address = uintptr(address)
		source.Release = func() { close(released) }
	}
	data, err := c.TransferToDevice([]client.TensorSource{source})
	if err != nil {
		return 0, err
	}
	<-released
	return dispatch.DataHandles.Add(data[0]), nil
}

// CopyToDevice copies data to another device and gives the copy's handle.
func CopyToDevice(handle int64, device string) (copied int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	data, err := dispatch.DataHandles.Get(handle)
	if err != nil {
		return 0, err
	}
	result, err := c.CopyToDevice(data, device)
	if err != nil {
		return 0, err
	}
	return dispatch.DataHandles.Add(result), nil
}

// DataInfo describes data as a JSON object: element (as HLO spells it), dimensions, bytes, device.
func DataInfo(handle int64) (text string, err error) {
	defer guard(&err)
	data, err := dispatch.DataHandles.Get(handle)
	if err != nil {
		return "", err
	}
	s := data.Shape()
	dims := s.Dims
	if dims == nil {
		dims = []int64{}
	}
	return encode(map[string]any{
		"element": s.Dtype.String(), "dimensions": dims, "bytes": s.ByteSize(), "device": data.Device(),
	})
}

// IsReady says whether data can be read without waiting.
func IsReady(handle int64) (ready bool, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return false, err
	}
	data, err := dispatch.DataHandles.Get(handle)
	if err != nil {
		return false, err
	}
	return c.IsReady(data), nil
}

// Read copies the data's elements, dense and row-major, to address, which has room for length bytes.
// BLOCKING until the value exists: wait for it with ReadBegin and Wait first, so that signals are seen.
func Read(handle, address, length int64) (bytes int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	data, err := dispatch.DataHandles.Get(handle)
	if err != nil {
		return 0, err
	}
	if need := data.Shape().ByteSize(); need != length {
		return 0, status.Errorf(status.InvalidArgument, "Read(): expected room for %d bytes, the size of %s, got %d", need, data.Shape(), length)
	}
	if err := c.TransferFromDeviceInto(data, dispatch.Memory(uintptr(address), int(length))); err != nil {
		return 0, err
	}
	return length, nil
}

// LiveData counts the data that Python holds by handle. Tensors are not among them.
func LiveData() int64 { return dispatch.DataHandles.Count() }
