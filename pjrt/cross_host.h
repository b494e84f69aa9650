// The older way of sending buffers between processes, with descriptors and callbacks.
#ifndef XLA_GO_PJRT_CROSS_HOST_H_
#define XLA_GO_PJRT_CROSS_HOST_H_

#include "extensions.h"

// Fills in the callback, which goes to Go with handle, and calls the plugin.
xg_result xg_make_receive_buffers(const PJRT_Api *api, PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args *args,
                                  uintptr_t handle);
// Gives up a transfer that was promised by a descriptor; Go is told with handle.
void xg_cancel_receive(uintptr_t cancel, uintptr_t cancel_arg, const char *descriptor, size_t size, int code,
                       const char *message, size_t message_size, uintptr_t handle);
// Sends a buffer to where the descriptor, which is copied, came from; Go is told with handle.
xg_result xg_copy_to_remote(const PJRT_Api *api, PJRT_Buffer *buffer, const void *descriptor, size_t size,
                            uintptr_t handle);

#endif
