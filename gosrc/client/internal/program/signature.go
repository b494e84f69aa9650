package program

import (
	"bytes"
	"strconv"
	"strings"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// mlirTypes are the element types as MLIR's text spells them.
var mlirTypes = map[string]dtype.Dtype{
	"i1": dtype.Bool, "i8": dtype.S8, "i16": dtype.S16, "i32": dtype.S32, "i64": dtype.S64,
	"ui8": dtype.U8, "ui16": dtype.U16, "ui32": dtype.U32, "ui64": dtype.U64,
	"f16": dtype.F16, "bf16": dtype.BF16, "f32": dtype.F32, "f64": dtype.F64,
	"complex<f32>": dtype.C64, "complex<f64>": dtype.C128,
	"f8E5M2": dtype.F8E5M2, "f8E4M3FN": dtype.F8E4M3FN, "f8E5M2FNUZ": dtype.F8E5M2FNUZ, "f8E4M3FNUZ": dtype.F8E4M3FNUZ,
}

// signature reads the shapes of parameters and results from the head of a module's main function. A
// compiled program that is sharded tells the shapes of its parts only.
func signature(text []byte) (parameters, results []shape.Shape, err error) {
	_, head, found := bytes.Cut(text, []byte("@main("))
	if !found {
		return nil, nil, status.Errorf(status.InvalidArgument, "expected StableHLO text with a function @main, to know the unsharded shapes of a sharded program")
	}
	parameters, rest, err := tensorTypes(head, ')')
	if err != nil {
		return nil, nil, err
	}
	rest, hasResults := bytes.CutPrefix(bytes.TrimSpace(rest), []byte("->"))
	if !hasResults {
		return parameters, nil, nil
	}
	if inner, several := bytes.CutPrefix(bytes.TrimSpace(rest), []byte("(")); several {
		results, _, err = tensorTypes(inner, ')')
	} else {
		results, _, err = tensorTypes(rest, '{')
	}
	return parameters, results, err
}

// tensorTypes reads the tensor types up to a closing character, past attributes and texts.
func tensorTypes(text []byte, end byte) (types []shape.Shape, rest []byte, err error) {
	const tensor = "tensor<"
	depth := 0 // of attributes' braces and brackets
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case depth == 0 && c == end:
			return types, text[i+1:], nil
		case strings.IndexByte("{[(", c) >= 0:
			depth++
		case strings.IndexByte("}])", c) >= 0:
			depth--
		case depth == 0 && bytes.HasPrefix(text[i:], []byte(tensor)):
			body, length := angled(text[i+len(tensor):])
			s, err := tensorType(body)
			if err != nil {
				return nil, nil, err
			}
			types = append(types, s)
			i += len(tensor) + length
		}
	}
	return nil, nil, status.Errorf(status.InvalidArgument, "expected the head of function @main to end with %q", string(end))
}

// angled gives the text up to the closing bracket of a type, and the bracket's position.
func angled(text []byte) (string, int) {
	depth := 1
	for i, c := range text {
		switch c {
		case '<':
			depth++
		case '>':
			if depth--; depth == 0 {
				return string(text[:i]), i
			}
		}
	}
	return string(text), len(text)
}

// tensorType reads a type such as 2x3xf32.
func tensorType(text string) (shape.Shape, error) {
	s := shape.Shape{Dims: []int64{}}
	rest := text
	for {
		number, tail, found := strings.Cut(rest, "x")
		n, err := strconv.ParseInt(number, 10, 64)
		if !found || err != nil {
			break
		}
		s.Dims, rest = append(s.Dims, n), tail
	}
	name, _, _ := strings.Cut(rest, ",") // an encoding may follow
	var known bool
	if s.Dtype, known = mlirTypes[strings.TrimSpace(name)]; !known {
		return s, status.Errorf(status.Unimplemented, "expected a tensor of a fixed shape and a known element type, got tensor<%s>", text)
	}
	return s, nil
}
