package bind

import (
	"xla_go/gosrc/client"
	"xla_go/gosrc/client/current"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// Compile compiles a program for one device ("" is the default device) and gives the
// computation's handle, to be closed with CloseComputation. The program lies at address with that
// length and is copied. format is "hlo" (a serialized HloModuleProto) or "mlir" (StableHLO text
// or bytecode). BLOCKING for the compiler's time.
func Compile(address, length int64, format, name, device string) (handle int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	if device == "" {
		device = c.GetDefaultDevice()
	}
	instance := client.CompileInstance{Name: name, CompilationDevice: device, Devices: []string{device}}
	switch program := dispatch.CopyFrom(uintptr(address), int(length)); format {
	case "hlo":
		instance.HLO = program
	case "mlir":
		instance.MLIR = program
	default:
		return 0, status.Errorf(status.InvalidArgument, "Compile(): expected format hlo or mlir, got %q", format)
	}
	computations, err := c.Compile([]client.CompileInstance{instance})
	if err != nil {
		return 0, err
	}
	return dispatch.AddComputation(computations[0]), nil
}

// ComputationInfo describes a computation as a JSON object: name, devices, parameters and results
// (shapes in HLO's notation).
func ComputationInfo(handle int64) (text string, err error) {
	defer guard(&err)
	computation, err := dispatch.ComputationHandles.Get(handle)
	if err != nil {
		return "", err
	}
	return encode(map[string]any{
		"name":       computation.Name(),
		"devices":    computation.Devices(),
		"parameters": shapeTexts(computation.ParameterShapes()),
		"results":    shapeTexts(computation.ResultShapes()),
	})
}

func shapeTexts(shapes []shape.Shape) []string {
	texts := make([]string, len(shapes))
	for i, s := range shapes {
		texts[i] = s.String()
	}
	return texts
}

// CloseComputation frees a computation; runs in flight finish first. Idempotent: it says whether the
// handle was open.
func CloseComputation(handle int64) (closed bool, err error) {
	defer guard(&err)
	computation, ok := dispatch.ComputationHandles.Remove(handle)
	if ok {
		computation.Close()
	}
	return ok, nil
}

// LiveComputations counts the computations that Python holds.
func LiveComputations() int64 { return dispatch.ComputationHandles.Count() }
