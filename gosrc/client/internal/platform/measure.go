package platform

import "xla_go/gosrc/metrics"

var (
	// TransferToDeviceTime is the time of calls that upload.
	TransferToDeviceTime   = metrics.Time("TransferToDeviceTime")
	transferFromDeviceTime = metrics.Time("TransferFromDeviceTime")
	outboundData           = metrics.Bytes("OutboundData")
	inboundData            = metrics.Bytes("InboundData")
	// CreateDataHandles counts values made on devices.
	CreateDataHandles = metrics.Counter("CreateDataHandles")
	// ReplicateShardedData counts sharded values put together for the host.
	ReplicateShardedData = metrics.Counter("ReplicateShardedData")
	// ReshardData counts calls that laid values out otherwise.
	ReshardData = metrics.Counter("ReshardData")

	// ExecuteTime and the others are from the call of a run to its end on the device.
	ExecuteTime           = metrics.Time("ExecuteTime")
	EagerExecuteTime      = metrics.Time("EagerOpExecuteTime")
	ExecuteReplicatedTime = metrics.Time("ExecuteReplicatedTime")
)
