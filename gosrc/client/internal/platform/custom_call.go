package platform

import (
	"strings"

	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

// RegisterCustomCall makes a C function answer the custom calls of a name in programs that are compiled
// afterwards. The function is a handler of XLA's typed foreign function interface (api_version 4 of a
// custom call); it has to stay loaded for the process's life, since a registration cannot be taken back and
// holds for all clients of the plugin. platform is the name of what it runs on ("Host" or "CPU", "CUDA",
// "ROCM", "TPU"); "" means this client's own.
//
// Errors: InvalidArgument without a name or a function, Unimplemented where the plugin takes none, and the
// plugin's own, for example where the name is taken.
func (p *Platform) RegisterCustomCall(name string, function uintptr, platform string) error {
	if err := p.Open(); err != nil {
		return status.Annotate(err, "RegisterCustomCall()")
	}
	if name == "" || function == 0 {
		return status.Errorf(status.InvalidArgument, "RegisterCustomCall(): expected a name and the address of a function, got %q and %#x", name, function)
	}
	if platform == "" {
		platform = p.deviceType
	}
	platform = strings.ToUpper(platform)
	if platform == "CPU" || platform == "HOST" {
		platform = "Host"
	}
	plugin := p.PJRT.Plugin()
	err := plugin.RegisterHandler(name, platform, function, 0)
	if status.CodeOf(err) == status.Unimplemented && plugin.HasExtension("Gpu_Custom_Call") {
		err = plugin.RegisterCustomCall(pjrt.CustomCall{Name: name, APIVersion: 1, Execute: function})
	}
	return status.Annotate(err, "RegisterCustomCall(): %s for %s", name, platform)
}
