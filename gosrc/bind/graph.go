package bind

import (
	"encoding/hex"
	"strconv"
	"strings"

	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// GraphText writes the program that would compute the storages' values, or all pending values of a device where no
// storage is given: storages are ids, with commas between them; format is "ir", "hlo",
// "stablehlo", "readable stablehlo" or "dot". It runs and changes
// nothing. A storage that holds a computed value is an input that is returned.
func GraphText(device int64, storages, format string) (text string, err error) {
	defer guard(&err)
	key, stacks, err := graphKey("GraphText", device, storages)
	if err != nil {
		return "", err
	}
	return dispatch.Space().Core.Describe(key, stacks, format)
}

// graphKey gives the key of the program that GraphText speaks of.
func graphKey(function string, device int64, storages string) ([]byte, []ir.Stack, error) {
	space := dispatch.Space()
	if space == nil {
		return nil, nil, status.Errorf(status.FailedPrecondition, "%s(): expected a tensor on device xla, there is none yet", function)
	}
	space.Core.LockResolved()
	defer space.Core.Mu.Unlock()
	d, values, err := graphValues(function, device, storages)
	if err != nil {
		return nil, nil, err
	}
	key, stacks := d.Key(values)
	return key, stacks, nil
}

// graphValues gives the values that GraphText's program computes, each once. Under Core.Mu.
func graphValues(function string, device int64, storages string) (*executor.Device, []*ir.Node, error) {
	ids, err := integers(function, "storages", storages)
	if err != nil {
		return nil, nil, err
	}
	space := dispatch.Space()
	d, err := space.Core.Device(int(device))
	if err != nil {
		return nil, nil, err
	}
	values := d.Pending()
	if storages != "" {
		values = values[:0]
		for _, id := range ids {
			value, err := space.ValueOf(id)
			if err != nil {
				return nil, nil, status.Annotate(err, "%s(): storage %s", function, strconv.FormatInt(id, 10))
			}
			values = append(values, value)
		}
	}
	return d, dedupe(values), nil
}

// GraphModule gives the module of GraphText's program as a JSON object: module (a serialized HloModuleProto, to be taken by
// TakeBytes), text and json (the same in protocol buffers' text formats), parameters (how many of its parameters are device
// values: the first ones), tupled (its parameters are the elements of one), scalars (the words, in hexadecimal, of the one after those, which holds all scalars; "" for none).
func GraphModule(device int64, storages, name string) (text string, err error) {
	defer guard(&err)
	key, _, err := graphKey("GraphModule", device, storages)
	if err != nil {
		return "", err
	}
	core := dispatch.Space().Core
	module, err := core.Module(key, name)
	if err != nil {
		return "", err
	}
	written, err := hlo.ProtoText(module.HLO)
	if err != nil {
		return "", err
	}
	asJSON, err := hlo.ProtoJSON(module.HLO)
	if err != nil {
		return "", err
	}
	core.Mu.Lock()
	d, values, err := graphValues("GraphModule", device, storages)
	var scalars []byte
	if err == nil {
		scalars = d.Scalars(values)
	}
	core.Mu.Unlock()
	if err != nil {
		return "", err
	}
	return encode(map[string]any{
		"module": byteResults.Add(module.HLO), "text": written, "json": asJSON, "parameters": module.Parameters, "tupled": module.TupledArguments, "scalars": hex.EncodeToString(scalars),
	})
}

// ShareParameters makes the values that GraphText's program takes from the device those of other storages of its sizes, one by
// one: targets are their ids. Nothing is copied, and what is written to one storage later leaves the other as it is. Not blocking.
func ShareParameters(device int64, storages, targets string) (shared int64, err error) {
	defer guard(&err)
	ids, err := integers("ShareParameters", "targets", targets)
	if err != nil {
		return 0, err
	}
	space := dispatch.Space()
	if space == nil {
		return 0, status.Errorf(status.FailedPrecondition, "ShareParameters(): expected a tensor on device xla, there is none yet")
	}
	space.Core.Mu.Lock()
	defer space.Core.Mu.Unlock()
	defer space.Core.Graph.EndCall()
	d, values, err := graphValues("ShareParameters", device, storages)
	if err != nil {
		return 0, err
	}
	parameters := d.Parameters(values)
	if len(parameters) != len(ids) {
		return 0, status.Errorf(status.InvalidArgument, "ShareParameters(): expected %d storages, got %d", len(parameters), len(ids))
	}
	for i, id := range ids {
		if _, err := space.ValueOf(id); err != nil {
			return 0, status.Annotate(err, "ShareParameters(): storage %d", id)
		}
		space.Get(id).Set(parameters[i])
	}
	return int64(len(ids)), nil
}

// ParameterStorages gives, for each value that GraphText's program takes from the device, the id of the first storage that holds
// it, with commas between them; 0 where none does. Not blocking.
func ParameterStorages(device int64, storages string) (ids string, err error) {
	defer guard(&err)
	space := dispatch.Space()
	if space == nil {
		return "", status.Errorf(status.FailedPrecondition, "ParameterStorages(): expected a tensor on device xla, there is none yet")
	}
	space.Core.Mu.Lock()
	defer space.Core.Mu.Unlock()
	d, values, err := graphValues("ParameterStorages", device, storages)
	if err != nil {
		return "", err
	}
	holder := map[*ir.Buffer]int64{}
	for _, held := range space.HeldValues() {
		if _, known := holder[held.Value.Buffer]; !known {
			holder[held.Value.Buffer] = held.Storage
		}
	}
	var found []string
	for _, parameter := range d.Parameters(values) {
		found = append(found, strconv.FormatInt(holder[parameter.Buffer], 10))
	}
	return strings.Join(found, ","), nil
}

// CutStorages queues a step for the storages alone, by ids as in GraphText; what else is pending stays so. cause is what reports
// give as its reason. false where nothing of them was pending. Not blocking.
func CutStorages(device int64, storages, cause string) (cut bool, err error) {
	defer guard(&err)
	space := dispatch.Space()
	if space == nil {
		return false, nil
	}
	d, err := space.Core.Device(int(device))
	if err != nil {
		return false, err
	}
	ids, err := integers("CutStorages", "storages", storages)
	if err != nil {
		return false, err
	}
	d.WaitForRoom()
	space.Core.LockResolved()
	defer space.Core.Mu.Unlock()
	defer space.Core.Graph.EndCall()
	roots := make([]*executor.Root, 0, len(ids))
	for _, id := range ids {
		if _, err := space.ValueOf(id); err == nil {
			roots = append(roots, &space.Get(id).Root)
		}
	}
	step, err := d.CutOnly(roots, cause)
	return step != nil, err
}

// AbandonPending forgets what is pending on a device: storages that it would have overwritten keep the values they had, others
// hold none, so that reading them is an error. It gives their number. Not blocking.
func AbandonPending(device int64) (abandoned int64, err error) {
	defer guard(&err)
	space := dispatch.Space()
	if space == nil {
		return 0, nil
	}
	space.Core.LockResolved()
	defer space.Core.Mu.Unlock()
	defer space.Core.Graph.EndCall()
	d, err := space.Core.Device(int(device))
	if err != nil {
		return 0, err
	}
	n, err := d.Abandon()
	return int64(n), err
}

// GraphShardings gives how the values of the program of GraphText lie over the devices, as a JSON list of
// executor.Placement. BLOCKING: it compiles.
func GraphShardings(device int64, storages string) (text string, err error) {
	defer guard(&err)
	key, stacks, err := graphKey("GraphShardings", device, storages)
	if err != nil {
		return "", err
	}
	return placements("GraphShardings", key, stacks)
}

// CompiledShardings is GraphShardings for the program of one of the newest compiles, by its number. BLOCKING: it compiles.
func CompiledShardings(number int64) (text string, err error) {
	defer guard(&err)
	space := dispatch.Space()
	if space == nil {
		return "", status.Errorf(status.NotFound, "CompiledShardings(): expected the number of a compile, there was none yet")
	}
	key, err := space.Core.CompiledKey(number)
	if err != nil {
		return "", status.Annotate(err, "CompiledShardings()")
	}
	return placements("CompiledShardings", key, nil)
}

func placements(function string, key []byte, stacks []ir.Stack) (string, error) {
	list, err := dispatch.Space().Core.Placements(key, stacks)
	if err != nil {
		return "", status.Annotate(err, "%s()", function)
	}
	return encode(list)
}

// dedupe keeps the first of equal values: tensors may share a storage.
func dedupe(values []*ir.Node) []*ir.Node {
	seen := make(map[*ir.Node]bool, len(values))
	kept := values[:0]
	for _, v := range values {
		if !seen[v] {
			seen[v] = true
			kept = append(kept, v)
		}
	}
	return kept
}
