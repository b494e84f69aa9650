package bind

import (
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/ops"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// arrayShape is a shape as Python reads it.
type arrayShape struct {
	Element    string  `json:"element"` // in HLO's notation
	Dimensions []int64 `json:"dimensions"`
}

func arrayShapes(shapes []shape.Shape) []arrayShape {
	list := make([]arrayShape, len(shapes))
	for i, s := range shapes {
		list[i] = arrayShape{s.Dtype.String(), append([]int64{}, s.Dims...)}
	}
	return list
}

// ModuleOpen reads a serialized HloModuleProto, length bytes at address, and gives a JSON object: module (its number for
// xla_go::call_module, until ModuleClose), parameters and results (element and dimensions of the arrays that a call takes and gives).
// InvalidArgument for bytes that are no well-formed module, and for other parameters than arrays of fixed sizes; Unimplemented for one with collectives.
func ModuleOpen(address, length int64) (text string, err error) {
	defer guard(&err)
	number, module, err := ops.OpenModule(dispatch.CopyFrom(uintptr(address), int(length)))
	if err != nil {
		return "", err
	}
	return encode(map[string]any{"module": number, "parameters": arrayShapes(module.Parameters), "results": arrayShapes(module.Results)})
}

// ModuleClose forgets a module. Idempotent.
func ModuleClose(module int64) (ok bool, err error) {
	defer guard(&err)
	ops.CloseModule(module)
	return true, nil
}

// FunctionModule writes the program that computes the storages outputs from the storages inputs, which hold placeholders (ids, with
// commas between them), and gives a JSON object: module (a serialized HloModuleProto, to be taken by TakeBytes, whose parameters are the
// inputs, then captured, then, where random, the generator's state, u64[2]), captured (element and dimensions of the values that it
// takes from elsewhere, for ShareParameters) and random. seed and offset are the generator's as the tracing began. Nothing is run.
func FunctionModule(device int64, outputs, inputs, name string, seed, offset int64) (text string, err error) {
	defer guard(&err)
	f, err := tracedFunction(device, outputs, inputs, seed, offset)
	if err != nil {
		return "", err
	}
	module, err := f.Lower(name)
	if err != nil {
		return "", err
	}
	return encode(map[string]any{"module": byteResults.Add(module), "captured": arrayShapes(f.Captured), "random": f.Random})
}

func tracedFunction(device int64, outputs, inputs string, seed, offset int64) (*executor.Function, error) {
	space := dispatch.Space()
	if space == nil {
		return nil, status.Errorf(status.FailedPrecondition, "FunctionModule(): expected a tensor on device xla, there is none yet")
	}
	d, err := space.Core.Device(int(device))
	if err != nil {
		return nil, err
	}
	space.Core.Mu.Lock()
	defer space.Core.Mu.Unlock()
	var nodes [2][]*ir.Node
	for k, storages := range [...]string{outputs, inputs} {
		ids, err := integers("FunctionModule", "storages", storages)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			value, err := space.ValueOf(id)
			if err != nil {
				return nil, err
			}
			nodes[k] = append(nodes[k], value)
		}
	}
	return d.Function(nodes[0], nodes[1], uint64(seed), uint64(offset))
}
