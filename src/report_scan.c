/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "src/report_scan.h"

#include "src/report.h"
#include "src/report_model.h"
#include "src/table.h"

#include <stdlib.h>
#include <string.h>

enum { LINES_KEPT = 100, REASONS_KEPT = 1000, CALLS_KEPT = 4096 };

struct dcp_model_stack {
    uint64_t number;
    char *text;
    UT_hash_handle hh;
};

static char *
payload_text(const struct dcp_trace_event *e)
{
    return dcp_xstrndup(e->payload, e->payload_bytes);
}

/* --- one function a kind of record --------------------------------------- */

static void
scan_start(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    size_t bytes = e->payload_bytes;

    rank->pid = e->START.pid;
    rank->rank = e->START.rank;
    rank->world = e->START.world;
    free(rank->program);
    rank->program = dcp_xcalloc(bytes + 1, 1);
    for (size_t i = 0; i < bytes; i++)
        rank->program[i] = e->payload[i] ? e->payload[i] : ' ';
    while (bytes && rank->program[bytes - 1] == ' ')
        rank->program[--bytes] = '\0';
}

static void
scan_config(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    free(rank->config);
    rank->config = payload_text(e);
}

static void
scan_device(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    free(rank->device);
    rank->device = payload_text(e);
    rank->device_facts = e->DEVICE;
}

static void
scan_stack(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    struct dcp_model_stack *stack;

    HASH_FIND(hh, rank->stacks, &e->STACK.stack, sizeof(uint64_t), stack);
    if (stack)
        return;
    stack = dcp_xcalloc(1, sizeof *stack);
    stack->number = e->STACK.stack;
    stack->text = payload_text(e);
    HASH_ADD(hh, rank->stacks, number, sizeof stack->number, stack);
    if (dcp_table_oom)
        dcp_die("out of memory");
}

static void
scan_kernel(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    (void)e;
    rank->kernel_count++;
}

static void
scan_iteration(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    rank->iterations =
        dcp_xgrow(rank->iterations, rank->iteration_count,
                  &rank->iteration_room, sizeof *rank->iterations);
    uint64_t end = e->ITERATION.end_ns;
    rank->iterations[rank->iteration_count++] = (struct dcp_model_iteration){
        .number = e->ITERATION.number,
        .begin_ns = e->ITERATION.begin_ns < end ? e->ITERATION.begin_ns : end,
        .end_ns = end,
        .calls = e->ITERATION.calls,
        .swallowed = e->ITERATION.swallowed,
        .updates = e->ITERATION.updates,
        .launches = e->ITERATION.launches,
        .variant = e->ITERATION.variant,
        .followed = e->ITERATION.followed != 0,
    };
}

static void
scan_unfollowed(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    for (size_t i = 0; i < rank->reason_count; i++)
        if (!strcmp(rank->reasons[i].text, e->payload)) {
            rank->reasons[i].count++;
            return;
        }
    if (rank->reason_count == REASONS_KEPT) {
        rank->reasons[REASONS_KEPT - 1].count++; /* the rest */
        return;
    }
    rank->reasons = dcp_xgrow(rank->reasons, rank->reason_count,
                              &rank->reason_room, sizeof *rank->reasons);
    rank->reasons[rank->reason_count++] = (struct dcp_model_reason){
        .text = rank->reason_count == REASONS_KEPT - 1
                    ? dcp_xprintf("other reasons")
                    : payload_text(e),
        .count = 1,
        .first_number = e->UNFOLLOWED.number,
        .first_position = e->UNFOLLOWED.position,
    };
}

static void
scan_phase(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    rank->phases = dcp_xgrow(rank->phases, rank->phase_count,
                             &rank->phase_room, sizeof *rank->phases);
    rank->phases[rank->phase_count++] =
        (struct dcp_model_phase){e->time_ns, e->PHASE.phase};
}

static struct dcp_model_graph *
graph_of(struct dcp_model_rank *rank, uint64_t number)
{
    struct dcp_model_graph *graph = dcp_model_graph_find(rank, number);

    if (graph)
        return graph;
    rank->graphs = dcp_xgrow(rank->graphs, rank->graph_count,
                             &rank->graph_room, sizeof *rank->graphs);
    graph = &rank->graphs[rank->graph_count++];
    *graph = (struct dcp_model_graph){.number = number};
    return graph;
}

static void
scan_graph(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    struct dcp_model_graph *graph = graph_of(rank, e->GRAPH.graph);

    graph->offset = e->offset;
    graph->time_ns = e->time_ns;
    graph->nodes = e->GRAPH.nodes;
    graph->segments = e->GRAPH.segments;
    graph->arena_bytes = e->GRAPH.arena_bytes;
    graph->build_ns = e->GRAPH.build_ns;
}

static void
scan_pass(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    struct dcp_model_graph *graph = graph_of(rank, e->PASS.graph);

    graph->passes = dcp_xgrow(graph->passes, graph->pass_count,
                              &graph->pass_room, sizeof *graph->passes);
    size_t name = strlen(e->payload);
    graph->passes[graph->pass_count++] = (struct dcp_model_pass){
        .name = payload_text(e),
        .offset = e->offset,
        .time_ns = e->time_ns,
        .ns = e->PASS.ns,
        .changed = e->PASS.changed != 0,
        .has_text = e->payload_bytes > name + 1,
    };
}

static void
scan_segment(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    rank->segments = dcp_xgrow(rank->segments, rank->segment_count,
                               &rank->segment_room, sizeof *rank->segments);
    rank->segments[rank->segment_count++] = (struct dcp_model_segment){
        .graph = e->SEGMENT.graph,
        .first = e->SEGMENT.first,
        .last = e->SEGMENT.last,
        .nodes = e->SEGMENT.nodes,
        .build_ns = e->SEGMENT.build_ns,
        .time_ns = e->time_ns,
    };
}

/* Samples of a node come in order of nodes, so the place after the last one
 * is tried before a new item is made. */
static void
scan_node_time(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    static size_t next;
    size_t n = rank->time_count;

    for (int tries = 0; tries < 2; tries++, next = 0)
        if (next < n && rank->times[next].graph == e->NODE_TIME.graph &&
            rank->times[next].node == e->NODE_TIME.node) {
            rank->times[next].ns += e->NODE_TIME.gpu_ns;
            rank->times[next++].count++;
            return;
        }
    rank->times =
        dcp_xgrow(rank->times, n, &rank->time_room, sizeof *rank->times);
    rank->times[n].graph = e->NODE_TIME.graph;
    rank->times[n].node = e->NODE_TIME.node;
    rank->times[n].ns = e->NODE_TIME.gpu_ns;
    rank->times[n].count = 1;
    rank->time_count++;
}

static void
scan_call(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    struct dcp_model_call *call = NULL;

    for (size_t i = 0; i < rank->call_count && !call; i++)
        if (rank->calls[i].id == e->CALL.symbol &&
            !strcmp(rank->calls[i].symbol, e->payload))
            call = &rank->calls[i];
    if (!call && rank->call_count == CALLS_KEPT)
        return;
    if (!call) {
        rank->calls = dcp_xgrow(rank->calls, rank->call_count,
                                &rank->call_room, sizeof *rank->calls);
        call = &rank->calls[rank->call_count++];
        call->symbol = payload_text(e);
        call->id = e->CALL.symbol;
    }
    call->count = e->CALL.count;
    call->total_ns = e->CALL.total_ns;
}

static void
scan_log(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    if (rank->line_total++ >= LINES_KEPT)
        return;
    rank->lines = dcp_xgrow(rank->lines, rank->line_count, &rank->line_room,
                            sizeof *rank->lines);
    rank->lines[rank->line_count++] = (struct dcp_model_line){
        e->time_ns, e->LOG.level, payload_text(e)};
}

static void
scan_verify(struct dcp_model_rank *rank, const struct dcp_trace_event *e)
{
    if (e->VERIFY.equal) {
        rank->verify_equal++;
        return;
    }
    rank->verify_unequal++;
    if (!rank->verify_text)
        rank->verify_text = payload_text(e);
}

/* Kinds that have no entry belong to the timeline, or say nothing more. */
static void (*const scans[DCP_TRACE_KIND_COUNT])(
    struct dcp_model_rank *, const struct dcp_trace_event *) = {
    [DCP_TRACE_START] = scan_start,
    [DCP_TRACE_CONFIG] = scan_config,
    [DCP_TRACE_DEVICE] = scan_device,
    [DCP_TRACE_STACK] = scan_stack,
    [DCP_TRACE_KERNEL] = scan_kernel,
    [DCP_TRACE_ITERATION] = scan_iteration,
    [DCP_TRACE_UNFOLLOWED] = scan_unfollowed,
    [DCP_TRACE_PHASE] = scan_phase,
    [DCP_TRACE_GRAPH] = scan_graph,
    [DCP_TRACE_PASS] = scan_pass,
    [DCP_TRACE_SEGMENT] = scan_segment,
    [DCP_TRACE_NODE_TIME] = scan_node_time,
    [DCP_TRACE_CALL] = scan_call,
    [DCP_TRACE_LOG] = scan_log,
    [DCP_TRACE_VERIFY] = scan_verify,
};

/* --- public -------------------------------------------------------------- */

void
dcp_model_scan(struct dcp_model_rank *rank)
{
    struct dcp_trace_reader *reader = rank->reader;
    struct dcp_trace_event e;

    for (unsigned n = 0; dcp_trace_reader_next(reader, &e); n++) {
        if (e.time_ns > rank->end_ns)
            rank->end_ns = e.time_ns;
        if (scans[e.kind])
            scans[e.kind](rank, &e);
        if (n % 4096 == 0)
            dcp_progress("reading", dcp_trace_reader_offset(reader),
                         dcp_trace_reader_size(reader));
    }
}

const char *
dcp_model_stack_text(const struct dcp_model_rank *rank, uint64_t number)
{
    struct dcp_model_stack *stack;

    HASH_FIND(hh, rank->stacks, &number, sizeof number, stack);
    return stack ? stack->text : NULL;
}

static void
release_graph(struct dcp_model_graph *graph)
{
    for (size_t i = 0; i < graph->pass_count; i++)
        free(graph->passes[i].name);
    free(graph->passes);
    free(graph->gpu_ns);
    dcp_graph_destroy(graph->ir);
}

void
dcp_model_scan_release(struct dcp_model_rank *rank)
{
    struct dcp_model_stack *stack, *next;

    HASH_ITER(hh, rank->stacks, stack, next) {
        HASH_DEL(rank->stacks, stack);
        free(stack->text);
        free(stack);
    }
    for (size_t i = 0; i < rank->reason_count; i++)
        free(rank->reasons[i].text);
    for (size_t i = 0; i < rank->graph_count; i++)
        release_graph(&rank->graphs[i]);
    for (size_t i = 0; i < rank->call_count; i++)
        free(rank->calls[i].symbol);
    for (size_t i = 0; i < rank->line_count; i++)
        free(rank->lines[i].text);
    free(rank->reasons);
    free(rank->graphs);
    free(rank->calls);
    free(rank->lines);
    free(rank->iterations);
    free(rank->phases);
    free(rank->segments);
    free(rank->times);
    free(rank->program);
    free(rank->device);
    free(rank->config);
    free(rank->verify_text);
}
