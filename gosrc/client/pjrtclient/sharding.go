package pjrtclient

import (
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/sharding"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// assemble puts the value of sharded data together on the host, without a program. BLOCKING.
func (c *Client) assemble(d *data, m *memory, into []byte) error {
	platform.ReplicateShardedData.Add(1)
	whole := sharding.Whole{Name: d, Shape: d.Global, Sharding: d.Sharding(), Partitions: m.partitions(), Read: func(i int, tile shape.Shape, into []byte) error {
		return c.readShard(m.shards[i], tile, into)
	}}
	return whole.Assemble(into)
}

func (c *Client) readShard(m *memory, s shape.Shape, into []byte) error {
	actual, err := m.buffer.Shape()
	if err != nil {
		return err
	}
	if !actual.Equal(s) {
		return status.Errorf(status.InvalidArgument, "expected a shard of shape %s on %s, got %s", s, m.device.Name, actual)
	}
	return c.readBuffer(m, into, s.Rank())
}
