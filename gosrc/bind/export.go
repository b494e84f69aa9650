package bind

import (
	"encoding/json"

	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/stablehlo"
	"xla_go/gosrc/status"
)

// exports are programs that were traced and not written yet.
var exports = dispatch.NewHandles[*executor.Export]("exports")

// exportRequest says how a traced program is written.
type exportRequest struct {
	Name      string           `json:"name"`
	Arguments []exportArgument `json:"arguments"`
	// Scalars are names of arguments for the scalars that ExportTrace told of, none for numbers in the program.
	Scalars []string `json:"scalars"`
}

// exportArgument is an input of the recording, in the order of arguments.
type exportArgument struct {
	Input      int     `json:"input"`
	Name       string  `json:"name"`
	Element    string  `json:"element"` // in HLO's notation
	Dimensions []int64 `json:"dimensions"`
	// Inline: its elements, which lie dense and row-major at Address, become part of the program.
	Inline  bool  `json:"inline"`
	Address int64 `json:"address"`
}

// exportedScalar is a number of a program.
type exportedScalar struct {
	Element string `json:"element"`
	Value   []byte `json:"value"`
}

// ExportTrace ends the recording that the adapter's record_begin began and describes the program that computes the storages
// (ids, with commas between them) from its inputs as a JSON object: export (for ExportWrite and ExportEnd), used (for each
// input whether the program reads it), random (it draws random numbers), drawn (how far a run moves the generator) and scalars
// (its numbers that may be arguments: element, and value, its bytes in base64). Nothing is run.
func ExportTrace(storages string) (text string, err error) {
	defer guard(&err)
	ids, err := integers("ExportTrace", "storages", storages)
	if err != nil {
		return "", err
	}
	e, err := dispatch.Export(ids)
	if err != nil {
		return "", err
	}
	random, drawn := e.Draws()
	scalars := []exportedScalar{}
	for _, v := range e.Scalars() {
		scalars = append(scalars, exportedScalar{v.Dtype.String(), v.Elements()})
	}
	text, err = encode(map[string]any{"export": exports.Add(e), "used": e.Uses(), "random": random, "drawn": drawn, "scalars": scalars})
	return text, err
}

// ExportWrite writes a traced program, as request (an exportRequest) says, and gives it as a JSON object: module (a
// serialized HloModuleProto, to be taken by TakeBytes), hlo and stablehlo (text, likewise). Unimplemented, with the opcode's name,
// for what StableHLO has no operation for. BLOCKING.
func ExportWrite(export int64, request string) (text string, err error) {
	defer guard(&err)
	e, err := exports.Get(export)
	if err != nil {
		return "", err
	}
	var r exportRequest
	if err := json.Unmarshal([]byte(request), &r); err != nil {
		return "", status.Errorf(status.InvalidArgument, "ExportWrite(): expected a JSON object, got %v", err)
	}
	arguments := make([]executor.ExportedArgument, len(r.Arguments))
	for i, a := range r.Arguments {
		s, err := shapeOf("ExportWrite", a.Element, a.Dimensions)
		if err != nil {
			return "", err
		}
		arguments[i] = executor.ExportedArgument{Input: a.Input, Name: a.Name, Shape: s}
		if a.Inline {
			arguments[i].Constant = []byte{}
			if s.ByteSize() > 0 {
				arguments[i].Constant = dispatch.CopyFrom(uintptr(a.Address), int(s.ByteSize()))
			}
		}
	}
	module, err := e.Lower(r.Name, arguments, r.Scalars)
	if err != nil {
		return "", err
	}
	written, err := stablehlo.Text(module)
	if err != nil {
		return "", err
	}
	dump, err := hlo.Dump(module)
	if err != nil {
		return "", err
	}
	return encode(map[string]any{
		"module": byteResults.Add(module), "hlo": byteResults.Add([]byte(dump)), "stablehlo": byteResults.Add([]byte(written)),
	})
}

// ExportEnd forgets a traced program. Idempotent.
func ExportEnd(export int64) (ok bool, err error) {
	defer guard(&err)
	e, ok := exports.Remove(export)
	if ok {
		e.Close()
	}
	return ok, nil
}

// ModuleText gives a serialized HloModuleProto, length bytes at address, as HLO text, to be taken by TakeBytes.
func ModuleText(address, length int64) (handle int64, err error) {
	defer guard(&err)
	text, err := hlo.Dump(dispatch.CopyFrom(uintptr(address), int(length)))
	if err != nil {
		return 0, err
	}
	return byteResults.Add([]byte(text)), nil
}

// ReadableStableHLO gives a serialized HloModuleProto, length bytes at address, as StableHLO in the form for people, to
// be taken by TakeBytes.
func ReadableStableHLO(address, length int64) (handle int64, err error) {
	defer guard(&err)
	text, err := stablehlo.Readable(dispatch.CopyFrom(uintptr(address), int(length)))
	if err != nil {
		return 0, err
	}
	return byteResults.Add([]byte(text)), nil
}
