// A PJRT plugin in front of a real one, for tests of whole programs under failures that no real plugin has on demand.
//
// XLA_GO_TEST_PROXIED names the real plugin's library. Every call goes on to it, but for those that refuse() has
// chosen: the n-th call from now of a sort of functions gives an error with a status code, and the real plugin never
// sees it. Errors made here are told apart from the real plugin's by their first word.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt_abi.h"

#define EXPORT __attribute__((visibility("default")))

enum sort { COMPILE, EXECUTE, TRANSFER, SORTS };
static const char *const sort_names[SORTS] = {"compile", "execute", "transfer"};
static struct { int64_t calls, failing; int code; } plan[SORTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const PJRT_Api *real;
static PJRT_Api front;

#define OWN_ERROR 0x786c615f676f2121
typedef struct own_error { uint64_t mark; int code; char message[80]; } own_error;

static own_error *own(const PJRT_Error *error) {
  own_error *e = (own_error *)error;
  return e->mark == OWN_ERROR ? e : NULL;
}

// Chooses the n-th call of a sort from now on, 1 for the next one, 0 for none. False for an unknown sort.
EXPORT bool refuse(const char *sort, int64_t n, int code) {
  for (int i = 0; i < SORTS; i++) {
    if (strcmp(sort, sort_names[i]) != 0) continue;
    pthread_mutex_lock(&lock);
    plan[i].failing = n > 0 ? plan[i].calls + n : 0;
    plan[i].code = code;
    pthread_mutex_unlock(&lock);
    return true;
  }
  return false;
}

// The number of calls of a sort so far, -1 for an unknown one.
EXPORT int64_t calls(const char *sort) {
  int64_t n = -1;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < SORTS; i++)
    if (strcmp(sort, sort_names[i]) == 0) n = plan[i].calls;
  pthread_mutex_unlock(&lock);
  return n;
}

static PJRT_Error *refused(enum sort sort) {
  pthread_mutex_lock(&lock);
  int64_t number = ++plan[sort].calls;
  int code = number == plan[sort].failing ? plan[sort].code : 0;
  pthread_mutex_unlock(&lock);
  if (code == 0) return NULL;
  own_error *e = calloc(1, sizeof(own_error));
  e->mark = OWN_ERROR;
  e->code = code;
  snprintf(e->message, sizeof(e->message), "the proxy refuses %s %lld", sort_names[sort], (long long)number);
  return (PJRT_Error *)e;
}

#define REAL(name, type) ((PJRT_Error * (*)(type *)) real->functions[FN_##name])
#define GUARDED(name, type, sort) \
  static PJRT_Error *name(type *a) { \
    PJRT_Error *e = refused(sort); \
    return e != NULL ? e : REAL(name, type)(a); \
  }

GUARDED(Client_Compile, void, COMPILE)
GUARDED(LoadedExecutable_Execute, void, EXECUTE)
GUARDED(Client_BufferFromHostBuffer, void, TRANSFER)
GUARDED(Client_CreateViewOfDeviceBuffer, void, TRANSFER)

static void Error_Destroy(PJRT_Error_Destroy_Args *a) {
  if (a->error != NULL && own(a->error) != NULL) free(a->error);
  else ((void (*)(PJRT_Error_Destroy_Args *))real->functions[FN_Error_Destroy])(a);
}

static void Error_Message(PJRT_Error_Message_Args *a) {
  own_error *e = own(a->error);
  if (e == NULL) {
    ((void (*)(PJRT_Error_Message_Args *))real->functions[FN_Error_Message])(a);
    return;
  }
  a->message = e->message;
  a->message_size = strlen(e->message);
}

static PJRT_Error *Error_GetCode(PJRT_Error_GetCode_Args *a) {
  own_error *e = own(a->error);
  if (e == NULL) return REAL(Error_GetCode, PJRT_Error_GetCode_Args)(a);
  a->code = e->code;
  return NULL;
}

EXPORT const PJRT_Api *GetPjrtApi(void) {
  if (real != NULL) return &front;
  const char *path = getenv("XLA_GO_TEST_PROXIED");
  void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  const PJRT_Api *(*get)(void) = library != NULL ? (const PJRT_Api *(*)(void))dlsym(library, "GetPjrtApi") : NULL;
  if (get == NULL) {
    fprintf(stderr, "XLA_GO_TEST_PROXIED: expected the path of a plugin, got %s\n", path != NULL ? path : "nothing");
    return NULL;
  }
  real = get();
  memcpy(&front, real, real->struct_size < sizeof(front) ? real->struct_size : sizeof(front));
  if (front.struct_size > sizeof(front)) front.struct_size = sizeof(front);
  front.functions[FN_Error_Destroy] = (void *)Error_Destroy;
  front.functions[FN_Error_Message] = (void *)Error_Message;
  front.functions[FN_Error_GetCode] = (void *)Error_GetCode;
  front.functions[FN_Client_Compile] = (void *)Client_Compile;
  front.functions[FN_LoadedExecutable_Execute] = (void *)LoadedExecutable_Execute;
  front.functions[FN_Client_BufferFromHostBuffer] = (void *)Client_BufferFromHostBuffer;
  front.functions[FN_Client_CreateViewOfDeviceBuffer] = (void *)Client_CreateViewOfDeviceBuffer;
  // Its errors are not for the real plugin's visitor of payloads.
  if (front.struct_size > offsetof(PJRT_Api, functions) + FN_Error_ForEachPayload * sizeof(void *))
    front.functions[FN_Error_ForEachPayload] = NULL;
  return &front;
}
