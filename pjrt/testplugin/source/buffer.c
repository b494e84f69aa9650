// Buffers: making them, what they tell, and copies.
#include "testplugin.h"

size_t item_size(int type) {
  switch (type) {
    case 1: case 2: case 6: return 1;                        // PRED, S8, U8
    case 16: case 17: case 18: case 19: case 20: return 1;   // the F8 types
    case 3: case 7: case 10: case 13: return 2;              // S16, U16, F16, BF16
    case 4: case 8: case 11: return 4;                       // S32, U32, F32
    case 5: case 9: case 12: case 14: return 8;              // S64, U64, F64, C64
    case 15: return 16;                                      // C128
  }
  return 0;
}

storage *hold_storage(storage *s) {
  if (s != NULL) __atomic_add_fetch(&s->holders, 1, __ATOMIC_ACQ_REL);
  return s;
}

void drop_storage(storage *s) {
  if (s == NULL || __atomic_sub_fetch(&s->holders, 1, __ATOMIC_ACQ_REL) != 0) return;
  if (s->on_delete != NULL) {
    s->on_delete(s->bytes, s->argument);
  } else {
    __atomic_sub_fetch(&s->client->bytes_in_use, (int64_t)s->size, __ATOMIC_RELAXED);
    free(s->bytes);
  }
  free(s);
}

static storage *new_storage(PJRT_Client *client, size_t size, PJRT_Error **error) {
  int64_t used = __atomic_add_fetch(&client->bytes_in_use, (int64_t)size, __ATOMIC_RELAXED);
  if (options.memory_limit != 0 && used > options.memory_limit) {
    __atomic_sub_fetch(&client->bytes_in_use, (int64_t)size, __ATOMIC_RELAXED);
    *error = fail(8, "out of memory: %zu bytes are asked for, %lld of %lld are taken", size, (long long)used - (long long)size, (long long)options.memory_limit);
    return NULL;
  }
  char *bytes = calloc(1, size + 1);
  if (bytes == NULL) {
    __atomic_sub_fetch(&client->bytes_in_use, (int64_t)size, __ATOMIC_RELAXED);
    *error = fail(8, "out of memory: %zu bytes are asked for, the host has not so many", size);
    return NULL;
  }
  if (used > __atomic_load_n(&client->peak_bytes, __ATOMIC_RELAXED)) __atomic_store_n(&client->peak_bytes, used, __ATOMIC_RELAXED);
  __atomic_add_fetch(&client->num_allocs, 1, __ATOMIC_RELAXED);
  storage *s = calloc(1, sizeof(*s));
  *s = (storage){.client = client, .holders = 1, .size = size, .bytes = bytes};
  return s;
}

// Without memory: storage is NULL.
static PJRT_Buffer *new_shell(PJRT_Device *device, int type, const int64_t *dims, size_t num_dims, PJRT_Error **error) {
  size_t size = item_size(type);
  if (size == 0 || num_dims > MAX_RANK) {
    *error = fail(12, "an array that the test plugin does not take");
    return NULL;
  }
  PJRT_Buffer *b = make(LIVE_BUFFERS, sizeof(*b));
  b->client = device->client;
  b->device = device;
  b->type = type;
  b->num_dims = num_dims;
  for (size_t i = 0; i < num_dims; i++) size *= (size_t)(b->dims[i] = dims[i]);
  b->size = size;
  b->ready = new_state();
  return b;
}

PJRT_Buffer *new_buffer(PJRT_Device *device, int type, const int64_t *dims, size_t num_dims, PJRT_Error **error) {
  PJRT_Buffer *b = new_shell(device, type, dims, num_dims, error);
  if (b != NULL && (b->storage = new_storage(b->client, b->size, error)) == NULL) {
    free_buffer(b);
    return NULL;
  }
  return b;
}

void free_buffer(PJRT_Buffer *b) {
  drop_storage(b->storage);
  release(b->ready);
  unmake(LIVE_BUFFERS, b);
}

int do_copy(void *argument) {
  copying *c = argument;
  if (c->size > 0) memcpy(c->to, c->from, c->size);
  return 0;
}

void drop_copy(void *argument) {
  copying *c = argument;
  drop_storage(c->from_storage);
  drop_storage(c->to_storage);
  free(c);
}

static copying *new_copy(storage *from_storage, const char *from, storage *to_storage, char *to, size_t size) {
  copying *c = malloc(sizeof(*c));
  *c = (copying){hold_storage(from_storage), hold_storage(to_storage), from, to, size};
  return c;
}

static PJRT_Error *gone(const PJRT_Buffer *b) {
  return b->deleted || b->storage == NULL ? fail(9, "the buffer has been deleted or donated") : NULL;
}

// Copies a part of a buffer to the host.
PJRT_Error *start_copy(int entry, PJRT_Buffer *b, void *dst, int64_t offset, int64_t size, PJRT_Event **event) {
  PJRT_Error *error = gone(b);
  if (error != NULL) return error;
  if (offset < 0 || size < 0 || (size_t)(offset + size) > b->size) return fail(11, "%lld bytes from %lld on are not in %zu", (long long)size, (long long)offset, b->size);
  state *done = new_state();
  *event = new_event(done);
  start(b->client, (job){.entry = entry, .delay_ms = options.delay_ms, .after = {b->ready}, .num_after = 1, .work = do_copy, .drop = drop_copy,
                         .argument = new_copy(b->storage, b->storage->bytes + offset, NULL, dst, (size_t)size), .done = done});
  release(done);
  return NULL;
}

ENTRY(Client_BufferFromHostBuffer) {
  if (a->num_byte_strides != 0) return fail(12, "strides that the test plugin does not take");
  PJRT_Error *error = NULL;
  PJRT_Buffer *b = new_buffer(a->memory != NULL ? a->memory->device : a->device, a->type, a->dims, a->num_dims, &error);
  if (b == NULL) return error;
  job j = {.entry = FN_Client_BufferFromHostBuffer, .work = do_copy, .drop = drop_copy, .argument = new_copy(NULL, a->data, b->storage, b->storage->bytes, b->size), .done = b->ready};
  state *done = retain(b->ready);
  if (a->host_buffer_semantics == HOST_IMMUTABLE_ONLY_DURING_CALL) {
    // The source is read now; only what comes after may take its time.
    do_copy(j.argument);
    drop_copy(j.argument);
    j.work = NULL;
    j.drop = NULL;
    release(done);
    done = new_state();
    finish(done, 0);
  } else {
    j.delay_ms = options.delay_ms;
    j.code = (int)options.fail_upload;
  }
  a->done_with_host_buffer = new_event(done);
  release(done);
  a->buffer = b;
  start(b->client, j);
  return NULL;
}

ENTRY(Client_CreateViewOfDeviceBuffer) {
  PJRT_Error *error = NULL;
  PJRT_Buffer *b = new_shell(a->memory != NULL ? a->memory->device : a->device, a->element_type, a->dims, a->num_dims, &error);
  if (b == NULL) return error;
  b->storage = calloc(1, sizeof(storage));
  *b->storage = (storage){.client = a->client, .holders = 1, .size = b->size, .bytes = a->device_buffer_ptr, .on_delete = a->on_delete_callback, .argument = a->on_delete_callback_arg};
  finish(b->ready, 0);
  a->buffer = b;
  return NULL;
}

ENTRY(Client_CreateUninitializedBuffer) {
  PJRT_Error *error = NULL;
  a->buffer = new_buffer(a->memory != NULL ? a->memory->device : a->device, a->shape_element_type, a->shape_dims, a->shape_num_dims, &error);
  if (a->buffer != NULL) finish(a->buffer->ready, 0);
  return error;
}

ENTRY(Client_CreateErrorBuffer) {
  PJRT_Error *error = NULL;
  a->buffer = new_buffer(a->memory->device, a->shape_element_type, a->shape_dims, a->shape_num_dims, &error);
  if (a->buffer != NULL) finish(a->buffer->ready, a->error_code);
  return error;
}

// An alias has memory of its own, into which the value comes when it is there.
struct PJRT_FulfillAliasBufferCallback { state *ready; storage *storage; };
ENTRY(Client_CreateAliasBuffer) {
  PJRT_Error *error = NULL;
  PJRT_Buffer *b = new_buffer(a->memory->device, a->shape_element_type, a->shape_dims, a->shape_num_dims, &error);
  if (b == NULL) return error;
  a->fulfill_alias_buffer_cb = make(LIVE_OTHERS, sizeof(*a->fulfill_alias_buffer_cb));
  *a->fulfill_alias_buffer_cb = (PJRT_FulfillAliasBufferCallback){retain(b->ready), hold_storage(b->storage)};
  a->alias_buffer = b;
  return NULL;
}
ENTRY(Client_FulfillAliasBuffer) {
  PJRT_FulfillAliasBufferCallback *f = a->fulfill_alias_buffer_cb;
  PJRT_Error *error = NULL;
  if (a->buffer == NULL || a->status_code != 0) {
    finish(f->ready, a->status_code != 0 ? a->status_code : 2);
  } else if (a->buffer->size != f->storage->size) {
    error = fail(3, "a buffer of %zu bytes for an alias of %zu", a->buffer->size, f->storage->size);
    finish(f->ready, 3);
  } else {
    start(a->client, (job){.entry = FN_Client_FulfillAliasBuffer, .after = {a->buffer->ready}, .num_after = 1, .work = do_copy, .drop = drop_copy,
                           .argument = new_copy(a->buffer->storage, a->buffer->storage->bytes, f->storage, f->storage->bytes, f->storage->size), .done = f->ready});
  }
  release(f->ready);
  drop_storage(f->storage);
  unmake(LIVE_OTHERS, f);
  return error;
}

ENTRY(Buffer_Destroy) { free_buffer(a->buffer); return NULL; }
ENTRY(Buffer_ElementType) { a->type = a->buffer->type; return NULL; }
ENTRY(Buffer_Dimensions) { a->dims = a->buffer->dims; a->num_dims = a->buffer->num_dims; return NULL; }
ENTRY(Buffer_UnpaddedDimensions) { a->unpadded_dims = a->buffer->dims; a->num_dims = a->buffer->num_dims; return NULL; }
ENTRY(Buffer_DynamicDimensionIndices) { a->dynamic_dim_indices = NULL; a->num_dynamic_dims = 0; return NULL; }
ENTRY(Buffer_GetMemoryLayout) {
  static const int64_t orders[MAX_RANK] = {7, 6, 5, 4, 3, 2, 1, 0};
  a->layout = (PJRT_Buffer_MemoryLayout){.struct_size = sizeof(a->layout), .type = LAYOUT_TILED};
  a->layout.tiled = (PJRT_Buffer_MemoryLayout_Tiled){.struct_size = sizeof(a->layout.tiled)};
  a->layout.tiled.minor_to_major = orders + MAX_RANK - a->buffer->num_dims;
  a->layout.tiled.minor_to_major_size = a->buffer->num_dims;
  return NULL;
}
ENTRY(Buffer_OnDeviceSizeInBytes) { a->on_device_size_in_bytes = a->buffer->size; return NULL; }
ENTRY(Buffer_Device) { a->device = a->buffer->device; return NULL; }
ENTRY(Buffer_Memory) { a->memory = &a->buffer->device->memory; return NULL; }
ENTRY(Buffer_Delete) {
  a->buffer->deleted = true;
  drop_storage(a->buffer->storage);
  a->buffer->storage = NULL;
  return NULL;
}
ENTRY(Buffer_IsDeleted) { a->is_deleted = a->buffer->deleted; return NULL; }
ENTRY(Buffer_IsOnCpu) { a->is_on_cpu = true; return NULL; }
ENTRY(Buffer_ReadyEvent) { a->event = new_event(a->buffer->ready); return NULL; }
ENTRY(Buffer_UnsafePointer) {
  PJRT_Error *error = gone(a->buffer);
  if (error == NULL) a->buffer_pointer = (uintptr_t)a->buffer->storage->bytes;
  return error;
}
ENTRY(Buffer_OpaqueDeviceMemoryDataPointer) {
  PJRT_Error *error = gone(a->buffer);
  if (error == NULL) a->device_memory_ptr = a->buffer->storage->bytes;
  return error;
}
ENTRY(Buffer_IncreaseExternalReferenceCount) {
  PJRT_Error *error = gone(a->buffer);
  if (error == NULL) __atomic_add_fetch(&a->buffer->storage->references, 1, __ATOMIC_ACQ_REL);
  return error;
}
ENTRY(Buffer_DecreaseExternalReferenceCount) {
  if (a->buffer->storage == NULL || __atomic_sub_fetch(&a->buffer->storage->references, 1, __ATOMIC_ACQ_REL) < 0) return fail(9, "a reference that was not taken");
  return NULL;
}

static PJRT_Error *copy_to(int entry, PJRT_Buffer *b, PJRT_Device *device, PJRT_Buffer **to) {
  PJRT_Error *error = gone(b);
  if (error != NULL) return error;
  *to = new_buffer(device, b->type, b->dims, b->num_dims, &error);
  if (*to == NULL) return error;
  start(b->client, (job){.entry = entry, .delay_ms = options.delay_ms, .after = {b->ready}, .num_after = 1, .work = do_copy, .drop = drop_copy,
                         .argument = new_copy(b->storage, b->storage->bytes, (*to)->storage, (*to)->storage->bytes, b->size), .done = (*to)->ready});
  return NULL;
}
ENTRY(Buffer_CopyToDevice) { return copy_to(FN_Buffer_CopyToDevice, a->buffer, a->dst_device, &a->dst_buffer); }
ENTRY(Buffer_CopyToMemory) { return copy_to(FN_Buffer_CopyToMemory, a->buffer, a->dst_memory->device, &a->dst_buffer); }

ENTRY(Buffer_ToHostBuffer) {
  if (a->host_layout == NULL || a->host_layout->tiled.minor_to_major_size != a->src->num_dims) return fail(3, "no host layout");
  if (a->dst_size < a->src->size) return fail(3, "too little room");
  return start_copy(FN_Buffer_ToHostBuffer, a->src, a->dst, 0, (int64_t)a->src->size, &a->event);
}
ENTRY(Buffer_CopyRawToHost) { return start_copy(FN_Buffer_CopyRawToHost, a->buffer, a->dst, a->offset, a->transfer_size, &a->event); }

// A copy that waits for its destination.
typedef struct { state *named; copying *copy; int code; } promise;
static void drop_promised(void *argument) { drop_copy(argument); }
static void name_destination(PJRT_Buffer_CopyRawToHostFuture_Callback_Args *a) {
  promise *p = a->callback_data;
  p->copy->to = a->dst;
  state *named = p->named;
  unmake(LIVE_OTHERS, p);
  finish(named, a->error_code);
  release(named);
}
ENTRY(Buffer_CopyRawToHostFuture) {
  PJRT_Buffer *b = a->buffer;
  PJRT_Error *error = gone(b);
  if (error != NULL) return error;
  if (a->offset < 0 || (size_t)(a->offset + a->transfer_size) > b->size) return fail(11, "outside of the buffer");
  promise *p = make(LIVE_OTHERS, sizeof(*p));
  p->named = new_state();
  p->copy = new_copy(b->storage, b->storage->bytes + a->offset, NULL, NULL, (size_t)a->transfer_size);
  state *done = new_state();
  a->event = new_event(done);
  a->callback_data = p;
  a->future_ready_callback = name_destination;
  start(b->client, (job){.entry = FN_Buffer_CopyRawToHostFuture, .delay_ms = options.delay_ms, .after = {b->ready, p->named}, .num_after = 2, .work = do_copy,
                         .drop = drop_promised, .argument = p->copy, .done = done});
  release(done);
  return NULL;
}

static void dependency_ready(PJRT_Buffer_DonateWithControlDependency_Callback_Args *a) {
  state *s = a->callback_data;
  finish(s, a->error_code);
  release(s);
}
ENTRY(Buffer_DonateWithControlDependency) {
  PJRT_Buffer *b = a->buffer;
  PJRT_Error *error = gone(b);
  if (error != NULL) return error;
  PJRT_Buffer *to = new_shell(b->device, b->type, b->dims, b->num_dims, &error);
  if (to == NULL) return error;
  to->storage = b->storage;
  b->storage = NULL;
  b->deleted = true;
  a->callback_data = retain(to->ready);
  a->dependency_ready_callback = dependency_ready;
  a->out_buffer = to;
  return NULL;
}
ENTRY(Buffer_Bitcast) {
  PJRT_Buffer *b = a->buffer;
  PJRT_Error *error = gone(b);
  if (error != NULL) return error;
  PJRT_Buffer *to = new_shell(b->device, a->element_type, a->dims, a->num_dims, &error);
  if (to == NULL) return error;
  if (to->size != b->size) {
    free_buffer(to);
    return fail(3, "another size");
  }
  to->storage = hold_storage(b->storage);
  release(to->ready);
  to->ready = retain(b->ready);
  a->out_buffer = to;
  return NULL;
}
