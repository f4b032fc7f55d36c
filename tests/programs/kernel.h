/* SPDX-License-Identifier: Apache-2.0 */
/* One source for the kernels of the test programs: nvcc makes PTX of it, the
 * host's C compiler an image for the simulated driver.
 *
 *   ITEMS(name) { EACH_ITEM(i, n); ... }   one thread an item
 *   ROWS(name) { ... }                     one warp a row (a block of 32)
 *
 * define the kernel whose parameters are listed as ARGS_name. In a ROWS kernel
 * LANES(j, n) deals the columns out over the lanes and row_sum, row_max bring
 * the lanes' values together; on the host a row has one lane. Sums are always
 * taken in the same order, so a device gives the same bits on every run. */
#ifndef DCP_PROGRAMS_KERNEL_H
#define DCP_PROGRAMS_KERNEL_H

#define JOIN(a, b) JOIN_(a, b)
#define JOIN_(a, b) a##b

/* MAP(F, SEP, X, (a, b), (c, d)) is F(X, (a, b)) SEP() F(X, (c, d)); up to 16
 * pairs. */
#define COUNT(...)                                                             \
    COUNT_(0, ##__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3,  \
           2, 1, 0)
#define COUNT_(z, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...)  \
    count
#define MAP(F, S, X, ...)                                                      \
    JOIN(MAP_, COUNT(__VA_ARGS__))(F, S, X, ##__VA_ARGS__)
#define MAP_0(F, S, X, ...)
#define MAP_1(F, S, X, a) F(X, a)
#define MAP_2(F, S, X, a, ...) F(X, a) S() MAP_1(F, S, X, __VA_ARGS__)
#define MAP_3(F, S, X, a, ...) F(X, a) S() MAP_2(F, S, X, __VA_ARGS__)
#define MAP_4(F, S, X, a, ...) F(X, a) S() MAP_3(F, S, X, __VA_ARGS__)
#define MAP_5(F, S, X, a, ...) F(X, a) S() MAP_4(F, S, X, __VA_ARGS__)
#define MAP_6(F, S, X, a, ...) F(X, a) S() MAP_5(F, S, X, __VA_ARGS__)
#define MAP_7(F, S, X, a, ...) F(X, a) S() MAP_6(F, S, X, __VA_ARGS__)
#define MAP_8(F, S, X, a, ...) F(X, a) S() MAP_7(F, S, X, __VA_ARGS__)
#define MAP_9(F, S, X, a, ...) F(X, a) S() MAP_8(F, S, X, __VA_ARGS__)
#define MAP_10(F, S, X, a, ...) F(X, a) S() MAP_9(F, S, X, __VA_ARGS__)
#define MAP_11(F, S, X, a, ...) F(X, a) S() MAP_10(F, S, X, __VA_ARGS__)
#define MAP_12(F, S, X, a, ...) F(X, a) S() MAP_11(F, S, X, __VA_ARGS__)
#define MAP_13(F, S, X, a, ...) F(X, a) S() MAP_12(F, S, X, __VA_ARGS__)
#define MAP_14(F, S, X, a, ...) F(X, a) S() MAP_13(F, S, X, __VA_ARGS__)
#define MAP_15(F, S, X, a, ...) F(X, a) S() MAP_14(F, S, X, __VA_ARGS__)
#define MAP_16(F, S, X, a, ...) F(X, a) S() MAP_15(F, S, X, __VA_ARGS__)
#define COMMA() ,
#define NOTHING()

#define TYPE_OF(type, name) type
#define NAME_OF(type, name) name
#define DECLARE(type, name) type name
#define AS_PARAMETER(kernel, pair) DECLARE pair
#define AS_FIELD(kernel, pair) DECLARE pair;

#ifdef __CUDACC__

#define ITEMS(name) KERNEL_(name, ARGS_##name)
#define ROWS(name) KERNEL_(name, ARGS_##name)
#define KERNEL_(name, ...) KERNEL__(name, __VA_ARGS__)
#define KERNEL__(name, ...)                                                    \
    extern "C" __global__ void name(                                           \
        MAP(AS_PARAMETER, COMMA, name, ##__VA_ARGS__))

#define HELPER static __device__ __forceinline__
#define GLOBAL __device__
#define EACH_ITEM(i, n)                                                        \
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);                      \
    if (i >= (n))                                                              \
        return
#define ROW_INDEX ((int)blockIdx.x)
#define ROW_COUNT ((int)gridDim.x)
#define LANES(j, n) for (int j = (int)threadIdx.x; j < (n); j += 32)
#define LEADER (threadIdx.x == 0)
#define SYNC_ROW() __syncwarp()
#define SHARED(type, name) extern __shared__ type name[]

HELPER float
row_sum(float x)
{
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

HELPER float
row_max(float x)
{
    for (int step = 16; step > 0; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

#else

#include "tests/sim/dcpsim.h"

#include <math.h>
#include <stddef.h>

struct place {
    int block, blocks, thread, threads;
    void *shared;
};

#define AS_NEXT_PARAMETER(kernel, pair) , DECLARE pair
#define AS_NEXT_VALUE(kernel, pair) , args->NAME_OF pair
#define AS_LAYOUT(kernel, pair)                                                \
    {offsetof(struct args_##kernel, NAME_OF pair), sizeof(TYPE_OF pair)},
#define ITEMS(name) KERNEL_(name, launch->block[0], ARGS_##name)
#define ROWS(name) KERNEL_(name, 1, ARGS_##name)
#define KERNEL_(name, count, ...) KERNEL__(name, count, __VA_ARGS__)
#define KERNEL__(name, count, ...)                                             \
    static const struct dcpsim_param layout_##name[] = {                       \
        MAP(AS_LAYOUT, NOTHING, name, ##__VA_ARGS__){0, 0}};                   \
    BODY_(name, ##__VA_ARGS__);                                                \
    static void run_##name(const struct dcpsim_launch *launch)                 \
    {                                                                          \
        const struct args_##name *args =                                       \
            (const struct args_##name *)launch->packed;                        \
        struct place at = {0, (int)launch->grid[0], 0, (int)(count),           \
                           launch->shared};                                    \
        (void)args;                                                            \
        for (; at.block < at.blocks; at.block++)                               \
            for (at.thread = 0; at.thread < at.threads; at.thread++)           \
                body_##name(                                                   \
                    at MAP(AS_NEXT_VALUE, NOTHING, name, ##__VA_ARGS__));      \
    }                                                                          \
    BODY_(name, ##__VA_ARGS__)
#define BODY_(name, ...)                                                       \
    static inline void body_##name(                                            \
        struct place at MAP(AS_NEXT_PARAMETER, NOTHING, name, ##__VA_ARGS__))
#define ENTRY(name)                                                            \
    {#name, run_##name,                                                        \
     sizeof layout_##name / sizeof layout_##name[0] - 1, 0, layout_##name},

#define HELPER static inline
#define GLOBAL __attribute__((visibility("default")))
#define EACH_ITEM(i, n)                                                        \
    int i = at.block * at.threads + at.thread;                                 \
    if (i >= (n))                                                              \
        return
#define ROW_INDEX (at.block)
#define ROW_COUNT (at.blocks)
#define LANES(j, n) for (int j = 0; j < (n); j++)
#define LEADER 1
#define SYNC_ROW() ((void)0)
#define SHARED(type, name) type *name = (type *)at.shared

HELPER float
row_sum(float x)
{
    return x;
}

HELPER float
row_max(float x)
{
    return x;
}

#endif

#endif
