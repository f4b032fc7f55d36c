/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture: which streams take part, what may not be called meanwhile,
 * and how a capture comes to a good or a bad end. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static struct sim_capture *captures;
static uint64_t last_id;

void
sim_capture_break(struct sim_capture *capture)
{
    capture->broken = true;
}

struct sim_capture *
sim_capture_find(uint64_t id)
{
    struct sim_capture *capture = captures;
    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

bool
sim_capture_in(const struct sim_ctx *ctx)
{
    for (const struct sim_capture *c = captures; c; c = c->next)
        if (c->origin->ctx == ctx)
            return true;
    return false;
}

void
sim_capture_break_ctx(const struct sim_ctx *ctx)
{
    for (struct sim_capture *c = captures; c; c = c->next)
        if (c->origin->ctx == ctx)
            sim_capture_break(c);
}

CUresult
sim_capture_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;
    if (captures == NULL ||
        sim_thread.mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return result;
    for (struct sim_capture *c = captures; c; c = c->next) {
        bool own = pthread_equal(c->thread, pthread_self()) &&
                   c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        bool global = sim_thread.mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                      c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!own && !global)
            continue;
        sim_capture_break(c);
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

/* A kernel that asks for it may start before its predecessor has ended. */
static void
edge_data(const struct sim_work *work, const struct sim_node *before,
          CUgraphEdgeData *data)
{
    memset(data, 0, sizeof *data);
    if (work->kind != SIM_WORK_KERNEL || before->work->kind != SIM_WORK_KERNEL)
        return;
    const unsigned id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    if ((work->kernel.attr_mask & 1u << id) &&
        work->kernel.attrs[id].programmaticStreamSerializationAllowed) {
        data->from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        data->type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    }
}

CUresult
sim_capture_add(struct sim_stream *stream, struct sim_work *work)
{
    struct sim_capture *capture = stream->capture;
    if (capture->broken) {
        sim_work_drop(work);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    uint32_t count = stream->front.count;
    CUgraphNode *before = malloc((count + 1) * sizeof *before);
    CUgraphEdgeData *data = malloc((count + 1) * sizeof *data);
    for (uint32_t i = 0; i < count; i++) {
        const struct sim_edge *edge = &stream->front.at[i];
        before[i] = (CUgraphNode)edge->node;
        data[i] = edge->data;
        if (data[i].type == 0 && data[i].from_port == 0)
            edge_data(work, edge->node, &data[i]);
    }
    struct sim_node *node;
    CUresult result = sim_node_add(capture->graph, before, data, count, work,
                                   &node);
    free(before);
    free(data);
    if (result != CUDA_SUCCESS) {
        sim_capture_break(capture);
        return result;
    }
    stream->front.count = 0;
    sim_edges_add(&stream->front, node, NULL);
    return CUDA_SUCCESS;
}

static CUresult
begin(bool ptds, CUstream handle, struct sim_graph *graph,
      CUstreamCaptureMode mode, struct sim_capture **out)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct sim_capture *capture = calloc(1, sizeof *capture);
    capture->id = ++last_id;
    capture->mode = mode;
    capture->origin = stream;
    capture->thread = pthread_self();
    capture->borrowed = graph != NULL;
    capture->graph = graph ? graph : sim_graph_new();
    capture->graph->capture = capture;
    capture->next = captures;
    captures = capture;
    stream->capture = capture;
    stream->front.count = 0;
    *out = capture;
    return CUDA_SUCCESS;
}

static CUresult
begin_to(bool ptds, CUstream handle, CUgraph graph_handle,
         const CUgraphNode *before, const CUgraphEdgeData *data, size_t count,
         CUstreamCaptureMode mode)
{
    struct sim_graph *graph = sim_graph_get(graph_handle);
    struct sim_capture *capture;
    if (graph == NULL || graph->capture || (count > 0 && before == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        const struct sim_node *node = sim_node_get(before[i], -1);
        if (node == NULL || node->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = begin(ptds, handle, graph, mode, &capture);
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        sim_edges_add(&capture->origin->front, (struct sim_node *)before[i],
                      data ? &data[i] : NULL);
    return result;
}

/* Takes all streams out of the capture and forgets it. */
static void
dissolve(struct sim_capture *capture)
{
    struct sim_ctx *ctx = capture->origin->ctx;
    for (struct sim_stream *s = ctx->streams; s; s = s->next) {
        if (s->capture != capture)
            continue;
        s->capture = NULL;
        sim_edges_clear(&s->front);
    }
    struct sim_capture **link = &captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    capture->graph->capture = NULL;
    free(capture);
}

void
sim_capture_leave(struct sim_stream *stream)
{
    struct sim_capture *capture = stream->capture;
    sim_capture_break(capture);
    stream->capture = NULL;
    if (capture->origin != stream)
        return;
    struct sim_graph *graph = capture->borrowed ? NULL : capture->graph;
    dissolve(capture);
    if (graph)
        sim_graph_free(graph);
}

/* Whether all work of the other streams leads to the origin's front. */
static bool
joined(const struct sim_capture *capture)
{
    const struct sim_stream *origin = capture->origin;
    for (struct sim_stream *s = origin->ctx->streams; s; s = s->next) {
        if (s->capture != capture || s == origin)
            continue;
        for (uint32_t i = 0; i < s->front.count; i++) {
            bool found = false;
            for (uint32_t j = 0; j < origin->front.count && !found; j++)
                found = sim_node_reaches(s->front.at[i].node,
                                         origin->front.at[j].node);
            if (!found)
                return false;
        }
    }
    return true;
}

static CUresult
end(bool ptds, CUstream handle, CUgraph *out)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    struct sim_capture *capture = stream->capture;
    if (capture == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream) {
        sim_capture_break(capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    struct sim_graph *graph = capture->graph;
    bool borrowed = capture->borrowed;
    CUresult result = CUDA_SUCCESS;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(capture->thread, pthread_self()))
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD; /* but it ends */
    else if (capture->broken)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!joined(capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    dissolve(capture);
    if (result == CUDA_SUCCESS)
        *out = (CUgraph)graph;
    else if (!borrowed)
        sim_graph_free(graph);
    return result;
}

/* A question about the legacy stream while a stream that it waits for is
 * captured. */
static bool
legacy_entangled(const struct sim_stream *stream)
{
    if (!stream->legacy)
        return false;
    for (const struct sim_stream *s = stream->ctx->streams; s; s = s->next)
        if (s->capture && !(s->flags & CU_STREAM_NON_BLOCKING))
            return true;
    return false;
}

static CUstreamCaptureStatus
status_of(const struct sim_stream *stream)
{
    if (stream->capture == NULL)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static CUresult
is_capturing(bool ptds, CUstream handle, CUstreamCaptureStatus *status)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (status == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (legacy_entangled(stream))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = status_of(stream);
    return CUDA_SUCCESS;
}

/* The front, in arrays that stay valid until the next question. */
static void
front_show(struct sim_stream *stream)
{
    uint32_t count = stream->front.count;
    stream->front_nodes = realloc(stream->front_nodes,
                                  (count + 1) * sizeof *stream->front_nodes);
    stream->front_data = realloc(stream->front_data,
                                 (count + 1) * sizeof *stream->front_data);
    for (uint32_t i = 0; i < count; i++) {
        stream->front_nodes[i] = (CUgraphNode)stream->front.at[i].node;
        stream->front_data[i] = stream->front.at[i].data;
    }
}

static CUresult
get_info(bool ptds, CUstream handle, CUstreamCaptureStatus *status,
         cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
         const CUgraphEdgeData **data, size_t *count)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (status == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (legacy_entangled(stream))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = status_of(stream);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS;
    front_show(stream);
    if (id)
        *id = stream->capture->id;
    if (graph)
        *graph = (CUgraph)stream->capture->graph;
    if (nodes)
        *nodes = stream->front_nodes;
    if (data)
        *data = stream->front_data;
    if (count)
        *count = stream->front.count;
    for (uint32_t i = 0; nodes && !data && i < stream->front.count; i++)
        if (stream->front_data[i].type != 0 ||
            stream->front_data[i].from_port != 0)
            return CUDA_ERROR_LOSSY_QUERY;
    return CUDA_SUCCESS;
}

static CUresult
update_dependencies(bool ptds, CUstream handle, CUgraphNode *nodes,
                    const CUgraphEdgeData *data, size_t count, unsigned flags)
{
    struct sim_stream *stream = sim_stream_get(handle, ptds);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture->broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES ||
        (count > 0 && nodes == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        const struct sim_node *node = sim_node_get(nodes[i], -1);
        if (node == NULL || node->graph != stream->capture->graph)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        stream->front.count = 0;
    for (size_t i = 0; i < count; i++)
        sim_edges_add(&stream->front, (struct sim_node *)nodes[i],
                      data ? &data[i] : NULL);
    return CUDA_SUCCESS;
}

CUresult
cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    SIM_API(SIM_INIT);
    if (mode == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode old = sim_thread.mode;
    if ((unsigned)*mode <= CU_STREAM_CAPTURE_MODE_RELAXED)
        sim_thread.mode = *mode; /* others are not refused */
    *mode = old;
    return CUDA_SUCCESS;
}

#define PAIR(name, params, call)                                               \
    CUresult name params                                                       \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        const bool ptds = false;                                               \
        return call;                                                           \
    }                                                                          \
    CUresult name##_ptsz params                                                \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        const bool ptds = true;                                                \
        return call;                                                           \
    }

static CUresult
begin_new(bool ptds, CUstream stream, CUstreamCaptureMode mode)
{
    struct sim_capture *capture;
    return begin(ptds, stream, NULL, mode, &capture);
}

PAIR(cuStreamBeginCapture, (CUstream stream),
     begin_new(ptds, stream, CU_STREAM_CAPTURE_MODE_GLOBAL))
PAIR(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode),
     begin_new(ptds, stream, mode))
PAIR(cuStreamBeginCaptureToGraph,
     (CUstream stream, CUgraph graph, const CUgraphNode *before,
      const CUgraphEdgeData *data, size_t count, CUstreamCaptureMode mode),
     begin_to(ptds, stream, graph, before, data, count, mode))
PAIR(cuStreamEndCapture, (CUstream stream, CUgraph *graph),
     end(ptds, stream, graph))
PAIR(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status),
     is_capturing(ptds, stream, status))
PAIR(cuStreamGetCaptureInfo,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
     get_info(ptds, stream, status, id, NULL, NULL, NULL, NULL))
PAIR(cuStreamGetCaptureInfo_v2,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
      CUgraph *graph, const CUgraphNode **nodes, size_t *count),
     get_info(ptds, stream, status, id, graph, nodes, NULL, count))
PAIR(cuStreamGetCaptureInfo_v3,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
      CUgraph *graph, const CUgraphNode **nodes, const CUgraphEdgeData **data,
      size_t *count),
     get_info(ptds, stream, status, id, graph, nodes, data, count))
PAIR(cuStreamUpdateCaptureDependencies,
     (CUstream stream, CUgraphNode *nodes, size_t count, unsigned int flags),
     update_dependencies(ptds, stream, nodes, NULL, count, flags))
PAIR(cuStreamUpdateCaptureDependencies_v2,
     (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *data,
      size_t count, unsigned int flags),
     update_dependencies(ptds, stream, nodes, data, count, flags))
