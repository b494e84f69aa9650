// Package selection makes the client that the environment asks for.
package selection

import (
	"strconv"
	"strings"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/ifrtclient"
	"xla_go/gosrc/client/pjrtclient"
	"xla_go/gosrc/env"
	"xla_go/gosrc/status"
)

// libraryVariables name, for each device type, the variables that may hold a plugin's path.
var libraryVariables = map[string][]string{
	"TPU":     {"TPU_LIBRARY_PATH", "PTXLA_TPU_LIBRARY_PATH"},
	"XPU":     {"XPU_LIBRARY_PATH"},
	"NEURON":  {"NEURON_LIBRARY_PATH"},
	"LIBRARY": {"PJRT_LIBRARY_PATH"},
}

// Options say which plugin to use and how.
type Options = pjrtclient.Options

// New makes a client in IFRT's model where XLA_USE_IFRT is true, else in PJRT's. BLOCKING: the plugin takes
// its devices.
func New(options Options) (client.Client, error) {
	if env.Bool("XLA_USE_IFRT", false) {
		return ifrtclient.New(options)
	}
	return pjrtclient.New(options)
}

// Select makes the client that the environment asks for. PJRT_DEVICE says which type of device;
// options hold what the caller has found for it, in the first place a plugin's path. The path in
// XLA_GO_PLUGIN_PATH comes before that one; the device's own variable and PJRT_LIBRARY_PATH
// after it. CPU_NUM_DEVICES and XLA's own flag for it give a CPU several virtual devices.
// BLOCKING, as New.
//
// Errors: FailedPrecondition where PJRT_DEVICE is not set, InvalidArgument where no plugin is known
// for it or the plugin is one of another device.
func Select(options Options) (client.Client, error) {
	device := strings.ToUpper(strings.TrimSpace(env.String("PJRT_DEVICE", "")))
	if device == "" {
		return nil, status.Errorf(status.FailedPrecondition, "$PJRT_DEVICE is not set.")
	}
	path, tried := pluginPath(device, options.PluginPath)
	if path == "" {
		return nil, status.Errorf(status.InvalidArgument,
			"no PJRT plugin for PJRT_DEVICE=%q; tried %s: install the device's plugin package or set XLA_GO_PLUGIN_PATH to its library", device, strings.Join(tried, ", "))
	}
	options.PluginPath = path
	if device == "CPU" {
		options.CreateOptions = cpuCreateOptions(options.CreateOptions)
	}
	made, err := New(options)
	if err != nil {
		return nil, status.Annotate(err, "PJRT_DEVICE=%s", device)
	}
	if device == "CPU" && made.GetDeviceType() != "CPU" {
		kind := made.GetDeviceType()
		made.Close()
		return nil, status.Errorf(status.InvalidArgument, "expected a CPU plugin for PJRT_DEVICE=CPU, got %s, whose devices are %s", path, kind)
	}
	return made, nil
}

// pluginPath gives the first path that is set, or what was looked at.
func pluginPath(device, passed string) (path string, tried []string) {
	if path := env.String("XLA_GO_PLUGIN_PATH", ""); path != "" {
		return path, nil
	}
	tried = append(tried, "$XLA_GO_PLUGIN_PATH (not set)")
	if passed != "" {
		return passed, nil
	}
	tried = append(tried, "installed packages (none found)")
	variables := libraryVariables[device]
	if device != "LIBRARY" {
		variables = append(variables[:len(variables):len(variables)], "PJRT_LIBRARY_PATH")
	}
	for _, name := range variables {
		if path := env.String(name, ""); path != "" {
			return path, nil
		}
		tried = append(tried, "$"+name+" (not set)")
	}
	return "", tried
}

// cpuCreateOptions adds the number of virtual devices where the caller left it open.
func cpuCreateOptions(options map[string]any) map[string]any {
	if _, set := options["cpu_device_count"]; set {
		return options
	}
	count := env.Int("CPU_NUM_DEVICES", 0) // plugins differ in their own default, so there is always a number
	for _, flag := range strings.Fields(env.String("XLA_FLAGS", "")) {
		if text, found := strings.CutPrefix(strings.TrimLeft(flag, "-"), "xla_force_host_platform_device_count="); found && count == 0 {
			count, _ = strconv.Atoi(text)
		}
	}
	result := map[string]any{"cpu_device_count": int64(max(count, 1))}
	for name, value := range options {
		result[name] = value
	}
	return result
}
