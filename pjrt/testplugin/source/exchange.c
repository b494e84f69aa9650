// The plugin as one of several processes that find each other through the key-value callbacks, while
// the client is made (options rank, ranks and timeout_ms). Each puts "node/<rank>", with a zero byte in the value, and gets all of them. The platform's version
// tells what was found: "<values, zero bytes as |>;absent=<code of a try-get of a key that nobody put>".
#include "testplugin.h"

static char found[1024];

const char *found_by_exchange(void) { return found; }

static PJRT_Error *get_error(int *code, PJRT_Error *e) {
  *code = e != NULL ? e->code : 0;
  return e;
}

static PJRT_Error *make_error(int code, const char *message, size_t size) {
  char text[200];
  snprintf(text, sizeof(text), "%.*s", (int)size, message);
  return fail(code, "%s", text);
}

PJRT_Error *exchange(PJRT_Client_Create_Args *a) {
  int64_t rank = options.rank, ranks = options.ranks, timeout_ms = options.timeout_ms;
  PJRT_Error *(*get)(PJRT_KeyValueGetCallback_Args *) = a->kv_get_callback;
  PJRT_Error *(*try_get)(PJRT_KeyValueTryGetCallback_Args *) = a->kv_try_get_callback;
  PJRT_Error *(*put)(PJRT_KeyValuePutCallback_Args *) = a->kv_put_callback;
  if (get == NULL || try_get == NULL || put == NULL) return fail(9, "no key-value callbacks");
  PJRT_CallbackError callback_error = make_error;
  char key[64], value[64];
  size_t end = 0;

  // The texts have something behind their sizes, which must not be read.
  snprintf(key, sizeof(key), "node/%d and more", (int)rank);
  size_t value_size = (size_t)snprintf(value, sizeof(value), "at %d", (int)rank) + 1;
  value[value_size] = '!';
  PJRT_KeyValuePutCallback_Args p = {
      .struct_size = S_PJRT_KeyValuePutCallback_Args, .key = key, .key_size = strcspn(key, " "), .value = value,
      .value_size = value_size, .callback_error = &callback_error, .user_arg = a->kv_put_user_arg};
  PJRT_Error *e = put(&p);
  memset(key, 'x', sizeof(key));
  memset(value, 'x', sizeof(value));
  for (int64_t i = 0; e == NULL && i < ranks; i++) {
    size_t key_size = (size_t)snprintf(key, sizeof(key), "node/%d", (int)i);
    PJRT_KeyValueGetCallback_Args g = {
        .struct_size = S_PJRT_KeyValueGetCallback_Args, .key = key, .key_size = key_size, .timeout_in_ms = (int)timeout_ms,
        .callback_error = &callback_error, .user_arg = a->kv_get_user_arg};
    e = get(&g);
    if (e != NULL) break;
    for (size_t j = 0; j < g.value_size && end < sizeof(found) - 64; j++) found[end++] = g.value[j] != 0 ? g.value[j] : '|';
    g.value_deleter_callback(g.value);
  }
  if (e != NULL) return e;
  int code;
  PJRT_KeyValueTryGetCallback_Args t = {
      .struct_size = S_PJRT_KeyValueTryGetCallback_Args, .key = "absent", .key_size = 6, .callback_error = &callback_error,
      .user_arg = a->kv_try_get_user_arg};
  if ((e = get_error(&code, try_get(&t))) != NULL) unmake(LIVE_ERRORS, e);
  else t.value_deleter_callback(t.value);
  snprintf(found + end, sizeof(found) - end, ";absent=%d", code);
  return NULL;
}
