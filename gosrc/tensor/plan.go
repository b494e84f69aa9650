package tensor

import "sort"

// viewPlan says how a strided view lies in a flat, row-major storage, as a reshape of the storage,
// a slice of that, a transpose and a broadcast. Where no such plan exists (overlapping windows,
// diagonals) the view is a gather.
type viewPlan struct {
	ok bool
	// padded is the length to which the flat storage is extended before the reshape; equal to
	// the storage's own where the outermost stride divides it.
	padded int64
	// factors is the reshape; start and size the slice in it. The last dimension is a remainder
	// of size 1 where no view dimension has stride 1.
	factors, start, size []int64
	// strides are those of the factors in the flat storage.
	strides []int64
	// kept are the view's dimensions that move through memory, in the view's order; permutation[i]
	// is the place of kept[i] among the factors.
	kept        []int
	permutation []int
	// whole is true where the slice is all of the storage.
	whole bool
}

// planView plans a view on a storage of n elements. Strides are not negative (torch has no others).
func planView(n int64, sizes, strides []int64, offset int64) viewPlan {
	var p viewPlan
	for i := range sizes {
		if sizes[i] != 1 && strides[i] != 0 {
			p.kept = append(p.kept, i)
		}
	}
	order := append([]int(nil), p.kept...)
	sort.SliceStable(order, func(a, b int) bool { return strides[order[a]] > strides[order[b]] })
	p.padded = n
	outer := int64(0) // stride of the dimension before
	rest := offset
	for k, dim := range order {
		stride := strides[dim]
		var factor int64
		if k == 0 {
			factor = (n + stride - 1) / stride
			p.padded = factor * stride
		} else {
			if outer%stride != 0 {
				return viewPlan{}
			}
			factor = outer / stride
		}
		first := rest / stride
		rest %= stride
		if first+sizes[dim] > factor {
			return viewPlan{}
		}
		p.factors, p.start, p.size = append(p.factors, factor), append(p.start, first), append(p.size, sizes[dim])
		p.strides = append(p.strides, stride)
		outer = stride
	}
	if len(order) == 0 {
		outer = n
	}
	if outer > 1 || len(order) == 0 {
		p.factors, p.start, p.size = append(p.factors, outer), append(p.start, rest), append(p.size, 1)
		p.strides = append(p.strides, 1)
	}
	p.whole = p.padded == n
	for i := range p.factors {
		p.whole = p.whole && p.size[i] == p.factors[i]
	}
	p.permutation = make([]int, len(p.kept))
	for place, dim := range order {
		for i, k := range p.kept {
			if k == dim {
				p.permutation[i] = place
			}
		}
	}
	p.ok = true
	return p
}
