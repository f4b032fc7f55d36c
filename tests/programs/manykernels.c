/* SPDX-License-Identifier: Apache-2.0 */
/* What a call costs: an iteration of many launches with 64 bytes of arguments
 * and many allocations, each freed again, then one wait. Prints a check value
 * on standard output, and nanoseconds a call on standard error. The functions
 * launches, allocations and lookups are there for instruction counters. */
#include "tests/programs/rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int iterations = 30, launch_count = 1000, alloc_count = 1000;
static int skip = 10, look_count;
static const struct rt_option options[] = {
    {"iterations", RT_INT, &iterations, "how often"},
    {"launches", RT_INT, &launch_count, "launches an iteration"},
    {"allocs", RT_INT, &alloc_count, "allocations and frees an iteration"},
    {"looks", RT_INT, &look_count, "other calls an iteration"},
    {"skip", RT_INT, &skip, "iterations before time counts"},
    {NULL, RT_FLAG, NULL, NULL},
};

static int *out;
static double launch_s, alloc_s, look_s, wait_s;

__attribute__((noinline)) void
launches(int iteration)
{
    struct sixty_four words;
    memset(&words, 0, sizeof words);
    CUfunction tiny = rt_kernels->function[K_tiny];
    void *params[] = {&out, &words};
    for (int i = 0; i < launch_count; i++) {
        words.word[0] = (uint64_t)iteration;
        words.word[7] = i + 1 == launch_count; /* the last one writes */
        CUresult result = cu.cuLaunchKernel(tiny, 1, 1, 1, 32, 1, 1, 0,
                                            rt_stream, params, NULL);
        if (result != CUDA_SUCCESS)
            rt_check(result, "cuLaunchKernel");
    }
}

__attribute__((noinline)) void
allocations(void)
{
    for (int i = 0; i < alloc_count; i++) {
        CUdeviceptr at;
        CUresult result = cu.cuMemAllocAsync(&at, 4096, rt_stream);
        if (result == CUDA_SUCCESS)
            result = cu.cuMemFreeAsync(at, rt_stream);
        if (result != CUDA_SUCCESS)
            rt_check(result, "cuMemAllocAsync");
    }
}

/* Calls that a library in between only watches. */
__attribute__((noinline)) void
lookups(void)
{
    for (int i = 0; i < look_count; i++) {
        CUcontext context;
        cu.cuCtxGetCurrent(&context);
    }
}

static void
iterate(int iteration)
{
    int seen = 0;
    double t0 = rt_seconds();
    CU(cuMemsetD32Async, rt_ptr(out), 0, 1, rt_stream);
    double t1 = rt_seconds();
    launches(iteration);
    double t2 = rt_seconds();
    allocations();
    double t3 = rt_seconds();
    lookups();
    double t4 = rt_seconds();
    rt_read(&seen, out, sizeof seen);
    if (iteration >= skip) {
        launch_s += t2 - t1;
        alloc_s += t3 - t2;
        look_s += t4 - t3;
        wait_s += rt_seconds() - t4 + t1 - t0;
    }
    rt_print("iteration %d out %d\n", iteration, seen);
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    out = rt_alloc(sizeof *out);
    for (int i = 0; i < iterations; i++)
        iterate(i);
    rt_free(out);
    double counted = iterations > skip ? iterations - skip : 1;
    fprintf(stderr, "launch_ns %.1f\n", 1e9 * launch_s / counted /
                                            (launch_count ? launch_count : 1));
    fprintf(stderr, "alloc_free_ns %.1f\n",
            1e9 * alloc_s / counted / (alloc_count ? alloc_count : 1));
    fprintf(stderr, "look_ns %.1f\n",
            1e9 * look_s / counted / (look_count ? look_count : 1));
    fprintf(stderr, "wait_ms %.3f\n", 1e3 * wait_s / counted);
    rt_end(0);
}
