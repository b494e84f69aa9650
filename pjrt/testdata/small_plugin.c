// A plugin with hardly anything in it, to be compiled with
//   MAJOR      major version
//   TABLE      number of functions in its table
//   FAIL       1 to fail in PJRT_Plugin_Initialize
//   NO_SYMBOL  to have no GetPjrtApi
//   NO_TABLE   to give no table
//   SIZE       the size that its table says it has
#include <string.h>

#include "pjrt_abi.h"

#ifndef MAJOR
#define MAJOR PJRT_MAJOR
#endif
#ifndef TABLE
#define TABLE FN_COUNT
#endif

struct PJRT_Error { int code; };
static struct PJRT_Error failure = {8};
static int destroyed;

static void error_destroy(PJRT_Error_Destroy_Args *args) { destroyed += args->error == &failure; }

static void error_message(PJRT_Error_Message_Args *args) {
  args->message = "there is no room [and this is not told]";
  args->message_size = strlen("there is no room");
}

static PJRT_Error *error_code(PJRT_Error_GetCode_Args *args) {
  args->code = args->error->code;
  return NULL;
}

static PJRT_Error *initialize(PJRT_Plugin_Initialize_Args *args) {
  (void)args;
#ifdef FAIL
  return &failure;
#else
  return NULL;
#endif
}

#ifndef NO_SYMBOL
static PJRT_Api api;

__attribute__((visibility("default"))) const PJRT_Api *GetPjrtApi(void) {
  api.struct_size = offsetof(PJRT_Api, functions) + TABLE * sizeof(void *);
  api.pjrt_api_version.major_version = MAJOR;
  api.pjrt_api_version.minor_version = 7;
  // Behind the end of the table lies something that must not be jumped to.
  memset(api.functions, 0x5a, sizeof(api.functions));
  for (int i = 0; i < TABLE; i++) api.functions[i] = NULL;
  api.functions[FN_Error_Destroy] = (void *)error_destroy;
  api.functions[FN_Error_Message] = (void *)error_message;
  api.functions[FN_Error_GetCode] = (void *)error_code;
  api.functions[FN_Plugin_Initialize] = (void *)initialize;
#ifdef SIZE
  api.struct_size = (size_t)(SIZE);
#endif
#ifdef NO_TABLE
  return NULL;
#endif
  return &api;
}
#endif
