package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"xla_go/gosrc/client"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/status"
)

// dump writes a program as DumpDirectory/step_NNNN.hlo.txt, .optimized.hlo.txt and
// .opcodes.json (opcode to count, over all computations of the optimized program).
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
	for suffix, text := range map[string]string{".hlo.txt": before, ".optimized.hlo.txt": after, ".opcodes.json": string(table)} {
		if err := os.WriteFile(stem+suffix, []byte(text), 0o644); err != nil {
			return status.Errorf(status.InvalidArgument, "dump: expected a directory that can be written, got %v", err)
		}
	}
	return nil
}

// saveGraph appends the program of a step that is about to be queued to the file of SaveGraphs, whether or not it was known.
// Under Core.Mu.
func (c *Core) saveGraph(s *step) {
	text, err := c.Describe(s.executable.key, s.stacks, c.options.SaveGraphsAs)
	c.saveEntry(s.device, fmt.Sprintf("%d results", len(s.roots)), s.executable.key, text, err)
}

// saveRun appends that a compiled function runs: the hash of its program, which stands where it was traced. Under Core.Mu.
func (c *Core) saveRun(d *Device, key []byte) {
	c.saveEntry(d, "run of a compiled function", key, "", nil)
}

// saveEntry appends one entry to the device's file. A file that cannot be written is told once and not tried again.
func (c *Core) saveEntry(d *Device, what string, key []byte, text string, err error) {
	if c.savingFailed {
		return
	}
	c.savedGraphs++
	if err == nil {
		if text != "" {
			text = strings.TrimSuffix(text, "\n") + "\n"
		}
		entry := fmt.Sprintf("# step %d on %s, %s\nGraph Hash: %s\n\n## BEGIN_GRAPH\n%s## END_GRAPH\n\n", c.savedGraphs, d.name, what, hashOf(key), text)
		err = appendText(fmt.Sprintf("%s.%d", c.options.SaveGraphs, d.Index), entry)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "xla_go: XLA_SAVE_TENSORS_FILE: %v\n", err)
		c.savingFailed = true
	}
}

func appendText(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
