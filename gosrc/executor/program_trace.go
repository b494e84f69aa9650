package executor

import (
	"sync"

	"xla_go/gosrc/hlo"
	"xla_go/gosrc/status"
)

// programTrace notes which programs run while a profile is made.
type programTrace struct {
	mu          sync.Mutex
	executables map[*executable]bool
	order       []*executable
}

func (t *programTrace) note(e *executable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.executables[e] {
		t.executables[e] = true
		t.order = append(t.order, e)
	}
}

// TracePrograms begins to note which programs run, from nothing.
func (c *Core) TracePrograms() { c.traced.Store(&programTrace{executables: map[*executable]bool{}}) }

// TracedPrograms ends what TracePrograms began and gives the programs that were launched meanwhile, each once, in that order,
// as optimized HloModuleProtos with the names of their modules. None where nothing was begun, or the plugin does not tell them.
func (c *Core) TracedPrograms() (names []string, modules [][]byte, err error) {
	trace := c.traced.Swap(nil)
	if trace == nil {
		return nil, nil, nil
	}
	trace.mu.Lock()
	defer trace.mu.Unlock()
	for _, e := range trace.order {
		module, err := e.computation.OptimizedHLO()
		if status.CodeOf(err) == status.Unimplemented {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		name, module, err := hlo.NamedModule(module)
		if err != nil {
			return nil, nil, err
		}
		names, modules = append(names, name), append(modules, module)
	}
	return names, modules, nil
}
