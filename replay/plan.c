/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "replay/plan.h"

#include "intercept/heap.h"
#include "src/lock.h"
#include "src/log.h"

#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 1 << 20 };

/* A live block that a node of the tree allocated. */
struct entry {
    CUdeviceptr base; /* 0: empty */
    uint64_t bytes;
    struct dcp_node *node;
    uint32_t pass;
    bool planned;
};

/* By address: open addressing, deletion moves entries back. */
static struct dcp_lock plan_lock;
static struct entry *table;
static uint32_t table_room, table_count, planned_count; /* room: 2^n */
static CUdeviceptr range_base;
static uint64_t range_bytes, refused_bytes, live_bytes;
static uint32_t plan_id, pass_number;
static bool plan_on;

static uint32_t
slot_of(CUdeviceptr address)
{
    return (uint32_t)((address >> 9) * 0x9E3779B97F4A7C15u >> 40) &
           (table_room - 1);
}

static struct entry *
entry_find(CUdeviceptr base)
{
    if (!table_room)
        return NULL;
    for (uint32_t at = slot_of(base); table[at].base;
         at = (at + 1) & (table_room - 1))
        if (table[at].base == base)
            return &table[at];
    return NULL;
}

static bool
table_grow(void)
{
    uint32_t room = table_room ? table_room * 2 : 4096, old = table_room;
    struct entry *was = table, *now = calloc(room, sizeof *now);

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

static void
entry_remove(struct entry *entry)
{
    uint32_t mask = table_room - 1, at = (uint32_t)(entry - table);

    if (entry->planned) {
        live_bytes -= entry->bytes;
        planned_count--;
        if (entry->node)
            entry->node->served = false;
    }
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
}

static bool
entry_put(CUdeviceptr base, uint64_t bytes, struct dcp_node *node, bool planned)
{
    struct entry *old = entry_find(base);

    if (old) /* freed in a way that was not seen */
        entry_remove(old);
    if (table_count * 2 >= table_room &&
        (table_room >= ENTRIES_MAX || !table_grow()))
        return false;
    uint32_t at = slot_of(base);
    while (table[at].base)
        at = (at + 1) & (table_room - 1);
    table[at] = (struct entry){base, bytes, node, pass_number, planned};
    table_count++;
    if (planned) {
        planned_count++;
        live_bytes += bytes;
    }
    return true;
}

/* --- what the heap asks ---------------------------------------------------- */

static void
block_of(const struct entry *entry, struct dcp_block *out)
{
    out->base = entry->base;
    out->bytes = entry->bytes;
    out->id = ((uint64_t)1 << 40) + (entry->base - range_base);
    out->host = false;
}

static bool
arena_find(CUdeviceptr address, struct dcp_block *out)
{
    bool found = false;

    dcp_lock_take(&plan_lock);
    for (uint32_t i = 0; i < table_room && !found; i++)
        if (table[i].base && table[i].planned &&
            address - table[i].base < table[i].bytes) {
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
    return dcp_plan_give(NULL, base) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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
        if (table[i].base && table[i].planned) {
            struct dcp_block block;
            block_of(&table[i], &block);
            visit(&block, user);
        }
    dcp_lock_give(&plan_lock);
}

/* --- the plan ----------------------------------------------------------------- */

bool
dcp_plan_range(uint64_t bytes)
{
    static const struct dcp_arena_ops ops = {arena_find, arena_free, arena_used,
                                             arena_each};
    CUdeviceptr base;

    if (bytes <= range_bytes)
        return true;
    if (planned_count)
        return false;
    CUresult result = dcp_heap_plan_range(bytes, &ops, &base);
    if (result != CUDA_SUCCESS) {
        dcp_info("no room for a planned range of %llu bytes: error %d; the "
                 "heap serves every allocation",
                 (unsigned long long)bytes, (int)result);
        refused_bytes = bytes;
        return false;
    }
    range_base = base;
    range_bytes = bytes;
    return true;
}

bool
dcp_plan_origin(uint32_t id, uint64_t bytes)
{
    plan_on = planned_count == 0 && bytes <= range_bytes;
    plan_id = id;
    return planned_count == 0 && bytes > range_bytes &&
           (!refused_bytes || bytes < refused_bytes);
}

void
dcp_plan_break(void)
{
    plan_on = false;
}

void
dcp_plan_unpin(void)
{
    plan_on = false;
    dcp_lock_take(&plan_lock);
    for (uint32_t i = 0; i < table_room; i++)
        table[i].node = NULL;
    dcp_lock_give(&plan_lock);
}

void
dcp_plan_pass(uint64_t number)
{
    pass_number = (uint32_t)number;
}

CUdeviceptr
dcp_plan_take(struct dcp_node *node, uint64_t bytes)
{
    if (!plan_on || node->plan != plan_id || node->place_bytes != bytes ||
        node->served || (uint64_t)node->place + bytes > range_bytes)
        return 0;
    CUdeviceptr base = range_base + (uint64_t)node->place;
    dcp_lock_take(&plan_lock);
    bool put = entry_put(base, bytes, node, true);
    dcp_lock_give(&plan_lock);
    node->served = put;
    return put ? base : 0;
}

void
dcp_plan_note(struct dcp_node *node, CUdeviceptr address, uint64_t bytes)
{
    dcp_lock_take(&plan_lock);
    entry_put(address, bytes, node, false);
    dcp_lock_give(&plan_lock);
}

bool
dcp_plan_give(struct dcp_node *node, CUdeviceptr address)
{
    const struct dcp_node *expected = node ? node->mate : NULL;
    bool planned = false;

    /* What the plan has die here must be what dies, or a block that is handed
     * out later could overlap it. */
    if (plan_on && (!node || (expected && expected->served &&
                              address != range_base +
                                             (uint64_t)expected->place)))
        plan_on = false;
    dcp_lock_take(&plan_lock);
    struct entry *entry = entry_find(address);
    if (node) {
        node->seen_mate = entry ? entry->node : NULL;
        node->seen_age = entry ? pass_number - entry->pass : 0;
    }
    if (entry) {
        planned = entry->planned;
        entry_remove(entry);
    }
    dcp_lock_give(&plan_lock);
    return planned;
}

void
dcp_plan_get(uint64_t *live, uint32_t *blocks, uint64_t *bytes)
{
    *live = live_bytes;
    *blocks = planned_count;
    *bytes = range_bytes;
}
