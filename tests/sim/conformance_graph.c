/* SPDX-License-Identifier: Apache-2.0 */
/* Checks: building graphs and running them. */
#include "conformance.h"

#include <string.h>

static CUdeviceptr y;

static CUDA_MEMCPY3D
copy_line(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    CUDA_MEMCPY3D copy;
    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = src;
    copy.dstDevice = dst;
    copy.WidthInBytes = bytes;
    copy.Height = copy.Depth = 1;
    return copy;
}

static CUDA_MEMSET_NODE_PARAMS
fill_line(CUdeviceptr dst, unsigned value, size_t count)
{
    return (CUDA_MEMSET_NODE_PARAMS){.dst = dst, .value = value,
                                     .elementSize = 4, .width = count,
                                     .height = 1};
}

static void
check_edges(CUgraph graph, CUgraphNode a, CUgraphNode b, CUgraphNode c)
{
    CUgraphNode from[8], to[8], nodes[8];
    CUgraphEdgeData data[8];
    size_t count = 0;
    say("get_nodes_count", CU(cuGraphGetNodes)(graph, NULL, &count));
    say("nodes", (long long)count);
    count = 8;
    say("get_nodes", CU(cuGraphGetNodes)(graph, nodes, &count));
    say("nodes_written", (long long)count);
    say("nodes_rest_null", nodes[7] == NULL);
    count = 1;
    say("get_nodes_one", CU(cuGraphGetNodes)(graph, nodes, &count));
    ask("nodes_one_written", (long long)count);
    say("get_roots", CU(cuGraphGetRootNodes)(graph, NULL, &count));
    say("roots", (long long)count);
    say("get_edges", CU(cuGraphGetEdges)(graph, NULL, NULL, &count));
    say("edges", (long long)count);
    count = 8;
    memset(data, 0xff, sizeof data);
    say("get_edges_v2", CU(cuGraphGetEdges_v2)(graph, from, to, data, &count));
    say("edge_data_plain", data[0].type + data[0].from_port + data[0].to_port);
    say("link_self", CU(cuGraphAddDependencies)(graph, &a, &a, 1));
    say("link_again", CU(cuGraphAddDependencies)(graph, &a, &b, 1));
    say("link", CU(cuGraphAddDependencies)(graph, &a, &c, 1));
    say("get_before", CU(cuGraphNodeGetDependencies)(c, NULL, &count));
    say("before", (long long)count);
    say("get_after", CU(cuGraphNodeGetDependentNodes)(a, NULL, &count));
    say("after", (long long)count);
    say("unlink", CU(cuGraphRemoveDependencies)(graph, &a, &c, 1));
    say("unlink_again", CU(cuGraphRemoveDependencies)(graph, &a, &c, 1));
    say("cycle", CU(cuGraphAddDependencies)(graph, &c, &a, 1));
    CUgraphExec exec = NULL;
    say("instantiate_cycle", CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    CU(cuGraphRemoveDependencies)(graph, &c, &a, 1);
}

static void
check_node_params(CUgraphNode a, CUgraphNode b, CUgraphNode c)
{
    CUgraphNodeType type = (CUgraphNodeType)99;
    CUDA_KERNEL_NODE_PARAMS_v2 kernel_params;
    CUDA_MEMCPY3D copy;
    CUDA_MEMSET_NODE_PARAMS fill;
    say("type", CU(cuGraphNodeGetType)(a, &type));
    say("type_kernel", type);
    CU(cuGraphNodeGetType)(b, &type);
    say("type_copy", type);
    CU(cuGraphNodeGetType)(c, &type);
    say("type_fill", type);
    memset(&kernel_params, 0, sizeof kernel_params);
    say("kernel_params", CU(cuGraphKernelNodeGetParams_v2)(a, &kernel_params));
    say("kernel_same_func", kernel_params.func == kernel("fill"));
    say("kernel_grid", kernel_params.gridDimX);
    say("kernel_has_params", kernel_params.kernelParams != NULL);
    say("kernel_has_extra", kernel_params.extra != NULL);
    if (kernel_params.kernelParams)
        say("kernel_value", *(float *)kernel_params.kernelParams[1] == 5.0f);
    ask("kernel_kern_null", kernel_params.kern == NULL);
    say("kernel_params_of_copy",
        CU(cuGraphKernelNodeGetParams_v2)(b, &kernel_params));
    say("copy_params", CU(cuGraphMemcpyNodeGetParams)(b, &copy));
    say("copy_width", (long long)copy.WidthInBytes);
    say("fill_params", CU(cuGraphMemsetNodeGetParams)(c, &fill));
    say("fill_value", fill.value);
    CUkernelNodeAttrValue value;
    memset(&value, 0, sizeof value);
    value.priority = -3;
    say("set_priority", CU(cuGraphKernelNodeSetAttribute)(
                            a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    memset(&value, 0, sizeof value);
    say("get_priority", CU(cuGraphKernelNodeGetAttribute)(
                            a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    say("priority", value.priority);
    say("attribute_of_copy", CU(cuGraphKernelNodeGetAttribute)(
                                 b, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
}

static void
check_children(CUgraph graph, CUgraphNode a)
{
    CUgraph clone = NULL, inner = NULL;
    CUgraphNode twin = NULL, child = NULL, after = NULL;
    size_t count = 0;
    say("clone", CU(cuGraphClone)(&clone, graph));
    say("find_in_clone", CU(cuGraphNodeFindInClone)(&twin, a, clone));
    say("twin_differs", twin != a && twin != NULL);
    CU(cuGraphGetNodes)(clone, NULL, &count);
    say("clone_nodes", (long long)count);
    say("destroy_node", CU(cuGraphDestroyNode)(twin));
    CU(cuGraphGetNodes)(clone, NULL, &count);
    say("clone_nodes_after", (long long)count);
    CUgraph outer = NULL;
    need("create", CU(cuGraphCreate)(&outer, 0));
    say("add_child", CU(cuGraphAddChildGraphNode)(&child, outer, NULL, 0,
                                                  graph));
    say("add_after_child", CU(cuGraphAddEmptyNode)(&after, outer, &child, 1));
    say("child_graph", CU(cuGraphChildGraphNodeGetGraph)(child, &inner));
    say("child_is_copy", inner != graph && inner != NULL);
    say("destroy_inner", CU(cuGraphDestroy)(inner) != CUDA_SUCCESS);
    CUgraphExec exec = NULL;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    say("instantiate_outer", CU(cuGraphInstantiateWithFlags)(&exec, outer, 0));
    CU(cuMemsetD32_v2)(y, 0, 1024);
    CU(cuCtxSynchronize)(); /* a memset does not wait */
    say("launch_outer", CU(cuGraphLaunch)(exec, stream));
    say("outer_value", (long long)read_float(y, 3));
    say("destroy_exec", CU(cuGraphExecDestroy)(exec));
    CU(cuStreamDestroy_v2)(stream);
    CU(cuGraphDestroy)(outer);
    CU(cuGraphDestroy)(clone);
}

void
check_graph(void)
{
    CUgraph graph = NULL, other = NULL;
    CUgraphNode a = NULL, b = NULL, c = NULL, odd = NULL;
    struct fill_slots slots;
    begin("graph");
    need("alloc", CU(cuMemAlloc_v2)(&y, 8192));
    say("create_flags", CU(cuGraphCreate)(&graph, 1));
    say("create", CU(cuGraphCreate)(&graph, 0));
    CUDA_KERNEL_NODE_PARAMS_v2 params = fill_node(&slots, y, 5.0f, 64);
    say("add_kernel", CU(cuGraphAddKernelNode_v2)(&a, graph, NULL, 0, &params));
    slots.value = 99.0f; /* was copied */
    CUDA_MEMCPY3D copy = copy_line(y + 4096, y, 256);
    say("add_copy", CU(cuGraphAddMemcpyNode)(&b, graph, &a, 1, &copy, context));
    CUDA_MEMSET_NODE_PARAMS fill = fill_line(y + 512, 3, 16);
    say("add_fill", CU(cuGraphAddMemsetNode)(&c, graph, &b, 1, &fill, context));
    CUgraphNode twice[2] = {a, a};
    say("add_twice_after", CU(cuGraphAddEmptyNode)(&odd, graph, twice, 2));
    need("create", CU(cuGraphCreate)(&other, 0));
    say("add_foreign_after", CU(cuGraphAddEmptyNode)(&odd, other, &a, 1));
    params.gridDimX = 0;
    say("add_grid_0", CU(cuGraphAddKernelNode_v2)(&odd, graph, NULL, 0,
                                                  &params));
    copy.srcDevice = 4096;
    ask("add_copy_unknown", CU(cuGraphAddMemcpyNode)(&odd, graph, NULL, 0,
                                                     &copy, context));
    fill.elementSize = 3;
    say("add_fill_3", CU(cuGraphAddMemsetNode)(&odd, graph, NULL, 0, &fill,
                                               context));
    CUgraphNodeParams any;
    memset(&any, 0, sizeof any);
    any.type = CU_GRAPH_NODE_TYPE_EMPTY;
    say("add_any", CU(cuGraphAddNode_v2)(&odd, graph, &c, NULL, 1, &any));
    say("destroy_node", CU(cuGraphDestroyNode)(odd));
    check_edges(graph, a, b, c);
    check_node_params(a, b, c);
    check_children(graph, a);
    CUgraphExec exec = NULL;
    say("instantiate_empty", CU(cuGraphInstantiateWithFlags)(&exec, other, 0));
    say("launch_empty", CU(cuGraphLaunch)(exec, NULL));
    CU(cuGraphExecDestroy)(exec);
    say("destroy", CU(cuGraphDestroy)(graph));
    say("destroy_other", CU(cuGraphDestroy)(other));
    CU(cuCtxSynchronize)();
    CU(cuMemFree_v2)(y);
}

/* Allocation nodes and what they forbid. */
static void
check_alloc_nodes(void)
{
    CUgraph graph = NULL, clone = NULL, outer = NULL;
    CUgraphNode alloc = NULL, fill = NULL, release = NULL, odd = NULL;
    CUgraphExec exec = NULL, second = NULL;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    memset(&params, 0, sizeof params);
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.poolProps.location.id = device;
    params.bytesize = 4096;
    need("create", CU(cuGraphCreate)(&graph, 0));
    need("create", CU(cuGraphCreate)(&outer, 0));
    say("add_alloc", CU(cuGraphAddMemAllocNode)(&alloc, graph, NULL, 0,
                                                &params));
    say("alloc_address", params.dptr != 0);
    struct fill_slots slots;
    CUDA_KERNEL_NODE_PARAMS_v2 kernel_params =
        fill_node(&slots, params.dptr, 8.0f, 64);
    say("add_fill", CU(cuGraphAddKernelNode_v2)(&fill, graph, &alloc, 1,
                                                &kernel_params));
    CUDA_MEMCPY3D copy = copy_line(y, params.dptr, 256);
    say("add_copy", CU(cuGraphAddMemcpyNode)(&odd, graph, &fill, 1, &copy,
                                             context));
    say("add_free", CU(cuGraphAddMemFreeNode)(&release, graph, &odd, 1,
                                              params.dptr));
    say("alloc_clone", CU(cuGraphClone)(&clone, graph));
    ask("alloc_as_child", CU(cuGraphAddChildGraphNode)(&odd, outer, NULL, 0,
                                                       graph));
    ask("alloc_destroy_node", CU(cuGraphDestroyNode)(fill));
    ask("alloc_unlink", CU(cuGraphRemoveDependencies)(graph, &alloc, &fill, 1));
    say("alloc_instantiate", CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    ask("alloc_instantiate_again",
        CU(cuGraphInstantiateWithFlags)(&second, graph, 0));
    say("alloc_launch", CU(cuGraphLaunch)(exec, NULL));
    say("alloc_launch_again", CU(cuGraphLaunch)(exec, NULL));
    say("alloc_value", (long long)read_float(y, 9));
    CU(cuGraphExecDestroy)(exec);
    CU(cuGraphDestroy)(graph);
    CU(cuGraphDestroy)(outer);
}

static void
check_enable(CUgraphExec exec, CUgraph graph, CUgraphNode fill,
             CUgraphNode empty)
{
    unsigned enabled = 9;
    say("get_enabled", CU(cuGraphNodeGetEnabled)(exec, fill, &enabled));
    say("enabled", enabled);
    say("disable", CU(cuGraphNodeSetEnabled)(exec, fill, 0));
    CU(cuMemsetD32_v2)(y, 0, 64);
    say("launch_disabled", CU(cuGraphLaunch)(exec, NULL));
    say("value_disabled", (long long)read_float(y, 1));
    say("enable", CU(cuGraphNodeSetEnabled)(exec, fill, 1));
    CU(cuGraphLaunch)(exec, NULL);
    say("value_enabled", (long long)read_float(y, 1));
    say("disable_empty", CU(cuGraphNodeSetEnabled)(exec, empty, 0));
    ask("get_enabled_empty", CU(cuGraphNodeGetEnabled)(exec, empty, &enabled));
    CUgraphNode stranger = NULL;
    need("add", CU(cuGraphAddEmptyNode)(&stranger, graph, NULL, 0));
    say("disable_stranger", CU(cuGraphNodeSetEnabled)(exec, stranger, 0));
    CU(cuGraphDestroyNode)(stranger);
}

static int order[8], order_count;

static void
note_order(void *data)
{
    order[order_count++ % 8] = *(int *)data;
}

static int destroyed;

static void
note_destroyed(void *data)
{
    (void)data;
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_SEQ_CST);
}

static void
check_hosts(void)
{
    CUgraph graph = NULL;
    CUgraphNode nodes[3];
    CUgraphExec exec = NULL;
    int numbers[3] = {1, 2, 3};
    need("create", CU(cuGraphCreate)(&graph, 0));
    for (int i = 0; i < 3; i++) {
        CUDA_HOST_NODE_PARAMS host = {note_order, &numbers[i]};
        CU(cuGraphAddHostNode)(&nodes[i], graph, i ? &nodes[i - 1] : NULL,
                               i ? 1 : 0, &host);
    }
    CUuserObject user = NULL;
    say("user_create",
        CU(cuUserObjectCreate)(&user, numbers, note_destroyed, 1,
                               CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    say("user_no_flags", CU(cuUserObjectCreate)(&user, numbers, note_destroyed,
                                                1, 0));
    say("user_retain", CU(cuGraphRetainUserObject)(graph, user, 1,
                                                   CU_GRAPH_USER_OBJECT_MOVE));
    say("host_instantiate", CU(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    say("host_launch", CU(cuGraphLaunch)(exec, NULL));
    CU(cuCtxSynchronize)();
    say("host_order", order[0] * 100 + order[1] * 10 + order[2]);
    CU(cuGraphDestroy)(graph);
    say("user_lives", __atomic_load_n(&destroyed, __ATOMIC_SEQ_CST));
    say("host_launch_orphan", CU(cuGraphLaunch)(exec, NULL));
    CU(cuCtxSynchronize)();
    say("host_count", order_count);
    CU(cuGraphExecDestroy)(exec);
    for (int i = 0; i < 1000000; i++) {
        if (__atomic_load_n(&destroyed, __ATOMIC_SEQ_CST))
            break;
        CU(cuCtxSynchronize)();
    }
    say("user_gone", __atomic_load_n(&destroyed, __ATOMIC_SEQ_CST));
}

void
check_exec(void)
{
    CUgraph graph = NULL;
    CUgraphNode fill = NULL, empty = NULL;
    CUgraphExec exec = NULL, second = NULL;
    struct fill_slots slots;
    cuuint64_t flags = 99;
    begin("exec");
    need("alloc", CU(cuMemAlloc_v2)(&y, 8192));
    need("create", CU(cuGraphCreate)(&graph, 0));
    CUDA_KERNEL_NODE_PARAMS_v2 params = fill_node(&slots, y, 6.0f, 64);
    need("add", CU(cuGraphAddKernelNode_v2)(&fill, graph, NULL, 0, &params));
    need("add", CU(cuGraphAddEmptyNode)(&empty, graph, &fill, 1));
    say("instantiate_flags_64",
        CU(cuGraphInstantiateWithFlags)(&exec, graph, 64));
    say("instantiate", CU(cuGraphInstantiateWithFlags)(
                           &exec, graph,
                           CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
    say("get_flags", CU(cuGraphExecGetFlags)(exec, &flags));
    say("flags", (long long)flags);
    say("instantiate_second", CU(cuGraphInstantiateWithFlags)(&second, graph,
                                                              0));
    CUDA_GRAPH_INSTANTIATE_PARAMS with;
    memset(&with, 0, sizeof with);
    CUgraphExec third = NULL;
    say("instantiate_params", CU(cuGraphInstantiateWithParams)(&third, graph,
                                                               &with));
    say("instantiate_result", with.result_out);
    say("upload", CU(cuGraphUpload)(exec, NULL));
    say("launch", CU(cuGraphLaunch)(exec, NULL));
    say("value", (long long)read_float(y, 7));
    say("launch_null", CU(cuGraphLaunch)(NULL, NULL));
    say("launch_second", CU(cuGraphLaunch)(second, NULL));
    CU(cuCtxSynchronize)();
    /* one exec runs once at a time: the second launch waits for the first */
    CUstream one = stream_new(CU_STREAM_NON_BLOCKING);
    CUstream two = stream_new(CU_STREAM_NON_BLOCKING);
    struct gate gate = gate_new();
    gate_close(&gate, one);
    say("launch_held", CU(cuGraphLaunch)(exec, one));
    say("launch_other_stream", CU(cuGraphLaunch)(exec, two));
    say("other_stream_waits", CU(cuStreamQuery)(two));
    say("launch_second_exec", CU(cuGraphLaunch)(second, NULL));
    gate_open(&gate);
    say("synchronize", CU(cuCtxSynchronize)());
    check_enable(exec, graph, fill, empty);
    check_alloc_nodes();
    check_hosts();
    say("destroy_second", CU(cuGraphExecDestroy)(second));
    CU(cuGraphExecDestroy)(third);
    CU(cuGraphLaunch)(exec, one);
    say("destroy_running", CU(cuGraphExecDestroy)(exec));
    say("destroy_graph", CU(cuGraphDestroy)(graph));
    CU(cuCtxSynchronize)();
    CU(cuStreamDestroy_v2)(one);
    CU(cuStreamDestroy_v2)(two);
    gate_free(&gate);
    CU(cuMemFree_v2)(y);
}
