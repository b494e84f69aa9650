package stablehlo

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	pb "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/shape"
)

var elementTypes = map[dtype.Dtype]string{
	dtype.Bool: "i1", dtype.S4: "i4", dtype.S8: "i8", dtype.S16: "i16", dtype.S32: "i32", dtype.S64: "i64",
	dtype.U8: "ui8", dtype.U16: "ui16", dtype.U32: "ui32", dtype.U64: "ui64",
	dtype.F16: "f16", dtype.BF16: "bf16", dtype.F32: "f32", dtype.F64: "f64", dtype.C64: "complex<f32>", dtype.C128: "complex<f64>",
	dtype.F8E5M2: "f8E5M2", dtype.F8E4M3FN: "f8E4M3FN", dtype.F8E5M2FNUZ: "f8E5M2FNUZ", dtype.F8E4M3FNUZ: "f8E4M3FNUZ",
}

// typeOf gives the type of an array.
func (w *writer) typeOf(s *pb.ShapeProto) string {
	if s.GetElementType() == pb.PrimitiveType_TOKEN {
		return "!stablehlo.token"
	}
	element, ok := elementTypes[dtype.Dtype(s.GetElementType())]
	if !ok {
		w.fail("no type is known for element type %s", s.GetElementType())
	}
	var b strings.Builder
	b.WriteString("tensor<")
	for _, d := range s.GetDimensions() {
		b.WriteString(strconv.FormatInt(d, 10) + "x")
	}
	return b.String() + element + ">"
}

// listedElements is the number of elements up to which a constant's elements are listed; more are written as bytes.
const listedElements = 16

// dense writes a constant.
func (w *writer) dense(l *pb.LiteralProto) string {
	d := dtype.Dtype(l.GetShape().GetElementType())
	raw, ok := literalBytes(l, d)
	count := shape.Product(l.GetShape().GetDimensions())
	if size := d.Size(); !ok || size == 0 || int64(len(raw)) != count*size {
		w.fail("opcode constant: expected an array with all its elements, got %s", l.GetShape().GetElementType())
		return ""
	}
	var body string
	switch element := func(i int64) string { return w.elementText(d, raw[i*d.Size():(i+1)*d.Size()]) }; {
	case count == 0:
	case bytes.Equal(raw, bytes.Repeat(raw[:d.Size()], int(count))):
		body = element(0)
	case count > listedElements && d != dtype.Bool: // whose bytes MLIR packs
		body = `"0x` + strings.ToUpper(hex.EncodeToString(raw)) + `"`
	default:
		body = nested(l.Shape.Dimensions, 0, element)
	}
	return fmt.Sprintf("dense<%s> : %s", body, w.typeOf(l.Shape))
}

func nested(dims []int64, at int64, element func(i int64) string) string {
	if len(dims) == 0 {
		return element(at)
	}
	parts := make([]string, dims[0])
	step := shape.Product(dims[1:])
	for i := range parts {
		parts[i] = nested(dims[1:], at+int64(i)*step, element)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (w *writer) elementText(d dtype.Dtype, raw []byte) string {
	switch {
	case d == dtype.Bool:
		return strconv.FormatBool(raw[0] != 0)
	case d.IsComplex():
		half := len(raw) / 2
		return "(" + w.elementText(d.Real(), raw[:half]) + ", " + w.elementText(d.Real(), raw[half:]) + ")"
	}
	var word [8]byte
	copy(word[:], raw)
	bits := binary.LittleEndian.Uint64(word[:])
	switch {
	case d.IsUnsigned():
		return strconv.FormatUint(bits, 10)
	case d.IsIntegral():
		return strconv.FormatInt(int64(bits)<<(64-8*d.Size())>>(64-8*d.Size()), 10)
	}
	v, precise := 0.0, 32
	switch d {
	case dtype.F32:
		v = float64(math.Float32frombits(uint32(bits)))
	case dtype.F64:
		v, precise = math.Float64frombits(bits), 64
	default:
		v = hlo.FloatValue(d, bits)
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprintf("0x%0*X", 2*d.Size(), bits)
	}
	if w.readable {
		return readableFloat(v, precise)
	}
	text := strconv.FormatFloat(v, 'e', -1, precise)
	if mantissa, exponent, _ := strings.Cut(text, "e"); !strings.Contains(mantissa, ".") {
		text = mantissa + ".0e" + exponent
	}
	return text
}

// literalBytes gives a constant's elements as they lie in memory, row-major and little-endian.
func literalBytes(l *pb.LiteralProto, d dtype.Dtype) (raw []byte, ok bool) {
	var numbers any
	switch d {
	case dtype.Bool:
		numbers = l.Preds
	case dtype.S8:
		raw = l.S8S
	case dtype.U8:
		raw = l.U8S
	case dtype.S16:
		raw = l.S16S
	case dtype.U16:
		raw = l.U16S
	case dtype.S32:
		numbers = l.S32S
	case dtype.U32:
		numbers = l.U32S
	case dtype.S64:
		numbers = l.S64S
	case dtype.U64:
		numbers = l.U64S
	case dtype.F32:
		numbers = l.F32S
	case dtype.C64:
		numbers = l.C64S
	case dtype.F64:
		numbers = l.F64S
	case dtype.C128:
		numbers = l.C128S
	case dtype.F16:
		raw = l.F16S
	case dtype.BF16:
		raw = l.Bf16S
	case dtype.F8E5M2:
		raw = l.F8E5M2S
	case dtype.F8E4M3FN:
		raw = l.F8E4M3Fns
	case dtype.F8E5M2FNUZ:
		raw = l.F8E5M2Fnuzs
	case dtype.F8E4M3FNUZ:
		raw = l.F8E4M3Fnuzs
	default:
		return nil, false
	}
	if numbers == nil {
		return raw, true
	}
	raw, err := binary.Append(nil, binary.LittleEndian, numbers)
	return raw, err == nil
}
