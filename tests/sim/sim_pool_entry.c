/* SPDX-License-Identifier: Apache-2.0 */
/* The entries for memory pools and for allocating in stream order. */
#include "sim_pool.h"

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
    struct sim_pool *pool = sim_pool_new(device);
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
        sim_pool_finish(pool);
    return CUDA_SUCCESS;
}

CUresult
cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    SIM_API(SIM_INIT);
    struct sim_pool *pool = pool_get(handle);
    if (pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_pool_trim(pool, keep);
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
    return range->place == SIM_DEVICE && range->live
               ? sim_plain_free(range, stream)
               : CUDA_ERROR_INVALID_VALUE;
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
