/* SPDX-License-Identifier: Apache-2.0 */
/* Copies in all their forms. What matters to a program that reuses its
 * buffers: pageable sources are read before the call returns, pinned ones when
 * the stream comes to it; into pageable memory the call waits. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

/* A blocking upload of pageable memory that is this small is not waited for. */
#define STAGING ((size_t)65536)

struct side {
    uintptr_t at;
    size_t pitch, slice;
    bool host, loose;
};

/* Finds one side's first byte and kind of memory, and checks its extent. */
static CUresult
side_find(struct side *side, CUmemorytype type, const void *host,
          CUdeviceptr device, size_t x, size_t y, size_t z, size_t pitch,
          size_t rows, const CUDA_MEMCPY3D *desc)
{
    uintptr_t base;
    if (type == CU_MEMORYTYPE_HOST)
        base = (uintptr_t)host;
    else if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED)
        base = (uintptr_t)device;
    else
        return type == CU_MEMORYTYPE_ARRAY ? CUDA_ERROR_NOT_SUPPORTED
                                           : CUDA_ERROR_INVALID_VALUE;
    bool flat = desc->Height <= 1 && desc->Depth <= 1;
    if (pitch == 0)
        pitch = desc->WidthInBytes + x;
    if (rows == 0)
        rows = desc->Height + y;
    if (!flat && pitch < desc->WidthInBytes + x)
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->Depth > 1 && rows < desc->Height + y)
        return CUDA_ERROR_INVALID_VALUE;
    side->pitch = pitch;
    side->slice = pitch * rows;
    side->at = base + z * side->slice + y * pitch + x;
    size_t extent = desc->WidthInBytes;
    if (extent == 0 || desc->Height == 0 || desc->Depth == 0)
        return CUDA_SUCCESS;
    extent += (desc->Height - 1) * pitch + (desc->Depth - 1) * side->slice;
    if (base == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_range *range = sim_range_find(side->at);
    side->loose = range == NULL;
    side->host = range == NULL || !sim_range_is_device(range);
    return sim_range_check(side->at, extent, type != CU_MEMORYTYPE_DEVICE);
}

CUresult
sim_copy_work_new(const CUDA_MEMCPY3D *desc, struct sim_ctx *ctx,
                  struct sim_work **out)
{
    struct side dst = {0}, src = {0};
    if (desc->srcLOD != 0 || desc->dstLOD != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = side_find(
        &dst, desc->dstMemoryType, desc->dstHost, desc->dstDevice,
        desc->dstXInBytes, desc->dstY, desc->dstZ, desc->dstPitch,
        desc->dstHeight, desc);
    if (result == CUDA_SUCCESS)
        result = side_find(&src, desc->srcMemoryType, desc->srcHost,
                           desc->srcDevice, desc->srcXInBytes, desc->srcY,
                           desc->srcZ, desc->srcPitch, desc->srcHeight, desc);
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_work *work = sim_work_new(SIM_WORK_COPY);
    work->copy = (struct sim_copy_work){
        .desc = *desc, .ctx = ctx, .dst = dst.at, .src = src.at,
        .dst_pitch = dst.pitch, .src_pitch = src.pitch,
        .dst_slice = dst.slice, .src_slice = src.slice,
        .width = desc->WidthInBytes, .height = desc->Height,
        .depth = desc->Depth, .dst_host = dst.host, .src_host = src.host,
        .dst_loose = dst.loose, .src_loose = src.loose};
    *out = work;
    return CUDA_SUCCESS;
}

static size_t
extent_of(const struct sim_copy_work *work, size_t pitch, size_t slice)
{
    return (work->depth - 1) * slice + (work->height - 1) * pitch + work->width;
}

/* Reads the source now, row after row. Where the copy will fail, its length
 * may be nonsense, and nothing is read. */
static void
stage(struct sim_copy_work *work)
{
    if (!sim_range_usable(work->dst,
                          extent_of(work, work->dst_pitch, work->dst_slice),
                          true))
        return;
    size_t slice = work->width * work->height;
    work->staged = malloc(slice * work->depth + 1);
    for (size_t z = 0; z < work->depth; z++)
        for (size_t y = 0; y < work->height; y++)
            memcpy(work->staged + z * slice + y * work->width,
                   (const char *)work->src + z * work->src_slice +
                       y * work->src_pitch,
                   work->width);
    work->src = (uintptr_t)work->staged;
    work->src_pitch = work->width;
    work->src_slice = slice;
}

CUresult
sim_copy_run(const struct sim_copy_work *work)
{
    if (work->width == 0 || work->height == 0 || work->depth == 0)
        return CUDA_SUCCESS;
    CUresult result = sim_range_touch(
        work->dst, extent_of(work, work->dst_pitch, work->dst_slice), true);
    if (result == CUDA_SUCCESS && work->staged == NULL)
        result = sim_range_touch(work->src,
                                 extent_of(work, work->src_pitch,
                                           work->src_slice), false);
    if (result != CUDA_SUCCESS)
        return result;
    for (size_t z = 0; z < work->depth; z++)
        for (size_t y = 0; y < work->height; y++)
            memmove((char *)work->dst + z * work->dst_slice +
                        y * work->dst_pitch,
                    (const char *)work->src + z * work->src_slice +
                        y * work->src_pitch,
                    work->width);
    return CUDA_SUCCESS;
}

static CUresult
copy_wait(struct sim_op *op, struct sim_ctx *ctx)
{
    sim_op_wait(op);
    sim_op_drop(op);
    return ctx->error;
}

static CUresult
copy_async(bool ptds, const CUDA_MEMCPY3D *desc, CUstream handle)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_work *work;
    CUresult result = sim_copy_work_new(desc, stream->ctx, &work);
    if (result != CUDA_SUCCESS)
        return result;
    const struct sim_copy_work *copy = &work->copy;
    if (copy->width == 0 || copy->height == 0 || copy->depth == 0) {
        sim_work_drop(work);
        return sim_stream_check_implicit(stream);
    }
    bool wait = copy->dst_host && (copy->dst_loose || copy->src_host);
    if (stream->capture == NULL && copy->src_loose && !copy->dst_host)
        stage(&work->copy);
    struct sim_op *op = NULL;
    result = sim_stream_submit(stream, work, &op);
    if (result != CUDA_SUCCESS)
        return result;
    if (op && wait)
        return copy_wait(op, stream->ctx);
    sim_op_drop(op);
    return CUDA_SUCCESS;
}

static CUresult
copy_sync(bool ptds, const CUDA_MEMCPY3D *desc)
{
    struct sim_stream *stream = sim_stream_get(NULL, ptds);
    if (stream->capture) {
        sim_capture_break(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    struct sim_work *work;
    CUresult result = sim_copy_work_new(desc, stream->ctx, &work);
    if (result != CUDA_SUCCESS)
        return result;
    result = sim_stream_check_implicit(stream);
    const struct sim_copy_work *copy = &work->copy;
    size_t bytes = copy->width * copy->height * copy->depth;
    if (result != CUDA_SUCCESS || bytes == 0) {
        sim_work_drop(work);
        return result;
    }
    bool wait = copy->src_host || copy->dst_host;
    if (copy->src_loose && !copy->dst_host) {
        stage(&work->copy);
        wait = bytes > STAGING;
    }
    struct sim_op *op = NULL;
    result = sim_stream_submit(stream, work, &op);
    if (result != CUDA_SUCCESS)
        return result;
    if (wait)
        return copy_wait(op, stream->ctx);
    sim_op_drop(op);
    return CUDA_SUCCESS;
}

static CUDA_MEMCPY3D
desc_line(CUmemorytype to, const void *dst, CUmemorytype from, const void *src,
          size_t bytes)
{
    CUDA_MEMCPY3D desc = {
        .srcMemoryType = from, .dstMemoryType = to, .WidthInBytes = bytes,
        .Height = 1, .Depth = 1};
    if (from == CU_MEMORYTYPE_HOST)
        desc.srcHost = src;
    else
        desc.srcDevice = (CUdeviceptr)(uintptr_t)src;
    if (to == CU_MEMORYTYPE_HOST)
        desc.dstHost = (void *)(uintptr_t)dst;
    else
        desc.dstDevice = (CUdeviceptr)(uintptr_t)dst;
    return desc;
}

static CUDA_MEMCPY3D
desc_plane(const CUDA_MEMCPY2D *from)
{
    return (CUDA_MEMCPY3D){
        .srcXInBytes = from->srcXInBytes, .srcY = from->srcY,
        .srcMemoryType = from->srcMemoryType, .srcHost = from->srcHost,
        .srcDevice = from->srcDevice, .srcArray = from->srcArray,
        .srcPitch = from->srcPitch, .dstXInBytes = from->dstXInBytes,
        .dstY = from->dstY, .dstMemoryType = from->dstMemoryType,
        .dstHost = from->dstHost, .dstDevice = from->dstDevice,
        .dstArray = from->dstArray, .dstPitch = from->dstPitch,
        .WidthInBytes = from->WidthInBytes, .Height = from->Height,
        .Depth = 1};
}

#define HOST CU_MEMORYTYPE_HOST
#define DEVICE CU_MEMORYTYPE_DEVICE
#define UNIFIED CU_MEMORYTYPE_UNIFIED

/* A blocking and an asynchronous one-dimensional copy, in both stream forms. */
#define LINE(name, async, to, dst_type, from, src_type, suffix)                \
    CUresult name##suffix(dst_type dst, src_type src, size_t bytes)            \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        CUDA_MEMCPY3D desc = desc_line(to, (void *)dst, from, (void *)src,     \
                                       bytes);                                 \
        return copy_sync(false, &desc);                                        \
    }                                                                          \
    CUresult name##suffix##_ptds(dst_type dst, src_type src, size_t bytes)     \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        CUDA_MEMCPY3D desc = desc_line(to, (void *)dst, from, (void *)src,     \
                                       bytes);                                 \
        return copy_sync(true, &desc);                                         \
    }                                                                          \
    CUresult async##suffix(dst_type dst, src_type src, size_t bytes,           \
                           CUstream stream)                                    \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        CUDA_MEMCPY3D desc = desc_line(to, (void *)dst, from, (void *)src,     \
                                       bytes);                                 \
        return copy_async(false, &desc, stream);                               \
    }                                                                          \
    CUresult async##suffix##_ptsz(dst_type dst, src_type src, size_t bytes,    \
                                  CUstream stream)                             \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        CUDA_MEMCPY3D desc = desc_line(to, (void *)dst, from, (void *)src,     \
                                       bytes);                                 \
        return copy_async(true, &desc, stream);                                \
    }

LINE(cuMemcpy, cuMemcpyAsync, UNIFIED, CUdeviceptr, UNIFIED, CUdeviceptr, )
LINE(cuMemcpyHtoD, cuMemcpyHtoDAsync, DEVICE, CUdeviceptr, HOST, const void *,
     _v2)
LINE(cuMemcpyDtoH, cuMemcpyDtoHAsync, HOST, void *, DEVICE, CUdeviceptr, _v2)
LINE(cuMemcpyDtoD, cuMemcpyDtoDAsync, DEVICE, CUdeviceptr, DEVICE, CUdeviceptr,
     _v2)

#define PEER_SYNC(name, ptds)                                                  \
    CUresult name(CUdeviceptr dst, CUcontext to, CUdeviceptr src,              \
                  CUcontext from, size_t bytes)                                \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        if (sim_ctx_get(to) == NULL || sim_ctx_get(from) == NULL)              \
            return CUDA_ERROR_INVALID_CONTEXT;                                 \
        CUDA_MEMCPY3D desc = desc_line(DEVICE, (void *)dst, DEVICE,            \
                                       (void *)src, bytes);                    \
        return copy_sync(ptds, &desc);                                         \
    }
#define PEER_ASYNC(name, ptds)                                                 \
    CUresult name(CUdeviceptr dst, CUcontext to, CUdeviceptr src,              \
                  CUcontext from, size_t bytes, CUstream stream)               \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        if (sim_ctx_get(to) == NULL || sim_ctx_get(from) == NULL)              \
            return CUDA_ERROR_INVALID_CONTEXT;                                 \
        CUDA_MEMCPY3D desc = desc_line(DEVICE, (void *)dst, DEVICE,            \
                                       (void *)src, bytes);                    \
        return copy_async(ptds, &desc, stream);                                \
    }
PEER_SYNC(cuMemcpyPeer, false)
PEER_SYNC(cuMemcpyPeer_ptds, true)
PEER_ASYNC(cuMemcpyPeerAsync, false)
PEER_ASYNC(cuMemcpyPeerAsync_ptsz, true)

#define BLOCK_SYNC(name, type, convert, ptds)                                  \
    CUresult name(const type *copy)                                            \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        if (copy == NULL)                                                      \
            return CUDA_ERROR_INVALID_VALUE;                                   \
        CUDA_MEMCPY3D desc = convert;                                          \
        return copy_sync(ptds, &desc);                                         \
    }
#define BLOCK_ASYNC(name, type, convert, ptds)                                 \
    CUresult name(const type *copy, CUstream stream)                           \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        if (copy == NULL)                                                      \
            return CUDA_ERROR_INVALID_VALUE;                                   \
        CUDA_MEMCPY3D desc = convert;                                          \
        return copy_async(ptds, &desc, stream);                                \
    }

BLOCK_SYNC(cuMemcpy2D_v2, CUDA_MEMCPY2D, desc_plane(copy), false)
BLOCK_SYNC(cuMemcpy2D_v2_ptds, CUDA_MEMCPY2D, desc_plane(copy), true)
BLOCK_SYNC(cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D, desc_plane(copy), false)
BLOCK_SYNC(cuMemcpy2DUnaligned_v2_ptds, CUDA_MEMCPY2D, desc_plane(copy), true)
BLOCK_SYNC(cuMemcpy3D_v2, CUDA_MEMCPY3D, *copy, false)
BLOCK_SYNC(cuMemcpy3D_v2_ptds, CUDA_MEMCPY3D, *copy, true)
BLOCK_ASYNC(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, desc_plane(copy), false)
BLOCK_ASYNC(cuMemcpy2DAsync_v2_ptsz, CUDA_MEMCPY2D, desc_plane(copy), true)
BLOCK_ASYNC(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, *copy, false)
BLOCK_ASYNC(cuMemcpy3DAsync_v2_ptsz, CUDA_MEMCPY3D, *copy, true)

#if CUDA_VERSION >= 12080
/* A batch is carried out in order here; the driver promises no order. */
static CUresult
copy_batch(bool ptds, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
           size_t count, size_t attr_count, CUstream handle, size_t *fail)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (fail)
        *fail = SIZE_MAX;
    if (stream == NULL || stream->legacy)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) {
        sim_capture_break(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (dsts == NULL || srcs == NULL || sizes == NULL || count == 0 ||
        attr_count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUDA_MEMCPY3D desc = desc_line(UNIFIED, (void *)dsts[i], UNIFIED,
                                       (void *)srcs[i], sizes[i]);
        CUresult result = copy_async(ptds, &desc, handle);
        if (result != CUDA_SUCCESS) {
            if (fail)
                *fail = i;
            return result;
        }
    }
    return CUDA_SUCCESS;
}

#define BATCH_OLD(name, ptds)                                                  \
    CUresult name(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,         \
                  size_t count, CUmemcpyAttributes *attrs, size_t *indices,    \
                  size_t attr_count, size_t *fail, CUstream stream)            \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        (void)attrs, (void)indices;                                            \
        return copy_batch(ptds, dsts, srcs, sizes, count, attr_count, stream,  \
                          fail);                                               \
    }
BATCH_OLD(cuMemcpyBatchAsync, false)
BATCH_OLD(cuMemcpyBatchAsync_ptsz, true)
#endif

#if CUDA_VERSION >= 13000
#define BATCH(name, ptds)                                                      \
    CUresult name(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,         \
                  size_t count, CUmemcpyAttributes *attrs, size_t *indices,    \
                  size_t attr_count, CUstream stream)                          \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        (void)attrs, (void)indices;                                            \
        return copy_batch(ptds, dsts, srcs, sizes, count, attr_count, stream,  \
                          NULL);                                               \
    }
BATCH(cuMemcpyBatchAsync_v2, false)
BATCH(cuMemcpyBatchAsync_v2_ptsz, true)
#endif
