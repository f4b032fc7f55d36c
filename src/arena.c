/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/arena.h"

#include "src/alloc.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* The leak checker looks for pointers in what malloc gave, not in what mmap
 * gave: tell it. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#endif
#endif
#ifndef SANITIZER_LSAN_INTERFACE_H
#define __lsan_register_root_region(at, bytes) ((void)0)
#define __lsan_unregister_root_region(at, bytes) ((void)0)
#endif

enum { CHUNK_BYTES = 256 * 1024, ALIGN = 16 };

struct dcp_arena_chunk {
    struct dcp_arena_chunk *next;
    size_t bytes, used;
    max_align_t data[];
};

static atomic_long fail_after = -1;

void
dcp_arena_fail_after(long calls)
{
    atomic_store(&fail_after, calls);
}

static int
failing(void)
{
    long left = atomic_load_explicit(&fail_after, memory_order_relaxed);

    if (left < 0)
        return 0;
    if (left == 0)
        return 1;
    atomic_store(&fail_after, left - 1);
    return 0;
}

static struct dcp_arena_chunk *
chunk_map(size_t need)
{
    size_t bytes = CHUNK_BYTES;

    if (need > SIZE_MAX - sizeof(struct dcp_arena_chunk) - 4096)
        return NULL;
    need += sizeof(struct dcp_arena_chunk);
    if (need > bytes)
        bytes = (need + 4095) & ~(size_t)4095;
    void *map = dcp_map(bytes);
    if (map == NULL)
        return NULL;
    __lsan_register_root_region(map, bytes);
    struct dcp_arena_chunk *chunk = map;
    chunk->bytes = bytes - sizeof *chunk;
    return chunk;
}

void *
dcp_arena_alloc(struct dcp_arena *arena, size_t bytes)
{
    struct dcp_arena_chunk *chunk = arena->chunk;

    if (failing() || dcp_alloc_fails() || bytes > SIZE_MAX - ALIGN)
        return NULL;
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (!chunk || chunk->bytes - chunk->used < bytes) {
        chunk = chunk_map(bytes);
        if (!chunk)
            return NULL;
        arena->total += chunk->bytes + sizeof *chunk;
        chunk->next = arena->chunk;
        arena->chunk = chunk;
    }
    void *at = (char *)chunk->data + chunk->used;
    chunk->used += bytes;
    return at;
}

void *
dcp_arena_copy(struct dcp_arena *arena, const void *from, size_t bytes)
{
    void *to = dcp_arena_alloc(arena, bytes);

    if (to && bytes)
        memcpy(to, from, bytes);
    return to;
}

char *
dcp_arena_strdup(struct dcp_arena *arena, const char *text)
{
    return dcp_arena_copy(arena, text, strlen(text) + 1);
}

void
dcp_arena_release(struct dcp_arena *arena)
{
    for (struct dcp_arena_chunk *c = arena->chunk, *next; c; c = next) {
        next = c->next;
        __lsan_unregister_root_region(c, c->bytes + sizeof *c);
        munmap(c, c->bytes + sizeof *c);
    }
    arena->chunk = NULL;
    arena->total = 0;
}
