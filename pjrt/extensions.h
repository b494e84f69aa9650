// Calls through a plugin's extensions, and of function pointers that a plugin hands out. As in
// calls.h, nothing is called that lies behind the end of an extension as the plugin has it.
#ifndef XLA_GO_PJRT_EXTENSIONS_H_
#define XLA_GO_PJRT_EXTENSIONS_H_

#include "calls.h"

// Lists the extensions and gives how many there are. A list that comes back to itself or has an entry
// too short for its head ends there, and so does one of more than MOST_EXTENSIONS.
enum { MOST_EXTENSIONS = 64 };
size_t xg_extensions(const PJRT_Api *api, const PJRT_Extension_Base **list);
// The extension of a type, NULL where the plugin has none.
const PJRT_Extension_Base *xg_extension(const PJRT_Api *api, int type);

// Calls an extension's function (XF_...). result.missing is FN_COUNT + 1 + function where the
// plugin lacks it.
xg_result xg_call_extension(const PJRT_Api *api, int function, void *args);
xg_result xg_call_extension_void(const PJRT_Api *api, int function, void *args);  // of one that gives nothing
bool xg_has_extension_function(const PJRT_Api *api, int function);
const char *xg_extension_function_name(int function);

// Whether the extension for custom calls on GPUs looks at their traits.
bool xg_custom_calls_have_traits(const PJRT_Api *api);

// The profiler has a table and errors of its own. On failure *error is set; found is false where the
// plugin has no such function. position counts the pointers behind PLUGIN_Profiler_Api.priv.
typedef struct {
  PLUGIN_Profiler_Error *error;
  bool found;
} xg_profiler_result;
enum { PROFILER_CREATE = 3, PROFILER_DESTROY, PROFILER_START, PROFILER_STOP, PROFILER_COLLECT };
xg_profiler_result xg_profiler_call(const PJRT_Api *api, int position, void *args);
// Reads and destroys an error; message must be given to free().
int xg_profiler_error(const PJRT_Api *api, PLUGIN_Profiler_Error *error, char **message, size_t *size);

// Function pointers that free what a plugin gave, or tell it that something is ready.
void xg_delete(void *deleter, void *object);
void xg_raw_copy_ready(PJRT_Buffer_CopyRawToHostFuture_Args *future, int code, const char *message, size_t size,
                       uintptr_t dst);
void xg_dependency_ready(void *callback, void *data, int code, const char *message, size_t size);

// Gives every payload of an error to Go, with handle.
xg_result xg_error_payloads(const PJRT_Api *api, PJRT_Error *error, uintptr_t handle);

// Starts a copy to host memory in row-major order; *event is NULL where it is done.
xg_result xg_buffer_start_to_host(const PJRT_Api *api, PJRT_Buffer *buffer, size_t rank, uintptr_t address, void *dst,
                                  size_t dst_size, PJRT_Event **event);

#endif
