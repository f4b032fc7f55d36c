/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "replay/build_trace.h"

#include "capture/lift.h"
#include "capture/role.h"
#include "replay/experiment.h"
#include "replay/lower.h"
#include "src/alloc.h"
#include "src/clock.h"

#include <stdlib.h>
#include <string.h>

/* --- which block is what -------------------------------------------------- */

/* Calls [first, first + count) of a log, the graph made of them (beginning
 * with call first + origin), and the blocks behind the log's buffers: 0 for
 * one that is not known or has been told. */
struct told_blocks {
    struct dcp_trace *trace;
    const struct dcp_log *log;
    const struct dcp_graph *graph;
    uint32_t first, count, origin;
    uint64_t number; /* of the graph, 0: it is in no trace */
    uint64_t *block;
};

static void
tell_block(struct told_blocks *t, uint32_t from, uint32_t buffer)
{
    if (from >= t->log->buffer_count || buffer >= t->graph->buffer_count ||
        !t->block[from])
        return;
    if (t->number)
        dcp_trace_event(t->trace, BLOCK_USE, NULL, 0, .block = t->block[from],
                        .graph = t->number, .buffer = buffer);
    dcp_trace_event(t->trace, ROLE, NULL, 0, .block = t->block[from],
                    .role = t->graph->buffers[buffer].role);
    t->block[from] = 0;
}

static void
tell_blocks(struct told_blocks *t)
{
    for (uint32_t n = 0; n < t->graph->node_count; n++) {
        const struct dcp_ir_node *ir = &t->graph->nodes[n];

        if (ir->call >= t->count)
            continue;
        const struct dcp_call *call =
            &t->log->calls[t->first + (ir->call + t->origin) % t->count];
        if (ir->op == DCP_OP_ALLOC || ir->op == DCP_OP_FREE)
            tell_block(t, call->memory.buffer, ir->memory.buffer);
        for (uint32_t r = 0; r < ir->ref_count; r++)
            for (uint32_t k = 0; k < call->ref_count; k++)
                if (call->refs[k].slot == ir->refs[r].slot)
                    tell_block(t, call->refs[k].buffer, ir->refs[r].buffer);
    }
}

static void
tell_path_blocks(const struct dcp_build_told *told,
                 const struct dcp_graph *graph)
{
    const struct dcp_log *log = &told->path->log;
    struct told_blocks t = {
        .trace = told->session->trace,
        .log = log,
        .graph = graph,
        .count = told->path->count,
        .origin = told->origin,
        .number = told->session->graphs,
        .block = dcp_malloc((log->buffer_count + 1) * sizeof *t.block),
    };

    if (!t.block)
        return;
    for (uint32_t b = 0; b < log->buffer_count; b++) {
        uint32_t alloc = log->buffers[b].alloc_call;
        t.block[b] = alloc == UINT32_MAX ? log->buffers[b].block
                                         : told->path->nodes[alloc]->block;
    }
    tell_blocks(&t);
    free(t.block);
}

void
dcp_build_tell_warm(struct dcp_session *s, const struct dcp_log *log,
                    const struct dcp_period *period)
{
    struct told_blocks t = {.trace = s->trace, .log = log};

    if (s->trace)
        t.block = dcp_malloc((log->buffer_count + 1) * sizeof *t.block);
    if (!t.block)
        return;
    for (uint32_t b = 0; b < log->buffer_count; b++)
        t.block[b] = log->buffers[b].block;
    /* The last iterations know best. */
    for (uint32_t i = period->iterations; i-- > 0;) {
        struct dcp_lift_options options = {
            .since = period->borders[i ? i - 1 : 0],
            .access = &dcp_experiment_table,
        };
        struct dcp_graph *graph = NULL;

        t.first = period->borders[i];
        t.count = period->borders[i + 1] - t.first;
        if (dcp_lift(log, t.first, t.first + t.count, &options, &graph) ==
                DCP_OK &&
            dcp_role_fill(graph) == DCP_OK) {
            t.graph = graph;
            tell_blocks(&t);
        }
        dcp_graph_destroy(graph);
    }
    free(t.block);
}

/* --- graphs --------------------------------------------------------------- */

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

void
dcp_build_tell_begin(struct dcp_build_told *told,
                     const struct dcp_graph *graph)
{
    if (told->session->trace)
        told->text = graph_text(NULL, graph, &told->bytes);
}

void
dcp_build_tell_pass(const char *name, bool changed, uint64_t ns,
                    const struct dcp_graph *graph, void *user)
{
    struct dcp_build_told *told = user;

    if (told->count == DCP_TOLD_PASSES)
        return;
    struct dcp_told_pass *p = &told->pass[told->count];
    p->text = graph_text(name, graph, &p->bytes);
    p->changed = changed;
    p->ns = ns;
    told->count += p->text != NULL;
}

/* A call's number in the graph. */
static uint64_t
node_of(const struct dcp_build_told *told, uint32_t call)
{
    uint32_t count = told->path->count;

    return (call + count - told->origin) % count;
}

/* How many segments the path has; they are told where `put` is set. */
static uint32_t
segments(const struct dcp_build_told *told, bool put)
{
    const struct dcp_segment *last = NULL;
    uint32_t count = 0;

    for (uint32_t i = 0; i < told->path->count; i++) {
        const struct dcp_segment *g = told->path->nodes[i]->segment;

        if (!g || g == last)
            continue;
        last = g;
        count++;
        if (put)
            dcp_trace_event(
                told->session->trace, SEGMENT, NULL, 0,
                .graph = told->session->graphs, .first = node_of(told, i),
                .last = node_of(told, g->nodes[g->count - 1]->depth - 1),
                .nodes = g->count, .build_ns = g->build_ns);
    }
    return count;
}

static void
tell_graph(struct dcp_build_told *told, const struct dcp_graph *graph)
{
    struct dcp_trace *trace = told->session->trace;
    uint64_t number = told->session->graphs;

    if (told->text)
        dcp_trace_event(trace, GRAPH, told->text, told->bytes,
                        .graph = number, .nodes = graph->node_count,
                        .segments = segments(told, false),
                        .arena_bytes = graph->arena_bytes,
                        .build_ns = dcp_now_ns() - told->begin);
    for (unsigned i = 0; i < told->count; i++) {
        struct dcp_told_pass *p = &told->pass[i];

        if (told->text)
            dcp_trace_event(trace, PASS, p->text, p->bytes, .graph = number,
                            .changed = p->changed, .ns = p->ns);
        free(p->text);
    }
    free(told->text);
    told->text = NULL;
    told->count = 0;
}

/* Each kernel once. */
static void
tell_kernels(const struct dcp_build_told *told)
{
    static uint64_t *done; /* bits, by kernel id */
    static uint32_t words;

    for (uint32_t i = 0; i < told->path->count; i++) {
        const struct dcp_call *call = &told->path->log.calls[i];

        if (call->op != DCP_CALL_LAUNCH)
            continue;
        const struct dcp_kernel *kernel = call->launch.kernel;
        uint32_t word = kernel->id / 64;
        if (word >= words) {
            uint32_t more = (word + 16) * 2;
            uint64_t *room = dcp_realloc(done, more * sizeof *room);
            if (!room)
                return;
            memset(room + words, 0, (more - words) * sizeof *room);
            done = room;
            words = more;
        }
        if (done[word] >> kernel->id % 64 & 1)
            continue;
        done[word] |= (uint64_t)1 << kernel->id % 64;
        dcp_trace_event(told->session->trace, KERNEL, kernel->name,
                        strlen(kernel->name), .kernel = kernel->id,
                        .params_bytes = kernel->bytes);
    }
}

static void
tell_times(const struct dcp_build_told *told)
{
    for (uint32_t i = 0; i < told->path->count; i++) {
        const struct dcp_node *node = told->path->nodes[i];

        if (node->gpu_ns > 1)
            dcp_trace_event(told->session->trace, NODE_TIME, NULL, 0,
                            .graph = told->session->graphs,
                            .node = node_of(told, i), .gpu_ns = node->gpu_ns);
    }
}

void
dcp_build_tell(struct dcp_build_told *told, const struct dcp_graph *graph)
{
    if (!told->session->trace)
        return;
    tell_kernels(told);
    tell_graph(told, graph);
    segments(told, true);
    tell_times(told);
    tell_path_blocks(told, graph);
}
