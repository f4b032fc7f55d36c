/* SPDX-License-Identifier: Apache-2.0 */
/* Updating an exec from another graph of the same shape. Nodes are paired in
 * the order in which they were made. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static int
cooperative(const struct sim_kernel_work *kernel)
{
    const unsigned id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    return kernel->attrs && (kernel->attr_mask & 1u << id)
               ? kernel->attrs[id].cooperative : 0;
}

static CUgraphExecUpdateResult
memops_compatible(const struct sim_memop_work *a,
                  const struct sim_memop_work *b)
{
    if (a->count != b->count || a->ctx != b->ctx)
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    for (uint32_t i = 0; i < a->count; i++) {
        const CUstreamBatchMemOpParams *x = &a->ops[i], *y = &b->ops[i];
        if (x->operation != y->operation ||
            ((x->waitValue.flags ^ y->waitValue.flags) &
             CU_STREAM_WAIT_VALUE_FLUSH))
            return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUgraphExecUpdateResult
fills_compatible(const struct sim_fill_work *a, const struct sim_fill_work *b)
{
    bool flat = a->desc.height <= 1 && b->desc.height <= 1;
    bool same = a->desc.width == b->desc.width &&
                a->desc.height == b->desc.height &&
                a->desc.elementSize == b->desc.elementSize &&
                a->desc.pitch == b->desc.pitch;
    return a->ctx == b->ctx && (flat || same)
               ? CU_GRAPH_EXEC_UPDATE_SUCCESS
               : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

CUgraphExecUpdateResult
sim_work_compatible(const struct sim_work *a, const struct sim_work *b)
{
    if (a->kind != b->kind)
        return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    switch (a->kind) {
    case SIM_WORK_KERNEL:
        if (a->kernel.ctx != b->kernel.ctx)
            return CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED;
        return cooperative(&a->kernel) == cooperative(&b->kernel)
                   ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                   : CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
    case SIM_WORK_COPY:
        return a->copy.ctx == b->copy.ctx &&
                       a->copy.dst_host == b->copy.dst_host &&
                       a->copy.src_host == b->copy.src_host
                   ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                   : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    case SIM_WORK_FILL:
        return fills_compatible(&a->fill, &b->fill);
    case SIM_WORK_MEMOP:
        return memops_compatible(&a->memop, &b->memop);
    case SIM_WORK_ALLOC:
    case SIM_WORK_FREE:
        return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    default:
        return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    }
}

/* Whether the parts wait for the same parts, in whatever order. */
static bool
same_before(const struct sim_flat *a, uint32_t i, const struct sim_flat *b,
            uint32_t j, uint32_t shift)
{
    const struct sim_flat_node *x = &a->nodes[i], *y = &b->nodes[j];
    if (x->before_count != y->before_count)
        return false;
    for (uint32_t k = 0; k < x->before_count; k++) {
        bool found = false;
        for (uint32_t m = 0; m < y->before_count && !found; m++)
            found = a->before[x->before_first + k] ==
                    b->before[y->before_first + m] + shift;
        if (!found)
            return false;
    }
    return true;
}

/* Compares b with a's parts from `shift` on; roots of b may have more to wait
 * for in a when it stands for a child graph. */
static CUgraphExecUpdateResult
flats_compare(const struct sim_flat *a, const struct sim_flat *b,
              uint32_t shift, bool child, struct sim_node **culprit)
{
    for (uint32_t i = 0; i < b->count; i++) {
        const struct sim_flat_node *x = &a->nodes[shift + i];
        const struct sim_flat_node *y = &b->nodes[i];
        CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
        if (x->child_end != y->child_end)
            result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        else if (x->work && y->work)
            result = sim_work_compatible(x->work, y->work);
        if (result == CU_GRAPH_EXEC_UPDATE_SUCCESS &&
            !(child && y->before_count == 0) &&
            !same_before(a, shift + i, b, i, shift))
            result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
            *culprit = y->node;
            return result;
        }
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static void
flats_move(struct sim_flat *a, struct sim_flat *b, uint32_t shift)
{
    for (uint32_t i = 0; i < b->count; i++) {
        struct sim_work *old = a->nodes[shift + i].work;
        a->nodes[shift + i].work = b->nodes[i].work;
        b->nodes[i].work = old; /* dropped with b */
    }
}

static CUresult
update(CUgraphExec exec_handle, CUgraph graph_handle,
       CUgraphExecUpdateResultInfo *info)
{
    struct sim_exec *exec = sim_exec_get(exec_handle);
    struct sim_graph *graph = sim_graph_get(graph_handle);
    struct sim_flat flat;
    struct sim_node *culprit = NULL;
    memset(info, 0, sizeof *info);
    if (exec == NULL || graph == NULL) {
        info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_flat_build(graph, &flat, &culprit) != CUDA_SUCCESS) {
        info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    if (flat.count != exec->flat.count)
        info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    else
        info->result = flats_compare(&exec->flat, &flat, 0, false, &culprit);
    info->errorNode = (CUgraphNode)culprit;
    if (info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        flats_move(&exec->flat, &flat, 0);
        sim_users_copy(&exec->users, graph->users);
    }
    sim_flat_clear(&flat);
    return info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS
               ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult
cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                     CUgraphExecUpdateResultInfo *info)
{
    SIM_API(SIM_CURRENT);
    if (info == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return update(exec, graph, info);
}

CUresult
cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node,
                  CUgraphExecUpdateResult *update_result)
{
    SIM_API(SIM_CURRENT);
    CUgraphExecUpdateResultInfo info;
    if (update_result == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = update(exec, graph, &info);
    if (error_node)
        *error_node = info.errorNode;
    *update_result = info.result;
    return result;
}

CUresult
cuGraphExecChildGraphNodeSetParams(CUgraphExec exec_handle, CUgraphNode handle,
                                   CUgraph graph_handle)
{
    SIM_API(SIM_CURRENT);
    struct sim_exec *exec = sim_exec_get(exec_handle);
    struct sim_graph *graph = sim_graph_get(graph_handle);
    struct sim_flat_node *part = exec ? sim_exec_node(exec, handle) : NULL;
    struct sim_node *culprit;
    struct sim_flat flat;
    if (part == NULL || graph == NULL || !part->child_end ||
        sim_flat_build(graph, &flat, &culprit) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    uint32_t end = (uint32_t)(part - exec->flat.nodes);
    CUresult result = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    if (flat.count == end - part->child_first &&
        flats_compare(&exec->flat, &flat, part->child_first, true, &culprit) ==
            CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        flats_move(&exec->flat, &flat, part->child_first);
        result = CUDA_SUCCESS;
    }
    sim_flat_clear(&flat);
    return result;
}
