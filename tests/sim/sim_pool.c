/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools: chunks of device memory cut into blocks. A block freed in
 * stream order is reused by that stream at once, by others when the free has
 * been reached; when memory is short, the allocating stream is made to wait. */
#include "sim.h"

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

struct sim_pool {
    struct sim_object object;
    struct sim_device *device;
    CUmemPoolProps props;
    struct sim_chunk *chunks;
    struct sim_block *free;
    int reuse_event, reuse_opportunistic, reuse_internal;
    cuuint64_t threshold;
    size_t reserved, reserved_high, used, used_high;
    size_t live;
    bool doomed;                        /* destroyed with blocks in use */
    struct sim_pool *next;
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

static struct sim_pool *
pool_new(struct sim_device *device)
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
    device->default_pool = device->pool = pool_new(device);
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
    if (pool->props.maxSize != 0 && pool->reserved + bytes > pool->props.maxSize)
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

/* Gives free chunks back until at most `keep` bytes are reserved. */
static void
pool_trim(struct sim_pool *pool, size_t keep)
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
            pool_trim(pool, pool->threshold);
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
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
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
    pool->used += wanted;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    *out = block->base;
    return CUDA_SUCCESS;
}

static void
pool_finish(struct sim_pool *pool)
{
    struct sim_pool **link = &pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    pool_trim(pool, 0);
    sim_object_free(pool);
}

CUresult
sim_pool_free(struct sim_range *range, struct sim_stream *stream)
{
    struct sim_block *block = range->block;
    struct sim_pool *pool = range->pool;
    sim_range_remove(range);
    free(range);
    block->used = false;
    block->stream = stream ? stream->object.id : 0;
    if (stream)
        sim_stream_submit(stream, sim_work_new(SIM_WORK_EMPTY), &block->freed);
    list_add(pool, block);
    pool->used -= block->bytes;
    merge(block);
    if (--pool->live == 0 && pool->doomed)
        pool_finish(pool);
    return CUDA_SUCCESS;
}

static struct sim_pool *
pool_get(CUmemoryPool handle)
{
    struct sim_pool *pool = sim_object_get(handle, SIM_POOL);
    return pool && !pool->doomed ? pool : NULL;
}

CUresult
cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    SIM_API(SIM_INIT);
    if (out == NULL || props == NULL ||
        props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_device *device = sim_device_get(props->location.id);
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_pool *pool = pool_new(device);
    pool->props = *props;
    *out = (CUmemoryPool)pool;
    return CUDA_SUCCESS;
}

CUresult
cuMemPoolDestroy(CUmemoryPool handle)
{
    SIM_API(SIM_INIT);
    struct sim_pool *pool = pool_get(handle);
    if (pool == NULL || pool == pool->device->default_pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool->device->pool == pool)
        pool->device->pool = pool->device->default_pool;
    if (pool->live > 0)
        pool->doomed = true;
    else
        pool_finish(pool);
    return CUDA_SUCCESS;
}

CUresult
cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    SIM_API(SIM_INIT);
    struct sim_pool *pool = pool_get(handle);
    if (pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pool_trim(pool, keep);
    return CUDA_SUCCESS;
}

CUresult
cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                      void *value)
{
    SIM_API(SIM_INIT);
    struct sim_pool *pool = pool_get(handle);
    if (pool == NULL || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        pool->reuse_event = *(int *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        pool->reuse_opportunistic = *(int *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->reuse_internal = *(int *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = *(cuuint64_t *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        if (*(cuuint64_t *)value != 0)
            return CUDA_ERROR_INVALID_VALUE;
        pool->reserved_high = pool->reserved;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(cuuint64_t *)value != 0)
            return CUDA_ERROR_INVALID_VALUE;
        pool->used_high = pool->used;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult
cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                      void *value)
{
    SIM_API(SIM_INIT);
    struct sim_pool *pool = pool_get(handle);
    if (pool == NULL || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        *(int *)value = pool->reuse_event;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        *(int *)value = pool->reuse_opportunistic;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = pool->reuse_internal;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(cuuint64_t *)value = pool->threshold;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->reserved;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *(cuuint64_t *)value = pool->reserved_high;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->used;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = pool->used_high;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult
cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map,
                   size_t count)
{
    SIM_API(SIM_INIT);
    struct sim_pool *pool = pool_get(handle);
    if (pool == NULL || (count > 0 && map == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_INVALID_VALUE;
        if (sim_device_get(map[i].location.id) == NULL)
            return CUDA_ERROR_INVALID_DEVICE;
    }
    return CUDA_SUCCESS;
}

CUresult
cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle,
                   CUmemLocation *location)
{
    SIM_API(SIM_INIT);
    struct sim_pool *pool = pool_get(handle);
    if (pool == NULL || flags == NULL || location == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = location->id == pool->device->ordinal
                 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

static CUresult
device_pool(CUmemoryPool *out, CUdevice handle, bool fallback)
{
    struct sim_device *device = sim_device_get(handle);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *out = (CUmemoryPool)(fallback ? device->default_pool : device->pool);
    return CUDA_SUCCESS;
}

static CUresult
device_set_pool(CUdevice handle, CUmemoryPool pool_handle)
{
    struct sim_device *device = sim_device_get(handle);
    struct sim_pool *pool = pool_get(pool_handle);
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (pool == NULL || pool->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    device->pool = pool;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    SIM_API(SIM_INIT);
    return device_pool(pool, device, true);
}

CUresult
cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    SIM_API(SIM_INIT);
    return device_pool(pool, device, false);
}

CUresult
cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    SIM_API(SIM_INIT);
    return device_set_pool(device, pool);
}

static bool
on_device(const CUmemLocation *location, CUmemAllocationType type)
{
    return location && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
           type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

CUresult
cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location,
                       CUmemAllocationType type)
{
    SIM_API(SIM_INIT);
    if (!on_device(location, type))
        return CUDA_ERROR_NOT_SUPPORTED;
    return device_pool(pool, location->id, true);
}

CUresult
cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location,
                CUmemAllocationType type)
{
    SIM_API(SIM_INIT);
    if (!on_device(location, type))
        return CUDA_ERROR_NOT_SUPPORTED;
    return device_pool(pool, location->id, false);
}

CUresult
cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
                CUmemoryPool pool)
{
    SIM_API(SIM_INIT);
    if (!on_device(location, type))
        return CUDA_ERROR_NOT_SUPPORTED;
    return device_set_pool(location->id, pool);
}

/* Inside a capture, memory becomes alloc and free nodes (sim_memnode.c). */
static CUresult
alloc_async(bool ptds, CUdeviceptr *out, size_t bytes, struct sim_pool *pool,
            CUstream handle)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture)
        return sim_capture_alloc(stream, pool->device, bytes, out);
    CUresult result = sim_stream_check_implicit(stream);
    if (result != CUDA_SUCCESS)
        return result;
    return sim_pool_alloc(pool, bytes, stream, out);
}

static CUresult
free_async(bool ptds, CUdeviceptr at, CUstream handle)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_range *range = sim_range_find((uintptr_t)at);
    if (range == NULL || range->base != (uintptr_t)at)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture)
        return sim_capture_free(stream, range);
    CUresult result = sim_stream_check_implicit(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (range->place == SIM_POOLED)
        return sim_pool_free(range, stream);
    if (range->place == SIM_GRAPHED)
        return sim_graph_block_free(range, stream);
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult
cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    SIM_API(SIM_CURRENT);
    return alloc_async(false, out, bytes, sim_ctx_current()->device->pool,
                       stream);
}

CUresult
cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    SIM_API(SIM_CURRENT);
    return alloc_async(true, out, bytes, sim_ctx_current()->device->pool,
                       stream);
}

CUresult
cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool handle,
                        CUstream stream)
{
    SIM_API(SIM_CURRENT);
    struct sim_pool *pool = pool_get(handle);
    if (pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return alloc_async(false, out, bytes, pool, stream);
}

CUresult
cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t bytes,
                             CUmemoryPool handle, CUstream stream)
{
    SIM_API(SIM_CURRENT);
    struct sim_pool *pool = pool_get(handle);
    if (pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return alloc_async(true, out, bytes, pool, stream);
}

CUresult
cuMemFreeAsync(CUdeviceptr at, CUstream stream)
{
    SIM_API(SIM_CURRENT);
    return free_async(false, at, stream);
}

CUresult
cuMemFreeAsync_ptsz(CUdeviceptr at, CUstream stream)
{
    SIM_API(SIM_CURRENT);
    return free_async(true, at, stream);
}
