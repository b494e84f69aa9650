package bind

import (
	"encoding/base64"
	"encoding/json"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/current"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// compileRequest says how a program is compiled.
type compileRequest struct {
	// Format is "hlo" (a serialized HloModuleProto) or "mlir" (StableHLO text or bytecode).
	Format string `json:"format"`
	Name   string `json:"name"`
	// Devices are those to run on, none for the default device.
	Devices []string `json:"devices"`
	// Sharded makes one partitioned program of all devices, instead of a replica on each.
	Sharded bool `json:"sharded"`
	// PropagateToOutputs lets the compiler choose the shardings of results that have none.
	PropagateToOutputs bool `json:"propagate_to_outputs"`
	// TupledParameters: the program has one tuple as its parameter.
	TupledParameters bool `json:"tupled_parameters"`
}

// Compile compiles a program and gives the computation's handle, to be closed with
// CloseComputation. The program lies at address with that length and is copied; request is a JSON object
// (compileRequest). BLOCKING for the compiler's time.
func Compile(address, length int64, request string) (handle int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	var r compileRequest
	if err := json.Unmarshal([]byte(request), &r); err != nil {
		return 0, status.Errorf(status.InvalidArgument, "Compile(): expected a JSON object, got %v", err)
	}
	if len(r.Devices) == 0 {
		r.Devices = []string{c.GetDefaultDevice()}
	}
	instance := client.CompileInstance{
		Name: r.Name, CompilationDevice: r.Devices[0], Devices: r.Devices, IsSharded: r.Sharded,
		AllowSPMDShardingPropagationToOutput: r.PropagateToOutputs, ParameterIsTupledArguments: r.TupledParameters,
	}
	switch program := dispatch.CopyFrom(uintptr(address), int(length)); r.Format {
	case "hlo":
		instance.HLO = program
	case "mlir":
		instance.MLIR = program
	default:
		return 0, status.Errorf(status.InvalidArgument, "Compile(): expected format hlo or mlir, got %q", r.Format)
	}
	computations, err := c.Compile([]client.CompileInstance{instance})
	if err != nil {
		return 0, err
	}
	return dispatch.AddComputation(computations[0]), nil
}

// ComputationInfo describes a computation as a JSON object: name, devices, parameters and results
// (shapes in HLO's notation) and output_shardings (base64, null for a program that is not sharded).
func ComputationInfo(handle int64) (text string, err error) {
	defer guard(&err)
	computation, err := dispatch.ComputationHandles.Get(handle)
	if err != nil {
		return "", err
	}
	var shardings []*string
	for _, s := range computation.OutputShardings() {
		shardings = append(shardings, encodeSharding(s))
	}
	return encode(map[string]any{
		"name":             computation.Name(),
		"devices":          computation.Devices(),
		"parameters":       shapeTexts(computation.ParameterShapes()),
		"results":          shapeTexts(computation.ResultShapes()),
		"output_shardings": shardings,
	})
}

func shapeTexts(shapes []shape.Shape) []string {
	texts := make([]string, len(shapes))
	for i, s := range shapes {
		texts[i] = s.String()
	}
	return texts
}

// encodeSharding gives an annotation for JSON, nil for none.
func encodeSharding(s *client.Sharding) *string {
	if s == nil {
		return nil
	}
	text := base64.StdEncoding.EncodeToString(s.OpSharding)
	return &text
}

// decodeSharding is the reverse of encodeSharding.
func decodeSharding(function string, text *string) (*client.Sharding, error) {
	if text == nil {
		return nil, nil
	}
	raw, err := base64.StdEncoding.DecodeString(*text)
	if err != nil {
		return nil, status.Errorf(status.InvalidArgument, "%s(): expected a sharding in base64, got %v", function, err)
	}
	return &client.Sharding{OpSharding: raw}, nil
}

// OptimizedHLO gives the serialized HloModuleProto after the compiler's passes, as a handle for
// TakeBytes. BLOCKING for as long as the plugin takes to write it.
func OptimizedHLO(handle int64) (bytes int64, err error) {
	defer guard(&err)
	computation, err := dispatch.ComputationHandles.Get(handle)
	if err != nil {
		return 0, err
	}
	module, err := computation.OptimizedHLO()
	if err != nil {
		return 0, err
	}
	return byteResults.Add(module), nil
}

// ComputationMemory describes the memory of a computation in words.
func ComputationMemory(handle int64) (text string, err error) {
	defer guard(&err)
	computation, err := dispatch.ComputationHandles.Get(handle)
	if err != nil {
		return "", err
	}
	return computation.MemoryInfo()
}

// SerializeComputation gives an executable in the plugin's own form, as a handle for TakeBytes.
// BLOCKING for as long as the plugin takes to write it.
func SerializeComputation(handle int64) (bytes int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	computation, err := dispatch.ComputationHandles.Get(handle)
	if err != nil {
		return 0, err
	}
	serialized, err := c.SerializeComputation(computation.Computation)
	if err != nil {
		return 0, err
	}
	return byteResults.Add(serialized), nil
}

// DeserializeComputation loads what SerializeComputation gave and gives the computation's handle.
// devices are those to run on, one a line, none for those that it was compiled for. BLOCKING for the
// plugin's time.
func DeserializeComputation(address, length int64, devices string) (handle int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	computation, err := c.DeserializeComputation(dispatch.CopyFrom(uintptr(address), int(length)), split(devices))
	if err != nil {
		return 0, err
	}
	return dispatch.AddComputation(computation), nil
}

// ExecuteReplicated queues a run on all devices of a computation and gives the results' handles with
// commas between them; results are sharded data. arguments are handles of data and kept the numbers
// of arguments that are not donated, both with commas between them; devices are names, one a line. Not blocking.
func ExecuteReplicated(computation int64, arguments, devices, kept string) (results string, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return "", err
	}
	program, err := dispatch.ComputationHandles.Get(computation)
	if err != nil {
		return "", err
	}
	data, err := dataOf("ExecuteReplicated", arguments)
	if err != nil {
		return "", err
	}
	numbers, err := integers("ExecuteReplicated", "kept arguments", kept)
	if err != nil {
		return "", err
	}
	options := client.ExecuteOptions{ExplodeTuple: true}
	for _, n := range numbers {
		options.NonDonatable = append(options.NonDonatable, int(n))
	}
	outputs, err := c.ExecuteReplicated(program.Computation, data, split(devices), options)
	if err != nil {
		return "", err
	}
	return addAll(outputs), nil
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
