package hlo

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	pb "xla_go/gosrc/hlo/proto"
)

// attributes prints what an instruction has besides its operands.
func (p *printer) attributes(i *pb.HloInstructionProto) {
	if i.Opcode == "iota" {
		p.write(", iota_dimension=", integers(i.Dimensions))
	} else if len(i.Dimensions) > 0 || i.Opcode == "broadcast" {
		p.write(", dimensions={", integers(i.Dimensions), "}")
	}
	if i.Opcode == "get-tuple-element" {
		p.write(", index=", integer(i.TupleIndex))
	}
	if len(i.SliceDimensions) > 0 {
		p.write(", slice={")
		for n, d := range i.SliceDimensions {
			if n > 0 {
				p.write(", ")
			}
			p.write("[", integer(d.Start), ":", integer(d.Limit))
			if d.Stride != 1 {
				p.write(":", integer(d.Stride))
			}
			p.write("]")
		}
		p.write("}")
	}
	p.list("dynamic_slice_sizes", i.DynamicSliceSizes)
	p.padding(i.PaddingConfig)
	p.window(i.Window)
	p.dimensionNumbers(i)
	if i.FeatureGroupCount > 1 {
		p.write(", feature_group_count=", integer(i.FeatureGroupCount))
	}
	if i.BatchGroupCount > 1 {
		p.write(", batch_group_count=", integer(i.BatchGroupCount))
	}
	if i.IndicesAreSorted {
		p.write(", indices_are_sorted=true")
	}
	if i.UniqueIndices {
		p.write(", unique_indices=true")
	}
	if i.IsStable {
		p.write(", is_stable=true")
	}
	if i.ComparisonDirection != "" {
		p.write(", direction=", i.ComparisonDirection)
		if i.ComparisonType == "TOTALORDER" {
			p.write(", type=TOTALORDER")
		}
	}
	if i.Opcode == "reduce-precision" {
		p.write(", exponent_bits=", integer(int64(i.ExponentBits)), ", mantissa_bits=", integer(int64(i.MantissaBits)))
	}
	p.linearAlgebra(i)
	if i.Opcode == "rng-bit-generator" {
		p.write(", algorithm=", strings.ToLower(i.RngAlgorithm.String()))
	}
	p.precision(i.PrecisionConfig)
	p.collective(i)
	if i.FusionKind != "" {
		p.write(", kind=", i.FusionKind)
	}
	p.called(i)
	if i.CustomCallTarget != "" {
		p.write(", custom_call_target=", strconv.Quote(i.CustomCallTarget))
		if i.CustomCallHasSideEffect {
			p.write(", custom_call_has_side_effect=true")
		}
		if i.CustomCallApiVersion > pb.CustomCallApiVersion_API_VERSION_ORIGINAL {
			p.write(", api_version=", i.CustomCallApiVersion.String())
		}
	}
	if m := i.GetFrontendAttributes().GetMap(); len(m) > 0 {
		p.write(", frontend_attributes={")
		for n, name := range slices.Sorted(maps.Keys(m)) {
			p.comma(n)
			p.write(name, "=", strconv.Quote(m[name]))
		}
		p.write("}")
	}
	if len(i.ControlPredecessorIds) > 0 {
		p.write(", control-predecessors={")
		for n, id := range i.ControlPredecessorIds {
			if n > 0 {
				p.write(", ")
			}
			p.write("%", p.instructions[id])
		}
		p.write("}")
	}
	if i.Sharding != nil {
		p.write(", sharding={")
		p.sharding(i.Sharding)
		p.write("}")
	}
}

// list prints a list attribute if it is not empty.
func (p *printer) list(name string, vs []int64) {
	if len(vs) > 0 {
		p.write(", ", name, "={", integers(vs), "}")
	}
}

func (p *printer) padding(c *pb.PaddingConfig) {
	if c == nil {
		return
	}
	p.write(", padding=")
	for n, d := range c.Dimensions {
		if n > 0 {
			p.write("x")
		}
		p.write(integer(d.EdgePaddingLow), "_", integer(d.EdgePaddingHigh))
		if d.InteriorPadding != 0 {
			p.write("_", integer(d.InteriorPadding))
		}
	}
}

func (p *printer) window(w *pb.Window) {
	if len(w.GetDimensions()) == 0 {
		return
	}
	var parts []string
	add := func(name string, get func(*pb.WindowDimension) string, otherwise string) {
		var values []string
		plain := true
		for _, d := range w.Dimensions {
			v := get(d)
			plain = plain && v == otherwise
			values = append(values, v)
		}
		if !plain {
			parts = append(parts, name+"="+strings.Join(values, "x"))
		}
	}
	add("size", func(d *pb.WindowDimension) string { return integer(d.Size) }, "")
	add("stride", func(d *pb.WindowDimension) string { return integer(d.Stride) }, "1")
	add("pad", func(d *pb.WindowDimension) string { return integer(d.PaddingLow) + "_" + integer(d.PaddingHigh) }, "0_0")
	add("lhs_dilate", func(d *pb.WindowDimension) string { return integer(d.BaseDilation) }, "1")
	add("rhs_dilate", func(d *pb.WindowDimension) string { return integer(d.WindowDilation) }, "1")
	add("rhs_reversal", func(d *pb.WindowDimension) string {
		if d.WindowReversal {
			return "1"
		}
		return "0"
	}, "0")
	p.write(", window={", strings.Join(parts, " "), "}")
}

func (p *printer) dimensionNumbers(i *pb.HloInstructionProto) {
	if d := i.DotDimensionNumbers; d != nil {
		p.list("lhs_batch_dims", d.LhsBatchDimensions)
		p.list("lhs_contracting_dims", d.LhsContractingDimensions)
		p.list("rhs_batch_dims", d.RhsBatchDimensions)
		p.list("rhs_contracting_dims", d.RhsContractingDimensions)
	}
	if d := i.ConvolutionDimensionNumbers; d != nil {
		rank := len(d.InputSpatialDimensions) + 2
		p.write(", dim_labels=",
			labels(rank, 'b', d.InputBatchDimension, 'f', d.InputFeatureDimension, d.InputSpatialDimensions), "_",
			labels(rank, 'i', d.KernelInputFeatureDimension, 'o', d.KernelOutputFeatureDimension, d.KernelSpatialDimensions), "->",
			labels(rank, 'b', d.OutputBatchDimension, 'f', d.OutputFeatureDimension, d.OutputSpatialDimensions))
	}
	if d := i.GatherDimensionNumbers; d != nil {
		p.write(", offset_dims={", integers(d.OffsetDims), "}, collapsed_slice_dims={", integers(d.CollapsedSliceDims),
			"}, start_index_map={", integers(d.StartIndexMap), "}")
		p.list("operand_batching_dims", d.OperandBatchingDims)
		p.list("start_indices_batching_dims", d.StartIndicesBatchingDims)
		p.write(", index_vector_dim=", integer(d.IndexVectorDim), ", slice_sizes={", integers(i.GatherSliceSizes), "}")
	}
	if d := i.ScatterDimensionNumbers; d != nil {
		p.write(", update_window_dims={", integers(d.UpdateWindowDims), "}, inserted_window_dims={", integers(d.InsertedWindowDims),
			"}, scatter_dims_to_operand_dims={", integers(d.ScatterDimsToOperandDims), "}")
		p.list("input_batching_dims", d.InputBatchingDims)
		p.list("scatter_indices_batching_dims", d.ScatterIndicesBatchingDims)
		p.write(", index_vector_dim=", integer(d.IndexVectorDim))
	}
}

// labels gives one character per dimension, spatial ones numbered.
func labels(rank int, a byte, atA int64, z byte, atZ int64, spatial []int64) string {
	out := []byte(strings.Repeat("?", rank))
	set := func(i int64, c byte) {
		if i >= 0 && i < int64(rank) {
			out[i] = c
		}
	}
	set(atA, a)
	set(atZ, z)
	for n, i := range spatial {
		set(i, byte('0'+n))
	}
	return string(out)
}

func (p *printer) linearAlgebra(i *pb.HloInstructionProto) {
	flag := func(name string, v bool) {
		if v {
			p.write(", ", name, "=true")
		}
	}
	if i.Opcode == "cholesky" {
		flag("lower", i.CholeskyOptions.GetLower())
	}
	if o := i.TriangularSolveOptions; i.Opcode == "triangular-solve" && o != nil {
		flag("left_side", o.LeftSide)
		flag("lower", o.Lower)
		flag("unit_diagonal", o.UnitDiagonal)
		p.write(", transpose_a=", o.TransposeA.String())
	}
	if i.Opcode == "fft" {
		p.write(", fft_type=", i.FftType.String())
		p.list("fft_length", i.FftLength)
	}
}

func (p *printer) precision(c *pb.PrecisionConfig) {
	var names []string
	plain := true
	for _, o := range c.GetOperandPrecision() {
		plain = plain && o == pb.PrecisionConfig_DEFAULT
		names = append(names, strings.ToLower(o.String()))
	}
	if !plain {
		p.write(", operand_precision={", strings.Join(names, ","), "}")
	}
}

func (p *printer) collective(i *pb.HloInstructionProto) {
	if i.ChannelId > 0 {
		p.write(", channel_id=", integer(i.ChannelId))
	}
	if len(i.ReplicaGroups) > 0 {
		p.write(", replica_groups={")
		for n, g := range i.ReplicaGroups {
			p.comma(n)
			p.write("{", integers(g.ReplicaIds), "}")
		}
		p.write("}")
	}
	if len(i.SourceTargetPairs) > 0 {
		p.write(", source_target_pairs={")
		for n, s := range i.SourceTargetPairs {
			p.comma(n)
			p.write("{", integer(s.Source), ",", integer(s.Target), "}")
		}
		p.write("}")
	}
	if i.UseGlobalDeviceIds {
		p.write(", use_global_device_ids=true")
	}
}

// called prints the called computations under the names that the opcode gives them.
func (p *printer) called(i *pb.HloInstructionProto) {
	ids := i.CalledComputationIds
	if len(ids) == 0 {
		return
	}
	var names []string
	switch i.Opcode {
	case "while":
		names = []string{"body", "condition"}
	case "select-and-scatter":
		names = []string{"select", "scatter"}
	case "conditional":
		names = []string{"true_computation", "false_computation"}
	case "fusion", "async-start", "custom-call":
		names = []string{"calls"}
	default:
		names = []string{"to_apply"}
	}
	if len(ids) != len(names) {
		name := "called_computations"
		if i.Opcode == "conditional" {
			name = "branch_computations"
		}
		p.write(", ", name, "={")
		for n, id := range ids {
			if n > 0 {
				p.write(", ")
			}
			p.write("%", p.computations[id])
		}
		p.write("}")
		return
	}
	for n, id := range ids {
		p.write(", ", names[n], "=%", p.computations[id])
	}
}

// ShardingText gives a sharding as HLO text has it, in its braces.
func ShardingText(s *pb.OpSharding) string {
	var p printer
	p.write("{")
	p.sharding(s)
	p.write("}")
	return p.String()
}

func (p *printer) sharding(s *pb.OpSharding) {
	switch s.Type {
	case pb.OpSharding_TUPLE:
		for i, t := range s.TupleShardings {
			if i > 0 {
				p.write(", ")
			}
			p.write("{")
			p.sharding(t)
			p.write("}")
		}
	case pb.OpSharding_OTHER:
		p.write("devices=[", integers(s.TileAssignmentDimensions), "]")
		if len(s.IotaReshapeDims) > 0 {
			p.write("<=[", integers(s.IotaReshapeDims), "]")
			if t := s.IotaTransposePerm; len(t) > 1 {
				wide := make([]int64, len(t))
				for i, v := range t {
					wide[i] = int64(v)
				}
				p.write("T(", integers(wide), ")")
			}
		} else {
			p.write(integers(s.TileAssignmentDevices))
		}
		if s.ReplicateOnLastTileDim {
			p.write(" last_tile_dim_replicate")
		}
	case pb.OpSharding_MAXIMAL:
		p.write("maximal device=", integers(s.TileAssignmentDevices))
	default:
		p.write(strings.ToLower(s.Type.String()))
	}
	if s.IsShardGroup {
		p.write(" shard_", strings.ToLower(s.ShardGroupType.String()), " ", strconv.FormatInt(s.ShardGroupId, 10))
	}
}
