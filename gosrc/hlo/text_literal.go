package hlo

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"xla_go/gosrc/dtype"
	pb "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/shape"
)

// printedElements is the size up to which a constant's elements are printed.
const printedElements = 10

func (p *printer) literal(l *pb.LiteralProto) {
	s := l.GetShape()
	if s.GetElementType() == pb.PrimitiveType_TUPLE {
		p.write("(")
		for i, t := range l.TupleLiterals {
			if i > 0 {
				p.write(", ")
			}
			p.literal(t)
		}
		p.write(")")
		return
	}
	n := shape.Product(s.GetDimensions())
	if n > printedElements {
		p.write("{...}")
		return
	}
	elements := elementTexts(l)
	if int64(len(elements)) != n { // a type that is not known here
		p.write("{...}")
		return
	}
	p.nested(s.GetDimensions(), elements)
}

func (p *printer) nested(dims []int64, elements []string) {
	if len(dims) == 0 {
		p.write(elements[0])
		return
	}
	if len(dims) == 1 {
		p.write("{", strings.Join(elements, ", "), "}")
		return
	}
	p.write("{ ")
	step := shape.Product(dims[1:])
	for i := range dims[0] {
		if i > 0 {
			p.write(", ")
		}
		p.nested(dims[1:], elements[i*step:(i+1)*step])
	}
	p.write(" }")
}

func elementTexts(l *pb.LiteralProto) []string {
	var out []string
	d := dtype.Dtype(l.GetShape().GetElementType())
	small := func(data []byte, text func(uint64) string) {
		for i := 0; i+int(d.Size()) <= len(data); i += int(d.Size()) {
			if d.Size() == 1 {
				out = append(out, text(uint64(data[i])))
			} else {
				out = append(out, text(uint64(binary.LittleEndian.Uint16(data[i:]))))
			}
		}
	}
	signed := func(v uint64) string { return integer(int64(v) << (64 - 8*d.Size()) >> (64 - 8*d.Size())) }
	unsigned := func(v uint64) string { return strconv.FormatUint(v, 10) }
	float := func(v uint64) string { return floatText(FloatValue(d, v), 32) }
	switch d {
	case dtype.Bool:
		for _, v := range l.Preds {
			out = append(out, strconv.FormatBool(v))
		}
	case dtype.S8:
		small(l.S8S, signed)
	case dtype.S16:
		small(l.S16S, signed)
	case dtype.U8:
		small(l.U8S, unsigned)
	case dtype.U16:
		small(l.U16S, unsigned)
	case dtype.S32:
		for _, v := range l.S32S {
			out = append(out, integer(int64(v)))
		}
	case dtype.S64:
		for _, v := range l.S64S {
			out = append(out, integer(v))
		}
	case dtype.U32:
		for _, v := range l.U32S {
			out = append(out, unsigned(uint64(v)))
		}
	case dtype.U64:
		for _, v := range l.U64S {
			out = append(out, unsigned(v))
		}
	case dtype.F32:
		for _, v := range l.F32S {
			out = append(out, floatText(float64(v), 32))
		}
	case dtype.F64:
		for _, v := range l.F64S {
			out = append(out, floatText(v, 64))
		}
	case dtype.C64:
		for i := 0; i+1 < len(l.C64S); i += 2 {
			out = append(out, "("+floatText(float64(l.C64S[i]), 32)+", "+floatText(float64(l.C64S[i+1]), 32)+")")
		}
	case dtype.C128:
		for i := 0; i+1 < len(l.C128S); i += 2 {
			out = append(out, "("+floatText(l.C128S[i], 64)+", "+floatText(l.C128S[i+1], 64)+")")
		}
	case dtype.F16:
		small(l.F16S, float)
	case dtype.BF16:
		small(l.Bf16S, float)
	case dtype.F8E5M2:
		small(l.F8E5M2S, float)
	case dtype.F8E4M3FN:
		small(l.F8E4M3Fns, float)
	case dtype.F8E5M2FNUZ:
		small(l.F8E5M2Fnuzs, float)
	case dtype.F8E4M3FNUZ:
		small(l.F8E4M3Fnuzs, float)
	}
	return out
}

func floatText(v float64, bits int) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	return strconv.FormatFloat(v, 'g', -1, bits)
}
