package platform

import (
	"xla_go/gosrc/client"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

// From these sizes an upload to host memory goes by memory of the pool. Below the first, the plugin's allocator has
// warm memory itself and its copy is cheaper by the callback; a strided source has to be packed in any case, and
// the pool saves the second copy.
const (
	pooledUpload       = 1 << 20
	pooledPackedUpload = 64 << 10
)

// asyncUpload is the size from which an upload goes on after the call where the source allows it.
// Below it a copy is cheaper than the callback.
const asyncUpload = 64 << 10

// UploadAll queues sources in order and gives each buffer to took. Each source's Release is called
// exactly once, also where the transfer fails; what took already has is its own to undo then.
func (p *Platform) UploadAll(sources []client.TensorSource, took func(i int, b *pjrt.Buffer, on *Device)) error {
	if err := p.Enter(); err != nil {
		releaseFrom(sources)
		return err
	}
	defer p.Leave()
	var bytes int64
	for i := range sources {
		b, on, err := p.upload(&sources[i])
		if err != nil {
			releaseFrom(sources[i+1:])
			return status.Annotate(err, "array %d (%s)", i, sources[i].Shape)
		}
		took(i, b, on)
		on.Track(b)
		bytes += sources[i].Shape.ByteSize()
	}
	CreateDataHandles.Add(int64(len(sources)))
	outboundData.Observe(float64(bytes))
	return nil
}

func releaseFrom(sources []client.TensorSource) {
	for i := range sources {
		if sources[i].Release != nil {
			sources[i].Release()
		}
	}
}

// upload queues one source; its Release is called once in every case.
func (p *Platform) upload(source *client.TensorSource) (b *pjrt.Buffer, on *Device, err error) {
	release := source.Release
	handedOver := false
	defer func() {
		if release != nil && !handedOver {
			release()
		}
	}()
	on, err = p.Addressable(source.Device)
	if err != nil {
		return nil, nil, err
	}
	host, dense, err := hostArray(source)
	if err != nil {
		return nil, nil, err
	}
	size, pooledFrom := source.Shape.ByteSize(), int64(pooledUpload)
	if !dense {
		pooledFrom = pooledPackedUpload
	}
	if p.OnHost && size >= pooledFrom {
		b, err := p.uploadPooled(host, size, on)
		return b, on, err
	}
	if !dense {
		packed, err := pjrt.Pack(host)
		if err != nil {
			return nil, nil, err
		}
		host = pjrt.Host{Bytes: packed, Dtype: host.Dtype, Dims: host.Dims}
	}
	var done func()
	if dense && release != nil && source.Address != 0 && size >= asyncUpload {
		done, handedOver = release, true
	}
	b, err = p.PJRT.FromHost(host, on.PJRT, done)
	if err != nil {
		handedOver = false // FromHost has not called done
		return nil, nil, err
	}
	return b, on, nil
}

// uploadPooled makes the one copy into memory that the buffer then has as its own, until it and every value that
// programs put in its place are gone.
func (p *Platform) uploadPooled(host pjrt.Host, size int64, on *Device) (*pjrt.Buffer, error) {
	memory, err := uploads.take(size)
	if err != nil {
		return nil, err
	}
	if err := pjrt.Copy(memory.Bytes[:size], host); err != nil {
		uploads.give(memory)
		return nil, err
	}
	packed := pjrt.Host{Address: memory.Address(), Dtype: host.Dtype, Dims: host.Dims}
	b, err := p.PJRT.FromHostTaken(packed, on.PJRT, func() { uploads.give(memory) })
	if err != nil {
		uploads.give(memory) // FromHostTaken has not called it
	}
	return b, err
}

// hostArray checks a source. dense is true where the bytes lie as the device wants them.
func hostArray(source *client.TensorSource) (host pjrt.Host, dense bool, err error) {
	s := source.Shape
	host = pjrt.Host{Bytes: source.Bytes, Address: source.Address, Dtype: s.Dtype, Dims: s.Dims, ByteStrides: source.ByteStrides}
	if s.Dtype.PJRT() == 0 || s.Dtype.Size() == 0 {
		return host, false, status.Errorf(status.InvalidArgument, "expected an array, got shape %s", s)
	}
	for _, d := range s.Dims {
		if d < 0 {
			return host, false, status.Errorf(status.InvalidArgument, "expected dimensions of 0 and more, got shape %s", s)
		}
	}
	if (source.Bytes != nil) == (source.Address != 0) && s.NumElements() != 0 {
		return host, false, status.Errorf(status.InvalidArgument, "expected either Bytes or Address, got %d bytes and address %#x", len(source.Bytes), source.Address)
	}
	if len(source.ByteStrides) == 0 || isDense(s, source.ByteStrides) {
		host.ByteStrides = nil
		if source.Address == 0 && int64(len(source.Bytes)) < s.ByteSize() {
			return host, false, status.Errorf(status.InvalidArgument, "expected %d bytes for shape %s, got %d", s.ByteSize(), s, len(source.Bytes))
		}
		return host, true, nil
	}
	return host, false, nil
}

// isDense says whether strides are those of a dense row-major array; strides of dimensions of
// size 1 do not matter.
func isDense(s shape.Shape, strides []int64) bool {
	if len(strides) != len(s.Dims) {
		return false
	}
	expected := s.Dtype.Size()
	for i := len(strides) - 1; i >= 0; i-- {
		if s.Dims[i] != 1 && strides[i] != expected {
			return s.NumElements() == 0
		}
		expected *= s.Dims[i]
	}
	return true
}
