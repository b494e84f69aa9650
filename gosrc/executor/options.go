package executor

import (
	"slices"
	"strings"
	"time"

	"xla_go/gosrc/diskcache"
	"xla_go/gosrc/env"
	"xla_go/gosrc/ir"
)

// Options are the executor's settings.
type Options struct {
	// TupleThreshold wraps all parameters into one tuple from this many on; 0 never
	// (XLA_PARAMETER_WRAPPING_THREADSHOLD, torch_xla's spelling).
	TupleThreshold int
	// NodeLimit cuts the graph once this many nodes were made since the last cut; 0 never
	// (XLA_GO_NODE_LIMIT).
	NodeLimit int64
	// RunAhead is how many steps may be queued or running before sync waits for the oldest; 0 any number
	// (XLA_GO_RUN_AHEAD).
	RunAhead int
	// Programs is how many compiled programs are held; beyond it those that nobody has asked for the longest go. 0
	// any number (XLA_COMPILATION_CACHE_SIZE, torch_xla's name).
	Programs int
	// AddressRanges counts those that the process has and is allowed; nil as the system tells. Programs go where they run out.
	AddressRanges func() (held, allowed int, ok bool)
	// ReplicaTimeout is how long a step with collectives waits for those of the other replicas of this process
	// (XLA_GO_REPLICA_TIMEOUT, in seconds).
	ReplicaTimeout time.Duration
	// Donate lets steps reuse the memory of storages that they overwrite (XLA_ENABLE_PARAM_ALIASING).
	Donate bool
	// Checks has programs tell of positions and classes that are out of range, which raise then (XLA_GO_INDEX_CHECKS).
	Checks bool
	// Partition makes device 0 stand for all devices from the start, and partitions programs over them (XLA_USE_SPMD).
	Partition bool
	// DumpDirectory receives each compiled program as text, before and after XLA's passes, with
	// counts of its opcodes; "" writes nothing (XLA_GO_DUMP_DIRECTORY).
	DumpDirectory string
	// CompileStableHLO hands programs to the plugin as StableHLO text instead of HLO (XLA_STABLEHLO_COMPILE).
	CompileStableHLO bool
	// Shardy has partitioned programs divided by the Shardy partitioner, in StableHLO, instead of GSPMD (CONVERT_SHLO_TO_SHARDY).
	Shardy bool
	// SaveGraphs is a file that every step's program is appended to, "" for none; SaveGraphsAs says how: text, hlo, stablehlo or dot
	// (XLA_SAVE_TENSORS_FILE; XLA_SAVE_TENSORS_FMT, where "text" is ir).
	SaveGraphs, SaveGraphsAs string
	// ShowCompiles writes a line to standard error for each compile: where it came from and why
	// (XLA_GO_LOG=compiles).
	ShowCompiles bool
	// QuietCompiles tells no compile unasked, not even where one line has compiled many programs
	// (XLA_GO_LOG=none).
	QuietCompiles bool
	// Analysis tells of compiles and runs: which, and what asked for them (PT_XLA_DEBUG and its like,
	// XLA_GO_LOG=executions).
	Analysis AnalysisOptions
	// Cache is where compiled programs are kept for other processes; without a directory nowhere
	// (XLA_PERSISTENT_CACHE_PATH, XLA_PERSISTENT_CACHE_READ_ONLY, XLA_GO_PERSISTENT_CACHE,
	// XLA_GO_PERSISTENT_CACHE_LIMIT).
	Cache diskcache.Options
}

// DefaultOptions are the settings where the environment says nothing else.
func DefaultOptions() Options {
	return Options{TupleThreshold: ir.DefaultTupleThreshold, NodeLimit: 8000, RunAhead: 16, Programs: 2048, Donate: true, Checks: true, ReplicaTimeout: time.Minute}
}

// OptionsFromEnvironment are the default settings with what the environment changes.
func OptionsFromEnvironment() Options {
	o := DefaultOptions()
	o.TupleThreshold = env.Int("XLA_PARAMETER_WRAPPING_THREADSHOLD", o.TupleThreshold)
	o.NodeLimit = int64(env.Int("XLA_GO_NODE_LIMIT", int(o.NodeLimit)))
	o.RunAhead = env.Int("XLA_GO_RUN_AHEAD", o.RunAhead)
	o.Programs = env.Int("XLA_COMPILATION_CACHE_SIZE", o.Programs)
	o.ReplicaTimeout = time.Duration(env.Int("XLA_GO_REPLICA_TIMEOUT", int(o.ReplicaTimeout/time.Second))) * time.Second
	o.Donate = env.Bool("XLA_ENABLE_PARAM_ALIASING", o.Donate)
	o.Checks = env.Bool("XLA_GO_INDEX_CHECKS", o.Checks)
	o.Partition = env.Bool("XLA_USE_SPMD", o.Partition)
	o.DumpDirectory = env.String("XLA_GO_DUMP_DIRECTORY", o.DumpDirectory)
	o.CompileStableHLO = env.Bool("XLA_STABLEHLO_COMPILE", false)
	o.Shardy = env.Bool("CONVERT_SHLO_TO_SHARDY", false)
	o.SaveGraphs = env.String("XLA_SAVE_TENSORS_FILE", "")
	o.SaveGraphsAs = env.String("XLA_SAVE_TENSORS_FMT", "text")
	log := strings.Split(env.String("XLA_GO_LOG", ""), ",")
	o.ShowCompiles, o.QuietCompiles = slices.Contains(log, "compiles"), slices.Contains(log, "none")
	o.Analysis = analysisOptions(slices.Contains(log, "executions"))
	o.Cache = cacheOptions()
	return o
}
