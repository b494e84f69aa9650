package ir

import (
	"encoding/binary"
	"strconv"
	"strings"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Check is a condition on values that an operator depends on and that only a run knows, such as that a position is
// inside a tensor. A program with checks has one output more than its roots, the last: s64[2], the number of the
// first check that failed, or -1, and the value that failed it. Checks follow from the program alone.
type Check struct {
	Node int // of the program: the operator that asks for it
	Refusal
}

// Refusal is the error of a failed check, as torch words it. CheckedValue in Text stands for the value that failed.
type Refusal struct {
	Exception status.Exception
	Text      string
}

// CheckedValue is where the text of a Refusal has the value.
const CheckedValue = "{}"

// Error gives the error of a check that value failed.
func (r Refusal) Error(value int64) error {
	return status.Torchf(r.Exception, "%s", strings.ReplaceAll(r.Text, CheckedValue, strconv.FormatInt(value, 10)))
}

// checks are those of a program that is being lowered.
type checks struct {
	program *Program
	node    int // that is being lowered
	list    []Check
	first   []hlo.Value // for each: s32 or s64 scalar, the row-major place of the first element that fails, at least count where none does
	value   []hlo.Value // s64 scalar, that element
	count   []int64     // of the elements
	made    map[checkedRange]bool
	values  map[string]int // a node of each value
	valueOf map[int]int    // the node that stands for a node's value
}

// checkedRange is a check that need not be made twice: of a value, for a range, with an exception.
type checkedRange struct {
	value, except int
	low, high     int64
}

// Instead of the node of an exception.
const (
	noException  = -1
	anyException = -2
)

func newChecks(p *Program) *checks {
	return &checks{program: p, made: map[checkedRange]bool{}, values: map[string]int{}, valueOf: map[int]int{}}
}

// identity gives a node that has the same value as a node: views of one tensor are nodes of their own wherever they are read.
func (c *checks) identity(node int) int {
	if known, ok := c.valueOf[node]; ok {
		return known
	}
	n := &c.program.Nodes[node]
	same := node
	if n.Kind != KindParameter && n.Kind != KindScalar {
		key := appendDims(binary.AppendUvarint(nil, uint64(n.Kind)), n.Dims)
		key = append(key, byte(n.Dtype))
		for _, list := range [][]int{n.Operands, n.Varied} {
			key = binary.AppendUvarint(key, uint64(len(list)))
		}
		for _, operand := range n.Operands {
			key = binary.AppendUvarint(key, uint64(c.identity(operand)))
		}
		for _, position := range n.Varied {
			key = binary.AppendUvarint(key, uint64(position))
		}
		for _, a := range n.Attributes {
			key = binary.AppendVarint(key, a)
		}
		key = binary.AppendUvarint(key, n.Case)
		if known, ok := c.values[string(key)]; ok {
			same = known
		} else {
			c.values[string(key)] = node
		}
	}
	c.valueOf[node] = same
	return same
}

// operand gives the node of the lowered node's operand.
func (c *checks) operand(i int) int { return c.program.Nodes[c.node].Operands[i] }

// MayCheck notes that nodes of a kind may ask for checks; package initialisation only.
func MayCheck(kind Kind) { definitions[kind].mayCheck = true }

// MayCheck is true where one of the nodes may ask for checks.
func (k Kind) MayCheck() bool { return definitions[k].mayCheck }

// CheckRange asks that each element of an operand, integers, is in [low, high), and refuses the first that is not, in
// row-major order. Nothing is added to a program that shows by itself that all are inside, or that checks the same already.
func (l *Lowering) CheckRange(operand int, low, high int64, refusal Refusal) {
	l.checkRange(operand, noException, low, high, refusal)
}

// CheckRangeExcept is CheckRange where elements that equal operand except, a scalar, may be anywhere.
func (l *Lowering) CheckRangeExcept(operand, except int, low, high int64, refusal Refusal) {
	l.checkRange(operand, except, low, high, refusal)
}

// IsChecked is true where an operator before has asked for the same range of the same values, with any exception.
func (l *Lowering) IsChecked(operand int, low, high int64) bool {
	return l.checks != nil && l.checks.made[checkedRange{l.checks.identity(l.checks.operand(operand)), anyException, low, high}]
}

func (l *Lowering) checkRange(operand, except int, low, high int64, refusal Refusal) {
	c := l.checks
	if c == nil {
		return
	}
	index := l.In(operand)
	least, greatest, bounded := index.Bounds()
	if bounded && least >= low && greatest < high {
		return
	}
	same := checkedRange{c.identity(c.operand(operand)), noException, low, high}
	if except != noException {
		same.except = c.identity(c.operand(except))
	}
	if c.made[same] {
		return
	}
	b := l.B
	if size := index.Dtype().Size(); size < 4 { // whose type may not hold the limits
		index = b.Convert(index, dtype.S64)
	}
	d, dims := index.Dtype(), index.Dims()
	var failed hlo.Value
	if !bounded || least < low {
		failed = b.Compare("LT", index, b.FullInt(d, low, dims...))
	}
	if !bounded || greatest >= high {
		above := b.Compare("GE", index, b.FullInt(d, high, dims...))
		if failed.Valid() {
			above = b.Binary(hlo.Or, failed, above)
		}
		failed = above
	}
	if except != noException {
		failed = b.Binary(hlo.And, failed, b.Compare("NE", index, b.Broadcast(b.Convert(l.In(except), d), dims, nil)))
	}
	l.CheckNone(failed, index, refusal)
	c.made[same] = true
	same.except = anyException
	c.made[same] = true
}

// CheckNone asks that no element of failed, pred, is true, and refuses the element of values, integers of the same
// dimensions, at the first that is.
func (l *Lowering) CheckNone(failed, values hlo.Value, refusal Refusal) {
	if l.checks == nil || !failed.Valid() || !values.Valid() {
		return
	}
	if !definitions[l.kind].mayCheck {
		panic("a kind that asks for checks is not among those that may")
	}
	count := shape.Product(failed.Dims())
	if count == 0 {
		return
	}
	b, c := l.B, l.checks
	first, value := firstFailure(b, failed, values, l.partitioned)
	c.list = append(c.list, Check{c.node, refusal})
	c.first, c.value, c.count = append(c.first, first), append(c.value, value), append(c.count, count)
}

// firstFailure finds the first true element, and the element of values there. Where arrays may be divided over devices,
// nothing of them is moved to one of these: each looks at its own part.
func firstFailure(b *hlo.Builder, failed, values hlo.Value, divided bool) (place, value hlo.Value) {
	dims := failed.Dims()
	count := shape.Product(dims)
	t := dtype.S32
	if count > 1<<31-1 {
		t = dtype.S64
	}
	if !divided {
		failed, values = b.Reshape(failed, []int64{count}), b.Reshape(values, []int64{count})
		dims = []int64{count}
	}
	var places hlo.Value
	strides := shape.RowMajorStrides(dims)
	for k, size := range dims {
		if size > 1 {
			step := b.Iota(t, dims, k)
			if strides[k] != 1 {
				step = b.Binary(hlo.Multiply, step, b.FullInt(t, strides[k], dims...))
			}
			if places.Valid() {
				step = b.Binary(hlo.Add, places, step)
			}
			places = step
		}
	}
	if !places.Valid() { // of one element
		places = b.FullInt(t, 0, dims...)
	}
	none := b.ScalarInt(t, count)
	all := make([]int, len(dims))
	for k := range all {
		all[k] = k
	}
	place = b.ReduceOp(hlo.Minimum, b.Select(failed, places, b.Broadcast(none, dims, nil)), none, all)
	if divided {
		zero := b.FullInt(values.Dtype(), 0, dims...)
		here := b.Compare("EQ", places, b.Broadcast(place, dims, nil))
		value = b.ReduceOp(hlo.Add, b.Select(here, values, zero), b.ScalarInt(values.Dtype(), 0), all)
	} else {
		value = b.Reshape(b.DynamicSlice(values, []hlo.Value{place}, []int64{1}), nil)
	}
	return place, b.Convert(value, dtype.S64)
}

// output gives the program's last output.
func (c *checks) output(b *hlo.Builder) hlo.Value {
	number, value := b.ScalarInt(dtype.S64, -1), b.ScalarInt(dtype.S64, 0)
	for i := len(c.list) - 1; i >= 0; i-- {
		failed := b.Compare("LT", c.first[i], b.ScalarInt(c.first[i].Dtype(), c.count[i]))
		number = b.Select(failed, b.ScalarInt(dtype.S64, int64(i)), number)
		value = b.Select(failed, c.value[i], value)
	}
	pair := []int64{2}
	isFirst := b.Compare("EQ", b.Iota(dtype.S32, pair, 0), b.FullInt(dtype.S32, 0, 2))
	return b.Select(isFirst, b.Broadcast(number, pair, nil), b.Broadcast(value, pair, nil))
}
