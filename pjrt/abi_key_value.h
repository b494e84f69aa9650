// What a plugin passes to the key-value callbacks of PJRT_Client_Create. Part of pjrt_abi.h.
#ifndef XLA_GO_PJRT_ABI_KEY_VALUE_H_
#define XLA_GO_PJRT_ABI_KEY_VALUE_H_

// Makes an error of the plugin, which copies the message.
typedef PJRT_Error *(*PJRT_CallbackError)(int code, const char *message, size_t message_size);

typedef struct PJRT_KeyValueGetCallback_Args {
  PJRT_HEAD;
  const char *key;
  size_t key_size;
  int timeout_in_ms;
  PJRT_CallbackError *callback_error;
  void *user_arg;
  char *value;
  size_t value_size;
  void (*value_deleter_callback)(char *value);
} PJRT_KeyValueGetCallback_Args;
typedef struct PJRT_KeyValueTryGetCallback_Args {
  PJRT_HEAD;
  const char *key;
  size_t key_size;
  PJRT_CallbackError *callback_error;
  void *user_arg;
  char *value;
  size_t value_size;
  void (*value_deleter_callback)(char *value);
} PJRT_KeyValueTryGetCallback_Args;
typedef struct PJRT_KeyValuePutCallback_Args {
  PJRT_HEAD;
  const char *key;
  size_t key_size;
  const char *value;
  size_t value_size;
  PJRT_CallbackError *callback_error;
  void *user_arg;
} PJRT_KeyValuePutCallback_Args;

#endif
