package program

import (
	"slices"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/internal/platform"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

var (
	compileTime          = metrics.Time("CompileTime")
	eagerCompileTime     = metrics.Time("EagerOpCompileTime")
	createCompileHandles = metrics.Counter("CreateCompileHandles")
	stableHLOCompile     = metrics.Counter("StableHloCompile")
)

// Compiler is the part of the contract that makes programs.
type Compiler struct{ *platform.Platform }

// Compile compiles each instance in order. BLOCKING (compiler time).
func (c Compiler) Compile(instances []client.CompileInstance) ([]client.Computation, error) {
	if err := c.Enter(); err != nil {
		return nil, status.Annotate(err, "Compile()")
	}
	defer c.Leave()
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

func (c Compiler) compile(instance *client.CompileInstance) (*Program, error) {
	if (len(instance.HLO) == 0) == (len(instance.MLIR) == 0) {
		return nil, status.Errorf(status.InvalidArgument, "expected either HLO or MLIR, got %d and %d bytes", len(instance.HLO), len(instance.MLIR))
	}
	devices, err := c.programDevices(instance)
	if err != nil {
		return nil, err
	}
	k := &Program{platform: c.Platform, name: instance.Name, devices: devices, isSharded: instance.IsSharded, isTupled: instance.ParameterIsTupledArguments, isMLIR: len(instance.MLIR) > 0}
	program, format := instance.HLO, pjrt.FormatHLO
	if len(instance.HLO) > 0 {
		m, err := parseModule(instance.HLO)
		if err != nil {
			return nil, err
		}
		k.parameters, k.results, k.Donors = flat(m.parameters...), flat(m.result), m.donors
		if k.name == "" {
			k.name = m.name
		}
	} else {
		program, format = instance.MLIR, pjrt.FormatMLIR
		stableHLOCompile.Add(1)
		if instance.IsSharded {
			alone := options(c.Platform, &client.CompileInstance{}, c.Local[:1])
			if err := c.unsharded(k, instance.MLIR, alone); err != nil {
				return nil, err
			}
		}
	}
	k.Executable, err = c.PJRT.Compile(program, format, options(c.Platform, instance, devices))
	if err != nil {
		return nil, platform.Exhausted(err, devices...)
	}
	if err := k.finish(); err != nil {
		k.Executable.Destroy()
		return nil, err
	}
	return k, nil
}

// programDevices gives the devices of a program, all known and none twice.
func (c Compiler) programDevices(instance *client.CompileInstance) ([]*platform.Device, error) {
	wanted := instance.Devices
	if len(wanted) == 1 && wanted[0] == platform.SPMDDevice || len(wanted) == 0 && instance.IsSharded {
		wanted = c.GetAllDevices()
	}
	if len(wanted) == 0 {
		wanted = []string{instance.CompilationDevice}
	}
	devices := make([]*platform.Device, len(wanted))
	for i, name := range wanted {
		d, err := c.Lookup(name)
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

// Own checks that a computation came from this client and takes a hold on it, which the caller releases.
func (c Compiler) Own(computed client.Computation) (*Program, error) {
	k, ok := computed.(*Program)
	if !ok || k == nil || k.platform != c.Platform {
		return nil, status.Errorf(status.InvalidArgument, "expected a computation of this client, got %T", computed)
	}
	return k, k.hold()
}
