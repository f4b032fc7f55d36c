/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/micro.h"

#include "src/arena.h"

enum { TRIES = 4 };

/* A launch, copy or fill that touches a persistent buffer. */
struct item {
    uint32_t node;
    uint32_t key; /* number of (operation, kernel, first such reference) */
};

struct finder {
    struct dcp_graph *graph;
    struct dcp_arena arena;
    struct item *items;
    uint32_t item_count, key_count;
    uint32_t *times;          /* by key: how often it comes */
    uint32_t *in_step;        /* by key: ... up to the step looked at */
    uint32_t *starts;         /* by step: node */
    uint32_t *in_tail, *seen; /* by buffer: stamps */
    uint32_t stamp;
};

/* Open addressing; `place` holds item number + 1 of the key's first item. */
struct places {
    uint32_t *place;
    uint32_t mask;
};

static const struct dcp_ir_ref *
first_persistent(const struct dcp_graph *graph, const struct dcp_ir_node *node)
{
    for (uint32_t r = 0; r < node->ref_count; r++)
        if (graph->buffers[node->refs[r].buffer].persistent)
            return &node->refs[r];
    return NULL;
}

static bool
is_same(const struct dcp_graph *graph, uint32_t a, uint32_t b)
{
    const struct dcp_ir_node *x = &graph->nodes[a], *y = &graph->nodes[b];
    const struct dcp_ir_ref *p = first_persistent(graph, x);
    const struct dcp_ir_ref *q = first_persistent(graph, y);

    if (x->op != y->op || x->stream != y->stream || p->buffer != q->buffer ||
        p->offset != q->offset)
        return false;
    return x->op != DCP_OP_LAUNCH || x->launch.kernel == y->launch.kernel;
}

static uint32_t
hash_of(const struct dcp_graph *graph, uint32_t index)
{
    const struct dcp_ir_node *node = &graph->nodes[index];
    const struct dcp_ir_ref *ref = first_persistent(graph, node);
    uint64_t hash = (uint64_t)node->op << 32 ^ ref->buffer;

    if (node->op == DCP_OP_LAUNCH)
        hash ^= (uint64_t)node->launch.kernel << 40;
    hash = (hash ^ ref->offset * 0xbf58476d1ce4e5b9u) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(hash >> 32);
}

static uint32_t
key_of(struct finder *f, struct places *places, uint32_t node)
{
    uint32_t at = hash_of(f->graph, node);

    for (;; at++) {
        uint32_t *place = &places->place[at & places->mask];
        if (!*place) {
            *place = f->item_count + 1;
            return f->key_count++;
        }
        const struct item *item = &f->items[*place - 1];
        if (is_same(f->graph, item->node, node))
            return item->key;
    }
}

static enum dcp_status
find_items(struct finder *f)
{
    const struct dcp_graph *g = f->graph;
    struct places places = {.mask = 63};

    while (places.mask < 2 * (uint64_t)g->node_count)
        places.mask = places.mask * 2 + 1;
    places.place = dcp_arena_alloc(&f->arena, ((size_t)places.mask + 1) *
                                                  sizeof *places.place);
    size_t room = g->node_count + 2u, buffers = g->buffer_count + 1u;
    f->items = dcp_arena_alloc(&f->arena, room * sizeof *f->items);
    f->times = dcp_arena_alloc(&f->arena, room * sizeof *f->times);
    f->in_step = dcp_arena_alloc(&f->arena, room * sizeof *f->in_step);
    f->starts = dcp_arena_alloc(&f->arena, room * sizeof *f->starts);
    f->in_tail = dcp_arena_alloc(&f->arena, buffers * sizeof *f->in_tail);
    f->seen = dcp_arena_alloc(&f->arena, buffers * sizeof *f->seen);
    if (!places.place || !f->items || !f->times || !f->in_step || !f->starts ||
        !f->in_tail || !f->seen)
        return DCP_NOMEM;
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (!(dcp_op_properties(g->nodes[i].op) & DCP_IS_WORK) ||
            !first_persistent(g, &g->nodes[i]))
            continue;
        uint32_t key = key_of(f, &places, i);
        f->times[key]++;
        f->items[f->item_count++] = (struct item){i, key};
    }
    return DCP_OK;
}

/* Takes the number of times that most of the keys left come, from 2 on: `votes`
 * by number of times. 1: none is left. */
static uint32_t
next_count(const struct finder *f, uint32_t *votes)
{
    uint32_t best = 1, most = 0;

    for (uint32_t t = 2; t <= f->item_count; t++) {
        if (votes[t] <= most)
            continue;
        best = t;
        most = votes[t];
    }
    votes[best] = 0;
    return best;
}

/* True when from the first to the last of the keys that come `count` times
 * most of the work comes so often, or a multiple of it. */
static bool
covers(const struct finder *f, uint32_t count)
{
    uint32_t first = f->item_count, last = 0, same = 0;

    for (uint32_t i = 0; i < f->item_count; i++) {
        if (f->times[f->items[i].key] != count)
            continue;
        first = i < first ? i : first;
        last = i;
    }
    for (uint32_t i = first; i <= last; i++)
        same += f->times[f->items[i].key] % count == 0;
    return same * 4 >= (last - first + 1) * 3;
}

/* Steps begin with the first of the keys that come `count` times, and each
 * holds nearly every such key once; a loop over shared weights does not, nor
 * does a forward pass that is done again, backwards. */
static bool
cut_steps(struct finder *f, uint32_t count, uint32_t *last)
{
    uint32_t first = DCP_NONE, step = 0, good = 0, bad = 0;

    for (uint32_t i = 0; i < f->item_count; i++) {
        uint32_t key = f->items[i].key;
        if (f->times[key] != count)
            continue;
        if (first == DCP_NONE)
            first = key;
        if (key == first)
            f->starts[step++] = f->items[i].node;
        if (++f->in_step[key] == step)
            good++;
        else
            bad++;
        *last = f->items[i].node;
    }
    return step == count && bad * 8 <= good;
}

/* How many buffers the work of nodes [begin, end) shares with the tail. */
static uint32_t
count_shared(struct finder *f, uint32_t begin, uint32_t end, uint32_t tail)
{
    uint32_t count = 0, stamp = ++f->stamp;

    for (uint32_t i = begin; i < end; i++) {
        const struct dcp_ir_node *node = &f->graph->nodes[i];
        for (uint32_t r = 0; r < node->ref_count; r++) {
            uint32_t b = node->refs[r].buffer;
            count += f->in_tail[b] == tail && f->seen[b] != stamp;
            f->seen[b] = stamp;
        }
    }
    return count;
}

/* The number of leading steps that do not feed the update (an evaluation): with
 * what comes after the last step's own work they share the parameters, but no
 * gradients. */
static uint32_t
count_idle(struct finder *f, uint32_t count, uint32_t last)
{
    uint32_t tail = ++f->stamp, idle = 0;

    for (uint32_t i = last + 1; i < f->graph->node_count; i++)
        for (uint32_t r = 0; r < f->graph->nodes[i].ref_count; r++)
            f->in_tail[f->graph->nodes[i].refs[r].buffer] = tail;
    uint32_t most = count_shared(f, f->starts[count - 1], last + 1, tail);
    while (idle + 1 < count &&
           count_shared(f, f->starts[idle], f->starts[idle + 1], tail) * 4 <
               most * 3)
        idle++;
    return idle;
}

static void
set_steps(struct dcp_graph *graph, const uint32_t *starts, uint32_t count)
{
    uint32_t step = 0;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        while (step + 1 < count && i >= starts[step + 1])
            step++;
        graph->nodes[i].micro = (uint16_t)step;
    }
    graph->micro_count = count;
}

/* Tries the likeliest numbers of steps; *idle of them are no steps. */
static uint32_t
find_count(struct finder *f, uint32_t *votes, uint32_t *idle)
{
    uint32_t last = 0;

    for (uint32_t k = 0; k < f->key_count; k++)
        votes[f->times[k]]++;
    for (int try = 0; try < TRIES; try++) {
        uint32_t count = next_count(f, votes);
        if (count == 1)
            break;
        if (count > UINT16_MAX || !covers(f, count) ||
            !cut_steps(f, count, &last))
            continue;
        *idle = count_idle(f, count, last);
        return count;
    }
    *idle = 0;
    return 1;
}

enum dcp_status
dcp_micro_fill(struct dcp_graph *graph)
{
    struct finder f = {.graph = graph};
    enum dcp_status status = find_items(&f);
    uint32_t *votes = NULL;

    if (!status) {
        votes = dcp_arena_alloc(&f.arena, (f.item_count + 2u) * sizeof *votes);
        if (!votes)
            status = DCP_NOMEM;
    }
    if (!status) {
        uint32_t idle, count = find_count(&f, votes, &idle);
        set_steps(graph, f.starts + idle, count - idle);
    }
    dcp_arena_release(&f.arena);
    return status;
}
