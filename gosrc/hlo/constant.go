package hlo

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
)

type scalarKey struct {
	d      dtype.Dtype
	re, im uint64 // the element's bits; im only of a complex
}

// Scalar gives a constant of rank 0. v is rounded to nearest, ties to even, for a float (for a
// complex type it is the real part); an integer takes int64(v), a Bool takes v != 0.
func (b *Builder) Scalar(d dtype.Dtype, v float64) Value {
	switch {
	case d.IsFloat():
		return b.scalar(scalarKey{d: d, re: FloatBits(d, v)})
	case d.IsComplex():
		return b.ScalarComplex(d, v, 0)
	case d == dtype.Bool:
		return b.scalar(scalarKey{d: d, re: boolBit(v != 0)})
	case d == dtype.U64 && v >= 1<<63:
		return b.scalar(scalarKey{d: d, re: uint64(v)})
	case d.IsInteger():
		return b.ScalarInt(d, int64(v))
	}
	return b.fail(opConstant, "expected an element type, got %v", d)
}

// ScalarInt gives a constant of rank 0, exact for every integer type (the low bits of v).
func (b *Builder) ScalarInt(d dtype.Dtype, v int64) Value {
	switch {
	case d.IsInteger():
		mask := ^uint64(0) >> (64 - 8*d.Size())
		return b.scalar(scalarKey{d: d, re: uint64(v) & mask})
	case d == dtype.Bool:
		return b.scalar(scalarKey{d: d, re: boolBit(v != 0)})
	}
	if d == dtype.F32 { // one rounding, not two
		return b.scalar(scalarKey{d: d, re: uint64(math.Float32bits(float32(v)))})
	}
	return b.Scalar(d, float64(v))
}

// ScalarComplex gives a complex constant of rank 0.
func (b *Builder) ScalarComplex(d dtype.Dtype, re, im float64) Value {
	if !d.IsComplex() {
		return b.fail(opConstant, "expected a complex type, got %v", d)
	}
	r := d.Real()
	return b.scalar(scalarKey{d: d, re: FloatBits(r, re), im: FloatBits(r, im)})
}

// Full gives an array of that size in which every element is v (see Scalar).
func (b *Builder) Full(d dtype.Dtype, v float64, dims ...int64) Value {
	return b.Broadcast(b.Scalar(d, v), dims, nil)
}

// FullInt is Full for an exact integer.
func (b *Builder) FullInt(d dtype.Dtype, v int64, dims ...int64) Value {
	return b.Broadcast(b.ScalarInt(d, v), dims, nil)
}

// Constant gives a dense array; data is little-endian, row-major, s.ByteSize() long, and is copied.
func (b *Builder) Constant(s shape.Shape, data []byte) Value {
	if s.Dtype.Size() == 0 {
		return b.fail(opConstant, "expected an array shape, got %v", s)
	}
	if int64(len(data)) != s.ByteSize() {
		return b.fail(opConstant, "expected %d bytes for %v, got %d", s.ByteSize(), s, len(data))
	}
	n, at := b.begin(opConstant, s)
	b.literal(s, data)
	return b.end(n, at)
}

// scalar gives the constant of those bits, one instruction per computation.
func (b *Builder) scalar(key scalarKey) Value {
	if v, ok := b.scalars[key]; ok {
		return v
	}
	var data [16]byte
	size := key.d.Size()
	if key.d.IsComplex() {
		size /= 2
		binary.LittleEndian.PutUint64(data[size:], key.im)
	}
	var re [8]byte
	binary.LittleEndian.PutUint64(re[:], key.re)
	copy(data[:size], re[:])
	s := shape.Make(key.d)
	n, at := b.begin(opConstant, s)
	b.literal(s, data[:key.d.Size()])
	v := b.end(n, at)
	if key.d.IsInteger() {
		value := int64(key.re)
		if key.d.IsSigned() {
			unused := 64 - 8*key.d.Size()
			value = value << unused >> unused
		}
		if value >= 0 || key.d.IsSigned() { // else it is beyond s64
			bound(v, value, value)
		}
	}
	if b.scalars == nil {
		b.scalars = map[scalarKey]Value{}
	}
	b.scalars[key] = v
	return v
}

// literalFields gives LiteralProto's field for each element type. All fields but the integers
// of 32 and 64 bits hold the elements' own little-endian bytes.
var literalFields = map[dtype.Dtype]protowire.Number{
	dtype.Bool: 2, dtype.U8: 3, dtype.S32: 4, dtype.S64: 5, dtype.U32: 6, dtype.U64: 7,
	dtype.F32: 8, dtype.F64: 9, dtype.F16: 11, dtype.C64: 12, dtype.BF16: 13, dtype.S8: 15,
	dtype.U16: 16, dtype.S16: 17, dtype.C128: 18, dtype.F8E5M2: 19, dtype.F8E4M3FN: 20,
	dtype.F8E5M2FNUZ: 24, dtype.F8E4M3FNUZ: 25,
}

// literal writes the LiteralProto of the open instruction.
func (b *Builder) literal(s shape.Shape, data []byte) {
	e := &b.body
	at := e.open(8)
	e.raw(1, b.module.shapes.known(s).bytes)
	field := literalFields[s.Dtype]
	switch s.Dtype {
	case dtype.Bool:
		if len(data) > 0 {
			list := e.open(field)
			for _, x := range data {
				e.buf = append(e.buf, byte(boolBit(x != 0)))
			}
			e.close(list)
		}
	case dtype.S32, dtype.U32, dtype.S64, dtype.U64:
		if len(data) > 0 {
			list := e.open(field)
			for ; len(data) > 0; data = data[s.Dtype.Size():] {
				var v uint64
				switch s.Dtype {
				case dtype.S32:
					v = uint64(int32(binary.LittleEndian.Uint32(data)))
				case dtype.U32:
					v = uint64(binary.LittleEndian.Uint32(data))
				default:
					v = binary.LittleEndian.Uint64(data)
				}
				e.buf = protowire.AppendVarint(e.buf, v)
			}
			e.close(list)
		}
	default:
		e.bytes(field, data)
	}
	e.close(at)
}

func boolBit(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

// MinValue gives the least value of d as a scalar: -inf where there is one.
func (b *Builder) MinValue(d dtype.Dtype) Value {
	if d.IsFloat() {
		return b.scalar(scalarKey{d: d, re: lowest(d, true)})
	}
	return b.MinFinite(d)
}

// MaxValue gives the greatest value of d as a scalar: inf where there is one.
func (b *Builder) MaxValue(d dtype.Dtype) Value {
	if d.IsFloat() {
		return b.scalar(scalarKey{d: d, re: highest(d, true)})
	}
	return b.MaxFinite(d)
}

// MinFinite gives the least finite value of d as a scalar.
func (b *Builder) MinFinite(d dtype.Dtype) Value {
	switch {
	case d.IsFloat():
		return b.scalar(scalarKey{d: d, re: lowest(d, false)})
	case d.IsSigned():
		return b.ScalarInt(d, math.MinInt64>>(64-8*d.Size()))
	case d.IsUnsigned(), d == dtype.Bool:
		return b.ScalarInt(d, 0)
	}
	return b.fail(opConstant, "expected an ordered element type, got %v", d)
}

// MaxFinite gives the greatest finite value of d as a scalar.
func (b *Builder) MaxFinite(d dtype.Dtype) Value {
	switch {
	case d.IsFloat():
		return b.scalar(scalarKey{d: d, re: highest(d, false)})
	case d.IsSigned():
		return b.ScalarInt(d, math.MaxInt64>>(64-8*d.Size()))
	case d.IsUnsigned():
		return b.ScalarInt(d, -1)
	case d == dtype.Bool:
		return b.ScalarInt(d, 1)
	}
	return b.fail(opConstant, "expected an ordered element type, got %v", d)
}
