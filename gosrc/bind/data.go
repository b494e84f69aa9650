package bind

import (
	"xla_go/gosrc/client"
	"xla_go/gosrc/client/current"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// shapeOf makes an array's shape of what Python says.
func shapeOf(function, element string, dims []int64) (shape.Shape, error) {
	d, ok := dispatch.ElementTypes[element]
	if !ok {
		return shape.Shape{}, status.Errorf(status.InvalidArgument, "%s(): expected an element type as HLO spells it (f32, s64, pred, ...), got %q", function, element)
	}
	for _, n := range dims {
		if n < 0 {
			return shape.Shape{}, status.Errorf(status.InvalidArgument, "%s(): expected dimensions of at least 0, got %v", function, dims)
		}
	}
	return shape.Make(d, dims...), nil
}

// Upload copies an array to a device ("" is the default device) and gives its handle, to be closed with
// dispatch.CloseData. Its first element lies at address; strides are bytes per dimension, "" for a dense
// row-major array. The memory may be changed or freed once Upload returns. element is the type in HLO's notation
// ("f32", "pred"); dimensions and strides are numbers with commas between them, "" for a scalar. BLOCKING until
// the memory has been copied.
func Upload(address int64, element, dimensions, strides, device string) (handle int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	dims, err := integers("Upload", "dimensions", dimensions)
	if err != nil {
		return 0, err
	}
	s, err := shapeOf("Upload", element, dims)
	if err != nil {
		return 0, err
	}
	byteStrides, err := integers("Upload", "strides", strides)
	if err != nil {
		return 0, err
	}
	if device == "" {
		device = c.GetDefaultDevice()
	}
	source := client.TensorSource{Shape: s, Device: device}
	released := make(chan struct{})
	if address == 0 || s.ByteSize() == 0 {
		// Nothing to read; an empty array has no address.
		if s.ByteSize() != 0 {
			return 0, status.Errorf(status.InvalidArgument, "Upload(): expected the address of %d bytes, got 0", s.ByteSize())
		}
		source.Bytes = []byte{}
		close(released)
	} else {
		source.Address, source.ByteStrides = uintptr(address), byteStrides
		source.Release = func() { close(released) }
	}
	data, err := c.TransferToDevice([]client.TensorSource{source})
	if err != nil {
		return 0, err
	}
	<-released
	return dispatch.DataHandles.Add(data[0]), nil
}

// clientAndData gives the process's client and the open data that a handle stands for.
func clientAndData(handle int64) (client.Client, client.Data, error) {
	c, err := current.Get()
	if err != nil {
		return nil, nil, err
	}
	data, err := dispatch.DataHandles.Get(handle)
	return c, data, err
}

// CopyToDevice copies data to another device and gives the copy's handle. Not blocking.
func CopyToDevice(handle int64, device string) (copied int64, err error) {
	defer guard(&err)
	c, data, err := clientAndData(handle)
	if err != nil {
		return 0, err
	}
	result, err := c.CopyToDevice(data, device)
	if err != nil {
		return 0, err
	}
	if result == data {
		return handle, nil
	}
	return dispatch.DataHandles.Add(result), nil
}

// DataInfo describes data as a JSON object: element (as HLO spells it), dimensions, bytes, device, sharding
// (an OpSharding in base64, null where the data is not sharded) and has_value.
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
		"sharding": encodeSharding(data.Sharding()), "has_value": data.HasValue(),
	})
}

// IsReady says whether data can be read without waiting.
func IsReady(handle int64) (ready bool, err error) {
	defer guard(&err)
	c, data, err := clientAndData(handle)
	if err != nil {
		return false, err
	}
	return c.IsReady(data), nil
}

// Read copies the data's elements, dense and row-major, to address, which has room for length bytes.
// BLOCKING until the value exists: wait for it with ReadBegin and Wait first, so that signals are seen.
func Read(handle, address, length int64) (bytes int64, err error) {
	defer guard(&err)
	c, data, err := clientAndData(handle)
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

// Placeholder makes data without a value, to be filled by Assign. element and dimensions are as for Upload,
// sharding is an OpSharding in base64, "-" for none.
func Placeholder(element, dimensions, device, sharding string) (handle int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	dims, err := integers("Placeholder", "dimensions", dimensions)
	if err != nil {
		return 0, err
	}
	s, err := shapeOf("Placeholder", element, dims)
	if err != nil {
		return 0, err
	}
	var annotation *client.Sharding
	if sharding != "-" {
		if annotation, err = decodeSharding("Placeholder", &sharding); err != nil {
			return 0, err
		}
	}
	if device == "" {
		device = c.GetDefaultDevice()
	}
	data, err := c.CreateDataPlaceholder(device, s, annotation)
	if err != nil {
		return 0, err
	}
	return dispatch.DataHandles.Add(data), nil
}

// Assign makes a placeholder share the memory of other data of the same shape.
func Assign(placeholder, source int64) (ok bool, err error) {
	defer guard(&err)
	target, err := dispatch.DataHandles.Get(placeholder)
	if err != nil {
		return false, err
	}
	data, err := dispatch.DataHandles.Get(source)
	if err != nil {
		return false, err
	}
	err = target.Assign(data)
	return err == nil, err
}

// DataPointer gives the device address of data that is not sharded. BLOCKING until the value exists.
func DataPointer(handle int64) (address int64, err error) {
	defer guard(&err)
	c, data, err := clientAndData(handle)
	if err != nil {
		return 0, err
	}
	pointer, err := c.UnsafeBufferPointer(data)
	return int64(pointer), err
}

// AcquireReference lends the device memory of data that is not sharded and describes it as a JSON object: reference
// (a handle for dispatch.ReleaseReference), pointer, host_addressable, row_major, device. The memory lives until the
// reference is given back, whatever happens to the data. BLOCKING until the value exists.
func AcquireReference(handle int64) (text string, err error) {
	defer guard(&err)
	c, data, err := clientAndData(handle)
	if err != nil {
		return "", err
	}
	reference, err := c.AcquireExternalReference(data)
	if err != nil {
		return "", err
	}
	return encode(describeReference(reference))
}

// describeReference gives a reference its handle.
func describeReference(reference client.ExternalReference) map[string]any {
	return map[string]any{
		"reference": dispatch.ReferenceHandles.Add(reference), "pointer": reference.Pointer,
		"host_addressable": reference.HostAddressable, "row_major": reference.RowMajor, "device": reference.Device,
	}
}

// ReleaseReference gives lent memory back. Idempotent.
func ReleaseReference(reference int64) (ok bool, err error) {
	defer guard(&err)
	dispatch.ReleaseReference(reference)
	return true, nil
}

// LiveReferences counts the pieces of device memory that are lent to others.
func LiveReferences() int64 { return dispatch.ReferenceHandles.Count() }

// LiveData counts the data that Python holds by handle. Tensors are not among them.
func LiveData() int64 { return dispatch.DataHandles.Count() }
