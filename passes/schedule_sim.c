/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "passes/schedule_sim.h"

#include "src/ir_live.h"

#include <stdlib.h>
#include <string.h>

/* Node `before` must have ended before another begins. */
struct edge {
    uint32_t before, next; /* next: index of the next edge of `before` */
    uint32_t after;
};

/* A node that could begin, if its engine were free. */
struct ready {
    uint64_t at;
    uint32_t node;
};

struct simulator {
    const struct dcp_graph *graph;
    const struct dcp_cost *cost;
    struct dcp_arena scratch;
    struct dcp_schedule *out;

    struct edge *edges;
    uint32_t edge_count, edge_room;
    uint32_t *first_edge; /* by node */
    uint32_t *missing;    /* by node: what it still waits for */
    uint64_t *ready_ns;   /* by node: the latest end of what it waited for */

    struct ready *heap;
    uint32_t heap_count;

    uint32_t issued; /* nodes that the host has passed */
    uint64_t host_ns;
    uint64_t engine_ns[DCP_ENGINE_COUNT]; /* when each is free */
    bool no_memory;
};

static uint64_t
sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t
later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

enum dcp_engine
dcp_engine_of(const struct dcp_ir_node *node)
{
    if (dcp_op_properties(node->op) & DCP_IS_COLL)
        return DCP_ENGINE_LINK;
    if (node->op == DCP_OP_FETCH)
        return DCP_ENGINE_UPLOAD;
    if (node->op == DCP_OP_EVICT)
        return DCP_ENGINE_DOWNLOAD;
    if (node->op == DCP_OP_COPY && node->copy.from != DCP_IR_DEVICE)
        return DCP_ENGINE_UPLOAD;
    if (node->op == DCP_OP_COPY && node->copy.to != DCP_IR_DEVICE)
        return DCP_ENGINE_DOWNLOAD;
    return DCP_ENGINE_COMPUTE;
}

/* --- edges ---------------------------------------------------------------- */

static void
add_edge(struct simulator *s, uint32_t before, uint32_t after)
{
    if (before == DCP_NONE || s->no_memory)
        return;
    if (s->edge_count == s->edge_room) {
        uint32_t room =
            s->edge_room ? 2 * s->edge_room : 2 * s->graph->node_count + 16;
        struct edge *edges = dcp_arena_alloc(&s->scratch, room * sizeof *edges);

        if (!edges) {
            s->no_memory = true;
            return;
        }
        if (s->edge_count)
            memcpy(edges, s->edges, s->edge_count * sizeof *edges);
        s->edges = edges;
        s->edge_room = room;
    }
    s->edges[s->edge_count] =
        (struct edge) { before, s->first_edge[before], after };
    s->first_edge[before] = s->edge_count++;
    s->missing[after]++;
}

/* What the program's order says while its nodes are walked. */
struct order {
    uint32_t *tail;   /* by stream: its last node */
    uint32_t *record; /* by event: its last record */
    uint32_t *fresh;  /* streams with nodes since the last device-wide wait */
    bool *listed;     /* by stream: it is in `fresh` */
    uint32_t fresh_count;
    uint32_t barrier; /* the last device-wide wait */
};

static uint32_t *
numbers(struct simulator *s, uint32_t count)
{
    uint32_t *list = dcp_arena_alloc(&s->scratch, count * sizeof *list);

    if (list)
        memset(list, 0xff, count * sizeof *list);
    return list;
}

static bool
order_create(struct simulator *s, struct order *o)
{
    uint32_t streams = s->graph->stream_count;

    o->tail = numbers(s, streams);
    o->record = numbers(s, s->graph->event_count);
    o->fresh = numbers(s, streams);
    o->listed = dcp_arena_alloc(&s->scratch, streams);
    o->fresh_count = 0;
    o->barrier = DCP_NONE;
    return o->tail && o->record && o->fresh && o->listed;
}

/* A point that waits for all that was issued before it. */
static void
add_barrier(struct simulator *s, struct order *o, uint32_t i)
{
    add_edge(s, o->barrier, i);
    for (uint32_t f = 0; f < o->fresh_count; f++) {
        add_edge(s, o->tail[o->fresh[f]], i);
        o->listed[o->fresh[f]] = false;
    }
    o->fresh_count = 0;
    o->barrier = i;
}

static void
append_to_stream(struct simulator *s, struct order *o, uint32_t i,
                 uint32_t stream)
{
    add_edge(s, o->tail[stream], i);
    o->tail[stream] = i;
    if (!o->listed[stream]) {
        o->listed[stream] = true;
        o->fresh[o->fresh_count++] = stream;
    }
}

static void
order_node(struct simulator *s, struct order *o, uint32_t i)
{
    const struct dcp_ir_node *n = &s->graph->nodes[i];
    unsigned properties = dcp_op_properties(n->op);
    bool stream = n->stream < s->graph->stream_count;

    for (uint32_t a = 0; a < n->after_count; a++)
        if (n->after[a] < i)
            add_edge(s, n->after[a], i);
    if (properties & (DCP_IS_EVENT | DCP_IS_CUT) &&
        n->sync_on.event < s->graph->event_count) {
        if (n->op == DCP_OP_RECORD)
            o->record[n->sync_on.event] = i;
        else
            add_edge(s, o->record[n->sync_on.event], i);
        if (n->op == DCP_OP_HOST)
            return; /* waits for that event and for nothing else */
    }
    if (stream)
        append_to_stream(s, o, i, n->stream);
    else if (n->op == DCP_OP_HOST)
        add_barrier(s, o, i);
}

/* --- the queue of ready nodes --------------------------------------------- */

static bool
sooner(const struct ready *a, const struct ready *b)
{
    return a->at != b->at ? a->at < b->at : a->node < b->node;
}

static void
push(struct simulator *s, uint32_t node)
{
    struct ready item = { s->ready_ns[node], node };
    uint32_t i = s->heap_count++;

    for (; i && sooner(&item, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = item;
}

static uint32_t
pop(struct simulator *s)
{
    uint32_t node = s->heap[0].node, i = 0, child;
    struct ready last = s->heap[--s->heap_count];

    while ((child = 2 * i + 1) < s->heap_count) {
        if (child + 1 < s->heap_count &&
            sooner(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!sooner(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return node;
}

/* --- running -------------------------------------------------------------- */

/* The host does not go on before the node is done. */
static bool
host_waits(const struct dcp_ir_node *n)
{
    return n->sync || n->op == DCP_OP_HOST;
}

/* One wait less; a node that the host has issued and that waits for nothing
 * joins the queue. */
static void
release(struct simulator *s, uint32_t node)
{
    if (--s->missing[node] == 0)
        push(s, node);
}

/* The host issues nodes up to and with one that it must wait for. */
static void
issue(struct simulator *s)
{
    while (s->issued < s->graph->node_count) {
        uint32_t i = s->issued++;

        s->host_ns = sum(s->host_ns, s->cost->issue_ns);
        s->ready_ns[i] = later(s->ready_ns[i], s->host_ns);
        release(s, i); /* its wait for being issued */
        if (host_waits(&s->graph->nodes[i]))
            return;
    }
}

static void
run_node(struct simulator *s, uint32_t i)
{
    const struct dcp_ir_node *n = &s->graph->nodes[i];
    uint64_t ns = dcp_cost_node(s->cost, s->graph, n);
    uint64_t begin = s->ready_ns[i], end;

    if (dcp_op_properties(n->op) & DCP_IS_WORK) {
        enum dcp_engine engine = dcp_engine_of(n);

        begin = later(begin, s->engine_ns[engine]);
        end = sum(begin, ns);
        s->engine_ns[engine] = end;
        s->out->busy_ns[engine] = sum(s->out->busy_ns[engine], ns);
        ns = sum(ns, s->cost->node_ns); /* until a dependent can begin */
    }
    end = sum(begin, ns);
    s->out->begin_ns[i] = begin;
    s->out->end_ns[i] = end;
    s->out->step_ns = later(s->out->step_ns, end);
    for (uint32_t e = s->first_edge[i]; e != DCP_NONE; e = s->edges[e].next) {
        uint32_t after = s->edges[e].after;

        s->ready_ns[after] = later(s->ready_ns[after], end);
        release(s, after);
    }
    if (host_waits(n)) {
        if (end > s->host_ns)
            s->out->host_wait_ns += end - s->host_ns;
        s->host_ns = later(s->host_ns, end);
        issue(s);
    }
}

/* --- memory over time ----------------------------------------------------- */

struct change {
    uint64_t at;
    uint64_t bytes;
    bool born;
};

static int
by_time(const void *a, const void *b)
{
    const struct change *c = a, *d = b;

    if (c->at != d->at)
        return c->at < d->at ? -1 : 1;
    return (int)c->born - (int)d->born; /* what dies goes first */
}

static void
measure_memory(struct simulator *s, const struct dcp_live *live)
{
    const struct dcp_graph *g = s->graph;
    struct change *list = dcp_arena_alloc(
        &s->scratch, 2 * (size_t)g->buffer_count * sizeof *list);
    uint64_t now = 0;
    uint32_t n = 0;

    if (!list) {
        s->no_memory = true;
        return;
    }
    for (uint32_t b = 0; b < g->buffer_count; b++) {
        uint64_t born =
            live->alloc[b] == DCP_NONE ? 0 : s->out->begin_ns[live->alloc[b]];

        list[n++] = (struct change) { born, g->buffers[b].bytes, true };
        if (live->free[b] != DCP_NONE)
            list[n++] =
                (struct change) { later(born, s->out->end_ns[live->free[b]]),
                                  g->buffers[b].bytes, false };
    }
    qsort(list, n, sizeof *list, by_time);
    for (uint32_t i = 0; i < n; i++) {
        if (!list[i].born) {
            now -= list[i].bytes <= now ? list[i].bytes : now;
            continue;
        }
        now = sum(now, list[i].bytes);
        if (now > s->out->peak_bytes) {
            s->out->peak_bytes = now;
            s->out->peak_ns = list[i].at;
        }
    }
}

/* --- the whole ------------------------------------------------------------ */

static bool
make_room(struct simulator *s, struct dcp_arena *arena)
{
    uint32_t n = s->graph->node_count;

    s->out->begin_ns = dcp_arena_alloc(arena, n * sizeof(uint64_t));
    s->out->end_ns = dcp_arena_alloc(arena, n * sizeof(uint64_t));
    s->first_edge = numbers(s, n);
    s->missing = dcp_arena_alloc(&s->scratch, n * sizeof *s->missing);
    s->ready_ns = dcp_arena_alloc(&s->scratch, n * sizeof *s->ready_ns);
    s->heap = dcp_arena_alloc(&s->scratch, n * sizeof *s->heap);
    return s->out->begin_ns && s->out->end_ns && s->first_edge && s->missing &&
           s->ready_ns && s->heap;
}

static void
simulate(struct simulator *s)
{
    struct order order;
    struct dcp_live live;

    if (!order_create(s, &order) ||
        dcp_live_fill(s->graph, &s->scratch, &live)) {
        s->no_memory = true;
        return;
    }
    for (uint32_t i = 0; i < s->graph->node_count; i++) {
        s->missing[i]++; /* for being issued */
        order_node(s, &order, i);
    }
    if (s->no_memory)
        return;
    issue(s);
    while (s->heap_count)
        run_node(s, pop(s));
    s->out->step_ns = later(s->out->step_ns, s->host_ns);
    measure_memory(s, &live);
}

enum dcp_status
dcp_schedule_fill(const struct dcp_graph *graph, const struct dcp_cost *cost,
                  struct dcp_arena *arena, struct dcp_schedule *out)
{
    struct simulator s = { .graph = graph, .cost = cost, .out = out };

    memset(out, 0, sizeof *out);
    if (make_room(&s, arena))
        simulate(&s);
    else
        s.no_memory = true;
    dcp_arena_release(&s.scratch);
    return s.no_memory ? DCP_NOMEM : DCP_OK;
}
