// Executables: compiling, loading, what they tell, and runs.
#include "testplugin.h"

PJRT_Error *Event_Destroy(PJRT_Event_Destroy_Args *a);
#define TEXT(field, value) (a->field = (value), a->field##_size = strlen(a->field))

struct PJRT_Executable {
  int holders;
  program *program;
  int replicas, partitions;
  char *compile_options;
  size_t compile_options_size;
  char fingerprint[24];
  int types[MAX_PARAMETERS];
  int64_t dims[MAX_PARAMETERS * MAX_RANK];
  size_t ranks[MAX_PARAMETERS], kind_sizes[MAX_PARAMETERS];
  const char *kinds[MAX_PARAMETERS];
  PJRT_NamedValue cost;
};
struct PJRT_LoadedExecutable {
  PJRT_Client *client;
  struct PJRT_Executable *executable;
  PJRT_Device *devices[MAX_DEVICES];
  PJRT_LogicalDeviceIds ids[MAX_DEVICES];
  size_t num_devices;
  bool deleted;
};
struct PJRT_ExecuteContext { int id; };

// Reads replicas, partitions and device ids of a CompileOptionsProto.
static void read_options(const char *proto, size_t length, int *replicas, int *partitions, int64_t *devices) {
  const unsigned char *p = (const unsigned char *)proto, *end = p + length, *bytes;
  uint64_t number, value, size;
  while ((p = proto_field(p, end, &number, &value, &bytes, &size)) != NULL) {
    if (number != 3 || bytes == NULL) continue;  // executable_build_options
    const unsigned char *q = bytes, *last = bytes + size;
    while ((q = proto_field(q, last, &number, &value, &bytes, &size)) != NULL) {
      if (number == 4) *replicas = (int)value;
      if (number == 5) *partitions = (int)value;
      if (number != 9 || bytes == NULL) continue;  // device_assignment
      const unsigned char *r = bytes, *stop = bytes + size;
      for (size_t n = 0; (r = proto_field(r, stop, &number, &value, &bytes, &size)) != NULL;) {
        if (number != 3 || bytes == NULL) continue;
        const unsigned char *s = bytes, *halt = bytes + size;
        while ((s = proto_field(s, halt, &number, &value, &bytes, &size)) != NULL) {
          if (number != 1) continue;
          if (bytes == NULL && n < MAX_DEVICES) devices[n++] = (int64_t)value;
          for (uint64_t i = 0; bytes != NULL && i < size && n < MAX_DEVICES; i++) devices[n++] = bytes[i];  // ids below 128
        }
      }
    }
  }
}

// Refuses what a CompileOptionsProto asks for beyond that.
static PJRT_Error *check_options(const char *proto, size_t length) {
  const unsigned char *p = (const unsigned char *)proto, *end = p + length, *bytes;
  uint64_t number, value, size;
  while ((p = proto_field(p, end, &number, &value, &bytes, &size)) != NULL) {
    if (bytes == NULL || (number != 3 && number != 7)) continue;
    const bool build_options = number == 3;  // else an entry of env_option_overrides
    const unsigned char *q = bytes, *last = bytes + size;
    while ((q = proto_field(q, last, &number, &value, &bytes, &size)) != NULL) {
      if (!build_options && number == 1 && (size < 4 || memcmp(bytes, "xla_", 4) != 0)) return fail(3, "no compile option is called %.*s", (int)size, bytes);
    }
  }
  return NULL;
}

static struct PJRT_Executable *new_executable(const char *module, size_t size, const char *compile_options, size_t options_size, PJRT_Error **error) {
  if ((*error = check_options(compile_options, options_size)) != NULL) return NULL;
  program *p = parse_program(module, size, error);
  if (p == NULL) return NULL;
  int64_t devices[MAX_DEVICES];
  int replicas = 1, partitions = 1;
  read_options(compile_options, options_size, &replicas, &partitions, devices);
  if (partitions > 1 && p->divided) {
    *error = fail(12, "the test plugin partitions programs by replicating all, and takes no value that is divided");
    drop_program(p);
    return NULL;
  }
  struct PJRT_Executable *e = make(LIVE_EXECUTABLES, sizeof(*e));
  e->holders = 1;
  e->program = p;
  e->replicas = replicas < 1 ? 1 : replicas;
  e->partitions = partitions < 1 ? 1 : partitions;
  e->compile_options = malloc(options_size + 1);
  if (options_size > 0) memcpy(e->compile_options, compile_options, options_size);
  e->compile_options_size = options_size;
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)module[i]) * 1099511628211u;
  snprintf(e->fingerprint, sizeof(e->fingerprint), "%016llx", (unsigned long long)hash);
  for (size_t i = 0, k = 0; i < p->num_outputs; i++) {
    e->types[i] = p->outputs[i].type;
    e->ranks[i] = p->outputs[i].num_dims;
    for (size_t d = 0; d < p->outputs[i].num_dims; d++) e->dims[k++] = p->outputs[i].dims[d];
  }
  for (int i = 0; i < MAX_PARAMETERS; i++) {
    e->kinds[i] = "device";
    e->kind_sizes[i] = 6;
  }
  e->cost = (PJRT_NamedValue){.struct_size = sizeof(e->cost), .name = "flops", .name_size = 5, .type = VALUE_FLOAT, .value_size = 1};
  e->cost.float_value = (float)p->num_instructions;
  return e;
}

static void drop_executable(struct PJRT_Executable *e) {
  if (__atomic_sub_fetch(&e->holders, 1, __ATOMIC_ACQ_REL) != 0) return;
  drop_program(e->program);
  free(e->compile_options);
  unmake(LIVE_EXECUTABLES, e);
}

// Takes over e.
static PJRT_Error *load(PJRT_Client *client, struct PJRT_Executable *e, PJRT_LoadedExecutable **loaded) {
  size_t n = (size_t)e->replicas * (size_t)e->partitions;
  int64_t ids[MAX_DEVICES];
  for (int i = 0; i < MAX_DEVICES; i++) ids[i] = i;
  int ignored;
  read_options(e->compile_options, e->compile_options_size, &ignored, &ignored, ids);
  PJRT_LoadedExecutable *l = make(LIVE_EXECUTABLES, sizeof(*l));
  l->client = client;
  l->executable = e;
  l->num_devices = n;
  for (size_t i = 0; i < n; i++) {
    if (n > MAX_DEVICES || ids[i] < 0 || (size_t)ids[i] >= client->num_devices) {
      drop_executable(e);
      unmake(LIVE_EXECUTABLES, l);
      return fail(3, "a program for devices that are not there");
    }
    l->devices[i] = client->list[ids[i]];
    l->ids[i] = (PJRT_LogicalDeviceIds){(int)i / e->partitions, (int)i % e->partitions};
  }
  *loaded = l;
  return NULL;
}

static bool is_hlo(const PJRT_Program *p) { return p->format_size == 3 && memcmp(p->format, "hlo", 3) == 0; }

ENTRY(Client_Compile) {
  if (!is_hlo(a->program)) return fail(12, "the test plugin takes hlo only");
  PJRT_Error *error = NULL;
  struct PJRT_Executable *e = new_executable(a->program->code, a->program->code_size, a->compile_options, a->compile_options_size, &error);
  return e == NULL ? error : load(a->client, e, &a->executable);
}
ENTRY(Compile) {
  if (!is_hlo(a->program)) return fail(12, "the test plugin takes hlo only");
  PJRT_Error *error = NULL;
  a->executable = new_executable(a->program->code, a->program->code_size, a->compile_options, a->compile_options_size, &error);
  return error;
}
ENTRY(Client_Load) {
  __atomic_add_fetch(&a->executable->holders, 1, __ATOMIC_ACQ_REL);
  return load(a->client, a->executable, &a->loaded_executable);
}

// The serialized form: sizes of options and module, then both.
struct PJRT_SerializedExecutable { char bytes[1]; };
static void free_serialized(PJRT_SerializedExecutable *s) { unmake(LIVE_OTHERS, s); }
ENTRY(Executable_Serialize) {
  const struct PJRT_Executable *e = a->executable;
  size_t sizes[2] = {e->compile_options_size, e->program->module_size};
  a->serialized_bytes_size = sizeof(sizes) + sizes[0] + sizes[1];
  a->serialized_executable = make(LIVE_OTHERS, a->serialized_bytes_size);
  char *bytes = a->serialized_executable->bytes;
  memcpy(bytes, sizes, sizeof(sizes));
  memcpy(bytes + sizeof(sizes), e->compile_options, sizes[0]);
  memcpy(bytes + sizeof(sizes) + sizes[0], e->program->module, sizes[1]);
  a->serialized_bytes = bytes;
  a->serialized_executable_deleter = free_serialized;
  return NULL;
}
ENTRY(Executable_DeserializeAndLoad) {
  size_t sizes[2];
  if (a->serialized_executable_size < sizeof(sizes)) return fail(3, "not a serialized executable");
  memcpy(sizes, a->serialized_executable, sizeof(sizes));
  if (sizes[0] > a->serialized_executable_size || sizes[1] > a->serialized_executable_size || sizeof(sizes) + sizes[0] + sizes[1] != a->serialized_executable_size)
    return fail(3, "not a serialized executable");
  const char *compile_options = a->serialized_executable + sizeof(sizes);
  PJRT_Error *error = NULL;
  bool override = a->overridden_serialized_compile_options_size > 0;
  struct PJRT_Executable *e = new_executable(compile_options + sizes[0], sizes[1], override ? a->overridden_serialized_compile_options : compile_options,
                                             override ? a->overridden_serialized_compile_options_size : sizes[0], &error);
  return e == NULL ? error : load(a->client, e, &a->loaded_executable);
}

ENTRY(Executable_Destroy) { drop_executable(a->executable); return NULL; }
ENTRY(Executable_Name) { TEXT(executable_name, a->executable->program->name); return NULL; }
ENTRY(Executable_NumReplicas) { a->num_replicas = (size_t)a->executable->replicas; return NULL; }
ENTRY(Executable_NumPartitions) { a->num_partitions = (size_t)a->executable->partitions; return NULL; }
ENTRY(Executable_NumOutputs) { a->num_outputs = a->executable->program->num_outputs; return NULL; }
ENTRY(Executable_SizeOfGeneratedCodeInBytes) { a->size_in_bytes = (int64_t)a->executable->program->module_size; return NULL; }
ENTRY(Executable_GetCostAnalysis) { a->properties = &a->executable->cost; a->num_properties = 1; return NULL; }
ENTRY(Executable_OutputMemoryKinds) {
  a->num_outputs = a->executable->program->num_outputs;
  a->memory_kinds = a->executable->kinds;
  a->memory_kind_sizes = a->executable->kind_sizes;
  return NULL;
}
ENTRY(Executable_ParameterMemoryKinds) {
  a->num_parameters = a->executable->program->num_parameters;
  a->memory_kinds = a->executable->kinds;
  a->memory_kind_sizes = a->executable->kind_sizes;
  return NULL;
}
ENTRY(Executable_OptimizedProgram) {
  const program *p = a->executable->program;
  a->program->format = "hlo";
  a->program->format_size = 3;
  // A partitioned module says how its result lies (spmd_output_sharding): an empty OpSharding is replicated.
  const char replicated[] = {12 << 3 | 2, 0};
  const size_t more = a->executable->partitions > 1 ? sizeof(replicated) : 0;
  if (a->program->code != NULL) {
    memcpy(a->program->code, p->module, p->module_size);
    memcpy(a->program->code + p->module_size, replicated, more);
  }
  a->program->code_size = p->module_size + more;
  return NULL;
}
ENTRY(Executable_OutputElementTypes) {
  a->output_types = a->executable->types;
  a->num_output_types = a->executable->program->num_outputs;
  return NULL;
}
ENTRY(Executable_OutputDimensions) {
  a->num_outputs = a->executable->program->num_outputs;
  a->dims = a->executable->dims;
  a->dim_sizes = a->executable->ranks;
  return NULL;
}
ENTRY(Executable_Fingerprint) { TEXT(executable_fingerprint, a->executable->fingerprint); return NULL; }
ENTRY(Executable_GetCompiledMemoryStats) {
  const program *p = a->executable->program;
  a->generated_code_size_in_bytes = (int64_t)p->module_size;
  for (size_t i = 0; i < p->num_parameters; i++) a->argument_size_in_bytes += (int64_t)p->parameters[i].size;
  for (size_t i = 0; i < p->num_outputs; i++) a->output_size_in_bytes += (int64_t)p->outputs[i].size;
  a->total_size_in_bytes = a->argument_size_in_bytes + a->output_size_in_bytes;
  return NULL;
}
struct PJRT_SerializedCompileOptions { char bytes[1]; };
static void free_compile_options(PJRT_SerializedCompileOptions *s) { unmake(LIVE_OTHERS, s); }
ENTRY(Executable_GetCompileOptions) {
  a->serialized_bytes_size = a->executable->compile_options_size;
  a->serialized_compile_options = make(LIVE_OTHERS, a->serialized_bytes_size + 1);
  memcpy(a->serialized_compile_options->bytes, a->executable->compile_options, a->serialized_bytes_size);
  a->serialized_bytes = a->serialized_compile_options->bytes;
  a->serialized_compile_options_deleter = free_compile_options;
  return NULL;
}

// ---- loaded ----

ENTRY(LoadedExecutable_Destroy) {
  drop_executable(a->executable->executable);
  unmake(LIVE_EXECUTABLES, a->executable);
  return NULL;
}
ENTRY(LoadedExecutable_GetExecutable) {
  a->executable = a->loaded_executable->executable;
  __atomic_add_fetch(&a->executable->holders, 1, __ATOMIC_ACQ_REL);
  return NULL;
}
ENTRY(LoadedExecutable_AddressableDevices) {
  a->addressable_devices = a->executable->devices;
  a->num_addressable_devices = a->executable->num_devices;
  return NULL;
}
ENTRY(LoadedExecutable_AddressableDeviceLogicalIds) {
  a->addressable_device_logical_ids = a->executable->ids;
  a->num_addressable_device_logical_ids = a->executable->num_devices;
  return NULL;
}
ENTRY(LoadedExecutable_Delete) { a->executable->deleted = true; return NULL; }
ENTRY(LoadedExecutable_IsDeleted) { a->is_deleted = a->executable->deleted; return NULL; }
ENTRY(LoadedExecutable_Fingerprint) { TEXT(executable_fingerprint, a->executable->executable->fingerprint); return NULL; }
struct PJRT_DeviceAssignmentSerialized { unsigned char bytes[4 + MAX_DEVICES * 5]; };
static void free_assignment(PJRT_DeviceAssignmentSerialized *s) { unmake(LIVE_OTHERS, s); }
ENTRY(LoadedExecutable_GetDeviceAssignment) {
  // replica_count, computation_count, and for each computation the devices of its replicas.
  struct PJRT_Executable *e = a->executable->executable;
  PJRT_DeviceAssignmentSerialized *s = make(LIVE_OTHERS, sizeof(*s));
  size_t n = 0;
  s->bytes[n++] = 1 << 3;
  s->bytes[n++] = (unsigned char)e->replicas;
  s->bytes[n++] = 2 << 3;
  s->bytes[n++] = (unsigned char)e->partitions;
  for (int c = 0; c < e->partitions; c++) {
    s->bytes[n++] = 3 << 3 | 2;
    s->bytes[n++] = (unsigned char)(2 + e->replicas);
    s->bytes[n++] = 1 << 3 | 2;
    s->bytes[n++] = (unsigned char)e->replicas;
    for (int r = 0; r < e->replicas; r++) s->bytes[n++] = (unsigned char)a->executable->devices[r * e->partitions + c]->description.id;
  }
  a->serialized_bytes = (const char *)s->bytes;
  a->serialized_bytes_size = n;
  a->serialized_device_assignment = s;
  a->serialized_device_assignment_deleter = free_assignment;
  return NULL;
}
ENTRY(ExecuteContext_Create) { a->context = make(LIVE_OTHERS, sizeof(*a->context)); return NULL; }
ENTRY(ExecuteContext_Destroy) { unmake(LIVE_OTHERS, a->context); return NULL; }

// ---- runs ----

typedef struct {
  program *program;
  storage *arguments[MAX_PARAMETERS], *outputs[MAX_PARAMETERS], *received[MAX_PARAMETERS];
  size_t num_received, num_sent;
  PJRT_SendCallbackInfo sends[MAX_PARAMETERS];
  size_t sent_sizes[MAX_PARAMETERS];
} run;

static int do_run(void *argument) {
  run *r = argument;
  const char *arguments[MAX_PARAMETERS], *received[MAX_PARAMETERS];
  char *outputs[MAX_PARAMETERS], *sent[MAX_PARAMETERS];
  for (size_t i = 0; i < r->program->num_parameters; i++) arguments[i] = r->arguments[i]->bytes;
  for (size_t i = 0; i < r->program->num_outputs; i++) outputs[i] = r->outputs[i]->bytes;
  for (size_t i = 0; i < r->num_received; i++) received[i] = r->received[i]->bytes;
  for (size_t i = 0; i < r->num_sent; i++) sent[i] = malloc(r->sent_sizes[i] + 1);
  run_program(r->program, arguments, received, sent, outputs);
  int code = 0;
  for (size_t i = 0; i < r->num_sent; i++) {
    if (code == 0) code = send_to_host(&r->sends[i], sent[i], r->sent_sizes[i]);
    free(sent[i]);
  }
  return code;
}

static void drop_run(void *argument) {
  run *r = argument;
  for (size_t i = 0; i < r->program->num_parameters; i++) drop_storage(r->arguments[i]);
  for (size_t i = 0; i < r->program->num_outputs; i++) drop_storage(r->outputs[i]);
  for (size_t i = 0; i < r->num_received; i++) drop_storage(r->received[i]);
  drop_program(r->program);
  free(r);
}

// Finds the callbacks of a program's transfers on one device.
static PJRT_Error *find_callbacks(run *r, const PJRT_ExecuteOptions *o, size_t device, PJRT_RecvCallbackInfo *receives, host_transfer *received) {
  const PJRT_SendCallbackInfo *sends = o->num_send_ops > 0 ? (const PJRT_SendCallbackInfo *)o->send_callbacks[device] : NULL;
  const PJRT_RecvCallbackInfo *all = o->num_recv_ops > 0 ? (const PJRT_RecvCallbackInfo *)o->recv_callbacks[device] : NULL;
  host_transfer sent[MAX_PARAMETERS];
  r->num_sent = program_sends(r->program, sent);
  for (size_t i = 0; i < r->num_sent; i++) {
    r->sent_sizes[i] = sent[i].size;
    for (size_t k = 0; k < o->num_send_ops; k++)
      if (sends[k].channel_id == sent[i].channel) r->sends[i] = sends[k];
    if (r->sends[i].send_callback == NULL) return fail(3, "nobody takes what is sent on channel %lld", (long long)sent[i].channel);
  }
  size_t n = program_receives(r->program, received);
  if (n + r->program->num_parameters > MAX_PARAMETERS) return fail(12, "too many parameters and receives");
  for (size_t i = 0; i < n; i++) {
    receives[i].recv_callback = NULL;
    for (size_t k = 0; k < o->num_recv_ops; k++)
      if (all[k].channel_id == received[i].channel) receives[i] = all[k];
    if (receives[i].recv_callback == NULL) return fail(3, "nobody gives what is received on channel %lld", (long long)received[i].channel);
  }
  r->num_received = n;
  return NULL;
}

static bool is_consumed(const program *p, const PJRT_ExecuteOptions *o, size_t i) {
  for (size_t k = 0; k < o->num_non_donatable_input_indices; k++)
    if (o->non_donatable_input_indices[k] == (int64_t)i) return false;
  return p->donated[i];
}

static PJRT_Error *check_arguments(const program *p, const PJRT_ExecuteOptions *o, PJRT_Buffer *const *arguments, size_t n) {
  if (n != p->num_parameters) return fail(3, "%zu arguments for %zu parameters", n, p->num_parameters);
  for (size_t i = 0; i < n; i++) {
    if (arguments[i]->deleted || arguments[i]->storage == NULL) return fail(3, "argument %zu has been deleted or donated", i);
    if (arguments[i]->size != p->parameters[i].size) return fail(3, "argument %zu has %zu bytes, its parameter %zu", i, arguments[i]->size, p->parameters[i].size);
    for (size_t k = 0; k < n; k++)
      if (k != i && arguments[k] == arguments[i] && is_consumed(p, o, i)) return fail(3, "argument %zu is donated and is argument %zu as well", i, k);
  }
  return NULL;
}

static void finish_output(int code, void *argument) {
  finish(argument, code);
  release(argument);
}

static PJRT_Error *run_on(PJRT_LoadedExecutable *e, PJRT_Device *device, size_t position, const PJRT_ExecuteOptions *o, PJRT_Buffer *const *arguments, PJRT_Buffer **outputs, PJRT_Event **event) {
  program *p = e->executable->program;
  PJRT_Error *error = NULL;
  run *r = calloc(1, sizeof(*r));
  r->program = hold_program(p);
  PJRT_RecvCallbackInfo receives[MAX_PARAMETERS];
  host_transfer received[MAX_PARAMETERS];
  if ((error = find_callbacks(r, o, position, receives, received)) != NULL) {
    r->num_received = 0;
    drop_run(r);
    return error;
  }
  size_t num_received = r->num_received;
  for (size_t i = 0; i < num_received; i++) r->received[i] = new_bytes(e->client, received[i].size);
  job j = {.entry = FN_LoadedExecutable_Execute, .delay_ms = options.delay_ms, .code = (int)options.fail_result, .num_after = (int)p->num_parameters,
           .work = do_run, .drop = drop_run, .argument = r, .done = new_state()};
  for (size_t i = 0; i < p->num_outputs; i++) {
    outputs[i] = new_buffer(device, p->outputs[i].type, p->outputs[i].dims, p->outputs[i].num_dims, &error);
    if (outputs[i] == NULL) {
      for (size_t k = 0; k < i; k++) free_buffer(outputs[k]);
      drop_run(r);
      release(j.done);
      return error;
    }
    r->outputs[i] = hold_storage(outputs[i]->storage);
    when_done(j.done, finish_output, retain(outputs[i]->ready));
  }
  for (size_t i = 0; i < p->num_parameters; i++) {
    r->arguments[i] = hold_storage(arguments[i]->storage);
    j.after[i] = arguments[i]->ready;
    if (is_consumed(p, o, i) && arguments[i]->storage->references == 0) {
      drop_storage(arguments[i]->storage);
      arguments[i]->storage = NULL;
      arguments[i]->deleted = true;
    }
  }
  PJRT_CopyToDeviceStream *streams[MAX_PARAMETERS];
  for (size_t i = 0; i < num_received; i++) {
    state *full = j.after[j.num_after++] = new_state();
    streams[i] = new_stream(e->client, r->received[i], full);
  }
  if (event != NULL) *event = new_event(j.done);
  start(e->client, j);
  for (size_t i = 0; i < num_received; i++) {
    release(j.after[p->num_parameters + i]);
    receives[i].recv_callback(streams[i], receives[i].user_arg);
  }
  release(j.done);
  return NULL;
}

ENTRY(LoadedExecutable_Execute) {
  PJRT_LoadedExecutable *e = a->executable;
  if (options.fail_execute != 0) return asked((int)options.fail_execute);
  if (e->deleted) return fail(9, "the executable has been deleted");
  if (a->num_devices != (a->execute_device != NULL ? 1 : e->num_devices)) return fail(3, "%zu devices for a program on %zu", a->num_devices, e->num_devices);
  for (size_t d = 0; d < a->num_devices; d++) {
    PJRT_Error *error = check_arguments(e->executable->program, a->options, a->argument_lists[d], a->num_args);
    if (error != NULL) return error;
  }
  for (size_t d = 0; d < a->num_devices; d++) {
    PJRT_Error *error = run_on(e, a->execute_device != NULL ? a->execute_device : e->devices[d], d, a->options, a->argument_lists[d], a->output_lists[d],
                               a->device_complete_events != NULL ? &a->device_complete_events[d] : NULL);
    if (error == NULL) continue;
    for (size_t k = 0; k < d; k++) {  // nothing is handed out by a call that fails
      for (size_t i = 0; i < e->executable->program->num_outputs; i++) free_buffer(a->output_lists[k][i]);
      if (a->device_complete_events != NULL) Event_Destroy(&(PJRT_Event_Destroy_Args){.event = a->device_complete_events[k]});
    }
    return error;
  }
  return NULL;
}
