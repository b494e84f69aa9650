// A handler of XLA's foreign function interface (FFI), with the interface as it is in memory: what a user
// would write against XLA's own header. Structs grow at their ends only, so that these fields stay where
// they are in every version.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct extension {
  size_t struct_size;
  int type;  // 1: the plugin asks what the handler is, and does not call it
  struct extension *next;
} extension;
typedef struct { size_t struct_size; extension *extensions; int major, minor; } version;
typedef struct { size_t struct_size; version api; } metadata;
typedef struct { extension base; metadata *metadata; } metadata_extension;

typedef struct { size_t struct_size; extension *extensions; const char *message; int code; } error_arguments;
typedef struct {
  size_t struct_size;
  extension *extensions;
  version version;
  const void *internal;
  void *(*create_error)(error_arguments *);
} functions;

typedef struct { size_t struct_size; extension *extensions; int type; void *data; int64_t rank, *dims; } array;
typedef struct { size_t struct_size; extension *extensions; int64_t size; int *types; array **arrays; } arrays;
typedef struct { const char *bytes; size_t size; } text;
typedef struct { int type; void *value; } scalar;
typedef struct { size_t struct_size; extension *extensions; int64_t size; int *types; text **names; void **values; } attributes;
typedef struct {
  size_t struct_size;
  extension *extensions;
  const functions *functions;
  void *context;
  int stage;
  arrays arguments, results;
  attributes attributes;
} call;

enum { F32 = 11, SCALAR = 3, INVALID_ARGUMENT = 3 };

static void *fail(call *c, const char *message) {
  error_arguments a = {.struct_size = sizeof(a), .message = message, .code = INVALID_ARGUMENT};
  return c->functions->create_error(&a);
}

// y = factor * x, for f32 of any shape; factor is an attribute.
__attribute__((visibility("default"))) void *scaled(call *c) {
  for (extension *e = c->extensions; e != NULL; e = e->next) {
    if (e->type != 1) continue;
    // The plugin's own version, whichever it is: the test is not about a difference of versions.
    version *v = &((metadata_extension *)e)->metadata->api;
    v->major = c->functions != NULL ? c->functions->version.major : 0;
    v->minor = c->functions != NULL ? c->functions->version.minor : 1;
    return NULL;
  }
  if (c->arguments.size != 1 || c->results.size != 1) return fail(c, "scaled takes one array and gives one");
  array *x = c->arguments.arrays[0], *y = c->results.arrays[0];
  if (x->type != F32 || y->type != F32) return fail(c, "scaled takes f32");
  const float *factor = NULL;
  for (int64_t i = 0; i < c->attributes.size; i++) {
    text *name = c->attributes.names[i];
    scalar *s = c->attributes.values[i];
    if (name->size == 6 && memcmp(name->bytes, "factor", 6) == 0 && c->attributes.types[i] == SCALAR && s->type == F32) factor = s->value;
  }
  if (factor == NULL) return fail(c, "scaled needs a factor of type f32");
  size_t n = 1;
  for (int64_t i = 0; i < x->rank; i++) n *= (size_t)x->dims[i];
  for (size_t i = 0; i < n; i++) ((float *)y->data)[i] = *factor * ((const float *)x->data)[i];
  return NULL;
}
