// The extensions.
#include "testplugin.h"

#define CODE(function) ((int)options.fail[ENTRY_OF_EXTENSION(function)])
// Takes its time and fails where the test asked for it.
#define ASKED(function) \
  take_time(ENTRY_OF_EXTENSION(function)); \
  if (CODE(function) != 0) return asked(CODE(function))

// ---- layouts ----

struct PJRT_Layouts_MemoryLayout { char text[40]; };
struct PJRT_Layouts_SerializedLayout { char text[40]; };
static PJRT_Layouts_MemoryLayout *new_layout(size_t rank) {
  PJRT_Layouts_MemoryLayout *l = make(LIVE_OTHERS, sizeof(*l));
  size_t n = (size_t)snprintf(l->text, sizeof(l->text), "{");
  for (size_t i = 0; i < rank && i < MAX_RANK; i++) n += (size_t)snprintf(l->text + n, sizeof(l->text) - n, "%s%zu", i > 0 ? "," : "", rank - 1 - i);
  snprintf(l->text + n, sizeof(l->text) - n, "}");
  return l;
}
static PJRT_Error *layout_destroy(PJRT_Layouts_MemoryLayout_Destroy_Args *a) {
  unmake(LIVE_OTHERS, a->layout);
  ASKED(PJRT_Layouts_MemoryLayout_Destroy);
  return NULL;
}
static void free_layout_text(PJRT_Layouts_SerializedLayout *s) { unmake(LIVE_OTHERS, s); }
static PJRT_Error *layout_serialize(PJRT_Layouts_MemoryLayout_Serialize_Args *a) {
  ASKED(PJRT_Layouts_MemoryLayout_Serialize);
  a->serialized_layout = make(LIVE_OTHERS, sizeof(*a->serialized_layout));
  memcpy(a->serialized_layout->text, a->layout->text, sizeof(a->layout->text));
  a->serialized_bytes = a->serialized_layout->text;
  a->serialized_bytes_size = strlen(a->serialized_bytes);
  a->serialized_layout_deleter = free_layout_text;
  return NULL;
}
static PJRT_Error *client_layout(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args *a) {
  ASKED(PJRT_Layouts_PJRT_Client_GetDefaultLayout);
  a->layout = new_layout(a->num_dims);
  return NULL;
}
static PJRT_Error *buffer_layout(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args *a) {
  ASKED(PJRT_Layouts_PJRT_Buffer_MemoryLayout);
  a->layout = new_layout(a->buffer->num_dims);
  return NULL;
}
static PJRT_Error *topology_layout(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args *a) {
  ASKED(PJRT_Layouts_PJRT_Topology_GetDefaultLayout);
  a->layout = new_layout(a->num_dims);
  return NULL;
}
// Those of programs belong to the plugin.
static struct PJRT_Layouts_MemoryLayout program_layout = {"{0}"};
static PJRT_Layouts_MemoryLayout *program_layouts[] = {&program_layout};
static PJRT_Error *output_layouts(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args *a) {
  ASKED(PJRT_Layouts_PJRT_Executable_GetOutputLayouts);
  a->layouts = program_layouts;
  a->num_outputs = 1;
  return NULL;
}
static PJRT_Error *parameter_layouts(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args *a) {
  ASKED(PJRT_Layouts_PJRT_Executable_GetParameterLayouts);
  a->layouts = program_layouts;
  a->num_parameters = 1;
  return NULL;
}

// ---- custom calls, Triton ----

static PJRT_Error *type_register(PJRT_FFI_Type_Register_Args *a) {
  ASKED(type_register);
  static int64_t types;
  if (a->type_name_size == 0) return fail(3, "a type without a name");
  a->type_id = ++types;
  return NULL;
}
static PJRT_Error *user_data_add(PJRT_FFI_UserData_Add_Args *a) {
  ASKED(user_data_add);
  return a->context != NULL && a->user_data.type_id > 0 ? NULL : fail(3, "an unknown type");
}
static PJRT_Error *register_handler(PJRT_FFI_Register_Handler_Args *a) {
  ASKED(register_handler);
  return a->target_name_size > 0 && a->handler != NULL ? NULL : fail(3, "a handler without a name");
}
static PJRT_Error *custom_call(PJRT_Gpu_Register_Custom_Call_Args *a) {
  ASKED(custom_call);
  return a->function_name_size > 0 && a->handler_execute != NULL ? NULL : fail(3, "a custom call without a name");
}
static PJRT_Error *triton_compile(PJRT_Triton_Compile_Args *a) {
  ASKED(compile);
  a->out_asm = "assembly";
  a->out_asm_size = 8;
  a->out_smem_bytes = 64 * a->num_warps;
  return NULL;
}

// ---- memory descriptions, shardings, streams ----

static PJRT_Error *memory_descriptions(PJRT_DeviceDescription_MemoryDescriptions_Args *a) {
  ASKED(PJRT_DeviceDescription_MemoryDescriptions);
  static const struct PJRT_MemoryDescription device = {"device", 3};
  static const PJRT_MemoryDescription *const all[] = {&device};
  a->memory_descriptions = all;
  a->num_memory_descriptions = 1;
  a->default_memory_index = 0;
  return NULL;
}
static PJRT_Error *memory_kind(PJRT_MemoryDescription_Kind_Args *a) {
  ASKED(PJRT_MemoryDescription_Kind);
  a->kind = a->memory_description->kind;
  a->kind_size = strlen(a->kind);
  a->kind_id = a->memory_description->kind_id;
  return NULL;
}
static const char *const shardings[] = {"sharding"};
static const size_t sharding_sizes[] = {8};
static PJRT_Error *parameter_shardings(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args *a) {
  ASKED(PJRT_Shardings_PJRT_Executable_ParameterShardings);
  a->num_parameters = 1;
  a->shardings = shardings;
  a->sharding_sizes = sharding_sizes;
  return NULL;
}
static PJRT_Error *output_shardings(PJRT_Shardings_PJRT_Executable_OutputShardings_Args *a) {
  ASKED(PJRT_Shardings_PJRT_Executable_OutputShardings);
  a->num_outputs = 1;
  a->shardings = NULL;  // as plugins do that know of none
  return NULL;
}
static PJRT_Error *get_stream(PJRT_Get_Stream_For_External_Ready_Events_Args *a) {
  ASKED(get_stream);
  a->stream = 100 + a->device->description.id;
  return NULL;
}
static PJRT_Error *wait_stream(PJRT_Wait_Until_Buffer_Ready_On_Stream_Args *a) {
  ASKED(wait_stream);
  return a->stream != 0 ? NULL : fail(3, "no stream");
}

// ---- raw buffers ----

struct PJRT_RawBuffer { PJRT_Device *device; storage *storage; state *ready; };
static PJRT_Error *raw_alias(PJRT_RawBuffer_CreateRawAliasOfBuffer_Args *a) {
  ASKED(PJRT_RawBuffer_CreateRawAliasOfBuffer);
  if (a->buffer->storage == NULL) return fail(9, "the buffer has been deleted or donated");
  a->raw_buffer = make(LIVE_OTHERS, sizeof(*a->raw_buffer));
  *a->raw_buffer = (struct PJRT_RawBuffer){a->buffer->device, hold_storage(a->buffer->storage), retain(a->buffer->ready)};
  return NULL;
}
static PJRT_Error *raw_destroy(PJRT_RawBuffer_Destroy_Args *a) {
  drop_storage(a->buffer->storage);
  release(a->buffer->ready);
  unmake(LIVE_OTHERS, a->buffer);
  ASKED(PJRT_RawBuffer_Destroy);
  return NULL;
}
static PJRT_Error *raw_size(PJRT_RawBuffer_GetOnDeviceSizeInBytes_Args *a) {
  ASKED(PJRT_RawBuffer_GetOnDeviceSizeInBytes);
  a->on_device_size_in_bytes = a->buffer->storage->size;
  return NULL;
}
static PJRT_Error *raw_memory(PJRT_RawBuffer_GetMemorySpace_Args *a) {
  ASKED(PJRT_RawBuffer_GetMemorySpace);
  a->memory_space = &a->buffer->device->memory;
  return NULL;
}
static PJRT_Error *raw_pointer(PJRT_RawBuffer_GetHostPointer_Args *a) {
  ASKED(PJRT_RawBuffer_GetHostPointer);
  a->host_pointer = a->buffer->storage->bytes;
  return NULL;
}
static PJRT_Error *raw_copy(int entry, PJRT_RawBuffer *b, int64_t offset, int64_t size, const void *src, void *dst, PJRT_Event **event) {
  if (offset < 0 || size < 0 || (size_t)(offset + size) > b->storage->size) return fail(11, "outside of the buffer");
  copying *c = malloc(sizeof(*c));
  char *here = b->storage->bytes + offset;
  *c = (copying){hold_storage(b->storage), NULL, src != NULL ? src : here, dst != NULL ? dst : here, (size_t)size};
  state *done = new_state();
  *event = new_event(done);
  start(b->device->client, (job){.entry = entry, .delay_ms = options.delay_ms, .after = {b->ready}, .num_after = 1, .work = do_copy, .drop = drop_copy, .argument = c, .done = done});
  release(done);
  return NULL;
}
static PJRT_Error *raw_write(PJRT_RawBuffer_CopyRawHostToDevice_Args *a) {
  ASKED(PJRT_RawBuffer_CopyRawHostToDevice);
  return raw_copy(ENTRY_OF_EXTENSION(PJRT_RawBuffer_CopyRawHostToDevice), a->buffer, a->offset, a->transfer_size, a->src, NULL, &a->event);
}
static PJRT_Error *raw_read(PJRT_RawBuffer_CopyRawDeviceToHost_Args *a) {
  ASKED(PJRT_RawBuffer_CopyRawDeviceToHost);
  return raw_copy(ENTRY_OF_EXTENSION(PJRT_RawBuffer_CopyRawDeviceToHost), a->buffer, a->offset, a->transfer_size, NULL, a->dst, &a->event);
}

// ---- cross-host transfers, between devices of this process: what is sent under a key goes to a place ----

typedef struct place {
  int64_t key;
  storage *storage;
  state *sent;
  struct place *next;
} place;
static pthread_mutex_t places_mutex = PTHREAD_MUTEX_INITIALIZER;
static place *places;

// The bytes on their way are no buffer and are not counted as one.
static void free_bytes(void *bytes, void *argument) {
  (void)argument;
  free(bytes);
}

static place *find_place(PJRT_Client *client, int64_t key, size_t size) {
  pthread_mutex_lock(&places_mutex);
  place *p = places;
  while (p != NULL && (p->key != key || p->storage->client != client)) p = p->next;
  if (p == NULL) {
    p = malloc(sizeof(*p));
    storage *s = calloc(1, sizeof(*s));
    *s = (storage){.client = client, .holders = 1, .size = size, .bytes = calloc(1, size + 1), .on_delete = free_bytes};
    *p = (place){key, s, new_state(), places};
    places = p;
  }
  pthread_mutex_unlock(&places_mutex);
  return p->storage->size == size ? p : NULL;
}

void end_places(PJRT_Client *client) {
  pthread_mutex_lock(&places_mutex);
  place *mine = NULL;
  for (place **at = &places; *at != NULL;) {
    place *p = *at;
    if (p->storage->client != client) {
      at = &p->next;
      continue;
    }
    *at = p->next;
    p->next = mine;
    mine = p;
  }
  pthread_mutex_unlock(&places_mutex);
  while (mine != NULL) {
    place *next = mine->next;
    finish(mine->sent, 1);  // CANCELLED for those who still wait
    release(mine->sent);
    drop_storage(mine->storage);
    free(mine);
    mine = next;
  }
}

static copying *between(storage *from, storage *to) {
  copying *c = malloc(sizeof(*c));
  *c = (copying){hold_storage(from), hold_storage(to), from->bytes, to->bytes, from->size};
  return c;
}

static PJRT_Error *cross_send(PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args *a) {
  ASKED(PJRT_Transfers_PJRT_Client_CrossHostSendBuffers);
  for (size_t i = 0; i < a->num_buffers; i++)
    if (a->buffers[i]->storage == NULL || find_place(a->client, a->transfer_keys[i], a->buffers[i]->size) == NULL) return fail(3, "transfer %zu cannot be sent", i);
  for (size_t i = 0; i < a->num_buffers; i++) {
    PJRT_Buffer *b = a->buffers[i];
    place *p = find_place(a->client, a->transfer_keys[i], b->size);
    a->send_events[i] = new_event(p->sent);
    start(a->client, (job){.entry = ENTRY_OF_EXTENSION(PJRT_Transfers_PJRT_Client_CrossHostSendBuffers), .delay_ms = options.delay_ms, .after = {b->ready}, .num_after = 1,
                           .work = do_copy, .drop = drop_copy, .argument = between(b->storage, p->storage), .done = p->sent});
  }
  return NULL;
}
static PJRT_Error *cross_receive(PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args *a) {
  ASKED(PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers);
  PJRT_Error *error = NULL;
  for (size_t i = 0; i < a->num_shapes; i++) {
    PJRT_Buffer *b = a->buffers[i] = new_buffer(a->device, a->element_types[i], a->num_dims[i], a->shape_num_dims[i], &error);
    place *p = b != NULL ? find_place(a->client, a->transfer_keys[i], b->size) : NULL;
    if (p == NULL) {
      for (size_t k = 0; k < i + (b != NULL); k++) free_buffer(a->buffers[k]);
      return error != NULL ? error : fail(3, "transfer %zu has another size", i);
    }
    start(a->client, (job){.entry = ENTRY_OF_EXTENSION(PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers), .after = {p->sent}, .num_after = 1,
                           .work = do_copy, .drop = drop_copy, .argument = between(p->storage, b->storage), .done = b->ready});
  }
  return NULL;
}
// The older way: a descriptor is the key of a place, in digits.
static int64_t last_descriptor = INT64_C(1) << 40;
static int64_t key_of(const char *descriptor, size_t size) {
  int64_t key = 0;
  for (size_t i = 0; i < size; i++) key = key * 10 + descriptor[i] - '0';
  return key;
}
static void cross_cancel(const char *descriptor, size_t size, int reason, const char *message, size_t message_size,
                         PJRT_Transfers_CrossHostOnCanceledCallback on_canceled, void *on_canceled_arg, void *client) {
  (void)message;
  (void)message_size;
  pthread_mutex_lock(&places_mutex);
  place *p = places;
  while (p != NULL && (p->key != key_of(descriptor, size) || p->storage->client != client)) p = p->next;
  pthread_mutex_unlock(&places_mutex);
  if (p != NULL) finish(p->sent, reason);
  on_canceled(p != NULL ? NULL : fail(5, "no such transfer"), on_canceled_arg);
}
static PJRT_Error *cross_make(PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args *a) {
  ASKED(PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers);
  if (a->num_shapes > MAX_PARAMETERS) return fail(3, "%zu buffers", a->num_shapes);
  PJRT_Error *error = NULL;
  static char texts[MAX_PARAMETERS][24];
  const char *descriptors[MAX_PARAMETERS];
  size_t sizes[MAX_PARAMETERS];
  for (size_t i = 0; i < a->num_shapes; i++) {
    PJRT_Buffer *b = a->buffers[i] = new_buffer(a->device, a->element_types[i], a->num_dims[i], a->shape_num_dims[i], &error);
    if (b == NULL) {
      for (size_t k = 0; k < i; k++) free_buffer(a->buffers[k]);
      return error;
    }
    int64_t key = __atomic_add_fetch(&last_descriptor, 1, __ATOMIC_RELAXED);
    place *p = find_place(a->client, key, b->size);
    sizes[i] = (size_t)snprintf(texts[i], sizeof(texts[i]), "%lld", (long long)key);
    descriptors[i] = texts[i];
    start(a->client, (job){.entry = ENTRY_OF_EXTENSION(PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers), .after = {p->sent}, .num_after = 1,
                           .work = do_copy, .drop = drop_copy, .argument = between(p->storage, b->storage), .done = b->ready});
  }
  a->num_buffers = a->num_shapes;
  a->notifier.notifier(NULL, descriptors, sizes, a->num_shapes, a->notifier.user_arg, cross_cancel, a->client);
  return NULL;
}
static void tell_sent(int code, void *argument) {
  PJRT_Transfers_CrossHostRemoteSendCallbackInfo done = *(PJRT_Transfers_CrossHostRemoteSendCallbackInfo *)argument;
  free(argument);
  done.on_done(asked(code), true, done.user_arg);
}
// Gives nothing: all that can be wrong goes to on_done.
static void cross_copy(PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args *a) {
  PJRT_Buffer *b = a->buffer;
  take_time(ENTRY_OF_EXTENSION(PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice));
  PJRT_Error *error = asked(CODE(PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice));
  int64_t key = key_of(*a->serialized_descriptor, *a->serialized_descriptor_size);
  a->descriptor_destructor(a->serialized_descriptor, a->serialized_descriptor_size);
  place *p = error == NULL && b->storage != NULL ? find_place(b->client, key, b->size) : NULL;
  if (error == NULL && p == NULL) error = fail(3, "the buffer cannot be sent there");
  if (error != NULL) {
    a->on_done.on_done(error, false, a->on_done.user_arg);
    return;
  }
  PJRT_Transfers_CrossHostRemoteSendCallbackInfo *done = malloc(sizeof(*done));
  *done = a->on_done;
  start(b->client, (job){.entry = ENTRY_OF_EXTENSION(PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice), .delay_ms = options.delay_ms, .after = {b->ready}, .num_after = 1,
                         .work = do_copy, .drop = drop_copy, .argument = between(b->storage, p->storage), .done = p->sent});
  when_done(p->sent, tell_sent, done);
}

// ---- profiler ----

struct PLUGIN_Profiler { bool started, stopped; uint64_t begin_ns, end_ns; };
struct PLUGIN_Profiler_Error { int code; };
static PLUGIN_Profiler_Error *profiler_failure(int code) {
  if (code == 0) return NULL;
  PLUGIN_Profiler_Error *e = make(LIVE_ERRORS, sizeof(*e));
  e->code = code;
  return e;
}
#define PROFILER_ASKED(position) (take_time(ENTRY_OF_PROFILER(position)), profiler_failure((int)options.fail[ENTRY_OF_PROFILER(position)]))
static void profiler_error_destroy(PLUGIN_Profiler_Error_Destroy_Args *a) { unmake(LIVE_ERRORS, a->error); }
static void profiler_error_message(PLUGIN_Profiler_Error_Message_Args *a) {
  a->message = "the test asked the profiler for a failure";
  a->message_size = strlen(a->message);
}
static PLUGIN_Profiler_Error *profiler_error_code(PLUGIN_Profiler_Error_GetCode_Args *a) { a->code = a->error->code; return NULL; }
static PLUGIN_Profiler_Error *profiler_create(PLUGIN_Profiler_Create_Args *a) {
  PLUGIN_Profiler_Error *e = PROFILER_ASKED(3);
  if (e == NULL) a->profiler = make(LIVE_OTHERS, sizeof(*a->profiler));
  return e;
}
static PLUGIN_Profiler_Error *profiler_destroy(PLUGIN_Profiler_Destroy_Args *a) { unmake(LIVE_OTHERS, a->profiler); return PROFILER_ASKED(4); }
static uint64_t wall_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
static PLUGIN_Profiler_Error *profiler_start(PLUGIN_Profiler_Start_Args *a) {
  a->profiler->started = true;
  a->profiler->begin_ns = wall_ns();
  return PROFILER_ASKED(5);
}
static PLUGIN_Profiler_Error *profiler_stop(PLUGIN_Profiler_Stop_Args *a) {
  a->profiler->stopped = a->profiler->started;
  a->profiler->end_ns = wall_ns();
  return PROFILER_ASKED(6);
}
// A message is written back to front, so that each length is known when it is written.
typedef struct message { uint8_t bytes[256]; size_t at; } message;
static void put_varint(message *m, uint64_t v) {
  uint8_t digits[10];
  size_t n = 0;
  do {
    digits[n++] = (uint8_t)(v & 0x7f);
    v >>= 7;
  } while (v != 0);
  for (size_t i = n; i-- > 0;) m->bytes[--m->at] = digits[i] | (i + 1 < n ? 0x80 : 0);
}
static void put_number(message *m, int field, uint64_t v) { put_varint(m, v); put_varint(m, (uint64_t)field << 3); }
static void put_length(message *m, int field, size_t end) { put_varint(m, end - m->at); put_varint(m, (uint64_t)field << 3 | 2); }
static void put_text(message *m, int field, const char *text) {
  size_t end = m->at;
  m->at -= strlen(text);
  memcpy(m->bytes + m->at, text, strlen(text));
  put_length(m, field, end);
}
// An XSpace with one plane, whose one line has one event: what lies between start and stop.
static void put_profile(message *m, const PLUGIN_Profiler *p) {
  m->at = sizeof(m->bytes);
  size_t entry = m->at, metadata = m->at; // event_metadata[1]
  put_text(m, 2, "profiled");
  put_number(m, 1, 1);
  put_length(m, 2, metadata);
  put_number(m, 1, 1);
  put_length(m, 4, entry);
  size_t line = m->at, event = m->at;
  put_number(m, 3, (p->end_ns - p->begin_ns) * 1000);
  put_number(m, 2, 0);
  put_number(m, 1, 1);
  put_length(m, 4, event);
  put_number(m, 3, p->begin_ns);
  put_text(m, 2, "runs");
  put_number(m, 1, 7);
  put_length(m, 3, line);
  put_text(m, 2, "/device:TEST:0");
  put_length(m, 1, sizeof(m->bytes));
}
static PLUGIN_Profiler_Error *profiler_collect(PLUGIN_Profiler_CollectData_Args *a) {
  PLUGIN_Profiler_Error *e = PROFILER_ASKED(7);
  if (e != NULL) return e;
  message m = {.at = sizeof(m.bytes)};
  if (a->profiler->stopped) put_profile(&m, a->profiler);
  a->buffer_size_in_bytes = sizeof(m.bytes) - m.at;
  if (a->buffer != NULL) memcpy(a->buffer, m.bytes + m.at, a->buffer_size_in_bytes);
  return NULL;
}
static PLUGIN_Profiler_Api profiler_table = {
    .struct_size = sizeof(PLUGIN_Profiler_Api), .error_destroy = profiler_error_destroy, .error_message = profiler_error_message, .error_get_code = profiler_error_code,
    .create = profiler_create, .destroy = profiler_destroy, .start = profiler_start, .stop = profiler_stop, .collect_data = profiler_collect};
static PJRT_Profiler_Extension profiler = {.profiler_api = &profiler_table};

// ---- tables ----

typedef struct { PJRT_Extension_Base base; void *functions[8]; } table;
static struct { int type, size; table *table; } tables[] = {
    {0, 1, &(table){.functions = {custom_call}}},
    {3, 2, &(table){.functions = {get_stream, wait_stream}}},
    {4, 7, &(table){.functions = {layout_destroy, layout_serialize, client_layout, buffer_layout, topology_layout, output_layouts, parameter_layouts}}},
    {5, 3, &(table){.functions = {type_register, user_data_add, register_handler}}},
    {6, 2, &(table){.functions = {memory_descriptions, memory_kind}}},
    {7, 1, &(table){.functions = {triton_compile}}},
    {8, 7, &(table){.functions = {raw_alias, raw_destroy, raw_size, raw_memory, raw_write, raw_read, raw_pointer}}},
    {12, 4, &(table){.functions = {cross_make, cross_copy, cross_receive, cross_send}}},
    {19, 2, &(table){.functions = {parameter_shardings, output_shardings}}},
};

// Finds a type among names and what is said of it: 0 where it is not named, else the sign in front or ' '.
static char named(const char *names, size_t size, int type) {
  for (size_t at = 0; at < size; at++) {
    char sign = strchr("-~!", names[at]) != NULL ? names[at++] : ' ';
    int n = 0;
    for (; at < size && names[at] != ' '; at++) n = n * 10 + names[at] - '0';
    if (n == type) return sign;
  }
  return 0;
}

// Links the extensions of the types that are named; all of them where names is NULL. In front of a
// type - gives a table that is one function short, ~ a table of NULLs, and ! a table so short that it has
// no type. Types that are not known here get an empty table. Behind the types @ makes the list a ring.
PJRT_Extension_Base *link_extensions(const char *names, size_t size) {
  enum { TYPES = 100 };
  static PJRT_Extension_Base empty[TYPES];
  static table null_tables[TYPES];
  PJRT_Extension_Base *first = NULL, *last = NULL;
  bool ring = size > 0 && names[size - 1] == '@';
  size -= ring;
  for (int type = 0; type < TYPES; type++) {
    PJRT_Extension_Base *base = type == 1 ? &profiler.base : &empty[type];
    size_t functions = type == 1 ? 2 : 0;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
      if (tables[i].type != type) continue;
      base = &tables[i].table->base;
      functions = (size_t)tables[i].size;
    }
    char sign = names == NULL ? (functions > 0 ? ' ' : 0) : named(names, size, type);
    if (sign == 0) continue;
    if (sign == '~') base = &null_tables[type].base;
    *base = (PJRT_Extension_Base){sizeof(*base) + (functions - (sign == '-')) * sizeof(void *), type, first};
    if (sign == '!') base->struct_size = sizeof(size_t);
    first = base;
    if (last == NULL) last = base;
  }
  if (ring && last != NULL) last->next = first;
  return first;
}
