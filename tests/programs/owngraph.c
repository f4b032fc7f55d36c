/* SPDX-License-Identifier: Apache-2.0 */
/* The program captures a graph of its own step and launches it in its loop,
 * with calls outside the graph in between; then a graph that it builds node by
 * node, with memory of its own, and changes before each launch. */
#include "tests/programs/model.h"

#include <string.h>

enum { BATCH = 2, LENGTH = 16, COUNT = BATCH * LENGTH, SPARE = 64 };

static int steps = 16, kernels;
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "launches of each graph"},
    {"kernels", RT_INT, &kernels, "more launches in the captured step"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct pupil pupil;
static struct batch batch;
static float *loss_at;

/* ---- a captured step --------------------------------------------------- */

static void
upload(void)
{
    int host[2 * COUNT];
    data_draw(&pupil.data, host, host + COUNT, BATCH, LENGTH);
    rt_upload(batch.tokens, host, COUNT * sizeof(int));
    rt_upload(batch.targets, host + COUNT, COUNT * sizeof(int));
    memset(host, 0xff, sizeof host);
}

/* Leaves the loss where the program can find it after each launch; what it
 * allocates it frees. */
static void
step_body(void)
{
    struct tape tape;
    float *loss = model_forward(&pupil.model, &batch, 1.0f, &tape);
    model_backward(&pupil.model, &batch, 1.0f, &tape);
    optim_step(&pupil.model, &pupil.optim);
    k_copy(items(1), loss_at, loss, 1);
    rt_free(loss);
    model_zero_grad(&pupil.model);
}

static CUgraphExec
instantiate(CUgraph graph, unsigned flags)
{
    CUgraphExec exec = NULL;
    CU(cuGraphInstantiate, &exec, graph, flags);
    rt_own(RT_EXEC, exec);
    return exec;
}

static void
drop_graph(CUgraphExec exec, CUgraph graph)
{
    CU(cuGraphExecDestroy, exec);
    rt_disown(RT_EXEC, exec);
    CU(cuGraphDestroy, graph);
    rt_disown(RT_GRAPH, graph);
}

static void
print_step(const char *name, int step)
{
    float loss;
    rt_read(&loss, loss_at, sizeof loss);
    rt_print("%s %d loss %a\n", name, step, (double)loss);
}

static void
captured(void)
{
    CUgraph graph = NULL;
    CUstreamCaptureStatus status;
    upload();
    CU(cuStreamSynchronize, rt_stream);
    CU(cuStreamBeginCapture, rt_stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    rt_capturing = true;
    step_body();
    for (int i = 0; i < kernels; i++)
        k_axpy(items(1), loss_at, 0.001f, pupil.model.last_norm.at, 1);
    CU(cuStreamIsCapturing, rt_stream, &status);
    CU(cuStreamEndCapture, rt_stream, &graph);
    rt_capturing = false;
    rt_own(RT_GRAPH, graph);
    rt_print("capturing %d\n", (int)status);
    CUgraphExec exec = instantiate(graph, 0);
    for (int step = 0; step < steps; step++) {
        upload();
        CU(cuGraphLaunch, exec, rt_stream);
        k_scale(items((size_t)pupil.model.last_norm.count),
                pupil.model.last_norm.at, 0.999f, pupil.model.last_norm.count);
        print_step("graph", step);
    }
    drop_graph(exec, graph);
}

/* ---- a graph built by hand --------------------------------------------- */

static int host_calls;

static void CUDA_CB
count_call(void *data)
{
    ++*(int *)data;
}

static CUDA_KERNEL_NODE_PARAMS
axpy_params(void **params)
{
    CUDA_KERNEL_NODE_PARAMS node;
    memset(&node, 0, sizeof node);
    node.func = rt_kernels->function[K_axpy];
    node.gridDimX = node.gridDimY = node.gridDimZ = 1;
    node.blockDimX = 128;
    node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = params;
    return node;
}

static CUgraphNode
add_alloc(CUgraph graph, CUdeviceptr *at)
{
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    memset(&alloc, 0, sizeof alloc);
    alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    alloc.poolProps.location.id = rt_device;
    alloc.bytesize = SPARE * sizeof(float);
    CU(cuGraphAddMemAllocNode, &node, graph, NULL, 0, &alloc);
    *at = alloc.dptr;
    return node;
}

static CUgraphNode
add_fill(CUgraph graph, CUgraphNode before, CUdeviceptr at)
{
    CUgraphNode node;
    CUDA_MEMSET_NODE_PARAMS fill;
    memset(&fill, 0, sizeof fill);
    fill.dst = at;
    fill.value = 0x3f000000; /* 0.5 */
    fill.elementSize = 4;
    fill.width = SPARE;
    fill.height = 1;
    CU(cuGraphAddMemsetNode, &node, graph, &before, 1, &fill, rt_context);
    return node;
}

static CUgraphNode
add_copy(CUgraph graph, CUgraphNode before, CUdeviceptr to, CUdeviceptr from)
{
    CUgraphNode node;
    CUDA_MEMCPY3D copy;
    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from;
    copy.dstDevice = to;
    copy.WidthInBytes = sizeof(float);
    copy.Height = copy.Depth = 1;
    CU(cuGraphAddMemcpyNode, &node, graph, &before, 1, &copy, rt_context);
    return node;
}

/* temporary = 0.5; temporary += a * norm; loss = temporary[0] */
static void
built(void)
{
    CUgraph graph = NULL;
    CUgraphNode fill, sum, copy, call, end;
    CUdeviceptr at;
    float a = 1.0f;
    const float *x = pupil.model.last_norm.at;
    int n = pupil.model.last_norm.count;
    CU(cuGraphCreate, &graph, 0);
    rt_own(RT_GRAPH, graph);
    CUgraphNode alloc = add_alloc(graph, &at);
    void *params[] = {&at, &a, &x, &n};
    CUDA_KERNEL_NODE_PARAMS axpy = axpy_params(params);
    fill = add_fill(graph, alloc, at);
    CU(cuGraphAddKernelNode, &sum, graph, &fill, 1, &axpy);
    copy = add_copy(graph, sum, rt_ptr(loss_at), at);
    CUDA_HOST_NODE_PARAMS host = {count_call, &host_calls};
    CU(cuGraphAddHostNode, &call, graph, &sum, 1, &host);
    CUgraphNode both[] = {copy, call};
    CU(cuGraphAddEmptyNode, &end, graph, both, 2);
    CUgraphNode freed;
    CU(cuGraphAddMemFreeNode, &freed, graph, &end, 1, at);
    CUgraphExec exec = instantiate(graph, 0);
    for (int step = 0; step < steps; step++) {
        a = (float)step;
        CU(cuGraphExecKernelNodeSetParams, exec, sum, &axpy);
        CU(cuGraphLaunch, exec, rt_stream);
        print_step("built", step);
        loss_print(step, pupil_step(&pupil));
    }
    rt_print("host calls %d\n", host_calls);
    drop_graph(exec, graph);
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    pupil_open(&pupil);
    pupil.optim.kind = "sgd"; /* no scalar that changes from step to step */
    pupil.optim.rate = 0.05f;
    loss_at = rt_alloc(sizeof(float));
    batch = data_batch(&pupil.data, BATCH, LENGTH);
    for (int step = 0; step < 3; step++)
        loss_print(step, pupil_step(&pupil));
    model_zero_grad(&pupil.model);
    captured();
    for (int step = 0; step < 8; step++)
        loss_print(step, pupil_step(&pupil));
    built();
    batch_free(&batch);
    rt_free(loss_at);
    pupil_free(&pupil);
    rt_end(0);
}
