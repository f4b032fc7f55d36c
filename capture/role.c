/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/role.h"

#include "src/arena.h"

#include "capture/slot.h"

#include <stdlib.h>

enum {
    NEAR = 8,      /* a gap counts as large from a NEAR-th of the iteration */
    WORK_SPAN = 8, /* nodes of work between first and last touch */
    STRANGE = 8,   /* references of an update for each one that is stale */
    NOWHERE = UINT32_MAX,
};

/* Positions count the nodes of work. */
struct touch {
    uint32_t first, last;         /* position; NOWHERE: never touched */
    uint32_t first_out, last_out; /* outside the update */
    uint32_t in_update;           /* touches there */
    bool sure;                    /* some reference to it is beyond doubt */
    bool host_first;              /* the first touch is a copy from the host */
    bool first_writes;            /* ... or a sure, blind write */
    bool written_out;             /* surely written outside the update */
    bool maybe_out;               /* perhaps written outside the update */
    bool written_in;              /* perhaps written in the update */
    bool fits; /* lies next to a param or state of its size */
};

struct finder {
    struct dcp_graph *graph;
    struct dcp_arena arena;
    struct dcp_doubt doubt;
    struct touch *touch; /* by buffer */
    uint32_t *work;      /* by position: node */
    uint32_t count;
    uint32_t begin, end; /* of the update: positions [begin, end) */
    uint8_t *role;
};

static bool
is_work(const struct dcp_ir_node *node)
{
    return dcp_op_properties(node->op) & DCP_IS_WORK;
}

static const struct dcp_ir_node *
node_at(const struct finder *f, uint32_t position)
{
    return &f->graph->nodes[f->work[position]];
}

static bool
is_persistent(const struct finder *f, uint32_t buffer)
{
    return f->graph->buffers[buffer].persistent;
}

static enum dcp_status
begin_finder(struct finder *f)
{
    const struct dcp_graph *g = f->graph;

    f->touch =
        dcp_arena_alloc(&f->arena, (g->buffer_count + 1) * sizeof *f->touch);
    f->work = dcp_arena_alloc(&f->arena, (g->node_count + 1) * sizeof *f->work);
    f->role = dcp_arena_alloc(&f->arena, g->buffer_count + 1);
    if (!f->touch || !f->work || !f->role)
        return DCP_NOMEM;
    for (uint32_t b = 0; b < g->buffer_count; b++)
        f->touch[b] = (struct touch){.first = NOWHERE,
                                     .last = NOWHERE,
                                     .first_out = NOWHERE,
                                     .last_out = NOWHERE};
    for (uint32_t i = 0; i < g->node_count; i++)
        if (is_work(&g->nodes[i]))
            f->work[f->count++] = i;
    f->begin = f->end = f->count;
    enum dcp_status status = dcp_doubt_find(g, &f->arena, &f->doubt);
    for (uint32_t p = 0; !status && p < f->count; p++) {
        const struct dcp_ir_node *node = node_at(f, p);
        for (uint32_t r = 0; r < node->ref_count; r++)
            if (!dcp_doubt_has(&f->doubt, node, &node->refs[r]))
                f->touch[node->refs[r].buffer].sure = true;
    }
    return status;
}

/* False for what is probably a stale pointer: it says nothing about a buffer
 * of which something better is known. */
static bool
counts(const struct finder *f, const struct dcp_ir_node *node,
       const struct dcp_ir_ref *ref)
{
    return !f->touch[ref->buffer].sure || !dcp_doubt_has(&f->doubt, node, ref);
}

static void
find_ends(struct finder *f)
{
    for (uint32_t p = 0; p < f->count; p++) {
        const struct dcp_ir_node *node = node_at(f, p);
        for (uint32_t r = 0; r < node->ref_count; r++) {
            const struct dcp_ir_ref *ref = &node->refs[r];
            struct touch *t = &f->touch[ref->buffer];
            if (!counts(f, node, ref))
                continue;
            t->last = p;
            if (t->first != NOWHERE)
                continue;
            t->first = p;
            t->first_writes = ref->access == DCP_WRITE;
            t->host_first = node->op == DCP_OP_COPY && ref->slot == 0 &&
                            node->copy.from != DCP_IR_DEVICE;
        }
    }
}

static int
by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* The number after the largest gap, if that gap is large. */
static uint32_t
after_largest_gap(const struct finder *f, uint32_t *list, uint32_t count)
{
    uint32_t best = NOWHERE, gap = f->count / NEAR;

    qsort(list, count, sizeof *list, by_number);
    for (uint32_t i = 1; i < count; i++) {
        if (list[i] - list[i - 1] <= gap)
            continue;
        gap = list[i] - list[i - 1];
        best = list[i];
    }
    return best;
}

/* A persistent buffer is first touched in the forward pass (or when it is
 * zeroed); the backward pass touches no new ones, so states show as first
 * touches behind a long gap. */
static uint32_t
begin_by_states(const struct finder *f, uint32_t *list)
{
    uint32_t count = 0;

    for (uint32_t b = 0; b < f->graph->buffer_count; b++)
        if (is_persistent(f, b) && f->touch[b].first != NOWHERE)
            list[count++] = f->touch[b].first;
    return after_largest_gap(f, list, count);
}

/* Without states: parameters are touched for the last time in the update, all
 * close together. The chain of last touches is followed from the end back. */
static uint32_t
begin_by_params(const struct finder *f, uint32_t *list)
{
    uint32_t count = 0, gap = f->count / 32 + 2;

    for (uint32_t b = 0; b < f->graph->buffer_count; b++)
        if (is_persistent(f, b) && f->touch[b].last != NOWHERE &&
            f->touch[b].first != f->touch[b].last)
            list[count++] = f->touch[b].last;
    qsort(list, count, sizeof *list, by_number);
    if (count < 2 || list[count - 1] + f->count / NEAR < f->count)
        return NOWHERE;
    uint32_t i = count - 1;
    while (i > 0 && list[i] - list[i - 1] <= gap)
        i--;
    /* A chain that is no denser than the rest is not an update. */
    uint32_t span = list[count - 1] - list[i] + 1;
    if ((count - i) * 2 < count || span > f->count / 2)
        return NOWHERE;
    return list[i];
}

/* True when a node before the update belongs to it: it touches persistent
 * buffers of the update (weight decay) and else only what the update reads,
 * but for a few stale pointers. */
static bool
is_of_update(const struct finder *f, uint32_t position)
{
    const struct dcp_ir_node *node = node_at(f, position);
    uint32_t persistent = 0, strange = 0;

    if (node->op != DCP_OP_LAUNCH)
        return false;
    for (uint32_t r = 0; r < node->ref_count; r++) {
        const struct touch *t = &f->touch[node->refs[r].buffer];
        if (!counts(f, node, &node->refs[r]))
            continue;
        if (t->last < f->begin || t->last == NOWHERE)
            strange++;
        else
            persistent += is_persistent(f, node->refs[r].buffer);
    }
    return persistent > STRANGE * strange;
}

static enum dcp_status
find_update(struct finder *f)
{
    uint32_t *list =
        dcp_arena_alloc(&f->arena, (f->graph->buffer_count + 1) * sizeof *list);
    uint32_t begin;

    if (!list)
        return DCP_NOMEM;
    begin = begin_by_states(f, list);
    if (begin == NOWHERE)
        begin = begin_by_params(f, list);
    if (begin == NOWHERE)
        return DCP_OK;
    f->begin = begin;
    while (f->begin > 0 && is_of_update(f, f->begin - 1))
        f->begin--;
    uint32_t last = f->begin;
    for (uint32_t b = 0; b < f->graph->buffer_count; b++)
        if (is_persistent(f, b) && f->touch[b].last != NOWHERE &&
            f->touch[b].last > last)
            last = f->touch[b].last;
    f->end = last + 1;
    return DCP_OK;
}

static void
note_access(struct touch *t, const struct dcp_ir_ref *ref, uint32_t position,
            bool inside)
{
    bool writes = ref->access & DCP_WRITE;
    bool sure = !(ref->access & DCP_ASSUMED);

    if (inside) {
        t->in_update++;
        t->written_in |= writes;
        return;
    }
    if (t->first_out == NOWHERE)
        t->first_out = position;
    t->last_out = position;
    t->maybe_out |= writes;
    t->written_out |= writes && sure;
}

static void
find_accesses(struct finder *f)
{
    for (uint32_t p = 0; p < f->count; p++) {
        const struct dcp_ir_node *node = node_at(f, p);
        bool inside = p >= f->begin && p < f->end;
        for (uint32_t r = 0; r < node->ref_count; r++)
            if (counts(f, node, &node->refs[r]))
                note_access(&f->touch[node->refs[r].buffer], &node->refs[r], p,
                            inside);
    }
}

static uint8_t
role_of_persistent(const struct touch *t)
{
    if (t->first == NOWHERE)
        return DCP_ROLE_UNKNOWN;
    if (t->in_update && t->first_out == NOWHERE)
        return DCP_ROLE_STATE;
    if (t->in_update)
        return t->written_out && !t->host_first ? DCP_ROLE_GRAD
               : t->host_first                  ? DCP_ROLE_INPUT
               : t->written_in                  ? DCP_ROLE_PARAM
                                                : DCP_ROLE_STAT;
    if (t->host_first)
        return DCP_ROLE_INPUT;
    if (t->first_writes)
        return DCP_ROLE_WORK;
    return t->maybe_out ? DCP_ROLE_STAT : DCP_ROLE_PARAM;
}

static int
by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Where `size` is, or would be, in the ordered list. */
static uint32_t
first_of_size(const uint64_t *sizes, uint32_t count, uint64_t size)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sizes[middle] < size)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool
has_size(const uint64_t *sizes, uint32_t count, uint64_t size)
{
    uint32_t at = first_of_size(sizes, count, size);

    return at < count && sizes[at] == size;
}

/* Is there the size of as many elements, of 1 to 8 bytes each? */
static bool
any_fits(const uint64_t *sizes, uint32_t count, uint64_t size)
{
    for (unsigned factor = 1; factor <= 8; factor *= 2)
        if (has_size(sizes, count, size * factor) ||
            (size % factor == 0 && has_size(sizes, count, size / factor)))
            return true;
    return false;
}

/* Marks what lies in an update node next to a param or state of its size. */
static enum dcp_status
find_fits(struct finder *f)
{
    const struct dcp_graph *g = f->graph;
    uint32_t most = 0;

    for (uint32_t p = f->begin; p < f->end; p++)
        if (node_at(f, p)->ref_count > most)
            most = node_at(f, p)->ref_count;
    uint64_t *sizes = dcp_arena_alloc(&f->arena, (most + 1) * sizeof *sizes);
    if (!sizes)
        return DCP_NOMEM;
    for (uint32_t p = f->begin; p < f->end; p++) {
        const struct dcp_ir_node *node = node_at(f, p);
        uint32_t count = 0;
        for (uint32_t r = 0; r < node->ref_count; r++) {
            uint32_t b = node->refs[r].buffer;
            if (f->role[b] == DCP_ROLE_PARAM || f->role[b] == DCP_ROLE_STATE)
                sizes[count++] = g->buffers[b].bytes;
        }
        qsort(sizes, count, sizeof *sizes, by_size);
        for (uint32_t r = 0; r < node->ref_count; r++) {
            uint32_t b = node->refs[r].buffer;
            if (any_fits(sizes, count, g->buffers[b].bytes))
                f->touch[b].fits = true;
        }
    }
    return DCP_OK;
}

static uint8_t
role_of_passing(const struct finder *f, const struct touch *t)
{
    if (t->first == NOWHERE)
        return DCP_ROLE_UNKNOWN;
    if (t->host_first)
        return DCP_ROLE_INPUT;
    if (t->in_update && t->first < f->begin && t->fits)
        return DCP_ROLE_GRAD;
    return t->last - t->first <= WORK_SPAN ? DCP_ROLE_WORK : DCP_ROLE_ACT;
}

/* Takes one of the ordered list's `size`s; false when none is left. `taken`:
 * how many are gone already, by first place of the size. */
static bool
take_size(const uint64_t *sizes, uint32_t *taken, uint32_t count, uint64_t size)
{
    uint32_t first = first_of_size(sizes, count, size);
    uint32_t at = first < count ? first + taken[first] : count;

    if (at >= count || sizes[at] != size)
        return false;
    taken[first]++;
    return true;
}

/* Buffers that an earlier iteration left and this one only frees: last
 * iteration's gradients, or anything else. */
static enum dcp_status
find_leftovers(struct finder *f)
{
    const struct dcp_graph *g = f->graph;
    uint64_t *sizes =
        dcp_arena_alloc(&f->arena, (g->buffer_count + 1) * sizeof *sizes);
    uint32_t *taken =
        dcp_arena_alloc(&f->arena, (g->buffer_count + 1) * sizeof *taken);
    uint32_t count = 0;

    if (!sizes || !taken)
        return DCP_NOMEM;
    for (uint32_t b = 0; b < g->buffer_count; b++)
        if (f->role[b] == DCP_ROLE_GRAD)
            sizes[count++] = g->buffers[b].bytes;
    qsort(sizes, count, sizeof *sizes, by_size);
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (g->nodes[i].op != DCP_OP_FREE)
            continue;
        uint32_t b = g->nodes[i].memory.buffer;
        if (f->touch[b].first == NOWHERE && !is_persistent(f, b))
            f->role[b] = take_size(sizes, taken, count, g->buffers[b].bytes)
                             ? DCP_ROLE_GRAD
                             : DCP_ROLE_ACT;
    }
    return DCP_OK;
}

/* Forward until a step first touches a gradient, then backward. */
static void
fill_parts(struct finder *f)
{
    struct dcp_graph *g = f->graph;
    uint32_t begin = f->begin < f->count ? f->work[f->begin] : g->node_count;
    uint32_t end = f->end > f->begin ? f->work[f->end - 1] + 1 : begin;
    bool any = end > begin, backward = false;

    for (uint32_t i = 0; i < g->node_count; i++) {
        struct dcp_ir_node *node = &g->nodes[i];
        if (i && node->micro != g->nodes[i - 1].micro)
            backward = false;
        for (uint32_t r = 0; is_work(node) && r < node->ref_count; r++)
            backward |= f->role[node->refs[r].buffer] == DCP_ROLE_GRAD &&
                        node->op != DCP_OP_FILL;
        node->part = !any || i >= end ? DCP_PART_NONE
                     : i >= begin     ? DCP_PART_UPDATE
                     : backward       ? DCP_PART_BACKWARD
                                      : DCP_PART_FORWARD;
    }
}

enum dcp_status
dcp_role_fill(struct dcp_graph *graph)
{
    struct finder f = {.graph = graph};
    enum dcp_status status = begin_finder(&f);

    if (!status) {
        find_ends(&f);
        status = find_update(&f);
    }
    if (!status) {
        find_accesses(&f);
        for (uint32_t b = 0; b < graph->buffer_count; b++)
            if (is_persistent(&f, b))
                f.role[b] = role_of_persistent(&f.touch[b]);
        status = find_fits(&f);
    }
    if (!status) {
        for (uint32_t b = 0; b < graph->buffer_count; b++)
            if (!is_persistent(&f, b))
                f.role[b] = role_of_passing(&f, &f.touch[b]);
        status = find_leftovers(&f);
    }
    if (!status) {
        for (uint32_t b = 0; b < graph->buffer_count; b++)
            graph->buffers[b].role = f.role[b];
        fill_parts(&f);
    }
    dcp_arena_release(&f.arena);
    return status;
}
