package platform

import "maps"

// cpuOptions keep the results of a CPU right where XLA would trade them for speed: min and max that
// drop NaN, sums in another order, and 16-bit values that are left unrounded between two operations.
var cpuOptions = map[string]string{
	"xla_allow_excess_precision":  "false",
	"xla_cpu_enable_fast_math":    "false",
	"xla_cpu_enable_fast_min_max": "false",
}

// SetCustomCompileOptions replaces the overrides put into every later compile; they change
// HashCompilationEnvironment's value.
func (p *Platform) SetCustomCompileOptions(options map[string]string) {
	copied := make(map[string]string, len(options))
	for name, value := range options {
		copied[name] = value
	}
	p.settings.Lock()
	defer p.settings.Unlock()
	p.compileOptions = copied
	h := p.hashWith(p.overridesWith(copied))
	p.hash.Store(&h)
}

// Overrides are the debug options of the next compile; the caller owns the map.
func (p *Platform) Overrides() map[string]string {
	p.settings.Lock()
	defer p.settings.Unlock()
	return p.overridesWith(p.compileOptions)
}

func (p *Platform) overridesWith(custom map[string]string) map[string]string {
	result := map[string]string{}
	if p.OnHost {
		maps.Copy(result, cpuOptions)
	}
	maps.Copy(result, custom)
	return result
}
