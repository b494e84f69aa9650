// Our own layout as a table, for the test that compares it with published ones.
#ifndef XLA_GO_PJRT_ABI_TABLE_H_
#define XLA_GO_PJRT_ABI_TABLE_H_

#include "pjrt_abi.h"

size_t xg_abi_rows(void);
// Row i: of a field its offset and size; of a struct (field "") the size to send and sizeof.
void xg_abi_row(size_t i, const char **owner, const char **field, size_t *offset, size_t *size);

#endif
