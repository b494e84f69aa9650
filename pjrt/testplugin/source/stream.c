// Transfers between a running program and the host.
#include "testplugin.h"

enum { GRANULE = 4 };

struct PJRT_CopyToDeviceStream {
  int holders;  // who got it, and the chunks under way
  PJRT_Client *client;
  storage *storage;
  state *full;
  int64_t current;
};

static void free_bytes(void *bytes, void *argument) {
  (void)argument;
  free(bytes);
}

storage *new_bytes(PJRT_Client *client, size_t size) {
  storage *s = calloc(1, sizeof(*s));
  *s = (storage){.client = client, .holders = 1, .size = size, .bytes = calloc(1, size + 1), .on_delete = free_bytes};
  return s;
}

PJRT_CopyToDeviceStream *new_stream(PJRT_Client *client, storage *s, state *full) {
  PJRT_CopyToDeviceStream *stream = make(LIVE_OTHERS, sizeof(*stream));
  *stream = (PJRT_CopyToDeviceStream){1, client, hold_storage(s), retain(full), 0};
  if (s->size == 0) finish(full, 0);
  return stream;
}

static void drop_stream(PJRT_CopyToDeviceStream *s) {
  if (__atomic_sub_fetch(&s->holders, 1, __ATOMIC_ACQ_REL) != 0) return;
  finish(s->full, 1);  // CANCELLED where something is missing
  drop_storage(s->storage);
  release(s->full);
  unmake(LIVE_OTHERS, s);
}

ENTRY(CopyToDeviceStream_Destroy) { drop_stream(a->stream); return NULL; }
ENTRY(CopyToDeviceStream_TotalBytes) { a->total_bytes = (int64_t)a->stream->storage->size; return NULL; }
ENTRY(CopyToDeviceStream_GranuleSize) { a->granule_size_in_bytes = GRANULE; return NULL; }
ENTRY(CopyToDeviceStream_CurrentBytes) { a->current_bytes = a->stream->current; return NULL; }

typedef struct { PJRT_CopyToDeviceStream *stream; PJRT_Chunk chunk; char *to; bool last; } adding;
static int do_add(void *argument) {
  adding *d = argument;
  memcpy(d->to, d->chunk.data, d->chunk.size);
  return 0;
}
static void drop_adding(void *argument) {
  adding *d = argument;
  if (d->chunk.deleter != NULL) d->chunk.deleter(d->chunk.data, d->chunk.deleter_arg);
}
static void added(int code, void *argument) {
  adding *d = argument;
  if (code != 0 || d->last) finish(d->stream->full, code);
  drop_stream(d->stream);
  free(d);
}

ENTRY(CopyToDeviceStream_AddChunk) {
  PJRT_CopyToDeviceStream *s = a->stream;
  adding *d = malloc(sizeof(*d));
  *d = (adding){s, *a->chunk, NULL, false};
  state *done = new_state();
  a->transfer_complete = new_event(done);
  int64_t size = (int64_t)a->chunk->size, total = (int64_t)s->storage->size;
  if (s->current + size > total || size % GRANULE != 0) {
    drop_adding(d);
    free(d);
    finish(done, s->current + size > total ? 11 : 3);
    release(done);
    return NULL;
  }
  d->to = s->storage->bytes + s->current;
  s->current += size;
  d->last = s->current == total;
  __atomic_add_fetch(&s->holders, 1, __ATOMIC_ACQ_REL);
  when_done(done, added, d);
  start(s->client, (job){.entry = FN_CopyToDeviceStream_AddChunk, .delay_ms = options.delay_ms, .work = do_add, .drop = drop_adding, .argument = d, .done = done});
  release(done);
  return NULL;
}

static PJRT_Error *make_error(int code, const char *message, size_t size) { return fail(code, "%.*s", (int)size, message); }
static void free_chunk(void *data, void *argument) {
  (void)argument;
  unmake(LIVE_OTHERS, data);
}

// In two chunks.
int send_to_host(const PJRT_SendCallbackInfo *to, const char *bytes, size_t size) {
  PJRT_CallbackError callback_error = make_error;
  for (size_t at = 0, half = size / 2; at < size; at += half, half = size - half) {
    char *data = make(LIVE_OTHERS, half);
    memcpy(data, bytes + at, half);
    PJRT_Chunk chunk = {data, half, free_chunk, NULL};
    PJRT_Error *error = to->send_callback(&chunk, &callback_error, size, at + half == size, to->user_arg);
    if (error == NULL) continue;
    int code = error->code;
    unmake(LIVE_ERRORS, error);
    return code;
  }
  return 0;
}
