/* SPDX-License-Identifier: Apache-2.0 */
/* Events. An event refers to the op that its latest record made, or, when
 * that was captured, to the nodes it would come after. */
#include "sim.h"

#include <stdlib.h>

void
sim_event_drop(struct sim_event *event)
{
    if (--event->refs > 0)
        return;
    sim_op_drop(event->op);
    sim_edges_clear(&event->front);
    sim_object_free(event);
}

static struct sim_event *
event_get(CUevent handle)
{
    struct sim_event *event = sim_object_get(handle, SIM_EVENT);
    return event && !event->dead ? event : NULL;
}

static struct sim_work *
event_work(enum sim_work_kind kind, struct sim_event *event)
{
    struct sim_work *work = sim_work_new(kind);
    work->event = event;
    event->refs++;
    return work;
}

/* The record becomes a mark in the capture, or, when external, a node. */
static CUresult
record_captured(struct sim_event *event, struct sim_stream *stream,
                unsigned flags)
{
    if (stream->capture->broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags & CU_EVENT_RECORD_EXTERNAL)
        return sim_capture_add(stream, event_work(SIM_WORK_RECORD, event));
    sim_op_drop(event->op);
    event->op = NULL;
    event->capture = stream->capture->id;
    sim_edges_copy(&event->front, &stream->front);
    return CUDA_SUCCESS;
}

CUresult
sim_event_record(struct sim_event *event, struct sim_stream *stream,
                 unsigned flags)
{
    if (stream->ctx != event->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture)
        return record_captured(event, stream, flags);
    if (flags & CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct sim_op *op = NULL;
    CUresult result =
        sim_stream_submit(stream, sim_work_new(SIM_WORK_RECORD), &op);
    if (result != CUDA_SUCCESS)
        return result;
    sim_op_drop(event->op);
    event->op = op;
    event->capture = 0;
    sim_edges_clear(&event->front);
    return CUDA_SUCCESS;
}

/* Brings the stream into the capture that the event was recorded in. */
static CUresult
wait_captured(struct sim_stream *stream, struct sim_event *event)
{
    struct sim_capture *capture = sim_capture_find(event->capture);
    if (capture == NULL) {
        if (stream->capture)
            sim_capture_break(stream->capture);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (capture->broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->capture && stream->capture != capture) {
        sim_capture_break(stream->capture);
        sim_capture_break(capture);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (stream->legacy) {
        sim_capture_break(capture);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream->capture == NULL) {
        stream->capture = capture;
        sim_edges_clear(&stream->front);
    }
    for (uint32_t i = 0; i < event->front.count; i++)
        sim_edges_add(&stream->front, event->front.at[i].node,
                      &event->front.at[i].data);
    return CUDA_SUCCESS;
}

CUresult
sim_event_wait(struct sim_stream *stream, struct sim_event *event,
               unsigned flags)
{
    if (stream->capture && stream->capture->broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!stream->capture && (flags & CU_EVENT_WAIT_EXTERNAL))
        return CUDA_ERROR_ILLEGAL_STATE;
    if ((flags & CU_EVENT_WAIT_EXTERNAL) &&
        (!event->capture || sim_capture_find(event->capture)))
        return sim_capture_add(stream, event_work(SIM_WORK_WAIT, event));
    if (event->capture)
        return wait_captured(stream, event);
    if (stream->capture) {
        sim_capture_break(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    CUresult result = sim_stream_check_implicit(stream);
    if (result != CUDA_SUCCESS || !sim_op_busy(event->op))
        return result;
    struct sim_op *op = sim_op_new(stream->ctx, NULL);
    sim_stream_order(stream, op);
    sim_op_after(op, event->op);
    sim_stream_advance(stream, op);
    sim_op_start(op);
    sim_op_drop(op);
    return CUDA_SUCCESS;
}

CUresult
cuEventCreate(CUevent *out, unsigned int flags)
{
    SIM_API(SIM_CURRENT);
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |
                           CU_EVENT_INTERPROCESS;
    if (out == NULL || (flags & ~known))
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_event *event = sim_object_new(SIM_EVENT, sizeof *event);
    event->ctx = sim_ctx_current();
    event->flags = flags;
    event->refs = 1;
    *out = (CUevent)event;
    return CUDA_SUCCESS;
}

static CUresult
destroy(CUevent handle)
{
    struct sim_event *event = event_get(handle);
    if (event == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    event->dead = true;
    sim_event_drop(event);
    return CUDA_SUCCESS;
}

CUresult
cuEventDestroy(CUevent event)
{
    SIM_API(SIM_INIT);
    return destroy(event);
}

CUresult
cuEventDestroy_v2(CUevent event)
{
    SIM_API(SIM_INIT);
    return destroy(event);
}

static CUresult
record(bool ptds, CUevent handle, CUstream stream_handle, unsigned flags)
{
    struct sim_event *event = event_get(handle);
    struct sim_stream *stream = sim_stream_get(stream_handle, ptds);
    if (event == NULL || stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_event_record(event, stream, flags);
}

CUresult
cuEventRecord(CUevent event, CUstream stream)
{
    SIM_API(SIM_CURRENT);
    return record(false, event, stream, 0);
}

CUresult
cuEventRecord_ptsz(CUevent event, CUstream stream)
{
    SIM_API(SIM_CURRENT);
    return record(true, event, stream, 0);
}

CUresult
cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    SIM_API(SIM_CURRENT);
    return record(false, event, stream, flags);
}

CUresult
cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags)
{
    SIM_API(SIM_CURRENT);
    return record(true, event, stream, flags);
}

static CUresult
look_allowed(struct sim_event *event)
{
    if (event->capture) {
        struct sim_capture *capture = sim_capture_find(event->capture);
        if (capture == NULL)
            return CUDA_ERROR_INVALID_VALUE;
        sim_capture_break(capture);
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    return sim_capture_unsafe();
}

CUresult
cuEventQuery(CUevent handle)
{
    SIM_API(SIM_CURRENT);
    struct sim_event *event = event_get(handle);
    if (event == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = look_allowed(event);
    if (result != CUDA_SUCCESS)
        return result;
    return sim_op_busy(event->op) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult
cuEventSynchronize(CUevent handle)
{
    SIM_API(SIM_CURRENT);
    struct sim_event *event = event_get(handle);
    if (event == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = look_allowed(event);
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_ctx *ctx = event->ctx;
    if (event->op) {
        struct sim_op *op = sim_op_ref(event->op);
        sim_op_wait(op);
        sim_op_drop(op);
    }
    sim_pool_settle();
    return ctx->error;
}

static CUresult
elapsed(float *out, CUevent start_handle, CUevent end_handle)
{
    struct sim_event *start = event_get(start_handle);
    struct sim_event *end = event_get(end_handle);
    if (start && end && (start->capture || end->capture))
        return CUDA_ERROR_CAPTURED_EVENT;
    if (out == NULL || start == NULL || end == NULL || start->op == NULL ||
        end->op == NULL ||
        ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_op_busy(start->op) || sim_op_busy(end->op))
        return CUDA_ERROR_NOT_READY;
    int64_t ns = (int64_t)(end->op->done_ns - start->op->done_ns);
    *out = (float)((double)ns / 1e6);
    return CUDA_SUCCESS;
}

CUresult
cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    SIM_API(SIM_CURRENT);
    return elapsed(ms, start, end);
}

CUresult
cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
    SIM_API(SIM_CURRENT);
    return elapsed(ms, start, end);
}

/* An event that stands for all of a context's work, or holds all of it up. */
CUresult
cuCtxRecordEvent(CUcontext ctx_handle, CUevent handle)
{
    SIM_API(SIM_CURRENT);
    struct sim_ctx *ctx = sim_ctx_get(ctx_handle);
    struct sim_event *event = event_get(handle);
    if (ctx == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (event == NULL || event->ctx != ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_capture_in(ctx)) {
        sim_capture_break_ctx(ctx);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    struct sim_op *op = sim_op_new(ctx, sim_work_new(SIM_WORK_RECORD));
    for (struct sim_stream *s = ctx->streams; s; s = s->next)
        sim_op_after(op, s->tail);
    sim_op_start(op);
    sim_op_drop(event->op);
    event->op = op;
    event->capture = 0;
    return CUDA_SUCCESS;
}

CUresult
cuCtxWaitEvent(CUcontext ctx_handle, CUevent handle)
{
    SIM_API(SIM_CURRENT);
    struct sim_ctx *ctx = sim_ctx_get(ctx_handle);
    struct sim_event *event = event_get(handle);
    if (ctx == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (event == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_capture_in(ctx)) {
        sim_capture_break_ctx(ctx);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    for (struct sim_stream *s = ctx->streams; s; s = s->next)
        sim_event_wait(s, event, 0);
    return CUDA_SUCCESS;
}
