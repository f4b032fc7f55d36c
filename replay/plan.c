/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "replay/plan.h"

#include "intercept/heap.h"
#include "src/lock.h"
#include "src/log.h"

#include <stdlib.h>
#include <string.h>

/* Live planned blocks, by address: open addressing with backward deletion. */
struct live {
    CUdeviceptr base;
    uint64_t bytes;
};

static struct dcp_lock plan_lock;
static struct live *table;
static uint32_t table_room, table_count; /* room: a power of two */
static CUdeviceptr range_base;
static uint64_t range_bytes, live_bytes;
static bool plan_on;

static uint32_t
slot_of(CUdeviceptr address)
{
    return (uint32_t)((address >> 9) * 0x9E3779B97F4A7C15u >> 40) &
           (table_room - 1);
}

static bool
table_grow(void)
{
    uint32_t room = table_room ? table_room * 2 : 4096, old = table_room;
    struct live *was = table, *now = calloc(room, sizeof *now);

    if (!now)
        return false;
    table = now;
    table_room = room;
    for (uint32_t i = 0; i < old; i++)
        if (was[i].base) {
            uint32_t at = slot_of(was[i].base);
            while (now[at].base)
                at = (at + 1) & (room - 1);
            now[at] = was[i];
        }
    free(was);
    return true;
}

static bool
table_put(CUdeviceptr base, uint64_t bytes)
{
    if (table_count * 2 >= table_room && !table_grow())
        return false;
    uint32_t at = slot_of(base);
    while (table[at].base)
        at = (at + 1) & (table_room - 1);
    table[at].base = base;
    table[at].bytes = bytes;
    table_count++;
    live_bytes += bytes;
    return true;
}

static bool
table_take(CUdeviceptr base)
{
    if (!table_room)
        return false;
    uint32_t mask = table_room - 1, at = slot_of(base);
    while (table[at].base != base) {
        if (!table[at].base)
            return false;
        at = (at + 1) & mask;
    }
    live_bytes -= table[at].bytes;
    table_count--;
    for (uint32_t next = (at + 1) & mask; table[next].base;
         next = (next + 1) & mask) {
        uint32_t home = slot_of(table[next].base);
        if (((next - home) & mask) >= ((next - at) & mask)) {
            table[at] = table[next];
            at = next;
        }
    }
    table[at].base = 0;
    return true;
}

static void
block_of(const struct live *live, struct dcp_block *out)
{
    out->base = live->base;
    out->bytes = live->bytes;
    out->id = ((uint64_t)1 << 40) + (live->base - range_base);
    out->host = false;
}

static bool
arena_find(CUdeviceptr address, struct dcp_block *out)
{
    bool found = false;

    dcp_lock_take(&plan_lock);
    for (uint32_t i = 0; i < table_room && !found; i++)
        if (table[i].base && address - table[i].base < table[i].bytes) {
            block_of(&table[i], out);
            found = true;
        }
    dcp_lock_give(&plan_lock);
    return found;
}

static CUresult
arena_free(CUdeviceptr base, CUstream stream)
{
    (void)stream;
    dcp_lock_take(&plan_lock);
    bool was = table_take(base);
    if (was)
        plan_on = false;
    dcp_lock_give(&plan_lock);
    return was ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static size_t
arena_used(void)
{
    return live_bytes;
}

static void
arena_each(void (*visit)(const struct dcp_block *, void *), void *user)
{
    dcp_lock_take(&plan_lock);
    for (uint32_t i = 0; i < table_room; i++)
        if (table[i].base) {
            struct dcp_block block;
            block_of(&table[i], &block);
            visit(&block, user);
        }
    dcp_lock_give(&plan_lock);
}

bool
dcp_plan_range(uint64_t bytes)
{
    static const struct dcp_arena_ops ops = {arena_find, arena_free, arena_used,
                                             arena_each};
    CUdeviceptr base;

    if (bytes <= range_bytes)
        return true;
    if (table_count)
        return false;
    CUresult result = dcp_heap_plan_range(bytes, &ops, &base);
    if (result != CUDA_SUCCESS) {
        dcp_info("no room for a planned range of %llu bytes: error %d; the "
                 "heap serves every allocation",
                 (unsigned long long)bytes, (int)result);
        return false;
    }
    range_base = base;
    range_bytes = bytes;
    return true;
}

void
dcp_plan_begin(void)
{
    plan_on = range_bytes && table_count == 0;
}

void
dcp_plan_break(void)
{
    plan_on = false;
}

CUdeviceptr
dcp_plan_take(struct dcp_node *node, uint64_t bytes)
{
    node->served = false;
    if (!plan_on || node->place < 0 || node->place_bytes != bytes ||
        (uint64_t)node->place + bytes > range_bytes)
        return 0;
    CUdeviceptr base = range_base + (uint64_t)node->place;
    dcp_lock_take(&plan_lock);
    bool put = table_put(base, bytes);
    dcp_lock_give(&plan_lock);
    node->served = put;
    return put ? base : 0;
}

bool
dcp_plan_give(const struct dcp_node *node, CUdeviceptr address)
{
    const struct dcp_node *mate = node ? node->mate : NULL;

    /* What was expected to die here must be what dies, or a later planned
     * block could overlap it. */
    if (plan_on && (!node || (mate && mate->served &&
                              address != range_base + (uint64_t)mate->place)))
        plan_on = false;
    if (address - range_base >= range_bytes)
        return false;
    dcp_lock_take(&plan_lock);
    bool was = table_take(address);
    dcp_lock_give(&plan_lock);
    return was;
}

bool
dcp_plan_owns(CUdeviceptr address)
{
    return address - range_base < range_bytes;
}

void
dcp_plan_get(uint64_t *live, uint32_t *blocks, uint64_t *bytes)
{
    *live = live_bytes;
    *blocks = table_count;
    *bytes = range_bytes;
}
