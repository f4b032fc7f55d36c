/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "replay/path.h"

#include "intercept/heap.h"
#include "src/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { REFS_MAX = 4096 };

void
dcp_path_drop(struct dcp_path *path)
{
    free(path->nodes);
    free(path->log.calls);
    free(path->log.buffers);
    dcp_arena_release(&path->arena);
}

static bool
path_collect(struct dcp_path *path, struct dcp_trie *trie,
             struct dcp_node *leaf)
{
    path->count = leaf->depth;
    path->nodes = dcp_malloc(path->count * sizeof *path->nodes);
    path->log.calls = dcp_calloc(path->count, sizeof *path->log.calls);
    if (!path->nodes || !path->log.calls)
        return false;
    for (struct dcp_node *n = leaf; n != &trie->root; n = n->parent)
        path->nodes[n->depth - 1] = n;
    for (uint32_t i = 0; i < path->count; i++)
        path->log.calls[i] = path->nodes[i]->call;
    path->log.call_count = path->count;
    return true;
}

/* --- buffers and references ----------------------------------------------- */

/* How many live blocks begin at or below `address`. */
static uint32_t
live_rank(const struct dcp_live *live, uint64_t address)
{
    uint32_t low = 0, high = live->count;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (live->block[mid].base <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct dcp_live_block *
dcp_live_at(const struct dcp_live *live, uint64_t address)
{
    uint32_t rank = live_rank(live, address);

    if (!rank)
        return NULL;
    struct dcp_live_block *b = &live->block[rank - 1];
    return address - b->base < b->bytes ? b : NULL;
}

bool
dcp_live_put(struct dcp_live *live, uint64_t base, uint64_t bytes,
             uint32_t buffer)
{
    if (live->count == live->room) {
        uint32_t room = live->room ? live->room * 2 : 4096;
        void *more = dcp_realloc(live->block, room * sizeof *live->block);
        if (!more)
            return false;
        live->block = more;
        live->room = room;
    }
    uint32_t at = live_rank(live, base);
    memmove(live->block + at + 1, live->block + at,
            (live->count - at) * sizeof *live->block);
    live->block[at] = (struct dcp_live_block){base, bytes ? bytes : 1, buffer};
    live->count++;
    return true;
}

void
dcp_live_take(struct dcp_live *live, struct dcp_live_block *block)
{
    uint32_t at = (uint32_t)(block - live->block);

    live->count--;
    memmove(block, block + 1, (live->count - at) * sizeof *block);
}

static uint32_t
buffer_add(struct dcp_path *path, uint64_t block, uint64_t address,
           uint64_t bytes, uint32_t alloc)
{
    struct dcp_log *log = &path->log;

    if (log->buffer_count == path->buffer_room) {
        uint32_t room = path->buffer_room ? path->buffer_room * 2 : 1024;
        void *more = dcp_realloc(log->buffers, room * sizeof *log->buffers);
        if (!more)
            return UINT32_MAX;
        log->buffers = more;
        path->buffer_room = room;
    }
    log->buffers[log->buffer_count] = (struct dcp_log_buffer){
        .block = block,
        .address = address,
        .bytes = bytes,
        .alloc_call = alloc,
        .free_call = UINT32_MAX,
    };
    return log->buffer_count++;
}

struct older {
    struct dcp_path *path;
    struct dcp_live *live;
    const struct dcp_live *born; /* by the path, alive at its end */
    bool failed;
};

static void
older_note(const struct dcp_block *block, void *user)
{
    struct older *o = user;
    uint32_t rank = live_rank(o->born, block->base);

    if (rank && o->born->block[rank - 1].base == block->base)
        return;
    uint32_t b = buffer_add(o->path, block->id, block->base, block->bytes,
                            UINT32_MAX);
    if (b == UINT32_MAX || !dcp_live_put(o->live, block->base, block->bytes, b))
        o->failed = true;
}

/* What lived when the path began: what lives now and was not born in it, and
 * what a free in it ended without an allocation in it. */
static bool
live_begin(struct dcp_path *path, struct dcp_live *live)
{
    struct dcp_live born = {0};
    struct older older = {path, live, &born, false};
    bool whole = true;

    for (uint32_t i = 0; whole && i < path->count; i++) {
        const struct dcp_call *call = &path->log.calls[i];
        struct dcp_live_block *b = dcp_live_at(&born, call->memory.address);

        if (call->op != DCP_CALL_ALLOC && call->op != DCP_CALL_FREE)
            continue;
        if (b && b->base == call->memory.address)
            dcp_live_take(&born, b);
        if (call->op == DCP_CALL_ALLOC)
            whole = dcp_live_put(&born, call->memory.address,
                                 call->memory.bytes, i);
        else if (!b && call->memory.address) {
            uint32_t old = buffer_add(path, 0, call->memory.address,
                                      call->memory.bytes, UINT32_MAX);
            whole = old != UINT32_MAX &&
                    dcp_live_put(live, call->memory.address,
                                 call->memory.bytes, old);
        }
    }
    if (whole)
        dcp_heap_each(older_note, &older);
    free(born.block);
    return whole && !older.failed;
}

static bool
refs_set(struct dcp_path *path, struct dcp_call *call, struct dcp_live *live)
{
    struct dcp_ref found[REFS_MAX];
    uint16_t count = 0;
    uint64_t words[2] = {0, 0};
    const uint8_t *at = (const uint8_t *)words;
    uint32_t bytes = 0;

    if (call->op == DCP_CALL_LAUNCH) {
        at = call->launch.params;
        bytes = call->launch.bytes;
    } else if (call->op == DCP_CALL_COPY) {
        words[0] = call->copy.dst;
        words[1] = call->copy.src;
        bytes = 16;
    } else if (call->op == DCP_CALL_FILL) {
        words[0] = call->fill.dst;
        bytes = 8;
    }
    for (uint32_t slot = 0; slot + 8 <= bytes && count < REFS_MAX; slot += 8) {
        uint64_t word;
        memcpy(&word, at + slot, 8);
        struct dcp_live_block *b = dcp_live_at(live, word);
        if (b)
            found[count++] = (struct dcp_ref){b->buffer, slot, word - b->base};
    }
    call->ref_count = count;
    call->refs = NULL;
    if (!count)
        return true;
    call->refs = dcp_arena_copy(&path->arena, found, count * sizeof *found);
    return call->refs != NULL;
}

/* One call: its block begins or ends, or its references are found. */
static bool
path_step(struct dcp_path *path, struct dcp_live *live, uint32_t i)
{
    struct dcp_call *call = &path->log.calls[i];
    struct dcp_node *node = path->nodes[i];

    if (call->op == DCP_CALL_ALLOC && !dcp_heap_owns(call->memory.address)) {
        call->op = DCP_CALL_OPAQUE;
        return true;
    }
    if (call->op == DCP_CALL_ALLOC) {
        uint32_t b = buffer_add(path, path->log.buffer_count + 1,
                                call->memory.address, call->memory.bytes, i);
        call->memory.buffer = b;
        struct dcp_live_block *old = dcp_live_at(live, call->memory.address);
        if (old && old->base == call->memory.address)
            dcp_live_take(live, old);
        return b != UINT32_MAX && dcp_live_put(live, call->memory.address,
                                           call->memory.bytes, b);
    }
    if (call->op != DCP_CALL_FREE)
        return refs_set(path, call, live);
    struct dcp_live_block *b = dcp_live_at(live, call->memory.address);
    node->mate = NULL;
    call->memory.buffer = UINT32_MAX;
    if (!b || b->base != call->memory.address) {
        call->op = DCP_CALL_OPAQUE; /* the driver's own memory */
        return true;
    }
    struct dcp_log_buffer *buffer = &path->log.buffers[b->buffer];
    call->memory.buffer = b->buffer;
    buffer->free_call = i;
    if (buffer->alloc_call != UINT32_MAX)
        node->mate = path->nodes[buffer->alloc_call];
    dcp_live_take(live, b);
    return true;
}

static bool
path_fill(struct dcp_path *path)
{
    struct dcp_live live = {0};
    bool whole = live_begin(path, &live);

    for (uint32_t i = 0; whole && i < path->count; i++)
        whole = path_step(path, &live, i);
    free(live.block);
    return whole;
}

bool
dcp_path_make(struct dcp_path *path, struct dcp_trie *trie,
              struct dcp_node *leaf)
{
    return path_collect(path, trie, leaf) && path_fill(path);
}
