package shape

import (
	"slices"
	"testing"

	"xla_go/gosrc/dtype"
)

func TestStringIsHLONotation(t *testing.T) {
	s := MakeTuple(Make(dtype.F32, 2, 3), Make(dtype.S32))
	if got := s.String(); got != "(f32[2,3], s32[])" {
		t.Fatalf("got %q", got)
	}
	if s.ByteSize() != 28 {
		t.Fatalf("ByteSize = %d", s.ByteSize())
	}
}

func TestRowMajorStridesTreatEmptyDimensionsAsOne(t *testing.T) {
	if got := RowMajorStrides([]int64{2, 0, 3}); !slices.Equal(got, []int64{3, 3, 1}) {
		t.Fatalf("got %v", got)
	}
}

func TestEqualSeesEveryField(t *testing.T) {
	a := Make(dtype.F32, 2, 3)
	for _, b := range []Shape{Make(dtype.F64, 2, 3), Make(dtype.F32, 3, 2), Make(dtype.F32, 2), MakeTuple(a)} {
		if a.Equal(b) {
			t.Errorf("%v equals %v", a, b)
		}
	}
	if !a.Equal(Make(dtype.F32, 2, 3)) {
		t.Error("equal shapes differ")
	}
}
