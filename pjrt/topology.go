package pjrt

// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"

	"xla_go/gosrc/shape"
)

// Topology describes devices and how they are connected, with or without having them.
type Topology struct {
	object
	client *Client // what it belongs to must live; nil where it stands alone
}

func (p *Plugin) newTopology(handle *C.PJRT_TopologyDescription) *Topology {
	t := new(Topology)
	hold(t, &t.object, p, unsafe.Pointer(handle), func(h unsafe.Pointer) error {
		args := C.PJRT_TopologyDescription_Destroy_Args{struct_size: C.S_PJRT_TopologyDescription_Destroy_Args, topology: (*C.PJRT_TopologyDescription)(h)}
		return p.call(C.FN_TopologyDescription_Destroy, unsafe.Pointer(&args))
	})
	return t
}

// NewTopology makes the description of devices by the plugin's own name for them, with options of
// the plugin; it needs no such device.
func (p *Plugin) NewTopology(name string, options map[string]any) (*Topology, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	values, err := encodeValues(options, &pinner)
	if err != nil {
		return nil, err
	}
	args := C.PJRT_TopologyDescription_Create_Args{struct_size: C.S_PJRT_TopologyDescription_Create_Args, topology_name: pinString(name, &pinner), topology_name_size: C.size_t(len(name))}
	if len(values) > 0 {
		args.create_options, args.num_options = &values[0], C.size_t(len(values))
	}
	if err := p.call(C.FN_TopologyDescription_Create, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return p.newTopology(args.topology), nil
}

// DeserializeTopology makes a Topology of what Serialize gave.
func (p *Plugin) DeserializeTopology(serialized []byte) (*Topology, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	args := C.PJRT_TopologyDescription_Deserialize_Args{struct_size: C.S_PJRT_TopologyDescription_Deserialize_Args,
		serialized_topology: pinBytes(serialized, &pinner), serialized_topology_size: C.size_t(len(serialized))}
	if err := p.call(C.FN_TopologyDescription_Deserialize, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return p.newTopology(args.topology), nil
}

// TopologyDescription describes the client's devices. The client owns it: destroying it does nothing.
func (c *Client) TopologyDescription() (*Topology, error) {
	args := C.PJRT_Client_TopologyDescription_Args{struct_size: C.S_PJRT_Client_TopologyDescription_Args, client: c.handle}
	if err := c.plugin.call(C.FN_Client_TopologyDescription, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	t := &Topology{client: c}
	hold(t, &t.object, c.plugin, unsafe.Pointer(args.topology), nil)
	return t, nil
}

// Topology gives the serialized description of all devices; Unimplemented where the plugin has none.
func (c *Client) Topology() ([]byte, error) {
	t, err := c.TopologyDescription()
	if err != nil {
		return nil, err
	}
	return t.Serialize()
}

func (t *Topology) topology() (*C.PJRT_TopologyDescription, error) {
	h, err := t.get()
	return (*C.PJRT_TopologyDescription)(h), err
}

// PlatformName is the name of the platform, for example "cpu".
func (t *Topology) PlatformName() (string, error) {
	h, err := t.topology()
	if err != nil {
		return "", err
	}
	defer runtime.KeepAlive(t)
	args := C.PJRT_TopologyDescription_PlatformName_Args{struct_size: C.S_PJRT_TopologyDescription_PlatformName_Args, topology: h}
	if err := t.plugin.call(C.FN_TopologyDescription_PlatformName, unsafe.Pointer(&args)); err != nil {
		return "", err
	}
	return goString(args.platform_name, args.platform_name_size), nil
}

// PlatformVersion is the plugin's text about the versions below it.
func (t *Topology) PlatformVersion() (string, error) {
	h, err := t.topology()
	if err != nil {
		return "", err
	}
	defer runtime.KeepAlive(t)
	args := C.PJRT_TopologyDescription_PlatformVersion_Args{struct_size: C.S_PJRT_TopologyDescription_PlatformVersion_Args, topology: h}
	if err := t.plugin.call(C.FN_TopologyDescription_PlatformVersion, unsafe.Pointer(&args)); err != nil {
		return "", err
	}
	return goString(args.platform_version, args.platform_version_size), nil
}

// Devices describes the devices, in the plugin's order. They are valid as long as the topology.
func (t *Topology) Devices() ([]*DeviceDescription, error) {
	h, err := t.topology()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(t)
	args := C.PJRT_TopologyDescription_GetDeviceDescriptions_Args{struct_size: C.S_PJRT_TopologyDescription_GetDeviceDescriptions_Args, topology: h}
	if err := t.plugin.call(C.FN_TopologyDescription_GetDeviceDescriptions, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	var list []*DeviceDescription
	for _, d := range unsafe.Slice(args.descriptions, int(args.num_descriptions)) {
		list = append(list, &DeviceDescription{plugin: t.plugin, handle: d, owner: t})
	}
	return list, nil
}

// Serialize gives the description in the plugin's own form.
func (t *Topology) Serialize() ([]byte, error) {
	h, err := t.topology()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(t)
	args := C.PJRT_TopologyDescription_Serialize_Args{struct_size: C.S_PJRT_TopologyDescription_Serialize_Args, topology: h}
	if err := t.plugin.call(C.FN_TopologyDescription_Serialize, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	bytes := copyBytes(args.serialized_bytes, args.serialized_bytes_size)
	C.xg_delete(unsafe.Pointer(args.serialized_topology_deleter), unsafe.Pointer(args.serialized_topology))
	return bytes, nil
}

// Attributes are the properties of the whole: string, int64, []int64, float32 or bool.
func (t *Topology) Attributes() (map[string]any, error) {
	h, err := t.topology()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(t)
	args := C.PJRT_TopologyDescription_Attributes_Args{struct_size: C.S_PJRT_TopologyDescription_Attributes_Args, topology: h}
	if err := t.plugin.call(C.FN_TopologyDescription_Attributes, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return namedValues(args.attributes, args.num_attributes), nil
}

// Fingerprint is the same for topologies that programs cannot tell apart.
func (t *Topology) Fingerprint() (uint64, error) {
	h, err := t.topology()
	if err != nil {
		return 0, err
	}
	args := C.PJRT_TopologyDescription_Fingerprint_Args{struct_size: C.S_PJRT_TopologyDescription_Fingerprint_Args, topology: h}
	err = t.plugin.call(C.FN_TopologyDescription_Fingerprint, unsafe.Pointer(&args))
	runtime.KeepAlive(t)
	return uint64(args.fingerprint), err
}

// MemoryKindIDs are the plugin's numbers for the sorts of memory of the devices.
func (t *Topology) MemoryKindIDs() ([]int, error) {
	h, err := t.topology()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(t)
	args := C.PJRT_TopologyDescription_GetMemorySpaceKindIds_Args{struct_size: C.S_PJRT_TopologyDescription_GetMemorySpaceKindIds_Args, topology: h}
	if err := t.plugin.call(C.FN_TopologyDescription_GetMemorySpaceKindIds, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	ids := make([]int, int(args.num_memory_space_kind_ids))
	for i := range ids {
		ids[i] = int(unsafe.Slice(args.memory_space_kind_ids, len(ids))[i])
	}
	return ids, nil
}

// CanonicalShape gives a serialized ShapeProto with the layout that a sort of memory gives to a shape.
func (t *Topology) CanonicalShape(memoryKindID int, s shape.Shape) ([]byte, error) {
	h, err := t.topology()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(t)
	var pinner runtime.Pinner
	defer pinner.Unpin()
	args := C.PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args{struct_size: C.S_PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args, topology: h,
		memory_space_kind_id: C.int(memoryKindID), dims: pinInts(s.Dims, &pinner), num_dims: C.size_t(len(s.Dims)), element_type: C.int(s.Dtype.PJRT())}
	if err := t.plugin.call(C.FN_TopologyDescription_MakeCanonicalShapeForMemorySpace, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	bytes := copyBytes(args.serialized_shape, args.serialized_shape_size)
	C.xg_delete(unsafe.Pointer(args.serialized_shape_deleter), unsafe.Pointer(args.serialized_shape))
	return bytes, nil
}

// Compile compiles a program for the devices without loading it, without needing them where client
// is nil. Formats and options as in Client.Compile. BLOCKING: compiler time.
func (t *Topology) Compile(program []byte, format string, options []byte, client *Client) (*Program, error) {
	h, err := t.topology()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(t)
	var pinner runtime.Pinner
	defer pinner.Unpin()
	p, err := pinProgram("Compile()", program, format, &pinner)
	if err != nil {
		return nil, err
	}
	options = compileOptions(options)
	args := C.PJRT_Compile_Args{struct_size: C.S_PJRT_Compile_Args, topology: h, program: p, compile_options: pinBytes(options, &pinner), compile_options_size: C.size_t(len(options))}
	if client != nil {
		args.client = client.handle
	}
	if err := t.plugin.call(C.FN_Compile, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	return t.plugin.newProgram(args.executable), nil
}
