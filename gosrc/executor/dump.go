package executor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"xla_go/gosrc/client"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/status"
)

// dump writes a program as DumpDirectory/step_NNNN.hlo.txt, .hlo.pb (the same as HloModuleProto, which XLA's tools and
// xla_go.client.compile take), .optimized.hlo.txt and .opcodes.json (opcode to count, over all computations of the
// optimized program).
func (c *Core) dump(module []byte, computation client.Computation) error {
	optimized, err := computation.OptimizedHLO()
	if err != nil {
		return status.Annotate(err, "dump of the optimized program")
	}
	counts, err := hlo.CountOpcodes(optimized)
	if err != nil {
		return err
	}
	table, err := json.MarshalIndent(counts, "", " ")
	if err != nil {
		return status.Errorf(status.Internal, "dump: %v", err)
	}
	before, err := hlo.Dump(module)
	if err != nil {
		return err
	}
	after, err := hlo.Dump(optimized)
	if err != nil {
		return err
	}
	stem := filepath.Join(c.options.DumpDirectory, fmt.Sprintf("step_%04d", c.dumped.Add(1)))
	for suffix, text := range map[string]string{".hlo.txt": before, ".hlo.pb": string(module), ".optimized.hlo.txt": after, ".opcodes.json": string(table)} {
		if err := os.WriteFile(stem+suffix, []byte(text), 0o644); err != nil {
			return status.Errorf(status.InvalidArgument, "dump: expected a directory that can be written, got %v", err)
		}
	}
	return nil
}
