/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: created ones, the legacy one that waits for and holds up the
 * others, and one per thread. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct sim_stream *
sim_stream_new(struct sim_ctx *ctx, unsigned flags, int priority)
{
    struct sim_stream *stream = sim_object_new(SIM_STREAM, sizeof *stream);
    stream->ctx = ctx;
    stream->flags = flags;
    stream->priority = priority;
    stream->next = ctx->streams;
    ctx->streams = stream;
    return stream;
}

void
sim_stream_free(struct sim_stream *stream)
{
    struct sim_stream **link = &stream->ctx->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    if (stream->capture)
        sim_capture_leave(stream);
    sim_op_drop(stream->tail);
    sim_edges_clear(&stream->front);
    free(stream->front_nodes);
    free(stream->front_data);
    free(stream->attrs);
    sim_object_free(stream);
}

static struct sim_stream *
own_stream(struct sim_ctx *ctx)
{
    for (int i = 0; i < sim_thread.own_count; i++)
        if (sim_thread.own[i].age == ctx->age)
            return sim_thread.own[i].stream;
    if (sim_thread.own_count == (int)SIM_COUNT(sim_thread.own))
        sim_thread.own_count = 0; /* forgets; the streams live on */
    struct sim_stream *stream = sim_stream_new(ctx, CU_STREAM_DEFAULT, 0);
    stream->per_thread = true;
    sim_thread.own[sim_thread.own_count].age = ctx->age;
    sim_thread.own[sim_thread.own_count++].stream = stream;
    return stream;
}

struct sim_stream *
sim_stream_get(CUstream handle, bool ptds)
{
    struct sim_ctx *ctx = sim_ctx_current();
    if (handle == NULL)
        handle = ptds ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    if (handle == CU_STREAM_LEGACY)
        return ctx->legacy;
    if (handle == CU_STREAM_PER_THREAD)
        return own_stream(ctx);
    struct sim_stream *stream = sim_object_get(handle, SIM_STREAM);
    if (stream == NULL || stream->legacy || stream->per_thread)
        return NULL;
    return stream;
}

static bool
blocking(const struct sim_stream *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

void
sim_stream_order(struct sim_stream *stream, struct sim_op *op)
{
    sim_op_after(op, stream->tail);
    struct sim_ctx *ctx = stream->ctx;
    if (!stream->legacy) {
        if (blocking(stream))
            sim_op_after(op, ctx->legacy->tail);
        return;
    }
    for (struct sim_stream *s = ctx->streams; s; s = s->next)
        if (s != stream && blocking(s))
            sim_op_after(op, s->tail);
}

void
sim_stream_advance(struct sim_stream *stream, struct sim_op *op)
{
    sim_op_drop(stream->tail);
    stream->tail = sim_op_ref(op);
}

CUresult
sim_stream_check_implicit(struct sim_stream *stream)
{
    CUresult result = CUDA_SUCCESS;
    if (!stream->legacy)
        return result;
    for (struct sim_stream *s = stream->ctx->streams; s; s = s->next) {
        if (s->capture && blocking(s)) {
            sim_capture_break(s->capture);
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    return result;
}

CUresult
sim_stream_submit(struct sim_stream *stream, struct sim_work *work,
                  struct sim_op **out)
{
    if (stream->capture)
        return sim_capture_add(stream, work);
    CUresult result = sim_stream_check_implicit(stream);
    if (result != CUDA_SUCCESS) {
        sim_work_drop(work);
        return result;
    }
    struct sim_op *op = sim_op_new(stream->ctx, work);
    sim_stream_order(stream, op);
    sim_stream_advance(stream, op);
    sim_op_start(op);
    if (out)
        *out = op;
    else
        sim_op_drop(op);
    return CUDA_SUCCESS;
}

static CUresult
create(CUstream *out, unsigned flags, int priority)
{
    if (out == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    if (priority < -5)
        priority = -5;
    if (priority > 0)
        priority = 0;
    *out = (CUstream)sim_stream_new(sim_ctx_current(), flags, priority);
    return CUDA_SUCCESS;
}

CUresult
cuStreamCreate(CUstream *out, unsigned int flags)
{
    SIM_API(SIM_CURRENT);
    return create(out, flags, 0);
}

CUresult
cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    SIM_API(SIM_CURRENT);
    return create(out, flags, priority);
}

static CUresult
destroy(CUstream handle)
{
    struct sim_stream *stream = sim_object_get(handle, SIM_STREAM);
    if (stream == NULL || stream->legacy || stream->per_thread)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_stream_free(stream); /* work that is under way goes on */
    return CUDA_SUCCESS;
}

CUresult
cuStreamDestroy(CUstream stream)
{
    SIM_API(SIM_INIT);
    return destroy(stream);
}

CUresult
cuStreamDestroy_v2(CUstream stream)
{
    SIM_API(SIM_INIT);
    return destroy(stream);
}

/* Waiting for or asking about a stream, which a capture may forbid. */
static CUresult
look_allowed(struct sim_stream *stream)
{
    if (stream->capture) {
        sim_capture_break(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return sim_stream_check_implicit(stream);
}

static CUresult
query(bool ptds, CUstream handle)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = look_allowed(stream);
    if (result == CUDA_SUCCESS)
        result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    bool busy = sim_op_busy(stream->tail);
    if (stream->legacy)
        for (struct sim_stream *s = stream->ctx->streams; s; s = s->next)
            busy = busy || (blocking(s) && sim_op_busy(s->tail));
    return busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult
synchronize(bool ptds, CUstream handle)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = look_allowed(stream);
    if (result == CUDA_SUCCESS)
        result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_ctx *ctx = stream->ctx;
    struct sim_op *op = NULL;
    if (stream->legacy)
        sim_stream_submit(stream, sim_work_new(SIM_WORK_EMPTY), &op);
    else if (stream->tail)
        op = sim_op_ref(stream->tail);
    if (op)
        sim_op_wait(op);
    sim_op_drop(op);
    sim_pool_settle();
    return ctx->error;
}

static CUresult
wait_event(bool ptds, CUstream handle, CUevent event_handle, unsigned flags)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    struct sim_event *event = sim_object_get(event_handle, SIM_EVENT);
    if (stream == NULL || event == NULL || event->dead)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_event_wait(stream, event, flags);
}

static CUresult
add_host(bool ptds, CUstream handle, CUhostFn fn, CUstreamCallback callback,
         void *data)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (fn == NULL && callback == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (callback && stream->capture) {
        sim_capture_break(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    struct sim_work *work = sim_work_new(SIM_WORK_HOST);
    work->host.fn = fn;
    work->host.callback = callback;
    work->host.stream = handle;
    work->host.data = data;
    return sim_stream_submit(stream, work, NULL);
}

static CUresult
get_priority(bool ptds, CUstream handle, int *priority)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (priority == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

static CUresult
get_flags(bool ptds, CUstream handle, unsigned *flags)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

static CUresult
get_id(bool ptds, CUstream handle, unsigned long long *id)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *id = stream->object.id;
    return CUDA_SUCCESS;
}

static CUresult
get_ctx(bool ptds, CUstream handle, CUcontext *ctx)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (ctx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *ctx = sim_ctx_handle(stream->ctx);
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12050
static CUresult
get_ctx_v2(bool ptds, CUstream handle, CUcontext *ctx, CUgreenCtx *green)
{
    if (green)
        *green = NULL; /* there are none */
    return get_ctx(ptds, handle, ctx);
}
#endif

static CUresult
get_device(bool ptds, CUstream handle, CUdevice *device)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *device = stream->ctx->device->ordinal;
    return CUDA_SUCCESS;
}

static CUresult
get_attribute(bool ptds, CUstream handle, CUlaunchAttributeID id,
              CUlaunchAttributeValue *value)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (value == NULL || (unsigned)id >= SIM_LAUNCH_ATTRS || id == 0)
        return CUDA_ERROR_INVALID_VALUE;
    memset(value, 0, sizeof *value);
    if (stream->attrs)
        *value = stream->attrs[id];
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value->priority = stream->priority;
    else if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY &&
             value->syncPolicy == 0)
        value->syncPolicy = CU_SYNC_POLICY_AUTO;
    return CUDA_SUCCESS;
}

static CUresult
set_attribute(bool ptds, CUstream handle, CUlaunchAttributeID id,
              const CUlaunchAttributeValue *value)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        stream->priority = value->priority;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        if (stream->attrs == NULL)
            stream->attrs = calloc(SIM_LAUNCH_ATTRS, sizeof *stream->attrs);
        stream->attrs[id] = *value;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult
copy_attributes(bool ptds, CUstream to, CUstream from)
{
    struct sim_stream *dst = sim_stream_get(to, ptds);
    struct sim_stream *src = sim_stream_get(from, ptds);
    if (dst == NULL || src == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    dst->priority = src->priority;
    if (src->attrs) {
        if (dst->attrs == NULL)
            dst->attrs = calloc(SIM_LAUNCH_ATTRS, sizeof *dst->attrs);
        memcpy(dst->attrs, src->attrs, SIM_LAUNCH_ATTRS * sizeof *dst->attrs);
    }
    return CUDA_SUCCESS;
}

static CUresult
attach(bool ptds, CUstream handle, CUdeviceptr at)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) {
        sim_capture_break(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    const struct sim_range *range = sim_range_find((uintptr_t)at);
    return range && range->place == SIM_MANAGED ? CUDA_SUCCESS
                                                : CUDA_ERROR_INVALID_VALUE;
}

/* Both stream forms of an entry point. */
#define PAIR(name, params, call_legacy, call_own)                              \
    CUresult name params                                                       \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        return call_legacy;                                                    \
    }                                                                          \
    CUresult name##_ptsz params                                                \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        return call_own;                                                       \
    }

PAIR(cuStreamQuery, (CUstream stream), query(false, stream),
     query(true, stream))
PAIR(cuStreamSynchronize, (CUstream stream), synchronize(false, stream),
     synchronize(true, stream))
PAIR(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags),
     wait_event(false, stream, event, flags),
     wait_event(true, stream, event, flags))
PAIR(cuStreamAddCallback,
     (CUstream stream, CUstreamCallback callback, void *data,
      unsigned int flags),
     flags ? CUDA_ERROR_INVALID_VALUE
           : add_host(false, stream, NULL, callback, data),
     flags ? CUDA_ERROR_INVALID_VALUE
           : add_host(true, stream, NULL, callback, data))
PAIR(cuLaunchHostFunc, (CUstream stream, CUhostFn fn, void *data),
     add_host(false, stream, fn, NULL, data),
     add_host(true, stream, fn, NULL, data))
PAIR(cuStreamGetPriority, (CUstream stream, int *priority),
     get_priority(false, stream, priority),
     get_priority(true, stream, priority))
PAIR(cuStreamGetFlags, (CUstream stream, unsigned int *flags),
     get_flags(false, stream, flags), get_flags(true, stream, flags))
PAIR(cuStreamGetId, (CUstream stream, unsigned long long *id),
     get_id(false, stream, id), get_id(true, stream, id))
PAIR(cuStreamGetCtx, (CUstream stream, CUcontext *ctx),
     get_ctx(false, stream, ctx), get_ctx(true, stream, ctx))
#if CUDA_VERSION >= 12050
PAIR(cuStreamGetCtx_v2, (CUstream stream, CUcontext *ctx, CUgreenCtx *green),
     get_ctx_v2(false, stream, ctx, green),
     get_ctx_v2(true, stream, ctx, green))
#endif
PAIR(cuStreamGetDevice, (CUstream stream, CUdevice *device),
     get_device(false, stream, device), get_device(true, stream, device))
PAIR(cuStreamGetAttribute,
     (CUstream stream, CUstreamAttrID id, CUstreamAttrValue *value),
     get_attribute(false, stream, id, value),
     get_attribute(true, stream, id, value))
PAIR(cuStreamSetAttribute,
     (CUstream stream, CUstreamAttrID id, const CUstreamAttrValue *value),
     set_attribute(false, stream, id, value),
     set_attribute(true, stream, id, value))
PAIR(cuStreamCopyAttributes, (CUstream to, CUstream from),
     copy_attributes(false, to, from), copy_attributes(true, to, from))
PAIR(cuStreamAttachMemAsync,
     (CUstream stream, CUdeviceptr at, size_t length, unsigned int flags),
     ((void)length, (void)flags, attach(false, stream, at)),
     ((void)length, (void)flags, attach(true, stream, at)))
