package pjrtclient

import (
	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/program"
)

// ReshardData gives the data laid out by other shardings; data that has its sharding already is returned as
// it is. Elements move by a program that is compiled for the first value of a shape and pair of shardings;
// later ones are queued and not waited for. Data on one device are spread over all devices.
//
// Errors: InvalidArgument where a sharding says that each device has a value of its own (manual), or the
// target is none or unknown.
func (c *Client) ReshardData(list []client.Data, shardings []*client.Sharding) ([]client.Data, error) {
	return c.resharder.Reshard(placer{c}, c.Devices, list, shardings)
}

// placer is the client as program.Resharder needs it.
type placer struct{ *Client }

func (c placer) Check(d client.Data) error {
	_, err := c.own(d)
	return err
}

func (c placer) Place(d client.Data) (program.Placement, error) {
	mine, err := c.own(d)
	if err != nil {
		return program.Placement{}, err
	}
	m, err := mine.usable()
	if err != nil {
		return program.Placement{}, err
	}
	defer m.Release()
	return program.Placement{Annotation: mine.Sharding(), Devices: m.devices, Local: m.on()}, nil
}

func (c placer) Broadcast(d client.Data, source int, devices []*platform.Device) (client.Data, error) {
	mine, err := c.own(d)
	if err != nil {
		return nil, err
	}
	m, err := mine.Hold()
	if err != nil {
		return nil, err
	}
	defer m.Release()
	from := m
	if m.buffer == nil {
		from = m.shards[source]
	}
	whole := newWhole(devices, len(devices))
	for _, to := range devices {
		if to == from.device {
			from.Retain() // never fails while the whole is held
			whole.shards = append(whole.shards, from)
			continue
		}
		b, err := from.buffer.CopyTo(to.PJRT)
		if err != nil {
			whole.Release()
			return nil, platform.Exhausted(mine.explain(m, err), to)
		}
		to.Track(b)
		platform.CreateDataHandles.Add(1)
		copied := &memory{buffer: b, device: to}
		copied.footprint.Take(to, from.footprint.Bytes())
		copied.holders.First()
		whole.shards = append(whole.shards, copied)
	}
	return c.newSharded(whole, mine.Global, program.Replicated), nil
}

func (c placer) Relabel(d client.Data, annotation *client.Sharding) (client.Data, error) {
	mine, err := c.own(d)
	if err != nil {
		return nil, err
	}
	m, err := mine.Hold() // which goes to the result
	if err != nil {
		return nil, err
	}
	return c.newSharded(m, mine.Global, annotation), nil
}
