package program

import (
	"slices"
	"sync"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

// maxCached bounds how many programs that change a layout are kept.
const maxCached = 256

// programCache keeps programs by key, since compiling one takes a thousand times as long as running it.
type programCache struct {
	mutex    sync.Mutex
	programs map[string]*cachedProgram
	order    []string // oldest first
}

// cachedProgram is compiled by the first that needs it, while others wait.
type cachedProgram struct {
	once        sync.Once
	using       sync.RWMutex // held while a run is queued
	computation client.Computation
	err         error
}

func (p *cachedProgram) close() {
	p.once.Do(func() {})
	p.using.Lock()
	defer p.using.Unlock()
	if p.computation != nil {
		p.computation.Close()
		p.computation = nil
	}
	if p.err == nil {
		p.err = status.Errorf(status.Aborted, "the program was dropped meanwhile")
	}
}

// clear forgets all programs.
func (c *programCache) clear() {
	c.mutex.Lock()
	programs := c.programs
	c.programs, c.order = nil, nil
	c.mutex.Unlock()
	for _, p := range programs {
		p.close()
	}
}

// find gives the program of a key, compiled or not.
func (c *programCache) find(key string) *cachedProgram {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if p := c.programs[key]; p != nil {
		return p
	}
	if c.programs == nil {
		c.programs = map[string]*cachedProgram{}
	}
	if len(c.order) == maxCached {
		go c.programs[c.order[0]].close() // it may be compiling
		delete(c.programs, c.order[0])
		c.order = c.order[1:]
	}
	p := &cachedProgram{}
	c.programs[key], c.order = p, append(c.order, key)
	return p
}

// forget drops a program that failed to compile, so that the next one tries again.
func (c *programCache) forget(key string, p *cachedProgram) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.programs[key] == p {
		delete(c.programs, key)
		c.order = slices.DeleteFunc(c.order, func(k string) bool { return k == key })
	}
}

// use finds or makes the program of a key and calls run with it.
func (c *programCache) use(key string, compile func() (client.Computation, error), run func(client.Computation) error) error {
	p := c.find(key)
	p.once.Do(func() {
		if p.computation, p.err = compile(); p.err != nil {
			c.forget(key, p)
		}
	})
	p.using.RLock()
	defer p.using.RUnlock()
	if p.err != nil {
		return p.err
	}
	return run(p.computation)
}
