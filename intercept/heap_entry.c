/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's allocations and frees, served by the heap where it can. Every
 * error that the arguments alone decide, and every pointer that is not ours,
 * goes to the driver, so that the answer is its own. */
#include "config.h"

#include "src/log.h"

#include "intercept/frame.h"
#include "intercept/heap.h"
#include "intercept/heap_own.h"
#include "intercept/heap_pool.h"
#include "intercept/hook.h"

enum { PITCH = 512 };

/* `unknown`: what a stream is that cannot be asked. */
static bool
is_capturing(CUstream stream, bool unknown)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (atomic_load_explicit(&dcp_heap_captures, memory_order_relaxed) == 0)
        return false;
    if (dcp_real.cuStreamIsCapturing == NULL ||
        dcp_real.cuStreamIsCapturing(stream, &status))
        return unknown;
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Inside a capture an allocation is a node of the program's graph. */
static bool
is_ours(CUstream stream)
{
    return dcp_heap_serves() && !is_capturing(stream, true);
}

/* What goes wrong inside the heap is not the program's business: the driver
 * serves the call, or gives an error of its own. Only a limit that the user
 * has set is an answer. */
static bool
is_drivers(CUresult cu, size_t bytes)
{
    static atomic_bool told;

    if (cu == CUDA_SUCCESS || cu == CUDA_ERROR_NOT_SUPPORTED)
        return cu != CUDA_SUCCESS;
    if (cu == CUDA_ERROR_OUT_OF_MEMORY && dcp_frame_room() < bytes)
        return false;
    if (!atomic_exchange(&told, true))
        dcp_warn("the heap cannot serve %zu bytes (error %d): the driver is "
                 "asked for them", bytes, (int)cu);
    return true;
}

CUresult
dcp_own_cuMemAlloc_v2(const struct dcp_hook_info *info,
                      struct dcp_args_cuMemAlloc_v2 *args)
{
    CUresult cu = CUDA_ERROR_NOT_SUPPORTED;

    (void)info;
    if (args->dptr && args->bytesize && dcp_heap_serves())
        cu = dcp_heap_alloc(args->bytesize, NULL, true, args->dptr);
    if (is_drivers(cu, args->bytesize))
        cu = DCP_ASK(cuMemAlloc_v2, args->dptr, args->bytesize);
    return cu;
}

static bool
pitch_is_plain(const struct dcp_args_cuMemAllocPitch_v2 *args)
{
    unsigned element = args->ElementSizeBytes;
    size_t bytes;

    return args->dptr && args->pPitch && args->WidthInBytes && args->Height &&
           (element == 4 || element == 8 || element == 16) &&
           args->WidthInBytes <= SIZE_MAX - PITCH &&
           !__builtin_mul_overflow(args->WidthInBytes + PITCH, args->Height,
                                   &bytes) &&
           dcp_heap_serves();
}

CUresult
dcp_own_cuMemAllocPitch_v2(const struct dcp_hook_info *info,
                           struct dcp_args_cuMemAllocPitch_v2 *args)
{
    CUresult cu = CUDA_ERROR_NOT_SUPPORTED;

    (void)info;
    if (pitch_is_plain(args)) {
        size_t pitch = (args->WidthInBytes + PITCH - 1) & ~(size_t)(PITCH - 1);

        cu = dcp_heap_alloc(pitch * args->Height, NULL, true, args->dptr);
        if (cu == CUDA_SUCCESS)
            *args->pPitch = pitch;
    }
    if (is_drivers(cu, args->WidthInBytes * args->Height))
        cu = DCP_ASK(cuMemAllocPitch_v2, args->dptr, args->pPitch,
                     args->WidthInBytes, args->Height, args->ElementSizeBytes);
    return cu;
}

CUresult
dcp_own_cuMemFree_v2(const struct dcp_hook_info *info,
                     struct dcp_args_cuMemFree_v2 *args)
{
    (void)info;
    CUresult cu = dcp_heap_free_sync(args->dptr);

    return cu == CUDA_ERROR_NOT_FOUND ? DCP_ASK(cuMemFree_v2, args->dptr) : cu;
}

CUresult
dcp_own_cuMemAllocAsync(const struct dcp_hook_info *info,
                        struct dcp_args_cuMemAllocAsync *args)
{
    CUstream stream = dcp_hook_stream(info, args->hStream);
    CUresult cu = CUDA_ERROR_NOT_SUPPORTED;

    if (args->dptr && args->bytesize && is_ours(stream)) {
        unsigned pool = dcp_pool_current();

        if (pool)
            cu = dcp_heap_alloc_pool(args->bytesize, stream, false, pool,
                                     args->dptr);
    }
    if (is_drivers(cu, args->bytesize))
        cu = DCP_ASK(cuMemAllocAsync, args->dptr, args->bytesize, stream);
    return cu;
}

CUresult
dcp_own_cuMemAllocFromPoolAsync(const struct dcp_hook_info *info,
                                struct dcp_args_cuMemAllocFromPoolAsync *args)
{
    CUstream stream = dcp_hook_stream(info, args->hStream);
    CUresult cu = CUDA_ERROR_NOT_SUPPORTED;

    if (args->dptr && args->bytesize && is_ours(stream)) {
        unsigned pool = dcp_pool_number(args->pool);

        if (pool)
            cu = dcp_heap_alloc_pool(args->bytesize, stream, false, pool,
                                     args->dptr);
    }
    if (is_drivers(cu, args->bytesize))
        cu = DCP_ASK(cuMemAllocFromPoolAsync, args->dptr, args->bytesize,
                     args->pool, stream);
    return cu;
}

CUresult
dcp_own_cuMemFreeAsync(const struct dcp_hook_info *info,
                       struct dcp_args_cuMemFreeAsync *args)
{
    CUstream stream = dcp_hook_stream(info, args->hStream);
    CUresult cu = CUDA_ERROR_NOT_FOUND;

    if (!dcp_heap_owns(args->dptr) || !is_capturing(stream, false))
        cu = dcp_heap_free(args->dptr, stream);
    return cu == CUDA_ERROR_NOT_FOUND
               ? DCP_ASK(cuMemFreeAsync, args->dptr, stream) : cu;
}

CUresult
dcp_own_cuStreamDestroy_v2(const struct dcp_hook_info *info,
                           struct dcp_args_cuStreamDestroy_v2 *args)
{
    (void)info;
    dcp_heap_stream_gone(args->hStream);
    return DCP_ASK(cuStreamDestroy_v2, args->hStream);
}

/* The thread that resets the context need not have it current. */
static void
give_all_back(void)
{
    CUcontext now;
    bool pushed = !dcp_heap_serves() &&
                  dcp_real.cuCtxPushCurrent_v2(dcp_heap_context()) ==
                      CUDA_SUCCESS;

    dcp_real.cuCtxSynchronize();
    dcp_heap_reset();
    if (pushed)
        dcp_real.cuCtxPopCurrent_v2(&now);
}

CUresult
dcp_own_cuDevicePrimaryCtxReset_v2(
    const struct dcp_hook_info *info,
    struct dcp_args_cuDevicePrimaryCtxReset_v2 *args)
{
    (void)info;
    if (dcp_heap_context() && args->dev == dcp_frame_device())
        give_all_back();
    return DCP_ASK(cuDevicePrimaryCtxReset_v2, args->dev);
}

/* Whether a release is the last one shows only afterwards: not every library
 * retains in a way that can be seen. */
CUresult
dcp_own_cuDevicePrimaryCtxRelease_v2(
    const struct dcp_hook_info *info,
    struct dcp_args_cuDevicePrimaryCtxRelease_v2 *args)
{
    unsigned flags;
    int active = 1;

    (void)info;
    CUresult cu = DCP_ASK(cuDevicePrimaryCtxRelease_v2, args->dev);
    if (cu == CUDA_SUCCESS && dcp_heap_context() &&
        args->dev == dcp_frame_device() &&
        dcp_real.cuDevicePrimaryCtxGetState(args->dev, &flags, &active) ==
            CUDA_SUCCESS &&
        !active)
        dcp_heap_forget();
    return cu;
}
