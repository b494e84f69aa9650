package ifrtclient

import (
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/sharding"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

// TransferToDevice copies host arrays to their devices, in order. Each source's Release is called
// exactly once, also where the transfer fails.
func (c *Client) TransferToDevice(sources []client.TensorSource) ([]client.Data, error) {
	start := time.Now()
	result := make([]client.Data, 0, len(sources))
	err := c.UploadAll(sources, func(i int, b *pjrt.Buffer, on *platform.Device) {
		result = append(result, c.newData(b, on, sources[i].Shape))
	})
	if err != nil {
		closeAll(result)
		return nil, status.Annotate(c.UploadExhausted(err, sources), "TransferToDevice()")
	}
	platform.TransferToDeviceTime.Observe(time.Since(start))
	return result, nil
}

// TransferShardsToDevice uploads shard i to the device named by source i, which must be the local
// devices in their order.
func (c *Client) TransferShardsToDevice(sources []client.TensorSource, name string, s shape.Shape, annotation *client.Sharding) (client.Data, error) {
	shards, err := c.TransferToDevice(sources)
	if err != nil {
		return nil, err
	}
	defer closeAll(shards)
	d, err := c.wrap(shards, s, annotation, Donate)
	if err != nil {
		return nil, status.Annotate(err, "TransferShardsToDevice()")
	}
	return d, nil
}

// WrapDataShards joins one shard per local device, in their order, into one sharded array. The
// shards stay the caller's; memory is shared.
func (c *Client) WrapDataShards(shards []client.Data, name string, s shape.Shape, annotation *client.Sharding) (client.Data, error) {
	d, err := c.wrap(shards, s, annotation, Reuse)
	if err != nil {
		return nil, status.Annotate(err, "WrapDataShards()")
	}
	return d, nil
}

func (c *Client) wrap(shards []client.Data, s shape.Shape, annotation *client.Sharding, semantics CopySemantics) (client.Data, error) {
	if annotation == nil {
		return nil, status.Errorf(status.InvalidArgument, "expected a sharding, got none")
	}
	if n := len(shards); n != len(c.Local) && (n == 0 || n > len(c.Local) || annotation.OpSharding != nil) {
		return nil, status.Errorf(status.InvalidArgument, "expected one shard for each of the %d local devices, got %d", len(c.Local), len(shards))
	}
	for i, d := range shards {
		mine, a, err := c.single(d)
		if err != nil {
			return nil, status.Annotate(err, "shard %d", i)
		}
		on := a.shards[0].device
		a.Release()
		if on != c.Local[i] {
			return nil, status.Errorf(status.InvalidArgument, "shard %d: expected data on %s, got %s", i, c.Local[i].Name, mine)
		}
	}
	var devices []string // all
	if len(shards) < len(c.Local) {
		devices = platform.Names(c.Local[:len(shards)])
	}
	return c.Assemble(shards, s, annotation, devices, semantics)
}

// GetDataShards gives the shards of sharded data, sharing memory, or the data itself as the only one. The
// caller closes what it gets, except the data itself.
func (c *Client) GetDataShards(d client.Data) ([]client.Data, error) {
	mine, err := c.own(d)
	if err != nil {
		return nil, status.Annotate(err, "GetDataShards()")
	}
	if mine.DeviceName != SPMDDevice {
		return []client.Data{d}, nil
	}
	shards, err := c.Disassemble(d, Reuse)
	if err != nil {
		return nil, status.Annotate(err, "GetDataShards()")
	}
	return shards, nil
}

// GetDataShard gives shard index; OutOfRange where there is none.
func (c *Client) GetDataShard(d client.Data, index int) (client.Data, error) {
	mine, err := c.own(d)
	if err != nil {
		return nil, status.Annotate(err, "GetDataShard()")
	}
	if mine.DeviceName != SPMDDevice {
		if index != 0 {
			return nil, status.Errorf(status.OutOfRange, "GetDataShard(): expected index 0 for data that is not sharded, got %d", index)
		}
		return d, nil
	}
	a, err := mine.hold()
	if err != nil {
		return nil, status.Annotate(err, "GetDataShard()")
	}
	defer a.Release()
	if index < 0 || index >= len(a.shards) {
		return nil, status.Errorf(status.OutOfRange, "GetDataShard(): expected an index below %d, got %d", len(a.shards), index)
	}
	result, err := c.remap([]client.Data{d}, []Layout{{Shards: []Piece{{Input: 0, Shard: index}}}}, Reuse)
	if err != nil {
		return nil, status.Annotate(err, "GetDataShard()")
	}
	return result[0], nil
}

// CopyToDevice copies to another device, without going through the host. On the same device the
// memory is shared.
func (c *Client) CopyToDevice(d client.Data, name string) (client.Data, error) {
	to, err := c.Addressable(name)
	if err != nil {
		return nil, status.Annotate(err, "CopyToDevice()")
	}
	mine, a, err := c.single(d)
	if err != nil {
		return nil, status.Annotate(err, "CopyToDevice()")
	}
	if a.shards[0].device == to {
		copied := &data{client: c}
		copied.DeviceName, copied.Global = to.Name, mine.Global
		copied.Held.Store(a) // the hold goes to the copy
		return copied, nil
	}
	defer a.Release()
	b, err := a.shards[0].buffer.CopyTo(to.PJRT)
	if err != nil {
		return nil, status.Annotate(platform.Exhausted(mine.explain(a, err), to), "CopyToDevice()")
	}
	to.Track(b)
	platform.CreateDataHandles.Add(1)
	return c.newData(b, to, mine.Global), nil
}

// TransferFromDevice waits for the values and copies them to the host. BLOCKING.
func (c *Client) TransferFromDevice(list []client.Data) ([]client.Literal, error) {
	return c.DownloadAll(len(list), func(i int) (client.Literal, error) {
		mine, err := c.own(list[i])
		if err != nil {
			return client.Literal{}, err
		}
		bytes, err := c.download(mine, nil)
		return client.Literal{Shape: mine.Global, Bytes: bytes}, err
	})
}

// TransferFromDeviceInto waits for the value and copies it to memory of the caller. BLOCKING.
func (c *Client) TransferFromDeviceInto(d client.Data, destination []byte) error {
	mine, err := c.own(d)
	if err != nil {
		return status.Annotate(err, "TransferFromDeviceInto()")
	}
	return c.DownloadInto(mine.Global, destination, func() error {
		_, err := c.download(mine, destination)
		return err
	})
}

// download copies a value to memory of its size, nil for new one. BLOCKING.
func (c *Client) download(d *data, into []byte) ([]byte, error) {
	a, err := d.hold()
	if err != nil {
		return nil, err
	}
	defer a.Release()
	if into == nil {
		// A value that failed may be larger than any memory.
		if err := platform.AwaitLarge(a.shards[0].buffer, d.Global.ByteSize()); err != nil {
			return nil, d.explainValue(a, err)
		}
		into = pjrt.Uncleared(d.Global.ByteSize())
	}
	return into, d.explainValue(a, c.copyOut(d, a, into))
}

// copyOut copies an array to the host, put together from its shards without a program. BLOCKING.
func (c *Client) copyOut(d *data, a *array, into []byte) error {
	if a.single() {
		return c.readShard(a.shards[0], into, d.Global.Rank())
	}
	platform.ReplicateShardedData.Add(1)
	whole := sharding.Whole{Name: d, Shape: d.Global, Sharding: a.sharding.annotation, Partitions: a.sharding.devices.partitions}
	whole.Read = func(i int, tile shape.Shape, into []byte) error {
		s := a.shards[i]
		actual, err := s.buffer.Shape()
		if err != nil {
			return err
		}
		if !actual.Equal(tile) {
			return status.Errorf(status.InvalidArgument, "expected a shard of shape %s on %s, got %s", tile, s.device.Name, actual)
		}
		return c.readShard(s, into, tile.Rank())
	}
	return whole.Assemble(into)
}

func (c *Client) readShard(s *shard, into []byte, rank int) error {
	return c.Read(s.buffer, s.format(), into, rank)
}
