package pjrtclient

import (
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
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
		for _, r := range result {
			r.Close()
		}
		return nil, status.Annotate(err, "TransferToDevice()")
	}
	platform.TransferToDeviceTime.Observe(time.Since(start))
	return result, nil
}

// TransferShardsToDevice uploads shard i to the device named by source i, which must be the local
// devices in their order.
func (c *Client) TransferShardsToDevice(sources []client.TensorSource, name string, s shape.Shape, sharding *client.Sharding) (client.Data, error) {
	shards, err := c.TransferToDevice(sources)
	if err != nil {
		return nil, err
	}
	d, err := c.WrapDataShards(shards, name, s, sharding)
	for _, shard := range shards {
		shard.Close()
	}
	if err != nil {
		return nil, status.Annotate(err, "TransferShardsToDevice()")
	}
	return d, nil
}

// CopyToDevice copies to another device, without going through the host. On the same device the
// memory is shared.
func (c *Client) CopyToDevice(d client.Data, name string) (client.Data, error) {
	to, err := c.Addressable(name)
	if err != nil {
		return nil, status.Annotate(err, "CopyToDevice()")
	}
	mine, m, err := c.single(d)
	if err != nil {
		return nil, status.Annotate(err, "CopyToDevice()")
	}
	if m.device == to {
		copied := c.placeholder(to.Name, mine.Global, nil)
		copied.Held.Store(m) // the hold goes to the copy
		return copied, nil
	}
	defer m.Release()
	b, err := m.buffer.CopyTo(to.PJRT)
	if err != nil {
		return nil, status.Annotate(mine.explain(m, err), "CopyToDevice()")
	}
	platform.CreateDataHandles.Add(1)
	return c.newData(b, to, mine.Global), nil
}

// single takes a hold on data that is not sharded.
func (c *Client) single(d client.Data) (*data, *memory, error) {
	mine, err := c.own(d)
	if err != nil {
		return nil, nil, err
	}
	m, err := mine.Hold()
	if err != nil {
		return nil, nil, err
	}
	if m.buffer == nil {
		m.Release()
		return nil, nil, status.Errorf(status.InvalidArgument, "expected data on one device, got %s: take its shards", mine)
	}
	return mine, m, nil
}

// explain replaces a plugin's error about a donated buffer by ours, and leaves others.
func (d *data) explain(m *memory, err error) error {
	if err != nil && !m.alive() {
		return d.Gone()
	}
	return err
}

// TransferFromDevice waits for the values and copies them to the host. BLOCKING.
func (c *Client) TransferFromDevice(list []client.Data) ([]client.Literal, error) {
	return c.DownloadAll(len(list), func(i int) (client.Literal, error) {
		mine, err := c.own(list[i])
		if err != nil {
			return client.Literal{}, err
		}
		return c.download(mine)
	})
}

func (c *Client) download(d *data) (client.Literal, error) {
	m, err := d.Hold()
	if err != nil {
		return client.Literal{}, err
	}
	defer m.Release()
	if m.buffer == nil {
		bytes, err := c.assemble(d, m)
		return client.Literal{Shape: d.Global, Bytes: bytes}, d.explain(m, err)
	}
	bytes := make([]byte, d.Global.ByteSize())
	if err := c.readBuffer(m, bytes, d.Global.Rank()); err != nil {
		return client.Literal{}, d.explain(m, err)
	}
	return client.Literal{Shape: d.Global, Bytes: bytes}, nil
}

// readBuffer copies one buffer's value to the host. BLOCKING.
func (c *Client) readBuffer(m *memory, into []byte, rank int) error {
	return c.Read(m.buffer, m.format(), into, rank)
}

// format is where the layout of one buffer is remembered.
func (m *memory) format() *platform.Layout {
	if m.learned != nil {
		return m.learned
	}
	return &m.layout
}
