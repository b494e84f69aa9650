// Package client is the contract between a lazy tensor frontend and a runtime: what torch_xla
// calls ComputationClient, in Go terms. A frontend traces tensors into HLO modules and needs no
// more of a runtime than this interface; no type of PJRT shows in it.
//
// Devices are named by strings such as "CPU:0": the platform's name in upper case, a colon, and
// the global ordinal (the position of the device among all devices sorted by id).
//
// Blocking: a method waits for device work only where its comment says BLOCKING. Every method may
// be called from several goroutines at once. Errors are *status.Error and keep the code that
// the plugin gave.
package client

import (
	"xla_go/gosrc/coordinator"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Data is a value on a device (or sharded over several), or a placeholder for one.
//
// Ownership: a Data holds its device memory until Close, which is idempotent. Data that share
// memory (GetDataShards, Assign) each count as a holder; memory is freed with the last one.
type Data interface {
	// Device names the device, "SPMD:0" for sharded data.
	Device() string
	// Shape is the global shape; of sharded data the shape before sharding.
	Shape() shape.Shape
	// Handle identifies the device memory, so that two Data of one memory compare equal. It
	// fails with FailedPrecondition for a placeholder without a value and for a donated value.
	Handle() (uintptr, error)
	// HasValue is true where device memory is attached and was not donated or deleted.
	HasValue() bool
	// Assign makes this placeholder share source's device memory. Shapes must be equal.
	Assign(source Data) error
	// ShouldDonate and SetShouldDonate carry the user's request to donate this value.
	ShouldDonate() bool
	SetShouldDonate(bool)
	// Sharding gives the annotation, nil where the data is not sharded.
	Sharding() *Sharding
	// String describes device, shape and state for messages. It never touches the device.
	String() string
	// Close drops this holder. Idempotent.
	Close()
}

// Sharding is an annotation of how an array is laid over devices: a serialized OpSharding proto
// (xla_data.proto), which is the form that HLO modules carry.
type Sharding struct {
	OpSharding []byte
}

// TensorSource is an array in host memory.
//
// Exactly one of Bytes and Address is set. With Address the memory must stay valid and unchanged
// until Release is called (which may be before TransferToDevice returns); Release may be nil.
type TensorSource struct {
	Shape       shape.Shape
	Device      string
	Bytes       []byte
	Address     uintptr
	ByteStrides []int64 // per dimension, in bytes; nil means dense and row-major
	Release     func()
}

// Literal is an array in host memory, dense and row-major.
type Literal struct {
	Shape shape.Shape
	Bytes []byte
}

// CompileInstance is one program to compile.
type CompileInstance struct {
	// HLO is a serialized HloModuleProto; MLIR is StableHLO text or bytecode. One of them is set.
	HLO  []byte
	MLIR []byte
	// Name appears in messages.
	Name string
	// CompilationDevice is the device whose kind the program is for; Devices are those it runs on.
	CompilationDevice string
	Devices           []string
	// ParameterIsTupledArguments: the module has one tuple parameter; execution still takes a flat list.
	ParameterIsTupledArguments bool
	// IsSharded compiles one SPMD program over all Devices instead of replicas.
	IsSharded                            bool
	AllowSPMDShardingPropagationToOutput bool
	UseAutoSPMDPartitioning              bool
	AutoSPMDMeshShape                    []int64
	AutoSPMDMeshIDs                      []int64
	// EagerMode only chooses the metric that the time is counted under.
	EagerMode bool
}

// Computation is a compiled program. Close is idempotent; running executions finish first.
type Computation interface {
	Name() string
	Devices() []string
	// ParameterShapes and ResultShapes are those of the entry computation, untupled.
	ParameterShapes() []shape.Shape
	ResultShapes() []shape.Shape
	// OutputShardings are those the compiler chose, nil for a program that is not sharded.
	OutputShardings() []*Sharding
	// OptimizedHLO gives the serialized HloModuleProto after the compiler's passes.
	OptimizedHLO() ([]byte, error)
	// MemoryInfo describes the executable's memory in words.
	MemoryInfo() (string, error)
	Close()
}

// ExecuteOptions are the options of both execute methods.
type ExecuteOptions struct {
	// ExplodeTuple splits the root tuple into one Data per element. The PJRT C API always does;
	// false is an InvalidArgument error there.
	ExplodeTuple bool
	// EagerMode only chooses the metric that the time is counted under.
	EagerMode bool
	// NonDonatable lists arguments that this run must not consume although the program donates
	// them (PJRT_ExecuteOptions.non_donatable_input_indices).
	NonDonatable []int
	// OnEnd, where it is not nil, is called once when the run is over, well or with an error, which its results carry by then
	// or soon after; not where the method itself gives an error. It runs on a thread of the plugin, or on the caller's before
	// the method returns: it must not block, and not call the client.
	OnEnd func()
}

// End calls OnEnd where there is one; for clients.
func (o *ExecuteOptions) End() {
	if o.OnEnd != nil {
		o.OnEnd()
	}
}

// MemoryInfo is a device's memory in bytes; a limit or peak of 0 is unknown.
type MemoryInfo struct {
	BytesUsed      int64
	BytesLimit     int64
	PeakBytesUsed  int64
	AllocatorStats map[string]int64
}

// ExternalReference lends the device memory of a ready value to someone outside (DLPack, a host
// read by pointer). Release gives it back and is idempotent; the memory is neither freed nor
// donated before.
type ExternalReference struct {
	Pointer uintptr
	Shape   shape.Shape
	// HostAddressable: Pointer may be read by the CPU.
	HostAddressable bool
	// RowMajor: the device layout is dense and row-major.
	RowMajor bool
	Device   string
	Release  func()
}

// Client is the contract.
type Client interface {
	// CreateDataPlaceholder makes Data without device memory, to be filled by Assign. Sharding may be nil.
	CreateDataPlaceholder(device string, s shape.Shape, sharding *Sharding) (Data, error)
	// GetDataShards gives the shards of sharded data, or the data itself as the only one.
	GetDataShards(data Data) ([]Data, error)
	// GetDataShard gives shard index; OutOfRange where there is none.
	GetDataShard(data Data, index int) (Data, error)
	// WrapDataShards joins one shard per local device into one sharded Data; memory is shared. Where its OpSharding is nil they are
	// values of replicas, and may be those of the first local devices only.
	WrapDataShards(shards []Data, device string, s shape.Shape, sharding *Sharding) (Data, error)
	// GetDataSharding gives the annotation, nil where there is none.
	GetDataSharding(data Data) *Sharding

	// TransferToDevice copies host arrays to their devices, in order. It may return before a copy
	// is done; see TensorSource for how long the memory must live.
	TransferToDevice(sources []TensorSource) ([]Data, error)
	// TransferShardsToDevice uploads shard i to the device named by source i.
	TransferShardsToDevice(sources []TensorSource, device string, s shape.Shape, sharding *Sharding) (Data, error)
	// ReshardData gives the data laid out by other shardings; equal ones are returned as they are.
	ReshardData(data []Data, shardings []*Sharding) ([]Data, error)
	// CopyToDevice copies to another device, without going through the host where the plugin can.
	CopyToDevice(data Data, device string) (Data, error)
	// TransferFromDevice waits for the values and copies them to the host. BLOCKING.
	TransferFromDevice(data []Data) ([]Literal, error)
	// TransferFromDeviceInto waits for one value and copies it, dense and row-major, to memory of the caller, which
	// has exactly its size and may lie outside of Go: one copy where TransferFromDevice and a copy out of its Literal
	// would be two. The memory holds anything after an error. BLOCKING.
	TransferFromDeviceInto(data Data, destination []byte) error

	// UnsafeBufferPointer gives the device address of data that is not sharded. BLOCKING until the value exists.
	UnsafeBufferPointer(data Data) (uintptr, error)
	// AcquireExternalReference lends a value's device memory (contract: GetPjRtBuffer, without the
	// PJRT type). BLOCKING until the value is ready.
	AcquireExternalReference(data Data) (ExternalReference, error)
	// CreateViewOfExternalMemory makes Data over memory owned outside; release is called once when
	// the last holder is gone.
	CreateViewOfExternalMemory(pointer uintptr, s shape.Shape, device string, release func()) (Data, error)

	// Compile compiles each instance. BLOCKING (compiler time), does not touch the device queue.
	Compile(instances []CompileInstance) ([]Computation, error)
	// SerializeComputation gives the executable in the plugin's own form.
	SerializeComputation(c Computation) ([]byte, error)
	// DeserializeComputation loads it again; devices are those to run on, nil for the default device.
	DeserializeComputation(serialized []byte, devices []string) (Computation, error)
	// HashCompilationEnvironment identifies plugin, platform version, devices, options and flags:
	// executables are not to be shared between different values. Fixed at creation.
	HashCompilationEnvironment() [16]byte
	// SetCustomCompileOptions replaces the overrides (name to text) put into every later compile.
	// It changes HashCompilationEnvironment's value.
	SetCustomCompileOptions(options map[string]string)

	// ExecuteComputation queues a run on one device and returns at once; results may not be ready.
	ExecuteComputation(c Computation, arguments []Data, device string, options ExecuteOptions) ([]Data, error)
	// ExecuteReplicated queues a run on several devices; each argument has one shard per device, in
	// the order of devices. Results are sharded Data.
	ExecuteReplicated(c Computation, arguments []Data, devices []string, options ExecuteOptions) ([]Data, error)

	// OnReadyCallback calls fn once, on a goroutine of its own, when the value is ready or has
	// failed (err set). Not blocking.
	OnReadyCallback(data Data, fn func(err error)) error
	// IsReady is true where a value can be read without waiting.
	IsReady(data Data) bool
	// Readiness is IsReady together with the error that a ready value failed with. Not blocking.
	Readiness(data Data) (ready bool, err error)
	// WaitDeviceOps waits for all queued work of the devices; none named means all local ones. BLOCKING.
	WaitDeviceOps(devices []string) error

	GetDefaultDevice() string
	// GetDeviceType gives the platform's name in upper case.
	GetDeviceType() string
	GetDeviceKind(device string) (string, error)
	GetPlatformVersion() string
	GetNumLocalDevices() int
	GetNumDevices() int
	// GetLocalDevices is the order of shards everywhere.
	GetLocalDevices() []string
	GetAllDevices() []string
	GetProcessIndex() int
	GetNumProcesses() int
	GetDeviceAttributes(device string) (map[string]any, error)
	// DeviceOrdinal gives the global ordinal of a device name.
	DeviceOrdinal(device string) (int, error)
	SetReplicationDevices(devices []string)
	GetReplicationDevices() []string
	// GetCompilationDevices gives devices where there are any, else the replication devices, else device.
	GetCompilationDevices(device string, devices []string) []string
	GetMetrics() map[string]float64
	// GetMemoryInfo gives a device's memory; Unimplemented where the plugin counts none.
	GetMemoryInfo(device string) (MemoryInfo, error)
	// GetDataMemory gives the bytes that open Data of this client take on a device, and the most that they took
	// since the last ResetPeakDataMemory. The client counts them itself, on every plugin: results from the call
	// that makes them on, arguments until a run has consumed them; not views of foreign memory, nor what programs
	// use while they run.
	GetDataMemory(device string) (bytes, peak int64, err error)
	// ResetPeakDataMemory makes what open Data take now the peak.
	ResetPeakDataMemory(device string) error

	// InitializeCoordinator joins the job of worldSize processes whose rank 0 listens on address and
	// port; FailedPrecondition the second time. BLOCKING until rank 0 answers.
	InitializeCoordinator(rank, worldSize int, address, port string) error
	CoordinatorInitialized() bool
	// GetCoordinator gives the client's coordinator, which closes with the client if
	// InitializeCoordinator made it; FailedPrecondition where there is none. Not blocking.
	GetCoordinator() (*coordinator.Coordinator, error)
	// RegisterCustomCall makes a C function, a handler of XLA's typed foreign function interface, answer
	// the custom calls of a name in programs that are compiled afterwards. platform is "Host" or "CPU",
	// "CUDA", "ROCM" or "TPU", "" for this client's own. The function has to stay loaded for the process's
	// life. Unimplemented where the plugin takes none. Not blocking.
	RegisterCustomCall(name string, function uintptr, platform string) error

	// Close waits for running work and frees the client. Idempotent.
	Close() error
}

// ErrNoValue is what reading a placeholder gives before it has been assigned.
var ErrNoValue = status.Errorf(status.FailedPrecondition, "the placeholder has no value yet: execute the computation that fills it first")
