/* SPDX-License-Identifier: Apache-2.0 */
/* Plain device memory, managed memory, and host memory that the device may
 * use: allocated or registered. */
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct sim_range *
range_new(enum sim_place place, void *base, size_t bytes)
{
    struct sim_range *range = calloc(1, sizeof *range);
    range->place = place;
    range->base = (uintptr_t)base;
    range->bytes = bytes;
    range->ctx = sim_ctx_current();
    range->device = range->ctx->device;
    range->live = true;
    return range;
}

static CUresult
device_alloc(CUdeviceptr *out, size_t bytes, enum sim_place place)
{
    if (out == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_device *device = sim_ctx_current()->device;
    size_t held = sim_page_round(bytes);
    if (held < bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = sim_memory_take(device, held);
    if (result != CUDA_SUCCESS) {
        sim_ctx_wait(sim_ctx_current()); /* pools may have something to spare */
        sim_pool_settle();
        result = sim_memory_take(device, held);
        if (result != CUDA_SUCCESS)
            return result;
    }
    void *base = sim_arena_alloc(held, 512);
    if (base == NULL) {
        device->used -= held;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct sim_range *range = range_new(place, base, bytes);
    range->held = held;
    sim_range_add(range);
    *out = (CUdeviceptr)range->base;
    return CUDA_SUCCESS;
}

CUresult
cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
{
    SIM_API(SIM_CURRENT);
    return device_alloc(out, bytes, SIM_DEVICE);
}

CUresult
cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
    SIM_API(SIM_CURRENT);
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    return device_alloc(out, bytes, SIM_MANAGED);
}

CUresult
cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width,
                   size_t height, unsigned int element)
{
    SIM_API(SIM_CURRENT);
    if (pitch == NULL || width == 0 || height == 0 ||
        (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = (width + 511) / 512 * 512;
    return device_alloc(out, *pitch * height, SIM_DEVICE);
}

static void
device_release(void *data)
{
    struct sim_range *range = data;
    sim_range_remove(range);
    range->device->used -= range->held;
    sim_arena_free((void *)range->base, range->held);
    free(range);
}

CUresult
sim_plain_free(struct sim_range *range, struct sim_stream *stream)
{
    struct sim_op *op = NULL;
    CUresult result =
        sim_stream_submit(stream, sim_work_new(SIM_WORK_EMPTY), &op);
    if (result != CUDA_SUCCESS)
        return result;
    range->live = false;
    if (sim_op_busy(op)) {
        op->on_done = device_release;
        op->on_done_arg = range;
    } else {
        device_release(range);
    }
    sim_op_drop(op);
    return CUDA_SUCCESS;
}

CUresult
cuMemFree_v2(CUdeviceptr at)
{
    SIM_API(SIM_CURRENT);
    if (at == 0)
        return CUDA_SUCCESS;
    CUresult result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_range *range = sim_range_find((uintptr_t)at);
    if (range == NULL || range->base != (uintptr_t)at)
        return CUDA_ERROR_INVALID_VALUE;
    switch (range->place) {
    case SIM_POOLED:
        return sim_pool_free(range, NULL); /* does not wait */
    case SIM_GRAPHED:
        return sim_graph_block_free(range, NULL);
    case SIM_DEVICE:
    case SIM_MANAGED:
        if (!range->live)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_ctx *ctx = sim_ctx_current();
    range->live = false; /* a second free of it meanwhile is an error */
    sim_ctx_wait(ctx);
    device_release(range);
    return CUDA_SUCCESS;
}

CUresult
cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    SIM_API(SIM_CURRENT);
    const struct sim_device *device = sim_ctx_current()->device;
    if (free_bytes)
        *free_bytes = device->total - device->used;
    if (total)
        *total = device->total;
    return CUDA_SUCCESS;
}

static CUresult
host_alloc(void **out, size_t bytes, unsigned flags)
{
    const unsigned known = CU_MEMHOSTALLOC_PORTABLE |
                           CU_MEMHOSTALLOC_DEVICEMAP |
                           CU_MEMHOSTALLOC_WRITECOMBINED;
    if (out == NULL || (flags & ~known))
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    if (bytes == 0)
        return CUDA_SUCCESS;
    CUresult result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    size_t held = sim_page_round(bytes);
    void *base = mmap(NULL, held, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_range *range = range_new(SIM_PINNED, base, bytes);
    range->held = held;
    range->flags = flags | CU_MEMHOSTALLOC_DEVICEMAP;
    sim_range_add(range);
    *out = base;
    return CUDA_SUCCESS;
}

CUresult
cuMemAllocHost_v2(void **out, size_t bytes)
{
    SIM_API(SIM_CURRENT);
    return host_alloc(out, bytes, 0);
}

CUresult
cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    SIM_API(SIM_CURRENT);
    return host_alloc(out, bytes, flags);
}

static struct sim_range *
host_range(const void *at, enum sim_place place)
{
    struct sim_range *range = sim_range_find((uintptr_t)at);
    if (range == NULL || range->place != place ||
        range->base != (uintptr_t)at)
        return NULL;
    return range;
}

CUresult
cuMemFreeHost(void *at)
{
    SIM_API(SIM_CURRENT);
    if (at == NULL)
        return CUDA_SUCCESS;
    struct sim_range *range = host_range(at, SIM_PINNED);
    if (range == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    sim_ctx_wait(sim_ctx_current());
    sim_range_remove(range);
    munmap((void *)range->base, range->held);
    free(range);
    return CUDA_SUCCESS;
}

static CUresult
host_register(void *at, size_t bytes, unsigned flags)
{
    const unsigned known =
        CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
        CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    if (at == NULL || bytes == 0 || (flags & ~known))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    uintptr_t first = (uintptr_t)at & ~(uintptr_t)(sim_page_round(1) - 1);
    unsigned char resident;
    if (mincore((void *)first, 1, &resident) != 0 && errno == ENOMEM)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_range *range = range_new(SIM_REGISTERED, at, bytes);
    range->flags = flags | CU_MEMHOSTREGISTER_DEVICEMAP;
    if (sim_range_add(range) != 0) {
        free(range);
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    return CUDA_SUCCESS;
}

CUresult
cuMemHostRegister(void *at, size_t bytes, unsigned int flags)
{
    SIM_API(SIM_CURRENT);
    return host_register(at, bytes, flags);
}

CUresult
cuMemHostRegister_v2(void *at, size_t bytes, unsigned int flags)
{
    SIM_API(SIM_CURRENT);
    return host_register(at, bytes, flags);
}

CUresult
cuMemHostUnregister(void *at)
{
    SIM_API(SIM_CURRENT);
    struct sim_range *range = sim_range_find((uintptr_t)at);
    if (at == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (range == NULL || range->place != SIM_REGISTERED)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    if (range->base != (uintptr_t)at)
        return CUDA_ERROR_INVALID_VALUE;
    sim_ctx_wait(sim_ctx_current());
    sim_range_remove(range);
    free(range);
    return CUDA_SUCCESS;
}

CUresult
cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *at, unsigned int flags)
{
    SIM_API(SIM_CURRENT);
    const struct sim_range *range = sim_range_find((uintptr_t)at);
    if (out == NULL || flags != 0 || range == NULL ||
        (sim_range_is_device(range) && range->place != SIM_MANAGED))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)(uintptr_t)at;
    return CUDA_SUCCESS;
}

CUresult
cuMemHostGetFlags(unsigned int *flags, void *at)
{
    SIM_API(SIM_CURRENT);
    const struct sim_range *range = sim_range_find((uintptr_t)at);
    if (flags == NULL || range == NULL || 
        (range->place != SIM_PINNED && range->place != SIM_REGISTERED))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = range->flags;
    return CUDA_SUCCESS;
}

CUresult
cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr at)
{
    SIM_API(SIM_CURRENT);
    const struct sim_range *range = sim_range_find((uintptr_t)at);
    if (range == NULL || range->place == SIM_RESERVED ||
        range->place == SIM_REGISTERED)
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = range->base;
    if (bytes)
        *bytes = range->bytes;
    return CUDA_SUCCESS;
}

/* Managed memory lives in one place here; hints only check their arguments. */
static CUresult
managed_check(CUdeviceptr at, size_t bytes)
{
    const struct sim_range *range = sim_range_find((uintptr_t)at);
    if (bytes == 0 || range == NULL || range->place != SIM_MANAGED ||
        at - range->base + bytes > range->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult
cuMemAdvise(CUdeviceptr at, size_t bytes, CUmem_advise advice, CUdevice device)
{
    SIM_API(SIM_CURRENT);
    (void)advice, (void)device;
    return managed_check(at, bytes);
}

CUresult
cuMemAdvise_v2(CUdeviceptr at, size_t bytes, CUmem_advise advice,
               CUmemLocation location)
{
    SIM_API(SIM_CURRENT);
    (void)advice, (void)location;
    return managed_check(at, bytes);
}

static CUresult
prefetch(bool ptds, CUdeviceptr at, size_t bytes, CUstream handle)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    return managed_check(at, bytes);
}

CUresult
cuMemPrefetchAsync(CUdeviceptr at, size_t bytes, CUdevice device,
                   CUstream stream)
{
    SIM_API(SIM_CURRENT);
    (void)device;
    return prefetch(false, at, bytes, stream);
}

CUresult
cuMemPrefetchAsync_ptsz(CUdeviceptr at, size_t bytes, CUdevice device,
                        CUstream stream)
{
    SIM_API(SIM_CURRENT);
    (void)device;
    return prefetch(true, at, bytes, stream);
}

CUresult
cuMemPrefetchAsync_v2(CUdeviceptr at, size_t bytes, CUmemLocation location,
                      unsigned int flags, CUstream stream)
{
    SIM_API(SIM_CURRENT);
    (void)location;
    return flags ? CUDA_ERROR_INVALID_VALUE
                 : prefetch(false, at, bytes, stream);
}

CUresult
cuMemPrefetchAsync_v2_ptsz(CUdeviceptr at, size_t bytes,
                           CUmemLocation location, unsigned int flags,
                           CUstream stream)
{
    SIM_API(SIM_CURRENT);
    (void)location;
    return flags ? CUDA_ERROR_INVALID_VALUE
                 : prefetch(true, at, bytes, stream);
}

/* Memory shared through the old handles is not modelled (nor does the real
 * driver share mapped or pooled memory so). */
CUresult
cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr at)
{
    SIM_API(SIM_CURRENT);
    const struct sim_range *range = sim_range_find((uintptr_t)at);
    if (handle == NULL || range == NULL || range->place != SIM_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_NOT_SUPPORTED;
}
