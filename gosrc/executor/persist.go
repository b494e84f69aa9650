package executor

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/diskcache"
	"xla_go/gosrc/env"
	"xla_go/gosrc/ir"
	"xla_go/gosrc/metrics"
	"xla_go/gosrc/status"
)

var (
	countPersistentHit      = metrics.Counter("PersistentCacheHit")
	countPersistentMiss     = metrics.Counter("PersistentCacheMiss")
	countDeserializeFailure = metrics.Counter("PersistentCacheDeserializeFailure")
	countPersistentError    = metrics.Counter("PersistentCacheError")
)

// DefaultCacheLimit is the size in bytes of all programs on disk together where nothing else is said.
const DefaultCacheLimit = 4 << 30

// cacheOptions reads where compiled programs are kept between processes. An empty directory means nowhere.
func cacheOptions() diskcache.Options {
	o := diskcache.Options{
		Limit:    int64(env.Int("XLA_GO_PERSISTENT_CACHE_LIMIT", DefaultCacheLimit)),
		ReadOnly: env.Bool("XLA_PERSISTENT_CACHE_READ_ONLY", false),
	}
	if !env.Bool("XLA_GO_PERSISTENT_CACHE", true) {
		return o
	}
	if o.Directory = env.String("XLA_PERSISTENT_CACHE_PATH", ""); o.Directory == "" {
		o.Directory = defaultCacheDirectory()
	} else if absolute, err := filepath.Abs(o.Directory); err == nil {
		o.Directory = absolute
	}
	return o
}

func defaultCacheDirectory() string {
	root := env.String("XLA_GO_CACHE_DIR", "")
	if root == "" {
		above := env.String("XDG_CACHE_HOME", "")
		if home := env.String("HOME", ""); above == "" && home != "" {
			above = filepath.Join(home, ".cache")
		}
		if above == "" {
			return ""
		}
		root = filepath.Join(above, "xla_go")
	}
	if !filepath.IsAbs(root) {
		return ""
	}
	return filepath.Join(root, "programs")
}

// persistence keeps compiled programs for the processes to come.
type persistence struct {
	cache          *diskcache.Cache
	client         client.Client
	host           []byte      // what a program for this host's processor depends on beside the plugin
	warned         atomic.Bool // of an entry that the plugin refused
	unserializable atomic.Bool // the plugin cannot serialize
	writing        sync.WaitGroup
}

// newPersistence gives nil where no directory is set, and where another user may write to it, which it says.
func newPersistence(c client.Client, options diskcache.Options) *persistence {
	if options.Directory == "" {
		return nil
	}
	cache, err := diskcache.Open(options)
	if err != nil {
		return nil // not a path: cacheOptions makes only paths
	}
	if err := cache.CheckOwner(); err != nil {
		fmt.Fprintf(os.Stderr, "xla_go: no programs are kept on disk; name another directory by XLA_PERSISTENT_CACHE_PATH: %s\n", status.MessageOf(err))
		return nil
	}
	p := &persistence{cache: cache, client: c}
	if c.GetDeviceType() == "CPU" {
		p.host = processor()
	}
	return p
}

// processor gives model and features of the host's processor: XLA:CPU compiles for exactly those.
func processor() []byte {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return nil
	}
	defer file.Close()
	h := sha256.New()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && lines.Text() != "" { // the first processor; a system's are alike
		name, _, _ := strings.Cut(lines.Text(), ":")
		if slices.Contains([]string{"model name", "flags", "Features", "CPU part", "CPU variant"}, strings.TrimSpace(name)) {
			fmt.Fprintln(h, lines.Text())
		}
	}
	return h.Sum(nil)
}

// key identifies a compiled program over processes. It is made from the lowered module and not from the key in
// memory, so that a program of another version of the lowering is another one.
func (p *persistence) key(instance *client.CompileInstance, form string) diskcache.Key {
	h := sha256.New()
	field := func(b []byte) {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(b)))
		h.Write(length[:])
		h.Write(b)
	}
	environment := p.client.HashCompilationEnvironment()
	field([]byte("step 1"))
	field(environment[:])
	field(p.host)
	field(instance.HLO)
	field(fmt.Appendf(nil, "%v %v %v", instance.CompilationDevice, instance.Devices, instance.ParameterIsTupledArguments))
	if instance.IsSharded {
		field(fmt.Appendf(nil, "partitioned %v", instance.AllowSPMDShardingPropagationToOutput))
	}
	if form != "hlo" {
		field([]byte(form))
	}
	return diskcache.Key(h.Sum(nil))
}

// load gives a program of an earlier process, nil where there is none that this one can use. BLOCKING.
func (p *persistence) load(key diskcache.Key, devices []string) client.Computation {
	serialized, err := p.cache.Get(key)
	if err != nil {
		countPersistentMiss.Add(1)
		return nil
	}
	computation, err := p.client.DeserializeComputation(serialized, devices)
	if err != nil {
		countPersistentMiss.Add(1)
		countDeserializeFailure.Add(1)
		p.cache.Remove(key)
		if p.warned.CompareAndSwap(false, true) {
			fmt.Fprintf(os.Stderr, "xla_go: the plugin refuses a program of the persistent cache, which is compiled anew: %v\n", err)
		}
		return nil
	}
	countPersistentHit.Add(1)
	return computation
}

// store keeps a compiled program, on a goroutine of its own. A failure is counted and costs nothing else; a plugin
// that cannot serialize is asked once.
func (p *persistence) store(key diskcache.Key, program *ir.Program, computation client.Computation) {
	if p.cache.ReadOnly() || p.unserializable.Load() {
		return
	}
	p.writing.Go(func() {
		serialized, err := p.client.SerializeComputation(computation)
		if status.CodeOf(err) == status.Unimplemented {
			p.unserializable.Store(true)
		}
		if err == nil {
			err = p.cache.Put(key, describe(program), serialized)
		}
		if err != nil {
			countPersistentError.Add(1)
		}
	})
}

// describe is the line that a list of the cache shows for a program.
func describe(program *ir.Program) string {
	return fmt.Sprintf("%d nodes, %d parameters, %d results", len(program.Nodes), program.NumParameters(), len(program.Outputs))
}

// FlushCache waits until all programs compiled so far are on disk. BLOCKING.
func (c *Core) FlushCache() {
	if c.persistence != nil {
		c.persistence.writing.Wait()
	}
}
