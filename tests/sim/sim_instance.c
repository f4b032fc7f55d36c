/* SPDX-License-Identifier: Apache-2.0 */
/* Execs: instantiating, launching, enabling nodes, destroying. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define KNOWN_FLAGS                                                            \
    ((unsigned long long)(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |    \
                          CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |                 \
                          CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |          \
                          CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY))

struct sim_exec *
sim_exec_get(CUgraphExec handle)
{
    struct sim_exec *exec = sim_object_get(handle, SIM_EXEC);
    return exec && !exec->dead ? exec : NULL;
}

struct sim_flat_node *
sim_exec_node(struct sim_exec *exec, CUgraphNode handle)
{
    const struct sim_node *node = sim_node_get(handle, -1);
    if (node == NULL)
        return NULL;
    uint32_t low = 0, high = exec->flat.count; /* nearly always in order */
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (exec->flat.nodes[middle].source < node->object.id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < exec->flat.count &&
        exec->flat.nodes[low].source == node->object.id)
        return &exec->flat.nodes[low];
    for (uint32_t i = 0; i < exec->flat.count; i++)
        if (exec->flat.nodes[i].source == node->object.id)
            return &exec->flat.nodes[i];
    return NULL;
}

static CUresult
instantiate(CUgraphExec *out, CUgraph handle, unsigned long long flags,
            struct sim_node **culprit)
{
    struct sim_graph *graph = sim_graph_get(handle);
    *culprit = NULL;
    if (out == NULL || graph == NULL || (flags & ~KNOWN_FLAGS))
        return CUDA_ERROR_INVALID_VALUE;
    if (graph->allocs && graph->instances)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct sim_flat flat;
    CUresult result = sim_flat_build(graph, &flat, culprit);
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_exec *exec = sim_object_new(SIM_EXEC, sizeof *exec);
    exec->graph_id = graph->object.id;
    exec->graph = graph;
    exec->flat = flat;
    exec->flags = flags;
    exec->allocs = graph->allocs;
    sim_users_copy(&exec->users, graph->users);
    graph->instances++;
    *out = (CUgraphExec)exec;
    return CUDA_SUCCESS;
}

static CUresult
instantiate_log(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node,
                char *log, size_t log_bytes)
{
    struct sim_node *culprit;
    CUresult result = instantiate(out, graph, 0, &culprit);
    if (error_node)
        *error_node = (CUgraphNode)culprit;
    if (log && log_bytes > 0)
        *log = '\0';
    return result;
}

CUresult
cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node,
                   char *log, size_t log_bytes)
{
    SIM_API(SIM_CURRENT);
    return instantiate_log(out, graph, error_node, log, log_bytes);
}

CUresult
cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node,
                      char *log, size_t log_bytes)
{
    SIM_API(SIM_CURRENT);
    return instantiate_log(out, graph, error_node, log, log_bytes);
}

CUresult
cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
                            unsigned long long flags)
{
    SIM_API(SIM_CURRENT);
    struct sim_node *culprit;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
        return CUDA_ERROR_INVALID_VALUE;
    return instantiate(out, graph, flags, &culprit);
}

static CUresult
instantiate_params(CUgraphExec *out, CUgraph graph,
                   CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    struct sim_node *culprit;
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = instantiate(out, graph, params->flags, &culprit);
    params->hErrNode_out = (CUgraphNode)culprit;
    params->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
        : culprit ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
                  : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

CUresult
cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
                             CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    SIM_API(SIM_CURRENT);
    return instantiate_params(out, graph, params);
}

CUresult
cuGraphInstantiateWithParams_ptsz(CUgraphExec *out, CUgraph graph,
                                  CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    SIM_API(SIM_CURRENT);
    return instantiate_params(out, graph, params);
}

CUresult
cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags)
{
    SIM_API(SIM_INIT);
    const struct sim_exec *exec = sim_exec_get(handle);
    if (exec == NULL || flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = exec->flags & ~(unsigned long long)(
                               CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                               CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
    return CUDA_SUCCESS;
}

static void
exec_finish(void *arg)
{
    struct sim_exec *exec = arg;
    sim_flat_clear(&exec->flat);
    sim_users_clear(&exec->users);
    sim_op_drop(exec->last);
    sim_object_free(exec);
}

CUresult
cuGraphExecDestroy(CUgraphExec handle)
{
    SIM_API(SIM_INIT);
    struct sim_exec *exec = sim_exec_get(handle);
    if (exec == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_graph *graph = sim_object_get(exec->graph, SIM_GRAPH);
    if (graph && graph->object.id == exec->graph_id)
        graph->instances--;
    exec->dead = true;
    if (sim_op_busy(exec->last)) { /* what runs goes on to its end */
        exec->last->on_done = exec_finish;
        exec->last->on_done_arg = exec;
    } else {
        exec_finish(exec);
    }
    return CUDA_SUCCESS;
}

/* Marks graph memory as given; false: an earlier launch's is still held. */
static bool
blocks_begin(struct sim_exec *exec)
{
    bool freed_again = exec->flags &
                       CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    for (uint32_t i = 0; i < exec->flat.count; i++) {
        const struct sim_work *work = exec->flat.nodes[i].work;
        if (work && work->kind == SIM_WORK_ALLOC && work->alloc.range->live &&
            !freed_again)
            return false;
    }
    for (uint32_t i = 0; i < exec->flat.count; i++) {
        const struct sim_work *work =
            exec->flat.nodes[exec->flat.order[i]].work;
        if (work == NULL)
            continue;
        if (work->kind == SIM_WORK_ALLOC)
            work->alloc.range->live = true;
        else if (work->kind == SIM_WORK_FREE)
            sim_range_find((uintptr_t)work->alloc.at)->live = false;
    }
    return true;
}

static struct sim_op *
part_launch(struct sim_exec *exec, uint32_t index, struct sim_op **ops,
            struct sim_op *entry)
{
    const struct sim_flat_node *part = &exec->flat.nodes[index];
    struct sim_work *work = NULL;
    if (part->work && part->enabled && part->work->kind != SIM_WORK_ALLOC &&
        part->work->kind != SIM_WORK_FREE)
        work = sim_work_ref(part->work);
    struct sim_op *op = sim_op_new(entry->ctx, work);
    if (part->before_count == 0)
        sim_op_after(op, entry);
    for (uint32_t i = 0; i < part->before_count; i++)
        sim_op_after(op, ops[exec->flat.before[part->before_first + i]]);
    if (work && work->kind == SIM_WORK_WAIT)
        sim_op_after(op, work->event->op);
    if (work && work->kind == SIM_WORK_RECORD) {
        struct sim_event *event = work->event;
        sim_op_drop(event->op);
        event->op = sim_op_ref(op);
        event->capture = 0;
    }
    return op;
}

static void
exec_launch(struct sim_exec *exec, struct sim_stream *stream)
{
    uint32_t count = exec->flat.count;
    struct sim_op **ops = malloc((count + 1) * sizeof *ops);
    struct sim_op *entry = sim_op_new(stream->ctx, NULL);
    struct sim_op *end = sim_op_new(stream->ctx, NULL);
    sim_stream_order(stream, entry);
    sim_op_after(entry, exec->last); /* one launch at a time */
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = exec->flat.order[i];
        ops[index] = part_launch(exec, index, ops, entry);
    }
    sim_op_after(end, entry);
    for (uint32_t i = 0; i < count; i++)
        if (exec->flat.leaf[i])
            sim_op_after(end, ops[i]);
    sim_stream_advance(stream, end);
    sim_op_drop(exec->last);
    exec->last = sim_op_ref(end);
    sim_op_start(entry);
    for (uint32_t i = 0; i < count; i++)
        sim_op_start(ops[exec->flat.order[i]]);
    sim_op_start(end);
    for (uint32_t i = 0; i < count; i++)
        sim_op_drop(ops[i]);
    sim_op_drop(entry);
    sim_op_drop(end);
    free(ops);
}

/* A launch into a stream under capture becomes a child graph. */
static CUresult
launch_captured(struct sim_exec *exec, struct sim_stream *stream)
{
    if (exec->allocs) {
        sim_capture_break(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    struct sim_graph *graph = sim_graph_new();
    struct sim_node **nodes = calloc(exec->flat.count + 1, sizeof *nodes);
    for (uint32_t i = 0; i < exec->flat.count; i++) {
        struct sim_flat_node *part = &exec->flat.nodes[i];
        sim_node_add(graph, NULL, NULL, 0,
                     part->work && part->enabled ? sim_work_ref(part->work)
                                                 : sim_work_new(SIM_WORK_EMPTY),
                     &nodes[i]);
    }
    for (uint32_t i = 0; i < exec->flat.count; i++) {
        const struct sim_flat_node *part = &exec->flat.nodes[i];
        for (uint32_t j = 0; j < part->before_count; j++)
            sim_node_link(nodes[exec->flat.before[part->before_first + j]],
                          nodes[i], NULL);
    }
    free(nodes);
    struct sim_work *work = sim_work_new(SIM_WORK_CHILD);
    work->child = graph;
    return sim_capture_add(stream, work);
}

static CUresult
launch(bool ptds, CUgraphExec handle, CUstream stream_handle)
{
    struct sim_exec *exec = sim_exec_get(handle);
    struct sim_stream *stream = sim_stream_get(stream_handle, ptds);
    if (exec == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture)
        return launch_captured(exec, stream);
    CUresult result = sim_stream_check_implicit(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!blocks_begin(exec))
        return CUDA_ERROR_INVALID_VALUE;
    exec_launch(exec, stream);
    return CUDA_SUCCESS;
}

CUresult
cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    SIM_API(SIM_CURRENT);
    return launch(false, exec, stream);
}

CUresult
cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
    SIM_API(SIM_CURRENT);
    return launch(true, exec, stream);
}

static CUresult
upload(bool ptds, CUgraphExec handle, CUstream stream_handle)
{
    struct sim_stream *stream = sim_stream_get(stream_handle, ptds);
    if (sim_exec_get(handle) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) {
        sim_capture_break(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return sim_stream_check_implicit(stream);
}

CUresult
cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    SIM_API(SIM_CURRENT);
    return upload(false, exec, stream);
}

CUresult
cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream)
{
    SIM_API(SIM_CURRENT);
    return upload(true, exec, stream);
}

static CUresult
switchable(CUgraphExec exec_handle, CUgraphNode handle,
           struct sim_flat_node **out)
{
    struct sim_exec *exec = sim_exec_get(exec_handle);
    struct sim_flat_node *part = exec ? sim_exec_node(exec, handle) : NULL;
    if (part == NULL || part->work == NULL ||
        (part->work->kind != SIM_WORK_KERNEL &&
         part->work->kind != SIM_WORK_COPY &&
         part->work->kind != SIM_WORK_FILL))
        return CUDA_ERROR_INVALID_VALUE;
    *out = part;
    return CUDA_SUCCESS;
}

CUresult
cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled)
{
    SIM_API(SIM_INIT);
    struct sim_flat_node *part;
    CUresult result = switchable(exec, node, &part);
    if (result == CUDA_SUCCESS)
        part->enabled = enabled != 0;
    return result;
}

CUresult
cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node,
                      unsigned int *enabled)
{
    SIM_API(SIM_INIT);
    struct sim_flat_node *part;
    if (enabled == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = switchable(exec, node, &part);
    if (result == CUDA_SUCCESS)
        *enabled = part->enabled;
    return result;
}
