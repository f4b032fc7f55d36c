/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/report_blocks.h"

#include "src/report.h"
#include "src/report_model.h"

#include <stdlib.h>
#include <string.h>

static void
check_added(void)
{
    if (dcp_table_oom)
        dcp_die("out of memory");
}

/* --- roles --------------------------------------------------------------- */

static struct dcp_known *
known_of(struct dcp_blocks *blocks, uint64_t block)
{
    struct dcp_known *known;

    HASH_FIND(hh, blocks->known, &block, sizeof block, known);
    if (known)
        return known;
    known = dcp_xcalloc(1, sizeof *known);
    known->block = block;
    HASH_ADD(hh, blocks->known, block, sizeof known->block, known);
    check_added();
    return known;
}

void
dcp_blocks_learn_roles(struct dcp_blocks *blocks,
                       const struct dcp_trace_event *e)
{
    if (e->kind == DCP_TRACE_ROLE && e->ROLE.role < DCP_ROLE_COUNT)
        known_of(blocks, e->ROLE.block)->role = (uint8_t)e->ROLE.role;
    if (e->kind != DCP_TRACE_BLOCK_USE)
        return;
    const struct dcp_model_graph *graph =
        dcp_model_graph_find(blocks->rank, e->BLOCK_USE.graph);
    if (!graph || !graph->ir ||
        e->BLOCK_USE.buffer >= graph->ir->buffer_count)
        return;
    struct dcp_known *known = known_of(blocks, e->BLOCK_USE.block);
    known->graph = e->BLOCK_USE.graph;
    known->buffer = e->BLOCK_USE.buffer;
    if (known->role == DCP_ROLE_UNKNOWN)
        known->role = graph->ir->buffers[known->buffer].role;
}

/* What is made by this call stack, in this size or (0 bytes) in any: unknown
 * where not all of it has one role. */
static void
learn_pattern(struct dcp_blocks *blocks, uint64_t stack, uint64_t bytes,
              uint8_t role)
{
    struct dcp_pattern *pattern, key = {.key = {stack, bytes}};

    HASH_FIND(hh, blocks->patterns, &key.key, sizeof key.key, pattern);
    if (pattern) {
        if (bytes == 0 && pattern->role != role)
            pattern->role = DCP_ROLE_UNKNOWN;
        return;
    }
    pattern = dcp_xcalloc(1, sizeof *pattern);
    pattern->key = key.key;
    pattern->role = role;
    HASH_ADD(hh, blocks->patterns, key, sizeof pattern->key, pattern);
    check_added();
}

void
dcp_blocks_learn_patterns(struct dcp_blocks *blocks,
                          const struct dcp_trace_event *e)
{
    struct dcp_known *known;

    if (e->kind != DCP_TRACE_ALLOC)
        return;
    HASH_FIND(hh, blocks->known, &e->ALLOC.block, sizeof e->ALLOC.block, known);
    if (!known)
        return;
    known->stack = e->ALLOC.stack;
    known->bytes = e->ALLOC.bytes;
    if (known->role == DCP_ROLE_UNKNOWN || known->stack == 0)
        return;
    learn_pattern(blocks, known->stack, known->bytes, known->role);
    learn_pattern(blocks, known->stack, 0, known->role);
}

static uint8_t
role_of(const struct dcp_blocks *blocks, const struct dcp_live_block *block)
{
    struct dcp_known *known;
    struct dcp_pattern *pattern, key = {.key = {block->stack, block->bytes}};

    HASH_FIND(hh, blocks->known, &block->id, sizeof block->id, known);
    if (known && known->role != DCP_ROLE_UNKNOWN)
        return known->role;
    if (block->stack == 0)
        return DCP_ROLE_UNKNOWN;
    HASH_FIND(hh, blocks->patterns, &key.key, sizeof key.key, pattern);
    if (!pattern) {
        key.key.bytes = 0;
        HASH_FIND(hh, blocks->patterns, &key.key, sizeof key.key, pattern);
    }
    return pattern ? pattern->role : DCP_ROLE_UNKNOWN;
}

/* --- live blocks --------------------------------------------------------- */

/* Adds the block to, or takes it from, the level. */
static void
weigh(struct dcp_level *level, const struct dcp_live_block *block, bool add)
{
    uint64_t bytes = add ? block->bytes : 0 - block->bytes;

    if (block->host) {
        level->host += bytes;
        return;
    }
    level->role[block->role] += bytes;
    level->total += bytes;
}

static void
drop_block(struct dcp_blocks *blocks, uint64_t id)
{
    struct dcp_live_block *block;

    HASH_FIND(hh, blocks->live, &id, sizeof id, block);
    if (!block)
        return;
    weigh(&blocks->level, block, false);
    HASH_DEL(blocks->live, block);
    free(block);
}

static void
make_block(struct dcp_blocks *blocks, const struct dcp_trace_event *e)
{
    struct dcp_live_block *block = dcp_xcalloc(1, sizeof *block);

    drop_block(blocks, e->ALLOC.block);
    block->id = e->ALLOC.block;
    block->bytes = e->ALLOC.bytes;
    block->stack = e->ALLOC.stack;
    block->host = e->ALLOC.host != 0;
    block->role = role_of(blocks, block);
    HASH_ADD(hh, blocks->live, id, sizeof block->id, block);
    check_added();
    weigh(&blocks->level, block, true);
}

bool
dcp_blocks_track(struct dcp_blocks *blocks, const struct dcp_trace_event *e)
{
    if (e->kind == DCP_TRACE_ALLOC)
        make_block(blocks, e);
    else if (e->kind == DCP_TRACE_FREE)
        drop_block(blocks, e->FREE.block);
    else
        return false;
    return true;
}

/* --- forgetting ---------------------------------------------------------- */

void
dcp_blocks_restart(struct dcp_blocks *blocks)
{
    struct dcp_live_block *block, *next;

    HASH_ITER(hh, blocks->live, block, next) {
        HASH_DEL(blocks->live, block);
        free(block);
    }
    memset(&blocks->level, 0, sizeof blocks->level);
}

void
dcp_blocks_release(struct dcp_blocks *blocks)
{
    struct dcp_known *known, *next_known;
    struct dcp_pattern *pattern, *next_pattern;

    HASH_ITER(hh, blocks->known, known, next_known) {
        HASH_DEL(blocks->known, known);
        free(known);
    }
    HASH_ITER(hh, blocks->patterns, pattern, next_pattern) {
        HASH_DEL(blocks->patterns, pattern);
        free(pattern);
    }
    dcp_blocks_restart(blocks);
}
