// Package platform is what every client over PJRT has in common whatever its model of data: the
// plugin's client, the devices under their names in the contract, what is in flight on them, the
// coordinator, and the settings that decide what a compile gives.
package platform

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

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

// Device is a PJRT device under its name in the contract.
type Device struct {
	Name    string
	Ordinal int
	PJRT    *pjrt.Device
	Work    Operations

	dataBytes, dataPeak atomic.Int64 // see Footprint
}

// Platform is a plugin's client with its devices. Its exported fields do not change.
type Platform struct {
	PJRT     *pjrt.Client
	OnHost   bool // device memory is host memory
	Devices  []*Device
	Local    []*Device // in the plugin's order, which is the order of shards
	ByDevice map[*pjrt.Device]*Device
	Sharded  Operations // work of SPMDDevice

	options    Options
	deviceType string
	byName     map[string]*Device

	settings       sync.Mutex
	compileOptions map[string]string
	replication    []string
	identity       [16]byte // of everything but compileOptions
	hash           atomic.Pointer[[16]byte]

	coordinator     atomic.Pointer[coordinator.Coordinator] // nil for none
	coordinating    sync.Mutex                              // held while one is started
	ownsCoordinator bool

	closed  atomic.Bool
	closer  sync.Mutex   // held by Close
	closing atomic.Bool  // set while Close looks whether it can
	inside  atomic.Int64 // calls between Enter and Leave
}

// New loads the plugin and makes a client of it. BLOCKING: the plugin takes its devices.
func New(options Options) (*Platform, error) {
	plugin, err := pjrt.Load(options.PluginPath)
	if err != nil {
		return nil, err
	}
	made, err := plugin.NewClient(options.CreateOptions, options.createOptions()...)
	if err != nil {
		return nil, err
	}
	p := &Platform{
		options: options, PJRT: made, deviceType: strings.ToUpper(made.PlatformName()), OnHost: made.PlatformName() == "cpu",
		byName: map[string]*Device{}, ByDevice: map[*pjrt.Device]*Device{},
	}
	p.coordinator.Store(options.Coordinator)
	sorted := slices.SortedFunc(slices.Values(made.Devices()), func(a, b *pjrt.Device) int { return cmp.Compare(a.ID(), b.ID()) })
	for ordinal, d := range sorted {
		known := &Device{Name: deviceName(p.deviceType, ordinal), Ordinal: ordinal, PJRT: d}
		p.Devices = append(p.Devices, known)
		p.byName[known.Name], p.ByDevice[d] = known, known
	}
	for _, d := range made.AddressableDevices() {
		p.Local = append(p.Local, p.ByDevice[d])
	}
	if len(p.Local) == 0 {
		made.Close()
		return nil, status.Errorf(status.FailedPrecondition, "the plugin %s has no device that this process can use", plugin.Path())
	}
	p.identity = p.environment()
	p.SetCustomCompileOptions(options.CompileOptions)
	return p, nil
}

// Close waits for running work and frees the client. Idempotent. FailedPrecondition while Data or
// Computations of it are open, or calls that make some are under way.
func (p *Platform) Close() error {
	p.closer.Lock()
	defer p.closer.Unlock()
	if p.closed.Load() {
		return nil
	}
	if err := p.WaitDeviceOps(nil); err != nil {
		return err
	}
	p.closing.Store(true)
	defer p.closing.Store(false)
	if n := p.inside.Load(); n != 0 {
		return status.Errorf(status.FailedPrecondition, "%d calls that use the client are under way: wait for them before it is closed", n)
	}
	if err := p.PJRT.Close(); err != nil {
		return err
	}
	p.closed.Store(true)
	return p.closeCoordinator()
}

// Open fails once the client is closed.
func (p *Platform) Open() error {
	if p.closed.Load() {
		return status.Errorf(status.FailedPrecondition, "the client is closed")
	}
	return nil
}

// Enter is Open for a call that reaches the plugin's client without holding anything made by it: until Leave, Close
// refuses. Calls that hold Data or a Computation need none, since those keep the client open.
func (p *Platform) Enter() error {
	p.inside.Add(1)
	if p.closing.Load() || p.closed.Load() {
		p.inside.Add(-1)
		return status.Errorf(status.FailedPrecondition, "the client is closed")
	}
	return nil
}

// Leave ends what Enter began.
func (p *Platform) Leave() { p.inside.Add(-1) }

// Lookup finds a device by name.
func (p *Platform) Lookup(name string) (*Device, error) {
	if d := p.byName[name]; d != nil {
		return d, nil
	}
	known := strings.Join(p.GetAllDevices(), ", ")
	if name == SPMDDevice {
		return nil, status.Errorf(status.InvalidArgument, "expected a physical device, got the virtual device %s; there are %s", name, known)
	}
	return nil, status.Errorf(status.InvalidArgument, "expected one of the devices %s, got %q", known, name)
}

// Addressable finds a device of this process by name, for something to do on it: FailedPrecondition once the
// client is closed.
func (p *Platform) Addressable(name string) (*Device, error) {
	if err := p.Open(); err != nil {
		return nil, err
	}
	d, err := p.Lookup(name)
	if err == nil && !d.PJRT.IsAddressable() {
		return nil, status.Errorf(status.InvalidArgument, "expected a device of this process (%s), got %s of process %d",
			strings.Join(p.GetLocalDevices(), ", "), name, d.PJRT.ProcessIndex())
	}
	return d, err
}
