package tensor

import (
	"slices"
	"testing"

	"xla_go/gosrc/shape"
)

// FuzzPlanView: a plan of any view that lies in its storage reads what its strides say.
func FuzzPlanView(f *testing.F) {
	f.Add(uint16(24), uint8(0), []byte{2, 12, 3, 4, 4, 1})
	f.Add(uint16(24), uint8(3), []byte{4, 5, 1, 0, 3, 0})
	f.Add(uint16(5), uint8(0), []byte{3, 1, 3, 1})
	f.Fuzz(func(t *testing.T, n uint16, offset uint8, pairs []byte) {
		var sizes, strides []int64
		last := int64(offset)
		for ; len(pairs) >= 2 && len(sizes) < 6; pairs = pairs[2:] {
			size, stride := int64(pairs[0]), int64(pairs[1])
			sizes, strides = append(sizes, size), append(strides, stride)
			last += max(size-1, 0) * stride
		}
		// What torch lets through: the last element lies in the storage; views without elements are not planned.
		if count := shape.Product(sizes); count == 0 || count > 1<<16 || last >= int64(n) {
			return
		}
		p := planView(int64(n), sizes, strides, int64(offset))
		if !p.ok {
			return
		}
		if got, right := apply(p, int64(n), sizes), want(sizes, strides, int64(offset)); !slices.Equal(got, right) {
			t.Fatalf("storage %d sizes %v strides %v offset %d: plan %+v reads %v, want %v", n, sizes, strides, offset, p, got, right)
		}
		if shape.Product(p.factors) != p.padded || p.padded < int64(n) {
			t.Fatalf("plan %+v does not cover a storage of %d", p, n)
		}
	})
}
