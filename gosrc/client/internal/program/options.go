package program

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/wire"
)

// Field numbers of CompileOptionsProto, ExecutableBuildOptionsProto, OptionOverrideProto,
// DeviceAssignmentProto and its ComputationDevice (compile_options.proto, xla_data.proto).
const (
	fieldTupledArguments = 2
	fieldBuildOptions    = 3
	fieldOverrides       = 7

	fieldDeviceOrdinal    = 1
	fieldNumReplicas      = 4
	fieldNumPartitions    = 5
	fieldUseSPMD          = 6
	fieldUseAutoSPMD      = 7
	fieldDeviceAssignment = 9
	fieldPropagateOutput  = 12
	fieldAutoMeshShape    = 16
	fieldAutoMeshIDs      = 17
	fieldUseShardy        = 19

	fieldOverrideString = 1
	fieldOverrideBool   = 2

	fieldReplicaCount       = 1
	fieldComputationCount   = 2
	fieldComputationDevices = 3
	fieldReplicaDeviceIDs   = 1
)

// options gives the serialized CompileOptionsProto for one program on devices.
func options(p *platform.Platform, instance *client.CompileInstance, devices []*platform.Device) []byte {
	var build []byte
	build = wire.Varint(build, fieldDeviceOrdinal, -1)
	replicas, partitions := len(devices), 1
	if instance.IsSharded {
		replicas, partitions = 1, len(devices)
	}
	build = wire.Varint(build, fieldNumReplicas, int64(replicas))
	build = wire.Varint(build, fieldNumPartitions, int64(partitions))
	if instance.IsSharded {
		build = wire.Varint(build, fieldUseSPMD, 1)
		if instance.UseAutoSPMDPartitioning {
			build = wire.Varint(build, fieldUseAutoSPMD, 1)
			build = wire.Packed(build, fieldAutoMeshShape, instance.AutoSPMDMeshShape)
			build = wire.Packed(build, fieldAutoMeshIDs, instance.AutoSPMDMeshIDs)
		}
		propagate := int64(0)
		if instance.AllowSPMDShardingPropagationToOutput {
			propagate = 1
		}
		build = wire.Packed(build, fieldPropagateOutput, []int64{propagate})
		if usesShardy(instance.MLIR) {
			build = wire.Varint(build, fieldUseShardy, 1)
		}
	}
	build = wire.Message(build, fieldDeviceAssignment, deviceAssignment(devices, replicas, partitions))

	var proto []byte
	if instance.ParameterIsTupledArguments {
		proto = wire.Varint(proto, fieldTupledArguments, 1)
	}
	proto = wire.Message(proto, fieldBuildOptions, build)
	overrides := p.Overrides()
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		proto = wire.Message(proto, fieldOverrides, overrideEntry(name, overrides[name]))
	}
	return proto
}

// overrideEntry is one entry of the map. XLA itself converts text to the option's type, except for
// truth, which has its own field.
func overrideEntry(name, value string) []byte {
	var override []byte
	switch strings.ToLower(value) {
	case "true":
		override = wire.Varint(override, fieldOverrideBool, 1)
	case "false":
		override = protowire.AppendTag(override, fieldOverrideBool, protowire.VarintType)
		override = protowire.AppendVarint(override, 0)
	default:
		override = wire.Message(override, fieldOverrideString, []byte(value))
	}
	entry := wire.Message(nil, 1, []byte(name))
	return wire.Message(entry, 2, override)
}

func deviceAssignment(devices []*platform.Device, replicas, partitions int) []byte {
	var assignment []byte
	assignment = wire.Varint(assignment, fieldReplicaCount, int64(replicas))
	assignment = wire.Varint(assignment, fieldComputationCount, int64(partitions))
	for p := range partitions {
		ids := make([]int64, replicas)
		for r := range replicas {
			ids[r] = int64(devices[r*partitions+p].PJRT.ID())
		}
		assignment = wire.Message(assignment, fieldComputationDevices, wire.Packed(nil, fieldReplicaDeviceIDs, ids))
	}
	return assignment
}
