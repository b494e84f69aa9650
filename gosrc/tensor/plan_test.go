package tensor

import (
	"math/rand/v2"
	"slices"
	"testing"

	"xla_go/gosrc/shape"
)

// apply carries a plan out on the numbers 0..n-1 and gives the view's elements in row-major order,
// as the lowering does with HLO.
func apply(p viewPlan, n int64, sizes []int64) []int64 {
	var out []int64
	index := make([]int64, len(sizes))
	for c := shape.Product(sizes); c > 0; c-- {
		place := make([]int64, len(p.factors))
		copy(place, p.start)
		for i, dim := range p.kept {
			place[p.permutation[i]] += index[dim]
		}
		flat := int64(0)
		for i, f := range p.factors {
			flat = flat*f + place[i]
		}
		out = append(out, flat)
		for d := len(sizes) - 1; d >= 0; d-- {
			if index[d]++; index[d] < sizes[d] {
				break
			}
			index[d] = 0
		}
	}
	return out
}

func want(sizes, strides []int64, offset int64) []int64 {
	var out []int64
	index := make([]int64, len(sizes))
	for c := shape.Product(sizes); c > 0; c-- {
		at := offset
		for d := range sizes {
			at += index[d] * strides[d]
		}
		out = append(out, at)
		for d := len(sizes) - 1; d >= 0; d-- {
			if index[d]++; index[d] < sizes[d] {
				break
			}
			index[d] = 0
		}
	}
	return out
}

// TestPlanReadsTheRightElements makes random views by torch's own view operations (slice with
// step, transpose, expand, select, unsqueeze) and compares the plan with the strides' meaning.
func TestPlanReadsTheRightElements(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	planned := 0
	for round := 0; round < 5000; round++ {
		var sizes []int64
		for i := random.IntN(4); i >= 0; i-- {
			sizes = append(sizes, 1+random.Int64N(5))
		}
		n := shape.Product(sizes)
		strides := make([]int64, len(sizes))
		acc := int64(1)
		for i := len(sizes) - 1; i >= 0; i-- {
			strides[i], acc = acc, acc*sizes[i]
		}
		offset := int64(0)
		for k := random.IntN(4); k > 0 && len(sizes) > 0; k-- {
			d := random.IntN(len(sizes))
			switch random.IntN(5) {
			case 0:
				start, step := random.Int64N(sizes[d]), 1+random.Int64N(3)
				length := 1 + random.Int64N(sizes[d]-start)
				offset += start * strides[d]
				sizes[d], strides[d] = (length+step-1)/step, strides[d]*step
			case 1:
				e := random.IntN(len(sizes))
				sizes[d], sizes[e], strides[d], strides[e] = sizes[e], sizes[d], strides[e], strides[d]
			case 2:
				if sizes[d] == 1 {
					sizes[d], strides[d] = 3, 0
				}
			case 3:
				offset += random.Int64N(sizes[d]) * strides[d]
				sizes, strides = append(sizes[:d:d], sizes[d+1:]...), append(strides[:d:d], strides[d+1:]...)
			case 4:
				sizes, strides = append(sizes, 1), append(strides, 1)
			}
		}
		p := planView(n, sizes, strides, offset)
		if !p.ok {
			continue
		}
		planned++
		if got, right := apply(p, n, sizes), want(sizes, strides, offset); !slices.Equal(got, right) {
			t.Fatalf("storage %d sizes %v strides %v offset %d: plan %+v reads %v, want %v", n, sizes, strides, offset, p, got, right)
		}
		if shape.Product(p.factors) != p.padded || p.padded < n {
			t.Fatalf("plan %+v does not cover a storage of %d", p, n)
		}
	}
	if planned < 4000 {
		t.Errorf("only %d of 5000 views have a plan: the rest would be gathers", planned)
	}
}

func TestOverlappingViewsHaveNoPlan(t *testing.T) {
	for _, c := range []struct {
		n              int64
		sizes, strides []int64
		offset         int64
	}{
		{5, []int64{3, 3}, []int64{1, 1}, 0},
		{16, []int64{4}, []int64{5}, 0}, // diagonal of 4x4: a plan reshapes 16 to 4 rows of 5, padded
		{10, []int64{3, 4}, []int64{2, 1}, 0},
	} {
		p := planView(c.n, c.sizes, c.strides, c.offset)
		if p.ok && !slices.Equal(apply(p, c.n, c.sizes), want(c.sizes, c.strides, c.offset)) {
			t.Errorf("sizes %v strides %v: wrong plan %+v", c.sizes, c.strides, p)
		}
	}
}
