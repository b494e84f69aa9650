package fakeclient

import (
	"slices"
	"strings"

	"xla_go/gosrc/client"
	"xla_go/gosrc/status"
)

// rest is the methods of the contract that a fake does not have: a call of one panics.
type rest struct{ client.Client }

func unsupported(method string) error {
	return status.Errorf(status.Unimplemented, "%s: the fake client does not have it", method)
}

// GetMemoryInfo is Unimplemented, as with a plugin that counts nothing.
func (c *Client) GetMemoryInfo(string) (client.MemoryInfo, error) {
	return client.MemoryInfo{}, unsupported("GetMemoryInfo()")
}

// SerializeComputation is Unimplemented, as with a plugin that keeps its programs to itself.
func (c *Client) SerializeComputation(client.Computation) ([]byte, error) {
	return nil, unsupported("SerializeComputation()")
}

func (c *Client) check(device string) error {
	if !slices.Contains(c.devices, device) {
		return status.Errorf(status.InvalidArgument, "expected one of the devices %s, got %q", strings.Join(c.devices, ", "), device)
	}
	return nil
}

// work counts runs under way on a device.
func (c *Client) work(device string, more int) {
	c.working.Lock()
	defer c.working.Unlock()
	c.running[device] += more
	c.idle.Broadcast()
}

// WaitDeviceOps waits for the runs of devices, none named meaning all. BLOCKING.
func (c *Client) WaitDeviceOps(devices []string) error {
	if len(devices) == 0 {
		devices = c.devices
	}
	c.working.Lock()
	defer c.working.Unlock()
	for slices.ContainsFunc(devices, func(d string) bool { return c.running[d] > 0 }) {
		c.idle.Wait()
	}
	return nil
}

// The topology: all devices are this process's.
func (c *Client) GetDefaultDevice() string  { return c.devices[0] }
func (c *Client) GetDeviceType() string     { return "FAKE" }
func (c *Client) GetNumLocalDevices() int   { return len(c.devices) }
func (c *Client) GetNumDevices() int        { return len(c.devices) }
func (c *Client) GetLocalDevices() []string { return slices.Clone(c.devices) }
func (c *Client) GetAllDevices() []string   { return slices.Clone(c.devices) }

// HashCompilationEnvironment is the same for all fakes.
func (c *Client) HashCompilationEnvironment() [16]byte { return [16]byte([]byte("the fake client!")) }

// GetDataSharding gives none: the fake has no data over several devices.
func (c *Client) GetDataSharding(client.Data) *client.Sharding { return nil }

// GetCompilationDevices gives devices where there are any, else device: the fake has no replication devices.
func (c *Client) GetCompilationDevices(device string, devices []string) []string {
	if len(devices) > 0 {
		return devices
	}
	return []string{device}
}
