/* SPDX-License-Identifier: Apache-2.0 */
/* From a path of the tree to graphs and planned addresses: the path becomes a
 * log, the log is lifted to IR, passes run over it, and what they decided goes
 * back to the nodes. */
#include "config.h"

#include "replay/session.h"

#include "capture/lift.h"
#include "capture/role.h"
#include "intercept/heap.h"
#include "passes/pass.h"
#include "replay/experiment.h"
#include "replay/plan.h"
#include "replay/timing.h"
#include "replay/turn.h"
#include "src/alloc.h"
#include "src/clock.h"
#include "src/log.h"

#include <stdlib.h>
#include <string.h>

enum { REFS_MAX = 4096 };

struct path {
    struct dcp_node **nodes; /* from the root's child to the leaf */
    struct dcp_log log;      /* one call a node; arrays from malloc */
    uint32_t count, buffer_room;
    struct dcp_arena arena;
};

static void
path_drop(struct path *path)
{
    free(path->nodes);
    free(path->log.calls);
    free(path->log.buffers);
    dcp_arena_release(&path->arena);
}

static bool
path_collect(struct path *path, struct dcp_trie *trie, struct dcp_node *leaf)
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

/* --- buffers and references ------------------------------------------------ */

/* The blocks that live at one point of the path, by address. */
struct live {
    struct live_block {
        uint64_t base, bytes;
        uint32_t buffer;
    } *block;
    uint32_t count, room;
};

/* How many live blocks begin at or below `address`. */
static uint32_t
live_rank(const struct live *live, uint64_t address)
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

static struct live_block *
live_find(struct live *live, uint64_t address)
{
    uint32_t rank = live_rank(live, address);

    if (!rank)
        return NULL;
    struct live_block *b = &live->block[rank - 1];
    return address - b->base < b->bytes ? b : NULL;
}

static bool
live_put(struct live *live, uint64_t base, uint64_t bytes, uint32_t buffer)
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
    live->block[at] = (struct live_block){base, bytes ? bytes : 1, buffer};
    live->count++;
    return true;
}

static void
live_take(struct live *live, struct live_block *block)
{
    uint32_t at = (uint32_t)(block - live->block);

    live->count--;
    memmove(block, block + 1, (live->count - at) * sizeof *block);
}

static uint32_t
buffer_add(struct path *path, uint64_t block, uint64_t address, uint64_t bytes,
           uint32_t alloc)
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
    struct path *path;
    struct live *live;
    const struct live *born; /* by the path, alive at its end */
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
    if (b == UINT32_MAX || !live_put(o->live, block->base, block->bytes, b))
        o->failed = true;
}

/* What lived when the path began: what lives now and was not born in it, and
 * what a free in it ended without an allocation in it. */
static bool
live_begin(struct path *path, struct live *live)
{
    struct live born = {0};
    struct older older = {path, live, &born, false};
    bool whole = true;

    for (uint32_t i = 0; whole && i < path->count; i++) {
        const struct dcp_call *call = &path->log.calls[i];
        struct live_block *b = live_find(&born, call->memory.address);

        if (call->op != DCP_CALL_ALLOC && call->op != DCP_CALL_FREE)
            continue;
        if (b && b->base == call->memory.address)
            live_take(&born, b);
        if (call->op == DCP_CALL_ALLOC)
            whole = live_put(&born, call->memory.address, call->memory.bytes, i);
        else if (!b && call->memory.address) {
            uint32_t old = buffer_add(path, 0, call->memory.address,
                                      call->memory.bytes, UINT32_MAX);
            whole = old != UINT32_MAX &&
                    live_put(live, call->memory.address, call->memory.bytes, old);
        }
    }
    if (whole)
        dcp_heap_each(older_note, &older);
    free(born.block);
    return whole && !older.failed;
}

static bool
refs_set(struct path *path, struct dcp_call *call, struct live *live)
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
        struct live_block *b = live_find(live, word);
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
path_step(struct path *path, struct live *live, uint32_t i)
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
        struct live_block *old = live_find(live, call->memory.address);
        if (old && old->base == call->memory.address)
            live_take(live, old);
        return b != UINT32_MAX && live_put(live, call->memory.address,
                                           call->memory.bytes, b);
    }
    if (call->op != DCP_CALL_FREE)
        return refs_set(path, call, live);
    struct live_block *b = live_find(live, call->memory.address);
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
    live_take(live, b);
    return true;
}

static bool
path_fill(struct path *path)
{
    struct live live = {0};
    bool whole = live_begin(path, &live);

    for (uint32_t i = 0; whole && i < path->count; i++)
        whole = path_step(path, &live, i);
    free(live.block);
    return whole;
}

/* --- addresses --------------------------------------------------------------- */

/* Stream-ordered frees alone end a block at a known place in the order. */
static bool
placeable(const struct path *path, const struct dcp_log_buffer *b)
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
place_branch(struct path *path, uint32_t origin)
{
    struct live taken = {0};
    uint32_t plan = path->nodes[origin]->origin;
    bool whole = true;

    for (uint32_t i = origin; whole && i < path->count; i++) {
        const struct dcp_call *call = &path->log.calls[i];
        struct dcp_node *node = path->nodes[i];

        if (call->op == DCP_CALL_FREE && node->mate && node->mate->place >= 0) {
            struct live_block *b =
                live_find(&taken, (uint64_t)node->mate->place);
            if (b)
                live_take(&taken, b);
        }
        if (call->op != DCP_CALL_ALLOC || call->memory.buffer == UINT32_MAX)
            continue;
        const struct dcp_log_buffer *b = &path->log.buffers[call->memory.buffer];
        if (!node->planned && placeable(path, b)) {
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
            whole = live_put(&taken, (uint64_t)node->place,
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
wraps_find(const struct path *path, struct dcp_wrap *wraps)
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
place_take(struct path *path, const struct dcp_graph *turned, uint32_t origin,
           const struct dcp_wrap *wraps, uint32_t count, uint32_t plan)
{
    uint64_t end = 0;

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
        if (buffer->place + node->place_bytes > end)
            end = buffer->place + node->place_bytes;
    }
    for (uint32_t w = 0; w < count; w++)
        if (wraps[w].free < origin && wraps[w].alloc >= origin)
            path->nodes[wraps[w].free]->mate = path->nodes[wraps[w].alloc];
    path->nodes[origin]->origin = plan;
    path->nodes[origin]->origin_bytes = end;
}

/* --- the whole ---------------------------------------------------------------- */

static void
trace_roles(struct dcp_session *s, const struct path *path,
            const struct dcp_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct dcp_ir_node *ir = &graph->nodes[n];
        const struct dcp_call *call =
            ir->call < path->count ? &path->log.calls[ir->call] : NULL;

        for (uint32_t r = 0; call && r < ir->ref_count; r++) {
            uint32_t number = ir->refs[r].buffer;
            uint32_t b = UINT32_MAX;
            for (uint32_t k = 0; k < call->ref_count; k++)
                if (call->refs[k].slot == ir->refs[r].slot)
                    b = call->refs[k].buffer;
            if (b == UINT32_MAX || path->log.buffers[b].alloc_call != UINT32_MAX)
                continue;
            uint64_t block = path->log.buffers[b].block;
            uint64_t use[] = {block, s->graphs, number};
            uint64_t role[] = {block, graph->buffers[number].role};
            if (!block)
                continue;
            path->log.buffers[b].block = 0; /* said once */
            dcp_trace_put(s->trace, DCP_TRACE_BLOCK_USE, use, 3, NULL, 0);
            dcp_trace_put(s->trace, DCP_TRACE_ROLE, role, 2, NULL, 0);
        }
    }
}

/* What passes made of the graph is told after the graph itself, whose record
 * carries what only the end knows. */
struct pass_text {
    char *text; /* name, NUL, IR */
    size_t bytes;
    bool changed;
    uint64_t ns;
};

struct pass_texts {
    struct pass_text pass[32];
    unsigned count;
};

static char *
graph_text(const char *head, const struct dcp_graph *graph, size_t *bytes)
{
    size_t length, before = head ? strlen(head) + 1 : 0;
    char *text = dcp_ir_print_text(graph, DCP_PRINT_NOTES, &length);
    char *whole = text ? dcp_malloc(before + length + 1) : NULL;

    if (whole) {
        if (head)
            memcpy(whole, head, before);
        memcpy(whole + before, text, length);
        *bytes = before + length;
    }
    free(text);
    return whole;
}

static void
pass_done(const char *name, bool changed, uint64_t ns,
          const struct dcp_graph *graph, void *user)
{
    struct pass_texts *texts = user;

    if (texts->count == 32)
        return;
    struct pass_text *p = &texts->pass[texts->count];
    p->text = graph_text(name, graph, &p->bytes);
    p->changed = changed;
    p->ns = ns;
    texts->count += p->text != NULL;
}

static void
trace_graph(struct dcp_session *s, const struct dcp_graph *graph,
            const char *text, size_t bytes, struct pass_texts *texts,
            uint32_t segments, uint64_t ns)
{
    uint64_t fields[] = {s->graphs, graph->node_count, segments,
                         graph->arena_bytes, ns};

    if (text)
        dcp_trace_put(s->trace, DCP_TRACE_GRAPH, fields, 5, text, bytes);
    for (unsigned i = 0; i < texts->count; i++) {
        struct pass_text *p = &texts->pass[i];
        uint64_t pass[] = {s->graphs, p->changed, p->ns};
        if (text)
            dcp_trace_put(s->trace, DCP_TRACE_PASS, pass, 3, p->text, p->bytes);
        free(p->text);
    }
}

static bool
path_plan(struct dcp_session *s, struct path *path, struct dcp_graph *graph,
          uint32_t segments, uint64_t begin)
{
    struct dcp_wrap *wraps = dcp_malloc((path->count + 1) * sizeof *wraps);
    struct pass_texts texts = {.count = 0};
    size_t bytes = 0;

    if (!wraps)
        return false;
    uint32_t count = wraps_find(path, wraps);
    uint32_t origin = dcp_turn_origin(graph, wraps, count);
    struct dcp_graph *turned = dcp_turn(graph, origin, wraps, count);
    if (!turned) {
        free(wraps);
        return false;
    }
    char *text = s->trace ? graph_text(NULL, turned, &bytes) : NULL;
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();
    bool run = dcp_pass_run(&turned, &ctx, s->config.skip_passes,
                            s->trace ? pass_done : NULL, &texts);
    trace_graph(s, turned, text, bytes, &texts, segments, dcp_now_ns() - begin);
    if (run)
        place_take(path, turned, origin, wraps, count, s->graphs);
    free(text);
    free(wraps);
    dcp_graph_destroy(turned);
    return run;
}

static void
path_analyse(struct dcp_session *s, struct path *path, uint32_t segments,
             uint64_t begin)
{
    struct dcp_lift_options options = {.access = &dcp_experiment_table};
    struct dcp_graph *graph = NULL;

    for (uint32_t i = 0; i < path->count; i++)
        if (path->nodes[i]->origin) {
            place_branch(path, i);
            break;
        }
    if (dcp_lift(&path->log, 0, path->count, &options, &graph) != DCP_OK)
        return;
    dcp_role_fill(graph);
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].call < path->count)
            graph->nodes[n].gpu_ns = path->nodes[graph->nodes[n].call]->gpu_ns;
    bool branch = false;
    for (uint32_t i = 0; !branch && i < path->count; i++)
        branch = path->nodes[i]->origin != 0;
    if (!branch)
        path_plan(s, path, graph, segments, begin);
    trace_roles(s, path, graph);
    dcp_graph_destroy(graph);
}

static void
trace_segments(struct dcp_session *s, const struct path *path)
{
    const struct dcp_segment *last = NULL;

    for (uint32_t i = 0; i < path->count; i++) {
        const struct dcp_segment *g = path->nodes[i]->segment;
        if (!g || g == last)
            continue;
        last = g;
        uint64_t fields[] = {s->graphs, i, g->nodes[g->count - 1]->depth - 1,
                             g->count, g->build_ns};
        dcp_trace_put(s->trace, DCP_TRACE_SEGMENT, fields, 5, NULL, 0);
    }
}

static void
trace_times(struct dcp_session *s, const struct path *path, uint32_t origin)
{
    for (uint32_t i = 0; s->trace && i < path->count; i++) {
        const struct dcp_node *node = path->nodes[i];
        uint64_t fields[] = {s->graphs,
                             (i + path->count - origin) % path->count,
                             node->gpu_ns};
        if (node->gpu_ns > 1)
            dcp_trace_put(s->trace, DCP_TRACE_NODE_TIME, fields, 3, NULL, 0);
    }
}

static void
path_segments(const struct path *path, uint32_t *count)
{
    const struct dcp_segment *last = NULL;

    *count = 0;
    for (uint32_t i = 0; i < path->count; i++)
        if (path->nodes[i]->segment && path->nodes[i]->segment != last) {
            last = path->nodes[i]->segment;
            ++*count;
        }
}

/* Addresses are planned on the second visit, when it has been seen what the
 * next iteration frees. */
static void
path_place(struct dcp_session *s, struct dcp_node *leaf, uint64_t begin)
{
    struct path path = {0};
    uint32_t segments;

    leaf->placed = true;
    if (path_collect(&path, &s->trie, leaf) && path_fill(&path)) {
        leaf->graph = ++s->graphs;
        path_segments(&path, &segments);
        path_analyse(s, &path, segments, begin);
        trace_segments(s, &path);
        for (uint32_t i = 0; i < path.count; i++)
            if (path.nodes[i]->origin == s->graphs)
                trace_times(s, &path, i);
    }
    path_drop(&path);
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
        dcp_trie_remove(&s->trie, branch);
    }
}
