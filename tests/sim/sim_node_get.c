/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes say about themselves, and the attributes of kernel nodes. */
#include "sim.h"

#include <string.h>

/* What GetParams hands out: the node's own memory, valid until it changes. */
static CUDA_KERNEL_NODE_PARAMS_v2
kernel_show(struct sim_kernel_work *k)
{
    if (k->extra) {
        k->extras[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
        k->extras[1] = k->packed;
        k->extras[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
        k->extras[3] = &k->extra_bytes;
        k->extras[4] = CU_LAUNCH_PARAM_END;
    }
    bool none = k->extra || k->count == 0;
    return (CUDA_KERNEL_NODE_PARAMS_v2){
        .func = (CUfunction)k->func, .gridDimX = k->grid[0],
        .gridDimY = k->grid[1], .gridDimZ = k->grid[2],
        .blockDimX = k->block[0], .blockDimY = k->block[1],
        .blockDimZ = k->block[2], .sharedMemBytes = k->shared,
        .kernelParams = none ? NULL : k->params,
        .extra = k->extra ? k->extras : NULL};
}

CUresult
cuGraphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v1 *out)
{
    SIM_API(SIM_INIT);
    struct sim_node *node = sim_node_get(handle, SIM_WORK_KERNEL);
    if (node == NULL || out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS_v2 p = kernel_show(&node->work->kernel);
    *out = (CUDA_KERNEL_NODE_PARAMS_v1){
        p.func, p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY,
        p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra};
    return CUDA_SUCCESS;
}

CUresult
cuGraphKernelNodeGetParams_v2(CUgraphNode handle,
                              CUDA_KERNEL_NODE_PARAMS_v2 *out)
{
    SIM_API(SIM_INIT);
    struct sim_node *node = sim_node_get(handle, SIM_WORK_KERNEL);
    if (node == NULL || out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = kernel_show(&node->work->kernel);
    return CUDA_SUCCESS;
}

#define GET(name, kind_, type, value)                                          \
    CUresult name(CUgraphNode handle, type *out)                               \
    {                                                                          \
        SIM_API(SIM_INIT);                                                     \
        struct sim_node *node = sim_node_get(handle, kind_);                   \
        if (node == NULL || out == NULL)                                       \
            return CUDA_ERROR_INVALID_VALUE;                                   \
        struct sim_work *work = node->work;                                    \
        *out = value;                                                          \
        return CUDA_SUCCESS;                                                   \
    }

GET(cuGraphMemcpyNodeGetParams, SIM_WORK_COPY, CUDA_MEMCPY3D, work->copy.desc)
GET(cuGraphMemsetNodeGetParams, SIM_WORK_FILL, CUDA_MEMSET_NODE_PARAMS,
    work->fill.desc)
GET(cuGraphHostNodeGetParams, SIM_WORK_HOST, CUDA_HOST_NODE_PARAMS,
    ((CUDA_HOST_NODE_PARAMS){work->host.fn, work->host.data}))
GET(cuGraphEventRecordNodeGetEvent, SIM_WORK_RECORD, CUevent,
    (CUevent)work->event)
GET(cuGraphEventWaitNodeGetEvent, SIM_WORK_WAIT, CUevent, (CUevent)work->event)
GET(cuGraphBatchMemOpNodeGetParams, SIM_WORK_MEMOP,
    CUDA_BATCH_MEM_OP_NODE_PARAMS,
    ((CUDA_BATCH_MEM_OP_NODE_PARAMS){sim_ctx_handle(work->memop.ctx),
                                     work->memop.count, work->memop.ops,
                                     work->memop.flags}))
GET(cuGraphChildGraphNodeGetGraph, SIM_WORK_CHILD, CUgraph,
    (CUgraph)work->child)
GET(cuGraphMemAllocNodeGetParams, SIM_WORK_ALLOC, CUDA_MEM_ALLOC_NODE_PARAMS,
    work->alloc.desc)
GET(cuGraphMemFreeNodeGetParams, SIM_WORK_FREE, CUdeviceptr, work->alloc.at)

CUresult
cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                              CUkernelNodeAttrValue *value)
{
    SIM_API(SIM_INIT);
    struct sim_node *node = sim_node_get(handle, SIM_WORK_KERNEL);
    if (node == NULL || value == NULL || (unsigned)id >= SIM_LAUNCH_ATTRS)
        return CUDA_ERROR_INVALID_VALUE;
    memset(value, 0, sizeof *value);
    const struct sim_kernel_work *k = &node->work->kernel;
    if (k->attrs && (k->attr_mask & 1u << id))
        *value = k->attrs[id];
    return CUDA_SUCCESS;
}

/* The work may be shared with an exec: the node gets a changed copy. */
static CUresult
node_set_attribute(struct sim_node *node, CUlaunchAttributeID id,
                   const CUlaunchAttributeValue *value)
{
    struct sim_work *copy = sim_kernel_work_copy(node->work);
    if (copy == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_kernel_work_attr(copy, id, value);
    if (result != CUDA_SUCCESS) {
        sim_work_drop(copy);
        return result;
    }
    sim_work_drop(node->work);
    node->work = copy;
    return CUDA_SUCCESS;
}

CUresult
cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                              const CUkernelNodeAttrValue *value)
{
    SIM_API(SIM_CURRENT);
    struct sim_node *node = sim_node_get(handle, SIM_WORK_KERNEL);
    if (node == NULL || value == NULL || id == CU_LAUNCH_ATTRIBUTE_IGNORE)
        return CUDA_ERROR_INVALID_VALUE;
    return node_set_attribute(node, id, value);
}

CUresult
cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
    SIM_API(SIM_CURRENT);
    struct sim_node *dst = sim_node_get(to, SIM_WORK_KERNEL);
    struct sim_node *src = sim_node_get(from, SIM_WORK_KERNEL);
    if (dst == NULL || src == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_kernel_work *k = &src->work->kernel;
    for (int id = 1; k->attrs && id < SIM_LAUNCH_ATTRS; id++) {
        if (!(k->attr_mask & 1u << id))
            continue;
        CUresult result = node_set_attribute(dst, (CUlaunchAttributeID)id,
                                             &k->attrs[id]);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}
