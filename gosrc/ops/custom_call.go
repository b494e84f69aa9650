package ops

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"slices"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Calls of a target that the plugin knows under a name (`xla_go.custom_call`). The schema is ours (torch_adapter/collective.cpp).

func init() {
	register(&Row{Name: "xla_go::custom_call", Meta: metaCustomCall, LowerMany: lowerCustomCall})
}

// attrBytes adds text, or other bytes.
func (c *Call) attrBytes(text []byte) {
	c.Attr(int64(len(text)))
	for chunk := range slices.Chunk(text, 8) {
		var word [8]byte
		copy(word[:], chunk)
		c.Attr(int64(binary.LittleEndian.Uint64(word[:])))
	}
}

// readBytes reads what attrBytes added.
func readBytes(l *ir.Lowering) []byte {
	var text []byte
	size := int(l.Int())
	for len(text) < size {
		text = binary.LittleEndian.AppendUint64(text, uint64(l.Int()))
	}
	return text[:size]
}

// metaCustomCall: (inputs, results, target, configuration, side_effect, api_version, attributes). attributes are a JSON object
// of texts.
func metaCustomCall(c *Call) error {
	inputs, results := c.list(0), c.Args[1].Tensors
	switch {
	case len(results) == 0:
		return status.Torchf(status.ValueError, "%s(): expected at least one result, got none", c.row.Name)
	case c.Text(2) == "":
		return status.Torchf(status.ValueError, "%s(): expected the name of a target, got none", c.row.Name)
	}
	if _, err := frontendAttributes([]byte(c.Text(6))); err != nil {
		return status.Torchf(status.ValueError, "%s(): expected a JSON object of texts as attributes, got %v", c.row.Name, err)
	}
	c.Attr(int64(len(results)))
	for k := range results {
		c.Attr(int64(results[k].Dtype))
		c.AttrInts(results[k].View.Sizes)
	}
	for _, i := range [...]int{2, 3, 6} {
		c.attrBytes([]byte(c.Text(i)))
	}
	c.AttrBool(c.Bool(4))
	c.Attr(c.Int(5, 0))
	c.Operand(inputs...)
	many := c.Many()
	for k := range results {
		if err := c.WriteTo(&results[k], c.Element(many, k, results[k].Dtype, results[k].View.Sizes)); err != nil {
			return err
		}
	}
	return nil
}

func lowerCustomCall(l *ir.Lowering) []hlo.Value {
	results := make([]shape.Shape, l.Int())
	for k := range results {
		d := dtype.Dtype(l.Int())
		results[k] = shape.Shape{Dtype: d, Dims: slices.Clone(l.Ints())}
	}
	target, configuration := readBytes(l), readBytes(l)
	attributes, err := frontendAttributes(readBytes(l))
	if err != nil {
		panic(err) // metaCustomCall has read them
	}
	o := hlo.CallOptions{SideEffect: l.Bool(), APIVersion: l.Int(), Attributes: attributes}
	return l.B.CustomCalls(string(target), operandsOf(l), results, configuration, o)
}

// frontendAttributes reads a JSON object of texts; their names ascend.
func frontendAttributes(text []byte) ([]hlo.FrontendAttribute, error) {
	var m map[string]string
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	var list []hlo.FrontendAttribute
	for name, value := range m {
		list = append(list, hlo.FrontendAttribute{Name: name, Value: value})
	}
	slices.SortFunc(list, func(a, b hlo.FrontendAttribute) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}
