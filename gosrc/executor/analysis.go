package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"xla_go/gosrc/client"
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
	name      string
}

// compiledFunction is the cause of a graph that torch.compile has traced.
const compiledFunction = "compiled function"

// saidByTorchXLA is what tools that read torch_xla's reports look for, by our cause: of a run, and of a compile where that differs.
var saidByTorchXLA = map[string][2]string{
	"read of a value":               {"user code trying to access tensor value"},
	"inputs of a compiled function": {"torch_xla.sync when dynamo processing input graphs"},
	"parallel loader":               {"torch_xla.sync in parallel loader at step end"},
	compiledFunction:                {"dynamo is executing a compiled program", "dynamo is compiling a FX graph to HLO"},
}

// NameGraphs gives the graphs that are cut from now on a name in reports; "" none.
func (c *Core) NameGraphs(name string) {
	c.analysis.mu.Lock()
	defer c.analysis.mu.Unlock()
	c.analysis.name = name
}

// AwaitReportedCompiles waits, where compiles are reported, for those that go on, so that the reports come in the order of the
// steps. BLOCKING; without Core.Mu.
func (c *Core) AwaitReportedCompiles() {
	if c.ReportsCompiles() {
		c.WaitCompiled()
	}
}

// ReportsCompiles is true where compiles are reported.
func (c *Core) ReportsCompiles() bool { return c.analysis.options.Level > 0 }

// unlocated is something that waits to be told where it came from.
type unlocated interface {
	tell(a *analysis, site string, frames []hlo.Frame)
}

// analysedCut is one run, before it is told.
type analysedCut struct {
	number         int64
	device, cause  string
	name           string // of the graph, "" for none
	hash           string
	nodes          int
	inputs, output int
	compiles       bool
	eager          bool // one operator of eager mode, of which nothing is reported
	executable     *executable
}

// cut notes a step that is about to be queued. Under Core.Mu.
func (a *analysis) cut(s *step, cause string, nodes int, compiles bool) {
	if !recordingPlaces.Load() && !a.options.ShowExecutions && (a.options.Level == 0 || a.options.Level == 1 && !compiles) {
		return
	}
	c := &analysedCut{
		number: a.cuts.Add(1), device: s.device.name, cause: cause, hash: hashOf(s.executable.key),
		nodes: nodes, inputs: len(s.arguments), output: len(s.roots), compiles: compiles, eager: s.device.core.eager.Load(), executable: s.executable,
	}
	if len(s.scalars) > 0 {
		c.inputs++ // they are one parameter
	}
	a.mu.Lock()
	c.name = a.name
	a.mu.Unlock()
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
	if c.compiles && a.options.Level >= 1 && !c.eager {
		a.report("Compilation Analysis", c.lines("Compilation", frames, a.options.Frames))
	}
	if a.options.Level >= 2 && !c.eager {
		a.reportRun(c.executable, c.lines("Execution", frames, a.options.Frames))
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

// lines are those of a report of the run, or of its compile. Tools that read torch_xla's find theirs in them: the cause on the line
// after its heading, the name, hash and sizes right after that of the graph, and the frames up to a rule.
func (c *analysedCut) lines(what string, frames []hlo.Frame, most int) []string {
	cause := c.cause
	if said, known := saidByTorchXLA[cause]; known {
		words := said[0]
		if what == "Compilation" && said[1] != "" {
			words = said[1]
		}
		cause += " (" + words + ")"
	}
	lines := []string{what + " Cause", "  " + cause, "Graph Info"}
	if c.name != "" {
		lines = append(lines, "  Graph Name: "+c.name)
	}
	lines = append(lines,
		"  Graph Hash: "+c.hash, fmt.Sprintf("  Number of Graph Inputs: %d", c.inputs), fmt.Sprintf("  Number of Graph Outputs: %d", c.output),
		fmt.Sprintf("  Nodes: %d", c.nodes), "  Device: "+c.device,
		"Python Frame Triggered Execution, the innermost first",
	)
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
	return append(lines, rule)
}

// rule ends a part of a report.
var rule = strings.Repeat("-", 80)

// reportRun tells of a run: after the report of its program's compile.
func (a *analysis) reportRun(e *executable, lines []string) {
	a.mu.Lock()
	if !e.reported {
		e.unreported = append(e.unreported, lines)
		lines = nil
	}
	a.mu.Unlock()
	if lines != nil {
		a.report("Execution Analysis", lines)
	}
}

// compiled tells of a compile that has ended: its time, and what the program needs of memory.
func (a *analysis) compiled(noted *Compile, e *executable, took time.Duration, fromDisk bool) {
	if a.options.Level == 0 {
		return
	}
	defer func() {
		a.mu.Lock()
		runs := e.unreported
		e.reported, e.unreported = true, nil
		a.mu.Unlock()
		for _, lines := range runs {
			a.report("Execution Analysis", lines)
		}
	}()
	if e.eager {
		return
	}
	how := "compiled"
	switch {
	case e.err != nil:
		how = "failed"
	case fromDisk:
		how = "loaded from the persistent cache"
	}
	program := fmt.Sprintf("compile %d, graph %s: %s in %.3f s", noted.Number, hashOf(e.key), how, took.Seconds())
	if e.err != nil {
		a.report("Failed Compilation Analysis", append([]string{program}, indented(e.err.Error())...))
		return
	}
	a.report("Post Compilation Analysis", memoryLines(e.computation, program))
}

// memoryLines are what a program needs of memory, in the five lines that tools which read torch_xla's reports expect.
func memoryLines(computation client.Computation, program string) []string {
	memory, err := computation.MemoryInfo()
	if err != nil {
		program += "; the plugin does not tell its memory: " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	bytes := map[string]float64{}
	for _, line := range strings.Split(memory, "\n") {
		name, amount, _ := strings.Cut(line, ": ")
		if number, err := strconv.ParseFloat(strings.TrimSuffix(amount, " bytes"), 64); err == nil {
			bytes[name] = number
		}
	}
	var lines []string
	for _, row := range [][2]string{
		{"Graph input size", "arguments"}, {"Graph output size", "outputs"}, {"Aliased Input size", "aliased"},
		{"Intermediate tensor size", "temporary"}, {"Compiled program size", "generated code"},
	} {
		size := "unknown"
		if number, known := bytes[row[1]]; known {
			size = fmt.Sprintf("%.6f GB", number/1e9)
		}
		lines = append(lines, row[0]+": "+size)
	}
	return append(lines, rule[:20]+" "+program)
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
	edge := strings.Repeat("=", 80)
	var b strings.Builder
	for _, line := range append(append([]string{edge}, lines...), edge) {
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
