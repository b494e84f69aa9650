#include "pack.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#ifdef __SSE2__
enum { LINE = 64, PAGE = 4096, PAGES = 4 };

// Writes a line of the cache past it: it need not be read first, and what else is in the cache stays.
static inline void stream_line(char *dst, const char *src) {
  const __m128i a = _mm_loadu_si128((const __m128i *)src), b = _mm_loadu_si128((const __m128i *)(src + 16));
  const __m128i c = _mm_loadu_si128((const __m128i *)(src + 32)), d = _mm_loadu_si128((const __m128i *)(src + 48));
  _mm_stream_si128((__m128i *)dst, a);
  _mm_stream_si128((__m128i *)(dst + 16), b);
  _mm_stream_si128((__m128i *)(dst + 32), c);
  _mm_stream_si128((__m128i *)(dst + 48), d);
}
#endif

void xg_copy_large(char *dst, const char *src, size_t size) {
#ifdef __SSE2__
  const size_t head = (LINE - (uintptr_t)dst % LINE) % LINE;
  if (head + LINE <= size) {
    memcpy(dst, src, head);
    dst += head, src += head, size -= head;
    // Several pages at once keep more of the memory's channels busy.
    for (; size >= PAGES * PAGE; dst += PAGES * PAGE, src += PAGES * PAGE, size -= PAGES * PAGE)
      for (int i = 0; i < PAGE; i += LINE)
        for (int p = 0; p < PAGES * PAGE; p += PAGE) stream_line(dst + p + i, src + p + i);
    for (; size >= LINE; dst += LINE, src += LINE, size -= LINE) stream_line(dst, src);
    _mm_sfence();
  }
#endif
  memcpy(dst, src, size);
}

// With a constant size a memcpy becomes a load and a store.
#define COPY_ROW(size)                                                                              \
  case size:                                                                                        \
    for (int64_t i = 0; i < n; i++, dst += to, src += from) memcpy(dst, src, size);                 \
    return;

enum { LONG_RUN = 512 };  // bytes from which a run is worth its own way past the caches

static void copy_row(char *dst, const char *src, size_t run, int64_t n, int64_t from, int64_t to, bool large) {
  switch (run) {
    COPY_ROW(1)
    COPY_ROW(2)
    COPY_ROW(4)
    COPY_ROW(8)
    COPY_ROW(16)
  }
  if (large && run >= LONG_RUN) {
    for (int64_t i = 0; i < n; i++, dst += to, src += from) xg_copy_large(dst, src, run);
  } else {
    for (int64_t i = 0; i < n; i++, dst += to, src += from) memcpy(dst, src, run);
  }
}

void xg_pack(char *dst, const char *src, size_t run, size_t rank, const int64_t *dims, const int64_t *from,
             const int64_t *to, bool large) {
  if (rank == 0) {
    memcpy(dst, src, run);
  } else if (rank == 1) {
    copy_row(dst, src, run, dims[0], from[0], to[0], large);
  } else {
    for (int64_t i = 0; i < dims[0]; i++)
      xg_pack(dst + i * to[0], src + i * from[0], run, rank - 1, dims + 1, from + 1, to + 1, large);
  }
}

// A tile is read along the source's dense dimension and written along the destination's, so that each cache line of
// either is touched once, however far apart the lines lie; the source's next tile is fetched meanwhile. Rows of the
// tile are padded: at a power of two apart, they would crowd into few sets of the cache.
enum { TILE_ROW = 64, TILE_LINE = 256, TILE_PADDING = 16, TILE_DISTANCE = TILE_LINE + TILE_PADDING };  // bytes

#ifdef __SSE2__
// Whole tiles of 4-byte elements, in squares of four by four.
static void fill_tile_of_words(char *tile, const char *src, int64_t from) {
  for (int b = 0; b < TILE_LINE / 4; b += 4) {
    for (int a = 0; a < TILE_ROW; a += 16) {
      const char *p = src + b * from + a;
      const __m128i r0 = _mm_loadu_si128((const __m128i *)p), r1 = _mm_loadu_si128((const __m128i *)(p + from));
      const __m128i r2 = _mm_loadu_si128((const __m128i *)(p + 2 * from)), r3 = _mm_loadu_si128((const __m128i *)(p + 3 * from));
      const __m128i low01 = _mm_unpacklo_epi32(r0, r1), low23 = _mm_unpacklo_epi32(r2, r3);
      const __m128i high01 = _mm_unpackhi_epi32(r0, r1), high23 = _mm_unpackhi_epi32(r2, r3);
      char *q = tile + a / 4 * TILE_DISTANCE + b * 4;
      _mm_store_si128((__m128i *)q, _mm_unpacklo_epi64(low01, low23));
      _mm_store_si128((__m128i *)(q + TILE_DISTANCE), _mm_unpackhi_epi64(low01, low23));
      _mm_store_si128((__m128i *)(q + 2 * TILE_DISTANCE), _mm_unpacklo_epi64(high01, high23));
      _mm_store_si128((__m128i *)(q + 3 * TILE_DISTANCE), _mm_unpackhi_epi64(high01, high23));
    }
  }
}

static void write_line(char *dst, const char *line) {
  for (int i = 0; i < TILE_LINE; i += LINE) stream_line(dst + i, line + i);
}
static bool is_streamed(const char *dst, const int64_t *to, bool large) { return large && ((uintptr_t)dst | (uintptr_t)to[0]) % 16 == 0; }
static void end_streams(void) { _mm_sfence(); }
#else
static void write_line(char *dst, const char *line) { memcpy(dst, line, TILE_LINE); }
static bool is_streamed(const char *dst, const int64_t *to, bool large) { return false; }
static void end_streams(void) {}
#endif

static bool is_filled_by_words(char *tile, const char *src, int64_t from, size_t size) {
#ifdef __SSE2__
  if (size == 4) {
    fill_tile_of_words(tile, src, from);
    return true;
  }
#endif
  return false;
}

#define TRANSPOSE(size)                                                                                        \
  static void transpose_##size(char *dst, const char *src, const int64_t *dims, const int64_t *from,           \
                               const int64_t *to, bool large) {                                                \
    enum { ROWS = TILE_ROW / size, COLUMNS = TILE_LINE / size };                                               \
    _Alignas(16) char tile[ROWS * TILE_DISTANCE];                                                              \
    const bool streamed = is_streamed(dst, to, large);                                                         \
    for (int64_t j = 0; j < dims[1]; j += COLUMNS) {                                                           \
      const int64_t columns = dims[1] - j < COLUMNS ? dims[1] - j : COLUMNS;                                   \
      for (int64_t i = 0; i < dims[0]; i += ROWS) {                                                            \
        const int64_t rows = dims[0] - i < ROWS ? dims[0] - i : ROWS;                                          \
        const char *corner = src + i * from[0] + j * from[1];                                                  \
        if (rows == ROWS && from[0] == size) {                                                                 \
          for (int64_t b = 0; b < columns; b++) __builtin_prefetch(corner + b * from[1] + TILE_ROW);           \
          if (columns < COLUMNS || !is_filled_by_words(tile, corner, from[1], size))                           \
            for (int64_t b = 0; b < columns; b++)                                                              \
              for (int a = 0; a < ROWS; a++)                                                                   \
                memcpy(tile + a * TILE_DISTANCE + b * size, corner + b * from[1] + a * size, size);            \
        } else {                                                                                               \
          for (int64_t b = 0; b < columns; b++)                                                                \
            for (int64_t a = 0; a < rows; a++)                                                                 \
              memcpy(tile + a * TILE_DISTANCE + b * size, corner + b * from[1] + a * from[0], size);           \
        }                                                                                                      \
        char *place = dst + i * to[0] + j * size;                                                              \
        for (int64_t a = 0; a < rows; a++, place += to[0]) {                                                   \
          if (streamed && columns == COLUMNS) write_line(place, tile + a * TILE_DISTANCE);                     \
          else memcpy(place, tile + a * TILE_DISTANCE, (size_t)columns * size);                                \
        }                                                                                                      \
      }                                                                                                        \
    }                                                                                                          \
    end_streams();                                                                                             \
  }
TRANSPOSE(1)
TRANSPOSE(2)
TRANSPOSE(4)
TRANSPOSE(8)
TRANSPOSE(16)

void xg_pack_transposed(char *dst, const char *src, size_t run, size_t rank, const int64_t *dims, const int64_t *from,
                        const int64_t *to, bool large) {
  if (rank > 2) {
    for (int64_t i = 0; i < dims[0]; i++) xg_pack_transposed(dst + i * to[0], src + i * from[0], run, rank - 1, dims + 1, from + 1, to + 1, large);
    return;
  }
  switch (run) {
    case 1: transpose_1(dst, src, dims, from, to, large); return;
    case 2: transpose_2(dst, src, dims, from, to, large); return;
    case 4: transpose_4(dst, src, dims, from, to, large); return;
    case 8: transpose_8(dst, src, dims, from, to, large); return;
    case 16: transpose_16(dst, src, dims, from, to, large); return;
  }
  xg_pack(dst, src, run, rank, dims, from, to, large);
}
