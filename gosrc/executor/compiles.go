package executor

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/status"
)

const (
	// rememberedCompiles are kept for those who ask; older ones are forgotten.
	rememberedCompiles = 1024
	// comparedPrograms is how many earlier programs a new one is compared with for its reason.
	comparedPrograms = 16
	// noisySite is the number of compiles of one call site that is told unasked, once.
	noisySite = 8
	// siteDelay is how long a finished compile waits to be told where it came from: the caller says
	// so right after the call that started it.
	siteDelay = time.Second
)

// Compile is one program that was not known, for those who ask why.
type Compile struct {
	Number     int64   `json:"number"` // from 1, in the order in which they started
	Reason     string  `json:"reason"` // "" while it is not known yet
	Site       string  `json:"site"`   // the user's file and line, "" where no Python code asked
	Nodes      int     `json:"nodes"`
	Parameters int     `json:"parameters"`
	Results    int     `json:"results"`
	Seconds    float64 `json:"seconds"` // 0 while it goes on
	FromDisk   bool    `json:"from_disk"`
	Error      string  `json:"error"`

	sited chan struct{} // closed once Site is known
}

// compileLog remembers the compiles of the process.
type compileLog struct {
	started atomic.Int64 // number of compiles
	mu      sync.Mutex   // after Core.Mu
	list    []*Compile
	unended int
	ending  sync.Cond // of mu; signalled when unended has fallen
	sites   map[string]int
	recent  [][]byte // keys of the newest programs, newest first
}

// begin notes a compile and gives the keys to compare it with.
func (l *compileLog) begin(key []byte, reason string) (c *Compile, candidates [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c = &Compile{Number: l.started.Add(1), Reason: reason, sited: make(chan struct{})}
	if l.list = append(l.list, c); len(l.list) > rememberedCompiles {
		l.list = slices.Delete(l.list, 0, len(l.list)-rememberedCompiles)
	}
	l.unended++
	candidates = l.recent
	l.recent = append([][]byte{key}, l.recent[:min(len(l.recent), comparedPrograms-1)]...)
	return c, candidates
}

// candidates gives the keys to compare a program with that is not compiled.
func (l *compileLog) candidates() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recent
}

// explained adds what the program's own goroutine finds out.
func (l *compileLog) explained(c *Compile, program *ir.Program, candidates [][]byte) {
	reason := ""
	if c.Reason == "" {
		reason = explain(program, candidates)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if reason != "" {
		c.Reason = reason
	}
	c.Nodes, c.Parameters, c.Results = len(program.Nodes), program.NumParameters(), len(program.Outputs)
}

// located says where the compiles came from that nobody has said it of yet.
func (l *compileLog) located(site string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range slices.Backward(l.list) {
		select {
		case <-c.sited:
			return // older ones have been told too
		default:
		}
		c.Site = site
		close(c.sited)
	}
}

// ended notes the end of a compile and tells it where that is wanted: all of them where show is set, else the
// compile with which a site has become noisy, unless quiet is set. report comes first, once the place is known.
func (l *compileLog) ended(c *Compile, took time.Duration, fromDisk bool, err error, show, quiet bool, report func()) {
	timer := time.NewTimer(siteDelay)
	defer timer.Stop()
	select {
	case <-c.sited:
	case <-timer.C:
	}
	report()
	l.mu.Lock()
	c.Seconds, c.FromDisk = took.Seconds(), fromDisk
	if err != nil {
		c.Error = status.MessageOf(err)
	}
	l.unended--
	l.ending.Broadcast()
	line, site, number := c.line(), c.Site, 0
	if site != "" {
		if l.sites == nil {
			l.sites = map[string]int{}
		}
		l.sites[site]++
		number = l.sites[site]
	}
	l.mu.Unlock()
	switch {
	case show:
		fmt.Fprintln(os.Stderr, "xla_go: "+line)
	case number == noisySite && !quiet:
		fmt.Fprintf(os.Stderr, "xla_go: %d programs were compiled for one line; XLA_GO_LOG=compiles shows each. The last: %s\n", number, line)
	}
}

// line describes a compile in one line.
func (c *Compile) line() string {
	site := c.Site
	if site == "" {
		site = "(no Python code)"
	}
	how := "compiled"
	if c.FromDisk {
		how = "from disk"
	}
	text := fmt.Sprintf("compile %d: %s: %s (%d nodes, %d inputs, %d results, %s in %.2f s)",
		c.Number, site, c.Reason, c.Nodes, c.Parameters, c.Results, how, c.Seconds)
	if c.Error != "" {
		text += ": " + c.Error
	}
	return text
}

// Compiles gives the compiles that are remembered, oldest first, once all of them have ended. BLOCKING; without Core.Mu.
func (c *Core) Compiles() []Compile {
	c.compiles.mu.Lock()
	defer c.compiles.mu.Unlock()
	c.compiles.waitEnded()
	list := make([]Compile, len(c.compiles.list))
	for i, one := range c.compiles.list {
		list[i] = *one
	}
	return list
}

// WaitCompiled waits until no compile goes on. BLOCKING; without Core.Mu.
func (c *Core) WaitCompiled() {
	c.compiles.mu.Lock()
	defer c.compiles.mu.Unlock()
	c.compiles.waitEnded()
}

// waitEnded waits until no compile goes on. BLOCKING; under mu.
func (l *compileLog) waitEnded() {
	for l.unended > 0 {
		l.ending.Wait()
	}
}

// CompileCount gives the number of compiles started. Not blocking.
func (c *Core) CompileCount() int64 { return c.compiles.started.Load() }

// LocateCompiles says where the newest compiles, and the cuts under analysis, came from: the user's file and line, and
// the frames that led there, the innermost first.
func (c *Core) LocateCompiles(site string, frames []hlo.Frame) {
	c.analysis.located(site, frames) // first: what is told of a compile's end follows the other
	c.compiles.located(site)
}

// Unlocated gives a number that rises whenever something is started that wants to know where it came from: each
// compile, and each cut and read under analysis. Not blocking.
func (c *Core) Unlocated() int64 { return c.CompileCount() + c.analysis.cuts.Load() }

// BeginCall notes a call that may wait long for what it cuts, and whose caller says only at its end where it came from; end says
// that it is over.
func (c *Core) BeginCall() (end func()) {
	c.analysis.calls.Add(1)
	return func() { c.analysis.calls.Add(-1) }
}

// Precision is that of the products of programs from now on, where an operator asks for none of its own.
func (c *Core) Precision() hlo.Precision { return hlo.Precision(c.precision.Load()) }

// SetPrecision chooses it. What was recorded for replay keeps its own.
func (c *Core) SetPrecision(p hlo.Precision) { c.precision.Store(int64(p)) }

// SetStrict enters (true) or leaves strict mode; entries are counted. In strict mode a cut of a program that is not
// known, and a read that would end the graph, fail before anything has changed.
func (c *Core) SetStrict(on bool) {
	if on {
		c.strict.Add(1)
	} else {
		c.strict.Add(-1)
	}
}

// StrictSays sets what errors of strict mode begin with, "" for nothing, and gives what it was.
func (c *Core) StrictSays(text string) (was string) {
	before := c.strictSays.Swap(&text)
	if before == nil {
		return ""
	}
	return *before
}

// refusal is an error of strict mode.
func (c *Core) refusal(format string, arguments ...any) error {
	if says := c.strictSays.Load(); says != nil && *says != "" {
		format, arguments = "%s: "+format, append([]any{*says}, arguments...)
	}
	return status.Errorf(status.FailedPrecondition, format, arguments...)
}

// RefuseRead gives the error of a read that would end the graph in strict mode, else nil.
func (c *Core) RefuseRead() error {
	if c.strict.Load() == 0 {
		return nil
	}
	return c.refusal("strict(): reading this value would end the graph and run it: call xla_go.sync() where the step ends, and read after it")
}

// refuseCompile gives the error of a program that is not known in strict mode.
func (c *Core) refuseCompile(key []byte) error {
	reason := "another program"
	if program, err := ir.DecodeKey(key); err == nil {
		reason = explain(program, c.compiles.candidates())
	}
	return c.refusal("strict(): this step would compile a program: %s: run it once outside of strict()", reason)
}
