package hlo

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

// Group says which devices take part in a collective. No Replicas is all of them in one group.
type Group struct {
	Replicas        [][]int64 // groups of equal size
	ChannelID       int64     // above 0 between partitions of an SPMD program; 0 between replicas
	GlobalDeviceIDs bool      // Replicas holds flattened (replica, partition) numbers; needs a ChannelID
}

// size gives the size of each group, 0 if it is not said.
func (g *Group) size(b *Builder, op Opcode) (int64, bool) {
	for _, r := range g.Replicas {
		if len(r) == 0 || len(r) != len(g.Replicas[0]) {
			b.fail(op, "expected groups of equal size above 0, got %v", g.Replicas)
			return 0, false
		}
	}
	if g.GlobalDeviceIDs && g.ChannelID <= 0 {
		b.fail(op, "expected a channel above 0 for global device numbers, got %d", g.ChannelID)
		return 0, false
	}
	if len(g.Replicas) == 0 {
		return 0, true
	}
	return int64(len(g.Replicas[0])), true
}

// group writes the group of the open instruction.
func (b *Builder) group(g *Group) {
	e := &b.body
	e.varint(26, g.ChannelID)
	for _, r := range g.Replicas {
		at := e.open(49)
		e.packed(1, r)
		e.close(at)
	}
	e.flag(71, g.GlobalDeviceIDs)
}

// AllReduce combines each array, element by element, over the devices of the group.
func (b *Builder) AllReduce(xs []Value, op Opcode, g Group) []Value {
	bad := make([]Value, len(xs))
	if !b.ok(opAllReduce, xs...) {
		return bad
	}
	if len(xs) == 0 {
		b.fail(opAllReduce, "expected at least one operand, got none")
		return bad
	}
	for _, x := range xs[1:] {
		if x.Dtype() != xs[0].Dtype() {
			b.fail(opAllReduce, "expected operands of equal element type, got %v and %v", xs[0].n.shape, x.n.shape)
			return bad
		}
	}
	c := b.ScalarComputation(op, xs[0].Dtype())
	if _, ok := g.size(b, opAllReduce); !ok || c == nil {
		return bad
	}
	n, at := b.begin(opAllReduce, together(shapesOf(xs)))
	b.group(&g)
	b.calls(c)
	return b.elements(b.end(n, at, xs...), len(xs) > 1)
}

// AllGather joins the devices' arrays along dim; groupSize is the number of devices in a group.
func (b *Builder) AllGather(x Value, dim int, groupSize int64, g Group) Value {
	dims, ok := b.scale(opAllGather, x, dim, groupSize, &g)
	if !ok {
		return Value{}
	}
	dims[dim] *= groupSize
	n, at := b.begin(opAllGather, shape.Shape{Dtype: x.Dtype(), Dims: dims})
	b.body.packedInts(14, []int{dim})
	b.group(&g)
	return b.end(n, at, x)
}

// ReduceScatter combines the devices' arrays and leaves each device its part along dim.
func (b *Builder) ReduceScatter(x Value, op Opcode, dim int, groupSize int64, g Group) Value {
	dims, ok := b.scale(opReduceScatter, x, dim, groupSize, &g)
	if !ok {
		return Value{}
	}
	if dims[dim]%groupSize != 0 {
		return b.fail(opReduceScatter, "expected a multiple of the group size %d in dimension %d, got %v", groupSize, dim, x.n.shape)
	}
	c := b.ScalarComputation(op, x.Dtype())
	if c == nil {
		return Value{}
	}
	dims[dim] /= groupSize
	n, at := b.begin(opReduceScatter, shape.Shape{Dtype: x.Dtype(), Dims: dims})
	b.body.packedInts(14, []int{dim})
	b.group(&g)
	b.calls(c)
	return b.end(n, at, x)
}

// scale checks an array, one of its dimensions and the group's size, and copies the dimensions.
func (b *Builder) scale(op Opcode, x Value, dim int, size int64, g *Group) ([]int64, bool) {
	if !b.ok(op, x) {
		return nil, false
	}
	said, ok := g.size(b, op)
	if !ok {
		return nil, false
	}
	if dim < 0 || dim >= x.Rank() {
		b.fail(op, "expected a dimension below %d, got %d", x.Rank(), dim)
		return nil, false
	}
	if size < 1 || (said != 0 && said != size) {
		b.fail(op, "expected the size of the groups %v, got %d", g.Replicas, size)
		return nil, false
	}
	return slices.Clone(x.Dims()), true
}

// AllToAll cuts x along splitDim, sends piece i to device i of the group, and joins what it gets
// along concatDim.
func (b *Builder) AllToAll(x Value, splitDim, concatDim int, groupSize int64, g Group) Value {
	dims, ok := b.scale(opAllToAll, x, splitDim, groupSize, &g)
	if !ok {
		return Value{}
	}
	if concatDim < 0 || concatDim >= x.Rank() || dims[splitDim]%groupSize != 0 {
		return b.fail(opAllToAll, "expected a multiple of %d in dimension %d and a dimension below %d to join, got %v and %d",
			groupSize, splitDim, x.Rank(), x.n.shape, concatDim)
	}
	// One operand along one dimension is all that every backend takes; move the pieces around it.
	n, at := b.begin(opAllToAll, x.n.shape)
	b.body.packedInts(14, []int{splitDim})
	b.group(&g)
	all := b.end(n, at, x)
	if splitDim == concatDim {
		return all
	}
	split := slices.Insert(slices.Clone(dims), splitDim, groupSize)
	split[splitDim+1] /= groupSize
	order := slices.DeleteFunc(identity(len(split)), func(i int) bool { return i == splitDim })
	// The pieces' dimension goes in front of the dimension to join.
	order = slices.Insert(order, concatDim, splitDim)
	dims[splitDim] /= groupSize
	dims[concatDim] *= groupSize
	return b.Reshape(b.Transpose(b.Reshape(all, split), order), dims)
}

// CollectivePermute sends x from the source to the target of each pair; a device that is no
// target gets zeros.
func (b *Builder) CollectivePermute(x Value, pairs [][2]int64, channelID int64) Value {
	if !b.ok(opCollectivePermute, x) {
		return Value{}
	}
	n, at := b.begin(opCollectivePermute, x.n.shape)
	b.body.varint(26, channelID)
	for _, p := range pairs {
		one := b.body.open(52)
		b.body.varint(1, p[0])
		b.body.varint(2, p[1])
		b.body.close(one)
	}
	return b.end(n, at, x)
}

// NextChannel gives a number for Group.ChannelID that the module has not used.
func (b *Builder) NextChannel() int64 {
	b.channels++
	return b.channels
}

// ReplicaID gives the number of the replica that runs the program, u32[].
func (b *Builder) ReplicaID() Value { return b.emit(opReplicaID, shape.Make(dtype.U32)) }

// PartitionID gives the number of the partition that runs the program, u32[].
func (b *Builder) PartitionID() Value { return b.emit(opPartitionID, shape.Make(dtype.U32)) }
