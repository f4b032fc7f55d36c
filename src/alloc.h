/* SPDX-License-Identifier: Apache-2.0 */
/* malloc and its like for the code that is loaded into the program, so that a
 * test can make any one of its allocations fail. What they return is given
 * back by free, dcp_map's by munmap. */
#ifndef DCP_SRC_ALLOC_H
#define DCP_SRC_ALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* As malloc, calloc and realloc. Any thread. */
void *dcp_malloc(size_t bytes);
void *dcp_calloc(size_t count, size_t bytes);
void *dcp_realloc(void *old, size_t bytes);

/* Zeroed pages, whose memory is taken as they are touched; NULL when the system
 * refuses. Any thread. */
void *dcp_map(size_t bytes);

/* For tests: the allocation number `at` from now on, from 1, fails, once. 0:
 * none does. */
void dcp_alloc_fail_at(long at);

extern atomic_long dcp_alloc_left; /* allocations until the one that fails */
bool dcp_alloc_count(void);

/* True when an allocation that is made in another way must fail now. */
static inline bool
dcp_alloc_fails(void)
{
    return __builtin_expect(atomic_load_explicit(&dcp_alloc_left,
                                                 memory_order_relaxed) > 0,
                            0) &&
           dcp_alloc_count();
}

#endif
