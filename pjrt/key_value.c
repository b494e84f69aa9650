#include "key_value.h"

#include <stdlib.h>

// Go's side (key_value.go).
extern void xgKeyValueGet(uintptr_t store, char *key, size_t key_size, int timeout_in_ms, xg_key_value_result *result);
extern void xgKeyValueTryGet(uintptr_t store, char *key, size_t key_size, xg_key_value_result *result);
extern void xgKeyValuePut(uintptr_t store, char *key, size_t key_size, char *value, size_t value_size,
                          xg_key_value_result *result);

static void delete_value(char *value) { free(value); }

// Gives a failure to the plugin as an error of its own making; NULL for success.
static PJRT_Error *report(xg_key_value_result *result, PJRT_CallbackError *callback_error) {
  PJRT_Error *error = NULL;
  if (result->code != 0) error = (*callback_error)(result->code, result->message, result->message_size);
  free(result->message);
  return error;
}

static PJRT_Error *get(PJRT_KeyValueGetCallback_Args *args) {
  xg_key_value_result result = {0};
  xgKeyValueGet((uintptr_t)args->user_arg, (char *)args->key, args->key_size, args->timeout_in_ms, &result);
  args->value = result.value;
  args->value_size = result.value_size;
  args->value_deleter_callback = delete_value;
  return report(&result, args->callback_error);
}

static PJRT_Error *try_get(PJRT_KeyValueTryGetCallback_Args *args) {
  xg_key_value_result result = {0};
  xgKeyValueTryGet((uintptr_t)args->user_arg, (char *)args->key, args->key_size, &result);
  args->value = result.value;
  args->value_size = result.value_size;
  args->value_deleter_callback = delete_value;
  return report(&result, args->callback_error);
}

static PJRT_Error *put(PJRT_KeyValuePutCallback_Args *args) {
  xg_key_value_result result = {0};
  xgKeyValuePut((uintptr_t)args->user_arg, (char *)args->key, args->key_size, (char *)args->value, args->value_size, &result);
  return report(&result, args->callback_error);
}

void xg_key_value_callbacks(PJRT_Client_Create_Args *args, uintptr_t store) {
  args->kv_get_callback = (void *)get;
  args->kv_put_callback = (void *)put;
  args->kv_try_get_callback = (void *)try_get;
  args->kv_get_user_arg = args->kv_put_user_arg = args->kv_try_get_user_arg = (void *)store;
}
