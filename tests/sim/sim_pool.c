/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools: chunks of device memory cut into blocks. A block freed in
 * stream order is reused by that stream at once, by others when the free has
 * been reached; when memory is short, the allocating stream is made to wait. */
#include "sim_pool.h"

#include <stdlib.h>

#define CHUNK ((size_t)2 << 20)
#define ALIGN ((size_t)512)

struct sim_block {
    uintptr_t base;
    size_t bytes;
    struct sim_chunk *chunk;
    struct sim_block *before, *after;   /* neighbours in the chunk */
    struct sim_block *link, **owner;    /* in the pool's list of free blocks */
    bool used;
    struct sim_op *freed;               /* the free, while it may be pending */
    uint64_t stream;                    /* id of the stream it was freed on */
};

struct sim_chunk {
    struct sim_pool *pool;
    struct sim_range range;             /* SIM_HELD */
    struct sim_block *first;
    struct sim_chunk *next;
};

static struct sim_pool *pools;

CUresult
sim_memory_take(struct sim_device *device, size_t bytes)
{
    if (bytes > device->total - device->used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    device->used += bytes;
    return CUDA_SUCCESS;
}

struct sim_pool *
sim_pool_new(struct sim_device *device)
{
    struct sim_pool *pool = sim_object_new(SIM_POOL, sizeof *pool);
    pool->device = device;
    pool->reuse_event = pool->reuse_opportunistic = pool->reuse_internal = 1;
    pool->next = pools;
    pools = pool;
    return pool;
}

CUresult
sim_pool_setup(struct sim_device *device)
{
    device->default_pool = device->pool = sim_pool_new(device);
    return CUDA_SUCCESS;
}

static void
list_add(struct sim_pool *pool, struct sim_block *block)
{
    block->link = pool->free;
    block->owner = &pool->free;
    if (pool->free)
        pool->free->owner = &block->link;
    pool->free = block;
}

static void
list_remove(struct sim_block *block)
{
    *block->owner = block->link;
    if (block->link)
        block->link->owner = block->owner;
    block->owner = NULL;
}

/* The free has been reached: no stream has anything left to do with it. */
static bool
settled(struct sim_block *block)
{
    if (block->used || sim_op_busy(block->freed))
        return false;
    sim_op_drop(block->freed);
    block->freed = NULL;
    return true;
}

/* Takes the free neighbours behind a settled block into it. */
static void
absorb(struct sim_block *block)
{
    while (block->after && settled(block->after)) {
        struct sim_block *gone = block->after;
        list_remove(gone);
        block->bytes += gone->bytes;
        block->after = gone->after;
        if (gone->after)
            gone->after->before = block;
        free(gone);
    }
}

/* Joins a free block with its neighbours; it may be gone afterwards. */
static void
merge(struct sim_block *block)
{
    if (!settled(block))
        return;
    while (block->before && settled(block->before))
        block = block->before;
    absorb(block);
}

static struct sim_block *
chunk_add(struct sim_pool *pool, size_t bytes)
{
    bytes = (bytes + CHUNK - 1) / CHUNK * CHUNK;
    if (pool->props.maxSize != 0 &&
        pool->reserved + bytes > pool->props.maxSize)
        return NULL;
    if (sim_memory_take(pool->device, bytes) != CUDA_SUCCESS)
        return NULL;
    void *base = sim_arena_alloc(bytes, CHUNK);
    if (base == NULL) {
        pool->device->used -= bytes;
        return NULL;
    }
    struct sim_chunk *chunk = calloc(1, sizeof *chunk);
    struct sim_block *block = calloc(1, sizeof *block);
    chunk->range = (struct sim_range){.base = (uintptr_t)base, .bytes = bytes,
                                      .place = SIM_HELD, .live = true,
                                      .device = pool->device};
    sim_range_add(&chunk->range);
    chunk->pool = pool;
    chunk->first = block;
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    block->base = (uintptr_t)base;
    block->bytes = bytes;
    block->chunk = chunk;
    list_add(pool, block);
    pool->reserved += bytes;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
    return block;
}

void
sim_pool_trim(struct sim_pool *pool, size_t keep)
{
    struct sim_chunk **link = &pool->chunks;
    while (*link && pool->reserved > keep) {
        struct sim_chunk *chunk = *link;
        merge(chunk->first);
        struct sim_block *block = chunk->first;
        if (block->after || !settled(block)) {
            link = &chunk->next;
            continue;
        }
        *link = chunk->next;
        list_remove(block);
        sim_range_remove(&chunk->range);
        sim_arena_free((void *)block->base, block->bytes);
        pool->reserved -= block->bytes;
        pool->device->used -= block->bytes;
        free(block);
        free(chunk);
    }
}

void
sim_pool_settle(void)
{
    for (struct sim_pool *pool = pools; pool; pool = pool->next)
        if (pool->reserved > pool->threshold && pool->free)
            sim_pool_trim(pool, pool->threshold);
}

static struct sim_block *
find_free(struct sim_pool *pool, size_t bytes, const struct sim_stream *stream,
          bool any)
{
    for (struct sim_block *b = pool->free; b; b = b->link) {
        if (settled(b))
            absorb(b);
        if (b->bytes < bytes)
            continue;
        if (any || b->freed == NULL ||
            (stream != NULL && b->stream == stream->object.id))
            return b;
    }
    return NULL;
}

/* Makes all later work of the stream come after the op. */
static void
stream_after(struct sim_stream *stream, struct sim_op *before)
{
    struct sim_op *op = sim_op_new(stream->ctx, NULL);
    sim_stream_order(stream, op);
    sim_op_after(op, before);
    sim_stream_advance(stream, op);
    sim_op_start(op);
    sim_op_drop(op);
}

static void
block_split(struct sim_pool *pool, struct sim_block *block, size_t bytes)
{
    if (block->bytes == bytes)
        return;
    struct sim_block *rest = calloc(1, sizeof *rest);
    rest->base = block->base + bytes;
    rest->bytes = block->bytes - bytes;
    rest->chunk = block->chunk;
    rest->before = block;
    rest->after = block->after;
    if (rest->after)
        rest->after->before = rest;
    block->after = rest;
    block->bytes = bytes;
    rest->stream = block->stream;
    rest->freed = block->freed ? sim_op_ref(block->freed) : NULL;
    list_add(pool, rest);
}

CUresult
sim_pool_alloc(struct sim_pool *pool, size_t bytes, struct sim_stream *stream,
               CUdeviceptr *out)
{
    if (bytes == 0) {
        *out = 0;
        return CUDA_SUCCESS;
    }
    size_t wanted = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    struct sim_block *block = find_free(pool, wanted, stream, false);
    if (block == NULL)
        block = chunk_add(pool, wanted);
    if (block == NULL)
        block = find_free(pool, wanted, stream, true);
    if (block == NULL) {
        sim_pool_settle();
        block = chunk_add(pool, wanted);
    }
    if (block == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (block->freed && stream && block->stream != stream->object.id)
        stream_after(stream, block->freed);
    block_split(pool, block, wanted);
    list_remove(block);
    sim_op_drop(block->freed);
    block->freed = NULL;
    block->used = true;
    struct sim_range *range = calloc(1, sizeof *range);
    *range = (struct sim_range){
        .base = block->base, .bytes = bytes, .place = SIM_POOLED, .live = true,
        .device = pool->device, .pool = pool, .block = block,
        .ctx = sim_ctx_current()};
    sim_range_add(range);
    pool->live++;
    pool->used += bytes;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    *out = block->base;
    return CUDA_SUCCESS;
}

void
sim_pool_finish(struct sim_pool *pool)
{
    struct sim_pool **link = &pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    sim_pool_trim(pool, 0);
    sim_object_free(pool);
}

CUresult
sim_pool_free(struct sim_range *range, struct sim_stream *stream)
{
    struct sim_block *block = range->block;
    struct sim_pool *pool = range->pool;
    pool->used -= range->bytes;
    sim_range_remove(range);
    free(range);
    block->used = false;
    block->stream = stream ? stream->object.id : 0;
    if (stream)
        sim_stream_submit(stream, sim_work_new(SIM_WORK_EMPTY), &block->freed);
    list_add(pool, block);
    merge(block);
    if (--pool->live == 0 && pool->doomed)
        sim_pool_finish(pool);
    return CUDA_SUCCESS;
}
