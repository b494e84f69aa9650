package dtype

import "testing"

func TestNumberingsRoundTrip(t *testing.T) {
	for d := range table {
		d := Dtype(d)
		if n, ok := d.Torch(); ok && FromTorch(n) != d {
			t.Errorf("%v: torch number %d comes back as %v", d, n, FromTorch(n))
		}
		if n := d.PJRT(); n > 0 && FromPJRT(n) != d {
			t.Errorf("%v: PJRT number %d comes back as %v", d, n, FromPJRT(n))
		}
	}
}

func TestUnknownNumbersAreInvalid(t *testing.T) {
	for _, n := range []int32{-1, 12, 13, 63, 1000} {
		if FromTorch(n) != Invalid {
			t.Errorf("FromTorch(%d) = %v", n, FromTorch(n))
		}
	}
	if FromPJRT(-1) != Invalid || FromPJRT(1000) != Invalid {
		t.Error("unknown PJRT type is not Invalid")
	}
}

func TestOpMathOfSmallFloatsIsF32(t *testing.T) {
	for d, want := range map[Dtype]Dtype{BF16: F32, F16: F32, F8E5M2: F32, F32: F32, F64: F64, S8: S8, Bool: Bool, C64: C64} {
		if got := d.OpMath(); got != want {
			t.Errorf("%v.OpMath() = %v, want %v", d, got, want)
		}
	}
}
