/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels by count and GPU time, driver calls by host time. */
#include "config.h"

#include "src/report.h"
#include "src/report_model.h"
#include "src/report_out.h"
#include "src/table.h"

#include <stdlib.h>
#include <string.h>

#define SPEC(array) (array), sizeof(array) / sizeof *(array)

/* All nodes of one name in the iterations that were followed. */
struct op {
    char *name;
    uint64_t in_graph; /* in one iteration, of the graph that has most */
    uint64_t count, gpu_ns;
    uint64_t here;     /* in the graph at hand */
    UT_hash_handle hh;
};

/* The name of a node that does work; NULL for others. `room` may be used. */
static const char *
op_name(const struct dcp_graph *ir, const struct dcp_ir_node *node,
        char room[64])
{
    if (!(dcp_op_properties(node->op) & DCP_IS_WORK))
        return NULL;
    if (node->op == DCP_OP_LAUNCH)
        return node->launch.kernel < ir->kernel_count
                   ? dcp_demangle(ir->kernels[node->launch.kernel].name)
                   : "(unknown kernel)";
    if (node->op != DCP_OP_COPY)
        snprintf(room, 64, "(%s)", dcp_op_text(node->op));
    else
        snprintf(room, 64, "(copy, %s to %s)",
                 dcp_ir_place_text(node->copy.from),
                 dcp_ir_place_text(node->copy.to));
    return room;
}

static struct op *
op_of(struct op **ops, const char *name)
{
    struct op *op;

    HASH_FIND_STR(*ops, name, op);
    if (op)
        return op;
    op = dcp_xcalloc(1, sizeof *op);
    op->name = dcp_xstrndup(name, strlen(name));
    HASH_ADD_KEYPTR(hh, *ops, op->name, strlen(op->name), op);
    if (dcp_table_oom)
        dcp_die("out of memory");
    return op;
}

/* A graph that nobody followed counts as one iteration, if none was. */
static void
count_graph(struct op **ops, const struct dcp_model_graph *graph,
            uint64_t times)
{
    char room[64];

    for (struct op *op = *ops; op; op = op->hh.next)
        op->here = 0;
    for (uint32_t i = 0; graph->ir && i < graph->ir->node_count; i++) {
        const char *name = op_name(graph->ir, &graph->ir->nodes[i], room);
        if (!name)
            continue;
        struct op *op = op_of(ops, name);
        op->count += times;
        op->gpu_ns += graph->gpu_ns[i] * times;
        if (++op->here > op->in_graph)
            op->in_graph = op->here;
    }
}

static int
compare_ops(const struct op *a, const struct op *b)
{
    if (a->gpu_ns != b->gpu_ns)
        return a->gpu_ns > b->gpu_ns ? -1 : 1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void
draw_ops(struct op *ops, struct dcp_out *out, unsigned top)
{
    static const struct dcp_column columns[] = {
        {"count", "launches", false},
        {"in_iteration", "in an iteration", false},
        {"gpu_ns", "GPU time", false},
        {"share", "share", false},
        {"mean_ns", "mean", false},
        {"name", "kernel", false},
    };
    struct dcp_table table = {"kernels", "Work on the GPU, in replayed "
                              "iterations", SPEC(columns), NULL, 0, 0};
    uint64_t total = 0;
    size_t row = 0;

    for (struct op *op = ops; op; op = op->hh.next)
        total += op->gpu_ns;
    for (struct op *op = ops; op; op = op->hh.next, row++)
        if (top == 0 || row < top)
            dcp_table_add(&table, (struct dcp_cell[]){
                dcp_cell_count(op->count), dcp_cell_count(op->in_graph),
                dcp_cell_ns(op->gpu_ns),
                dcp_cell_share((double)op->gpu_ns, (double)total),
                dcp_cell_ns(op->count ? op->gpu_ns / op->count : 0),
                dcp_cell_text(op->name)});
    dcp_out_table(out, &table);
    if (top && row > top)
        dcp_out_note(out, "and %zu more; --top 0 shows all", row - top);
    if (row && total == 0)
        dcp_out_note(out, "no node times were measured");
}

static void
show_kernels(const struct dcp_model_rank *rank, struct dcp_out *out,
             unsigned top)
{
    struct op *ops = NULL, *op, *next;

    for (size_t g = 0; g < rank->graph_count; g++)
        if (rank->followed == 0 || rank->graphs[g].followed)
            count_graph(&ops, &rank->graphs[g],
                        rank->followed ? rank->graphs[g].followed : 1);
    HASH_SORT(ops, compare_ops);
    dcp_out_fact(out, "kernels", "different kernels launched",
                 dcp_cell_count(rank->kernel_count));
    if (!ops)
        dcp_out_note(out, "no graph was recorded: nothing is known of what "
                     "ran on the GPU");
    else if (rank->followed == 0)
        dcp_out_note(out, "no iteration was replayed: counts are those of "
                     "one recorded iteration");
    draw_ops(ops, out, top);
    HASH_ITER(hh, ops, op, next) {
        HASH_DEL(ops, op);
        free(op->name);
        free(op);
    }
}

static void
show_calls(const struct dcp_model_rank *rank, struct dcp_out *out,
           unsigned top)
{
    static const struct dcp_column columns[] = {
        {"count", "calls", false},
        {"total_ns", "host time", false},
        {"share", "share", false},
        {"mean_ns", "mean", false},
        {"symbol", "driver call", false},
    };
    struct dcp_table table = {"calls", "Driver calls", SPEC(columns), NULL, 0,
                              0};
    uint64_t total = 0;

    for (size_t i = 0; i < rank->call_count; i++)
        total += rank->calls[i].total_ns;
    for (size_t i = 0; i < rank->call_count && (top == 0 || i < top); i++) {
        const struct dcp_model_call *c = &rank->calls[i];
        dcp_table_add(&table, (struct dcp_cell[]){
            dcp_cell_count(c->count), dcp_cell_ns(c->total_ns),
            dcp_cell_share((double)c->total_ns, (double)total),
            dcp_cell_ns(c->count ? c->total_ns / c->count : 0),
            dcp_cell_text(c->symbol)});
    }
    dcp_out_table(out, &table);
    if (top && rank->call_count > top)
        dcp_out_note(out, "and %zu more; --top 0 shows all",
                     rank->call_count - top);
}

/* The measured nodes of a graph one after another on their streams, from the
 * start of the first iteration that followed it. */
static void
draw_nodes(const struct dcp_model_rank *rank,
           const struct dcp_model_graph *graph, struct dcp_out *out,
           double base)
{
    double at = -1;
    char room[64];

    for (size_t i = 0; i < rank->iteration_count && at < 0; i++)
        if (rank->iterations[i].followed &&
            rank->iterations[i].variant == graph->number &&
            rank->iterations[i].begin_ns >= rank->start_ns)
            at = base + (double)(rank->iterations[i].begin_ns -
                                 rank->start_ns) / 1000;
    for (uint32_t i = 0; graph->ir && at >= 0 && i < graph->ir->node_count;
         i++) {
        const struct dcp_ir_node *node = &graph->ir->nodes[i];
        const char *name = op_name(graph->ir, node, room);
        if (!name || graph->gpu_ns[i] == 0)
            continue;
        char *track = dcp_xprintf("graph %llu, stream %u, by measured times",
                                  (unsigned long long)graph->number,
                                  node->stream);
        dcp_out_slice(out, &(struct dcp_slice){
            rank->index, track, name, at,
            (double)graph->gpu_ns[i] / 1000, NULL});
        at += (double)graph->gpu_ns[i] / 1000;
        free(track);
    }
}

void
dcp_view_ops(const struct dcp_model *model, struct dcp_out *out,
             const struct dcp_report_options *options)
{
    for (size_t i = 0; i < model->rank_count; i++) {
        const struct dcp_model_rank *rank = &model->ranks[i];
        dcp_out_section(out, "ops", "Operations", rank->label);
        show_kernels(rank, out, options->top);
        show_calls(rank, out, options->top);
        for (size_t g = 0; g < rank->graph_count && out->ops->slice; g++)
            draw_nodes(rank, &rank->graphs[g], out,
                       dcp_model_base_us(model, rank));
    }
}
