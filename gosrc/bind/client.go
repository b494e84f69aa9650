package bind

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"xla_go/gosrc/client"
	"xla_go/gosrc/client/current"
	"xla_go/gosrc/client/selection"
	"xla_go/gosrc/dispatch"
	"xla_go/gosrc/executor"
	"xla_go/gosrc/status"
)

// namedPlatforms are the device types that are the names which their plugins give themselves.
var namedPlatforms = []string{"CPU", "CUDA", "ROCM", "TPU"}

// InitializeClient makes the process's client from a plugin. A second call is refused; after a failure each
// later call fails in the same way. pluginPath "" leaves the plugin to the environment (PJRT_DEVICE and
// the variables that name a library). XLA_USE_IFRT chooses the client's model of data. deviceType is the
// platform that was asked for, "" for any. options is a JSON object of the options that the plugin's client
// is made with: text, booleans, numbers, lists of integers. BLOCKING: the plugin is loaded and takes its
// devices.
func InitializeClient(pluginPath, deviceType, options string) (ok bool, err error) {
	defer guard(&err)
	createOptions, err := readOptions(options)
	if err != nil {
		return false, err
	}
	_, err = current.Initialize(func() (client.Client, error) {
		construct := selection.New
		if pluginPath == "" {
			construct = selection.Select
		}
		c, err := construct(selection.Options{PluginPath: pluginPath, CreateOptions: createOptions, Coordinator: job.get()})
		if err != nil {
			return nil, err
		}
		if got := c.GetDeviceType(); got != deviceType && slices.Contains(namedPlatforms, deviceType) && slices.Contains(namedPlatforms, got) {
			if err := c.Close(); err != nil {
				return nil, err
			}
			return nil, status.Errorf(status.InvalidArgument, "expected a plugin for %s, got one for %s: %s", deviceType, got, pluginPath)
		}
		return c, nil
	})
	return err == nil, err
}

func readOptions(text string) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	var raw map[string]any
	if err := decoder.Decode(&raw); err != nil {
		return nil, status.Errorf(status.InvalidArgument, "InitializeClient(): expected a JSON object of options, got %v", err)
	}
	options := make(map[string]any, len(raw))
	for name, value := range raw {
		converted, ok := convertOption(value)
		if !ok {
			return nil, status.Errorf(status.InvalidArgument, "InitializeClient(): option %s: expected text, a boolean, a number or a list of integers, got %v", name, value)
		}
		options[name] = converted
	}
	return options, nil
}

// convertOption gives a value one of the types that a plugin's options have.
func convertOption(value any) (converted any, ok bool) {
	switch v := value.(type) {
	case string, bool:
		return v, true
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, true
		}
		x, err := v.Float64()
		return x, err == nil
	case []any:
		numbers := make([]int64, len(v))
		for i, item := range v {
			number, isNumber := item.(json.Number)
			if !isNumber {
				return nil, false
			}
			n, err := number.Int64()
			if err != nil {
				return nil, false
			}
			numbers[i] = n
		}
		return numbers, true
	}
	return nil, false
}

var startTensors = sync.OnceValue(func() error {
	c, err := current.Get()
	if err != nil {
		return err
	}
	return dispatch.Start(c, executor.OptionsFromEnvironment())
})

// DispatchTable starts the tensors' side of the runtime over the client and gives the address of
// its table of functions (xla_go_dispatch.h). InitializeClient comes first.
func DispatchTable() (address int64, err error) {
	defer guard(&err)
	if _, err := current.Get(); err != nil {
		return 0, err
	}
	if err := startTensors(); err != nil {
		return 0, err
	}
	return int64(dispatch.TableAddress()), nil
}
