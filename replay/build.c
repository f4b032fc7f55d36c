/* SPDX-License-Identifier: Apache-2.0 */
/* From a path of the tree to graphs and planned addresses: the path becomes a
 * log, the log is lifted to IR, passes run over it, and what they decided goes
 * back to the nodes. */
#include "config.h"

#include "replay/session.h"

#include "capture/lift.h"
#include "capture/role.h"
#include "passes/pass.h"
#include "replay/build_trace.h"
#include "replay/experiment.h"
#include "replay/path.h"
#include "replay/plan.h"
#include "replay/timing.h"
#include "replay/turn.h"
#include "src/alloc.h"
#include "src/clock.h"
#include "src/log.h"

#include <stdlib.h>

/* --- addresses ------------------------------------------------------------ */

/* Stream-ordered frees alone end a block at a known place in the order. */
static bool
placeable(const struct dcp_path *path, const struct dcp_log_buffer *b)
{
    if (b->alloc_call == UINT32_MAX || b->free_call == UINT32_MAX)
        return false;
    const struct dcp_node *alloc = path->nodes[b->alloc_call];
    const struct dcp_node *free = path->nodes[b->free_call];
    return alloc->fold == DCP_FOLD_MEM && free->fold == DCP_FOLD_MEM &&
           alloc->stream == free->stream && b->bytes;
}

/* First fit in the order of the path, for a variant that leaves a planned one
 * after its origin: none of the addresses given out before is given out again
 * after the branch, so what is free when a block is born stays free for it. */
static bool
place_branch(struct dcp_path *path, uint32_t origin)
{
    struct dcp_live taken = {0};
    uint32_t plan = path->nodes[origin]->origin;
    uint64_t stream = path->nodes[origin]->origin_stream;
    bool whole = true;

    for (uint32_t i = origin; whole && i < path->count; i++) {
        const struct dcp_call *call = &path->log.calls[i];
        struct dcp_node *node = path->nodes[i];

        if (call->op == DCP_CALL_FREE && node->mate && node->mate->place >= 0) {
            struct dcp_live_block *b =
                dcp_live_at(&taken, (uint64_t)node->mate->place);
            if (b && path->nodes[b->buffer] == node->mate)
                dcp_live_take(&taken, b);
        }
        if (call->op != DCP_CALL_ALLOC || call->memory.buffer == UINT32_MAX)
            continue;
        const struct dcp_log_buffer *b =
            &path->log.buffers[call->memory.buffer];
        if (!node->planned && placeable(path, b) && node->stream == stream) {
            uint64_t at = 0, need = (b->bytes + 511) & ~(uint64_t)511;
            for (uint32_t k = 0; k < taken.count; k++) {
                if (taken.block[k].base >= at + need)
                    break;
                at = taken.block[k].base + taken.block[k].bytes;
            }
            node->place = (int64_t)at;
            node->place_bytes = b->bytes;
            node->plan = plan;
        }
        node->planned = true;
        if (node->place >= 0 && node->plan == plan)
            whole = dcp_live_put(&taken, (uint64_t)node->place,
                             (node->place_bytes + 511) & ~(uint64_t)511, i);
    }
    free(taken.block);
    uint64_t end = path->nodes[origin]->origin_bytes;
    for (uint32_t i = origin; i < path->count; i++) {
        const struct dcp_node *n = path->nodes[i];
        if (n->plan == plan && n->place >= 0 &&
            (uint64_t)n->place + n->place_bytes > end)
            end = (uint64_t)n->place + n->place_bytes;
    }
    path->nodes[origin]->origin_bytes = end;
    return whole;
}

/* The blocks that the next iteration frees, as last seen. */
static uint32_t
wraps_find(const struct dcp_path *path, struct dcp_wrap *wraps)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < path->count; i++) {
        const struct dcp_node *node = path->nodes[i], *mate = node->seen_mate;
        const struct dcp_call *call = &path->log.calls[i];

        if (call->op != DCP_CALL_FREE || node->fold != DCP_FOLD_MEM ||
            node->mate || !mate || node->seen_age != 1 ||
            mate->depth > path->count || mate->depth <= i + 1 ||
            path->nodes[mate->depth - 1] != mate ||
            mate->stream != node->stream ||
            mate->call.memory.bytes != call->memory.bytes ||
            path->log.calls[mate->depth - 1].op != DCP_CALL_ALLOC)
            continue;
        wraps[count++] = (struct dcp_wrap){mate->depth - 1, i};
    }
    return count;
}

/* Takes over what the placement pass decided. `turned` is the graph that it
 * worked on, from `origin` on. */
static void
place_take(struct dcp_path *path, const struct dcp_graph *turned,
           uint32_t origin, const struct dcp_wrap *wraps, uint32_t count,
           uint32_t plan)
{
    uint64_t end = 0, stream = 0;

    /* A free that waits, or is on another stream, ends a block at no known
     * place in the order. */
    for (uint32_t i = 0; i < path->count; i++) {
        const struct dcp_node *node = path->nodes[i];
        if (node->op == DCP_CALL_FREE && node->mate &&
            (node->fold != DCP_FOLD_MEM || node->stream != node->mate->stream))
            node->mate->planned = true;
    }
    for (uint32_t n = 0; n < turned->node_count; n++) {
        const struct dcp_ir_node *ir = &turned->nodes[n];

        if (ir->op != DCP_OP_ALLOC || ir->call >= path->count ||
            ir->memory.buffer == DCP_NONE)
            continue;
        struct dcp_node *node =
            path->nodes[(ir->call + origin) % path->count];
        const struct dcp_ir_buffer *buffer =
            &turned->buffers[ir->memory.buffer];
        if (node->planned || node->op != DCP_CALL_ALLOC)
            continue;
        node->planned = true;
        if (buffer->place == DCP_NO_PLACE || node->fold != DCP_FOLD_MEM)
            continue;
        node->plan = plan;
        node->place = (int64_t)buffer->place;
        node->place_bytes = node->call.memory.bytes;
        stream = end && stream != node->stream ? DCP_PLAN_STREAMS
                                               : node->stream;
        if (buffer->place + node->place_bytes > end)
            end = buffer->place + node->place_bytes;
    }
    for (uint32_t w = 0; w < count; w++)
        if (wraps[w].free < origin && wraps[w].alloc >= origin)
            path->nodes[wraps[w].free]->mate = path->nodes[wraps[w].alloc];
    path->nodes[origin]->origin = plan;
    path->nodes[origin]->origin_bytes = end;
    path->nodes[origin]->origin_stream = stream;
}

/* --- the whole ------------------------------------------------------------ */

static void
path_plan(struct dcp_session *s, struct dcp_path *path,
          const struct dcp_graph *graph, uint64_t begin)
{
    struct dcp_wrap *wraps = dcp_malloc((path->count + 1) * sizeof *wraps);
    struct dcp_build_told told = {.session = s, .path = path, .begin = begin};

    if (!wraps)
        return;
    uint32_t count = wraps_find(path, wraps);
    told.origin = dcp_turn_origin(graph, wraps, count);
    struct dcp_graph *turned = dcp_turn(graph, told.origin, wraps, count);
    if (turned) {
        struct dcp_pass_ctx ctx = dcp_pass_ctx_default();
        dcp_build_tell_begin(&told, turned);
        if (dcp_pass_run(&turned, &ctx, s->config.skip_passes,
                         s->trace ? dcp_build_tell_pass : NULL, &told))
            place_take(path, turned, told.origin, wraps, count, s->graphs);
        dcp_build_tell(&told, turned);
    }
    free(wraps);
    dcp_graph_destroy(turned);
}

static void
path_analyse(struct dcp_session *s, struct dcp_path *path, uint64_t begin)
{
    struct dcp_lift_options options = {.access = &dcp_experiment_table};
    struct dcp_graph *graph = NULL;
    bool branch = false;

    for (uint32_t i = 0; !branch && i < path->count; i++) {
        branch = path->nodes[i]->origin != 0;
        if (branch)
            place_branch(path, i);
    }
    if (dcp_lift(&path->log, 0, path->count, &options, &graph) != DCP_OK)
        return;
    dcp_role_fill(graph);
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].call < path->count)
            graph->nodes[n].gpu_ns = path->nodes[graph->nodes[n].call]->gpu_ns;
    if (branch) {
        struct dcp_build_told told = {
            .session = s, .path = path, .begin = begin};
        dcp_build_tell_begin(&told, graph);
        dcp_build_tell(&told, graph);
    } else {
        path_plan(s, path, graph, begin);
    }
    dcp_graph_destroy(graph);
}

/* Addresses are planned on the second visit, when it has been seen what the
 * next iteration frees. */
static void
path_place(struct dcp_session *s, struct dcp_node *leaf, uint64_t begin)
{
    struct dcp_path path = {0};

    leaf->placed = true;
    if (dcp_path_make(&path, &s->trie, leaf)) {
        leaf->graph = ++s->graphs;
        path_analyse(s, &path, begin);
    }
    dcp_path_drop(&path);
}

void
dcp_build_path(struct dcp_session *s, struct dcp_node *leaf)
{
    struct dcp_lower_options options = {
        .nodes_first = 8,
        .nodes_max = (uint32_t)s->config.segment_nodes,
        .gpu_ns_max = (uint64_t)(s->config.segment_ms * 1e6),
    };
    uint64_t begin = dcp_now_ns();

    if (dcp_real.cuCtxSynchronize() != CUDA_SUCCESS) {
        dcp_timing_drop();
        return;
    }
    dcp_timing_collect();
    uint32_t built = dcp_lower_path(&s->trie, leaf, &options);
    if (built)
        s->trie.state++;
    leaf->built = s->trie.state + 1;
    if (leaf->visits >= 2 && !leaf->placed)
        path_place(s, leaf, begin);
    dcp_info("an iteration of %u calls was built in %.1f ms: %u new graphs",
             leaf->depth, (double)(dcp_now_ns() - begin) / 1e6, built);
}

/* True when no other variant leaves the branch between its head and `leaf`. */
static bool
branch_plain(const struct dcp_node *leaf)
{
    const struct dcp_node *head = leaf->branch->head;

    for (const struct dcp_node *n = leaf; n != head; n = n->parent)
        if (n->parent->child->sibling)
            return false;
    return true;
}

/* The branch that was used longest ago and that nothing stands on. */
static struct dcp_branch *
oldest(struct dcp_trie *trie, uint32_t *leaves)
{
    struct dcp_node *found = NULL, *at = trie->root.child;

    *leaves = 0;
    while (at) {
        if (at->child) {
            at = at->child;
            continue;
        }
        ++*leaves;
        if ((!found || at->last_pass < found->last_pass) && branch_plain(at))
            found = at;
        while (at != &trie->root && !at->sibling)
            at = at->parent;
        at = at == &trie->root ? NULL : at->sibling;
    }
    return found ? found->branch : NULL;
}

/* No other node goes on pointing into the branch. */
static void
branch_unlink(struct dcp_trie *trie, const struct dcp_branch *branch)
{
    struct dcp_node *at = trie->root.child;

    while (at) {
        if (at->mate && at->mate->branch == branch)
            at->mate = NULL;
        if (at->seen_mate && at->seen_mate->branch == branch)
            at->seen_mate = NULL;
        if (at->child) {
            at = at->child;
            continue;
        }
        while (at != &trie->root && !at->sibling)
            at = at->parent;
        at = at == &trie->root ? NULL : at->sibling;
    }
}

void
dcp_build_evict(struct dcp_session *s)
{
    uint32_t leaves;

    while (s->trie.nodes != s->swept) {
        struct dcp_branch *branch = oldest(&s->trie, &leaves);

        s->swept = s->trie.nodes;
        if (!branch || (leaves <= (uint32_t)s->config.max_variants &&
                        s->trie.nodes <= (uint32_t)s->config.max_nodes))
            return;
        dcp_lower_drop(branch->head);
        dcp_plan_unpin();
        branch_unlink(&s->trie, branch);
        dcp_trie_remove(&s->trie, branch);
    }
}
