/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/fake_graph.h"

#include <stdlib.h>
#include <string.h>

struct node {
    struct fake_work work;
    CUDA_KERNEL_NODE_PARAMS params;
    struct graph *graph;
    unsigned at;
};

enum { NODES = 2048 };

struct graph {
    struct node *node[NODES];
    unsigned count;
    bool instance; /* an executable one: has no nodes of its own */
    struct graph *from;
    struct fake_work work[NODES];
};

static struct {
    bool active, invalid;
    CUstream stream;
    struct graph *graph;
} capture;

#define RULE(kept)                                                             \
    do {                                                                       \
        if (!(kept)) {                                                         \
            fake.broken++;                                                     \
            return CUDA_ERROR_INVALID_VALUE;                                   \
        }                                                                      \
    } while (0)

bool
fake_graph_captures(CUstream stream)
{
    return capture.active && stream == capture.stream;
}

bool
fake_graph_takes(const struct fake_work *work, CUresult *result)
{
    if (!fake_graph_captures(work->stream))
        return false;
    *result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    capture.invalid |= work->kernel && work->kernel->uncaptured;
    if (capture.invalid)
        return true;
    struct graph *graph = capture.graph;
    struct node *node = calloc(1, sizeof *node);
    node->work = *work;
    node->graph = graph;
    node->at = graph->count;
    graph->node[graph->count++] = node;
    *result = CUDA_SUCCESS;
    return true;
}

static void
graph_free(struct graph *graph)
{
    for (unsigned i = 0; i < graph->count && !graph->instance; i++)
        free(graph->node[i]);
    free(graph);
}

static CUresult
begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
    RULE(!capture.active && mode == CU_STREAM_CAPTURE_MODE_RELAXED);
    if (fake_graph.refuse_begin)
        return CUDA_ERROR_OUT_OF_MEMORY;
    capture.active = true;
    capture.invalid = false;
    capture.stream = stream;
    capture.graph = calloc(1, sizeof *capture.graph);
    return CUDA_SUCCESS;
}

static CUresult
capture_info(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
             CUgraph *graph, const CUgraphNode **nodes, size_t *count)
{
    static CUgraphNode last;

    (void)id;
    RULE(capture.active && stream == capture.stream);
    *status = capture.invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                              : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    *graph = (CUgraph)capture.graph;
    *count = capture.graph->count ? 1 : 0;
    if (*count)
        last = (CUgraphNode)capture.graph->node[capture.graph->count - 1];
    *nodes = &last;
    return CUDA_SUCCESS;
}

static CUresult
end_capture(CUstream stream, CUgraph *graph)
{
    *graph = NULL;
    if (!capture.active || stream != capture.stream)
        return CUDA_ERROR_ILLEGAL_STATE;
    capture.active = false;
    if (capture.invalid) {
        graph_free(capture.graph);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    *graph = (CUgraph)capture.graph;
    fake_graph.graphs++;
    return CUDA_SUCCESS;
}

static CUresult
kernel_node_get(CUgraphNode which, CUDA_KERNEL_NODE_PARAMS *params)
{
    struct node *node = (struct node *)which;

    RULE(node->work.kind == 'k');
    *params = (CUDA_KERNEL_NODE_PARAMS){
        .func = (CUfunction)node->work.kernel,
        .gridDimX = (unsigned)node->work.value[0],
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = 1,
        .blockDimY = 1,
        .blockDimZ = 1,
    };
    return CUDA_SUCCESS;
}

static CUresult
instantiate(CUgraphExec *out, CUgraph which, unsigned long long flags)
{
    struct graph *from = (struct graph *)which;

    RULE(flags == 0 && from->count);
    if (fake_graph.refuse_instantiate)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct graph *exec = calloc(1, sizeof *exec);
    exec->instance = true;
    exec->from = from;
    exec->count = from->count;
    for (unsigned i = 0; i < from->count; i++)
        exec->work[i] = from->node[i]->work;
    fake_graph.execs++;
    *out = (CUgraphExec)exec;
    return CUDA_SUCCESS;
}

static CUresult
graph_upload(CUgraphExec exec, CUstream stream)
{
    (void)exec;
    (void)stream;
    return CUDA_SUCCESS;
}

static CUresult
graph_launch(CUgraphExec which, CUstream stream)
{
    struct graph *exec = (struct graph *)which;

    RULE(exec->instance);
    if (fake_graph.refuse_launch)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fake_graph.launches++;
    for (unsigned i = 0; i < exec->count; i++) {
        struct fake_work work = exec->work[i];
        work.stream = stream;
        work.exec = which;
        CUresult result = fake_work_add(&work);
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

static CUresult
exec_destroy(CUgraphExec exec)
{
    RULE(((struct graph *)exec)->instance);
    fake_graph.execs--;
    graph_free((struct graph *)exec);
    return CUDA_SUCCESS;
}

static CUresult
graph_destroy(CUgraph graph)
{
    RULE(!((struct graph *)graph)->instance);
    fake_graph.graphs--;
    graph_free((struct graph *)graph);
    return CUDA_SUCCESS;
}

static struct fake_work *
exec_node(CUgraphExec which, CUgraphNode node, char kind)
{
    struct graph *exec = (struct graph *)which;
    struct node *n = (struct node *)node;

    if (!exec->instance || n->graph != exec->from || n->work.kind != kind)
        return NULL;
    fake_graph.updates++;
    return &exec->work[n->at];
}

static CUresult
exec_kernel(CUgraphExec exec, CUgraphNode node,
            const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct fake_work *work = exec_node(exec, node, 'k');

    RULE(work && work->kernel == (const void *)params->func && !params->extra);
    if (fake_graph.refuse_update)
        return CUDA_ERROR_NOT_SUPPORTED;
    work->value[0] = params->gridDimX;
    work->value[1] = fake_first_word(work->kernel, params->kernelParams);
    return CUDA_SUCCESS;
}

static CUresult
exec_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *p,
          CUcontext context)
{
    struct fake_work *work = exec_node(exec, node, 'c');

    RULE(work && context && p->Height == 1 && p->Depth == 1);
    if (fake_graph.refuse_update)
        return CUDA_ERROR_NOT_SUPPORTED;
    work->value[0] = p->dstMemoryType == CU_MEMORYTYPE_HOST
                         ? (uint64_t)p->dstHost : p->dstDevice;
    work->value[1] = p->srcMemoryType == CU_MEMORYTYPE_HOST
                         ? (uint64_t)p->srcHost : p->srcDevice;
    work->value[2] = p->WidthInBytes;
    return CUDA_SUCCESS;
}

static CUresult
exec_fill(CUgraphExec exec, CUgraphNode node,
          const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context)
{
    struct fake_work *work = exec_node(exec, node, 'f');

    RULE(work && context && p->height == 1);
    if (fake_graph.refuse_update)
        return CUDA_ERROR_NOT_SUPPORTED;
    work->value[0] = p->dst;
    work->value[1] = p->value;
    work->value[2] = p->width;
    work->value[3] = p->elementSize;
    return CUDA_SUCCESS;
}

void
fake_graph_start(void)
{
    memset(&fake_graph, 0, sizeof fake_graph);
    memset(&capture, 0, sizeof capture);
    fake_work_start();
    dcp_real.cuStreamBeginCapture_v2 = begin_capture;
    dcp_real.cuStreamGetCaptureInfo_v2 = capture_info;
    dcp_real.cuStreamEndCapture = end_capture;
    dcp_real.cuGraphKernelNodeGetParams_v2 = kernel_node_get;
    dcp_real.cuGraphInstantiateWithFlags = instantiate;
    dcp_real.cuGraphUpload = graph_upload;
    dcp_real.cuGraphLaunch = graph_launch;
    dcp_real.cuGraphExecDestroy = exec_destroy;
    dcp_real.cuGraphDestroy = graph_destroy;
    dcp_real.cuGraphExecKernelNodeSetParams_v2 = exec_kernel;
    dcp_real.cuGraphExecMemcpyNodeSetParams = exec_copy;
    dcp_real.cuGraphExecMemsetNodeSetParams = exec_fill;
}
