package pjrtclient

import (
	"slices"
	"sync/atomic"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

var (
	compileTime          = metrics.Time("CompileTime")
	eagerCompileTime     = metrics.Time("EagerOpCompileTime")
	createCompileHandles = metrics.Counter("CreateCompileHandles")
	stableHLOCompile     = metrics.Counter("StableHloCompile")
)

// computation is client.Computation of this client.
type computation struct {
	client          *Client
	name            string
	executable      *pjrt.Executable
	devices         []*device
	isSharded       bool
	isTupled        bool
	parameters      []shape.Shape // nil where unknown
	results         []shape.Shape
	outputShardings []*client.Sharding
	donors          []int          // flat parameters that a run may consume
	rowMajor        []atomic.Int32 // of each output, learned at the first run
	holders         atomic.Int32   // the owner and the calls that use it
	closed          atomic.Bool
}

var _ client.Computation = (*computation)(nil)

func (k *computation) Name() string                        { return k.name }
func (k *computation) Devices() []string                   { return names(k.devices) }
func (k *computation) ParameterShapes() []shape.Shape      { return k.parameters }
func (k *computation) ResultShapes() []shape.Shape         { return k.results }
func (k *computation) OutputShardings() []*client.Sharding { return k.outputShardings }

func (k *computation) hold() error {
	for {
		n := k.holders.Load()
		if n <= 0 {
			return status.Errorf(status.FailedPrecondition, "the computation %s has been closed", k.name)
		}
		if k.holders.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

func (k *computation) release() {
	if k.holders.Add(-1) == 0 {
		k.executable.Destroy()
	}
}

func (k *computation) Close() {
	if !k.closed.Swap(true) {
		k.release()
	}
}

// OptimizedHLO gives the serialized HloModuleProto after the compiler's passes.
func (k *computation) OptimizedHLO() ([]byte, error) {
	if err := k.hold(); err != nil {
		return nil, status.Annotate(err, "OptimizedHLO()")
	}
	defer k.release()
	program, format, err := k.executable.OptimizedProgram()
	if err != nil {
		return nil, status.Annotate(err, "OptimizedHLO()")
	}
	switch format {
	case "hlo":
		return program, nil
	case "hlo_with_config": // HloModuleProtoWithConfig: the module is field 1
		return messageField(program, 1)
	}
	return nil, status.Errorf(status.Unimplemented, "OptimizedHLO(): the plugin gives the program in format %q, which is not known here", format)
}

// MemoryInfo describes the executable's memory, a line for each sort.
func (k *computation) MemoryInfo() (string, error) {
	if err := k.hold(); err != nil {
		return "", status.Annotate(err, "MemoryInfo()")
	}
	defer k.release()
	return k.executable.MemoryText()
}

// SetCustomCompileOptions replaces the overrides put into every later compile; they change
// HashCompilationEnvironment's value.
func (c *Client) SetCustomCompileOptions(options map[string]string) {
	copied := make(map[string]string, len(options))
	for name, value := range options {
		copied[name] = value
	}
	c.settings.Lock()
	defer c.settings.Unlock()
	c.compileOptions = copied
	h := c.hashWith(copied)
	c.hash.Store(&h)
}

// Compile compiles each instance in order. BLOCKING (compiler time).
func (c *Client) Compile(instances []client.CompileInstance) ([]client.Computation, error) {
	if err := c.open(); err != nil {
		return nil, status.Annotate(err, "Compile()")
	}
	start := time.Now()
	result := make([]client.Computation, 0, len(instances))
	for i := range instances {
		k, err := c.compile(&instances[i])
		if err != nil {
			for _, done := range result {
				done.Close()
			}
			return nil, status.Annotate(err, "Compile(): program %s", instances[i].Name)
		}
		result = append(result, k)
	}
	createCompileHandles.Add(int64(len(result)))
	timer := compileTime
	if len(instances) > 0 && instances[0].EagerMode {
		timer = eagerCompileTime
	}
	timer.Observe(time.Since(start))
	return result, nil
}

func (c *Client) compile(instance *client.CompileInstance) (*computation, error) {
	if (len(instance.HLO) == 0) == (len(instance.MLIR) == 0) {
		return nil, status.Errorf(status.InvalidArgument, "expected either HLO or MLIR, got %d and %d bytes", len(instance.HLO), len(instance.MLIR))
	}
	devices, err := c.programDevices(instance)
	if err != nil {
		return nil, err
	}
	k := &computation{client: c, name: instance.Name, devices: devices, isSharded: instance.IsSharded, isTupled: instance.ParameterIsTupledArguments}
	program, format := instance.HLO, pjrt.FormatHLO
	if len(instance.HLO) > 0 {
		m, err := parseModule(instance.HLO)
		if err != nil {
			return nil, err
		}
		k.parameters, k.results, k.donors = flat(m.parameters...), flat(m.result), m.donors
		if k.name == "" {
			k.name = m.name
		}
	} else {
		program, format = instance.MLIR, pjrt.FormatMLIR
		stableHLOCompile.Add(1)
	}
	k.executable, err = c.pjrt.Compile(program, format, c.compileOptionsProto(instance, devices))
	if err != nil {
		return nil, err
	}
	if err := k.finish(); err != nil {
		k.executable.Destroy()
		return nil, err
	}
	return k, nil
}

// programDevices gives the devices of a program, all known and none twice.
func (c *Client) programDevices(instance *client.CompileInstance) ([]*device, error) {
	wanted := instance.Devices
	if len(wanted) == 1 && wanted[0] == SPMDDevice || len(wanted) == 0 && instance.IsSharded {
		wanted = c.GetAllDevices()
	}
	if len(wanted) == 0 {
		wanted = []string{instance.CompilationDevice}
	}
	devices := make([]*device, len(wanted))
	for i, name := range wanted {
		d, err := c.lookup(name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(devices[:i], d) {
			return nil, status.Errorf(status.InvalidArgument, "expected different devices, got %s twice", name)
		}
		devices[i] = d
	}
	return devices, nil
}

// finish fills what only the compiled program tells.
func (k *computation) finish() error {
	k.holders.Store(1)
	n := k.executable.NumOutputs()
	if k.name == "" {
		k.name = k.executable.Name()
	}
	if k.results == nil && k.isSharded || k.isSharded && k.outputShardings == nil || k.parameters == nil {
		optimized, err := k.OptimizedHLO()
		if err == nil {
			err = k.learn(optimized, n)
		}
		if err != nil && k.isSharded {
			return err
		}
	}
	if k.results == nil {
		k.results = k.executable.OutputShapes()
	}
	if len(k.results) != n {
		return status.Errorf(status.Internal, "the program has %d results, but the plugin tells %d", len(k.results), n)
	}
	k.rowMajor = make([]atomic.Int32, n)
	return nil
}

// learn takes from the optimized module what the source did not tell.
func (k *computation) learn(optimized []byte, n int) error {
	m, err := parseModule(optimized)
	if err != nil {
		return err
	}
	if !k.isSharded {
		if k.parameters == nil {
			k.parameters, k.donors = flat(m.parameters...), m.donors
		}
		return nil
	}
	if k.results == nil {
		return status.Errorf(status.Unimplemented, "a sharded program that is not given as HLO is not supported yet: its unsharded shapes are unknown")
	}
	if m.outputSharding == nil {
		return status.Errorf(status.Internal, "the compiler told no sharding of the outputs")
	}
	k.outputShardings, err = splitSharding(m.outputSharding, n)
	return err
}

// SerializeComputation gives the executable in the plugin's own form.
func (c *Client) SerializeComputation(computed client.Computation) ([]byte, error) {
	k, err := c.ownComputation(computed)
	if err != nil {
		return nil, status.Annotate(err, "SerializeComputation()")
	}
	defer k.release()
	serialized, err := k.executable.Serialize()
	if err != nil {
		return nil, status.Annotate(err, "SerializeComputation(): %s", k.name)
	}
	return appendHeader(k, serialized), nil
}

// DeserializeComputation loads it again; devices are those to run on, nil for the default device.
// BLOCKING.
func (c *Client) DeserializeComputation(serialized []byte, devices []string) (client.Computation, error) {
	if err := c.open(); err != nil {
		return nil, status.Annotate(err, "DeserializeComputation()")
	}
	k, instance, body, err := readHeader(serialized)
	if err != nil {
		return nil, status.Annotate(err, "DeserializeComputation()")
	}
	instance.Devices, instance.CompilationDevice = devices, c.GetDefaultDevice()
	if k.devices, err = c.programDevices(instance); err != nil {
		return nil, status.Annotate(err, "DeserializeComputation()")
	}
	k.client = c
	k.executable, err = c.pjrt.DeserializeAndLoad(body, c.compileOptionsProto(instance, k.devices))
	if err != nil {
		return nil, status.Annotate(err, "DeserializeComputation(): %s", k.name)
	}
	if err := k.finish(); err != nil {
		k.executable.Destroy()
		return nil, status.Annotate(err, "DeserializeComputation(): %s", k.name)
	}
	createCompileHandles.Add(1)
	return k, nil
}

// ownComputation checks that a computation came from this client and takes a hold on it.
func (c *Client) ownComputation(computed client.Computation) (*computation, error) {
	k, ok := computed.(*computation)
	if !ok || k == nil || k.client != c {
		return nil, status.Errorf(status.InvalidArgument, "expected a computation of this client, got %T", computed)
	}
	return k, k.hold()
}
