package pjrtclient

import (
	"slices"
	"strconv"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

func deviceName(deviceType string, ordinal int) string {
	return deviceType + ":" + strconv.Itoa(ordinal)
}

func names(devices []*device) []string {
	result := make([]string, len(devices))
	for i, d := range devices {
		result[i] = d.name
	}
	return result
}

// GetDefaultDevice gives the first device of this process.
func (c *Client) GetDefaultDevice() string { return c.local[0].name }

// GetDeviceType gives the platform's name in upper case.
func (c *Client) GetDeviceType() string { return c.deviceType }

// GetDeviceKind gives the vendor's name of a device's model.
func (c *Client) GetDeviceKind(name string) (string, error) {
	d, err := c.lookup(name)
	if err != nil {
		return "", status.Annotate(err, "GetDeviceKind()")
	}
	return d.pjrt.Kind(), nil
}

// GetPlatformVersion gives the plugin's text about the versions below it.
func (c *Client) GetPlatformVersion() string { return c.pjrt.PlatformVersion() }

// GetNumLocalDevices counts the devices of this process.
func (c *Client) GetNumLocalDevices() int { return len(c.local) }

// GetNumDevices counts the devices of all processes.
func (c *Client) GetNumDevices() int { return len(c.devices) }

// GetLocalDevices gives the devices of this process in the order of shards.
func (c *Client) GetLocalDevices() []string { return names(c.local) }

// GetAllDevices gives the devices of all processes in the order of their ordinals.
func (c *Client) GetAllDevices() []string { return names(c.devices) }

// GetProcessIndex gives the number of this process.
func (c *Client) GetProcessIndex() int { return c.pjrt.ProcessIndex() }

// GetNumProcesses gives the number of processes that share the devices.
func (c *Client) GetNumProcesses() int {
	n := 0
	for _, d := range c.devices {
		n = max(n, d.pjrt.ProcessIndex())
	}
	return n + 1
}

// GetDeviceAttributes gives a device's properties: string, int64, []int64, float32 or bool.
func (c *Client) GetDeviceAttributes(name string) (map[string]any, error) {
	d, err := c.lookup(name)
	if err != nil {
		return nil, status.Annotate(err, "GetDeviceAttributes()")
	}
	result := map[string]any{}
	for k, v := range d.pjrt.Attributes() {
		result[k] = v
	}
	return result, nil
}

// DeviceOrdinal gives the global ordinal of a device; 0 for the virtual device.
func (c *Client) DeviceOrdinal(name string) (int, error) {
	if name == SPMDDevice {
		return 0, nil
	}
	d, err := c.lookup(name)
	if err != nil {
		return 0, status.Annotate(err, "DeviceOrdinal()")
	}
	return d.ordinal, nil
}

// SetReplicationDevices stores the devices of replicated programs; nil for none.
func (c *Client) SetReplicationDevices(devices []string) {
	c.settings.Lock()
	defer c.settings.Unlock()
	c.replication = slices.Clone(devices)
}

// GetReplicationDevices gives what SetReplicationDevices stored, nil for none.
func (c *Client) GetReplicationDevices() []string {
	c.settings.Lock()
	defer c.settings.Unlock()
	return slices.Clone(c.replication)
}

// GetCompilationDevices gives devices where there are any, else the replication devices, else device.
func (c *Client) GetCompilationDevices(device string, devices []string) []string {
	if len(devices) > 0 {
		return devices
	}
	if r := c.GetReplicationDevices(); len(r) > 0 {
		return r
	}
	return []string{device}
}

// GetMetrics gives the plugin's own numbers: memory in use, summed over the local devices that count it.
func (c *Client) GetMetrics() map[string]float64 {
	result := map[string]float64{}
	for _, d := range c.local {
		stats, err := d.pjrt.MemoryStats()
		if err != nil {
			continue
		}
		result["DeviceBytesInUse"] += float64(stats.BytesInUse)
	}
	return result
}

// GetMemoryInfo gives a device's memory; Unimplemented where the plugin counts none.
func (c *Client) GetMemoryInfo(name string) (client.MemoryInfo, error) {
	d, err := c.addressable(name)
	if err != nil {
		return client.MemoryInfo{}, status.Annotate(err, "GetMemoryInfo()")
	}
	stats, err := d.pjrt.MemoryStats()
	if err != nil {
		return client.MemoryInfo{}, status.Annotate(err, "GetMemoryInfo()")
	}
	return client.MemoryInfo{
		BytesUsed: stats.BytesInUse, BytesLimit: stats.Optional["bytes_limit"],
		PeakBytesUsed: stats.Optional["peak_bytes_in_use"], AllocatorStats: stats.Optional,
	}, nil
}

// RegisterCustomCall is not there yet: it needs the plugin's FFI extension.
func (c *Client) RegisterCustomCall(name string, function uintptr, platform string) error {
	return status.Errorf(status.Unimplemented, "RegisterCustomCall(): custom calls are not supported yet, so %q cannot be registered", name)
}
