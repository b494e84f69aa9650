package platform

import (
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"hash"
	"maps"
	"os"
	"slices"
	"strings"

	"xla_go/gosrc/env"
)

// HashCompilationEnvironment identifies plugin, platform version, devices, options and flags.
func (p *Platform) HashCompilationEnvironment() [16]byte { return *p.hash.Load() }

// hashWith adds the options of a compile to what is fixed at creation.
func (p *Platform) hashWith(overrides map[string]string) [16]byte {
	h := sha256.New()
	h.Write(p.identity[:])
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		entry(h, name, overrides[name])
	}
	return [16]byte(h.Sum(nil))
}

// environment hashes everything that decides what a compile gives, except the program and the
// compile options.
func (p *Platform) environment() [16]byte {
	h := sha256.New()
	plugin := p.PJRT.Plugin()
	major, minor := plugin.APIVersion()
	entry(h, "plugin", fileIdentity(plugin.Path()))
	entry(h, "api", fmt.Sprintf("%d.%d", major, minor))
	entry(h, "platform", p.PJRT.PlatformName())
	entry(h, "platform version", p.PJRT.PlatformVersion())
	for _, d := range p.Devices {
		entry(h, "device", d.PJRT.String())
		entry(h, "kind", d.PJRT.Kind())
	}
	for _, name := range slices.Sorted(maps.Keys(p.options.CreateOptions)) {
		entry(h, "create option "+name, optionText(p.options.CreateOptions[name]))
	}
	for _, name := range []string{"XLA_FLAGS", "LIBTPU_INIT_ARGS"} {
		for _, flag := range compileFlags(env.String(name, "")) {
			entry(h, name, flag)
		}
	}
	for _, name := range []string{"TPU_MEGACORE", "XLA_HLO_DEBUG", "XLA_IR_DEBUG"} {
		entry(h, name, env.String(name, ""))
	}
	return [16]byte(h.Sum(nil))
}

// optionText tells apart what the plugin is given: it knows one type of integers and one of fractions.
func optionText(value any) string {
	switch v := value.(type) {
	case int:
		value = int64(v)
	case int32:
		value = int64(v)
	case float64:
		value = float32(v)
	}
	return fmt.Sprintf("%T %v", value, value)
}

// entry writes a named value so that no two lists of entries give the same bytes.
func entry(h hash.Hash, name, value string) {
	fmt.Fprintf(h, "%d:%s%d:%s", len(name), name, len(value), value)
}

// otherFlags do not change what the compiler makes: dumps, and the number of virtual CPU devices,
// which the devices themselves tell.
var otherFlags = []string{"xla_dump_", "xla_force_host_platform_device_count", "xla_hlo_profile", "xla_disable_all_hlo_passes_dump"}

// compileFlags gives the flags of an environment variable that matter to the compiler, sorted.
func compileFlags(variable string) []string {
	var result []string
	for _, flag := range strings.Fields(variable) {
		name := strings.TrimLeft(flag, "-")
		if !strings.HasPrefix(name, "xla") || slices.ContainsFunc(otherFlags, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		result = append(result, flag)
	}
	slices.Sort(result)
	return result
}

// fileIdentity identifies a library's content: by the identity that its linker wrote into it, else
// by its size and a digest of samples all over it. Plugins have hundreds of megabytes, so that a
// digest of everything would be felt at every start.
func fileIdentity(path string) string {
	if id := buildID(path); id != "" {
		return "build " + id
	}
	file, err := os.Open(path)
	if err != nil {
		return path
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return path
	}
	const samples, length = 64, 16 << 10
	h := sha256.New()
	block := make([]byte, length)
	for i := range int64(samples) {
		n, _ := file.ReadAt(block, i*max(info.Size()-length, 0)/(samples-1))
		h.Write(block[:n])
	}
	return fmt.Sprintf("%d bytes, samples %x", info.Size(), h.Sum(nil))
}

func buildID(path string) string {
	file, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	section := file.Section(".note.gnu.build-id")
	if section == nil {
		return ""
	}
	note, err := section.Data()
	if err != nil || len(note) <= 16 { // 12 bytes of sizes and type, "GNU\0", then the identity
		return ""
	}
	return fmt.Sprintf("%x", note[16:])
}
