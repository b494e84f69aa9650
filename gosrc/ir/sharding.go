package ir

import (
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/status"
)

// KindSharding is its operand, laid over the devices as its attributes say. It changes no element, and it is part of
// the key: the same program over another order of devices is another program.
var KindSharding = Define("xla::mark_sharding", lowerSharding)

// Annotate makes a node that lays value over the devices by sharding. In dimensions that open names, ascending, it may lie
// otherwise: the partitioner decides.
func (g *Graph) Annotate(value *Node, sharding *hlo.Sharding, open ...int64) *Node {
	n := g.New(KindSharding, value.Dtype, value.Dims)
	n.Attributes = append(AppendSharding(n.Attributes, sharding), open...)
	n.AddOperand(value)
	return n
}

// Sharding gives the annotation of a KindSharding or of a device value, nil where there is none or it is not known yet.
func (n *Node) Sharding() *hlo.Sharding {
	switch {
	case n.Kind == KindSharding:
		s, open, err := cutSharding(n.Attributes)
		if err != nil || len(open) > 0 {
			return nil
		}
		return s
	case n.Kind == KindParameter && n.Buffer != nil:
		return n.Buffer.KnownSharding()
	}
	return nil
}

// AppendSharding appends a sharding as a node has it in its attributes: kind, whether the last entry of the tiles
// counts copies, the tiles and the devices with their numbers in front. Nothing for none.
func AppendSharding(attributes []int64, s *hlo.Sharding) []int64 {
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

// ShardingOf is AppendSharding's reverse.
func ShardingOf(attributes []int64) (*hlo.Sharding, error) {
	s, rest, err := cutSharding(attributes)
	if err == nil && len(rest) != 0 {
		return nil, errDamaged
	}
	return s, err
}

var errDamaged = status.Errorf(status.DataLoss, "DecodeKey(): a sharding of the program key is damaged")

// cutSharding reads the sharding that attributes begin with, and gives what follows it.
func cutSharding(attributes []int64) (s *hlo.Sharding, rest []int64, err error) {
	if len(attributes) == 0 {
		return nil, nil, nil
	}
	if len(attributes) < 4 {
		return nil, nil, errDamaged
	}
	s, rest = &hlo.Sharding{Kind: hlo.ShardingKind(attributes[0]), ReplicateOnLast: attributes[1] != 0}, attributes[2:]
	for _, list := range []*[]int64{&s.Tiles, &s.Devices} {
		if len(rest) == 0 || rest[0] < 0 || rest[0] >= int64(len(rest)) {
			return nil, nil, errDamaged
		}
		*list, rest = rest[1:1+rest[0]], rest[1+rest[0]:]
	}
	return s, rest, nil
}

func lowerSharding(l *Lowering) []hlo.Value {
	s, open, err := cutSharding(l.Rest())
	if err != nil || s == nil {
		panic("a sharding annotation has no sharding")
	}
	return []hlo.Value{annotated(l.B, l.In(0), s, open)}
}

// annotated is the custom call by which the partitioner is told how a value lies, but for the open dimensions.
func annotated(b *hlo.Builder, value hlo.Value, s *hlo.Sharding, open []int64) hlo.Value {
	return b.Sharded("Sharding", value, value.Dims(), s, open...)
}
