package pjrt

// #include "calls.h"
// #include "key_value.h"
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"xla_go/gosrc/status"
)

// Client is a plugin's connection to its devices. Blocking calls say so.
type Client struct {
	plugin          *Plugin
	handle          *C.PJRT_Client
	platformName    string
	platformVersion string
	processIndex    int
	devices         []*Device
	addressable     []*Device
	memories        []*Memory

	store                        uintptr      // of key-values, 0 for none
	buffers, executables, others atomic.Int64 // alive
	blocks                       sync.Pool    // of *block with room
	closing                      sync.Mutex
	closed                       bool
}

// NewClient makes a client. Options are the plugin's own: string, bool, float, integer or []int64.
// Blocking: the plugin takes its devices.
func (p *Plugin) NewClient(options map[string]any, more ...ClientOption) (*Client, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	values, err := encodeValues(options, &pinner)
	if err != nil {
		return nil, err
	}
	args := C.PJRT_Client_Create_Args{struct_size: C.S_PJRT_Client_Create_Args}
	if len(values) > 0 {
		args.create_options, args.num_options = &values[0], C.size_t(len(values))
	}
	store := openStore(more)
	if store != 0 {
		C.xg_key_value_callbacks(&args, C.uintptr_t(store))
	}
	if err := p.call(C.FN_Client_Create, unsafe.Pointer(&args)); err != nil {
		closeStore(store)
		return nil, status.Annotate(err, "a client of %s could not be made", p.path)
	}
	c := &Client{plugin: p, handle: args.client, store: store}
	if err := c.describe(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Client) describe() error {
	p := c.plugin
	name := C.PJRT_Client_PlatformName_Args{struct_size: C.S_PJRT_Client_PlatformName_Args, client: c.handle}
	if err := p.call(C.FN_Client_PlatformName, unsafe.Pointer(&name)); err != nil {
		return err
	}
	c.platformName = goString(name.platform_name, name.platform_name_size)
	version := C.PJRT_Client_PlatformVersion_Args{struct_size: C.S_PJRT_Client_PlatformVersion_Args, client: c.handle}
	if err := p.call(C.FN_Client_PlatformVersion, unsafe.Pointer(&version)); err != nil {
		return err
	}
	c.platformVersion = goString(version.platform_version, version.platform_version_size)
	process := C.PJRT_Client_ProcessIndex_Args{struct_size: C.S_PJRT_Client_ProcessIndex_Args, client: c.handle}
	if err := p.call(C.FN_Client_ProcessIndex, unsafe.Pointer(&process)); err != nil {
		return err
	}
	c.processIndex = int(process.process_index)
	devices := C.PJRT_Client_Devices_Args{struct_size: C.S_PJRT_Client_Devices_Args, client: c.handle}
	if err := p.call(C.FN_Client_Devices, unsafe.Pointer(&devices)); err != nil {
		return err
	}
	byHandle := map[*C.PJRT_Device]*Device{}
	for _, h := range unsafe.Slice(devices.devices, int(devices.num_devices)) {
		d, err := c.newDevice(h)
		if err != nil {
			return err
		}
		byHandle[h] = d
		c.devices = append(c.devices, d)
	}
	addressable := C.PJRT_Client_AddressableDevices_Args{struct_size: C.S_PJRT_Client_AddressableDevices_Args, client: c.handle}
	if err := p.call(C.FN_Client_AddressableDevices, unsafe.Pointer(&addressable)); err != nil {
		return err
	}
	for _, h := range unsafe.Slice(addressable.addressable_devices, int(addressable.num_addressable_devices)) {
		d := byHandle[h]
		if d == nil {
			return status.Errorf(status.Internal, "%s lists an addressable device that is not among its devices", p.path)
		}
		c.addressable = append(c.addressable, d)
	}
	return nil
}

// Close destroys the client. Idempotent. FailedPrecondition while something made by it
// is alive, because plugins may crash then.
func (c *Client) Close() error {
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed {
		return nil
	}
	if b, e, o := c.buffers.Load(), c.executables.Load(), c.others.Load(); b != 0 || e != 0 || o != 0 {
		return status.Errorf(status.FailedPrecondition, "the client still has %d buffers, %d executables and %d transfer managers and raw buffers: destroy them before it", b, e, o)
	}
	c.closed = true
	defer closeStore(c.store)
	args := C.PJRT_Client_Destroy_Args{struct_size: C.S_PJRT_Client_Destroy_Args, client: c.handle}
	return c.plugin.call(C.FN_Client_Destroy, unsafe.Pointer(&args))
}

// Plugin is the plugin that the client belongs to.
func (c *Client) Plugin() *Plugin { return c.plugin }

// PlatformName is for example "cpu", "cuda" or "tpu".
func (c *Client) PlatformName() string { return c.platformName }

// PlatformVersion is the plugin's text about the versions below it.
func (c *Client) PlatformVersion() string { return c.platformVersion }

// ProcessIndex is the number of this process among those that share the devices.
func (c *Client) ProcessIndex() int { return c.processIndex }

// Devices are all devices of all processes, in the plugin's order.
func (c *Client) Devices() []*Device { return c.devices }

// AddressableDevices are the devices of this process, in the plugin's order.
func (c *Client) AddressableDevices() []*Device { return c.addressable }
