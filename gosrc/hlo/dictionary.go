package hlo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// mlirDictionary writes a JSON object as MLIR writes a dictionary: whole numbers as i64, others as f32, and lists of one type as
// dense elements.
func mlirDictionary(object string) (string, error) {
	if object == "" {
		return "{}", nil
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(object)))
	decoder.UseNumber()
	var entries map[string]any
	if err := decoder.Decode(&entries); err != nil {
		return "", fmt.Errorf("expected a JSON object as attributes, got %v", err)
	}
	parts := make([]string, 0, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		text, kind, err := mlirAttribute(entries[name])
		if err != nil {
			return "", fmt.Errorf("attribute %s: %w", name, err)
		}
		if kind != "" {
			text += " : " + kind
		}
		if plainName(name) != name || name == "" || '0' <= name[0] && name[0] <= '9' {
			name = mlirText(name)
		}
		parts = append(parts, name+" = "+text)
	}
	return "{" + strings.Join(parts, ", ") + "}", nil
}

// mlirAttribute writes one value, and gives its type where MLIR writes one after it.
func mlirAttribute(value any) (text, kind string, err error) {
	switch v := value.(type) {
	case bool:
		return strconv.FormatBool(v), "", nil
	case string:
		return mlirText(v), "", nil
	case json.Number:
		return mlirNumber(v)
	case []any:
		return mlirList(v)
	}
	return "", "", fmt.Errorf("expected a bool, number, text or list, got %v", value)
}

func mlirNumber(v json.Number) (text, kind string, err error) {
	if !strings.ContainsAny(v.String(), ".eEIN") {
		whole, err := v.Int64()
		return strconv.FormatInt(whole, 10), "i64", err
	}
	number, err := v.Float64()
	text = strconv.FormatFloat(number, 'e', 6, 64)
	if back, _ := strconv.ParseFloat(text, 32); back != float64(float32(number)) {
		text = strconv.FormatFloat(number, 'e', -1, 32)
		if !strings.Contains(text, ".") {
			text = strings.Replace(text, "e", ".0e", 1)
		}
	}
	return text, "f32", err
}

func mlirList(list []any) (text, kind string, err error) {
	if len(list) == 0 {
		return "[]", "", nil
	}
	parts := make([]string, len(list))
	for i, one := range list {
		part, of, err := mlirAttribute(one)
		if err != nil {
			return "", "", err
		}
		if _, isBool := one.(bool); isBool {
			of = "i1"
		}
		if of == "" || i > 0 && of != kind {
			return "", "", fmt.Errorf("expected a list of bools, of whole numbers or of others, got %v", list)
		}
		parts[i], kind = part, of
	}
	text = "[" + strings.Join(parts, ", ") + "]"
	return "dense<" + text + ">", fmt.Sprintf("tensor<%dx%s>", len(list), kind), nil
}

// mlirText quotes text.
func mlirText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, "\\%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
