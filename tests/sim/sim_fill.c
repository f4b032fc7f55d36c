/* SPDX-License-Identifier: Apache-2.0 */
/* Memsets in all their forms. */
#include "sim.h"

#include <string.h>

static size_t
extent_of(const CUDA_MEMSET_NODE_PARAMS *fill)
{
    return (fill->height - 1) * fill->pitch + fill->width * fill->elementSize;
}

CUresult
sim_fill_work_new(const CUDA_MEMSET_NODE_PARAMS *desc, struct sim_ctx *ctx,
                  struct sim_work **out)
{
    CUDA_MEMSET_NODE_PARAMS fill = *desc;
    if (fill.elementSize != 1 && fill.elementSize != 2 && fill.elementSize != 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (fill.dst % fill.elementSize != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fill.height > 1 && (fill.pitch < fill.width * fill.elementSize ||
                            fill.pitch % fill.elementSize != 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (fill.width > 0 && fill.height > 0) {
        CUresult result =
            sim_range_check((uintptr_t)fill.dst, extent_of(&fill), false);
        if (result != CUDA_SUCCESS)
            return result;
    }
    struct sim_work *work = sim_work_new(SIM_WORK_FILL);
    work->fill.desc = fill;
    work->fill.ctx = ctx;
    *out = work;
    return CUDA_SUCCESS;
}

static void
fill_row(char *at, const CUDA_MEMSET_NODE_PARAMS *fill)
{
    if (fill->elementSize == 1) {
        memset(at, (int)(fill->value & 0xff), fill->width);
        return;
    }
    for (size_t i = 0; i < fill->width; i++)
        memcpy(at + i * fill->elementSize, &fill->value, fill->elementSize);
}

CUresult
sim_fill_run(const struct sim_fill_work *work)
{
    const CUDA_MEMSET_NODE_PARAMS *fill = &work->desc;
    if (fill->width == 0 || fill->height == 0)
        return CUDA_SUCCESS;
    CUresult result =
        sim_range_touch((uintptr_t)fill->dst, extent_of(fill), true);
    for (size_t y = 0; y < fill->height && result == CUDA_SUCCESS; y++)
        fill_row((char *)(uintptr_t)fill->dst + y * fill->pitch, fill);
    return result;
}

static CUresult
fill_submit(bool sync, bool ptds, CUdeviceptr at, size_t pitch,
            unsigned element, unsigned value, size_t width, size_t height,
            CUstream handle)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    CUDA_MEMSET_NODE_PARAMS desc = {
        .dst = at, .pitch = pitch, .value = value, .elementSize = element,
        .width = width, .height = height};
    struct sim_work *work;
    CUresult result = sim_fill_work_new(&desc, stream->ctx, &work);
    if (result != CUDA_SUCCESS)
        return result;
    if (sync) {
        if (stream->capture) {
            sim_capture_break(stream->capture);
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        } else {
            result = sim_stream_check_implicit(stream);
        }
        if (result == CUDA_SUCCESS)
            result = sim_capture_unsafe();
    }
    if (result != CUDA_SUCCESS || width == 0 || height == 0) {
        sim_work_drop(work);
        return result;
    }
    struct sim_op *op = NULL;
    const struct sim_range *range = sim_range_find((uintptr_t)at);
    bool wait = sync && range && !sim_range_is_device(range);
    result = sim_stream_submit(stream, work, &op);
    if (op && wait)
        sim_op_wait(op);
    sim_op_drop(op);
    return result;
}

#define FILL(bits, type)                                                       \
    CUresult cuMemsetD##bits##_v2(CUdeviceptr at, type value, size_t count)    \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        return fill_submit(true, false, at, 0, bits / 8, value, count, 1,      \
                           NULL);                                              \
    }                                                                          \
    CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr at, type value,             \
                                       size_t count)                           \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        return fill_submit(true, true, at, 0, bits / 8, value, count, 1,       \
                           NULL);                                              \
    }                                                                          \
    CUresult cuMemsetD##bits##Async(CUdeviceptr at, type value, size_t count,  \
                                    CUstream stream)                           \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        return fill_submit(false, false, at, 0, bits / 8, value, count, 1,     \
                           stream);                                            \
    }                                                                          \
    CUresult cuMemsetD##bits##Async_ptsz(CUdeviceptr at, type value,           \
                                         size_t count, CUstream stream)        \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        return fill_submit(false, true, at, 0, bits / 8, value, count, 1,      \
                           stream);                                            \
    }                                                                          \
    CUresult cuMemsetD2D##bits##_v2(CUdeviceptr at, size_t pitch, type value,  \
                                    size_t width, size_t height)               \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        return fill_submit(true, false, at, pitch, bits / 8, value, width,     \
                           height, NULL);                                      \
    }                                                                          \
    CUresult cuMemsetD2D##bits##_v2_ptds(CUdeviceptr at, size_t pitch,         \
                                         type value, size_t width,             \
                                         size_t height)                        \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        return fill_submit(true, true, at, pitch, bits / 8, value, width,      \
                           height, NULL);                                      \
    }                                                                          \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr at, size_t pitch,            \
                                      type value, size_t width, size_t height, \
                                      CUstream stream)                         \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        return fill_submit(false, false, at, pitch, bits / 8, value, width,    \
                           height, stream);                                    \
    }                                                                          \
    CUresult cuMemsetD2D##bits##Async_ptsz(CUdeviceptr at, size_t pitch,       \
                                           type value, size_t width,           \
                                           size_t height, CUstream stream)     \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        return fill_submit(false, true, at, pitch, bits / 8, value, width,     \
                           height, stream);                                    \
    }

FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned int)
