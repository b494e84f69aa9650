// Package program compiles programs, keeps them loaded and checks what a run is given; it knows nothing of
// how a client holds data.
package program

import (
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/client/internal/sharding"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
	"xla_go/gosrc/wire"
	"xla_go/pjrt"
)

// Program is client.Computation: a loaded executable over a list of devices.
type Program struct {
	platform        *platform.Platform
	name            string
	Executable      *pjrt.Executable
	Running         []*platform.Device // of this process, in the order of execution
	devices         []*platform.Device
	isSharded       bool
	isTupled        bool
	isMLIR          bool          // given as StableHLO, so that only the compiled program tells its donors
	parameters      []shape.Shape // nil where unknown
	results         []shape.Shape
	outputShardings []*client.Sharding
	Donors          []int             // flat parameters that a run may consume
	Layouts         []platform.Layout // of each output, learned at the first run
	OutputBytes     []int64           // of each output, on each device
	holders         atomic.Int32      // the owner and the calls that use it
	closed          atomic.Bool
}

var _ client.Computation = (*Program)(nil)

// Name gives the name for messages.
func (k *Program) Name() string { return k.name }

// Devices gives the names of the devices that it runs on.
func (k *Program) Devices() []string { return platform.Names(k.devices) }

// ParameterShapes gives the arrays that a run takes, nil where unknown.
func (k *Program) ParameterShapes() []shape.Shape { return k.parameters }

// ResultShapes gives the arrays that a run makes.
func (k *Program) ResultShapes() []shape.Shape { return k.results }

// OutputShardings gives what the compiler chose, nil for a program that is not sharded.
func (k *Program) OutputShardings() []*client.Sharding { return k.outputShardings }

func (k *Program) hold() error {
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

// Release gives up what Own took.
func (k *Program) Release() {
	if k.holders.Add(-1) == 0 {
		k.Executable.Destroy()
	}
}

// Close drops the owner's hold. Idempotent.
func (k *Program) Close() {
	if !k.closed.Swap(true) {
		k.Release()
	}
}

// OptimizedHLO gives the serialized HloModuleProto after the compiler's passes.
func (k *Program) OptimizedHLO() ([]byte, error) {
	if err := k.hold(); err != nil {
		return nil, status.Annotate(err, "OptimizedHLO()")
	}
	defer k.Release()
	module, err := optimizedModule(k.Executable)
	if err != nil {
		return nil, status.Annotate(err, "OptimizedHLO()")
	}
	return module, nil
}

// optimizedModule gives the serialized HloModuleProto of what an executable runs.
func optimizedModule(e *pjrt.Executable) ([]byte, error) {
	program, format, err := e.OptimizedProgram()
	if err != nil {
		return nil, err
	}
	switch format {
	case "hlo":
		return program, nil
	case "hlo_with_config": // HloModuleProtoWithConfig: the module is field 1
		return wire.Field(program, 1)
	}
	return nil, status.Errorf(status.Unimplemented, "the plugin gives the program in format %q, which is not known here", format)
}

// MemoryInfo describes the executable's memory, a line for each sort.
func (k *Program) MemoryInfo() (string, error) {
	if err := k.hold(); err != nil {
		return "", status.Annotate(err, "MemoryInfo()")
	}
	defer k.Release()
	return k.Executable.MemoryText()
}

// finish fills what only the compiled program tells.
func (k *Program) finish() error {
	k.holders.Store(1)
	for _, d := range k.Executable.AddressableDevices() {
		k.Running = append(k.Running, k.platform.ByDevice[d])
	}
	n := k.Executable.NumOutputs()
	if k.name == "" {
		k.name = k.Executable.Name()
	}
	if k.isSharded && k.outputShardings == nil || k.parameters == nil {
		optimized, err := k.OptimizedHLO()
		if err == nil {
			err = k.learn(optimized, n)
		}
		if err != nil && k.isSharded {
			return err
		}
	}
	if k.results == nil {
		k.results = k.Executable.OutputShapes()
	}
	if len(k.results) != n {
		return status.Errorf(status.Internal, "the program has %d results, but the plugin tells %d", len(k.results), n)
	}
	k.Layouts, k.OutputBytes = make([]platform.Layout, n), make([]int64, n)
	onDevice := k.Executable.OutputShapes()
	if onDevice == nil {
		onDevice = k.results
	}
	for i, s := range onDevice {
		k.OutputBytes[i] = s.ByteSize()
	}
	return nil
}

// learn takes from the optimized module what the source did not tell.
func (k *Program) learn(optimized []byte, n int) error {
	m, err := parseModule(optimized)
	if err != nil {
		return err
	}
	if k.isMLIR || k.parameters == nil {
		k.Donors = m.donors
	}
	if !k.isSharded {
		if k.parameters == nil {
			k.parameters = flat(m.parameters...)
		}
		return nil
	}
	if m.outputSharding == nil && len(k.devices) == 1 { // XLA partitions nothing: all of each value is there
		k.outputShardings = make([]*client.Sharding, n)
		for i := range k.outputShardings {
			k.outputShardings[i] = &client.Sharding{OpSharding: []byte{}}
		}
		return nil
	}
	if m.outputSharding == nil {
		return status.Errorf(status.Internal, "the compiler told no sharding of the outputs")
	}
	k.outputShardings, err = sharding.Split(m.outputSharding, n)
	return err
}
