/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes by type: adding them, changing their parameters, and changing them in
 * an exec. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct sim_work *
sim_kernel_work_copy(const struct sim_work *work)
{
    const struct sim_kernel_work *k = &work->kernel;
    size_t bytes = k->extra_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, k->packed,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS_v3 params = {
        (CUfunction)k->func, k->grid[0], k->grid[1], k->grid[2], k->block[0],
        k->block[1], k->block[2], k->shared, k->extra ? NULL : k->params,
        k->extra ? extra : NULL, NULL, NULL};
    struct sim_work *copy = NULL;
    if (sim_kernel_work_new(&params, NULL, 0, &copy) != CUDA_SUCCESS)
        return NULL;
    copy->kernel.kern = k->kern;
    for (int id = 1; k->attrs && id < SIM_LAUNCH_ATTRS; id++)
        if (k->attr_mask & 1u << id)
            sim_kernel_work_attr(copy, (CUlaunchAttributeID)id, &k->attrs[id]);
    return copy;
}

static CUresult
event_work(enum sim_work_kind kind, CUevent handle, struct sim_work **out)
{
    struct sim_event *event = sim_object_get(handle, SIM_EVENT);
    if (event == NULL || event->dead)
        return CUDA_ERROR_INVALID_VALUE;
    *out = sim_work_new(kind);
    (*out)->event = event;
    event->refs++;
    return CUDA_SUCCESS;
}

static CUresult
host_work(CUhostFn fn, void *data, struct sim_work **out)
{
    if (fn == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = sim_work_new(SIM_WORK_HOST);
    (*out)->host.fn = fn;
    (*out)->host.data = data;
    return CUDA_SUCCESS;
}

static CUresult
copy_work(const CUDA_MEMCPY3D *desc, CUcontext handle, struct sim_work **out)
{
    struct sim_ctx *ctx = sim_ctx_get(handle);
    if (desc == NULL || ctx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_copy_work_new(desc, ctx, out);
}

static CUresult
fill_work(const CUDA_MEMSET_NODE_PARAMS *desc, CUcontext handle,
          struct sim_work **out)
{
    struct sim_ctx *ctx = sim_ctx_get(handle);
    if (desc == NULL || ctx == NULL || desc->width == 0 || desc->height == 0)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_fill_work_new(desc, ctx, out);
}

static CUresult
memop_work(CUcontext handle, const CUstreamBatchMemOpParams *ops,
           unsigned count, unsigned flags, struct sim_work **out)
{
    struct sim_ctx *ctx = sim_ctx_get(handle);
    if (ctx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_memop_work_new(ops, count, flags, ctx, out);
}

static CUresult
child_work(CUgraph handle, bool move, struct sim_work **out)
{
    struct sim_graph *graph = sim_graph_get(handle), *copy = graph;
    if (graph == NULL || graph->parent || graph->capture)
        return CUDA_ERROR_INVALID_VALUE;
    if (!move) {
        CUresult result = sim_graph_copy(graph, &copy);
        if (result != CUDA_SUCCESS)
            return result;
    }
    *out = sim_work_new(SIM_WORK_CHILD);
    (*out)->child = copy;
    return CUDA_SUCCESS;
}

CUresult
sim_node_work(CUgraphNodeParams *p, struct sim_work **out)
{
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return sim_kernel_work_new(&p->kernel, NULL, 0, out);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return copy_work(&p->memcpy.copyParams, p->memcpy.copyCtx, out);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS desc = {
            p->memset.dst, p->memset.pitch, p->memset.value,
            p->memset.elementSize, p->memset.width, p->memset.height};
        return fill_work(&desc, p->memset.ctx, out);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
        return host_work(p->host.fn, p->host.userData, out);
    case CU_GRAPH_NODE_TYPE_GRAPH:
#if CUDA_VERSION >= 12090
        return child_work(p->graph.graph,
                          p->graph.ownership ==
                              CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE, out);
#else
        return child_work(p->graph.graph, false, out);
#endif
    case CU_GRAPH_NODE_TYPE_EMPTY:
        *out = sim_work_new(SIM_WORK_EMPTY);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return event_work(SIM_WORK_WAIT, p->eventWait.event, out);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return event_work(SIM_WORK_RECORD, p->eventRecord.event, out);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
        CUDA_MEM_ALLOC_NODE_PARAMS desc = {
            p->alloc.poolProps, p->alloc.accessDescs, p->alloc.accessDescCount,
            p->alloc.bytesize, 0};
        CUresult result = sim_alloc_work_new(&desc, out);
        p->alloc.dptr = desc.dptr;
        return result;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return sim_free_work_new(p->free.dptr, out);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return memop_work(p->memOp.ctx, p->memOp.paramArray, p->memOp.count,
                          p->memOp.flags, out);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult
add(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
    const CUgraphEdgeData *data, size_t count, struct sim_work *work)
{
    struct sim_graph *graph = sim_graph_get(handle);
    struct sim_node *node;
    if (out == NULL || graph == NULL) {
        sim_work_drop(work);
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = sim_node_add(graph, before, data, count, work, &node);
    if (result == CUDA_SUCCESS)
        *out = (CUgraphNode)node;
    return result;
}

static CUresult
add_any(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
        const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params)
{
    struct sim_work *work = NULL;
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_node_work(params, &work);
    if (result != CUDA_SUCCESS)
        return result;
    result = add(out, graph, before, data, count, work);
    if (result == CUDA_SUCCESS && params->type == CU_GRAPH_NODE_TYPE_GRAPH)
        params->graph.graph = (CUgraph)work->child;
    return result;
}

CUresult
cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
               size_t count, CUgraphNodeParams *params)
{
    SIM_API(SIM_CURRENT);
    return add_any(out, graph, before, NULL, count, params);
}

CUresult
cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                  const CUgraphEdgeData *data, size_t count,
                  CUgraphNodeParams *params)
{
    SIM_API(SIM_CURRENT);
    return add_any(out, graph, before, data, count, params);
}

/* Exchanges a node's work, keeping a kernel's attributes. */
static CUresult
node_replace(struct sim_node *node, struct sim_work *work)
{
    if (work->kind == SIM_WORK_KERNEL && node->work->kernel.attrs) {
        const struct sim_kernel_work *old = &node->work->kernel;
        for (int id = 1; id < SIM_LAUNCH_ATTRS; id++)
            if (old->attr_mask & 1u << id)
                sim_kernel_work_attr(work, (CUlaunchAttributeID)id,
                                     &old->attrs[id]);
    }
    sim_work_drop(node->work);
    node->work = work;
    return CUDA_SUCCESS;
}

/* The same for the part of an exec, where fewer changes are possible. */
static CUresult
exec_replace(struct sim_flat_node *part, struct sim_work *work)
{
    if (work->kind == SIM_WORK_KERNEL && part->work->kernel.attrs) {
        const struct sim_kernel_work *old = &part->work->kernel;
        for (int id = 1; id < SIM_LAUNCH_ATTRS; id++)
            if (old->attr_mask & 1u << id)
                sim_kernel_work_attr(work, (CUlaunchAttributeID)id,
                                     &old->attrs[id]);
    }
    bool flat = work->kind != SIM_WORK_COPY ||
                (work->copy.height <= 1 && work->copy.depth <= 1 &&
                 part->work->copy.height <= 1 && part->work->copy.depth <= 1 &&
                 work->copy.width > 0);
    if (!flat || sim_work_compatible(part->work, work) !=
                     CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        sim_work_drop(work);
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_work_drop(part->work);
    part->work = work;
    return CUDA_SUCCESS;
}

static CUresult
set_node(CUgraphNode handle, CUresult result, struct sim_work *work)
{
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_node *node = sim_node_get(handle, (int)work->kind);
    if (node == NULL) {
        sim_work_drop(work);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return node_replace(node, work);
}

static CUresult
set_exec(CUgraphExec exec_handle, CUgraphNode handle, CUresult result,
         struct sim_work *work)
{
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_exec *exec = sim_exec_get(exec_handle);
    struct sim_flat_node *part = exec ? sim_exec_node(exec, handle) : NULL;
    if (part == NULL || part->work == NULL || part->work->kind != work->kind) {
        sim_work_drop(work);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return exec_replace(part, work);
}

/* AddX, XSetParams and ExecXSetParams that differ only in their parameters:
 * `make` turns `params` into *work and yields a result. */
#define ADD(name, param, make)                                                 \
    CUresult name(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,  \
                  size_t count, param)                                         \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        struct sim_work *work = NULL;                                          \
        CUresult result = make;                                                \
        if (result != CUDA_SUCCESS)                                            \
            return result;                                                     \
        return add(out, graph, before, NULL, count, work);                     \
    }
#define SET(name, param, make)                                                 \
    CUresult name(CUgraphNode node, param)                                     \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        struct sim_work *work = NULL;                                          \
        CUresult result = make;                                                \
        return set_node(node, result, work);                                   \
    }
#define SET_EXEC(name, param, make)                                            \
    CUresult name(CUgraphExec exec, CUgraphNode node, param)                   \
    {                                                                          \
        SIM_API(SIM_CURRENT);                                                  \
        struct sim_work *work = NULL;                                          \
        CUresult result = make;                                                \
        return set_exec(exec, node, result, work);                             \
    }
#define COMMA ,

static CUresult
kernel_make(const CUDA_KERNEL_NODE_PARAMS_v2 *p, struct sim_work **work)
{
    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS_v3 params = {
        p->func, p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX,
        p->blockDimY, p->blockDimZ, p->sharedMemBytes, p->kernelParams,
        p->extra, p->kern, p->ctx};
    return sim_kernel_work_new(&params, NULL, 0, work);
}

static CUresult
kernel_make_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p, struct sim_work **work)
{
    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS_v3 params = {
        p->func, p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX,
        p->blockDimY, p->blockDimZ, p->sharedMemBytes, p->kernelParams,
        p->extra, NULL, NULL};
    return sim_kernel_work_new(&params, NULL, 0, work);
}

ADD(cuGraphAddKernelNode, const CUDA_KERNEL_NODE_PARAMS_v1 *p,
    kernel_make_v1(p, &work))
ADD(cuGraphAddKernelNode_v2, const CUDA_KERNEL_NODE_PARAMS_v2 *p,
    kernel_make(p, &work))
SET(cuGraphKernelNodeSetParams, const CUDA_KERNEL_NODE_PARAMS_v1 *p,
    kernel_make_v1(p, &work))
SET(cuGraphKernelNodeSetParams_v2, const CUDA_KERNEL_NODE_PARAMS_v2 *p,
    kernel_make(p, &work))
SET_EXEC(cuGraphExecKernelNodeSetParams, const CUDA_KERNEL_NODE_PARAMS_v1 *p,
         kernel_make_v1(p, &work))
SET_EXEC(cuGraphExecKernelNodeSetParams_v2,
         const CUDA_KERNEL_NODE_PARAMS_v2 *p, kernel_make(p, &work))

ADD(cuGraphAddMemcpyNode, const CUDA_MEMCPY3D *p COMMA CUcontext ctx,
    copy_work(p, ctx, &work))
SET(cuGraphMemcpyNodeSetParams, const CUDA_MEMCPY3D *p,
    copy_work(p, NULL, &work))
SET_EXEC(cuGraphExecMemcpyNodeSetParams,
         const CUDA_MEMCPY3D *p COMMA CUcontext ctx, copy_work(p, ctx, &work))

ADD(cuGraphAddMemsetNode, const CUDA_MEMSET_NODE_PARAMS *p COMMA CUcontext ctx,
    fill_work(p, ctx, &work))
SET(cuGraphMemsetNodeSetParams, const CUDA_MEMSET_NODE_PARAMS *p,
    fill_work(p, NULL, &work))
SET_EXEC(cuGraphExecMemsetNodeSetParams,
         const CUDA_MEMSET_NODE_PARAMS *p COMMA CUcontext ctx,
         fill_work(p, ctx, &work))

#define HOST_MAKE                                                              \
    p ? host_work(p->fn, p->userData, &work) : CUDA_ERROR_INVALID_VALUE
ADD(cuGraphAddHostNode, const CUDA_HOST_NODE_PARAMS *p, HOST_MAKE)
SET(cuGraphHostNodeSetParams, const CUDA_HOST_NODE_PARAMS *p, HOST_MAKE)
SET_EXEC(cuGraphExecHostNodeSetParams, const CUDA_HOST_NODE_PARAMS *p,
         HOST_MAKE)

#define MEMOP_MAKE                                                             \
    p ? memop_work(p->ctx, p->paramArray, p->count, p->flags, &work)           \
      : CUDA_ERROR_INVALID_VALUE
ADD(cuGraphAddBatchMemOpNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p,
    MEMOP_MAKE)
SET(cuGraphBatchMemOpNodeSetParams, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p,
    MEMOP_MAKE)
SET_EXEC(cuGraphExecBatchMemOpNodeSetParams,
         const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, MEMOP_MAKE)

ADD(cuGraphAddChildGraphNode, CUgraph child, child_work(child, false, &work))
ADD(cuGraphAddEventRecordNode, CUevent event,
    event_work(SIM_WORK_RECORD, event, &work))
SET(cuGraphEventRecordNodeSetEvent, CUevent event,
    event_work(SIM_WORK_RECORD, event, &work))
SET_EXEC(cuGraphExecEventRecordNodeSetEvent, CUevent event,
         event_work(SIM_WORK_RECORD, event, &work))
ADD(cuGraphAddEventWaitNode, CUevent event,
    event_work(SIM_WORK_WAIT, event, &work))
SET(cuGraphEventWaitNodeSetEvent, CUevent event,
    event_work(SIM_WORK_WAIT, event, &work))
SET_EXEC(cuGraphExecEventWaitNodeSetEvent, CUevent event,
         event_work(SIM_WORK_WAIT, event, &work))
ADD(cuGraphAddMemAllocNode, CUDA_MEM_ALLOC_NODE_PARAMS *p,
    p ? sim_alloc_work_new(p, &work) : CUDA_ERROR_INVALID_VALUE)
ADD(cuGraphAddMemFreeNode, CUdeviceptr at, sim_free_work_new(at, &work))

CUresult
cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                    size_t count)
{
    SIM_API(SIM_INIT);
    return add(out, graph, before, NULL, count, sim_work_new(SIM_WORK_EMPTY));
}

CUresult
cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    SIM_API(SIM_CURRENT);
    struct sim_work *work = NULL;
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH ||
        params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
        params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = sim_node_work(params, &work);
    return set_node(node, result, work);
}

CUresult
cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                         CUgraphNodeParams *params)
{
    SIM_API(SIM_CURRENT);
    struct sim_work *work = NULL;
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH ||
        params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
        params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = sim_node_work(params, &work);
    return set_exec(exec, node, result, work);
}
