package stablehlo_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	pb "xla_go/gosrc/hlo/proto"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/stablehlo"
	"xla_go/gosrc/status"
)

// opcodes that an edit gives to an instruction which was another one.
var opcodes = []string{"parameter", "constant", "tuple", "get-tuple-element", "while", "conditional", "call", "reduce", "sort", "iota", "concatenate",
	"transpose", "broadcast", "compare", "select", "gather", "scatter", "convolution", "dot", "custom-call", "pad", "fft", "all-gather", "all-reduce",
	"rng-bit-generator", "reduce-window", "copy", "no such opcode"}

// edit changes one field of one instruction.
func edit(m *pb.HloModuleProto, computation, instruction, field, to byte) {
	c := m.Computations[int(computation)%len(m.Computations)]
	i := c.Instructions[int(instruction)%len(c.Instructions)]
	number := int64(int8(to))
	switch field % 14 {
	case 0:
		i.Opcode = opcodes[int(to)%len(opcodes)]
	case 1:
		i.OperandIds = append(i.OperandIds, number)
	case 2:
		i.OperandIds = i.OperandIds[:len(i.OperandIds)*int(to)/255]
	case 3:
		i.ParameterNumber = number
	case 4:
		i.CalledComputationIds = append(i.CalledComputationIds, m.Computations[int(to)%len(m.Computations)].Id)
	case 5:
		i.CalledComputationIds = nil
	case 6:
		i.Dimensions = []int64{number}
	case 7:
		if i.Shape == nil {
			i.Shape = &pb.ShapeProto{}
		}
		i.Shape.Dimensions = append(i.Shape.Dimensions, number<<(to%60))
	case 8:
		i.Shape = nil
	case 9:
		i.Shape = &pb.ShapeProto{ElementType: pb.PrimitiveType(number), TupleShapes: []*pb.ShapeProto{i.Shape}}
	case 10:
		i.Literal = nil
	case 11:
		c.RootId = number
	case 12:
		m.EntryComputationId = m.Computations[int(to)%len(m.Computations)].Id
	case 13:
		i.TupleIndex = number
	}
}

// FuzzText: a module that was damaged anywhere is written or refused, in every form, and never as Internal.
func FuzzText(f *testing.F) {
	f.Add([]byte{})
	for field := range byte(14) {
		f.Add([]byte{0, 2, field, 1, 1, 1, field, 200})
	}
	whole := sample(f)
	f.Fuzz(func(t *testing.T, edits []byte) {
		m := &pb.HloModuleProto{}
		if err := proto.Unmarshal(whole, m); err != nil {
			t.Fatal(err)
		}
		for ; len(edits) >= 4; edits = edits[4:] {
			edit(m, edits[0], edits[1], edits[2], edits[3])
		}
		module, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		for name, write := range map[string]func([]byte) (string, error){
			"Text": stablehlo.Text, "Readable": stablehlo.Readable,
			"Shardy": func(module []byte) (string, error) { return stablehlo.Shardy(module, 4) },
		} {
			if text, err := write(module); err != nil && status.CodeOf(err) == status.Internal {
				t.Errorf("%s: %v", name, err)
			} else if err == nil && text == "" {
				t.Errorf("%s: no text", name)
			}
		}
	})
}

// sample has a loop, a reduction, constants, tuples and shardings.
func sample(tb testing.TB) []byte {
	b := hlo.NewBuilder("sample")
	b.SetSharding(&hlo.Sharding{Kind: hlo.Tiled, Tiles: []int64{2, 2}, Devices: []int64{0, 1, 2, 3}})
	x := b.Parameter(shape.Make(dtype.F32, 4, 6), "x")
	b.SetSharding(nil)
	sum := b.ReduceOp(hlo.Add, x, b.Scalar(dtype.F32, 0), []int{1})
	order := b.Iota(dtype.S32, []int64{4, 6}, 1)
	chosen := b.Select(b.Compare("LT", order, b.Broadcast(b.ScalarInt(dtype.S32, 3), []int64{4, 6}, nil)), x, b.Unary(hlo.Negate, x))
	module, err := b.Build([]hlo.Value{sum, b.Transpose(chosen, []int{1, 0}), b.Concatenate([]hlo.Value{x, x}, 0)}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return module
}
