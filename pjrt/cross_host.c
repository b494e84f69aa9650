#include "cross_host.h"

#include <stdlib.h>
#include <string.h>

// Go's side (cross_host_descriptor.go).
extern void xgReceiveReady(uintptr_t handle, PJRT_Error *error, char **descriptors, size_t *sizes, size_t n,
                           uintptr_t cancel, uintptr_t cancel_arg);
extern void xgReceiveCancelled(uintptr_t handle, PJRT_Error *error);
extern void xgRemoteSent(uintptr_t handle, PJRT_Error *error, bool enqueued);

static void on_ready(PJRT_Error *error, const char **descriptors, size_t *sizes, size_t n, void *handle,
                     PJRT_Transfers_CrossHostSendCancelNotifier cancel, void *cancel_arg) {
  xgReceiveReady((uintptr_t)handle, error, (char **)descriptors, sizes, n, (uintptr_t)cancel, (uintptr_t)cancel_arg);
}

xg_result xg_make_receive_buffers(const PJRT_Api *api, PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args *args,
                                  uintptr_t handle) {
  args->notifier.notifier = on_ready;
  args->notifier.user_arg = (void *)handle;
  return xg_call_extension(api, XF_PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers, args);
}

static void on_cancelled(PJRT_Error *error, void *handle) { xgReceiveCancelled((uintptr_t)handle, error); }

void xg_cancel_receive(uintptr_t cancel, uintptr_t cancel_arg, const char *descriptor, size_t size, int code,
                       const char *message, size_t message_size, uintptr_t handle) {
  PJRT_Transfers_CrossHostSendCancelNotifier f = (PJRT_Transfers_CrossHostSendCancelNotifier)cancel;
  f(descriptor, size, code, message, message_size, on_cancelled, (void *)handle, (void *)cancel_arg);
}

static void on_sent(PJRT_Error *error, bool enqueued, void *handle) { xgRemoteSent((uintptr_t)handle, error, enqueued); }

static void free_descriptor(char **descriptor, size_t *size) {
  free(*descriptor);
  free(descriptor);
  free(size);
}

xg_result xg_copy_to_remote(const PJRT_Api *api, PJRT_Buffer *buffer, const void *descriptor, size_t size,
                            uintptr_t handle) {
  char **copy = malloc(sizeof(*copy));
  size_t *copy_size = malloc(sizeof(*copy_size));
  *copy = malloc(size + 1);
  memcpy(*copy, descriptor, size);
  *copy_size = size;
  PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args args = {
      .struct_size = S_PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args, .buffer = buffer,
      .serialized_descriptor = copy, .serialized_descriptor_size = copy_size,
      .on_done = {(void *)handle, on_sent}, .descriptor_destructor = free_descriptor};
  xg_result r = xg_call_extension_void(api, XF_PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice, &args);
  if (r.missing != 0) free_descriptor(copy, copy_size);
  return r;
}
