// Copies of strided host arrays.
#ifndef XLA_GO_PJRT_PACK_H_
#define XLA_GO_PJRT_PACK_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Copies a strided array. There are rank dimensions of dims[] runs; from[] and to[] are the distances in bytes
// between neighbours in the source and in the destination, and a run is `run` bytes that lie together in both. large is
// for more than the caches should be filled with.
void xg_pack(char *dst, const char *src, size_t run, size_t rank, const int64_t *dims, const int64_t *from,
             const int64_t *to, bool large);

// The same for runs of one element where the last dimension lies dense in the destination and the one before it
// closer together in the source: both are gone through in tiles.
void xg_pack_transposed(char *dst, const char *src, size_t run, size_t rank, const int64_t *dims, const int64_t *from,
                        const int64_t *to, bool large);

// A copy of memory that is large as a whole, in pieces that need not be: it goes past the caches.
void xg_copy_large(char *dst, const char *src, size_t size);

#endif
