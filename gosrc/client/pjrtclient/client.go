// Package pjrtclient implements the client contract over a PJRT plugin, with one buffer for each
// device that an array lies on.
package pjrtclient

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"xla_go/gosrc/client"
	"xla_go/gosrc/coordinator"
	"xla_go/gosrc/status"
	"xla_go/pjrt"
)

// SPMDDevice is the virtual device of data that is sharded over all devices.
const SPMDDevice = "SPMD:0"

// Options say which plugin to use and how.
type Options struct {
	// PluginPath is the plugin's library.
	PluginPath string
	// CreateOptions go to the plugin when its client is made: string, bool, float, integer or []int64.
	CreateOptions map[string]any
	// CompileOptions go into every compile, as SetCustomCompileOptions.
	CompileOptions map[string]string
	// Coordinator serves a plugin whose devices span several processes; nil for one that is alone. It has to
	// stay open until the client is closed, and the client does not close it.
	Coordinator *coordinator.Coordinator
}

// device is a PJRT device under its name in the contract.
type device struct {
	name    string
	ordinal int
	pjrt    *pjrt.Device
	work    operations
}

// Client is the contract over one PJRT client.
type Client struct {
	options    Options
	pjrt       *pjrt.Client
	deviceType string
	onHost     bool // device memory is host memory
	devices    []*device
	local      []*device // in the plugin's order, which is the order of shards
	byName     map[string]*device
	byDevice   map[*pjrt.Device]*device
	sharded    operations // work of SPMDDevice

	settings       sync.Mutex
	compileOptions map[string]string
	replication    []string
	identity       [16]byte // of everything but compileOptions
	hash           atomic.Pointer[[16]byte]

	coordinator     atomic.Pointer[coordinator.Coordinator] // nil for none
	coordinating    sync.Mutex                              // held while one is started
	ownsCoordinator bool

	closed atomic.Bool
}

var _ client.Client = (*Client)(nil)

// New loads the plugin and makes a client of it. BLOCKING: the plugin takes its devices.
func New(options Options) (client.Client, error) {
	plugin, err := pjrt.Load(options.PluginPath)
	if err != nil {
		return nil, err
	}
	p, err := plugin.NewClient(options.CreateOptions, options.createOptions()...)
	if err != nil {
		return nil, err
	}
	c := &Client{
		options: options, pjrt: p, deviceType: strings.ToUpper(p.PlatformName()), onHost: p.PlatformName() == "cpu",
		byName: map[string]*device{}, byDevice: map[*pjrt.Device]*device{},
	}
	c.coordinator.Store(options.Coordinator)
	sorted := slices.SortedFunc(slices.Values(p.Devices()), func(a, b *pjrt.Device) int { return cmp.Compare(a.ID(), b.ID()) })
	for ordinal, d := range sorted {
		known := &device{name: deviceName(c.deviceType, ordinal), ordinal: ordinal, pjrt: d}
		c.devices = append(c.devices, known)
		c.byName[known.name], c.byDevice[d] = known, known
	}
	for _, d := range p.AddressableDevices() {
		c.local = append(c.local, c.byDevice[d])
	}
	if len(c.local) == 0 {
		p.Close()
		return nil, status.Errorf(status.FailedPrecondition, "the plugin %s has no device that this process can use", plugin.Path())
	}
	c.identity = c.environment()
	c.SetCustomCompileOptions(options.CompileOptions)
	return c, nil
}

// Close waits for running work and frees the client. Idempotent. FailedPrecondition while Data or
// Computations of it are open.
func (c *Client) Close() error {
	if c.closed.Load() {
		return nil
	}
	if err := c.WaitDeviceOps(nil); err != nil {
		return err
	}
	if err := c.pjrt.Close(); err != nil {
		return err
	}
	c.closed.Store(true)
	return c.closeCoordinator()
}

// open fails once the client is closed.
func (c *Client) open() error {
	if c.closed.Load() {
		return status.Errorf(status.FailedPrecondition, "the client is closed")
	}
	return nil
}

// lookup finds a device by name.
func (c *Client) lookup(name string) (*device, error) {
	if d := c.byName[name]; d != nil {
		return d, nil
	}
	known := strings.Join(c.GetAllDevices(), ", ")
	if name == SPMDDevice {
		return nil, status.Errorf(status.InvalidArgument, "expected a physical device, got the virtual device %s; there are %s", name, known)
	}
	return nil, status.Errorf(status.InvalidArgument, "expected one of the devices %s, got %q", known, name)
}

// addressable finds a device of this process by name.
func (c *Client) addressable(name string) (*device, error) {
	d, err := c.lookup(name)
	if err == nil && !d.pjrt.IsAddressable() {
		return nil, status.Errorf(status.InvalidArgument, "expected a device of this process (%s), got %s of process %d",
			strings.Join(c.GetLocalDevices(), ", "), name, d.pjrt.ProcessIndex())
	}
	return d, err
}
