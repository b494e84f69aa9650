// A PJRT plugin for tests, with what no real one offers: failures and delays at will. It is built
// by testplugin.go with the C compiler.
//
// Its programs copy: result i is parameter i of the HloModuleProto, whatever stands between. Create
// options, all of them numbers:
//
//   devices       how many devices there are (1)
//   delay_ms      how long a result and a copy to the host take (0)
//   fail_execute  status code with which the call of every run fails (0: none does)
//   fail_result   status code with which the results of every run fail (0: none does)
//   fail_upload   status code with which the source of every upload is given back (0: none is)
//
// It has the functions that a plugin needs and none of those that are optional.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pjrt_abi.h"

struct PJRT_Error { int code; char message[200]; };

static PJRT_Error *fail(int code, const char *message) {
  PJRT_Error *e = calloc(1, sizeof(*e));
  e->code = code;
  snprintf(e->message, sizeof(e->message), "%s", message);
  return e;
}

// ---- states: what events look at ----

typedef struct callback {
  void (*function)(PJRT_Error *, void *);
  void *argument;
  struct callback *next;
} callback;

typedef struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int holders;
  bool done;
  int code;
  callback *callbacks;
} state;

static state *new_state(void) {
  state *s = calloc(1, sizeof(*s));
  pthread_mutex_init(&s->mutex, NULL);
  pthread_cond_init(&s->changed, NULL);
  s->holders = 1;
  return s;
}

static state *retain(state *s) {
  __atomic_add_fetch(&s->holders, 1, __ATOMIC_ACQ_REL);
  return s;
}

static void release(state *s) {
  if (__atomic_sub_fetch(&s->holders, 1, __ATOMIC_ACQ_REL) == 0) free(s);
}

static PJRT_Error *outcome(int code) { return code == 0 ? NULL : fail(code, "the test asked for a failure"); }

static void finish(state *s, int code) {
  pthread_mutex_lock(&s->mutex);
  s->done = true;
  s->code = code;
  callback *list = s->callbacks;
  s->callbacks = NULL;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->mutex);
  while (list != NULL) {
    callback *next = list->next;
    list->function(outcome(code), list->argument);
    free(list);
    list = next;
  }
}

static int wait_for(state *s) {
  pthread_mutex_lock(&s->mutex);
  while (!s->done) pthread_cond_wait(&s->changed, &s->mutex);
  pthread_mutex_unlock(&s->mutex);
  return s->code;
}

// ---- work that takes time ----

typedef struct {
  state *after;  // NULL or what has to be done first
  state *done;
  int64_t delay_ms;
  int code;  // to end with, unless `after` failed
  const void *from;
  void *to;
  size_t size;
} job;

static void *run(void *argument) {
  job *j = argument;
  int code = j->after != NULL ? wait_for(j->after) : 0;
  if (j->delay_ms > 0) {
    struct timespec left = {j->delay_ms / 1000, (j->delay_ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
  }
  if (code == 0) code = j->code;
  if (code == 0 && j->size > 0) memcpy(j->to, j->from, j->size);
  finish(j->done, code);
  if (j->after != NULL) release(j->after);
  release(j->done);
  free(j);
  return NULL;
}

// start does the job on a thread of its own, or at once where nothing delays it.
static void start(job j) {
  job *copy = malloc(sizeof(*copy));
  *copy = j;
  if (copy->after != NULL) retain(copy->after);
  retain(copy->done);
  pthread_t thread;
  if (j.delay_ms == 0 && j.after == NULL) {
    run(copy);
  } else if (pthread_create(&thread, NULL, run, copy) == 0) {
    pthread_detach(thread);
  } else {
    run(copy);
  }
}

// ---- objects ----

struct PJRT_DeviceDescription { int id; char text[48]; };
struct PJRT_Device { struct PJRT_DeviceDescription description; };
struct PJRT_Client {
  size_t num_devices;
  struct PJRT_Device *devices;
  struct PJRT_Device **list;
  int64_t delay_ms, fail_execute, fail_result, fail_upload;
};
struct PJRT_Event { state *state; };
struct PJRT_Buffer {
  PJRT_Client *client;
  PJRT_Device *device;
  int type;
  size_t num_dims;
  int64_t dims[8];
  size_t size;
  void *bytes;  // shared by jobs that may outlive the buffer, so never freed before them
  state *ready;
  bool deleted;
  int references;
};
struct PJRT_Executable { size_t num_outputs; };
struct PJRT_LoadedExecutable {
  PJRT_Client *client;
  PJRT_Device *device;
  struct PJRT_Executable executable;
};

static PJRT_Event *new_event(state *s) {
  PJRT_Event *e = malloc(sizeof(*e));
  e->state = retain(s);
  return e;
}

#define ENTRY(name) static PJRT_Error *name(PJRT_##name##_Args *a)

static void Error_Destroy(PJRT_Error_Destroy_Args *a) { free(a->error); }
static void Error_Message(PJRT_Error_Message_Args *a) {
  a->message = a->error->message;
  a->message_size = strlen(a->message);
}
ENTRY(Error_GetCode) { a->code = a->error->code; return NULL; }
ENTRY(Plugin_Initialize) { (void)a; return NULL; }

ENTRY(Event_Destroy) { release(a->event->state); free(a->event); return NULL; }
ENTRY(Event_IsReady) {
  pthread_mutex_lock(&a->event->state->mutex);
  a->is_ready = a->event->state->done;
  pthread_mutex_unlock(&a->event->state->mutex);
  return NULL;
}
ENTRY(Event_Error) { return outcome(a->event->state->code); }
ENTRY(Event_Await) { return outcome(wait_for(a->event->state)); }
ENTRY(Event_OnReady) {
  state *s = a->event->state;
  pthread_mutex_lock(&s->mutex);
  bool done = s->done;
  if (!done) {
    callback *c = malloc(sizeof(*c));
    *c = (callback){a->callback, a->user_arg, s->callbacks};
    s->callbacks = c;
  }
  pthread_mutex_unlock(&s->mutex);
  if (done) a->callback(outcome(s->code), a->user_arg);
  return NULL;
}

ENTRY(Client_Create) {
  PJRT_Client *c = calloc(1, sizeof(*c));
  int64_t devices = 1;
  struct { const char *name; int64_t *value; } options[] = {
      {"devices", &devices}, {"delay_ms", &c->delay_ms}, {"fail_execute", &c->fail_execute},
      {"fail_result", &c->fail_result}, {"fail_upload", &c->fail_upload}};
  for (size_t i = 0; i < a->num_options; i++) {
    const PJRT_NamedValue *v = &a->create_options[i];
    bool known = false;
    for (size_t j = 0; j < sizeof(options) / sizeof(options[0]); j++) {
      if (v->name_size == strlen(options[j].name) && memcmp(v->name, options[j].name, v->name_size) == 0 && v->type == VALUE_INT64) {
        *options[j].value = v->int64_value;
        known = true;
      }
    }
    if (!known) {
      free(c);
      return fail(3, "an option that the test plugin does not have");
    }
  }
  c->num_devices = (size_t)devices;
  c->devices = calloc(c->num_devices, sizeof(c->devices[0]));
  c->list = calloc(c->num_devices, sizeof(c->list[0]));
  for (size_t i = 0; i < c->num_devices; i++) {
    c->list[i] = &c->devices[i];
    c->devices[i].description.id = (int)i;
    snprintf(c->devices[i].description.text, sizeof(c->devices[i].description.text), "TestDevice(%zu)", i);
  }
  a->client = c;
  return NULL;
}
ENTRY(Client_Destroy) { free(a->client->list); free(a->client->devices); free(a->client); return NULL; }
ENTRY(Client_PlatformName) { a->platform_name = "testplugin"; a->platform_name_size = strlen(a->platform_name); return NULL; }
ENTRY(Client_PlatformVersion) { a->platform_version = "1"; a->platform_version_size = 1; return NULL; }
ENTRY(Client_ProcessIndex) { a->process_index = 0; return NULL; }
ENTRY(Client_Devices) { a->devices = a->client->list; a->num_devices = a->client->num_devices; return NULL; }
ENTRY(Client_AddressableDevices) { a->addressable_devices = a->client->list; a->num_addressable_devices = a->client->num_devices; return NULL; }
ENTRY(DeviceDescription_Id) { a->id = a->device_description->id; return NULL; }
ENTRY(DeviceDescription_ProcessIndex) { a->process_index = 0; return NULL; }
ENTRY(DeviceDescription_Kind) { a->device_kind = "test"; a->device_kind_size = 4; return NULL; }
ENTRY(DeviceDescription_ToString) { a->to_string = a->device_description->text; a->to_string_size = strlen(a->to_string); return NULL; }
ENTRY(Device_GetDescription) { a->device_description = &a->device->description; return NULL; }
ENTRY(Device_IsAddressable) { a->is_addressable = true; return NULL; }

// ---- programs ----

// field reads one field of a protobuf message; gives NULL at the end and for what it cannot read.
static const unsigned char *field(const unsigned char *p, const unsigned char *end, uint64_t *number, const unsigned char **bytes, uint64_t *size) {
  uint64_t values[2] = {0, 0};
  for (int part = 0; part < 2; part++) {
    for (int shift = 0;; shift += 7) {
      if (p >= end || shift > 63) return NULL;
      values[part] |= (uint64_t)(*p & 127) << shift;
      if (*p++ < 128) break;
    }
  }
  *number = values[0] >> 3;
  *bytes = NULL;
  *size = 0;
  if ((values[0] & 7) == 0) return p;  // a number
  if ((values[0] & 7) != 2 || values[1] > (uint64_t)(end - p)) return NULL;
  *bytes = p;
  *size = values[1];
  return p + values[1];
}

static size_t count_parameters(const char *module, size_t size) {
  const unsigned char *p = (const unsigned char *)module, *end = p + size, *bytes;
  uint64_t number, length;
  size_t count = 0;
  while ((p = field(p, end, &number, &bytes, &length)) != NULL) {
    if (number != 4 || bytes == NULL) continue;  // host_program_shape
    const unsigned char *q = bytes, *last = bytes + length;
    while ((q = field(q, last, &number, &bytes, &length)) != NULL) count += number == 1;
  }
  return count;
}

ENTRY(Client_Compile) {
  if (a->program->format_size != 3 || memcmp(a->program->format, "hlo", 3) != 0) return fail(12, "the test plugin takes hlo only");
  PJRT_LoadedExecutable *e = calloc(1, sizeof(*e));
  e->client = a->client;
  e->device = a->client->list[0];
  e->executable.num_outputs = count_parameters(a->program->code, a->program->code_size);
  a->executable = e;
  return NULL;
}
ENTRY(Executable_Destroy) { (void)a; return NULL; }
ENTRY(Executable_Name) { a->executable_name = "copies"; a->executable_name_size = 6; return NULL; }
ENTRY(Executable_NumOutputs) { a->num_outputs = a->executable->num_outputs; return NULL; }
ENTRY(LoadedExecutable_Destroy) { free(a->executable); return NULL; }
ENTRY(LoadedExecutable_GetExecutable) { a->executable = &a->loaded_executable->executable; return NULL; }
ENTRY(LoadedExecutable_AddressableDevices) { a->addressable_devices = &a->executable->device; a->num_addressable_devices = 1; return NULL; }

// ---- buffers ----

static PJRT_Buffer *new_buffer(PJRT_Client *client, PJRT_Device *device, int type, const int64_t *dims, size_t num_dims, size_t size) {
  PJRT_Buffer *b = calloc(1, sizeof(*b));
  b->client = client;
  b->device = device;
  b->type = type;
  b->num_dims = num_dims;
  for (size_t i = 0; i < num_dims; i++) b->dims[i] = dims[i];
  b->size = size;
  b->bytes = calloc(1, size + 1);
  b->ready = new_state();
  return b;
}

static size_t item_size(int type) {
  switch (type) {
    case 4: case 8: case 11: return 4;  // S32, U32, F32
    case 5: case 9: case 12: return 8;  // S64, U64, F64
    case 1: case 2: case 6: return 1;   // PRED, S8, U8
  }
  return 0;
}

ENTRY(Client_BufferFromHostBuffer) {
  size_t size = item_size(a->type);
  if (size == 0 || a->num_dims > 8 || a->num_byte_strides != 0) return fail(12, "an array that the test plugin does not take");
  for (size_t i = 0; i < a->num_dims; i++) size *= (size_t)a->dims[i];
  PJRT_Buffer *b = new_buffer(a->client, a->device, a->type, a->dims, a->num_dims, size);
  job j = {.done = b->ready, .from = a->data, .to = b->bytes, .size = size};
  if (a->host_buffer_semantics != HOST_IMMUTABLE_ONLY_DURING_CALL) {
    j.delay_ms = a->client->delay_ms;
    j.code = (int)a->client->fail_upload;
  }
  a->done_with_host_buffer = new_event(b->ready);
  a->buffer = b;
  start(j);
  return NULL;
}

ENTRY(LoadedExecutable_Execute) {
  PJRT_LoadedExecutable *e = a->executable;
  PJRT_Client *c = e->client;
  if (c->fail_execute != 0) return outcome((int)c->fail_execute);
  if (a->num_devices != 1 || a->num_args != e->executable.num_outputs) return fail(3, "a run that the test plugin does not take");
  state *last = NULL;
  for (size_t i = 0; i < a->num_args; i++) {
    PJRT_Buffer *from = a->argument_lists[0][i];
    PJRT_Buffer *to = new_buffer(c, e->device, from->type, from->dims, from->num_dims, from->size);
    a->output_lists[0][i] = to;
    start((job){.after = from->ready, .done = to->ready, .delay_ms = c->delay_ms, .code = (int)c->fail_result, .from = from->bytes, .to = to->bytes, .size = from->size});
    last = to->ready;
  }
  if (a->device_complete_events != NULL && last != NULL) a->device_complete_events[0] = new_event(last);
  return NULL;
}

// Jobs may still read and write the bytes, so they stay: tests are short.
ENTRY(Buffer_Destroy) { release(a->buffer->ready); free(a->buffer); return NULL; }
ENTRY(Buffer_ElementType) { a->type = a->buffer->type; return NULL; }
ENTRY(Buffer_Dimensions) { a->dims = a->buffer->dims; a->num_dims = a->buffer->num_dims; return NULL; }
ENTRY(Buffer_OnDeviceSizeInBytes) { a->on_device_size_in_bytes = a->buffer->size; return NULL; }
ENTRY(Buffer_Delete) { a->buffer->deleted = true; return NULL; }
ENTRY(Buffer_IsDeleted) { a->is_deleted = a->buffer->deleted; return NULL; }
ENTRY(Buffer_ReadyEvent) { a->event = new_event(a->buffer->ready); return NULL; }
ENTRY(Buffer_UnsafePointer) { a->buffer_pointer = (uintptr_t)a->buffer->bytes; return NULL; }
ENTRY(Buffer_IncreaseExternalReferenceCount) { a->buffer->references++; return NULL; }
ENTRY(Buffer_DecreaseExternalReferenceCount) { return a->buffer->references-- > 0 ? NULL : fail(9, "a reference that was not taken"); }
ENTRY(Buffer_ToHostBuffer) {
  if (a->host_layout == NULL || a->host_layout->tiled.minor_to_major_size != a->src->num_dims) return fail(3, "no host layout");
  if (a->dst_size < a->src->size) return fail(3, "too little room");
  state *done = new_state();
  a->event = new_event(done);
  start((job){.after = a->src->ready, .done = done, .delay_ms = a->src->client->delay_ms, .from = a->src->bytes, .to = a->dst, .size = a->src->size});
  release(done);
  return NULL;
}

static PJRT_Api api;

const PJRT_Api *GetPjrtApi(void) {
  api.struct_size = sizeof(api);
  api.pjrt_api_version.struct_size = sizeof(api.pjrt_api_version);
  api.pjrt_api_version.major_version = PJRT_MAJOR;
  api.pjrt_api_version.minor_version = 81;
#define HAS(name) api.functions[FN_##name] = (void *)name;
  HAS(Error_Destroy) HAS(Error_Message) HAS(Error_GetCode) HAS(Plugin_Initialize)
  HAS(Event_Destroy) HAS(Event_IsReady) HAS(Event_Error) HAS(Event_Await) HAS(Event_OnReady)
  HAS(Client_Create) HAS(Client_Destroy) HAS(Client_PlatformName) HAS(Client_PlatformVersion) HAS(Client_ProcessIndex)
  HAS(Client_Devices) HAS(Client_AddressableDevices) HAS(Client_Compile) HAS(Client_BufferFromHostBuffer)
  HAS(DeviceDescription_Id) HAS(DeviceDescription_ProcessIndex) HAS(DeviceDescription_Kind) HAS(DeviceDescription_ToString)
  HAS(Device_GetDescription) HAS(Device_IsAddressable)
  HAS(Executable_Destroy) HAS(Executable_Name) HAS(Executable_NumOutputs)
  HAS(LoadedExecutable_Destroy) HAS(LoadedExecutable_GetExecutable) HAS(LoadedExecutable_AddressableDevices) HAS(LoadedExecutable_Execute)
  HAS(Buffer_Destroy) HAS(Buffer_ElementType) HAS(Buffer_Dimensions) HAS(Buffer_OnDeviceSizeInBytes) HAS(Buffer_Delete)
  HAS(Buffer_IsDeleted) HAS(Buffer_ReadyEvent) HAS(Buffer_UnsafePointer) HAS(Buffer_IncreaseExternalReferenceCount)
  HAS(Buffer_DecreaseExternalReferenceCount) HAS(Buffer_ToHostBuffer)
  return &api;
}
