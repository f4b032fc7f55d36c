/* SPDX-License-Identifier: Apache-2.0 */
/* A context goes in the middle and another one comes. --mode release: the last
 * release of the primary one; reset: it is reset with everything still in it;
 * busy: that with work under way and from a thread without a context; second:
 * one more is made, used and destroyed; created: there is no primary one. */
#include "tests/programs/model.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static int steps = 14, rounds = 3;
static const char *mode = "release";
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer in each context"},
    {"rounds", RT_INT, &rounds, "contexts, one after the other"},
    {"mode", RT_TEXT, &mode, "release, reset, busy, second, created"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct pupil pupil;

/* What the context held is gone with it. */
static void
pupil_forget(void)
{
    data_free(&pupil.data);
    rt_release_all();
}

static void
train(int many)
{
    for (int step = 0; step < many; step++)
        loss_print(step, pupil_step(&pupil));
}

static void *
reset(void *unused)
{
    (void)unused;
    rt_print("reset %d\n", (int)cu.cuDevicePrimaryCtxReset(rt_device));
    return NULL;
}

static void
reset_elsewhere(void)
{
    pthread_t thread;
    rt_free(pupil_step(&pupil));
    if (pthread_create(&thread, NULL, reset, NULL) != 0)
        abort();
    pthread_join(thread, NULL);
}

static void
round_with_primary(void)
{
    int device = 0;
    CUcontext now = NULL;
    if (rt_context == NULL)
        rt_connect();
    pupil_open(&pupil);
    train(steps);
    if (strcmp(mode, "reset") == 0) {
        CU(cuMemAllocAsync, &(CUdeviceptr){0}, 1000, rt_stream);
        CU(cuMemAlloc, &(CUdeviceptr){0}, 1000);
        reset(NULL);
        pupil_forget();
    } else if (strcmp(mode, "busy") == 0) {
        reset_elsewhere();
        pupil_forget();
    } else {
        pupil_free(&pupil);
        rt_memory_close();
        rt_release_all();
    }
    rt_context = NULL;
    rt_print("context %d %d\n", (int)cu.cuCtxGetCurrent(&now),
             (int)cu.cuDeviceGet(&device, 0));
}

/* The pupil's things stay in the first context meanwhile. */
static void
round_with_second(CUcontext first)
{
    CUcontext second = NULL;
    CUdeviceptr block = 0, tensor = 0;
    unsigned char back[2] = {0, 0};
#if CUDA_VERSION >= 13000
    CU(cuCtxCreate, &second, NULL, 0, rt_device);
#else
    CU(cuCtxCreate, &second, 0, rt_device);
#endif
    CU(cuMemAlloc, &block, 4096);
    CU(cuMemsetD8, block, 3, 4096);
    CU(cuMemcpyDtoH, back, block, 1);
    CU(cuMemAllocAsync, &tensor, 4096, NULL);
    CU(cuMemsetD8Async, tensor, 4, 4096, NULL);
    CU(cuMemcpyDtoHAsync, back + 1, tensor, 1, NULL);
    CU(cuCtxSynchronize);
    CU(cuMemFreeAsync, tensor, NULL);
    rt_print("second %d %d\n", back[0], back[1]);
    if (first == NULL)
        CU(cuMemFree, block);
    CU(cuCtxDestroy, second);
    CU(cuCtxSetCurrent, first);
}

int
main(int argc, char **argv)
{
    rt_options(argc, argv, options);
    if (strcmp(mode, "created") == 0) {
        CU(cuInit, 0);
        CU(cuDeviceGet, &rt_device, 0);
        for (int round = 0; round < rounds; round++)
            round_with_second(NULL);
        return 0;
    }
    if (strcmp(mode, "second") == 0) {
        rt_connect();
        pupil_open(&pupil);
        for (int round = 0; round < rounds; round++) {
            train(steps);
            round_with_second(rt_context);
        }
        pupil_free(&pupil);
        rt_end(0);
    }
    for (int round = 0; round < rounds; round++)
        round_with_primary();
    return 0;
}
