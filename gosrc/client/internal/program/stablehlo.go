package program

import (
	"bytes"

	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

// usesShardy says whether a StableHLO module, as text or as bytecode, is laid over devices in terms of the
// Shardy dialect, which the partitioner has to be told.
func usesShardy(module []byte) bool {
	for _, word := range []string{"sdy.mesh", "sdy.sharding", "sdy.manual_computation", "\x00sdy\x00"} {
		if bytes.Contains(module, []byte(word)) {
			return true
		}
	}
	return false
}

// isBytecode says whether a module is in MLIR's binary form.
func isBytecode(module []byte) bool { return bytes.HasPrefix(module, []byte("ML\xefR")) }

// unsharded finds the arrays that a sharded StableHLO module takes and gives as they are before sharding, which
// the partitioned program does not tell: two shards of 3 may be 5 or 6. Text says it. Of bytecode the plugin
// is asked, by a compile for one device. BLOCKING.
func (c Compiler) unsharded(k *Program, module []byte, one []byte) error {
	var err error
	if !isBytecode(module) {
		k.parameters, k.results, err = signature(module)
		return err
	}
	executable, err := c.PJRT.Compile(module, pjrt.FormatMLIR, one)
	if err != nil {
		return status.Annotate(err, "the shapes before sharding, which bytecode tells only by a compile for one device (give the module as text instead)")
	}
	defer executable.Destroy()
	proto, err := optimizedModule(executable)
	if err != nil {
		return err
	}
	m, err := parseModule(proto)
	if err != nil {
		return err
	}
	k.parameters, k.results = flat(m.parameters...), flat(m.result)
	return nil
}
