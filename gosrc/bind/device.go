package bind

import (
	"encoding/hex"
	"encoding/json"

	"xla_go/gosrc/client/current"
	"xla_go/gosrc/status"
)

// ClientInitialized says whether the process's client was made. Never makes it.
func ClientInitialized() bool { return current.IfInitialized() != nil }

// DeviceType gives the platform's name in upper case, for example "CPU".
func DeviceType() (name string, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return "", err
	}
	return c.GetDeviceType(), nil
}

// DeviceKind gives the kind of a device in the vendor's words.
func DeviceKind(device string) (kind string, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return "", err
	}
	return c.GetDeviceKind(device)
}

// PlatformVersion gives the plugin's own version text.
func PlatformVersion() (version string, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return "", err
	}
	return c.GetPlatformVersion(), nil
}

// NumDevices counts the devices of all processes.
func NumDevices() (n int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	return int64(c.GetNumDevices()), nil
}

// LocalDevices names the devices of this process, one a line, in the order of device numbers.
func LocalDevices() (names string, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return "", err
	}
	return lines(c.GetLocalDevices()), nil
}

// AllDevices names the devices of all processes, one a line, in the order of global ordinals.
func AllDevices() (names string, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return "", err
	}
	return lines(c.GetAllDevices()), nil
}

// DefaultDevice names the device that is used where none is named.
func DefaultDevice() (name string, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return "", err
	}
	return c.GetDefaultDevice(), nil
}

// DeviceOrdinal gives a device's global ordinal.
func DeviceOrdinal(device string) (ordinal int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	n, err := c.DeviceOrdinal(device)
	return int64(n), err
}

// ProcessIndex gives this process's number among those of the job.
func ProcessIndex() (n int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	return int64(c.GetProcessIndex()), nil
}

// NumProcesses counts the processes of the job.
func NumProcesses() (n int64, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return 0, err
	}
	return int64(c.GetNumProcesses()), nil
}

// DeviceAttributes gives a device's attributes as a JSON object.
func DeviceAttributes(device string) (text string, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return "", err
	}
	attributes, err := c.GetDeviceAttributes(device)
	if err != nil {
		return "", err
	}
	return encode(attributes)
}

// MemoryInfo gives a device's memory in bytes as a JSON object: bytes_used, bytes_limit,
// peak_bytes_used (0 where unknown) and allocator_stats.
func MemoryInfo(device string) (text string, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return "", err
	}
	info, err := c.GetMemoryInfo(device)
	if err != nil {
		return "", err
	}
	return encode(map[string]any{
		"bytes_used":      info.BytesUsed,
		"bytes_limit":     info.BytesLimit,
		"peak_bytes_used": info.PeakBytesUsed,
		"allocator_stats": info.AllocatorStats,
	})
}

// EnvironmentHash identifies plugin, version, devices, options and flags, as hexadecimal digits: executables are
// not to be shared between different values.
func EnvironmentHash() (digits string, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return "", err
	}
	hash := c.HashCompilationEnvironment()
	return hex.EncodeToString(hash[:]), nil
}

// SetCompileOptions replaces the options (a JSON object of names and texts) that are put into every later
// compile. It changes the EnvironmentHash.
func SetCompileOptions(options string) (ok bool, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return false, err
	}
	values := map[string]string{}
	if err := json.Unmarshal([]byte(options), &values); err != nil {
		return false, status.Errorf(status.InvalidArgument, "SetCompileOptions(): expected a JSON object of names and texts, got %v", err)
	}
	c.SetCustomCompileOptions(values)
	return true, nil
}

// DataMemory gives what open data take on a device, as a JSON object: bytes_used, peak_bytes_used.
func DataMemory(device string) (text string, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return "", err
	}
	bytes, peak, err := c.GetDataMemory(device)
	if err != nil {
		return "", err
	}
	return encode(map[string]any{"bytes_used": bytes, "peak_bytes_used": peak})
}

// ResetPeakDataMemory makes what open data take on a device now the peak.
func ResetPeakDataMemory(device string) (ok bool, err error) {
	defer guard(&err)
	c, err := current.Get()
	if err != nil {
		return false, err
	}
	return true, c.ResetPeakDataMemory(device)
}

func encode(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}
