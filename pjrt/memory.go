package pjrt

// #include "calls.h"
import "C"

import "unsafe"

// Memory is a memory that devices of a client can use, for example a GPU's own or pinned host memory.
type Memory struct {
	client *Client
	handle *C.PJRT_Memory
	id     int
	kind   string
}

// ID is unique among the memories of a client, -1 where the plugin does not say.
func (m *Memory) ID() int { return m.id }

// Kind names the sort of memory, for example "device", "pinned_host" or "unpinned_host".
func (m *Memory) Kind() string { return m.kind }

// IsHost says whether the CPU can read the memory by address.
func (m *Memory) IsHost() bool { return m.kind == "pinned_host" || m.kind == "unpinned_host" }

// memory gives the object for a handle, one per handle. Called only while the client is made.
func (c *Client) memory(handle *C.PJRT_Memory) *Memory {
	for _, m := range c.memories {
		if m.handle == handle {
			return m
		}
	}
	m := &Memory{client: c, handle: handle, id: -1}
	id := C.PJRT_Memory_Id_Args{struct_size: C.S_PJRT_Memory_Id_Args, memory: handle}
	if err := c.plugin.call(C.FN_Memory_Id, unsafe.Pointer(&id)); err == nil {
		m.id = int(id.id)
	}
	kind := C.PJRT_Memory_Kind_Args{struct_size: C.S_PJRT_Memory_Kind_Args, memory: handle}
	if err := c.plugin.call(C.FN_Memory_Kind, unsafe.Pointer(&kind)); err == nil {
		m.kind = goString(kind.kind, kind.kind_size)
	}
	c.memories = append(c.memories, m)
	return m
}
