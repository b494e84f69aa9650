#include "extensions.h"

#include <stdlib.h>
#include <string.h>

// Go's side of the callback (callback.go).
extern void xgErrorPayload(uintptr_t handle, char *key, size_t key_size, char *value, size_t value_size);

static const struct {
  int type, position;
  const char *name;
} extension_functions[] = {
#define PJRT_ROW(owner, type, position, function) {type, position, #owner "." #function},
    PJRT_EXTENSION_FUNCTIONS(PJRT_ROW)
#undef PJRT_ROW
};

size_t xg_extensions(const PJRT_Api *api, const PJRT_Extension_Base **list) {
  size_t n = 0;
  for (const PJRT_Extension_Base *e = api->extension_start; e != NULL && e->struct_size >= sizeof(*e) && n < MOST_EXTENSIONS; e = e->next) {
    for (size_t i = 0; i < n; i++)
      if (list[i] == e) return n;
    list[n++] = e;
  }
  return n;
}

const PJRT_Extension_Base *xg_extension(const PJRT_Api *api, int type) {
  int left = MOST_EXTENSIONS;
  for (const PJRT_Extension_Base *e = api->extension_start; e != NULL && e->struct_size >= sizeof(*e) && left-- > 0; e = e->next)
    if (e->type == type) return e;
  return NULL;
}

static void *find(const PJRT_Api *api, int function) {
  const PJRT_Extension_Base *e = xg_extension(api, extension_functions[function].type);
  if (e == NULL) return NULL;
  size_t offset = sizeof(PJRT_Extension_Base) + (size_t)extension_functions[function].position * sizeof(void *);
  return offset + sizeof(void *) <= e->struct_size ? *(void *const *)((const char *)e + offset) : NULL;
}

bool xg_has_extension_function(const PJRT_Api *api, int function) { return find(api, function) != NULL; }

const char *xg_extension_function_name(int function) {
  return function >= 0 && function < XF_COUNT ? extension_functions[function].name : "PJRT_unknown";
}

xg_result xg_call_extension(const PJRT_Api *api, int function, void *args) {
  xg_result result = {NULL, 0};
  PJRT_Error *(*f)(void *);
  *(void **)&f = find(api, function);
  if (f == NULL) {
    result.missing = FN_COUNT + 1 + function;
  } else {
    result.error = f(args);
  }
  return result;
}

xg_result xg_call_extension_void(const PJRT_Api *api, int function, void *args) {
  xg_result result = {NULL, 0};
  void (*f)(void *);
  *(void **)&f = find(api, function);
  if (f == NULL) {
    result.missing = FN_COUNT + 1 + function;
  } else {
    f(args);
  }
  return result;
}

bool xg_custom_calls_have_traits(const PJRT_Api *api) {
  const PJRT_Extension_Base *e = xg_extension(api, EXTENSION_CUSTOM_CALL);
  size_t offset = sizeof(*e) + sizeof(void *);  // behind the only function
  return e != NULL && offset + sizeof(bool) <= e->struct_size && *((const bool *)e + offset);
}

static void *find_profiler(const PJRT_Api *api, int position) {
  const PJRT_Profiler_Extension *e = (const PJRT_Profiler_Extension *)xg_extension(api, EXTENSION_PROFILER);
  if (e == NULL || e->base.struct_size < offsetof(PJRT_Profiler_Extension, profiler_api) + sizeof(void *)) return NULL;
  const PLUGIN_Profiler_Api *table = e->profiler_api;
  size_t offset = offsetof(PLUGIN_Profiler_Api, error_destroy) + (size_t)position * sizeof(void *);
  if (table == NULL || offset + sizeof(void *) > table->struct_size) return NULL;
  return *(void *const *)((const char *)table + offset);
}

xg_profiler_result xg_profiler_call(const PJRT_Api *api, int position, void *args) {
  xg_profiler_result result = {NULL, false};
  PLUGIN_Profiler_Error *(*f)(void *);
  *(void **)&f = find_profiler(api, position);
  if (f == NULL) return result;
  result.found = true;
  result.error = f(args);
  return result;
}

int xg_profiler_error(const PJRT_Api *api, PLUGIN_Profiler_Error *error, char **message, size_t *size) {
  void (*text)(void *), (*destroy)(void *);
  PLUGIN_Profiler_Error *(*get)(void *);
  *(void **)&destroy = find_profiler(api, 0);
  *(void **)&text = find_profiler(api, 1);
  *(void **)&get = find_profiler(api, 2);
  PLUGIN_Profiler_Error_Message_Args told = {.struct_size = S_PLUGIN_Profiler_Error_Message_Args, .error = error};
  PLUGIN_Profiler_Error_GetCode_Args code = {.struct_size = S_PLUGIN_Profiler_Error_GetCode_Args, .error = error};
  PLUGIN_Profiler_Error_Destroy_Args end = {.struct_size = S_PLUGIN_Profiler_Error_Destroy_Args, .error = error};
  code.code = 2;  // UNKNOWN
  if (text != NULL) text(&told);
  if (get != NULL) {
    end.error = get(&code);
    if (end.error != NULL && destroy != NULL) destroy(&end);
  }
  *message = malloc(told.message_size + 1);
  *size = told.message_size;
  if (told.message_size > 0) memcpy(*message, told.message, told.message_size);
  end.error = error;
  if (destroy != NULL) destroy(&end);
  return code.code;
}

void xg_delete(void *deleter, void *object) {
  void (*f)(void *);
  *(void **)&f = deleter;
  if (f != NULL) f(object);
}

void xg_raw_copy_ready(PJRT_Buffer_CopyRawToHostFuture_Args *future, int code, const char *message, size_t size,
                       uintptr_t dst) {
  PJRT_Buffer_CopyRawToHostFuture_Callback_Args args = {.struct_size = S_PJRT_Buffer_CopyRawToHostFuture_Callback_Args};
  args.callback_data = future->callback_data;
  args.error_code = code;
  args.error_message = message;
  args.error_message_size = size;
  args.dst = (void *)dst;
  future->future_ready_callback(&args);
}

void xg_dependency_ready(void *callback, void *data, int code, const char *message, size_t size) {
  PJRT_Buffer_DonateWithControlDependency_Callback_Args args = {
      .struct_size = S_PJRT_Buffer_DonateWithControlDependency_Callback_Args};
  args.callback_data = data;
  args.error_code = code;
  args.error_message = message;
  args.error_message_size = size;
  void (*f)(PJRT_Buffer_DonateWithControlDependency_Callback_Args *);
  *(void **)&f = callback;
  f(&args);
}

static void visit_payload(const char *key, size_t key_size, const char *value, size_t value_size, void *handle) {
  xgErrorPayload((uintptr_t)handle, (char *)key, key_size, (char *)value, value_size);
}

xg_result xg_error_payloads(const PJRT_Api *api, PJRT_Error *error, uintptr_t handle) {
  PJRT_Error_ForEachPayload_Args args = {.struct_size = S_PJRT_Error_ForEachPayload_Args, .error = error};
  args.visitor = visit_payload;
  args.user_arg = (void *)handle;
  return xg_call(api, FN_Error_ForEachPayload, &args);
}
