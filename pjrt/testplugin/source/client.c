// The plugin, its clients, devices, memories and topologies.
#include "testplugin.h"

void reset_table(void);
void end_places(PJRT_Client *client);

#define TEXT(field, value) (a->field = (value), a->field##_size = strlen(a->field))

ENTRY(Plugin_Initialize) { (void)a; return NULL; }
ENTRY(Plugin_Attributes) {
  static PJRT_NamedValue attributes[5];
  static const int64_t list[] = {1, 2, 3};
  static const char *const names[] = {"text", "number", "numbers", "fraction", "flag"};
  for (int i = 0; i < 5; i++) {
    attributes[i] = (PJRT_NamedValue){.struct_size = sizeof(attributes[i]), .name = names[i], .name_size = strlen(names[i]), .type = i, .value_size = 1};
  }
  attributes[0].string_value = "a text";
  attributes[0].value_size = 6;
  attributes[1].int64_value = 7;
  attributes[2].int64_array_value = list;
  attributes[2].value_size = 3;
  attributes[3].float_value = 0.5f;
  attributes[4].bool_value = true;
  a->attributes = attributes;
  a->num_attributes = 5;
  return NULL;
}

static void describe(struct PJRT_DeviceDescription *d, int id) {
  d->id = id;
  snprintf(d->text, sizeof(d->text), "TestDevice(%d)", id);
  snprintf(d->debug_text, sizeof(d->debug_text), "TestDevice(id=%d, process=0)", id);
  d->attribute = (PJRT_NamedValue){.struct_size = sizeof(d->attribute), .name = "row", .name_size = 3, .type = VALUE_INT64, .value_size = 1};
  d->attribute.int64_value = id;
}

static struct PJRT_TopologyDescription *new_topology(size_t n) {
  struct PJRT_TopologyDescription *t = make(LIVE_OTHERS, sizeof(*t));
  t->num_devices = n;
  t->descriptions = calloc(n, sizeof(t->descriptions[0]));
  t->list = calloc(n, sizeof(t->list[0]));
  for (size_t i = 0; i < n; i++) describe(t->list[i] = &t->descriptions[i], (int)i);
  return t;
}

static void free_topology(struct PJRT_TopologyDescription *t) {
  free(t->descriptions);
  free(t->list);
  unmake(LIVE_OTHERS, t);
}

ENTRY(Client_Create) {
  reset_options();
  reset_table();
  read_environment();
  for (size_t i = 0; i < a->num_options; i++) {
    const PJRT_NamedValue *v = &a->create_options[i];
    int64_t number = v->type == VALUE_INT64 ? v->int64_value : v->type == VALUE_BOOL ? v->bool_value : 0;
    if (!set_option(v->name, v->name_size, number, v->type == VALUE_STRING ? v->string_value : NULL, v->value_size))
      return fail(3, "an option that the test plugin does not have: %.*s", (int)v->name_size, v->name);
  }
  if (options.devices < 1 || options.devices > MAX_DEVICES) return fail(3, "%d devices", (int)options.devices);
  take_time(FN_Client_Create);
  if (options.fail[FN_Client_Create] != 0) return asked((int)options.fail[FN_Client_Create]);
  if (options.ranks > 0) {
    PJRT_Error *error = exchange(a);
    if (error != NULL) return error;
  }
  PJRT_Client *c = make(LIVE_OTHERS, sizeof(*c));
  c->num_devices = (size_t)options.devices;
  c->devices = calloc(c->num_devices, sizeof(c->devices[0]));
  c->list = calloc(c->num_devices, sizeof(c->list[0]));
  c->memories = calloc(c->num_devices, sizeof(c->memories[0]));
  for (size_t i = 0; i < c->num_devices; i++) {
    struct PJRT_Device *d = c->list[i] = &c->devices[i];
    d->client = c;
    describe(&d->description, (int)i);
    d->memory = (struct PJRT_Memory){.client = c, .device = d, .id = (int)i};
    snprintf(d->memory.text, sizeof(d->memory.text), "TestMemory(%zu)", i);
    c->memories[i] = &d->memory;
  }
  c->topology = new_topology(c->num_devices);
  start_worker(c);
  a->client = c;
  return NULL;
}
ENTRY(Client_Destroy) {
  PJRT_Client *c = a->client;
  end_places(c);
  stop_worker(c);
  free_topology(c->topology);
  free(c->list);
  free(c->memories);
  free(c->devices);
  unmake(LIVE_OTHERS, c);
  return NULL;
}
ENTRY(Client_PlatformName) { TEXT(platform_name, "testplugin"); return NULL; }
ENTRY(Client_PlatformVersion) { TEXT(platform_version, options.ranks > 0 ? found_by_exchange() : "1"); return NULL; }
ENTRY(Client_ProcessIndex) { a->process_index = 0; return NULL; }
ENTRY(Client_Devices) { a->devices = a->client->list; a->num_devices = a->client->num_devices; return NULL; }
ENTRY(Client_AddressableDevices) {
  a->addressable_devices = a->client->list;
  a->num_addressable_devices = a->client->num_devices;
  return NULL;
}
ENTRY(Client_AddressableMemories) {
  a->addressable_memories = a->client->memories;
  a->num_addressable_memories = a->client->num_devices;
  return NULL;
}
ENTRY(Client_LookupDevice) {
  if (a->id < 0 || (size_t)a->id >= a->client->num_devices) return fail(3, "no device has the id %d", a->id);
  a->device = a->client->list[a->id];
  return NULL;
}
ENTRY(Client_LookupAddressableDevice) {
  if (a->local_hardware_id < 0 || (size_t)a->local_hardware_id >= a->client->num_devices)
    return fail(3, "no device has the local hardware id %d", a->local_hardware_id);
  a->addressable_device = a->client->list[a->local_hardware_id];
  return NULL;
}
ENTRY(Client_DefaultDeviceAssignment) {
  size_t n = (size_t)a->num_replicas * (size_t)a->num_partitions;
  if (n > a->client->num_devices || n > a->default_assignment_size) return fail(3, "%zu devices are too many", n);
  for (size_t i = 0; i < n; i++) a->default_assignment[i] = (int)i;
  return NULL;
}
ENTRY(Client_UpdateGlobalProcessInfo) {
  for (size_t i = 0; i < a->num_process_infos; i++)
    if (a->process_infos[i].struct_size < sizeof(PJRT_ProcessInfo)) return fail(3, "a short process info");
  return NULL;
}
ENTRY(Client_TopologyDescription) { a->topology = a->client->topology; return NULL; }
ENTRY(Client_DmaMap) { return a->data != NULL && a->size > 0 ? NULL : fail(3, "no memory to map"); }
ENTRY(Client_DmaUnmap) { return a->data != NULL ? NULL : fail(3, "no memory to unmap"); }

// ---- devices ----

ENTRY(DeviceDescription_Id) { a->id = a->device_description->id; return NULL; }
ENTRY(DeviceDescription_ProcessIndex) { a->process_index = 0; return NULL; }
ENTRY(DeviceDescription_Attributes) {
  a->attributes = &a->device_description->attribute;
  a->num_attributes = 1;
  return NULL;
}
ENTRY(DeviceDescription_Kind) { TEXT(device_kind, "test"); return NULL; }
ENTRY(DeviceDescription_DebugString) { TEXT(debug_string, a->device_description->debug_text); return NULL; }
ENTRY(DeviceDescription_ToString) { TEXT(to_string, a->device_description->text); return NULL; }
ENTRY(Device_GetDescription) { a->device_description = &a->device->description; return NULL; }
ENTRY(Device_IsAddressable) { a->is_addressable = true; return NULL; }
ENTRY(Device_LocalHardwareId) { a->local_hardware_id = a->device->description.id; return NULL; }
ENTRY(Device_AddressableMemories) {
  a->memories = &a->device->client->memories[a->device->description.id];
  a->num_memories = 1;
  return NULL;
}
ENTRY(Device_DefaultMemory) { a->memory = &a->device->memory; return NULL; }
ENTRY(Device_MemoryStats) {
  PJRT_Client *c = a->device->client;
  a->bytes_in_use = __atomic_load_n(&c->bytes_in_use, __ATOMIC_RELAXED);
  a->peak_bytes_in_use = __atomic_load_n(&c->peak_bytes, __ATOMIC_RELAXED);
  a->peak_bytes_in_use_is_set = true;
  a->num_allocs = __atomic_load_n(&c->num_allocs, __ATOMIC_RELAXED);
  a->num_allocs_is_set = true;
  a->bytes_limit = options.memory_limit;
  a->bytes_limit_is_set = options.memory_limit != 0;
  return NULL;
}
ENTRY(Device_ClearMemoryStats) {
  PJRT_Client *c = a->device->client;
  __atomic_store_n(&c->peak_bytes, __atomic_load_n(&c->bytes_in_use, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
  return NULL;
}

// How many objects of each sort are alive.
struct PJRT_Device_Attributes { PJRT_NamedValue values[LIVE_SORTS]; };
static void free_attributes(PJRT_Device_Attributes *attributes) { free(attributes); }
ENTRY(Device_GetAttributes) {
  static const char *const names[LIVE_SORTS] = {"live_errors", "live_events", "live_buffers", "live_executables", "live_others"};
  PJRT_Device_Attributes *all = calloc(1, sizeof(*all));
  for (int i = 0; i < LIVE_SORTS; i++) {
    all->values[i] = (PJRT_NamedValue){.struct_size = sizeof(PJRT_NamedValue), .name = names[i], .name_size = strlen(names[i]), .type = VALUE_INT64, .value_size = 1};
    all->values[i].int64_value = __atomic_load_n(&live[i], __ATOMIC_RELAXED);
  }
  a->attributes = all->values;
  a->num_attributes = LIVE_SORTS;
  a->device_attributes = all;
  a->attributes_deleter = free_attributes;
  return NULL;
}
ENTRY(Device_PoisonExecution) { a->poisoned = a->launch_id == 7; return NULL; }
struct PJRT_AsyncTrackingEvent { int id; };
ENTRY(Device_CreateAsyncTrackingEvent) { a->event = make(LIVE_OTHERS, sizeof(*a->event)); return NULL; }
ENTRY(AsyncTrackingEvent_Destroy) { unmake(LIVE_OTHERS, a->event); return NULL; }

// ---- memories ----

ENTRY(Memory_Id) { a->id = a->memory->id; return NULL; }
ENTRY(Memory_Kind) { TEXT(kind, "device"); return NULL; }
ENTRY(Memory_Kind_Id) { a->kind_id = 3; return NULL; }
ENTRY(Memory_DebugString) { TEXT(debug_string, a->memory->text); return NULL; }
ENTRY(Memory_ToString) { TEXT(to_string, a->memory->text); return NULL; }
ENTRY(Memory_AddressableByDevices) {
  a->devices = &a->memory->client->list[a->memory->id];
  a->num_devices = 1;
  return NULL;
}

// ---- topologies ----

ENTRY(TopologyDescription_Create) {
  size_t n = 1;
  for (size_t i = 0; i < a->num_options; i++) n = (size_t)a->create_options[i].int64_value;
  if (n < 1 || n > MAX_DEVICES) return fail(3, "%zu devices", n);
  a->topology = new_topology(n);
  return NULL;
}
ENTRY(TopologyDescription_Destroy) { free_topology(a->topology); return NULL; }
ENTRY(TopologyDescription_PlatformName) { TEXT(platform_name, "testplugin"); return NULL; }
ENTRY(TopologyDescription_PlatformVersion) { TEXT(platform_version, "1"); return NULL; }
ENTRY(TopologyDescription_GetDeviceDescriptions) {
  a->descriptions = a->topology->list;
  a->num_descriptions = a->topology->num_devices;
  return NULL;
}
struct PJRT_SerializedTopology { char bytes[8]; };
static void free_serialized_topology(PJRT_SerializedTopology *s) { unmake(LIVE_OTHERS, s); }
ENTRY(TopologyDescription_Serialize) {
  PJRT_SerializedTopology *s = make(LIVE_OTHERS, sizeof(*s));
  a->serialized_bytes_size = (size_t)snprintf(s->bytes, sizeof(s->bytes), "T%zu", a->topology->num_devices);
  a->serialized_bytes = s->bytes;
  a->serialized_topology = s;
  a->serialized_topology_deleter = free_serialized_topology;
  return NULL;
}
ENTRY(TopologyDescription_Deserialize) {
  if (a->serialized_topology_size < 2 || a->serialized_topology[0] != 'T') return fail(3, "not a topology");
  size_t n = 0;
  for (size_t i = 1; i < a->serialized_topology_size; i++) n = n * 10 + (size_t)(a->serialized_topology[i] - '0');
  if (n < 1 || n > MAX_DEVICES) return fail(3, "%zu devices", n);
  a->topology = new_topology(n);
  return NULL;
}
ENTRY(TopologyDescription_Attributes) {
  a->attributes = &a->topology->descriptions[0].attribute;
  a->num_attributes = 1;
  return NULL;
}
ENTRY(TopologyDescription_Fingerprint) { a->fingerprint = 1000 + a->topology->num_devices; return NULL; }
ENTRY(TopologyDescription_GetMemorySpaceKindIds) {
  static const int ids[] = {3};
  a->memory_space_kind_ids = ids;
  a->num_memory_space_kind_ids = 1;
  return NULL;
}
static void free_shape(const char *shape) { unmake(LIVE_OTHERS, (void *)shape); }
ENTRY(TopologyDescription_MakeCanonicalShapeForMemorySpace) {
  char *shape = make(LIVE_OTHERS, 4);
  memcpy(shape, "\x10\x0b\x1a", 3);  // the beginning of a ShapeProto: f32, dimensions
  a->serialized_shape = shape;
  a->serialized_shape_size = 3;
  a->serialized_shape_deleter = free_shape;
  return NULL;
}
