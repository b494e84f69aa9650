package bind

import (
	"strconv"

	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

// GraphText writes the program that would compute the storages' values, or all pending values of a device where no
// storage is given: storages are ids, with commas between them; format is "ir", "hlo", "stablehlo" or "dot". It runs and changes
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
	ids, err := integers(function, "storages", storages)
	if err != nil {
		return nil, nil, err
	}
	d, err := space.Core.Device(int(device))
	if err != nil {
		return nil, nil, err
	}
	space.Core.LockResolved()
	defer space.Core.Mu.Unlock()
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
	key, stacks := d.Key(dedupe(values))
	return key, stacks, nil
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
