/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/report_timeline.h"

#include "src/report.h"
#include "src/report_blocks.h"
#include "src/report_model.h"

#include <stdlib.h>
#include <string.h>

/* One going through the trace. */
struct walk {
    struct dcp_model_rank *rank;
    struct dcp_timeline *timeline;
    struct dcp_blocks blocks;
    struct dcp_level carry; /* planned buffers that outlive an iteration */
    uint64_t host; /* most bytes of blocks in host memory */
    uint64_t peak_offset, host_offset; /* records at which they were reached */
};

/* --- reading ------------------------------------------------------------- */

#define KIND(name) ((uint64_t)1 << DCP_TRACE_##name)
#define BLOCK_KINDS (KIND(ALLOC) | KIND(FREE))

/* Calls `handle` for each record of `kinds` up to the one at offset `until`. */
static void
go(struct walk *walk, const char *what, uint64_t kinds, uint64_t until,
   void (*handle)(struct walk *, const struct dcp_trace_event *))
{
    struct dcp_trace_reader *reader = walk->rank->reader;
    struct dcp_trace_event e;

    dcp_trace_reader_seek(reader, 0);
    dcp_trace_reader_select(reader, kinds);
    for (unsigned n = 0; dcp_trace_reader_next(reader, &e); n++) {
        handle(walk, &e);
        if (e.offset >= until)
            break;
        if (n % 4096 == 0)
            dcp_progress(what, e.offset, dcp_trace_reader_size(reader));
    }
    dcp_trace_reader_select(reader, 0);
}

static void
learn_roles(struct walk *walk, const struct dcp_trace_event *e)
{
    dcp_blocks_learn_roles(&walk->blocks, e);
}

static void
learn_patterns(struct walk *walk, const struct dcp_trace_event *e)
{
    dcp_blocks_learn_patterns(&walk->blocks, e);
}

/* --- the line ------------------------------------------------------------ */

static struct dcp_timeline_slot *
slot_at(struct dcp_timeline *timeline, uint64_t time_ns)
{
    uint64_t from = timeline->start_ns;
    uint64_t slot = time_ns > from ? (time_ns - from) / timeline->slot_ns : 0;

    if (slot >= DCP_TIMELINE_SLOTS)
        slot = DCP_TIMELINE_SLOTS - 1;
    if (slot >= timeline->slot_count)
        timeline->slot_count = slot + 1;
    return &timeline->slots[slot];
}

static struct dcp_level
sum(const struct dcp_level *a, const struct dcp_level *b)
{
    struct dcp_level out = *a;

    for (int r = 0; r < DCP_ROLE_COUNT; r++)
        out.role[r] += b->role[r];
    out.total += b->total;
    out.host += b->host;
    return out;
}

/* What is live from `time_ns` on is the live blocks and `planned`. */
static void
note(struct walk *walk, uint64_t time_ns, uint64_t offset,
     const struct dcp_level *planned, uint64_t graph, uint32_t node)
{
    struct dcp_timeline *timeline = walk->timeline;
    struct dcp_timeline_slot *slot = slot_at(timeline, time_ns);
    struct dcp_level level = sum(&walk->blocks.level, planned);

    if (!slot->seen || level.total > slot->level.total)
        slot->level = level;
    slot->last = level;
    slot->seen = true;
    if (level.host > walk->host) {
        walk->host = level.host;
        walk->host_offset = offset;
    }
    if (level.host > timeline->host_peak)
        timeline->host_peak = level.host;
    if (level.total <= timeline->peak.total)
        return;
    timeline->peak = level;
    timeline->peak_ns =
        time_ns > timeline->start_ns ? time_ns - timeline->start_ns : 0;
    timeline->peak_graph = graph;
    timeline->peak_node = node;
    walk->peak_offset = offset;
}

static void
draw_iteration(struct walk *walk, const struct dcp_trace_event *e)
{
    const struct dcp_model_rank *rank = walk->rank;
    const struct dcp_model_graph *graph =
        dcp_model_graph_find(rank, e->ITERATION.variant);
    uint64_t begin = e->ITERATION.begin_ns;
    uint64_t span = e->ITERATION.end_ns - begin;

    memset(&walk->carry, 0, sizeof walk->carry);
    if (!e->ITERATION.followed || !graph || span > UINT64_MAX / 4)
        return;
    const struct dcp_curve *curve =
        &walk->timeline->curves[graph - rank->graphs];
    for (size_t i = 0; i < curve->few_count; i++) {
        const struct dcp_curve_point *p = &curve->points[curve->few[i]];
        note(walk, begin + (uint64_t)(p->at * (double)span),
             e->offset, &p->level, graph->number, p->node);
    }
    if (curve->count)
        walk->carry = curve->points[curve->count - 1].level;
}

static void
draw(struct walk *walk, const struct dcp_trace_event *e)
{
    struct dcp_timeline *timeline = walk->timeline;

    if (dcp_blocks_track(&walk->blocks, e)) {
        timeline->blocks += e->kind == DCP_TRACE_ALLOC;
        note(walk, e->time_ns, e->offset, &walk->carry, 0, 0);
    } else if (e->kind == DCP_TRACE_ITERATION) {
        draw_iteration(walk, e);
    } else if (e->kind == DCP_TRACE_MEMORY) {
        struct dcp_timeline_slot *slot = slot_at(timeline, e->time_ns);
        if (e->MEMORY.used > slot->used)
            slot->used = e->MEMORY.used;
        if (e->MEMORY.reserved > slot->reserved)
            slot->reserved = e->MEMORY.reserved;
        if (e->MEMORY.used > timeline->used_peak)
            timeline->used_peak = e->MEMORY.used;
        if (e->MEMORY.reserved > timeline->reserved_peak)
            timeline->reserved_peak = e->MEMORY.reserved;
        if (e->MEMORY.host > timeline->host_peak)
            timeline->host_peak = e->MEMORY.host;
    }
}

/* A slot begins where the one before it ended. */
static void
carry_on(struct dcp_timeline *timeline)
{
    struct dcp_level last = {0};
    uint64_t used = 0, reserved = 0;

    for (size_t i = 0; i < timeline->slot_count; i++) {
        struct dcp_timeline_slot *slot = &timeline->slots[i];
        if (!slot->seen || slot->level.total < last.total)
            slot->level = last;
        if (slot->seen)
            last = slot->last;
        slot->last = last;
        used = slot->used = slot->used ? slot->used : used;
        reserved = slot->reserved =
            slot->reserved ? slot->reserved : reserved;
    }
}

/* --- who holds it -------------------------------------------------------- */

struct group {
    struct {
        uint64_t role, stack;
        const char *label;
    } key;
    struct dcp_holder holder;
    UT_hash_handle hh;
};

static void
hold(struct group **groups, uint8_t role, uint64_t stack, const char *label,
     uint64_t bytes)
{
    struct group *group, key;

    memset(&key, 0, sizeof key);
    key.key.role = role;
    key.key.stack = stack;
    key.key.label = stack ? NULL : label;
    HASH_FIND(hh, *groups, &key.key, sizeof key.key, group);
    if (!group) {
        group = dcp_xcalloc(1, sizeof *group);
        group->key = key.key;
        group->holder.role = role;
        group->holder.stack = stack;
        group->holder.label = label;
        HASH_ADD(hh, *groups, key, sizeof group->key, group);
        if (dcp_table_oom)
            dcp_die("out of memory");
    }
    group->holder.bytes += bytes;
    group->holder.count++;
    if (bytes > group->holder.largest)
        group->holder.largest = bytes;
}

/* The call stack that made each buffer of a graph when it was recorded. */
static uint64_t *
buffer_stacks(const struct walk *walk, const struct dcp_model_graph *graph)
{
    uint64_t *stacks = dcp_xcalloc(graph->ir->buffer_count, sizeof *stacks);

    for (struct dcp_known *k = walk->blocks.known; k; k = k->hh.next)
        if (k->graph == graph->number)
            stacks[k->buffer] = k->stack;
    return stacks;
}

static void
hold_planned(const struct walk *walk, struct group **groups)
{
    const struct dcp_model_graph *graph =
        dcp_model_graph_find(walk->rank, walk->timeline->peak_graph);
    struct dcp_ends ends;

    if (!graph || !graph->ir)
        return;
    const struct dcp_graph *ir = graph->ir;
    uint64_t *stacks = buffer_stacks(walk, graph);
    dcp_ends_fill(ir, &ends);
    for (uint32_t b = 0; b < ir->buffer_count; b++)
        if (!ir->buffers[b].persistent &&
            dcp_ends_live(&ends, b, walk->timeline->peak_node))
            hold(groups, ir->buffers[b].role, stacks[b], ir->buffers[b].label,
                 ir->buffers[b].bytes);
    dcp_ends_release(&ends);
    free(stacks);
}

static int
compare_holders(const void *a, const void *b)
{
    const struct dcp_holder *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->role != y->role)
        return x->role < y->role ? -1 : 1;
    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    return strcmp(x->label ? x->label : "", y->label ? y->label : "");
}

/* Groups become a sorted array; the groups are gone. */
static struct dcp_holder *
list_holders(struct group *groups, size_t *count)
{
    struct dcp_holder *list = dcp_xcalloc(HASH_COUNT(groups), sizeof *list);
    struct group *group, *next;

    *count = 0;
    HASH_ITER(hh, groups, group, next) {
        list[(*count)++] = group->holder;
        HASH_DEL(groups, group);
        free(group);
    }
    qsort(list, *count, sizeof *list, compare_holders);
    return list;
}

static void
find_holders(struct walk *walk, const struct dcp_trace_event *e)
{
    struct dcp_timeline *timeline = walk->timeline;
    struct group *groups = NULL;

    dcp_blocks_track(&walk->blocks, e);
    if (e->offset == walk->peak_offset) {
        for (struct dcp_live_block *b = walk->blocks.live; b; b = b->hh.next)
            if (!b->host)
                hold(&groups, b->role, b->stack, NULL, b->bytes);
        hold_planned(walk, &groups);
        timeline->holders = list_holders(groups, &timeline->holder_count);
        groups = NULL;
    }
    if (e->offset == walk->host_offset) {
        for (struct dcp_live_block *b = walk->blocks.live; b; b = b->hh.next)
            if (b->host)
                hold(&groups, b->role, b->stack, NULL, b->bytes);
        timeline->spilled = list_holders(groups, &timeline->spilled_count);
    }
}

/* --- public -------------------------------------------------------------- */

struct dcp_timeline *
dcp_timeline_fill(struct dcp_model_rank *rank)
{
    struct dcp_timeline *timeline = dcp_xcalloc(1, sizeof *timeline);
    struct walk walk = {
        .rank = rank, .timeline = timeline, .blocks = {.rank = rank}};

    timeline->start_ns = rank->start_ns;
    timeline->slot_ns =
        (rank->end_ns - rank->start_ns) / DCP_TIMELINE_SLOTS + 1;
    timeline->curves = dcp_xcalloc(rank->graph_count, sizeof(struct dcp_curve));
    for (size_t g = 0; g < rank->graph_count; g++)
        dcp_curve_fill(&rank->graphs[g], &timeline->curves[g]);
    go(&walk, "roles", KIND(ROLE) | KIND(BLOCK_USE), UINT64_MAX, learn_roles);
    if (walk.blocks.known)
        go(&walk, "roles by call stack", KIND(ALLOC), UINT64_MAX,
           learn_patterns);
    go(&walk, "memory", BLOCK_KINDS | KIND(ITERATION) | KIND(MEMORY),
       UINT64_MAX, draw);
    carry_on(timeline);
    dcp_blocks_restart(&walk.blocks);
    uint64_t until = walk.peak_offset > walk.host_offset ? walk.peak_offset
                                                         : walk.host_offset;
    if (until)
        go(&walk, "peak", BLOCK_KINDS | KIND(ITERATION), until, find_holders);
    dcp_blocks_release(&walk.blocks);
    return timeline;
}

void
dcp_timeline_destroy(struct dcp_timeline *timeline, size_t graphs)
{
    if (!timeline)
        return;
    for (size_t g = 0; g < graphs; g++)
        dcp_curve_release(&timeline->curves[g]);
    free(timeline->curves);
    free(timeline->holders);
    free(timeline->spilled);
    free(timeline);
}
