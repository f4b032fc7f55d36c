/* SPDX-License-Identifier: Apache-2.0 */
/* Packing of blocks that are live from one time to another into as short a
 * range as possible. Each way is a heuristic that is good at other shapes;
 * pass_place.c tries them and keeps the best. */
#ifndef DCP_PASSES_PLACE_FIT_H
#define DCP_PASSES_PLACE_FIT_H

#include "src/arena.h"

#include <stdint.h>

struct dcp_fit_block {
    uint32_t born, dead; /* live at both and between; born of one block is
                            never dead of another */
    uint64_t bytes;      /* above 0 */
    uint64_t align;      /* a power of two */
    uint64_t at;         /* result */
};

#define DCP_FIT_FAILED UINT64_MAX

/* Each gives every block its place and returns the end of the range; or
 * DCP_FIT_FAILED when memory or the work allowed is out (the places are then
 * undefined). The sum of all bytes and alignments must be below 2^62. They
 * depend on the numbers alone. Temporary memory comes from `arena`. */

/* place_time.c: as an allocator would, in order of time, each block into the
 * smallest free gap that it fits. n log n, and hard to beat on iterations of
 * training: short lives within long ones. */
uint64_t dcp_fit_by_time(struct dcp_fit_block *blocks, uint32_t count,
                         struct dcp_arena *arena);

/* place_fit.c: largest first, into the lowest gap between those live with it;
 * then again with the block that ended highest moved to the front, as long as
 * `*work` (steps allowed; what is left comes back) lasts and `enough` is not
 * reached. */
uint64_t dcp_fit_by_size(struct dcp_fit_block *blocks, uint32_t count,
                         struct dcp_arena *arena, uint64_t enough,
                         uint64_t *work);

/* A beginning or an end of a life. */
struct dcp_fit_moment {
    uint64_t when; /* 2 * time, plus 1 where a block begins */
    uint32_t block;
};

/* All of them in order of time, 2 * count; NULL when memory is out. */
struct dcp_fit_moment *dcp_fit_moments(const struct dcp_fit_block *blocks,
                                       uint32_t count,
                                       struct dcp_arena *arena);

static inline uint64_t
dcp_fit_align(uint64_t at, uint64_t align)
{
    return (at + align - 1) & ~(align - 1);
}

/* The most bytes live at once: no packing can be shorter. n log n. */
uint64_t dcp_fit_floor(const struct dcp_fit_block *blocks, uint32_t count,
                       struct dcp_arena *arena);

#endif
