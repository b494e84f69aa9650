package stablehlo

import (
	"fmt"
	"strings"

	"xla_go/gosrc/hlo"
	pb "xla_go/gosrc/hlo/proto"
)

// plain are the instructions without attributes whose operation has the same name, with _ for -, and the same operands.
var plain = set("abs", "negate", "exponential", "exponential-minus-one", "log", "log-plus-one", "sqrt", "rsqrt", "cbrt", "tanh", "tan",
	"sine", "cosine", "logistic", "floor", "ceil", "round-nearest-afz", "round-nearest-even", "sign", "not", "popcnt",
	"count-leading-zeros", "is-finite", "real", "imag", "add", "subtract", "multiply", "divide", "remainder", "power", "maximum",
	"minimum", "atan2", "and", "or", "xor", "shift-left", "shift-right-arithmetic", "shift-right-logical", "complex", "select",
	"clamp", "convert", "bitcast-convert", "reshape", "dynamic-update-slice", "replica-id", "partition-id")

func set(names ...string) map[string]bool {
	s := make(map[string]bool, len(names))
	for _, name := range names {
		s[name] = true
	}
	return s
}

// properties of the instructions with attributes, and without computations, whose operation has the same name, with _
// for -, and the same operands.
var properties = map[string]func(w *writer, i *pb.HloInstructionProto, operands []value) string{
	"all-gather": func(w *writer, i *pb.HloInstructionProto, _ []value) string {
		return join(number("all_gather_dim", i.Dimensions[0]), groups(i), channel(i), globalIDs(i))
	},
	"all-to-all": allToAll,
	"cholesky": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		return flag("lower", i.CholeskyOptions.GetLower())
	},
	"collective-permute": permute,
	"compare":            compare,
	"concatenate": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		return number("dimension", i.Dimensions[0])
	},
	"constant":    func(w *writer, i *pb.HloInstructionProto, _ []value) string { return "value = " + w.dense(i.Literal) },
	"convolution": convolution,
	"custom-call": customCall,
	"dynamic-slice": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		return array("slice_sizes", i.DynamicSliceSizes)
	},
	"fft": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		return join("fft_type = #stablehlo<fft_type "+i.FftType.String()+">", array("fft_length", i.FftLength))
	},
	"gather": gather,
	"iota": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		return number("iota_dimension", i.Dimensions[0])
	},
	"pad": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		var low, high, interior []int64
		for _, d := range i.PaddingConfig.GetDimensions() {
			low, high, interior = append(low, d.EdgePaddingLow), append(high, d.EdgePaddingHigh), append(interior, d.InteriorPadding)
		}
		return join(array("edge_padding_low", low), array("edge_padding_high", high), array("interior_padding", interior))
	},
	"reduce-precision": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		return fmt.Sprintf("exponent_bits = %d : i32, mantissa_bits = %d : i32", i.ExponentBits, i.MantissaBits)
	},
	"reverse": func(_ *writer, i *pb.HloInstructionProto, _ []value) string { return array("dimensions", i.Dimensions) },
	"rng-bit-generator": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		return "rng_algorithm = #stablehlo<rng_algorithm " + strings.TrimPrefix(i.RngAlgorithm.String(), "RNG_") + ">"
	},
	"slice": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		var start, limit, strides []int64
		for _, d := range i.SliceDimensions {
			start, limit, strides = append(start, d.Start), append(limit, d.Limit), append(strides, d.Stride)
		}
		return join(array("start_indices", start), array("limit_indices", limit), array("strides", strides))
	},
	"transpose": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		return array("permutation", i.Dimensions)
	},
	"triangular-solve": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		o := i.TriangularSolveOptions
		return join(flag("left_side", o.GetLeftSide()), flag("lower", o.GetLower()), flag("unit_diagonal", o.GetUnitDiagonal()),
			"transpose_a = #stablehlo<transpose "+o.GetTransposeA().String()+">")
	},
}

// regional are the instructions whose operation has the same name, with _ for -, and the same operands, and each called
// computation as a region, in order.
var regional = map[string]func(w *writer, i *pb.HloInstructionProto, operands []value) string{
	"all-reduce": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		return join(groups(i), channel(i), globalIDs(i))
	},
	"map":    func(_ *writer, i *pb.HloInstructionProto, _ []value) string { return array("dimensions", i.Dimensions) },
	"reduce": func(_ *writer, i *pb.HloInstructionProto, _ []value) string { return array("dimensions", i.Dimensions) },
	"reduce-scatter": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		return join(number("scatter_dimension", i.Dimensions[0]), groups(i), channel(i), globalIDs(i))
	},
	"reduce-window": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		return join(window(i.Window, "window_dimensions", "window_strides", "base_dilations", "window_dilations"), windowPadding(i.Window))
	},
	"scatter": scatter,
	"select-and-scatter": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		return join(window(i.Window, "window_dimensions", "window_strides", "", ""), windowPadding(i.Window))
	},
	"sort": func(_ *writer, i *pb.HloInstructionProto, _ []value) string {
		return join(number("dimension", i.Dimensions[0]), flag("is_stable", i.IsStable))
	},
}

// instruction writes one instruction and gives its value.
func (w *writer) instruction(i *pb.HloInstructionProto, operands []value) value {
	name := "stablehlo." + strings.ReplaceAll(i.Opcode, "-", "_")
	emit := func(name string, operands []value, properties string, regions ...string) value {
		results := shapes(i.Shape)
		attribute := ""
		if i.Sharding != nil && !isTuple(i.Shape) {
			attribute = w.shardingAttribute(i.Sharding, len(i.Shape.Dimensions))
		}
		names := w.operation(name, leavesOf(operands), properties, regions, results, attribute, frontendAttributes(i))
		v, _ := valueOf(i.Shape, names)
		return v
	}
	if w.readable {
		if v, ok := w.short(name, i, operands); ok {
			return v
		}
	}
	switch i.Opcode {
	case "custom-call":
		if w.mesh != nil && i.Sharding != nil {
			return w.annotation(i, operands[0])
		}
	case "tuple":
		return value{shape: i.Shape, elements: operands}
	case "get-tuple-element":
		return operands[0].elements[i.TupleIndex]
	case "copy":
		return operands[0]
	case "erf":
		return emit("chlo.erf", operands, "")
	case "opt-barrier":
		return emit("stablehlo.optimization_barrier", operands, "")
	case "broadcast":
		return emit("stablehlo.broadcast_in_dim", operands, array("broadcast_dimensions", i.Dimensions))
	case "dot":
		return emit("stablehlo.dot_general", operands, dot(i))
	case "while":
		// HLO names the body first, StableHLO the condition.
		return emit(name, operands, "", w.region(i.CalledComputationIds[1], nil), w.region(i.CalledComputationIds[0], nil))
	case "conditional":
		return w.conditional(i, operands, emit)
	case "call":
		if i.FrontendAttributes.GetMap()[hlo.IsComposite] == "true" {
			return w.composite(i, leavesOf(operands))
		}
		return emit("func.call", operands, "callee = @"+w.functionOf(i.CalledComputationIds[0]))
	}
	if plain[i.Opcode] {
		return emit(name, operands, "")
	}
	if of := properties[i.Opcode]; of != nil {
		return emit(name, operands, of(w, i, operands))
	}
	if of := regional[i.Opcode]; of != nil {
		regions := make([]string, len(i.CalledComputationIds))
		for n, id := range i.CalledComputationIds {
			regions[n] = w.region(id, nil)
		}
		return emit(name, operands, of(w, i, operands), regions...)
	}
	w.fail("no operation is known for opcode %s", i.Opcode)
	return value{shape: i.Shape}
}

// conditional writes one of two branches. Branches take no arguments: they see the operands themselves.
func (w *writer) conditional(i *pb.HloInstructionProto, operands []value, emit func(string, []value, string, ...string) value) value {
	if operands[0].shape.GetElementType() != pb.PrimitiveType_PRED || len(i.CalledComputationIds) != 2 {
		w.fail("no operation is known for opcode conditional of %d branches by an index", len(i.CalledComputationIds))
		return value{shape: i.Shape}
	}
	onTrue := w.region(i.CalledComputationIds[0], operands[1:2])
	onFalse := w.region(i.CalledComputationIds[1], operands[2:3])
	return emit("stablehlo.if", operands[:1], "", onTrue, onFalse)
}

// functionOf gives the name of the function that a computation becomes.
func (w *writer) functionOf(id int64) string {
	if name := w.functions[id]; name != "" {
		return name
	}
	c := w.computations[id]
	name := symbol(c.Name)
	for _, taken := range w.functions {
		if taken == name {
			name = fmt.Sprintf("%s_%d", name, id)
		}
	}
	w.functions[id] = name
	w.called = append(w.called, c)
	return name
}
