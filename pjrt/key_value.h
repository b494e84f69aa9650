// The callbacks through which a plugin reaches a key-value store in Go.
#ifndef XLA_GO_PJRT_KEY_VALUE_H_
#define XLA_GO_PJRT_KEY_VALUE_H_

#include "pjrt_abi.h"

// Makes the callbacks part of a client's creation; they hand the store's handle to Go.
void xg_key_value_callbacks(PJRT_Client_Create_Args *args, uintptr_t store);

// How a call of the store ended. value (of get) and message (of a failure) were made by malloc.
typedef struct {
  int code;
  char *value;
  size_t value_size;
  char *message;
  size_t message_size;
} xg_key_value_result;

#endif
