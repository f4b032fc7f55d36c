/* SPDX-License-Identifier: Apache-2.0 */
/* Checks: changing an exec, node by node and from another graph. */
#include "conformance.h"

#include <string.h>

static CUdeviceptr y;
static void *pinned;

struct parts {
    CUgraph graph;
    CUgraphNode fill, copy, down, set, plane, host, record, memop;
};

static CUevent event, event_2;
static int host_sum;

static void
add_number(void *data)
{
    host_sum += *(int *)data;
}

static int numbers[2] = {1, 100};

static CUDA_MEMCPY3D
copy_of(CUmemorytype to, void *dst, CUmemorytype from, void *src, size_t bytes)
{
    CUDA_MEMCPY3D copy;
    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = from;
    copy.dstMemoryType = to;
    if (from == CU_MEMORYTYPE_HOST)
        copy.srcHost = src;
    else
        copy.srcDevice = (CUdeviceptr)(uintptr_t)src;
    if (to == CU_MEMORYTYPE_HOST)
        copy.dstHost = dst;
    else
        copy.dstDevice = (CUdeviceptr)(uintptr_t)dst;
    copy.WidthInBytes = bytes;
    copy.Height = copy.Depth = 1;
    return copy;
}

static CUstreamBatchMemOpParams
write_op(CUdeviceptr at, uint32_t value)
{
    CUstreamBatchMemOpParams op;
    memset(&op, 0, sizeof op);
    op.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = at;
    op.writeValue.value = value;
    return op;
}

#define D CU_MEMORYTYPE_DEVICE
#define H CU_MEMORYTYPE_HOST

static struct parts
build(float value, size_t width)
{
    struct parts p;
    struct fill_slots slots;
    memset(&p, 0, sizeof p);
    need("create", CU(cuGraphCreate)(&p.graph, 0));
    CUDA_KERNEL_NODE_PARAMS_v2 kernel_params = fill_node(&slots, y, value, 64);
    need("fill", CU(cuGraphAddKernelNode_v2)(&p.fill, p.graph, NULL, 0,
                                             &kernel_params));
    CUDA_MEMCPY3D copy = copy_of(D, (void *)(y + 4096), D, (void *)y, 256);
    need("copy", CU(cuGraphAddMemcpyNode)(&p.copy, p.graph, &p.fill, 1, &copy,
                                          context));
    copy = copy_of(H, pinned, D, (void *)y, 256);
    need("down", CU(cuGraphAddMemcpyNode)(&p.down, p.graph, &p.copy, 1, &copy,
                                          context));
    CUDA_MEMSET_NODE_PARAMS set = {.dst = y + 1024, .value = 1,
                                   .elementSize = 4, .width = width,
                                   .height = 1};
    need("set", CU(cuGraphAddMemsetNode)(&p.set, p.graph, &p.down, 1, &set,
                                         context));
    set = (CUDA_MEMSET_NODE_PARAMS){.dst = y + 2048, .pitch = 64, .value = 1,
                                    .elementSize = 4, .width = 8, .height = 3};
    need("plane", CU(cuGraphAddMemsetNode)(&p.plane, p.graph, &p.set, 1, &set,
                                           context));
    CUDA_HOST_NODE_PARAMS host = {add_number, &numbers[0]};
    need("host", CU(cuGraphAddHostNode)(&p.host, p.graph, &p.plane, 1, &host));
    need("record", CU(cuGraphAddEventRecordNode)(&p.record, p.graph, &p.host,
                                                 1, event));
    CUstreamBatchMemOpParams op = write_op(y + 3072, 5);
    CUDA_BATCH_MEM_OP_NODE_PARAMS memop = {context, 1, &op, 0};
    need("memop", CU(cuGraphAddBatchMemOpNode)(&p.memop, p.graph, &p.record, 1,
                                               &memop));
    return p;
}

static void
check_copies(CUgraphExec exec, const struct parts *p)
{
    CUDA_MEMCPY3D copy = copy_of(D, (void *)(y + 5120), D, (void *)y, 128);
    say("copy_address", CU(cuGraphExecMemcpyNodeSetParams)(exec, p->copy, &copy,
                                                           context));
    copy.WidthInBytes = 0;
    ask("copy_zero", CU(cuGraphExecMemcpyNodeSetParams)(exec, p->copy, &copy,
                                                        context));
    copy = copy_of(D, (void *)(y + 5120), D, (void *)y, 16);
    copy.Height = 2;
    copy.srcPitch = copy.dstPitch = 32;
    ask("copy_plane", CU(cuGraphExecMemcpyNodeSetParams)(exec, p->copy, &copy,
                                                         context));
    copy = copy_of(H, pinned, D, (void *)y, 128);
    ask("copy_to_host", CU(cuGraphExecMemcpyNodeSetParams)(exec, p->copy, &copy,
                                                           context));
    copy = copy_of(D, (void *)(y + 5120), D, (void *)y, 128);
    ask("down_to_device", CU(cuGraphExecMemcpyNodeSetParams)(
                              exec, p->down, &copy, context));
    say("copy_wrong_node", CU(cuGraphExecMemcpyNodeSetParams)(
                               exec, p->fill, &copy, context));
}

static void
check_sets(CUgraphExec exec, const struct parts *p)
{
    CUDA_MEMSET_NODE_PARAMS set = {.dst = y + 1024, .value = 9,
                                   .elementSize = 4, .width = 16, .height = 1};
    say("set_value", CU(cuGraphExecMemsetNodeSetParams)(exec, p->set, &set,
                                                        context));
    set.width = 32;
    ask("set_width", CU(cuGraphExecMemsetNodeSetParams)(exec, p->set, &set,
                                                        context));
    set = (CUDA_MEMSET_NODE_PARAMS){.dst = y + 2048, .pitch = 64, .value = 2,
                                    .elementSize = 4, .width = 8, .height = 3};
    say("plane_value", CU(cuGraphExecMemsetNodeSetParams)(exec, p->plane, &set,
                                                          context));
    set.height = 2;
    ask("plane_height", CU(cuGraphExecMemsetNodeSetParams)(exec, p->plane, &set,
                                                           context));
}

static void
check_memops(CUgraphExec exec, const struct parts *p)
{
    CUstreamBatchMemOpParams ops[2] = {write_op(y + 3076, 6),
                                       write_op(y + 3080, 7)};
    CUDA_BATCH_MEM_OP_NODE_PARAMS memop = {context, 1, ops, 0};
    say("memop_value", CU(cuGraphExecBatchMemOpNodeSetParams)(exec, p->memop,
                                                              &memop));
    memop.count = 2;
    ask("memop_count", CU(cuGraphExecBatchMemOpNodeSetParams)(exec, p->memop,
                                                              &memop));
    memop.count = 1;
    ops[0].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    ops[0].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    ask("memop_kind", CU(cuGraphExecBatchMemOpNodeSetParams)(exec, p->memop,
                                                             &memop));
}

static void
check_nodes(CUgraphExec exec, const struct parts *p)
{
    struct fill_slots slots;
    CUDA_KERNEL_NODE_PARAMS_v2 kernel_params = fill_node(&slots, y, 7.0f, 32);
    kernel_params.gridDimX = 1;
    say("kernel", CU(cuGraphExecKernelNodeSetParams_v2)(exec, p->fill,
                                                        &kernel_params));
    CU(cuMemsetD32_v2)(y, 0, 1024);
    say("launch", CU(cuGraphLaunch)(exec, NULL));
    say("value", (long long)read_float(y, 31));
    say("value_past", (long long)read_float(y, 32));
    kernel_params.func = kernel("scale");
    float factor = 2;
    int n = 32;
    void *params[] = {&slots.y, &factor, &n};
    kernel_params.kernelParams = params;
    say("kernel_function", CU(cuGraphExecKernelNodeSetParams_v2)(
                               exec, p->fill, &kernel_params));
    CU(cuGraphLaunch)(exec, NULL);
    say("value_scaled", (long long)read_float(y, 31));
    CUDA_HOST_NODE_PARAMS host = {add_number, &numbers[1]};
    say("host", CU(cuGraphExecHostNodeSetParams)(exec, p->host, &host));
    say("record", CU(cuGraphExecEventRecordNodeSetEvent)(exec, p->record,
                                                         event_2));
    check_copies(exec, p);
    check_sets(exec, p);
    check_memops(exec, p);
    host_sum = 0;
    CU(cuGraphLaunch)(exec, NULL);
    CU(cuCtxSynchronize)();
    say("host_sum", host_sum);
    say("event_2", CU(cuEventQuery)(event_2));
    /* the graph itself has not changed */
    CUDA_KERNEL_NODE_PARAMS_v2 old;
    CU(cuGraphKernelNodeGetParams_v2)(p->fill, &old);
    say("graph_unchanged", old.gridDimX);
    say("set_graph_node", CU(cuGraphKernelNodeSetParams_v2)(p->fill,
                                                            &kernel_params));
    CU(cuGraphLaunch)(exec, NULL);
    say("exec_unchanged", (long long)read_float(y, 31));
}

static void
update(const char *what, CUgraphExec exec, CUgraph graph)
{
    CUgraphExecUpdateResultInfo info;
    memset(&info, 0, sizeof info);
    CUresult result = CU(cuGraphExecUpdate_v2)(exec, graph, &info);
    say(what, (long long)result * 100 + info.result);
}

static void
check_whole(CUgraphExec exec)
{
    struct parts q = build(3.0f, 16);
    update("same_shape", exec, q.graph);
    CU(cuGraphLaunch)(exec, NULL);
    say("new_value", (long long)read_float(y, 40));
    CUgraphNode extra = NULL;
    need("add", CU(cuGraphAddEmptyNode)(&extra, q.graph, NULL, 0));
    update("node_more", exec, q.graph);
    CU(cuGraphDestroyNode)(extra);
    CU(cuGraphRemoveDependencies)(q.graph, &q.fill, &q.copy, 1);
    update("edge_less", exec, q.graph);
    CU(cuGraphAddDependencies)(q.graph, &q.fill, &q.copy, 1);
    update("edge_back", exec, q.graph);
    CUgraph other = NULL;
    CUgraphNode node = NULL, before = NULL;
    need("create", CU(cuGraphCreate)(&other, 0));
    for (int i = 0; i < 8; i++) {
        need("add", CU(cuGraphAddEmptyNode)(&node, other, &before, i ? 1 : 0));
        before = node;
    }
    update("types", exec, other);
    CU(cuGraphDestroy)(other);
    CUDA_MEMCPY3D copy = copy_of(H, pinned, D, (void *)y, 128);
    need("set", CU(cuGraphMemcpyNodeSetParams)(q.copy, &copy));
    update("copy_to_host", exec, q.graph);
    CU(cuGraphDestroy)(q.graph);
    CUgraphExecUpdateResult result = (CUgraphExecUpdateResult)99;
    struct parts r = build(4.0f, 16);
    say("v1", CU(cuGraphExecUpdate)(exec, r.graph, &node, &result));
    say("v1_result", result);
    CU(cuGraphDestroy)(r.graph);
}

static void
check_child(void)
{
    CUgraph outer = NULL, inner = NULL, longer = NULL;
    CUgraphNode child = NULL, node = NULL, more = NULL;
    CUgraphExec exec = NULL;
    struct fill_slots slots;
    need("create", CU(cuGraphCreate)(&outer, 0));
    need("create", CU(cuGraphCreate)(&inner, 0));
    need("create", CU(cuGraphCreate)(&longer, 0));
    CUDA_KERNEL_NODE_PARAMS_v2 params = fill_node(&slots, y, 1.0f, 64);
    need("add", CU(cuGraphAddKernelNode_v2)(&node, inner, NULL, 0, &params));
    need("add", CU(cuGraphAddChildGraphNode)(&child, outer, NULL, 0, inner));
    need("instantiate", CU(cuGraphInstantiateWithFlags)(&exec, outer, 0));
    params = fill_node(&slots, y, 9.0f, 64);
    need("set", CU(cuGraphKernelNodeSetParams_v2)(node, &params));
    say("child", CU(cuGraphExecChildGraphNodeSetParams)(exec, child, inner));
    CU(cuGraphLaunch)(exec, NULL);
    say("child_value", (long long)read_float(y, 2));
    need("add", CU(cuGraphAddKernelNode_v2)(&node, longer, NULL, 0, &params));
    need("add", CU(cuGraphAddEmptyNode)(&more, longer, &node, 1));
    say("child_longer", CU(cuGraphExecChildGraphNodeSetParams)(exec, child,
                                                               longer));
    CU(cuGraphExecDestroy)(exec);
    CU(cuGraphDestroy)(outer);
    CU(cuGraphDestroy)(inner);
    CU(cuGraphDestroy)(longer);
}

void
check_update(void)
{
    begin("update");
    need("alloc", CU(cuMemAlloc_v2)(&y, 8192));
    need("pinned", CU(cuMemHostAlloc)(&pinned, 4096, 0));
    need("event", CU(cuEventCreate)(&event, 0));
    need("event", CU(cuEventCreate)(&event_2, 0));
    struct parts p = build(2.0f, 16);
    CUgraphExec exec = NULL;
    need("instantiate", CU(cuGraphInstantiateWithFlags)(&exec, p.graph, 0));
    check_nodes(exec, &p);
    check_whole(exec);
    check_child();
    say("destroy", CU(cuGraphExecDestroy)(exec));
    CU(cuGraphDestroy)(p.graph);
    CU(cuCtxSynchronize)();
    CU(cuEventDestroy_v2)(event);
    CU(cuEventDestroy_v2)(event_2);
    CU(cuMemFreeHost)(pinned);
    CU(cuMemFree_v2)(y);
}
