package ops

import (
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// Collectives between the replicas of a program (`xla_go.distributed`), or between the partitions of one, on values that the
// partitioner leaves alone (`xla_go.spmd.enable_manual_sharding`). Their schemas are ours (torch_adapter/collective.cpp):
// groups is the numbers of the replicas or partitions of all groups, one group after another, of group_size each. All run one
// compiled program, so collectives come in the same order everywhere.

func init() {
	register(
		&Row{Name: "xla_go::all_reduce", Meta: metaAllReduce, Lower: lowerAllReduce, Collective: true},
		&Row{Name: "xla_go::all_gather", Meta: metaAllGather, Lower: lowerAllGather, Collective: true},
		&Row{Name: "xla_go::reduce_scatter", Meta: metaReduceScatter, Lower: lowerReduceScatter, Collective: true},
		&Row{Name: "xla_go::all_to_all", Meta: metaAllToAll, Lower: lowerAllToAll, Collective: true},
		&Row{Name: "xla_go::collective_permute", Meta: metaCollectivePermute, Lower: lowerCollectivePermute, Collective: true},
		&Row{Name: "xla_go::collective_broadcast", Meta: metaCollectiveBroadcast, Lower: lowerCollectiveBroadcast, Collective: true},
	)
}

// reductions are torch_xla's names of what all_reduce and reduce_scatter compute.
var reductions = []struct {
	name string
	op   hlo.Opcode
}{{"sum", hlo.Add}, {"mul", hlo.Multiply}, {"min", hlo.Minimum}, {"max", hlo.Maximum}, {"and", hlo.And}, {"or", hlo.Or}}

// reduction adds the number of the reduction that argument i names.
func (c *Call) reduction(i int, d dtype.Dtype) error {
	for number, r := range reductions {
		if r.name == c.Args[i].Text {
			switch {
			case (r.op == hlo.And || r.op == hlo.Or) && !d.IsIntegral():
				return Errorf("%s(): expected integers or bool for %q, got %v", c.row.Name, r.name, d)
			case (r.op == hlo.Minimum || r.op == hlo.Maximum) && d.IsComplex():
				return Errorf("%s(): expected real numbers for %q, got %v", c.row.Name, r.name, d)
			}
			c.Attr(int64(number))
			return nil
		}
	}
	return status.Torchf(status.ValueError, "%s(): expected a reduction of sum, mul, min, max, and, or, got %q", c.row.Name, c.Args[i].Text)
}

// groups adds the groups in arguments i and i + 1, and gives their size.
func (c *Call) groups(i int) (size int64, err error) {
	members, size := c.Ints(i), c.Int(i+1, 0)
	sorted := slices.Clone(members)
	slices.Sort(sorted)
	if size < 1 || len(members) == 0 || int64(len(members))%size != 0 || sorted[0] != 0 || sorted[len(sorted)-1] != int64(len(sorted)-1) || len(slices.Compact(sorted)) != len(members) {
		return 0, status.Torchf(status.ValueError, "%s(): expected groups of one size in which each replica is once, got %v in groups of %d", c.row.Name, members, size)
	}
	c.Attr(size)
	c.AttrInts(members)
	return size, nil
}

// readGroup reads what groups added.
func readGroup(l *ir.Lowering) (g hlo.Group, size int64) {
	size = l.Int()
	for chunk := range slices.Chunk(l.Ints(), int(size)) {
		g.Replicas = append(g.Replicas, chunk)
	}
	if l.Partitioned() {
		g.ChannelID, g.GlobalDeviceIDs = l.B.NextChannel(), true
	}
	return g, size
}

// scaled adds the factor of a reduction's result as an operand, where it is not 1.
func (c *Call) scaled(i int, d dtype.Dtype) {
	factor := c.Float(i, 1)
	c.AttrBool(factor != 1)
	if factor != 1 {
		c.Operand(c.FloatNode(factor, d))
	}
}

// scale multiplies a reduction's result by operand 1.
func scale(l *ir.Lowering, x hlo.Value) hlo.Value {
	d := x.Dtype()
	factor := l.B.Broadcast(l.B.Convert(l.In(1), d.OpMath()), x.Dims(), nil)
	return l.B.Convert(l.B.Binary(hlo.Multiply, l.B.Convert(x, d.OpMath()), factor), d)
}

func metaAllReduce(c *Call) error {
	x := c.Node(0)
	if err := c.reduction(1, x.Dtype); err != nil {
		return err
	}
	c.Operand(x)
	c.scaled(2, x.Dtype)
	if _, err := c.groups(3); err != nil {
		return err
	}
	return c.Out(x.Dtype, x.Dims)
}

// readReduction reads what reduction added. Bool is summed and multiplied as or and and.
func readReduction(l *ir.Lowering, d dtype.Dtype) hlo.Opcode {
	return boolCombiner(reductions[l.Int()].op, d)
}

// isBitwise is true of what no backend of XLA reduces between devices: and and or of integers. The values are exchanged and
// combined by each replica.
func isBitwise(op hlo.Opcode, d dtype.Dtype) bool {
	return (op == hlo.And || op == hlo.Or) && d != dtype.Bool
}

// reduceFirst combines the values of all replicas, which lie along dim.
func reduceFirst(l *ir.Lowering, x hlo.Value, op hlo.Opcode, dim int) hlo.Value {
	return l.B.ReduceOp(op, x, identityOf(l.B, op, x.Dtype()), []int{dim})
}

func lowerAllReduce(l *ir.Lowering) hlo.Value {
	x := l.In(0)
	op, scaled := readReduction(l, x.Dtype()), l.Bool()
	g, size := readGroup(l)
	var y hlo.Value
	if isBitwise(op, x.Dtype()) {
		y = reduceFirst(l, l.B.AllGather(l.B.Reshape(x, append([]int64{1}, x.Dims()...)), 0, size, g), op, 0)
	} else {
		y = l.B.AllReduce([]hlo.Value{x}, op, g)[0]
	}
	if scaled {
		y = scale(l, y)
	}
	return y
}

// dimension adds the dimension in argument i, and gives it.
func (c *Call) dimension(i int, dims []int64) (int, error) {
	dim := c.Int(i, 0)
	if dim < -int64(len(dims)) || dim >= int64(len(dims)) {
		return 0, status.Torchf(status.IndexError, "%s(): expected a dimension of a tensor of %d, got %d", c.row.Name, len(dims), dim)
	}
	if dim < 0 {
		dim += int64(len(dims))
	}
	c.Attr(dim)
	return int(dim), nil
}

func metaAllGather(c *Call) error {
	x := c.Node(0)
	c.Operand(x)
	dim, err := c.dimension(1, x.Dims)
	if err != nil {
		return err
	}
	size, err := c.groups(2)
	if err != nil {
		return err
	}
	dims := slices.Clone(x.Dims)
	dims[dim] *= size
	return c.Out(x.Dtype, dims)
}

func lowerAllGather(l *ir.Lowering) hlo.Value {
	dim := int(l.Int())
	g, size := readGroup(l)
	return l.B.AllGather(l.In(0), dim, size, g)
}

func metaReduceScatter(c *Call) error {
	x := c.Node(0)
	if err := c.reduction(1, x.Dtype); err != nil {
		return err
	}
	c.Operand(x)
	c.scaled(2, x.Dtype)
	dim, err := c.dimension(3, x.Dims)
	if err != nil {
		return err
	}
	size, err := c.groups(4)
	if err != nil {
		return err
	}
	dims := slices.Clone(x.Dims)
	if dims[dim]%size != 0 {
		return Errorf("%s(): expected a multiple of the group's size %d in dimension %d, got %d", c.row.Name, size, dim, dims[dim])
	}
	dims[dim] /= size
	return c.Out(x.Dtype, dims)
}

func lowerReduceScatter(l *ir.Lowering) hlo.Value {
	x := l.In(0)
	op, scaled, dim := readReduction(l, x.Dtype()), l.Bool(), int(l.Int())
	g, size := readGroup(l)
	var y hlo.Value
	if isBitwise(op, x.Dtype()) {
		pieces := slices.Insert(slices.Clone(x.Dims()), dim, size)
		pieces[dim+1] /= size
		y = reduceFirst(l, l.B.Reshape(l.B.AllToAll(x, dim, dim, size, g), pieces), op, dim)
	} else {
		y = l.B.ReduceScatter(x, op, dim, size, g)
	}
	if scaled {
		y = scale(l, y)
	}
	return y
}

func metaAllToAll(c *Call) error {
	x := c.Node(0)
	c.Operand(x)
	split, err := c.dimension(1, x.Dims)
	if err != nil {
		return err
	}
	join, err := c.dimension(2, x.Dims)
	if err != nil {
		return err
	}
	size, err := c.groups(3)
	if err != nil {
		return err
	}
	dims := slices.Clone(x.Dims)
	if dims[split]%size != 0 {
		return Errorf("%s(): expected a multiple of the group's size %d in dimension %d, got %d", c.row.Name, size, split, dims[split])
	}
	dims[split] /= size
	dims[join] *= size
	return c.Out(x.Dtype, dims)
}

func lowerAllToAll(l *ir.Lowering) hlo.Value {
	split, join := int(l.Int()), int(l.Int())
	g, size := readGroup(l)
	return l.B.AllToAll(l.In(0), split, join, size, g)
}

func metaCollectivePermute(c *Call) error {
	x := c.Node(0)
	c.Operand(x)
	pairs := c.Ints(1)
	seen := map[[2]int64]bool{} // {0, source} and {1, target}
	for i, replica := range pairs {
		end := [2]int64{int64(i % 2), replica}
		if replica < 0 || seen[end] || len(pairs)%2 != 0 {
			return status.Torchf(status.ValueError, "%s(): expected pairs of source and target in which each replica is once at most as either, got %v", c.row.Name, pairs)
		}
		seen[end] = true
	}
	c.AttrInts(pairs)
	return c.Out(x.Dtype, x.Dims)
}

func lowerCollectivePermute(l *ir.Lowering) hlo.Value {
	var pairs [][2]int64
	for pair := range slices.Chunk(l.Ints(), 2) {
		pairs = append(pairs, [2]int64{pair[0], pair[1]})
	}
	channel := int64(0)
	if l.Partitioned() {
		channel = l.B.NextChannel()
	}
	return l.B.CollectivePermute(l.In(0), pairs, channel)
}

func metaCollectiveBroadcast(c *Call) error {
	x := c.Node(0)
	c.Operand(x)
	root := c.Int(1, 0)
	c.Attr(root)
	size, err := c.groups(2)
	if err != nil {
		return err
	}
	if root < 0 || root >= size {
		return status.Torchf(status.ValueError, "%s(): expected a place in a group of %d as the root, got %d", c.row.Name, size, root)
	}
	return c.Out(x.Dtype, x.Dims)
}

// lowerCollectiveBroadcast takes the root's value out of all that are gathered: its bits arrive as they are, and nothing of
// the others'.
func lowerCollectiveBroadcast(l *ir.Lowering) hlo.Value {
	root := l.Int()
	g, size := readGroup(l)
	x := l.In(0)
	one := append([]int64{1}, x.Dims()...)
	all := l.B.AllGather(l.B.Reshape(x, one), 0, size, g)
	start, limit := make([]int64, len(one)), slices.Clone(one)
	start[0], limit[0] = root, root+1
	return l.B.Reshape(l.B.Slice(all, start, limit, nil), x.Dims())
}
