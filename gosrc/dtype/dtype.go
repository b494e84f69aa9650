// Package dtype names element types and converts between the numberings of the three worlds
// that meet here: XLA's PrimitiveType (xla_data.proto), PJRT_Buffer_Type (pjrt_c_api.h) and
// torch's c10::ScalarType.
package dtype

import "fmt"

// Dtype is an element type, numbered as XLA's PrimitiveType.
type Dtype uint8

// Element types, with the numbers of XLA's PrimitiveType.
const (
	Invalid    Dtype = 0
	Bool       Dtype = 1 // PRED
	S8         Dtype = 2
	S16        Dtype = 3
	S32        Dtype = 4
	S64        Dtype = 5
	U8         Dtype = 6
	U16        Dtype = 7
	U32        Dtype = 8
	U64        Dtype = 9
	F16        Dtype = 10
	F32        Dtype = 11
	F64        Dtype = 12
	Tuple      Dtype = 13
	C64        Dtype = 15
	BF16       Dtype = 16
	Token      Dtype = 17
	C128       Dtype = 18
	F8E5M2     Dtype = 19
	F8E4M3FN   Dtype = 20
	S4         Dtype = 21 // within programs only
	F8E5M2FNUZ Dtype = 24
	F8E4M3FNUZ Dtype = 25
)

type info struct {
	hlo   string // as HLO text spells it
	torch string // as torch spells it, "" where torch has none
	size  int64  // bytes of one element
	pjrt  int32  // PJRT_Buffer_Type
	at    int32  // c10::ScalarType, -1 where torch has none
}

var table = [...]info{
	Invalid:    {"invalid", "", 0, 0, -1},
	Bool:       {"pred", "bool", 1, 1, 11},
	S8:         {"s8", "int8", 1, 2, 1},
	S16:        {"s16", "int16", 2, 3, 2},
	S32:        {"s32", "int32", 4, 4, 3},
	S64:        {"s64", "int64", 8, 5, 4},
	U8:         {"u8", "uint8", 1, 6, 0},
	U16:        {"u16", "uint16", 2, 7, 27},
	U32:        {"u32", "uint32", 4, 8, 28},
	U64:        {"u64", "uint64", 8, 9, 29},
	F16:        {"f16", "float16", 2, 10, 5},
	F32:        {"f32", "float32", 4, 11, 6},
	F64:        {"f64", "float64", 8, 12, 7},
	Tuple:      {"tuple", "", 0, 0, -1},
	C64:        {"c64", "complex64", 8, 14, 9},
	BF16:       {"bf16", "bfloat16", 2, 13, 15},
	Token:      {"token", "", 0, 22, -1},
	C128:       {"c128", "complex128", 16, 15, 10},
	F8E5M2:     {"f8e5m2", "float8_e5m2", 1, 16, 23},
	F8E4M3FN:   {"f8e4m3fn", "float8_e4m3fn", 1, 17, 24},
	S4:         {"s4", "", 1, 0, -1}, // a literal has a byte for each
	F8E5M2FNUZ: {"f8e5m2fnuz", "float8_e5m2fnuz", 1, 19, 25},
	F8E4M3FNUZ: {"f8e4m3fnuz", "float8_e4m3fnuz", 1, 20, 26},
}

func (d Dtype) info() info {
	if int(d) < len(table) && table[d].hlo != "" {
		return table[d]
	}
	return info{fmt.Sprintf("dtype%d", uint8(d)), "", 0, 0, -1}
}

// String gives the name that HLO text uses, for example "f32" or "pred".
func (d Dtype) String() string { return d.info().hlo }

// TorchName gives torch's name without "torch.", for example "float32".
func (d Dtype) TorchName() string {
	if n := d.info().torch; n != "" {
		return n
	}
	return d.String()
}

// Size gives the bytes of one element, 0 for types without elements.
func (d Dtype) Size() int64 { return d.info().size }

// PJRT gives the PJRT_Buffer_Type number, 0 (INVALID) where there is none.
func (d Dtype) PJRT() int32 { return d.info().pjrt }

// Torch gives the c10::ScalarType number; ok is false where torch has no such type.
func (d Dtype) Torch() (number int32, ok bool) { n := d.info().at; return n, n >= 0 }

var fromTorch, fromPJRT = func() (t, p [64]Dtype) {
	for d, i := range table {
		if i.hlo == "" {
			continue
		}
		if i.at >= 0 {
			t[i.at] = Dtype(d)
		}
		if i.pjrt > 0 {
			p[i.pjrt] = Dtype(d)
		}
	}
	return
}()

// FromTorch converts a c10::ScalarType number; Invalid where XLA has no such type.
func FromTorch(number int32) Dtype {
	if number < 0 || int(number) >= len(fromTorch) {
		return Invalid
	}
	return fromTorch[number]
}

// FromPJRT converts a PJRT_Buffer_Type number; Invalid where it is not known here.
func FromPJRT(number int32) Dtype {
	if number < 0 || int(number) >= len(fromPJRT) {
		return Invalid
	}
	return fromPJRT[number]
}

// IsFloat says whether d is a real floating-point type.
func (d Dtype) IsFloat() bool {
	switch d {
	case F16, F32, F64, BF16, F8E5M2, F8E4M3FN, F8E5M2FNUZ, F8E4M3FNUZ:
		return true
	}
	return false
}

// IsComplex says whether d is a complex type.
func (d Dtype) IsComplex() bool { return d == C64 || d == C128 }

// IsSigned says whether d is a signed integer type.
func (d Dtype) IsSigned() bool { return d >= S8 && d <= S64 || d == S4 }

// IsUnsigned says whether d is an unsigned integer type (Bool is not one).
func (d Dtype) IsUnsigned() bool { return d >= U8 && d <= U64 }

// IsInteger says whether d is an integer type (Bool is not one).
func (d Dtype) IsInteger() bool { return d.IsSigned() || d.IsUnsigned() }

// IsIntegral says whether d is an integer type or Bool, as torch's isIntegralType(includeBool).
func (d Dtype) IsIntegral() bool { return d.IsInteger() || d == Bool }

// OpMath gives the type in which torch's CPU and CUDA kernels compute for d: f32 for the
// 16-bit and 8-bit floats, d itself otherwise (at::opmath_type).
func (d Dtype) OpMath() Dtype {
	if d.IsFloat() && d.Size() < 4 {
		return F32
	}
	return d
}

// Real gives the type of the real part of a complex type, d itself otherwise.
func (d Dtype) Real() Dtype {
	switch d {
	case C64:
		return F32
	case C128:
		return F64
	}
	return d
}

// Complex gives the complex type whose parts are d; d itself where there is none.
func (d Dtype) Complex() Dtype {
	switch d {
	case F32:
		return C64
	case F64:
		return C128
	}
	return d
}
