package pjrtclient

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
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

	fieldOverrideString = 1
	fieldOverrideBool   = 2

	fieldReplicaCount       = 1
	fieldComputationCount   = 2
	fieldComputationDevices = 3
	fieldReplicaDeviceIDs   = 1
)

// cpuOptions keep the results of a CPU right where XLA would trade them for speed: min and max that
// drop NaN, sums in another order, and 16-bit values that are left unrounded between two operations.
var cpuOptions = map[string]string{
	"xla_allow_excess_precision":  "false",
	"xla_cpu_enable_fast_math":    "false",
	"xla_cpu_enable_fast_min_max": "false",
}

// compileOptionsProto gives the serialized CompileOptionsProto for one program on devices.
func (c *Client) compileOptionsProto(instance *client.CompileInstance, devices []*device) []byte {
	var build []byte
	build = appendVarint(build, fieldDeviceOrdinal, -1)
	replicas, partitions := len(devices), 1
	if instance.IsSharded {
		replicas, partitions = 1, len(devices)
	}
	build = appendVarint(build, fieldNumReplicas, int64(replicas))
	build = appendVarint(build, fieldNumPartitions, int64(partitions))
	if instance.IsSharded {
		build = appendVarint(build, fieldUseSPMD, 1)
		if instance.UseAutoSPMDPartitioning {
			build = appendVarint(build, fieldUseAutoSPMD, 1)
			build = appendPacked(build, fieldAutoMeshShape, instance.AutoSPMDMeshShape)
			build = appendPacked(build, fieldAutoMeshIDs, instance.AutoSPMDMeshIDs)
		}
		propagate := int64(0)
		if instance.AllowSPMDShardingPropagationToOutput {
			propagate = 1
		}
		build = appendPacked(build, fieldPropagateOutput, []int64{propagate})
	}
	build = appendMessage(build, fieldDeviceAssignment, deviceAssignment(devices, replicas, partitions))

	var options []byte
	if instance.ParameterIsTupledArguments {
		options = appendVarint(options, fieldTupledArguments, 1)
	}
	options = appendMessage(options, fieldBuildOptions, build)
	overrides := c.overrides()
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		options = appendMessage(options, fieldOverrides, overrideEntry(name, overrides[name]))
	}
	return options
}

// overrides are the debug options of the next compile.
func (c *Client) overrides() map[string]string {
	result := map[string]string{}
	if c.onHost {
		maps.Copy(result, cpuOptions)
	}
	c.settings.Lock()
	defer c.settings.Unlock()
	maps.Copy(result, c.compileOptions)
	return result
}

// overrideEntry is one entry of the map. XLA itself converts text to the option's type, except for
// truth, which has its own field.
func overrideEntry(name, value string) []byte {
	var override []byte
	switch strings.ToLower(value) {
	case "true":
		override = appendVarint(override, fieldOverrideBool, 1)
	case "false":
		override = protowire.AppendTag(override, fieldOverrideBool, protowire.VarintType)
		override = protowire.AppendVarint(override, 0)
	default:
		override = appendMessage(override, fieldOverrideString, []byte(value))
	}
	entry := appendMessage(nil, 1, []byte(name))
	return appendMessage(entry, 2, override)
}

func deviceAssignment(devices []*device, replicas, partitions int) []byte {
	var assignment []byte
	assignment = appendVarint(assignment, fieldReplicaCount, int64(replicas))
	assignment = appendVarint(assignment, fieldComputationCount, int64(partitions))
	for p := range partitions {
		ids := make([]int64, replicas)
		for r := range replicas {
			ids[r] = int64(devices[r*partitions+p].pjrt.ID())
		}
		assignment = appendMessage(assignment, fieldComputationDevices, appendPacked(nil, fieldReplicaDeviceIDs, ids))
	}
	return assignment
}

func appendVarint(b []byte, field protowire.Number, value int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(value))
}

func appendMessage(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}

func appendPacked(b []byte, field protowire.Number, values []int64) []byte {
	var packed []byte
	for _, v := range values {
		packed = protowire.AppendVarint(packed, uint64(v))
	}
	return appendMessage(b, field, packed)
}

// eachField calls visit for every field of a message: number for varints, bytes for the rest.
func eachField(message []byte, visit func(field protowire.Number, number uint64, bytes []byte) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return malformed(n)
		}
		message = message[n:]
		var number uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(field, kind, message)
		}
		if n < 0 {
			return malformed(n)
		}
		message = message[n:]
		if err := visit(field, number, bytes); err != nil {
			return err
		}
	}
	return nil
}

func malformed(n int) error {
	return status.Errorf(status.InvalidArgument, "malformed protobuf: %v", protowire.ParseError(n))
}

// int64s reads a repeated integer field: one number, or several packed.
func int64s(list []int64, number uint64, packed []byte) []int64 {
	if packed == nil {
		return append(list, int64(number))
	}
	for len(packed) > 0 {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return list
		}
		list, packed = append(list, int64(v)), packed[n:]
	}
	return list
}
