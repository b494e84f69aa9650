package platform

import (
	"slices"
	"strconv"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

func deviceName(deviceType string, ordinal int) string {
	return deviceType + ":" + strconv.Itoa(ordinal)
}

// Names gives the names of devices, in their order.
func Names(devices []*Device) []string {
	result := make([]string, len(devices))
	for i, d := range devices {
		result[i] = d.Name
	}
	return result
}

// GetDefaultDevice gives the first device of this process.
func (p *Platform) GetDefaultDevice() string { return p.Local[0].Name }

// GetDeviceType gives the platform's name in upper case.
func (p *Platform) GetDeviceType() string { return p.deviceType }

// GetDeviceKind gives the vendor's name of a device's model.
func (p *Platform) GetDeviceKind(name string) (string, error) {
	d, err := p.Lookup(name)
	if err != nil {
		return "", status.Annotate(err, "GetDeviceKind()")
	}
	return d.PJRT.Kind(), nil
}

// GetPlatformVersion gives the plugin's text about the versions below it.
func (p *Platform) GetPlatformVersion() string { return p.PJRT.PlatformVersion() }

// GetNumLocalDevices counts the devices of this process.
func (p *Platform) GetNumLocalDevices() int { return len(p.Local) }

// GetNumDevices counts the devices of all processes.
func (p *Platform) GetNumDevices() int { return len(p.Devices) }

// GetLocalDevices gives the devices of this process in the order of shards.
func (p *Platform) GetLocalDevices() []string { return Names(p.Local) }

// GetAllDevices gives the devices of all processes in the order of their ordinals.
func (p *Platform) GetAllDevices() []string { return Names(p.Devices) }

// GetProcessIndex gives the number of this process.
func (p *Platform) GetProcessIndex() int { return p.PJRT.ProcessIndex() }

// GetNumProcesses gives the number of processes that share the devices.
func (p *Platform) GetNumProcesses() int {
	n := 0
	for _, d := range p.Devices {
		n = max(n, d.PJRT.ProcessIndex())
	}
	return n + 1
}

// GetDeviceAttributes gives a device's properties: string, int64, []int64, float32 or bool.
func (p *Platform) GetDeviceAttributes(name string) (map[string]any, error) {
	d, err := p.Lookup(name)
	if err != nil {
		return nil, status.Annotate(err, "GetDeviceAttributes()")
	}
	result := map[string]any{}
	for k, v := range d.PJRT.Attributes() {
		result[k] = v
	}
	return result, nil
}

// DeviceOrdinal gives the global ordinal of a device; 0 for the virtual device.
func (p *Platform) DeviceOrdinal(name string) (int, error) {
	if name == SPMDDevice {
		return 0, nil
	}
	d, err := p.Lookup(name)
	if err != nil {
		return 0, status.Annotate(err, "DeviceOrdinal()")
	}
	return d.Ordinal, nil
}

// SetReplicationDevices stores the devices of replicated programs; nil for none.
func (p *Platform) SetReplicationDevices(devices []string) {
	p.settings.Lock()
	defer p.settings.Unlock()
	p.replication = slices.Clone(devices)
}

// GetReplicationDevices gives what SetReplicationDevices stored, nil for none.
func (p *Platform) GetReplicationDevices() []string {
	p.settings.Lock()
	defer p.settings.Unlock()
	return slices.Clone(p.replication)
}

// GetCompilationDevices gives devices where there are any, else the replication devices, else device.
func (p *Platform) GetCompilationDevices(device string, devices []string) []string {
	if len(devices) > 0 {
		return devices
	}
	if r := p.GetReplicationDevices(); len(r) > 0 {
		return r
	}
	return []string{device}
}

// GetMetrics gives the plugin's own numbers: memory in use, summed over the local devices that count it.
func (p *Platform) GetMetrics() map[string]float64 {
	result := map[string]float64{}
	if p.Enter() != nil {
		return result
	}
	defer p.Leave()
	for _, d := range p.Local {
		stats, err := d.PJRT.MemoryStats()
		if err != nil {
			continue
		}
		result["DeviceBytesInUse"] += float64(stats.BytesInUse)
	}
	return result
}

// GetMemoryInfo gives a device's memory; Unimplemented where the plugin counts none.
func (p *Platform) GetMemoryInfo(name string) (client.MemoryInfo, error) {
	if err := p.Enter(); err != nil {
		return client.MemoryInfo{}, status.Annotate(err, "GetMemoryInfo()")
	}
	defer p.Leave()
	d, err := p.Addressable(name)
	if err != nil {
		return client.MemoryInfo{}, status.Annotate(err, "GetMemoryInfo()")
	}
	stats, err := d.PJRT.MemoryStats()
	if err != nil {
		return client.MemoryInfo{}, status.Annotate(err, "GetMemoryInfo()")
	}
	return client.MemoryInfo{
		BytesUsed: stats.BytesInUse, BytesLimit: stats.Optional["bytes_limit"],
		PeakBytesUsed: stats.Optional["peak_bytes_in_use"], AllocatorStats: stats.Optional,
	}, nil
}

// GetDataMemory gives the bytes that open Data of this client take on a device, and the most they took since the
// last ResetPeakDataMemory.
func (p *Platform) GetDataMemory(name string) (bytes, peak int64, err error) {
	d, err := p.Addressable(name)
	if err != nil {
		return 0, 0, status.Annotate(err, "GetDataMemory()")
	}
	return d.dataBytes.Load(), d.dataPeak.Load(), nil
}

// ResetPeakDataMemory makes what open Data take now the peak.
func (p *Platform) ResetPeakDataMemory(name string) error {
	d, err := p.Addressable(name)
	if err != nil {
		return status.Annotate(err, "ResetPeakDataMemory()")
	}
	d.dataPeak.Store(d.dataBytes.Load())
	return nil
}
