package clienttest

import (
	"sync"

	"xla_go/gosrc/client"
	"xla_go/gosrc/coordinator"
	"xla_go/gosrc/shape"
)

// tracked is a client that remembers which methods were called, and what it gave out, so that it can be
// closed where a case was stopped half-way. Every method of the contract is here.
type tracked struct {
	client.Client

	mutex  sync.Mutex
	called map[string]bool
	left   []interface{ Close() }
}

// call remembers a method's call.
func (c *tracked) call(method string) client.Client {
	c.mutex.Lock()
	c.called[method] = true
	c.mutex.Unlock()
	return c.Client
}

// gave remembers what was given out.
func gave[V interface{ Close() }](c *tracked, list []V, err error) ([]V, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, v := range list {
		c.left = append(c.left, v)
	}
	return list, err
}

func gaveOne[V interface{ Close() }](c *tracked, v V, err error) (V, error) {
	if err == nil {
		_, _ = gave(c, []V{v}, nil)
	}
	return v, err
}

// closeLeft closes all that was given out; what is closed already stays so.
func (c *tracked) closeLeft() {
	c.mutex.Lock()
	left := c.left
	c.left = nil
	c.mutex.Unlock()
	for _, v := range left {
		v.Close()
	}
}

func (c *tracked) CreateDataPlaceholder(device string, s shape.Shape, sharding *client.Sharding) (client.Data, error) {
	d, err := c.call("CreateDataPlaceholder").CreateDataPlaceholder(device, s, sharding)
	return gaveOne(c, d, err)
}

func (c *tracked) GetDataShards(data client.Data) ([]client.Data, error) {
	list, err := c.call("GetDataShards").GetDataShards(data)
	return gave(c, list, err)
}

func (c *tracked) GetDataShard(data client.Data, index int) (client.Data, error) {
	d, err := c.call("GetDataShard").GetDataShard(data, index)
	return gaveOne(c, d, err)
}

func (c *tracked) WrapDataShards(shards []client.Data, device string, s shape.Shape, sharding *client.Sharding) (client.Data, error) {
	d, err := c.call("WrapDataShards").WrapDataShards(shards, device, s, sharding)
	return gaveOne(c, d, err)
}

func (c *tracked) GetDataSharding(data client.Data) *client.Sharding {
	return c.call("GetDataSharding").GetDataSharding(data)
}

func (c *tracked) TransferToDevice(sources []client.TensorSource) ([]client.Data, error) {
	list, err := c.call("TransferToDevice").TransferToDevice(sources)
	return gave(c, list, err)
}

func (c *tracked) TransferShardsToDevice(sources []client.TensorSource, device string, s shape.Shape, sharding *client.Sharding) (client.Data, error) {
	d, err := c.call("TransferShardsToDevice").TransferShardsToDevice(sources, device, s, sharding)
	return gaveOne(c, d, err)
}

func (c *tracked) ReshardData(data []client.Data, shardings []*client.Sharding) ([]client.Data, error) {
	list, err := c.call("ReshardData").ReshardData(data, shardings)
	return gave(c, list, err)
}

func (c *tracked) CopyToDevice(data client.Data, device string) (client.Data, error) {
	d, err := c.call("CopyToDevice").CopyToDevice(data, device)
	return gaveOne(c, d, err)
}

func (c *tracked) TransferFromDevice(data []client.Data) ([]client.Literal, error) {
	return c.call("TransferFromDevice").TransferFromDevice(data)
}

func (c *tracked) TransferFromDeviceInto(data client.Data, destination []byte) error {
	return c.call("TransferFromDeviceInto").TransferFromDeviceInto(data, destination)
}

func (c *tracked) UnsafeBufferPointer(data client.Data) (uintptr, error) {
	return c.call("UnsafeBufferPointer").UnsafeBufferPointer(data)
}

func (c *tracked) AcquireExternalReference(data client.Data) (client.ExternalReference, error) {
	r, err := c.call("AcquireExternalReference").AcquireExternalReference(data)
	if err == nil {
		_, _ = gaveOne(c, lent{r.Release}, nil)
	}
	return r, err
}

// lent is an external reference as something to close.
type lent struct{ release func() }

func (l lent) Close() { l.release() }

func (c *tracked) CreateViewOfExternalMemory(pointer uintptr, s shape.Shape, device string, release func()) (client.Data, error) {
	d, err := c.call("CreateViewOfExternalMemory").CreateViewOfExternalMemory(pointer, s, device, release)
	return gaveOne(c, d, err)
}

func (c *tracked) Compile(instances []client.CompileInstance) ([]client.Computation, error) {
	list, err := c.call("Compile").Compile(instances)
	return gave(c, list, err)
}

func (c *tracked) SerializeComputation(k client.Computation) ([]byte, error) {
	return c.call("SerializeComputation").SerializeComputation(k)
}

func (c *tracked) DeserializeComputation(serialized []byte, devices []string) (client.Computation, error) {
	k, err := c.call("DeserializeComputation").DeserializeComputation(serialized, devices)
	return gaveOne(c, k, err)
}

func (c *tracked) HashCompilationEnvironment() [16]byte {
	return c.call("HashCompilationEnvironment").HashCompilationEnvironment()
}

func (c *tracked) SetCustomCompileOptions(options map[string]string) {
	c.call("SetCustomCompileOptions").SetCustomCompileOptions(options)
}

func (c *tracked) ExecuteComputation(k client.Computation, arguments []client.Data, device string, options client.ExecuteOptions) ([]client.Data, error) {
	list, err := c.call("ExecuteComputation").ExecuteComputation(k, arguments, device, options)
	return gave(c, list, err)
}

func (c *tracked) ExecuteReplicated(k client.Computation, arguments []client.Data, devices []string, options client.ExecuteOptions) ([]client.Data, error) {
	list, err := c.call("ExecuteReplicated").ExecuteReplicated(k, arguments, devices, options)
	return gave(c, list, err)
}

func (c *tracked) OnReadyCallback(data client.Data, fn func(err error)) error {
	return c.call("OnReadyCallback").OnReadyCallback(data, fn)
}

func (c *tracked) IsReady(data client.Data) bool { return c.call("IsReady").IsReady(data) }

func (c *tracked) Readiness(data client.Data) (ready bool, err error) {
	return c.call("Readiness").Readiness(data)
}

func (c *tracked) WaitDeviceOps(devices []string) error {
	return c.call("WaitDeviceOps").WaitDeviceOps(devices)
}

func (c *tracked) GetDefaultDevice() string { return c.call("GetDefaultDevice").GetDefaultDevice() }

func (c *tracked) GetDeviceType() string { return c.call("GetDeviceType").GetDeviceType() }

func (c *tracked) GetDeviceKind(device string) (string, error) {
	return c.call("GetDeviceKind").GetDeviceKind(device)
}

func (c *tracked) GetPlatformVersion() string {
	return c.call("GetPlatformVersion").GetPlatformVersion()
}

func (c *tracked) GetNumLocalDevices() int { return c.call("GetNumLocalDevices").GetNumLocalDevices() }

func (c *tracked) GetNumDevices() int { return c.call("GetNumDevices").GetNumDevices() }

func (c *tracked) GetLocalDevices() []string { return c.call("GetLocalDevices").GetLocalDevices() }

func (c *tracked) GetAllDevices() []string { return c.call("GetAllDevices").GetAllDevices() }

func (c *tracked) GetProcessIndex() int { return c.call("GetProcessIndex").GetProcessIndex() }

func (c *tracked) GetNumProcesses() int { return c.call("GetNumProcesses").GetNumProcesses() }

func (c *tracked) GetDeviceAttributes(device string) (map[string]any, error) {
	return c.call("GetDeviceAttributes").GetDeviceAttributes(device)
}

func (c *tracked) DeviceOrdinal(device string) (int, error) {
	return c.call("DeviceOrdinal").DeviceOrdinal(device)
}

func (c *tracked) SetReplicationDevices(devices []string) {
	c.call("SetReplicationDevices").SetReplicationDevices(devices)
}

func (c *tracked) GetReplicationDevices() []string {
	return c.call("GetReplicationDevices").GetReplicationDevices()
}

func (c *tracked) GetCompilationDevices(device string, devices []string) []string {
	return c.call("GetCompilationDevices").GetCompilationDevices(device, devices)
}

func (c *tracked) GetMetrics() map[string]float64 { return c.call("GetMetrics").GetMetrics() }

func (c *tracked) GetMemoryInfo(device string) (client.MemoryInfo, error) {
	return c.call("GetMemoryInfo").GetMemoryInfo(device)
}

func (c *tracked) GetDataMemory(device string) (bytes, peak int64, err error) {
	return c.call("GetDataMemory").GetDataMemory(device)
}

func (c *tracked) ResetPeakDataMemory(device string) error {
	return c.call("ResetPeakDataMemory").ResetPeakDataMemory(device)
}

func (c *tracked) InitializeCoordinator(rank, worldSize int, address, port string) error {
	return c.call("InitializeCoordinator").InitializeCoordinator(rank, worldSize, address, port)
}

func (c *tracked) CoordinatorInitialized() bool {
	return c.call("CoordinatorInitialized").CoordinatorInitialized()
}

func (c *tracked) GetCoordinator() (*coordinator.Coordinator, error) {
	return c.call("GetCoordinator").GetCoordinator()
}

func (c *tracked) RegisterCustomCall(name string, function uintptr, platform string) error {
	return c.call("RegisterCustomCall").RegisterCustomCall(name, function, platform)
}

func (c *tracked) Close() error { return c.call("Close").Close() }
