#include "host_transfer.h"

#include <stdlib.h>
#include <string.h>

// Go's side (host_transfer.go).
extern void xgSent(uintptr_t id, void *data, size_t size, size_t total, bool last, xg_outcome *outcome);
extern void xgReceiving(uintptr_t id, PJRT_CopyToDeviceStream *stream);

static PJRT_Error *on_send(PJRT_Chunk *chunk, PJRT_CallbackError *callback_error, size_t total, bool last, void *id) {
  xg_outcome outcome = {0};
  xgSent((uintptr_t)id, chunk->data, chunk->size, total, last, &outcome);
  if (chunk->deleter != NULL) chunk->deleter(chunk->data, chunk->deleter_arg);
  PJRT_Error *error = NULL;
  if (outcome.code != 0) error = (*callback_error)(outcome.code, outcome.message, outcome.message_size);
  free(outcome.message);
  return error;
}

static void on_receive(PJRT_CopyToDeviceStream *stream, void *id) { xgReceiving((uintptr_t)id, stream); }

void *xg_transfer_lists(const xg_host_transfers *transfers, size_t num_devices, PJRT_ExecuteOptions *options) {
  if (transfers == NULL || num_devices == 0) return NULL;
  size_t sends = transfers->num_sends, receives = transfers->num_receives;
  size_t send_size = sends * sizeof(PJRT_SendCallbackInfo), receive_size = receives * sizeof(PJRT_RecvCallbackInfo);
  char *memory = malloc(num_devices * (2 * sizeof(void *) + send_size + receive_size));
  PJRT_SendCallbackInfo **send_lists = (PJRT_SendCallbackInfo **)memory;
  PJRT_RecvCallbackInfo **receive_lists = (PJRT_RecvCallbackInfo **)(send_lists + num_devices);
  char *infos = (char *)(receive_lists + num_devices);
  const int64_t *channel = transfers->channels;
  const uintptr_t *id = transfers->ids;
  for (size_t d = 0; d < num_devices; d++) {
    send_lists[d] = (PJRT_SendCallbackInfo *)infos;
    receive_lists[d] = (PJRT_RecvCallbackInfo *)(infos + send_size);
    infos += send_size + receive_size;
    for (size_t i = 0; i < sends; i++) send_lists[d][i] = (PJRT_SendCallbackInfo){*channel++, (void *)*id++, on_send};
    for (size_t i = 0; i < receives; i++) receive_lists[d][i] = (PJRT_RecvCallbackInfo){*channel++, (void *)*id++, on_receive};
  }
  options->send_callbacks = (void **)send_lists;
  options->recv_callbacks = (void **)receive_lists;
  options->num_send_ops = sends;
  options->num_recv_ops = receives;
  return memory;
}

// A chunk's memory, with a holder in the caller and one in the plugin: a call that fails may have
// taken the chunk or not.
typedef struct {
  int holders;
  bool deleted;
  char bytes[];
} chunk_memory;

static void drop(chunk_memory *m) {
  if (__atomic_sub_fetch(&m->holders, 1, __ATOMIC_ACQ_REL) == 0) free(m);
}

static void on_delete(void *data, void *memory) {
  (void)data;
  chunk_memory *m = memory;
  if (!__atomic_exchange_n(&m->deleted, true, __ATOMIC_ACQ_REL)) drop(m);
}

xg_result xg_add_chunk(const PJRT_Api *api, PJRT_CopyToDeviceStream *stream, const void *data, size_t size,
                       PJRT_Event **event) {
  chunk_memory *m = malloc(sizeof(*m) + size);
  m->holders = 2;
  m->deleted = false;
  if (size > 0) memcpy(m->bytes, data, size);
  PJRT_Chunk chunk = {m->bytes, size, on_delete, m};
  PJRT_CopyToDeviceStream_AddChunk_Args args = {
      .struct_size = S_PJRT_CopyToDeviceStream_AddChunk_Args, .stream = stream, .chunk = &chunk};
  xg_result r = xg_call(api, FN_CopyToDeviceStream_AddChunk, &args);
  bool failed = r.error != NULL || r.missing != 0;
  *event = failed ? NULL : args.transfer_complete;
  if (failed) on_delete(m->bytes, m);
  drop(m);
  return r;
}
