/* SPDX-License-Identifier: Apache-2.0 */
/* A region of memory that grows by mmap and is released as a whole. It never
 * calls malloc, so it may be used inside a preloaded library at any time. Not
 * thread-safe: the owner serialises. */
#ifndef DCP_SRC_ARENA_H
#define DCP_SRC_ARENA_H

#include <stddef.h>

struct dcp_arena_chunk;

struct dcp_arena {
    struct dcp_arena_chunk *chunk; /* newest first */
    size_t total;                  /* bytes mapped */
};

/* Zero-initialised memory of `bytes` bytes, aligned to 16; NULL when the
 * system refuses. Lives until dcp_arena_release. */
void *dcp_arena_alloc(struct dcp_arena *arena, size_t bytes);

/* A copy of `bytes` bytes at `from`, or NULL. */
void *dcp_arena_copy(struct dcp_arena *arena, const void *from, size_t bytes);

/* A NUL-terminated copy of `text`, or NULL. */
char *dcp_arena_strdup(struct dcp_arena *arena, const char *text);

/* Gives back everything; the arena may be used again. */
void dcp_arena_release(struct dcp_arena *arena);

/* Failure injection for tests: after `calls` further allocations that
 * succeed, every allocation fails until this is called with -1. */
void dcp_arena_fail_after(long calls);

#endif
