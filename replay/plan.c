/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "replay/plan.h"

#include "intercept/heap.h"
#include "replay/session.h"
#include "src/alloc.h"
#include "src/log.h"

#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 1 << 20 };

/* A live block that a node of the tree allocated and that is not at the node's
 * planned place: the heap's, or one whose node is gone. */
struct entry {
    CUdeviceptr base; /* 0: empty */
    uint64_t bytes;
    struct dcp_node *node;
    uint32_t pass;
    bool planned;
};

/* By address: open addressing, deletion moves entries back. */
static struct entry *table;
static uint32_t table_room, table_count; /* room: 2^n */
static uint64_t refused_bytes;
static uint32_t pass_number;

struct dcp_plan dcp_plan;

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
    struct entry *was = table, *now = dcp_calloc(room, sizeof *now);

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
        dcp_plan.live -= entry->bytes;
        dcp_plan.count--;
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
        dcp_plan.count++;
        dcp_plan.live += bytes;
    }
    return true;
}

/* --- planned blocks: the node itself is the record ------------------------- */

static struct dcp_node *
served_at(CUdeviceptr address)
{
    if (address - dcp_plan.base >= dcp_plan.bytes)
        return NULL;
    for (struct dcp_node *node = dcp_plan.served; node; node = node->served_next)
        if (address - dcp_plan_place(node) < node->place_bytes)
            return node;
    return NULL;
}

/* --- what the heap asks ---------------------------------------------------- */

static void
block_of(CUdeviceptr base, uint64_t bytes, struct dcp_block *out)
{
    out->base = base;
    out->bytes = bytes;
    out->id = ((uint64_t)1 << 40) + (base - dcp_plan.base);
    out->host = false;
}

static bool
arena_find(CUdeviceptr address, struct dcp_block *out)
{
    bool found = false;

    bool entered = dcp_session_enter();
    struct dcp_node *node = served_at(address);
    if (node) {
        block_of(dcp_plan_place(node), node->place_bytes, out);
        found = true;
    }
    for (uint32_t i = 0; i < table_room && dcp_plan.count && !found; i++)
        if (table[i].base && table[i].planned &&
            address - table[i].base < table[i].bytes) {
            block_of(table[i].base, table[i].bytes, out);
            found = true;
        }
    dcp_session_leave(entered);
    return found;
}

static CUresult
arena_free(CUdeviceptr base, CUstream stream)
{
    (void)stream;
    dcp_plan.unordered = true;
    return dcp_plan_give(NULL, base) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static size_t
arena_used(void)
{
    return dcp_plan.live;
}

static void
arena_each(void (*visit)(const struct dcp_block *, void *), void *user)
{
    struct dcp_block block;

    bool entered = dcp_session_enter();
    for (struct dcp_node *node = dcp_plan.served; node; node = node->served_next) {
        block_of(dcp_plan_place(node), node->place_bytes, &block);
        visit(&block, user);
    }
    for (uint32_t i = 0; i < table_room; i++)
        if (table[i].base && table[i].planned) {
            block_of(table[i].base, table[i].bytes, &block);
            visit(&block, user);
        }
    dcp_session_leave(entered);
}

/* --- the plan ----------------------------------------------------------------- */

bool
dcp_plan_range(uint64_t bytes)
{
    static const struct dcp_arena_ops ops = {arena_find, arena_free, arena_used,
                                             arena_each};
    CUdeviceptr base;

    if (dcp_plan.count == 0) {
        dcp_plan.unordered = false;
        dcp_plan.id = 0;
    }
    if (bytes <= dcp_plan.bytes)
        return true;
    if (dcp_plan.count)
        return false;
    CUresult result = dcp_heap_plan_range(bytes, &ops, &base);
    if (result != CUDA_SUCCESS) {
        dcp_info("no room for a planned range of %llu bytes: error %d; the "
                 "heap serves every allocation",
                 (unsigned long long)bytes, (int)result);
        refused_bytes = bytes;
        return false;
    }
    dcp_plan.base = base;
    dcp_plan.bytes = bytes;
    return true;
}

bool
dcp_plan_origin(uint32_t id, uint64_t bytes, uint64_t stream)
{
    dcp_plan.on = false;
    if (dcp_plan.count)
        return false;
    if (bytes > dcp_plan.bytes)
        return !refused_bytes || bytes < refused_bytes;
    if (dcp_plan.unordered ||
        (dcp_plan.id && dcp_plan.id != id &&
         (stream != dcp_plan.stream || stream == DCP_PLAN_STREAMS)))
        return true;
    dcp_plan.id = id;
    dcp_plan.stream = stream;
    dcp_plan.on = true;
    return false;
}

void
dcp_plan_break(void)
{
    dcp_plan.on = false;
}

void
dcp_plan_unpin(void)
{
    dcp_plan.on = false;
    bool entered = dcp_session_enter();
    for (uint32_t i = 0; i < table_room; i++)
        table[i].node = NULL;
    while (dcp_plan.served) {
        struct dcp_node *node = dcp_plan.served;
        CUdeviceptr base = dcp_plan_place(node);
        dcp_plan_unserve(node);
        /* Without memory the block is forgotten, and its place with it: then
         * the range is never used again. */
        if (!entry_put(base, node->place_bytes, NULL, true))
            dcp_plan.count++;
    }
    dcp_session_leave(entered);
}

void
dcp_plan_pass(uint64_t number)
{
    pass_number = (uint32_t)number;
}

void
dcp_plan_note(struct dcp_node *node, CUdeviceptr address, uint64_t bytes)
{
    bool entered = dcp_session_enter();
    entry_put(address, bytes, node, false);
    dcp_session_leave(entered);
}

bool
dcp_plan_give(struct dcp_node *node, CUdeviceptr address)
{
    const struct dcp_node *expected = node ? node->mate : NULL;
    bool planned = false;

    if (node && dcp_plan_give_back(node, address)) {
        node->seen_mate = NULL; /* as planned: nothing to learn */
        return true;
    }
    /* What the plan has die here must be what dies, or a block that is handed
     * out later could overlap it. */
    if (!node || (expected && expected->served))
        dcp_plan.on = false;
    bool entered = dcp_session_enter();
    struct dcp_node *other = served_at(address);
    struct entry *entry = other ? NULL : entry_find(address);
    if (node) {
        node->seen_mate = other ? other : entry ? entry->node : NULL;
        node->seen_age = entry ? pass_number - entry->pass : 0;
    }
    if (other && dcp_plan_place(other) == address) {
        planned = true;
        if (node && node->stream != other->stream) {
            dcp_plan.on = false;
            dcp_plan.unordered = true;
        }
        dcp_plan_unserve(other);
    }
    if (entry) {
        planned = entry->planned;
        dcp_plan.unordered |= planned;
        entry_remove(entry);
    }
    dcp_session_leave(entered);
    return planned;
}

void
dcp_plan_get(uint64_t *live, uint32_t *blocks, uint64_t *bytes)
{
    *live = dcp_plan.live;
    *blocks = dcp_plan.count;
    *bytes = dcp_plan.bytes;
}
