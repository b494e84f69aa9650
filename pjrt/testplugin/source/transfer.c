// Asynchronous host-to-device transfers, and the stream that receive callbacks fill.
#include "testplugin.h"

struct PJRT_AsyncHostToDeviceTransferManager {
  PJRT_Device *device;
  int count;
  PJRT_Buffer *buffers[MAX_PARAMETERS];  // NULL once retrieved
  storage *storages[MAX_PARAMETERS];
  state *ready[MAX_PARAMETERS];
  size_t sizes[MAX_PARAMETERS];
  bool complete[MAX_PARAMETERS];  // its last transfer is under way or over
};
typedef PJRT_AsyncHostToDeviceTransferManager manager;

static void free_manager(manager *m) {
  for (int i = 0; i < m->count; i++) {
    if (m->buffers[i] != NULL) free_buffer(m->buffers[i]);
    if (!m->complete[i]) finish(m->ready[i], 1);  // CANCELLED
    release(m->ready[i]);
    drop_storage(m->storages[i]);
  }
  unmake(LIVE_OTHERS, m);
}

ENTRY(Client_CreateBuffersForAsyncHostToDevice) {
  if (a->num_shape_specs < 1 || a->num_shape_specs > MAX_PARAMETERS) return fail(3, "%zu buffers", a->num_shape_specs);
  manager *m = make(LIVE_OTHERS, sizeof(*m));
  m->device = a->memory->device;
  PJRT_Error *error = NULL;
  for (size_t i = 0; i < a->num_shape_specs; i++) {
    const PJRT_ShapeSpec *s = &a->shape_specs[i];
    PJRT_Buffer *b = new_buffer(m->device, s->element_type, s->dims, s->num_dims, &error);
    if (b == NULL) {
      free_manager(m);
      return error;
    }
    m->buffers[i] = b;
    m->storages[i] = hold_storage(b->storage);
    m->ready[i] = retain(b->ready);
    m->sizes[i] = b->size;
    m->count++;
  }
  a->transfer_manager = m;
  return NULL;
}
ENTRY(AsyncHostToDeviceTransferManager_Destroy) { free_manager(a->transfer_manager); return NULL; }

static PJRT_Error *check(const manager *m, int index) { return index >= 0 && index < m->count ? NULL : fail(3, "no buffer %d", index); }

static void tell_ready(int code, void *argument) {
  finish(argument, code);
  release(argument);
}

static PJRT_Error *transfer(int entry, manager *m, int index, const void *data, int64_t offset, int64_t size, bool last, PJRT_Event **event) {
  PJRT_Error *error = check(m, index);
  if (error != NULL) return error;
  if (offset < 0 || size < 0 || (size_t)(offset + size) > m->sizes[index]) return fail(11, "outside of the buffer");
  copying *c = malloc(sizeof(*c));
  *c = (copying){NULL, hold_storage(m->storages[index]), data, m->storages[index]->bytes + offset, (size_t)size};
  state *done = new_state();
  *event = new_event(done);
  m->complete[index] |= last;
  if (last) when_done(done, tell_ready, retain(m->ready[index]));
  start(m->device->client, (job){.entry = entry, .delay_ms = options.delay_ms, .work = do_copy, .drop = drop_copy, .argument = c, .done = done});
  release(done);
  return NULL;
}
ENTRY(AsyncHostToDeviceTransferManager_TransferData) {
  return transfer(FN_AsyncHostToDeviceTransferManager_TransferData, a->transfer_manager, a->buffer_index, a->data, a->offset, a->transfer_size, a->is_last_transfer, &a->done_with_h2d_transfer);
}
ENTRY(AsyncHostToDeviceTransferManager_TransferLiteral) {
  PJRT_Error *error = check(a->transfer_manager, a->buffer_index);
  if (error != NULL) return error;
  size_t size = item_size(a->shape_element_type);
  for (size_t i = 0; i < a->shape_num_dims; i++) size *= (size_t)a->shape_dims[i];
  if (size != a->transfer_manager->sizes[a->buffer_index]) return fail(3, "a literal of %zu bytes", size);
  return transfer(FN_AsyncHostToDeviceTransferManager_TransferLiteral, a->transfer_manager, a->buffer_index, a->data, 0, (int64_t)size, true, &a->done_with_h2d_transfer);
}
ENTRY(AsyncHostToDeviceTransferManager_RetrieveBuffer) {
  PJRT_Error *error = check(a->transfer_manager, a->buffer_index);
  if (error != NULL) return error;
  a->buffer_out = a->transfer_manager->buffers[a->buffer_index];
  if (a->buffer_out == NULL) return fail(9, "the buffer has been retrieved");
  a->transfer_manager->buffers[a->buffer_index] = NULL;
  return NULL;
}
ENTRY(AsyncHostToDeviceTransferManager_Device) { a->device_out = a->transfer_manager->device; return NULL; }
ENTRY(AsyncHostToDeviceTransferManager_BufferCount) { a->buffer_count = (size_t)a->transfer_manager->count; return NULL; }
ENTRY(AsyncHostToDeviceTransferManager_BufferSize) {
  PJRT_Error *error = check(a->transfer_manager, a->buffer_index);
  if (error == NULL) a->buffer_size = a->transfer_manager->sizes[a->buffer_index];
  return error;
}
ENTRY(AsyncHostToDeviceTransferManager_SetBufferError) {
  PJRT_Error *error = check(a->transfer_manager, a->buffer_index);
  if (error == NULL) finish(a->transfer_manager->ready[a->buffer_index], a->error_code);
  return error;
}
ENTRY(AsyncHostToDeviceTransferManager_AddMetadata) {
  for (size_t i = 0; i < a->num_metadata; i++)
    if (a->transfer_metadata[i].name_size == 0) return fail(3, "metadata without a name");
  return NULL;
}
