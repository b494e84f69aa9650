package stablehlo

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"xla_go/gosrc/dtype"
	"xla_go/gosrc/hlo"
	pb "xla_go/gosrc/hlo/proto"
)

func join(parts ...string) string { return strings.Join(nonEmpty(parts), ", ") }

func number(name string, v int64) string { return fmt.Sprintf("%s = %d : i64", name, v) }

func flag(name string, v bool) string { return fmt.Sprintf("%s = %t", name, v) }

func integers(vs []int64) string {
	parts := make([]string, len(vs))
	for i, v := range vs {
		parts[i] = strconv.FormatInt(v, 10)
	}
	return strings.Join(parts, ", ")
}

// array is an attribute that is a list of 64-bit integers.
func array(name string, vs []int64) string {
	if len(vs) == 0 {
		return name + " = array<i64>"
	}
	return name + " = array<i64: " + integers(vs) + ">"
}

// matrix is an attribute that is an array of integers of two dimensions.
func matrix(name string, rows [][]int64, columns int) string {
	if len(rows) == 0 {
		return fmt.Sprintf("%s = dense<> : tensor<0x%dxi64>", name, columns)
	}
	parts := make([]string, len(rows))
	for i, row := range rows {
		parts[i] = "[" + integers(row) + "]"
	}
	return fmt.Sprintf("%s = dense<[%s]> : tensor<%dx%dxi64>", name, strings.Join(parts, ", "), len(rows), columns)
}

// optionalList is a field of an attribute that is left out where it is empty.
func optionalList(name string, vs []int64) string {
	if len(vs) == 0 {
		return ""
	}
	return name + " = [" + integers(vs) + "]"
}

func precision(i *pb.HloInstructionProto) string {
	list := i.PrecisionConfig.GetOperandPrecision()
	if len(list) < 2 {
		return ""
	}
	return fmt.Sprintf("precision_config = [#stablehlo<precision %s>, #stablehlo<precision %s>]", list[0], list[1])
}

func dot(i *pb.HloInstructionProto) string {
	d := i.DotDimensionNumbers
	return join(fmt.Sprintf("dot_dimension_numbers = #stablehlo.dot<%s>", join(
		optionalList("lhs_batching_dimensions", d.GetLhsBatchDimensions()), optionalList("rhs_batching_dimensions", d.GetRhsBatchDimensions()),
		optionalList("lhs_contracting_dimensions", d.GetLhsContractingDimensions()), optionalList("rhs_contracting_dimensions", d.GetRhsContractingDimensions()),
	)), precision(i))
}

func compare(_ *writer, i *pb.HloInstructionProto, operands []value) string {
	kind := "FLOAT"
	switch d := dtype.Dtype(operands[0].shape.GetElementType()); {
	case i.ComparisonType == "TOTALORDER":
		kind = "TOTALORDER"
	case d == dtype.Bool || d.IsUnsigned():
		kind = "UNSIGNED"
	case d.IsIntegral():
		kind = "SIGNED"
	}
	return fmt.Sprintf("comparison_direction = #stablehlo<comparison_direction %s>, compare_type = #stablehlo<comparison_type %s>", i.ComparisonDirection, kind)
}

func gather(_ *writer, i *pb.HloInstructionProto, _ []value) string {
	d := i.GatherDimensionNumbers
	return join(fmt.Sprintf("dimension_numbers = #stablehlo.gather<%s>", join(
		optionalList("offset_dims", d.GetOffsetDims()), optionalList("collapsed_slice_dims", d.GetCollapsedSliceDims()),
		optionalList("operand_batching_dims", d.GetOperandBatchingDims()), optionalList("start_indices_batching_dims", d.GetStartIndicesBatchingDims()),
		optionalList("start_index_map", d.GetStartIndexMap()), fmt.Sprintf("index_vector_dim = %d", d.GetIndexVectorDim()),
	)), array("slice_sizes", i.GatherSliceSizes), flag("indices_are_sorted", i.IndicesAreSorted))
}

func scatter(_ *writer, i *pb.HloInstructionProto, _ []value) string {
	d := i.ScatterDimensionNumbers
	return join(fmt.Sprintf("scatter_dimension_numbers = #stablehlo.scatter<%s>", join(
		optionalList("update_window_dims", d.GetUpdateWindowDims()), optionalList("inserted_window_dims", d.GetInsertedWindowDims()),
		optionalList("input_batching_dims", d.GetInputBatchingDims()), optionalList("scatter_indices_batching_dims", d.GetScatterIndicesBatchingDims()),
		optionalList("scatter_dims_to_operand_dims", d.GetScatterDimsToOperandDims()), fmt.Sprintf("index_vector_dim = %d", d.GetIndexVectorDim()),
	)), flag("indices_are_sorted", i.IndicesAreSorted), flag("unique_indices", i.UniqueIndices))
}

// window gives the sizes, strides and dilations of a window under the names; "" leaves one out.
func window(w *pb.Window, size, stride, base, dilation string) string {
	var parts []string
	add := func(name string, get func(d *pb.WindowDimension) int64) {
		if name == "" {
			return
		}
		var list []int64
		for _, d := range w.GetDimensions() {
			list = append(list, get(d))
		}
		parts = append(parts, array(name, list))
	}
	add(size, func(d *pb.WindowDimension) int64 { return d.Size })
	add(stride, func(d *pb.WindowDimension) int64 { return d.Stride })
	add(base, func(d *pb.WindowDimension) int64 { return max(d.BaseDilation, 1) })
	add(dilation, func(d *pb.WindowDimension) int64 { return max(d.WindowDilation, 1) })
	return join(parts...)
}

func windowPadding(w *pb.Window) string {
	var rows [][]int64
	for _, d := range w.GetDimensions() {
		rows = append(rows, []int64{d.PaddingLow, d.PaddingHigh})
	}
	return matrix("padding", rows, 2)
}

func convolution(_ *writer, i *pb.HloInstructionProto, _ []value) string {
	d := i.ConvolutionDimensionNumbers
	rank := len(d.GetInputSpatialDimensions()) + 2
	reversal := "window_reversal = array<i1>"
	if flags := reversals(i.Window); flags != "" {
		reversal = "window_reversal = array<i1: " + flags + ">"
	}
	return join(
		window(i.Window, "", "window_strides", "lhs_dilation", "rhs_dilation"), windowPadding(i.Window), reversal,
		fmt.Sprintf("dimension_numbers = #stablehlo.conv<[%s]x[%s]->[%s]>",
			labels(rank, "b", d.GetInputBatchDimension(), "f", d.GetInputFeatureDimension(), d.GetInputSpatialDimensions()),
			labels(rank, "i", d.GetKernelInputFeatureDimension(), "o", d.GetKernelOutputFeatureDimension(), d.GetKernelSpatialDimensions()),
			labels(rank, "b", d.GetOutputBatchDimension(), "f", d.GetOutputFeatureDimension(), d.GetOutputSpatialDimensions())),
		number("feature_group_count", max(i.FeatureGroupCount, 1)), number("batch_group_count", max(i.BatchGroupCount, 1)), precision(i))
}

func reversals(w *pb.Window) string {
	var flags []string
	for _, d := range w.GetDimensions() {
		flags = append(flags, strconv.FormatBool(d.WindowReversal))
	}
	return strings.Join(flags, ", ")
}

// labels names each dimension: two by letters, the spatial ones by numbers.
func labels(rank int, a string, atA int64, z string, atZ int64, spatial []int64) string {
	out := make([]string, rank)
	out[atA], out[atZ] = a, z
	for n, i := range spatial {
		out[i] = strconv.Itoa(n)
	}
	return strings.Join(out, ", ")
}

func groups(i *pb.HloInstructionProto) string {
	var rows [][]int64
	for _, g := range i.ReplicaGroups {
		rows = append(rows, g.ReplicaIds)
	}
	columns := 0
	if len(rows) > 0 {
		columns = len(rows[0])
	}
	return matrix("replica_groups", rows, columns)
}

func channel(i *pb.HloInstructionProto) string {
	if i.ChannelId <= 0 {
		return ""
	}
	return fmt.Sprintf("channel_handle = #stablehlo.channel_handle<handle = %d, type = 1>", i.ChannelId)
}

func globalIDs(i *pb.HloInstructionProto) string {
	if !i.UseGlobalDeviceIds {
		return ""
	}
	return "use_global_device_ids"
}

func allToAll(w *writer, i *pb.HloInstructionProto, _ []value) string {
	if len(i.ReplicaGroups) == 0 {
		w.fail("opcode all-to-all: expected groups of devices, which say into how many parts the operand is split, got none")
		return ""
	}
	return join(number("split_dimension", i.Dimensions[0]), number("concat_dimension", i.Dimensions[0]),
		number("split_count", int64(len(i.ReplicaGroups[0].ReplicaIds))), groups(i), channel(i))
}

func permute(_ *writer, i *pb.HloInstructionProto, _ []value) string {
	var rows [][]int64
	for _, p := range i.SourceTargetPairs {
		rows = append(rows, []int64{p.Source, p.Target})
	}
	return join(matrix("source_target_pairs", rows, 2), channel(i))
}

func customCall(_ *writer, i *pb.HloInstructionProto, _ []value) string {
	version := max(i.CustomCallApiVersion, pb.CustomCallApiVersion_API_VERSION_ORIGINAL)
	configuration := ""
	switch {
	case version == pb.CustomCallApiVersion_API_VERSION_TYPED_FFI && len(i.BackendConfig) > 0:
		configuration = "backend_config = " + string(i.BackendConfig) // a dictionary, as MLIR writes one
	case len(i.BackendConfig) > 0:
		configuration = "backend_config = " + quoted(string(i.BackendConfig))
	}
	return join("call_target_name = "+quoted(i.CustomCallTarget), flag("has_side_effect", i.CustomCallHasSideEffect), configuration,
		fmt.Sprintf("api_version = %d : i32", version))
}

// frontendAttributes gives what passes of the compiler read of an instruction, "" for nothing.
func frontendAttributes(i *pb.HloInstructionProto) string {
	m := i.GetFrontendAttributes().GetMap()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, key(name)+" = "+quoted(m[name]))
	}
	if len(list) == 0 {
		return ""
	}
	return "mhlo.frontend_attributes = {" + strings.Join(list, ", ") + "}"
}

// key writes the name of an attribute: bare where MLIR takes it so.
func key(name string) string {
	for n, c := range []byte(name) {
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (n == 0 || c != '.' && c != '$' && (c < '0' || c > '9')) {
			return quoted(name)
		}
	}
	return name
}

// quoted writes text as MLIR does: other bytes than printable ones as two hexadecimal digits.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// shardingAttribute gives how an array of that rank is divided, "" where that is not said.
func (w *writer) shardingAttribute(s *pb.OpSharding, rank int) string {
	if s == nil {
		return ""
	}
	if w.mesh != nil {
		parsed, err := sharding(s)
		attribute := ""
		if err == nil {
			attribute, err = w.mesh.attribute(parsed, rank)
		}
		if err != nil && w.err == nil {
			w.err = err
		}
		return "sdy.sharding = " + attribute
	}
	return "mhlo.sharding = " + quoted(hlo.ShardingText(s))
}

// argumentAttributes gives what stands behind the entry's arguments: which output takes their memory, that any may, and
// how they are divided over devices.
func (w *writer) argumentAttributes(m *pb.HloModuleProto, entry *pb.HloComputationProto) map[int]string {
	parts := map[int][]string{}
	for _, a := range m.InputOutputAlias.GetEntries() {
		n := argumentNumber(entry, a.ParameterNumber, a.ParameterShapeIndex)
		output := int64(0)
		if len(a.OutputShapeIndex) > 0 {
			output = a.OutputShapeIndex[0]
		}
		parts[n] = append(parts[n], fmt.Sprintf("tf.aliasing_output = %d : i32", output))
	}
	for _, d := range m.BufferDonor.GetEntries() {
		n := argumentNumber(entry, d.ParameterNumber, d.ParameterShapeIndex)
		parts[n] = append(parts[n], "jax.buffer_donor = true")
	}
	for _, i := range entry.Instructions {
		if i.Opcode == "parameter" && i.Sharding != nil {
			first := argumentNumber(entry, i.ParameterNumber, nil)
			arrays := shapes(i.Shape)
			for k, s := range elementShardings(i.Sharding, len(arrays)) {
				parts[first+k] = append(parts[first+k], w.shardingAttribute(s, len(arrays[k].Dimensions)))
			}
		}
	}
	attributes := make(map[int]string, len(parts))
	for n, list := range parts {
		slices.Sort(list)
		attributes[n] = " {" + strings.Join(list, ", ") + "}"
	}
	return attributes
}

// argumentNumber gives the number of the argument that a parameter, or an element of one that is a tuple, has become.
func argumentNumber(entry *pb.HloComputationProto, parameter int64, index []int64) int {
	n := 0
	for _, s := range entry.ProgramShape.GetParameters()[:parameter] {
		n += len(shapes(s))
	}
	s := entry.ProgramShape.Parameters[parameter]
	for _, i := range index {
		for _, t := range s.TupleShapes[:i] {
			n += len(shapes(t))
		}
		s = s.TupleShapes[i]
	}
	return n
}

// elementShardings gives the sharding of each of count arrays.
func elementShardings(s *pb.OpSharding, count int) []*pb.OpSharding {
	if s.GetType() == pb.OpSharding_TUPLE && len(s.TupleShardings) == count {
		return s.TupleShardings
	}
	return slices.Repeat([]*pb.OpSharding{s}, count)
}

// resultShardings gives what stands behind the results of a function.
func (w *writer) resultShardings(c *pb.HloComputationProto, results []*pb.ShapeProto) []string {
	attributes := make([]string, len(results))
	for _, i := range c.Instructions {
		if i.Id == c.RootId && i.Sharding != nil {
			for k, s := range elementShardings(i.Sharding, len(results)) {
				attributes[k] = " {" + w.shardingAttribute(s, len(results[k].Dimensions)) + "}"
			}
		}
	}
	return attributes
}
