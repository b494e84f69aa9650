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
	space := dispatch.Space()
	if space == nil {
		return "", status.Errorf(status.FailedPrecondition, "GraphText(): expected a tensor on device xla, there is none yet")
	}
	ids, err := integers("GraphText", "storages", storages)
	if err != nil {
		return "", err
	}
	d, err := space.Core.Device(int(device))
	if err != nil {
		return "", err
	}
	key, stacks, err := func() ([]byte, []ir.Stack, error) {
		space.Core.Mu.Lock()
		defer space.Core.Mu.Unlock()
		values := d.Pending()
		if storages != "" {
			values = values[:0]
			for _, id := range ids {
				value, err := space.ValueOf(id)
				if err != nil {
					return nil, nil, status.Annotate(err, "GraphText(): storage %s", strconv.FormatInt(id, 10))
				}
				values = append(values, value)
			}
		}
		key, stacks := space.Core.Key(dedupe(values))
		return key, stacks, nil
	}()
	if err != nil {
		return "", err
	}
	return space.Core.Describe(key, stacks, format)
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
