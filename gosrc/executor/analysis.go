package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"xla_go/gosrc/env"
	"xla_go/gosrc/hlo"
)

// AnalysisOptions say what is told of compiles and runs, and where.
type AnalysisOptions struct {
	// Level is 0 for nothing, 1 for compiles, 2 for runs as well (PT_XLA_DEBUG, PT_XLA_DEBUG_LEVEL).
	Level int
	// File is appended to; standard error for "" (PT_XLA_DEBUG_FILE).
	File string
	// Frames is how many Python frames are told at most (PT_XLA_DEBUG_MAX_FRAME).
	Frames int
	// ShowExecutions writes a line to standard error for each run (XLA_GO_LOG=executions).
	ShowExecutions bool
}

// DefaultFrames is the number of frames that are told, and kept of each operator's stack, where nothing else is said.
const DefaultFrames = 8

// analysisOptions reads the environment. PT_XLA_DEBUG stands for everything, unless the level says less. Of the
// processes on a host the first one speaks.
func analysisOptions(showExecutions bool) AnalysisOptions {
	o := AnalysisOptions{File: env.String("PT_XLA_DEBUG_FILE", ""), Frames: Frames(), ShowExecutions: showExecutions}
	if env.Bool("PT_XLA_DEBUG", env.Int("PT_XLA_DEBUG", 0) > 0) {
		o.Level = 2
	}
	o.Level = min(max(env.Int("PT_XLA_DEBUG_LEVEL", o.Level), 0), 2)
	if env.Int("PJRT_LOCAL_PROCESS_RANK", 0) != 0 {
		o.Level = 0
	}
	return o
}

// Frames is how many Python frames of a place are kept.
func Frames() int { return max(env.Int("PT_XLA_DEBUG_MAX_FRAME", DefaultFrames), 1) }

// analysis tells of each program that is compiled or run: what asked for it, how large it is, and which lines of the
// user led to it. The lines come after the cut, from Python, so that a cut waits in unlocated until then.
type analysis struct {
	options AnalysisOptions
	cuts    atomic.Int64 // and reads under analysis so far
	calls   atomic.Int64 // under way that may wait long, and are located at their end

	places placeLog

	mu        sync.Mutex // after Core.Mu
	unlocated []unlocated
	failed    bool // the file could not be written, which has been told
}

// unlocated is something that waits to be told where it came from.
type unlocated interface {
	tell(a *analysis, site string, frames []hlo.Frame)
}

// analysedCut is one run, before it is told.
type analysedCut struct {
	number         int64
	device, cause  string
	hash           string
	nodes          int
	inputs, output int
	compiles       bool
}

// cut notes a step that is about to be queued. Under Core.Mu.
func (a *analysis) cut(s *step, cause string, nodes int, compiles bool) {
	if !recordingPlaces.Load() && !a.options.ShowExecutions && (a.options.Level == 0 || a.options.Level == 1 && !compiles) {
		return
	}
	c := &analysedCut{
		number: a.cuts.Add(1), device: s.device.name, cause: cause, hash: hashOf(s.executable.key),
		nodes: nodes, inputs: len(s.arguments), output: len(s.roots), compiles: compiles,
	}
	a.await(c)
}

// await keeps something until it is located, or nobody comes.
func (a *analysis) await(c unlocated) {
	a.mu.Lock()
	a.unlocated = append(a.unlocated, c)
	a.mu.Unlock()
	time.AfterFunc(siteDelay, func() { a.overdue(c) })
}

// hashOf names a program by its key: the same in every process.
func hashOf(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:16])
}

// located tells of what has waited for its place.
func (a *analysis) located(site string, frames []hlo.Frame) {
	a.mu.Lock()
	waiting := a.unlocated
	a.unlocated = nil
	a.mu.Unlock()
	for _, c := range waiting {
		c.tell(a, site, frames)
	}
}

// overdue tells of what nobody has located, for no Python code asked for it.
func (a *analysis) overdue(c unlocated) {
	if a.calls.Load() > 0 {
		time.AfterFunc(siteDelay, func() { a.overdue(c) })
		return
	}
	a.mu.Lock()
	waits := false
	for i, one := range a.unlocated {
		if one == c {
			a.unlocated = append(a.unlocated[:i:i], a.unlocated[i+1:]...)
			waits = true
			break
		}
	}
	a.mu.Unlock()
	if waits {
		c.tell(a, "", nil)
	}
}

func (c *analysedCut) tell(a *analysis, site string, frames []hlo.Frame) {
	if recordingPlaces.Load() {
		a.places.at("step", c.cause, site, func(p *Place) {
			p.Nodes = max(p.Nodes, c.nodes)
			if c.compiles {
				p.Compiled++
			}
		})
	}
	if c.compiles && a.options.Level >= 1 {
		a.report("Compilation Analysis", c.lines(frames, a.options.Frames))
	}
	if a.options.Level >= 2 {
		a.report("Execution Analysis", c.lines(frames, a.options.Frames))
	}
	if a.options.ShowExecutions {
		if site == "" {
			site = "(no Python code)"
		}
		how := "known"
		if c.compiles {
			how = "compiled"
		}
		fmt.Fprintf(os.Stderr, "xla_go: execution %d on %s: %s: %s: program %s, %s (%d nodes, %d inputs, %d results)\n",
			c.number, c.device, site, c.cause, c.hash, how, c.nodes, c.inputs, c.output)
	}
}

func (c *analysedCut) lines(frames []hlo.Frame, most int) []string {
	lines := []string{
		"Cause", "  " + c.cause,
		"Graph", "  Device: " + c.device, "  Hash: " + c.hash,
		fmt.Sprintf("  Nodes: %d", c.nodes), fmt.Sprintf("  Inputs: %d", c.inputs), fmt.Sprintf("  Outputs: %d", c.output),
		"Python frames, the innermost first",
	}
	for i, f := range frames {
		if i == most {
			lines = append(lines, fmt.Sprintf("  and %d more (PT_XLA_DEBUG_MAX_FRAME)", len(frames)-most))
			break
		}
		lines = append(lines, fmt.Sprintf("  %s (%s:%d)", f.Function, f.File, f.Line))
	}
	if len(frames) == 0 {
		lines = append(lines, "  none: no Python code asked for it")
	}
	return lines
}

// compiled tells of a compile that has ended: its time, and what the program needs of memory.
func (a *analysis) compiled(noted *Compile, e *executable, took time.Duration, fromDisk bool) {
	if a.options.Level == 0 {
		return
	}
	how := "compiled"
	switch {
	case e.err != nil:
		how = "failed"
	case fromDisk:
		how = "loaded from the persistent cache"
	}
	lines := []string{"Program", fmt.Sprintf("  Number: %d", noted.Number), "  Hash: " + hashOf(e.key), fmt.Sprintf("  %s in %.3f s", how, took.Seconds())}
	if e.err != nil {
		lines = append(lines, indented(e.err.Error())...)
	} else {
		lines = append(lines, "Memory")
		memory, err := e.computation.MemoryInfo()
		if err != nil {
			memory = "not told by the plugin: " + err.Error()
		}
		lines = append(lines, indented(memory)...)
	}
	a.report("Post Compilation Analysis", lines)
}

func indented(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}

// report writes a block whose lines all begin with its title, so that blocks of several threads can be told apart.
func (a *analysis) report(title string, lines []string) {
	rule := strings.Repeat("=", 80)
	var b strings.Builder
	for _, line := range append(append([]string{rule}, lines...), rule) {
		b.WriteString(title + ": " + line + "\n")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.options.File == "" || a.failed {
		fmt.Fprint(os.Stderr, b.String())
		return
	}
	if err := appendText(a.options.File, b.String()); err != nil {
		a.failed = true
		fmt.Fprintf(os.Stderr, "xla_go: PT_XLA_DEBUG_FILE: %v\n%s", err, b.String())
	}
}
