// Calls into a plugin. All of them go through xg_call or a helper built on it, which look the
// function up in the plugin's table and never jump past the table's end or through NULL.
//
// The helpers that bundle several calls exist so that a hot operation costs one crossing from Go.
#ifndef XLA_GO_PJRT_CALLS_H_
#define XLA_GO_PJRT_CALLS_H_

#include "pjrt_abi.h"

// missing is 1 + the position of the function that the plugin lacks (extensions.h: behind FN_COUNT those of
// extensions), 0 where it has all; error is
// the plugin's own error (owned by the receiver) or NULL. At most one of them is set.
typedef struct {
  PJRT_Error *error;
  int missing;
} xg_result;

// Opens a library. On failure gives NULL and a message to free() in *message.
void *xg_open(const char *path, char **message);
// Finds GetPjrtApi and calls it; NULL where the library has no such symbol.
const PJRT_Api *xg_get_api(void *library, bool *found);

const char *xg_function_name(int function);
xg_result xg_call(const PJRT_Api *api, int function, void *args);

// Errors. xg_error_message's text lives as long as the error.
int xg_error_code(const PJRT_Api *api, PJRT_Error *error);
const char *xg_error_message(const PJRT_Api *api, PJRT_Error *error, size_t *size);
void xg_error_destroy(const PJRT_Api *api, PJRT_Error *error);

// Events. handle comes back as the argument of the Go callback.
xg_result xg_event_on_ready(const PJRT_Api *api, PJRT_Event *event, uintptr_t handle);
xg_result xg_event_await(const PJRT_Api *api, PJRT_Event *event);
xg_result xg_event_destroy(const PJRT_Api *api, PJRT_Event *event);

// Whether a buffer is ready, and its address if it is and address is asked for. result.error is
// the error that the value failed with where ready is true, else a failure of the question itself.
typedef struct {
  xg_result result;
  uintptr_t address;
  bool ready;
} xg_poll_result;
xg_poll_result xg_buffer_poll(const PJRT_Api *api, PJRT_Buffer *buffer, bool address);

// As xg_buffer_poll with the address, and takes an external reference where the value is ready.
xg_poll_result xg_buffer_lend(const PJRT_Api *api, PJRT_Buffer *buffer);

// Takes (up) or gives back an external reference.
xg_result xg_buffer_reference(const PJRT_Api *api, PJRT_Buffer *buffer, bool up);

// Copies size bytes of a value out of memory that the CPU can read, holding an external reference
// meanwhile. Copies nothing where the value is not ready.
xg_poll_result xg_buffer_read(const PJRT_Api *api, PJRT_Buffer *buffer, void *dst, size_t size);

// Waits for a buffer; the error is the one that the value failed with.
xg_result xg_buffer_await(const PJRT_Api *api, PJRT_Buffer *buffer);

// Destroys count buffers and goes on after a failure; gives the first failure and frees the others.
xg_result xg_buffers_destroy(const PJRT_Api *api, const uintptr_t *buffers, size_t count);

// Queues an upload. *done is NULL where the plugin no longer reads data when the call returns.
xg_result xg_buffer_from_host(const PJRT_Api *api, PJRT_Client *client, uintptr_t address, const void *data,
                              int type, const int64_t *dims, size_t num_dims, const int64_t *byte_strides,
                              int semantics, PJRT_Device *device, PJRT_Memory *memory, PJRT_Event **done,
                              PJRT_Buffer **buffer);

// Copies to host memory in row-major order and waits.
xg_result xg_buffer_to_host(const PJRT_Api *api, PJRT_Buffer *buffer, size_t rank, uintptr_t address, void *dst,
                            size_t dst_size);

// Wraps foreign memory; on_delete calls Go with handle, unless handle is 0.
xg_result xg_buffer_view(const PJRT_Api *api, PJRT_Client *client, uintptr_t address, int type, const int64_t *dims,
                         size_t num_dims, PJRT_Device *device, uintptr_t handle, PJRT_Buffer **buffer);

// Queues a run on num_devices devices. arguments and outputs are [num_devices][n], flat; events has
// num_devices places. events[i] comes back NULL where device i has already finished without error.
// device may be NULL; it says where a program that is not bound to a device runs. kept are the
// arguments that the run must not consume although the program donates them. transfers may be NULL.
struct xg_host_transfers;
xg_result xg_execute(const PJRT_Api *api, PJRT_LoadedExecutable *executable, PJRT_Buffer *const *arguments,
                     size_t num_arguments, PJRT_Buffer **outputs, size_t num_outputs, size_t num_devices,
                     PJRT_Device *device, int launch_id, const int64_t *kept, size_t num_kept,
                     PJRT_ExecuteContext *context, const struct xg_host_transfers *transfers, PJRT_Event **events);

#endif
