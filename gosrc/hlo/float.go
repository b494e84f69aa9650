package hlo

import (
	"math"

	"xla_go/gosrc/dtype"
)

// floatFormat describes a float of 8 or 16 bits.
type floatFormat struct {
	mantissa int // bits
	bias     int
	largest  uint64 // bits of the largest finite value
	infinity uint64 // bits of inf; of NaN where there is no inf
	nan      uint64
	sign     uint64 // bit of the sign
	unsigned bool   // zero has no sign
}

var floatFormats = map[dtype.Dtype]floatFormat{
	dtype.F16:        {mantissa: 10, bias: 15, largest: 0x7bff, infinity: 0x7c00, nan: 0x7e00, sign: 0x8000},
	dtype.BF16:       {mantissa: 7, bias: 127, largest: 0x7f7f, infinity: 0x7f80, nan: 0x7fc0, sign: 0x8000},
	dtype.F8E5M2:     {mantissa: 2, bias: 15, largest: 0x7b, infinity: 0x7c, nan: 0x7e, sign: 0x80},
	dtype.F8E4M3FN:   {mantissa: 3, bias: 7, largest: 0x7e, infinity: 0x7f, nan: 0x7f, sign: 0x80},
	dtype.F8E5M2FNUZ: {mantissa: 2, bias: 16, largest: 0x7f, infinity: 0x80, nan: 0x80, sign: 0x80, unsigned: true},
	dtype.F8E4M3FNUZ: {mantissa: 3, bias: 8, largest: 0x7f, infinity: 0x80, nan: 0x80, sign: 0x80, unsigned: true},
}

// FloatBits rounds v once, to nearest with ties to even, and gives the bits of an element of d,
// which must be a float type. A value out of range gives inf, or NaN in a format without inf.
func FloatBits(d dtype.Dtype, v float64) uint64 {
	switch d {
	case dtype.F64:
		return math.Float64bits(v)
	case dtype.F32:
		return uint64(math.Float32bits(float32(v)))
	}
	f := floatFormats[d]
	var sign uint64
	if math.Signbit(v) {
		sign = f.sign
	}
	if math.IsNaN(v) {
		return f.nan
	}
	v = math.Abs(v)
	if v == 0 {
		if f.unsigned {
			return 0
		}
		return sign
	}
	if math.IsInf(v, 0) {
		return f.infinity | sign
	}
	_, exponent := math.Frexp(v) // v in [2^(exponent-1), 2^exponent)
	exponent = max(exponent-1, 1-f.bias)
	// In units of the last place; a carry runs into the exponent by itself.
	quotient := math.RoundToEven(math.Ldexp(v, f.mantissa-exponent))
	bits := uint64(exponent+f.bias-1)<<f.mantissa + uint64(quotient)
	switch {
	case bits > f.largest:
		return f.infinity | sign
	case bits == 0 && f.unsigned:
		return 0
	}
	return bits | sign
}

// highest gives the bits of the greatest value of a float type, inf if asked for and there.
func highest(d dtype.Dtype, infinite bool) uint64 {
	switch d {
	case dtype.F64:
		if infinite {
			return math.Float64bits(math.Inf(1))
		}
		return math.Float64bits(math.MaxFloat64)
	case dtype.F32:
		if infinite {
			return uint64(math.Float32bits(float32(math.Inf(1))))
		}
		return uint64(math.Float32bits(math.MaxFloat32))
	}
	f := floatFormats[d]
	if infinite && f.infinity != f.nan {
		return f.infinity
	}
	return f.largest
}

// lowest gives the bits of the least value.
func lowest(d dtype.Dtype, infinite bool) uint64 {
	return highest(d, infinite) | 1<<(8*d.Size()-1)
}

// FloatValue gives the value of an element of d, a float type, from its bits.
func FloatValue(d dtype.Dtype, bits uint64) float64 {
	switch d {
	case dtype.F64:
		return math.Float64frombits(bits)
	case dtype.F32:
		return float64(math.Float32frombits(uint32(bits)))
	}
	f := floatFormats[d]
	sign := 1.0
	if bits&f.sign != 0 {
		sign = -1
	}
	magnitude := bits &^ f.sign
	switch {
	case f.unsigned && bits == f.nan:
		return math.NaN()
	case magnitude > f.largest:
		if magnitude == f.infinity && f.infinity != f.nan {
			return math.Inf(int(sign))
		}
		return math.NaN()
	}
	exponent := int(magnitude >> f.mantissa)
	fraction := magnitude & (1<<f.mantissa - 1)
	if exponent == 0 {
		exponent = 1
	} else {
		fraction |= 1 << f.mantissa
	}
	return math.Copysign(math.Ldexp(float64(fraction), exponent-f.bias-f.mantissa), sign)
}
