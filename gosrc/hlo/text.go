package hlo

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"xla_go/gosrc/dtype"
	pb "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/status"
)

// Dump gives a module as HLO text. The bytes are an HloModuleProto, or a message that holds one
// in its first field, as PJRT gives for optimized programs. An opcode that is not known here
// prints like any other, with the attributes that are.
func Dump(module []byte) (string, error) {
	m, err := decode("dump", module)
	if err != nil {
		return "", err
	}
	p := printer{computations: map[int64]string{}, instructions: map[int64]string{}}
	for _, c := range m.Computations {
		p.computations[c.Id] = c.Name
		for _, i := range c.Instructions {
			p.instructions[i.Id] = i.Name
		}
	}
	p.header(m)
	for _, c := range m.Computations {
		p.computation(c, c.Id == m.EntryComputationId)
	}
	return p.String(), nil
}

// NamedModule gives a module (see Dump) as an HloModuleProto, and its name.
func NamedModule(module []byte) (name string, serialized []byte, err error) {
	m, err := decode("named_module", module)
	if err != nil {
		return "", nil, err
	}
	serialized, err = proto.Marshal(m)
	return m.Name, serialized, err
}

// ProtoText writes a module in the text format of protocol buffers.
func ProtoText(module []byte) (string, error) {
	m, err := decode("proto_text", module)
	if err != nil {
		return "", err
	}
	text, err := prototext.MarshalOptions{Multiline: true}.Marshal(m)
	return strings.ReplaceAll(string(text), ":  ", ": "), err // the library spaces it differently from build to build
}

// ProtoJSON writes a module in the JSON format of protocol buffers.
func ProtoJSON(module []byte) (string, error) {
	m, err := decode("proto_json", module)
	if err != nil {
		return "", err
	}
	text, err := protojson.Marshal(m)
	return string(text), err
}

// CountOpcodes counts the instructions of each opcode over all computations of a module (see
// Dump), those of fusions included.
func CountOpcodes(module []byte) (map[string]int, error) {
	m, err := decode("count_opcodes", module)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, c := range m.Computations {
		for _, i := range c.Instructions {
			counts[i.Opcode]++
		}
	}
	return counts, nil
}

// Module gives the decoded form of Build's bytes or of PJRT's (see Dump).
func Module(module []byte) (*pb.HloModuleProto, error) { return decode("module", module) }

func decode(op string, module []byte) (*pb.HloModuleProto, error) {
	m := &pb.HloModuleProto{}
	err := proto.Unmarshal(module, m)
	if err == nil && len(m.Computations) > 0 {
		return m, nil
	}
	wrapped := &pb.HloProto{}
	if proto.Unmarshal(module, wrapped) == nil && len(wrapped.GetHloModule().GetComputations()) > 0 {
		return wrapped.HloModule, nil
	}
	if err == nil {
		return nil, status.Errorf(status.InvalidArgument, "%s(): expected an HLO module, got %d bytes without computations", op, len(module))
	}
	return nil, status.Errorf(status.InvalidArgument, "%s(): expected an HLO module: %v", op, err)
}

type printer struct {
	strings.Builder
	computations map[int64]string
	instructions map[int64]string
}

func (p *printer) write(parts ...string) {
	for _, s := range parts {
		p.WriteString(s)
	}
}

func (p *printer) header(m *pb.HloModuleProto) {
	p.write("HloModule ", m.Name)
	if a := m.InputOutputAlias.GetEntries(); len(a) > 0 {
		p.write(", input_output_alias={")
		for i, e := range a {
			p.comma(i)
			p.write(" {", integers(e.OutputShapeIndex), "}: (", integer(e.ParameterNumber), ", {",
				integers(e.ParameterShapeIndex), "}, ", strings.ToLower(strings.ReplaceAll(e.Kind.String(), "_", "-")), ")")
		}
		p.write(" }")
	}
	if d := m.BufferDonor.GetEntries(); len(d) > 0 {
		p.write(", buffer_donor={")
		for i, e := range d {
			p.comma(i)
			p.write(" (", integer(e.ParameterNumber), ", {", integers(e.ParameterShapeIndex), "})")
		}
		p.write(" }")
	}
	if s := m.HostProgramShape; s != nil {
		p.write(", entry_computation_layout={(")
		for i, t := range s.Parameters {
			if i > 0 {
				p.write(", ")
			}
			p.shape(t, true)
		}
		p.write(")->")
		p.shape(s.Result, true)
		p.write("}")
	}
	p.write("\n")
	p.sources(m.StackFrameIndex)
}

// sources prints the index of frames, which instructions refer to by stack_frame_id.
func (p *printer) sources(index *pb.StackFrameIndexProto) {
	if len(index.GetStackFrames()) == 0 {
		return
	}
	list := func(title string, count int, line func(i int) string) {
		p.write("\n", title, "\n")
		for i := range count {
			p.write(integer(int64(i)+1), " ", line(i), "\n")
		}
	}
	list("FileNames", len(index.FileNames), func(i int) string { return strconv.Quote(index.FileNames[i]) })
	list("FunctionNames", len(index.FunctionNames), func(i int) string { return strconv.Quote(index.FunctionNames[i]) })
	list("FileLocations", len(index.FileLocations), func(i int) string {
		l := index.FileLocations[i]
		return fmt.Sprintf("{file_name_id=%d function_name_id=%d line=%d}", l.FileNameId, l.FunctionNameId, l.Line)
	})
	list("StackFrames", len(index.StackFrames), func(i int) string {
		f := index.StackFrames[i]
		return fmt.Sprintf("{file_location_id=%d parent_frame_id=%d}", f.FileLocationId, f.ParentFrameId)
	})
}

func (p *printer) comma(i int) {
	if i > 0 {
		p.write(",")
	}
}

func (p *printer) computation(c *pb.HloComputationProto, entry bool) {
	p.write("\n")
	if entry {
		p.write("ENTRY ")
	}
	p.write("%", c.Name, " (")
	for i, t := range c.ProgramShape.GetParameters() {
		if i > 0 {
			p.write(", ")
		}
		if names := c.ProgramShape.ParameterNames; i < len(names) {
			p.write(names[i], ": ")
		}
		p.shape(t, false)
	}
	p.write(") -> ")
	p.shape(c.ProgramShape.GetResult(), false)
	p.write(" {\n")
	for _, i := range c.Instructions {
		p.write("  ")
		if i.Id == c.RootId {
			p.write("ROOT ")
		}
		p.instruction(i)
		p.write("\n")
	}
	p.write("}\n")
}

func (p *printer) instruction(i *pb.HloInstructionProto) {
	p.write("%", i.Name, " = ")
	p.shape(i.Shape, true)
	p.write(" ", i.Opcode, "(")
	switch i.Opcode {
	case "parameter":
		p.write(integer(i.ParameterNumber))
	case "constant":
		p.literal(i.Literal)
	}
	for n, o := range i.OperandIds {
		if n > 0 {
			p.write(", ")
		}
		if name, ok := p.instructions[o]; ok {
			p.write("%", name)
		} else {
			p.write("%?", integer(o))
		}
	}
	p.write(")")
	p.attributes(i)
	if m := i.Metadata; m != nil {
		p.metadata(m)
	}
	if len(i.BackendConfig) > 0 {
		p.write(", backend_config=", strconv.Quote(string(i.BackendConfig)))
	}
}

func (p *printer) metadata(m *pb.OpMetadata) {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+"="+strconv.Quote(value))
		}
	}
	add("op_type", m.OpType)
	add("op_name", m.OpName)
	add("source_file", m.SourceFile)
	if m.SourceLine != 0 {
		parts = append(parts, "source_line="+integer(int64(m.SourceLine)))
	}
	if m.StackFrameId != 0 {
		parts = append(parts, "stack_frame_id="+integer(int64(m.StackFrameId)))
	}
	if len(parts) > 0 {
		p.write(", metadata={", strings.Join(parts, " "), "}")
	}
}

// shape prints a shape, with its layout if asked for.
func (p *printer) shape(s *pb.ShapeProto, layout bool) {
	if s.GetElementType() == pb.PrimitiveType_TUPLE {
		p.write("(")
		for i, t := range s.TupleShapes {
			if i > 0 {
				p.write(", ")
			}
			p.shape(t, layout)
		}
		p.write(")")
		return
	}
	switch t := s.GetElementType(); t {
	case pb.PrimitiveType_OPAQUE_TYPE, pb.PrimitiveType_TOKEN:
		p.write(typeName(t), "[]")
		return
	default:
		p.write(typeName(t), "[")
	}
	for i, n := range s.GetDimensions() {
		p.comma(i)
		if d := s.IsDynamicDimension; i < len(d) && d[i] {
			p.write("<=")
		}
		p.write(integer(n))
	}
	p.write("]")
	if order := s.GetLayout().GetMinorToMajor(); layout && len(order) > 0 {
		p.write("{", integers(order), "}")
	}
}

func typeName(t pb.PrimitiveType) string {
	if t > 0 && t < 256 && dtype.Dtype(t).Size() > 0 {
		return dtype.Dtype(t).String()
	}
	return strings.TrimSuffix(strings.ToLower(t.String()), "_type")
}

func integer(v int64) string { return strconv.FormatInt(v, 10) }

func integers(vs []int64) string {
	var b strings.Builder
	for i, v := range vs {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(integer(v))
	}
	return b.String()
}
