package executor

import (
	"sync/atomic"

	"xla_go/gosrc/client"
)

// scalarPack holds scalars that are the same in each run of a recording, once they are on the device. The recording and each
// of its steps have a reference; the last one frees the device memory.
type scalarPack struct {
	bytes      []byte
	references atomic.Int32
	data       client.Data // set by the first launch: a device launches one step at a time
}

func newScalarPack(bytes []byte) *scalarPack {
	p := &scalarPack{bytes: bytes}
	return p.retain()
}

func (p *scalarPack) retain() *scalarPack {
	p.references.Add(1)
	return p
}

// onDevice gives the scalars as one array, which stays the pack's. Of the launch alone.
func (p *scalarPack) onDevice(d *Device) (client.Data, error) {
	if p.data == nil {
		data, err := d.uploadScalars(p.bytes)
		if err != nil {
			return nil, err
		}
		p.data = data
	}
	return p.data, nil
}

func (p *scalarPack) release() {
	if p.references.Add(-1) == 0 && p.data != nil {
		p.data.Close()
	}
}
