package hlo_test

import (
	"fmt"
	"math"
	"testing"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/shape"
)

func TestBoundsOfPositions(t *testing.T) {
	b := hlo.NewBuilder("bounds")
	unknown := b.Parameter(shape.Make(dtype.S64, 6), "x")
	iota := b.Iota(dtype.S64, []int64{6}, 0)
	five := b.FullInt(dtype.S64, 5, 6)
	scalar := func(v int64) hlo.Value { return b.ScalarInt(dtype.S64, v) }
	mask := b.Compare("LT", unknown, five)
	least := b.FullInt(dtype.S64, math.MinInt64, 6)
	before := lessOf2(b)
	for _, c := range []struct {
		name  string
		value hlo.Value
		want  string
	}{
		{"a parameter", unknown, "unknown"},
		{"iota", iota, "[0, 5]"},
		{"iota of nothing", b.Iota(dtype.S64, []int64{0}, 0), "unknown"},
		{"a constant", b.FullInt(dtype.S32, -3, 2), "[-3, -3]"},
		{"an unsigned constant", b.ScalarInt(dtype.U8, -1), "[255, 255]"},
		{"beyond s64", b.ScalarInt(dtype.U64, -1), "unknown"},
		{"a float", b.Full(dtype.F32, 1, 2), "unknown"},
		{"a sum", b.Binary(hlo.Add, iota, five), "[5, 10]"},
		{"a difference", b.Binary(hlo.Subtract, iota, five), "[-5, 0]"},
		{"a product", b.Binary(hlo.Multiply, b.Binary(hlo.Subtract, iota, five), five), "[-25, 0]"},
		{"a sum with what is unknown", b.Binary(hlo.Add, iota, unknown), "unknown"},
		{"a sum that wraps", b.Binary(hlo.Add, least, b.FullInt(dtype.S64, -1, 6)), "unknown"},
		{"a difference that wraps", b.Binary(hlo.Subtract, b.FullInt(dtype.S64, 0, 6), least), "unknown"},
		{"a product that wraps", b.Binary(hlo.Multiply, least, b.FullInt(dtype.S64, -1, 6)), "unknown"},
		{"a sum that its type cannot hold", b.Binary(hlo.Add, b.FullInt(dtype.S8, 100, 2), b.FullInt(dtype.S8, 100, 2)), "unknown"},
		{"a quotient", b.Binary(hlo.Divide, iota, five), "unknown"},
		{"a minimum", b.Binary(hlo.Minimum, iota, b.FullInt(dtype.S64, 3, 6)), "[0, 3]"},
		{"a choice", b.Select(mask, iota, b.FullInt(dtype.S64, 9, 6)), "[0, 9]"},
		{"a choice of what is unknown", b.Select(mask, iota, unknown), "unknown"},
		{"clamped", b.Clamp(scalar(-2), unknown, scalar(7)), "[-2, 7]"},
		{"clamped further", b.Clamp(scalar(2), iota, scalar(7)), "[2, 5]"},
		{"clamped out of its range", b.Clamp(scalar(8), iota, scalar(9)), "[8, 8]"},
		{"clamped between crossed limits", b.Clamp(scalar(9), iota, scalar(8)), "unknown"},
		{"converted", b.Convert(iota, dtype.S32), "[0, 5]"},
		{"converted to what cannot hold it", b.Convert(b.FullInt(dtype.S64, 300, 2), dtype.U8), "unknown"},
		{"converted from bool", b.Convert(mask, dtype.S64), "[0, 1]"},
		{"converted from a float", b.Convert(b.Full(dtype.F32, 2, 2), dtype.S64), "unknown"},
		{"reshaped, transposed, sliced", b.Slice(b.Transpose(b.Reshape(iota, []int64{2, 3}), []int{1, 0}), []int64{0, 0}, []int64{2, 1}, nil), "[0, 5]"},
		{"joined", b.Concatenate([]hlo.Value{iota, five}, 0), "[0, 5]"},
		{"joined with nothing", b.Concatenate([]hlo.Value{iota, b.Slice(unknown, []int64{0}, []int64{0}, nil)}, 0), "[0, 5]"},
		{"padded", b.Pad(iota, scalar(-1), []int64{1}, nil, nil), "[-1, 5]"},
		{"taken", b.DynamicSlice(iota, []hlo.Value{scalar(0)}, []int64{2}), "[0, 5]"},
		{"the least of some", b.ReduceOp(hlo.Minimum, iota, scalar(math.MaxInt64), []int{0}), "[0, 5]"},
		{"the least of none", b.ReduceOp(hlo.Minimum, b.Iota(dtype.S64, []int64{0}, 0), scalar(4), []int{0}), "[4, 4]"},
		{"a sum of all", b.ReduceOp(hlo.Add, iota, scalar(0), []int{0}), "unknown"},
		{"sorted along", b.Sort([]hlo.Value{unknown, iota}, 0, true, before)[1], "[0, 5]"},
		{"sorted", b.Sort([]hlo.Value{unknown, iota}, 0, true, before)[0], "unknown"},
	} {
		got := "unknown"
		if low, high, known := c.value.Bounds(); known {
			got = fmt.Sprintf("[%d, %d]", low, high)
		}
		if got != c.want {
			t.Errorf("%s: expected %s, got %s", c.name, c.want, got)
		}
	}
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
}

// lessOf2 orders by the first of two s64 operands.
func lessOf2(b *hlo.Builder) *hlo.Computation {
	return b.Computation("before", func(sub *hlo.Builder) {
		x, y := sub.Parameter(shape.Make(dtype.S64), "x"), sub.Parameter(shape.Make(dtype.S64), "y")
		sub.Parameter(shape.Make(dtype.S64), "i")
		sub.Parameter(shape.Make(dtype.S64), "j")
		sub.Return(sub.Compare("LT", x, y))
	})
}
