// Asks a plugin how many bytes it expects of each function's arguments: argument_sizes PLUGIN
//
// A plugin refuses arguments that are shorter than those it was built with, before it looks at them,
// and its message tells both sizes. Functions that do not look at the size at all fall over what they
// find instead, each in a process of its own.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pjrt_abi.h"

static void ask(const PJRT_Api *api, const char *name, void *function) {
  fflush(stdout);
  pid_t child = fork();
  if (child > 0) waitpid(child, NULL, 0);
  if (child != 0) return;
  alarm(10);
  size_t args[64] = {1};
  PJRT_Error *(*call)(void *);
  *(void **)&call = function;
  PJRT_Error_Message_Args text = {.struct_size = S_PJRT_Error_Message_Args, .error = call(args)};
  if (text.error == NULL) _exit(0);
  void (*message)(PJRT_Error_Message_Args *);
  *(void **)&message = api->functions[FN_Error_Message];
  message(&text);
  char copy[256] = "";
  memcpy(copy, text.message, text.message_size < sizeof(copy) ? text.message_size : sizeof(copy) - 1);
  const char *expected = strstr(copy, "size: expected ");
  if (expected != NULL) printf("%s %d\n", name, atoi(expected + strlen("size: expected ")));
  fflush(stdout);
  _exit(0);
}

int main(int argc, char **argv) {
  void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  const PJRT_Api *(*get)(void) = NULL;
  if (library != NULL) *(void **)&get = dlsym(library, "GetPjrtApi");
  if (get == NULL) {
    fprintf(stderr, "argument_sizes: expected the path of a PJRT plugin\n");
    return 1;
  }
  const PJRT_Api *api = get();
#define ASK(name) \
  if (FN_##name != FN_Error_Destroy && FN_##name != FN_Error_Message && \
      offsetof(PJRT_Api, functions) + (FN_##name + 1) * sizeof(void *) <= api->struct_size && api->functions[FN_##name] != NULL) \
    ask(api, "PJRT_" #name "_Args", api->functions[FN_##name]);
  PJRT_FUNCTIONS(ASK)
#undef ASK
  for (const PJRT_Extension_Base *e = api->extension_start; e != NULL; e = e->next) {
#define ASK(owner, number, position, function) \
  if (e->type == number && sizeof(*e) + (position + 1) * sizeof(void *) <= e->struct_size && ((void *const *)(e + 1))[position] != NULL) \
    ask(api, #function, ((void *const *)(e + 1))[position]);
    PJRT_EXTENSION_FUNCTIONS(ASK)
#undef ASK
  }
  return 0;
}
