#include "pack.h"

#include <string.h>

// With a constant size a memcpy becomes a load and a store.
#define COPY_ROW(size)                                                                              \
  case size:                                                                                        \
    for (int64_t i = 0; i < n; i++, dst += to, src += from) memcpy(dst, src, size);                 \
    return;

static void copy_row(char *dst, const char *src, size_t run, int64_t n, int64_t from, int64_t to) {
  switch (run) {
    COPY_ROW(1)
    COPY_ROW(2)
    COPY_ROW(4)
    COPY_ROW(8)
    COPY_ROW(16)
  }
  for (int64_t i = 0; i < n; i++, dst += to, src += from) memcpy(dst, src, run);
}

void xg_pack(char *dst, const char *src, size_t run, size_t rank, const int64_t *dims, const int64_t *from,
             const int64_t *to) {
  if (rank == 0) {
    memcpy(dst, src, run);
  } else if (rank == 1) {
    copy_row(dst, src, run, dims[0], from[0], to[0]);
  } else {
    for (int64_t i = 0; i < dims[0]; i++) xg_pack(dst + i * to[0], src + i * from[0], run, rank - 1, dims + 1, from + 1, to + 1);
  }
}

// A tile is read along the source's dense dimension and written along the destination's, so that each cache line of
// either is touched once, however far apart the lines lie; the source's next tile is fetched meanwhile. Rows of the
// tile are padded: at a power of two apart, they would crowd into few sets of the cache.
enum { TILE_ROW = 64, TILE_LINE = 256, TILE_PADDING = 16 };  // bytes

#define TRANSPOSE(size)                                                                                   \
  static void transpose_##size(char *dst, const char *src, const int64_t *dims, const int64_t *from,      \
                               const int64_t *to) {                                                       \
    enum { ROWS = TILE_ROW / size, COLUMNS = TILE_LINE / size };                                          \
    char tile[ROWS][TILE_LINE + TILE_PADDING];                                                            \
    for (int64_t j = 0; j < dims[1]; j += COLUMNS) {                                                      \
      const int64_t columns = dims[1] - j < COLUMNS ? dims[1] - j : COLUMNS;                              \
      for (int64_t i = 0; i < dims[0]; i += ROWS) {                                                       \
        const int64_t rows = dims[0] - i < ROWS ? dims[0] - i : ROWS;                                     \
        const char *corner = src + i * from[0] + j * from[1];                                             \
        if (rows == ROWS && from[0] == size) {                                                            \
          for (int64_t b = 0; b < columns; b++) __builtin_prefetch(corner + b * from[1] + TILE_ROW);      \
          for (int64_t b = 0; b < columns; b++)                                                           \
            for (int a = 0; a < ROWS; a++) memcpy(tile[a] + b * size, corner + b * from[1] + a * size, size); \
        } else {                                                                                          \
          for (int64_t b = 0; b < columns; b++)                                                           \
            for (int64_t a = 0; a < rows; a++)                                                            \
              memcpy(tile[a] + b * size, corner + b * from[1] + a * from[0], size);                       \
        }                                                                                                 \
        for (int64_t a = 0; a < rows; a++) memcpy(dst + (i + a) * to[0] + j * size, tile[a], (size_t)columns * size); \
      }                                                                                                   \
    }                                                                                                     \
  }
TRANSPOSE(1)
TRANSPOSE(2)
TRANSPOSE(4)
TRANSPOSE(8)
TRANSPOSE(16)

void xg_pack_transposed(char *dst, const char *src, size_t run, size_t rank, const int64_t *dims, const int64_t *from,
                        const int64_t *to) {
  if (rank > 2) {
    for (int64_t i = 0; i < dims[0]; i++) xg_pack_transposed(dst + i * to[0], src + i * from[0], run, rank - 1, dims + 1, from + 1, to + 1);
    return;
  }
  switch (run) {
    case 1: transpose_1(dst, src, dims, from, to); return;
    case 2: transpose_2(dst, src, dims, from, to); return;
    case 4: transpose_4(dst, src, dims, from, to); return;
    case 8: transpose_8(dst, src, dims, from, to); return;
    case 16: transpose_16(dst, src, dims, from, to); return;
  }
  xg_pack(dst, src, run, rank, dims, from, to);
}
