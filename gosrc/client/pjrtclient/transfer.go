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
		return nil, status.Annotate(c.UploadExhausted(err, sources), "TransferToDevice()")
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
		return nil, status.Annotate(platform.Exhausted(mine.explain(m, err), to), "CopyToDevice()")
	}
	to.Track(b)
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

// explainValue is explain for the error that a value failed with, which has no memory then.
func (d *data) explainValue(m *memory, err error) error {
	if err = d.explain(m, err); platform.LacksMemory(err) {
		m.forget()
		return platform.Exhausted(err, m.on()...)
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
	m, err := d.Hold()
	if err != nil {
		return nil, err
	}
	defer m.Release()
	if into == nil {
		// A value that failed may be larger than any memory.
		if err := platform.AwaitLarge(m.first(), d.Global.ByteSize()); err != nil {
			return nil, d.explainValue(m, err)
		}
		into = pjrt.Uncleared(d.Global.ByteSize())
	}
	if m.buffer == nil {
		err = c.assemble(d, m, into)
	} else {
		err = c.readBuffer(m, into, d.Global.Rank())
	}
	return into, d.explainValue(m, err)
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
