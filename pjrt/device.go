package pjrt

// #include "calls.h"
import "C"

import (
	"unsafe"

	"xla_go/gosrc/status"
)

// Device is one device of a client. Its properties are read once, when the client is made.
type Device struct {
	client          *Client
	handle          *C.PJRT_Device
	id              int
	processIndex    int
	localHardwareID int
	addressable     bool
	kind            string
	text            string
	attributes      map[string]any
	memories        []*Memory
	defaultMemory   *Memory
}

// ID is unique among all devices of all processes.
func (d *Device) ID() int { return d.id }

// ProcessIndex is the process that can use the device.
func (d *Device) ProcessIndex() int { return d.processIndex }

// LocalHardwareID is the vendor's number of the device on its host, -1 where there is none.
func (d *Device) LocalHardwareID() int { return d.localHardwareID }

// IsAddressable says whether this process can use the device.
func (d *Device) IsAddressable() bool { return d.addressable }

// Kind is the vendor's name of the model, for example "cpu" or "NVIDIA H200".
func (d *Device) Kind() string { return d.kind }

// String is the plugin's text for the device.
func (d *Device) String() string { return d.text }

// Attributes are the device's properties: string, int64, []int64, float32 or bool.
func (d *Device) Attributes() map[string]any { return d.attributes }

// Memories are the memories that the device can use.
func (d *Device) Memories() []*Memory { return d.memories }

// DefaultMemory is where arrays go if nothing else is said, nil where the plugin does not say.
func (d *Device) DefaultMemory() *Memory { return d.defaultMemory }

func (c *Client) newDevice(handle *C.PJRT_Device) (*Device, error) {
	p := c.plugin
	d := &Device{client: c, handle: handle, localHardwareID: -1}
	get := C.PJRT_Device_GetDescription_Args{struct_size: C.S_PJRT_Device_GetDescription_Args, device: handle}
	if err := p.call(C.FN_Device_GetDescription, unsafe.Pointer(&get)); err != nil {
		return nil, err
	}
	description := get.device_description
	id := C.PJRT_DeviceDescription_Id_Args{struct_size: C.S_PJRT_DeviceDescription_Id_Args, device_description: description}
	if err := p.call(C.FN_DeviceDescription_Id, unsafe.Pointer(&id)); err != nil {
		return nil, err
	}
	d.id = int(id.id)
	process := C.PJRT_DeviceDescription_ProcessIndex_Args{struct_size: C.S_PJRT_DeviceDescription_ProcessIndex_Args, device_description: description}
	if err := p.call(C.FN_DeviceDescription_ProcessIndex, unsafe.Pointer(&process)); err != nil {
		return nil, err
	}
	d.processIndex = int(process.process_index)
	addressable := C.PJRT_Device_IsAddressable_Args{struct_size: C.S_PJRT_Device_IsAddressable_Args, device: handle}
	if err := p.call(C.FN_Device_IsAddressable, unsafe.Pointer(&addressable)); err != nil {
		return nil, err
	}
	d.addressable = bool(addressable.is_addressable)
	kind := C.PJRT_DeviceDescription_Kind_Args{struct_size: C.S_PJRT_DeviceDescription_Kind_Args, device_description: description}
	if err := p.call(C.FN_DeviceDescription_Kind, unsafe.Pointer(&kind)); err != nil {
		return nil, err
	}
	d.kind = goString(kind.device_kind, kind.device_kind_size)
	text := C.PJRT_DeviceDescription_ToString_Args{struct_size: C.S_PJRT_DeviceDescription_ToString_Args, device_description: description}
	if err := p.call(C.FN_DeviceDescription_ToString, unsafe.Pointer(&text)); err != nil {
		return nil, err
	}
	d.text = goString(text.to_string, text.to_string_size)

	// What follows is optional: a plugin without it is still a usable one.
	attributes := C.PJRT_DeviceDescription_Attributes_Args{struct_size: C.S_PJRT_DeviceDescription_Attributes_Args, device_description: description}
	if err := p.call(C.FN_DeviceDescription_Attributes, unsafe.Pointer(&attributes)); err == nil {
		d.attributes = namedValues(attributes.attributes, attributes.num_attributes)
	}
	if !d.addressable {
		return d, nil
	}
	local := C.PJRT_Device_LocalHardwareId_Args{struct_size: C.S_PJRT_Device_LocalHardwareId_Args, device: handle}
	if err := p.call(C.FN_Device_LocalHardwareId, unsafe.Pointer(&local)); err == nil {
		d.localHardwareID = int(local.local_hardware_id)
	}
	memories := C.PJRT_Device_AddressableMemories_Args{struct_size: C.S_PJRT_Device_AddressableMemories_Args, device: handle}
	if err := p.call(C.FN_Device_AddressableMemories, unsafe.Pointer(&memories)); err == nil && memories.num_memories > 0 {
		for _, m := range unsafe.Slice(memories.memories, int(memories.num_memories)) {
			d.memories = append(d.memories, c.memory(m))
		}
	}
	def := C.PJRT_Device_DefaultMemory_Args{struct_size: C.S_PJRT_Device_DefaultMemory_Args, device: handle}
	if err := p.call(C.FN_Device_DefaultMemory, unsafe.Pointer(&def)); err == nil && def.memory != nil {
		d.defaultMemory = c.memory(def.memory)
	}
	return d, nil
}

// device gives the object for a handle.
func (c *Client) device(handle *C.PJRT_Device) (*Device, error) {
	for _, d := range c.devices {
		if d.handle == handle {
			return d, nil
		}
	}
	return nil, status.Errorf(status.Internal, "the plugin named a device that its client does not list")
}

// MemoryStats is what a device's allocator counts, in bytes. Present names the optional fields
// that the plugin filled.
type MemoryStats struct {
	BytesInUse int64
	Optional   map[string]int64
}

// MemoryStats asks the device's allocator; Unimplemented where the plugin counts nothing.
func (d *Device) MemoryStats() (MemoryStats, error) {
	// Room behind the struct: a newer plugin may fill fields that are not known here.
	var args struct {
		known C.PJRT_Device_MemoryStats_Args
		room  [256]byte
	}
	a := &args.known
	a.struct_size, a.device = C.S_PJRT_Device_MemoryStats_Args, d.handle
	if err := d.client.plugin.call(C.FN_Device_MemoryStats, unsafe.Pointer(&args)); err != nil {
		return MemoryStats{}, status.Annotate(err, "memory of device %s", d.text)
	}
	stats := MemoryStats{BytesInUse: int64(a.bytes_in_use), Optional: map[string]int64{}}
	for _, f := range []struct {
		name  string
		value C.int64_t
		set   C.bool
	}{
		{"peak_bytes_in_use", a.peak_bytes_in_use, a.peak_bytes_in_use_is_set},
		{"num_allocs", a.num_allocs, a.num_allocs_is_set},
		{"largest_alloc_size", a.largest_alloc_size, a.largest_alloc_size_is_set},
		{"bytes_limit", a.bytes_limit, a.bytes_limit_is_set},
		{"bytes_reserved", a.bytes_reserved, a.bytes_reserved_is_set},
		{"peak_bytes_reserved", a.peak_bytes_reserved, a.peak_bytes_reserved_is_set},
		{"bytes_reservable_limit", a.bytes_reservable_limit, a.bytes_reservable_limit_is_set},
		{"largest_free_block_bytes", a.largest_free_block_bytes, a.largest_free_block_bytes_is_set},
		{"pool_bytes", a.pool_bytes, a.pool_bytes_is_set},
		{"peak_pool_bytes", a.peak_pool_bytes, a.peak_pool_bytes_is_set},
		{"peak_allocated_bytes", a.peak_allocated_bytes, a.peak_allocated_bytes_is_set},
	} {
		if f.set {
			stats.Optional[f.name] = int64(f.value)
		}
	}
	return stats, nil
}
