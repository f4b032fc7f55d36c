/* SPDX-License-Identifier: Apache-2.0 */
/* The driver calls that other programs do not make, in a loop that trains:
 * registered memory, copies of every direction, contexts pushed and popped,
 * streams and events that live for one step, questions about functions. */
#include "tests/programs/model.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 5000, BYTES = COUNT * sizeof(float) };

static int steps = 24;
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct pupil pupil;
static float *there, *back;

static void
registered_copy(int step)
{
    float *host = aligned_alloc(4096, 20480);
    if (host == NULL)
        abort();
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)(step + i % 7);
    CU(cuMemHostRegister, host, 20480, 0);
    CU(cuMemcpyHtoDAsync, rt_ptr(there), host, BYTES, rt_stream);
    CU(cuMemcpyDtoDAsync, rt_ptr(back), rt_ptr(there), BYTES, rt_stream);
    k_axpy(items(COUNT), back, 2.0f, there, COUNT);
    CU(cuMemcpyDtoHAsync, host, rt_ptr(back), BYTES, rt_stream);
    CU(cuStreamSynchronize, rt_stream);
    rt_print("registered %016llx\n",
             (unsigned long long)rt_hash(RT_HASH_START, host, BYTES));
    CU(cuMemHostUnregister, host);
    free(host);
}

/* Calls that name no stream, with nothing under way on another. */
static void
plain_copies(int step)
{
    float host[64];
    CU(cuStreamSynchronize, rt_stream);
    CU(cuMemsetD32, rt_ptr(there), 0x40000000, COUNT);
    CU(cuMemsetD8, rt_ptr(there), (unsigned char)step, 32);
    CU(cuMemcpyDtoD, rt_ptr(back), rt_ptr(there), BYTES);
    CU(cuMemcpy, rt_ptr(back) + 128, rt_ptr(there), 128);
    CU(cuCtxSynchronize);
    CU(cuMemcpyDtoH, host, rt_ptr(back), sizeof host);
    rt_print("plain %016llx\n",
             (unsigned long long)rt_hash(RT_HASH_START, host, sizeof host));
}

/* A stream and events that are made for this step alone. */
static void
short_lived_stream(float *loss)
{
    CUstream before = rt_stream, brief = NULL;
    CUevent fork = rt_event_new(CU_EVENT_DISABLE_TIMING);
    CUevent join = rt_event_new(CU_EVENT_DISABLE_TIMING);
    CU(cuStreamCreateWithPriority, &brief, CU_STREAM_NON_BLOCKING, -1);
    rt_own(RT_STREAM, brief);
    CU(cuEventRecord, fork, before);
    CU(cuStreamWaitEvent, brief, fork, 0);
    rt_stream = brief;
    k_scale(items(1), loss, 0.5f, 1);
    CU(cuEventRecord, join, brief);
    rt_stream = before;
    CU(cuStreamWaitEvent, before, join, 0);
    rt_event_free(fork);
    rt_event_free(join);
    rt_stream_free(brief);
}

static void
questions(int step)
{
    CUcontext context = NULL, other = NULL;
    CUmemoryPool pool;
    int version = 0, count = 0, major = 0, threads = 0;
    size_t total = 0;
    const char *name = NULL;
    CU(cuCtxPushCurrent, rt_context);
    CU(cuCtxGetCurrent, &context);
    CU(cuCtxPopCurrent, &other);
    CU(cuDriverGetVersion, &version);
    CU(cuDeviceGetCount, &count);
    CU(cuDeviceGetAttribute, &major,
       CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, rt_device);
    CU(cuGetErrorName, CUDA_ERROR_NOT_READY, &name);
    CU(cuMemGetInfo, NULL, &total);
    if (rt_kernels->module)
        CU(cuFuncGetAttribute, &threads,
           CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
           rt_kernels->function[K_matmul]);
    rt_print("answers %d %d %d %d %s %d\n", context == other,
             version >= 12000, count > 0, major > 0, name, threads >= 0);
    if (step % 5 == 4) {
        CU(cuDeviceGetDefaultMemPool, &pool, rt_device);
        CU(cuMemPoolTrimTo, pool, 0);
    }
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    pupil_open(&pupil);
    there = rt_alloc(BYTES);
    back = rt_alloc(BYTES);
    for (int step = 0; step < steps; step++) {
        float *loss = pupil_step(&pupil);
        registered_copy(step);
        questions(step);
        short_lived_stream(loss);
        plain_copies(step);
        loss_print(step, loss);
    }
    rt_free(there);
    rt_free(back);
    pupil_free(&pupil);
    rt_end(0);
}
