package ops

import (
	"strconv"
	"strings"

	"xla_go/gosrc/dtype"
)

// Pieces of torch's messages.

// dimsText gives sizes as torch prints them, for example "[2, 3]".
func dimsText(dims []int64) string {
	var s strings.Builder
	s.WriteByte('[')
	for i, d := range dims {
		if i > 0 {
			s.WriteString(", ")
		}
		s.WriteString(strconv.FormatInt(d, 10))
	}
	s.WriteByte(']')
	return s.String()
}

// demangledName gives the C++ type of an element as caffe2::TypeMeta prints it.
func demangledName(d dtype.Dtype) string {
	switch d {
	case dtype.Bool:
		return "bool"
	case dtype.S8:
		return "signed char"
	case dtype.U8:
		return "unsigned char"
	case dtype.S16:
		return "short int"
	case dtype.S32:
		return "int"
	case dtype.S64:
		return "long int"
	case dtype.F16:
		return "c10::Half"
	case dtype.BF16:
		return "c10::BFloat16"
	case dtype.F32:
		return "float"
	case dtype.F64:
		return "double"
	case dtype.C64:
		return "c10::complex<float>"
	case dtype.C128:
		return "c10::complex<double>"
	}
	return torchClass(d)
}
