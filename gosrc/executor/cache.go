package executor

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"xla_go/gosrc/client"
	"xla_go/gosrc/diskcache"
	"xla_go/gosrc/hlo"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/stablehlo"
	"xla_go/gosrc/status"
)

var (
	countUncached = metrics.Counter("UncachedCompile")
	countCached   = metrics.Counter("CachedCompile")
	countEvicted  = metrics.Counter("EvictedProgram")
	graphSize     = metrics.Value("TensorsGraphSize")
	aliasCount    = metrics.Value("InputOutputAliasCount")
	loweringTime  = metrics.Time("LoweringTime")
	cutTime       = metrics.Time("GraphCutTime") // collecting, key, lookup, placeholders
)

// executable is one program, compiled or on its way. The fields below done are set before done is
// closed and not changed afterwards.
type executable struct {
	key         []byte        // without donors
	donors      []ir.Donation // sorted by parameter
	eager       bool          // of one operator, in eager mode
	partitioned bool          // over all devices
	used        uint64        // the cache's count when it was last asked for; under Core.Mu
	family      *family       // whose varied program it is; nil for most
	launchTime  atomic.Int64  // nanoseconds of its last launch, 0 before the first

	done        chan struct{}
	computation client.Computation
	shardings   []*hlo.Sharding // of the outputs of a partitioned program
	checks      []ir.Check      // of the program's last output, which is there where there is one
	err         error

	// Under analysis.mu.
	reported   bool       // what is told of its compile's end has been told
	unreported [][]string // reports of runs that come after it
}

// programCache finds executables by their canonical key. The hash only finds the bucket: the key
// is compared in full. Used under Core.Mu.
type programCache struct {
	limit    int // of programs, 0 for none
	asked    uint64
	once     sync.Once
	seed     maphash.Seed
	buckets  map[uint64][]*executable
	families map[uint64][]*family
}

// find gives the executable of key whose donors are allowed, or one whose donors are not all
// allowed (the run then withholds those), or nil for an unknown program; and how many of key there are.
func (p *programCache) find(key []byte, allowed []ir.Donation) (best *executable, variants int) {
	p.once.Do(func() {
		p.seed, p.buckets, p.families = maphash.MakeSeed(), map[uint64][]*executable{}, map[uint64][]*family{}
	})
	bestWithheld, bestDonors := 0, 0
	for _, e := range p.buckets[maphash.Bytes(p.seed, key)] {
		if !bytes.Equal(e.key, key) {
			continue
		}
		variants++
		withheld := countMissing(e.donors, allowed)
		if best == nil || withheld < bestWithheld || withheld == bestWithheld && len(e.donors) > bestDonors {
			best, bestWithheld, bestDonors = e, withheld, len(e.donors)
		}
	}
	if best != nil {
		p.use(best)
	}
	return best, variants
}

// use notes that a program is wanted.
func (p *programCache) use(e *executable) {
	p.asked++
	e.used = p.asked
}

func (p *programCache) add(e *executable) {
	if p.limit > 0 && p.size() >= p.limit {
		p.evict(p.limit/8 + 1)
	}
	h := maphash.Bytes(p.seed, e.key)
	p.buckets[h] = append(p.buckets[h], e)
	p.use(e)
}

func (p *programCache) remove(e *executable) {
	h := maphash.Bytes(p.seed, e.key)
	p.buckets[h] = slices.DeleteFunc(p.buckets[h], func(o *executable) bool { return o == e })
	if e.family != nil && e.family.executable == e {
		e.family.executable = nil
	}
}

// evict removes those programs that nobody has asked for the longest. Steps that are queued still run theirs, which is
// closed once no step has it.
func (p *programCache) evict(count int) {
	done := make([]*executable, 0, p.size())
	for _, bucket := range p.buckets {
		for _, e := range bucket {
			if e.isDone() {
				done = append(done, e)
			}
		}
	}
	slices.SortFunc(done, func(a, b *executable) int { return cmp.Compare(a.used, b.used) })
	for _, e := range done[:min(count, len(done))] {
		p.remove(e)
		if e.computation != nil {
			runtime.AddCleanup(e, func(computation client.Computation) { computation.Close() }, e.computation)
		}
		countEvicted.Add(1)
	}
}

// size gives the number of programs in the cache.
func (p *programCache) size() int {
	n := 0
	for _, bucket := range p.buckets {
		n += len(bucket)
	}
	return n
}

// compile lowers and compiles e from its key. It runs on a goroutine of its own, without Core.Mu:
// the caller of the cut has long gone on.
func (c *Core) compile(e *executable, d *Device, noted *Compile, candidates [][]byte, stacks []ir.Stack) {
	started, fromDisk := time.Now(), false
	program, err := ir.DecodeKey(e.key)
	if err == nil {
		program.Donors = e.donors
		program.SetStacks(stacks)
		e.computation, e.checks, fromDisk, err = c.build(program, d, c.persistence, e.eager)
	}
	if err == nil && e.partitioned {
		e.shardings, err = outputShardings(e.computation, len(program.Outputs), e.checks)
	}
	e.err = err
	took := time.Since(started)
	close(e.done)
	for _, device := range c.devices {
		device.queueMu.Lock() // so that no worker is between its look at done and its wait
		device.queueChanged.Broadcast()
		device.queueMu.Unlock()
	}
	// Nobody waits for what follows.
	c.relieve()
	if program != nil {
		c.compiles.explained(noted, program, candidates)
	}
	c.compiles.ended(noted, took, fromDisk, err, c.options.ShowCompiles, c.options.QuietCompiles, func() { c.analysis.compiled(noted, e, took, fromDisk) })
}

// build lowers and compiles a program, or finds it compiled in kept, which may be nil. BLOCKING.
func (c *Core) build(program *ir.Program, d *Device, kept *persistence, eager bool) (computation client.Computation, checks []ir.Check, fromDisk bool, err error) {
	started := time.Now()
	program.Unchecked = !c.options.Checks
	module, err := program.Lower("step", c.options.TupleThreshold)
	loweringTime.Observe(time.Since(started))
	if err != nil {
		return nil, nil, false, err
	}
	instance := client.CompileInstance{
		HLO: module.HLO, Name: "step", CompilationDevice: d.name, ParameterIsTupledArguments: module.TupledArguments, EagerMode: eager,
		IsSharded: module.Partitioned, AllowSPMDShardingPropagationToOutput: module.Partitioned,
	}
	devices := []string{d.name}
	if program.Replicas > 0 {
		local := c.client.GetLocalDevices()
		if program.Replicas > len(local) {
			return nil, nil, false, status.Errorf(status.InvalidArgument, "compile: expected a program of at most %d replicas, got one of %d", len(local), program.Replicas)
		}
		instance.CompilationDevice, devices = local[0], local[:program.Replicas]
	}
	if module.Partitioned {
		instance.CompilationDevice, devices = spmdDevice, c.client.GetAllDevices()
	}
	instance.Devices = c.client.GetCompilationDevices(instance.CompilationDevice, devices)
	var key diskcache.Key
	if kept != nil {
		key, err = c.persistentKey(kept, program, instance, c.form(module))
		if err != nil {
			return nil, nil, false, err
		}
		if found := kept.load(key, instance.Devices); found != nil {
			return found, module.Checks, true, nil
		}
	}
	if form := c.form(module); form != "hlo" {
		var text string
		if form == "shardy" {
			text, err = stablehlo.Shardy(module.HLO, program.Partitions)
		} else {
			text, err = stablehlo.Text(module.HLO)
		}
		if err != nil {
			return nil, nil, false, program.BlameAll(status.Annotate(err, "compile"))
		}
		instance.HLO, instance.MLIR, instance.ParameterIsTupledArguments = nil, []byte(text), false // tuples are arguments one by one
	}
	compiled, err := c.client.Compile([]client.CompileInstance{instance})
	if err != nil {
		return nil, nil, false, module.Blame(program, status.Annotate(err, "compile"))
	}
	if kept != nil {
		kept.store(key, program, compiled[0])
	}
	if c.options.DumpDirectory != "" {
		if err := c.dump(module.HLO, compiled[0]); err != nil {
			compiled[0].Close()
			return nil, nil, false, err
		}
	}
	return compiled[0], module.Checks, false, nil
}

// form says as what a module is handed to the plugin: hlo, stablehlo, or shardy, which is StableHLO too.
func (c *Core) form(module *ir.Module) string {
	switch {
	case module.Partitioned && c.options.Shardy:
		return "shardy"
	case c.options.CompileStableHLO:
		return "stablehlo"
	}
	return "hlo"
}

// persistentKey is the key of a program that may tell where it was written, which it does not depend on.
func (c *Core) persistentKey(kept *persistence, program *ir.Program, instance client.CompileInstance, form string) (diskcache.Key, error) {
	if program.HasStacks() {
		bare, err := program.WithoutStacks().Lower(instance.Name, c.options.TupleThreshold)
		if err != nil {
			return diskcache.Key{}, err
		}
		instance.HLO = bare.HLO
	}
	return kept.key(&instance, form), nil
}

// CachedPrograms gives the number of programs in the cache.
func (c *Core) CachedPrograms() int {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.cache.size()
}
