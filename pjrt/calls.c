#include "extensions.h"
#include "host_transfer.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

// Go's side of the callbacks (callback.go).
extern void xgEventReady(PJRT_Error *error, uintptr_t handle);
extern void xgViewDeleted(uintptr_t handle);

void *xg_open(const char *path, char **message) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char *text = dlerror();
    *message = strdup(text != NULL ? text : "dlopen gave no reason");
  }
  return library;
}

const PJRT_Api *xg_get_api(void *library, bool *found) {
  const PJRT_Api *(*get)(void);
  *(void **)&get = dlsym(library, "GetPjrtApi");
  *found = get != NULL;
  return get != NULL ? get() : NULL;
}

static const char *const function_names[] = {
#define PJRT_NAME(name) "PJRT_" #name,
    PJRT_FUNCTIONS(PJRT_NAME)
#undef PJRT_NAME
};

const char *xg_function_name(int function) {
  return function >= 0 && function < FN_COUNT ? function_names[function] : "PJRT_unknown";
}

static void *lookup(const PJRT_Api *api, int function) {
  size_t end = offsetof(PJRT_Api, functions) + ((size_t)function + 1) * sizeof(void *);
  return end <= api->struct_size ? api->functions[function] : NULL;
}

typedef PJRT_Error *(*returning_function)(void *args);
typedef void (*void_function)(void *args);

xg_result xg_call(const PJRT_Api *api, int function, void *args) {
  xg_result result = {NULL, 0};
  returning_function f;
  *(void **)&f = lookup(api, function);
  if (f == NULL) {
    result.missing = function + 1;
    return result;
  }
  result.error = f(args);
  return result;
}

static bool failed(xg_result r) { return r.error != NULL || r.missing != 0; }

int xg_error_code(const PJRT_Api *api, PJRT_Error *error) {
  PJRT_Error_GetCode_Args args = {.struct_size = S_PJRT_Error_GetCode_Args, .error = error};
  xg_result r = xg_call(api, FN_Error_GetCode, &args);
  if (failed(r)) {
    if (r.error != NULL) xg_error_destroy(api, r.error);
    return 2;  // UNKNOWN
  }
  return args.code;
}

const char *xg_error_message(const PJRT_Api *api, PJRT_Error *error, size_t *size) {
  PJRT_Error_Message_Args args = {.struct_size = S_PJRT_Error_Message_Args, .error = error};
  void_function f;
  *(void **)&f = lookup(api, FN_Error_Message);
  *size = 0;
  if (f == NULL) return NULL;
  f(&args);
  *size = args.message_size;
  return args.message;
}

void xg_error_destroy(const PJRT_Api *api, PJRT_Error *error) {
  PJRT_Error_Destroy_Args args = {.struct_size = S_PJRT_Error_Destroy_Args, .error = error};
  void_function f;
  *(void **)&f = lookup(api, FN_Error_Destroy);
  if (f != NULL) f(&args);
}

static void on_ready(PJRT_Error *error, void *handle) { xgEventReady(error, (uintptr_t)handle); }

xg_result xg_event_on_ready(const PJRT_Api *api, PJRT_Event *event, uintptr_t handle) {
  PJRT_Event_OnReady_Args args = {.struct_size = S_PJRT_Event_OnReady_Args, .event = event};
  args.callback = on_ready;
  args.user_arg = (void *)handle;
  return xg_call(api, FN_Event_OnReady, &args);
}

xg_result xg_event_await(const PJRT_Api *api, PJRT_Event *event) {
  PJRT_Event_Await_Args args = {.struct_size = S_PJRT_Event_Await_Args, .event = event};
  return xg_call(api, FN_Event_Await, &args);
}

xg_result xg_event_destroy(const PJRT_Api *api, PJRT_Event *event) {
  PJRT_Event_Destroy_Args args = {.struct_size = S_PJRT_Event_Destroy_Args, .event = event};
  return xg_call(api, FN_Event_Destroy, &args);
}

// Drops an event whose failure to be destroyed nobody could act on.
static void drop_event(const PJRT_Api *api, PJRT_Event *event) {
  xg_result r = xg_event_destroy(api, event);
  if (r.error != NULL) xg_error_destroy(api, r.error);
}

static xg_result is_ready(const PJRT_Api *api, PJRT_Event *event, bool *ready) {
  PJRT_Event_IsReady_Args args = {.struct_size = S_PJRT_Event_IsReady_Args, .event = event};
  xg_result r = xg_call(api, FN_Event_IsReady, &args);
  *ready = !failed(r) && args.is_ready;
  return r;
}

static xg_result event_error(const PJRT_Api *api, PJRT_Event *event) {
  PJRT_Event_Error_Args args = {.struct_size = S_PJRT_Event_Error_Args, .event = event};
  return xg_call(api, FN_Event_Error, &args);
}

xg_poll_result xg_buffer_poll(const PJRT_Api *api, PJRT_Buffer *buffer, bool address) {
  xg_poll_result poll = {{NULL, 0}, 0, false};
  PJRT_Buffer_ReadyEvent_Args args = {.struct_size = S_PJRT_Buffer_ReadyEvent_Args, .buffer = buffer};
  poll.result = xg_call(api, FN_Buffer_ReadyEvent, &args);
  if (failed(poll.result)) return poll;
  poll.result = is_ready(api, args.event, &poll.ready);
  if (poll.ready) poll.result = event_error(api, args.event);
  drop_event(api, args.event);
  if (poll.ready && address && !failed(poll.result)) {
    PJRT_Buffer_UnsafePointer_Args pointer = {.struct_size = S_PJRT_Buffer_UnsafePointer_Args, .buffer = buffer};
    poll.result = xg_call(api, FN_Buffer_UnsafePointer, &pointer);
    poll.address = pointer.buffer_pointer;
  }
  return poll;
}

xg_result xg_buffer_reference(const PJRT_Api *api, PJRT_Buffer *buffer, bool up) {
  PJRT_Buffer_IncreaseExternalReferenceCount_Args args = {
      .struct_size = S_PJRT_Buffer_IncreaseExternalReferenceCount_Args, .buffer = buffer};
  return xg_call(api, up ? FN_Buffer_IncreaseExternalReferenceCount : FN_Buffer_DecreaseExternalReferenceCount, &args);
}

xg_poll_result xg_buffer_lend(const PJRT_Api *api, PJRT_Buffer *buffer) {
  xg_poll_result poll = xg_buffer_poll(api, buffer, false);
  if (!poll.ready || failed(poll.result)) return poll;
  poll.result = xg_buffer_reference(api, buffer, true);
  if (failed(poll.result)) return poll;
  PJRT_Buffer_UnsafePointer_Args pointer = {.struct_size = S_PJRT_Buffer_UnsafePointer_Args, .buffer = buffer};
  poll.result = xg_call(api, FN_Buffer_UnsafePointer, &pointer);
  poll.address = pointer.buffer_pointer;
  if (failed(poll.result)) {
    xg_result r = xg_buffer_reference(api, buffer, false);
    if (r.error != NULL) xg_error_destroy(api, r.error);
  }
  return poll;
}

xg_poll_result xg_buffer_read(const PJRT_Api *api, PJRT_Buffer *buffer, void *dst, size_t size) {
  xg_poll_result poll = xg_buffer_lend(api, buffer);
  if (!poll.ready || failed(poll.result)) return poll;
  memcpy(dst, (const void *)poll.address, size);
  poll.result = xg_buffer_reference(api, buffer, false);
  return poll;
}

xg_result xg_buffer_await(const PJRT_Api *api, PJRT_Buffer *buffer) {
  PJRT_Buffer_ReadyEvent_Args args = {.struct_size = S_PJRT_Buffer_ReadyEvent_Args, .buffer = buffer};
  xg_result r = xg_call(api, FN_Buffer_ReadyEvent, &args);
  if (failed(r)) return r;
  r = xg_event_await(api, args.event);
  drop_event(api, args.event);
  return r;
}

xg_result xg_buffers_destroy(const PJRT_Api *api, const uintptr_t *buffers, size_t count) {
  xg_result first = {NULL, 0};
  for (size_t i = 0; i < count; i++) {
    PJRT_Buffer_Destroy_Args args = {.struct_size = S_PJRT_Buffer_Destroy_Args, .buffer = (PJRT_Buffer *)buffers[i]};
    xg_result r = xg_call(api, FN_Buffer_Destroy, &args);
    if (!failed(first)) {
      first = r;
    } else if (r.error != NULL) {
      xg_error_destroy(api, r.error);
    }
  }
  return first;
}

xg_result xg_buffer_from_host(const PJRT_Api *api, PJRT_Client *client, uintptr_t address, const void *data,
                              int type, const int64_t *dims, size_t num_dims, const int64_t *byte_strides,
                              int semantics, PJRT_Device *device, PJRT_Memory *memory, PJRT_Event **done,
                              PJRT_Buffer **buffer) {
  PJRT_Client_BufferFromHostBuffer_Args args = {.struct_size = S_PJRT_Client_BufferFromHostBuffer_Args};
  args.client = client;
  args.data = data != NULL ? data : (const void *)address;
  args.type = type;
  args.dims = dims;
  args.num_dims = num_dims;
  args.byte_strides = byte_strides;
  args.num_byte_strides = byte_strides != NULL ? num_dims : 0;
  args.host_buffer_semantics = semantics;
  args.device = device;
  args.memory = memory;
  *done = NULL;
  *buffer = NULL;
  xg_result r = xg_call(api, FN_Client_BufferFromHostBuffer, &args);
  if (failed(r)) return r;
  *buffer = args.buffer;
  if (args.done_with_host_buffer == NULL) return r;
  if (semantics != HOST_IMMUTABLE_ONLY_DURING_CALL) {
    *done = args.done_with_host_buffer;
    return r;
  }
  // The plugin promised to be done by now; what the event still says is a failed copy.
  bool ready;
  r = is_ready(api, args.done_with_host_buffer, &ready);
  if (ready) r = event_error(api, args.done_with_host_buffer);
  else if (!failed(r)) r = xg_event_await(api, args.done_with_host_buffer);
  drop_event(api, args.done_with_host_buffer);
  return r;
}

xg_result xg_buffer_start_to_host(const PJRT_Api *api, PJRT_Buffer *buffer, size_t rank, uintptr_t address, void *dst,
                                  size_t dst_size, PJRT_Event **event) {
  // Without a layout a plugin gives its own order of dimensions.
  int64_t few[16];
  int64_t *minor_to_major = rank <= 16 ? few : malloc(rank * sizeof(int64_t));
  for (size_t i = 0; i < rank; i++) minor_to_major[i] = (int64_t)(rank - 1 - i);
  PJRT_Buffer_MemoryLayout layout = {.struct_size = S_PJRT_Buffer_MemoryLayout, .type = LAYOUT_TILED};
  layout.tiled = (PJRT_Buffer_MemoryLayout_Tiled){.struct_size = S_PJRT_Buffer_MemoryLayout_Tiled};
  layout.tiled.minor_to_major = minor_to_major;
  layout.tiled.minor_to_major_size = rank;
  PJRT_Buffer_ToHostBuffer_Args args = {.struct_size = S_PJRT_Buffer_ToHostBuffer_Args, .src = buffer};
  args.host_layout = &layout;
  args.dst = dst != NULL ? dst : (void *)address;
  args.dst_size = dst_size;
  xg_result r = xg_call(api, FN_Buffer_ToHostBuffer, &args);
  *event = failed(r) ? NULL : args.event;
  if (minor_to_major != few) free(minor_to_major);
  return r;
}

xg_result xg_buffer_to_host(const PJRT_Api *api, PJRT_Buffer *buffer, size_t rank, uintptr_t address, void *dst,
                            size_t dst_size) {
  PJRT_Event *event;
  xg_result r = xg_buffer_start_to_host(api, buffer, rank, address, dst, dst_size, &event);
  if (failed(r) || event == NULL) return r;
  r = xg_event_await(api, event);
  drop_event(api, event);
  return r;
}

static void on_view_deleted(void *address, void *handle) {
  (void)address;
  if (handle != NULL) xgViewDeleted((uintptr_t)handle);
}

xg_result xg_buffer_view(const PJRT_Api *api, PJRT_Client *client, uintptr_t address, int type, const int64_t *dims,
                         size_t num_dims, PJRT_Device *device, uintptr_t handle, PJRT_Buffer **buffer) {
  PJRT_Client_CreateViewOfDeviceBuffer_Args args = {.struct_size = S_PJRT_Client_CreateViewOfDeviceBuffer_Args};
  args.client = client;
  args.device_buffer_ptr = (void *)address;
  args.dims = dims;
  args.num_dims = num_dims;
  args.element_type = type;
  args.device = device;
  args.on_delete_callback = on_view_deleted;  // always: plugins call it without looking
  args.on_delete_callback_arg = (void *)handle;
  xg_result r = xg_call(api, FN_Client_CreateViewOfDeviceBuffer, &args);
  *buffer = failed(r) ? NULL : args.buffer;
  return r;
}

xg_result xg_execute(const PJRT_Api *api, PJRT_LoadedExecutable *executable, PJRT_Buffer *const *arguments,
                     size_t num_arguments, PJRT_Buffer **outputs, size_t num_outputs, size_t num_devices,
                     PJRT_Device *device, int launch_id, const int64_t *kept, size_t num_kept,
                     PJRT_ExecuteContext *context, const xg_host_transfers *transfers, PJRT_Event **events) {
  enum { FEW = 32 };
  PJRT_Buffer *const *few_arguments[FEW];
  PJRT_Buffer **few_outputs[FEW];
  PJRT_Buffer *const **argument_lists = num_devices <= FEW ? few_arguments : malloc(num_devices * sizeof(void *));
  PJRT_Buffer ***output_lists = num_devices <= FEW ? few_outputs : malloc(num_devices * sizeof(void *));
  for (size_t i = 0; i < num_devices; i++) {
    argument_lists[i] = arguments + i * num_arguments;
    output_lists[i] = outputs + i * num_outputs;
    events[i] = NULL;
  }
  PJRT_ExecuteOptions options = {.struct_size = S_PJRT_ExecuteOptions, .launch_id = launch_id};
  options.non_donatable_input_indices = kept;
  options.num_non_donatable_input_indices = num_kept;
  options.context = context;
  void *lists = xg_transfer_lists(transfers, num_devices, &options);
  PJRT_LoadedExecutable_Execute_Args args = {.struct_size = S_PJRT_LoadedExecutable_Execute_Args};
  args.executable = executable;
  args.options = &options;
  args.argument_lists = argument_lists;
  args.num_devices = num_devices;
  args.num_args = num_arguments;
  args.output_lists = output_lists;
  args.device_complete_events = events;
  args.execute_device = device;
  xg_result r = xg_call(api, FN_LoadedExecutable_Execute, &args);
  free(lists);
  for (size_t i = 0; i < num_devices && !failed(r); i++) {
    if (events[i] == NULL) continue;
    bool ready;
    xg_result state = is_ready(api, events[i], &ready);
    if (ready) state = event_error(api, events[i]);
    // A failed run keeps its event, so that the failure is told in the same way as a later one.
    if (ready && !failed(state)) {
      drop_event(api, events[i]);
      events[i] = NULL;
    } else if (state.error != NULL) {
      xg_error_destroy(api, state.error);
    }
  }
  if (num_devices > FEW) {
    free(argument_lists);
    free(output_lists);
  }
  return r;
}
