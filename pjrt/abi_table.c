// The layout of every struct as a table: of our own declarations as part of the package, and of a
// published header as a program (testdata/gen_abi.sh), which prints it.
#ifdef PUBLISHED_HEADER
#include PUBLISHED_HEADER
#ifdef PUBLISHED_EXTENSIONS  // a file that includes the headers of the extensions
#include PUBLISHED_EXTENSIONS
#endif
#include "abi_extension_functions.h"
#include "abi_functions.h"
#define PJRT_KNOWN_MINOR PJRT_API_MINOR
#define OFFSET_OF_FUNCTION(name) offsetof(PJRT_Api, PJRT_##name)
#define OFFSET_IN_EXTENSION(owner, position, function) offsetof(owner, function)
#else
#include "abi_functions.h"
#include "abi_table.h"
#define OFFSET_IN_EXTENSION(owner, position, function) (sizeof(PJRT_Extension_Base) + position * sizeof(void *))
#define OFFSET_OF_FUNCTION(name) (offsetof(PJRT_Api, functions) + FN_##name * sizeof(void *))
#endif

#define SIZE_OF(name, field) sizeof(((name *)0)->field)

typedef struct {
  const char *owner, *field;
  size_t offset, size;
} abi_row;

static const abi_row rows[] = {
#define PJRT_STRUCT(name, last) {#name, "", offsetof(name, last) + SIZE_OF(name, last), sizeof(name)},
#define PJRT_FIELD(name, field) {#name, #field, offsetof(name, field), SIZE_OF(name, field)},
#include "abi_fields.h"
#if !defined(PUBLISHED_HEADER) || defined(PUBLISHED_EXTENSIONS)
#include "abi_fields_extensions.h"
#define PJRT_ROW(owner, type, position, function) {#owner, #function, OFFSET_IN_EXTENSION(owner, position, function), sizeof(void *)},
    PJRT_EXTENSION_FUNCTIONS(PJRT_ROW)
#undef PJRT_ROW
#endif
#undef PJRT_STRUCT
#undef PJRT_FIELD
    {"PJRT_Api", "struct_size", offsetof(PJRT_Api, struct_size), SIZE_OF(PJRT_Api, struct_size)},
    {"PJRT_Api", "extension_start", offsetof(PJRT_Api, extension_start), SIZE_OF(PJRT_Api, extension_start)},
    {"PJRT_Api", "pjrt_api_version", offsetof(PJRT_Api, pjrt_api_version), SIZE_OF(PJRT_Api, pjrt_api_version)},
#define PJRT_ROW(name) {"PJRT_Api", "PJRT_" #name, OFFSET_OF_FUNCTION(name), sizeof(void *)},
    PJRT_FUNCTIONS_TO_0_81(PJRT_ROW)
#if PJRT_KNOWN_MINOR >= 104
    PJRT_FUNCTIONS_0_82_TO_0_104(PJRT_ROW)
#endif
#if PJRT_KNOWN_MINOR >= 114
    PJRT_FUNCTIONS_0_105_TO_0_115(PJRT_ROW)
#endif
#undef PJRT_ROW
};

#ifdef PUBLISHED_HEADER
#include <stdio.h>

int main(void) {
  printf("version %d.%d\n", PJRT_API_MAJOR, PJRT_API_MINOR);
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    printf("%s %s %zu %zu\n", rows[i].owner, rows[i].field[0] ? rows[i].field : "-", rows[i].offset, rows[i].size);
  return 0;
}
#else
size_t xg_abi_rows(void) { return sizeof(rows) / sizeof(rows[0]); }

void xg_abi_row(size_t i, const char **owner, const char **field, size_t *offset, size_t *size) {
  *owner = rows[i].owner;
  *field = rows[i].field;
  *offset = rows[i].offset;
  *size = rows[i].size;
}
#endif
