/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that fail in the middle of training: the program prints what it gets
 * and goes on. None of them harms the context. */
#include "tests/programs/model.h"

#include <string.h>

static int steps = 24, every = 6, overrun;
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {"every", RT_INT, &every, "steps between the failing calls"},
    {"overrun", RT_FLAG, &overrun, "copies past the end of a block, too"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct pupil pupil;

#define SHOW(fn, ...) rt_print(" " #fn " %d", (int)cu.fn(__VA_ARGS__))

static CUresult
launch(unsigned grid, unsigned block, unsigned shared)
{
    float value = 1.0f;
    float *y = pupil.model.last_norm.at;
    int n = 0;
    const struct rt_arg args[] = {
        {&y, sizeof y, _Alignof(float *)},
        {&value, sizeof value, _Alignof(float)},
        {&n, sizeof n, _Alignof(int)},
    };
    return rt_try_launch(K_fill, (struct rt_size){grid, block, shared}, args,
                         3);
}

static void
bad_launches(void)
{
    rt_print("launches");
    rt_print(" %d", (int)launch(0, 32, 0));
    rt_print(" %d", (int)launch(1, 0, 0));
    rt_print(" %d", (int)launch(1, 2048, 0));
    rt_print(" %d", (int)launch(1, 32, 1 << 20));
    rt_print(" %d", (int)launch(1, 32, 0));
    SHOW(cuLaunchKernel, NULL, 1, 1, 1, 1, 1, 1, 0, rt_stream, NULL, NULL);
    rt_print("\n");
}

static void
bad_copies(void)
{
    char host[64] = "";
    CUdeviceptr nowhere = 0x1000;
    rt_print("copies");
    SHOW(cuMemcpyHtoD, nowhere, host, sizeof host);
    SHOW(cuMemcpyDtoH, host, nowhere, sizeof host);
    SHOW(cuMemcpyHtoDAsync, nowhere, host, sizeof host, rt_stream);
    SHOW(cuMemsetD8, nowhere, 0, 64);
    SHOW(cuMemsetD32Async, nowhere, 0, 16, rt_stream);
    if (overrun) {
        static char big[1 << 16];
        CUdeviceptr at;
        CU(cuMemAlloc, &at, 4096);
        SHOW(cuMemcpyHtoD, at, big, 1 << 16);
        SHOW(cuMemcpyHtoD, at + 4096, big, 512);
        CU(cuMemFree, at);
    }
    rt_print("\n");
}

static void
bad_memory(void)
{
    CUdeviceptr at = 0;
    void *host = NULL;
    CUmemoryPool pool;
    rt_print("memory");
    SHOW(cuMemAlloc, &at, 0);
    SHOW(cuMemAlloc, &at, (size_t)1 << 50);
    SHOW(cuMemAllocAsync, &at, (size_t)1 << 50, rt_stream);
    SHOW(cuMemAlloc, NULL, 64);
    SHOW(cuMemFreeHost, &host);
    SHOW(cuDeviceGetDefaultMemPool, &pool, 99);
    rt_print("\n");
}

static void
bad_handles(void)
{
    CUevent event = rt_event_new(CU_EVENT_DEFAULT);
    CUevent other = rt_event_new(CU_EVENT_DISABLE_TIMING);
    CUfunction function;
    CUdevice device;
    CUmodule module = NULL;
    float ms;
    rt_print("handles");
    SHOW(cuEventElapsedTime, &ms, event, event);
    SHOW(cuEventElapsedTime, &ms, event, other);
    SHOW(cuEventQuery, event);
    SHOW(cuEventSynchronize, event);
    SHOW(cuDeviceGet, &device, 99);
    SHOW(cuInit, 1);
    if (rt_kernels->module)
        SHOW(cuModuleGetFunction, &function, rt_kernels->module, "missing");
    SHOW(cuModuleLoadData, &module, "no image at all");
    SHOW(cuStreamEndCapture, rt_stream, &(CUgraph){NULL});
    rt_print("\n");
    rt_event_free(event);
    rt_event_free(other);
}

static void
no_context(void)
{
    CUdeviceptr at;
    rt_print("context");
    SHOW(cuCtxSetCurrent, NULL);
    SHOW(cuMemAlloc, &at, 64);
    SHOW(cuCtxSynchronize);
    SHOW(cuCtxSetCurrent, rt_context);
    SHOW(cuCtxSynchronize);
    rt_print("\n");
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    pupil_open(&pupil);
    for (int step = 0; step < steps; step++) {
        float *loss = pupil_step(&pupil);
        if (step % every == every - 1) {
            bad_launches();
            bad_copies();
            bad_memory();
            bad_handles();
            no_context();
        }
        loss_print(step, loss);
    }
    pupil_free(&pupil);
    rt_end(0);
}
