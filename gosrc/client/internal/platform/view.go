package platform

import (
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

// View makes a buffer over memory owned outside, dense and row-major; release (may be nil) is called once
// when the buffer is gone. If it fails release is not called.
func (p *Platform) View(pointer uintptr, s shape.Shape, name string, release func()) (*pjrt.Buffer, *Device, error) {
	if err := p.Enter(); err != nil {
		return nil, nil, err
	}
	defer p.Leave()
	on, err := p.Addressable(name)
	if err != nil {
		return nil, nil, err
	}
	if s.Dtype.PJRT() == 0 || s.Dtype.Size() == 0 {
		return nil, nil, status.Errorf(status.InvalidArgument, "expected an array, got shape %s", s)
	}
	if pointer == 0 {
		return nil, nil, status.Errorf(status.InvalidArgument, "expected an address, got 0")
	}
	b, err := p.PJRT.View(pointer, s.Dtype, s.Dims, on.PJRT, release)
	if err == nil {
		CreateDataHandles.Add(1)
	}
	return b, on, err
}
