package ops

import (
	"encoding/base64"
	"slices"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Operators of programs that are partitioned over devices (`xla_go.spmd`). Their schemas are ours
// (torch_adapter/collective.cpp): a sharding is a serialized OpSharding in base64. Between full_to_shard_shape and
// shard_to_full_shape the partitioner leaves a value alone: each device computes with its own shard.

func init() {
	register(
		&Row{Name: "xla_go::full_to_shard_shape", Meta: metaFullToShardShape, Lower: lowerFullToShardShape},
		&Row{Name: "xla_go::shard_to_full_shape", Meta: metaShardToFullShape, Lower: lowerShardToFullShape},
		&Row{Name: "xla_go::shard_as", Meta: metaShardAs, LowerMany: lowerShardAs},
	)
}

// sharding reads the sharding in argument i for an array of those dimensions, adds it, and gives the dimensions of a shard.
func (c *Call) sharding(i int, dims []int64) ([]int64, error) {
	serialized, err := base64.StdEncoding.DecodeString(c.Text(i))
	if err != nil {
		return nil, status.Torchf(status.ValueError, "%s(): expected an OpSharding in base64, got %v", c.row.Name, err)
	}
	s, err := hlo.ParseSharding(serialized)
	if err != nil {
		return nil, err
	}
	shard, err := s.TileDims(dims)
	if err != nil {
		return nil, status.Torchf(status.ValueError, "%s(): %s", c.row.Name, status.MessageOf(err))
	}
	grid, _ := s.Grid(len(dims))
	for d, n := range dims {
		if n%grid[d] != 0 {
			return nil, status.Torchf(status.ValueError, "%s(): expected a multiple of %d in dimension %d, as the devices divide it, got %v", c.row.Name, grid[d], d, dims)
		}
	}
	c.AttrInts(ir.AppendSharding(nil, s))
	return shard, nil
}

// readSharding reads what sharding added.
func readSharding(l *ir.Lowering) *hlo.Sharding {
	s, err := ir.ShardingOf(l.Ints())
	if err != nil || s == nil {
		panic("an operator has no sharding")
	}
	return s
}

var manualSharding = &hlo.Sharding{Kind: hlo.Manual}

func metaFullToShardShape(c *Call) error {
	x := c.Node(0)
	c.Operand(x)
	shard, err := c.sharding(1, x.Dims)
	if err != nil {
		return err
	}
	return c.Out(x.Dtype, shard)
}

func lowerFullToShardShape(l *ir.Lowering) hlo.Value {
	laid := l.B.Sharded("Sharding", l.In(0), l.In(0).Dims(), readSharding(l))
	return l.B.Sharded("SPMDFullToShardShape", laid, l.Dims, manualSharding)
}

func metaShardToFullShape(c *Call) error {
	x := c.Node(0)
	c.Operand(x)
	full := c.Ints(2)
	shard, err := c.sharding(1, full)
	if err != nil {
		return err
	}
	if !slices.Equal(shard, x.Dims) {
		return status.Torchf(status.ValueError, "%s(): expected a shard of %v of a tensor of %v, got %v", c.row.Name, shard, full, x.Dims)
	}
	return c.Out(x.Dtype, full)
}

func lowerShardToFullShape(l *ir.Lowering) hlo.Value {
	own := l.B.Sharded("Sharding", l.In(0), l.In(0).Dims(), manualSharding)
	return l.B.Sharded("SPMDShardToFullShape", own, l.Dims, readSharding(l))
}

// metaShardAs gives both arguments as values that lie alike, however that is.
func metaShardAs(c *Call) error {
	a, b := c.Node(0), c.Node(1)
	if !slices.Equal(a.Dims, b.Dims) {
		return status.Torchf(status.ValueError, "%s(): expected tensors of one shape, got %v and %v", c.row.Name, a.Dims, b.Dims)
	}
	c.Operand(a, b)
	both := c.Many()
	c.Return(c.Element(both, 0, a.Dtype, a.Dims))
	c.Return(c.Element(both, 1, b.Dtype, b.Dims))
	return nil
}

func lowerShardAs(l *ir.Lowering) []hlo.Value {
	group := &hlo.Sharding{Kind: hlo.UnknownLayout, Group: l.B.NextShardGroup()}
	return []hlo.Value{
		l.B.Sharded("Sharding", l.In(0), l.In(0).Dims(), group),
		l.B.Sharded("Sharding", l.In(1), l.In(1).Dims(), group),
	}
}
