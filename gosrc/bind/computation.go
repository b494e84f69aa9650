package bind

import (
	"encoding/base64"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/current"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

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
