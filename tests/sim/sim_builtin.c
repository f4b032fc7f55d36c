/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own kernels (replay/kernels.cu), as the simulator runs them:
 * the same results, in one thread. */
#include "dcpsim.h"

#include <stddef.h>
#include <string.h>

static uint64_t
mix(uint64_t value, uint64_t place)
{
    value = (value ^ (place + 1) * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    value ^= value >> 29;
    value *= 0x94d049bb133111ebu;
    return value ^ value >> 32;
}

static uint64_t
load(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static void
hash_block(const struct dcpsim_launch *launch)
{
    const struct {
        const unsigned char *base;
        uint64_t bytes, *result;
    } *args = launch->packed;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < args->bytes / 8; i++)
        sum += mix(load(args->base + i * 8), i);
    for (uint64_t i = args->bytes / 8 * 8; i < args->bytes; i++)
        sum += mix(args->base[i], ~i);
    *args->result += sum;
}

static void
fill_pattern(const struct dcpsim_launch *launch)
{
    const struct {
        unsigned char *base;
        uint64_t bytes;
    } *args = launch->packed;
    uint64_t whole = (uintptr_t)args->base & 7 ? 0 : args->bytes / 8;
    for (uint64_t i = 0; i < whole; i++) {
        uint64_t value = mix(0x7ea5d00d, i);
        memcpy(args->base + i * 8, &value, sizeof value);
    }
    for (uint64_t i = whole * 8; i < args->bytes; i++)
        args->base[i] = (unsigned char)mix(0x7ea5d00d, ~i);
}

/* The device counts the threads that saw a difference; one is enough. */
static void
compare_blocks(const struct dcpsim_launch *launch)
{
    const struct {
        const unsigned char *a, *b;
        uint64_t bytes, *differing;
    } *args = launch->packed;
    *args->differing += memcmp(args->a, args->b, args->bytes) != 0;
}

const struct dcpsim_kernel dcpsim_builtin_kernels[] = {
    {"dcp_hash_block", hash_block, 0, 0, NULL},
    {"dcp_fill_pattern", fill_pattern, 0, 0, NULL},
    {"dcp_compare_blocks", compare_blocks, 0, 0, NULL},
    {NULL, NULL, 0, 0, NULL},
};
