package ir

import (
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/status"
)

// KindSharding is its operand, laid over the devices as its attributes say. It changes no element, and it is part of
// the key: the same program over another order of devices is another program.
var KindSharding = Define("xla::mark_sharding", lowerSharding)

// Annotate makes a node that lays value over the devices by sharding.
func (g *Graph) Annotate(value *Node, sharding *hlo.Sharding) *Node {
	n := g.New(KindSharding, value.Dtype, value.Dims)
	n.Attributes = appendSharding(n.Attributes, sharding)
	n.AddOperand(value)
	return n
}

// Sharding gives the annotation of a KindSharding or of a device value, nil where there is none or it is not known yet.
func (n *Node) Sharding() *hlo.Sharding {
	switch {
	case n.Kind == KindSharding:
		s, _ := shardingOf(n.Attributes)
		return s
	case n.Kind == KindParameter && n.Buffer != nil:
		return n.Buffer.KnownSharding()
	}
	return nil
}

// appendSharding appends a sharding as a node has it in its attributes: kind, whether the last entry of the tiles
// counts copies, the tiles and the devices with their numbers in front. Nothing for none.
func appendSharding(attributes []int64, s *hlo.Sharding) []int64 {
	if s == nil {
		return attributes
	}
	last := int64(0)
	if s.ReplicateOnLast {
		last = 1
	}
	attributes = append(attributes, int64(s.Kind), last, int64(len(s.Tiles)))
	attributes = append(append(attributes, s.Tiles...), int64(len(s.Devices)))
	return append(attributes, s.Devices...)
}

// shardingOf is appendSharding's reverse.
func shardingOf(attributes []int64) (*hlo.Sharding, error) {
	if len(attributes) == 0 {
		return nil, nil
	}
	rest := attributes
	list := func() []int64 {
		if len(rest) == 0 || rest[0] < 0 || rest[0] >= int64(len(rest)) {
			rest = nil
			return nil
		}
		values := rest[1 : 1+rest[0]]
		rest = rest[1+rest[0]:]
		return values
	}
	if len(rest) < 4 {
		return nil, status.Errorf(status.DataLoss, "DecodeKey(): a sharding of the program key is damaged")
	}
	s := &hlo.Sharding{Kind: hlo.ShardingKind(rest[0]), ReplicateOnLast: rest[1] != 0}
	rest = rest[2:]
	s.Tiles, s.Devices = list(), list()
	if rest == nil || len(rest) != 0 {
		return nil, status.Errorf(status.DataLoss, "DecodeKey(): a sharding of the program key is damaged")
	}
	return s, nil
}

func lowerSharding(l *Lowering) []hlo.Value {
	s, err := shardingOf(l.Rest())
	if err != nil || s == nil {
		panic("a sharding annotation has no sharding")
	}
	return []hlo.Value{annotated(l.B, l.In(0), s)}
}

// annotated is the custom call by which the partitioner is told how a value lies.
func annotated(b *hlo.Builder, value hlo.Value, s *hlo.Sharding) hlo.Value {
	b.SetSharding(s)
	defer b.SetSharding(nil)
	return b.CustomCall("Sharding", []hlo.Value{value}, value.Shape(), nil, hlo.CallOptions{})
}
