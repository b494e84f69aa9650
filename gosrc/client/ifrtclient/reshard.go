package ifrtclient

import (
	"slices"

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
	a, err := mine.usable()
	if err != nil {
		return program.Placement{}, err
	}
	defer a.Release()
	return program.Placement{Annotation: a.sharding.annotation, Devices: a.sharding.devices.all, Local: a.sharding.devices.local}, nil
}

func (c placer) Broadcast(d client.Data, source int, devices []*platform.Device) (client.Data, error) {
	mine, a, err := c.holdOf(d)
	if err != nil {
		return nil, err
	}
	defer a.Release()
	from := a.shards[source]
	list := &deviceList{all: devices, local: devices, partitions: make([]int, len(devices))}
	shards := make([]*shard, 0, len(devices))
	for i, to := range devices {
		list.partitions[i] = i
		if to == from.device {
			from.holders.Retain() // never fails while its array is held
			shards = append(shards, from)
			continue
		}
		b, err := from.buffer.CopyTo(to.PJRT)
		if err != nil {
			for _, s := range shards {
				s.release()
			}
			return nil, platform.Exhausted(mine.explain(a, err), to)
		}
		to.Track(b)
		platform.CreateDataHandles.Add(1)
		copied := &shard{buffer: b, device: to}
		copied.footprint.Take(to, from.footprint.Bytes())
		copied.holders.First()
		shards = append(shards, copied)
	}
	return c.newArray(shards, layoutOn{devices: list, annotation: program.Replicated}, mine.Global), nil
}

func (c placer) Relabel(d client.Data, annotation *client.Sharding) (client.Data, error) {
	mine, a, err := c.holdOf(d)
	if err != nil {
		return nil, err
	}
	defer a.Release()
	for _, s := range a.shards {
		s.holders.Retain() // never fails while its array is held
	}
	return c.newArray(slices.Clone(a.shards), layoutOn{devices: a.sharding.devices, annotation: annotation}, mine.Global), nil
}
