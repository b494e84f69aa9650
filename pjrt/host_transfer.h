// Transfers between the host and a running program: callbacks that a plugin calls for what the program
// sends and receives, and the chunks that go into what it receives.
#ifndef XLA_GO_PJRT_HOST_TRANSFER_H_
#define XLA_GO_PJRT_HOST_TRANSFER_H_

#include "calls.h"

// What Go answers to a callback: message is of malloc(), NULL for code 0.
typedef struct {
  int code;
  char *message;
  size_t message_size;
} xg_outcome;

// The transfers of a run, for each device num_sends and then num_receives. ids are those of
// host_transfer.go.
typedef struct xg_host_transfers {
  size_t num_sends, num_receives;
  const int64_t *channels;
  const uintptr_t *ids;
} xg_host_transfers;

// The lists that PJRT_ExecuteOptions takes, which the run needs no longer than the call; free() gives
// all of it back. NULL where there are none.
void *xg_transfer_lists(const xg_host_transfers *transfers, size_t num_devices, PJRT_ExecuteOptions *options);

// Copies bytes into a chunk for the stream. On failure the chunk is freed.
xg_result xg_add_chunk(const PJRT_Api *api, PJRT_CopyToDeviceStream *stream, const void *data, size_t size,
                       PJRT_Event **event);

#endif
