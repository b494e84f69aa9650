package executor

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"xla_go/gosrc/ir"
	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// graphFiles are the files that steps' programs are appended to, one for each device.
type graphFiles struct {
	stem string // the name without the device's number
	form string // as Describe takes it

	mu     sync.Mutex // of those below, and of the files
	count  int
	failed bool
}

// SaveGraphs has the program of every step that is cut from now on appended to a file, stem with ".0", ".1" and so on for the
// devices; "" ends that. form is text (a node a line), hlo, stablehlo or dot. Nothing changes where it is the same as before.
func (c *Core) SaveGraphs(stem, form string) error {
	switch form {
	case "text":
		form = "ir"
	case "hlo", "stablehlo", "dot":
	default:
		return status.Errorf(status.InvalidArgument, "SaveGraphs(): expected the format text, hlo, stablehlo or dot, got %q", form)
	}
	if stem == "" {
		c.graphs.Store(nil)
	} else if old := c.graphs.Load(); old == nil || old.stem != stem || old.form != form {
		c.graphs.Store(&graphFiles{stem: stem, form: form})
	}
	return nil
}

// saveStep appends the program of a step that is about to be queued, whether or not it was known.
func (f *graphFiles) saveStep(c *Core, s *step) {
	text, err := c.Describe(s.executable.key, s.stacks, f.form)
	if text != "" {
		text = strings.TrimRight(text, "\n") + "\n"
	}
	f.append(s.device, fmt.Sprintf("%d results", len(s.roots)), s.executable.key, text, err)
}

// saveRun appends that a compiled function runs: the hash of its program, which stands where it was traced.
func (f *graphFiles) saveRun(d *Device, key []byte) {
	f.append(d, "run of a compiled function", key, "", nil)
}

// append adds one entry to the device's file. Programs that were written for torch_xla look for its marks.
func (f *graphFiles) append(d *Device, what string, key []byte, program string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	entry := fmt.Sprintf("# step %d on %s, %s\nGraph Hash: %s\n\n## BEGIN_GRAPH\n%s## END_GRAPH\n\n", f.count, d.name, what, hashOf(key), program)
	f.write(d, entry, err)
}

// saveResultShardings appends how the results of a partitioned program lie, which is known once it is compiled.
func (f *graphFiles) saveResultShardings(s *step) {
	if f.form != "hlo" || !s.executable.partitioned || s.executable.err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write(s.device, resultShardings(s.executable), nil)
}

// write appends to the device's file. One that cannot be written is told once and not tried again. Under mu.
func (f *graphFiles) write(d *Device, text string, err error) {
	if f.failed {
		return
	}
	if err == nil {
		err = appendText(fmt.Sprintf("%s.%d", f.stem, d.Index), text)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "xla_go: XLA_SAVE_TENSORS_FILE: %v\n", err)
		f.failed = true
	}
}

// resultShardings lists how the results of a partitioned program lie, a line each.
func resultShardings(e *executable) string {
	program, err := ir.DecodeKey(e.key)
	if err != nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("#OUTPUT_SHARDING_BEGIN\n")
	for i, output := range program.Outputs {
		if i < len(e.shardings) && e.shardings[i] != nil {
			node := program.Nodes[output]
			fmt.Fprintf(&b, "%s %s\n", shape.Shape{Dtype: node.Dtype, Dims: node.Dims}, e.shardings[i])
		}
	}
	b.WriteString("#OUTPUT_SHARDING_END\n\n")
	return b.String()
}

func appendText(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
