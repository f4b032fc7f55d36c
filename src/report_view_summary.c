/* SPDX-License-Identifier: Apache-2.0 */
/* What ran, how much of it was replayed and what that brought. */
#include "config.h"

#include "src/report.h"
#include "src/report_model.h"
#include "src/report_out.h"
#include "src/report_timeline.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPEC(array) (array), sizeof(array) / sizeof *(array)

enum { CHART_POINTS = 1500 };

/* Iterations from the first followed one on. */
static uint64_t
after_warmup(const struct dcp_model_rank *rank)
{
    return rank->iteration_count - rank->first_followed;
}

static const char *
end_text(const struct dcp_model_rank *rank)
{
    if (rank->end == DCP_TRACE_WHOLE)
        return "whole";
    if (rank->writer)
        return "the program still runs";
    if (rank->end == DCP_TRACE_CUT)
        return "cut off: the program was killed, or ended without notice";
    if (rank->end == DCP_TRACE_PARTIAL)
        return "the file was cut off within a record";
    return "damaged: what comes before the damage is shown";
}

static const char *
program_text(const struct dcp_model_rank *rank)
{
    return rank->program && *rank->program ? rank->program : NULL;
}

/* --- several ranks side by side ------------------------------------------ */

static void
show_ranks(const struct dcp_model *model, struct dcp_out *out)
{
    static const struct dcp_column columns[] = {
        {"rank", "rank", false},
        {"iterations", "iterations", false},
        {"followed", "followed", false},
        {"share", "share after warm-up", false},
        {"eager_ns", "step, recorded", false},
        {"replayed_ns", "step, replayed", false},
        {"times_faster", "times faster", false},
        {"peak_bytes", "peak memory", false},
        {"host_bytes", "in host memory", false},
        {"trace", "trace", false},
    };
    struct dcp_table table = {"ranks", "Ranks side by side", SPEC(columns),
                              NULL, 0, 0};

    for (size_t i = 0; i < model->rank_count; i++) {
        const struct dcp_model_rank *r = &model->ranks[i];
        dcp_table_add(&table, (struct dcp_cell[]){
            dcp_cell_text(r->label),
            dcp_cell_count(r->iteration_count),
            dcp_cell_count(r->followed),
            dcp_cell_share((double)r->followed, (double)after_warmup(r)),
            dcp_cell_ns(r->eager_ns),
            dcp_cell_ns(r->replayed_ns),
            dcp_cell_ratio((double)r->eager_ns, (double)r->replayed_ns),
            dcp_cell_bytes(r->timeline->peak.total),
            dcp_cell_bytes(r->timeline->host_peak),
            dcp_cell_text(end_text(r)),
        });
    }
    dcp_out_section(out, "ranks", "All ranks", NULL);
    dcp_out_table(out, &table);
}

/* --- one rank ------------------------------------------------------------ */

/* The library says PHASE when it begins to record; one that only watches, or
 * has not come to that, does not. */
static const char *
config_text(const struct dcp_model_rank *rank)
{
    if (!rank->config)
        return "none (watching only)";
    return rank->phase_count ? "from DC_CONFIG"
                             : "from DC_CONFIG (watching only)";
}

static void
show_run(const struct dcp_model_rank *rank, struct dcp_out *out)
{
    time_t seconds = (time_t)(rank->wall_ns / 1000000000u);
    char when[64] = "";
    struct tm local;

    if (localtime_r(&seconds, &local))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S %Z", &local);
    dcp_out_fact(out, "program", "program",
                 dcp_cell_text(program_text(rank)));
    dcp_out_fact(out, "started", "started", dcp_cell_text(when));
    dcp_out_fact(out, "pid", "process", dcp_cell_count(rank->pid));
    dcp_out_fact(out, "world", "ranks", dcp_cell_count(rank->world));
    dcp_out_fact(out, "device", "device", dcp_cell_text(rank->device));
    if (rank->device_facts.total_bytes)
        dcp_out_fact(out, "device_bytes", "device memory",
                     dcp_cell_bytes(rank->device_facts.total_bytes));
    if (rank->device_facts.budget_bytes)
        dcp_out_fact(out, "budget_bytes", "memory budget",
                     dcp_cell_bytes(rank->device_facts.budget_bytes));
    dcp_out_fact(out, "config", "configuration",
                 dcp_cell_text(config_text(rank)));
    dcp_out_fact(out, "trace", "trace", dcp_cell_text(end_text(rank)));
    dcp_out_fact(out, "trace_ns", "traced for",
                 dcp_cell_ns(rank->end_ns - rank->start_ns));
}

static void
show_iterations(const struct dcp_model_rank *rank, struct dcp_out *out)
{
    uint64_t n = rank->iteration_count, first = rank->first_followed;

    dcp_out_fact(out, "iterations", "iterations", dcp_cell_count(n));
    dcp_out_fact(out, "followed", "followed (replayed)",
                 dcp_cell_count(rank->followed));
    dcp_out_fact(out, "share", "share followed",
                 dcp_cell_share((double)rank->followed, (double)n));
    dcp_out_fact(out, "share_after_warmup", "share followed after warm-up",
                 dcp_cell_share((double)rank->followed,
                                (double)after_warmup(rank)));
    if (rank->followed)
        dcp_out_fact(out, "first_followed", "first replayed iteration",
                     dcp_cell_count(rank->iterations[first].number));
    if (rank->followed && rank->iterations[first].begin_ns > rank->start_ns)
        dcp_out_fact(out, "first_followed_ns", "begun after",
                     dcp_cell_ns(rank->iterations[first].begin_ns -
                                 rank->start_ns));
    dcp_out_fact(out, "library_ns", "analysis before it",
                 dcp_cell_ns(rank->library_ns));
    dcp_out_fact(out, "eager_ns", "step, recorded eagerly (median)",
                 dcp_cell_ns(rank->eager_ns));
    dcp_out_fact(out, "replayed_ns", "step, replayed (median)",
                 dcp_cell_ns(rank->replayed_ns));
    dcp_out_fact(out, "times_faster", "times faster",
                 dcp_cell_ratio((double)rank->eager_ns,
                                (double)rank->replayed_ns));
    if (!rank->followed)
        return;
    dcp_out_fact(out, "swallowed", "driver calls swallowed",
                 dcp_cell_count(rank->swallowed));
    dcp_out_fact(out, "swallowed_share", "share of calls swallowed",
                 dcp_cell_share((double)rank->swallowed,
                                (double)rank->replayed_calls));
    dcp_out_fact(out, "updates", "argument updates",
                 dcp_cell_count(rank->updates));
    dcp_out_fact(out, "launches", "graph launches",
                 dcp_cell_count(rank->launches));
}

static void
show_memory_facts(const struct dcp_model_rank *rank, struct dcp_out *out)
{
    dcp_out_fact(out, "peak_bytes", "peak memory",
                 dcp_cell_bytes(rank->timeline->peak.total));
    if (rank->timeline->reserved_peak)
        dcp_out_fact(out, "reserved_peak_bytes", "peak, backed by the device",
                     dcp_cell_bytes(rank->timeline->reserved_peak));
    dcp_out_fact(out, "host_peak_bytes", "peak, put into host memory",
                 dcp_cell_bytes(rank->timeline->host_peak));
    if (rank->verify_equal || rank->verify_unequal)
        dcp_out_fact(out, "verify_equal", "checks: equal bit for bit",
                     dcp_cell_count(rank->verify_equal));
    if (rank->verify_unequal)
        dcp_out_fact(out, "verify_unequal", "checks: unequal",
                     dcp_cell_count(rank->verify_unequal));
    if (rank->verify_text)
        dcp_out_note(out, "first difference: %s", rank->verify_text);
}

static void
show_reasons(const struct dcp_model_rank *rank, struct dcp_out *out,
             unsigned top)
{
    static const struct dcp_column columns[] = {
        {"times", "times", false},
        {"first_iteration", "first in iteration", false},
        {"first_call", "at call", false},
        {"reason", "reason", false},
    };
    struct dcp_table table = {"unfollowed", "Why iterations were not followed",
                              SPEC(columns), NULL, 0, 0};
    uint64_t told = 0, all = rank->iteration_count - rank->followed;

    for (size_t i = 0; i < rank->reason_count; i++) {
        const struct dcp_model_reason *r = &rank->reasons[i];
        told += r->count;
        if (top == 0 || i < top)
            dcp_table_add(&table, (struct dcp_cell[]){
                dcp_cell_count(r->count), dcp_cell_count(r->first_number),
                dcp_cell_count(r->first_position), dcp_cell_text(r->text)});
    }
    if (told < all)
        dcp_table_add(&table, (struct dcp_cell[]){
            dcp_cell_count(all - told), dcp_cell_none(), dcp_cell_none(),
            dcp_cell_text("watched or recorded, nothing to follow yet")});
    dcp_out_table(out, &table);
}

static void
show_graphs(const struct dcp_model_rank *rank, struct dcp_out *out)
{
    static const struct dcp_column columns[] = {
        {"graph", "graph", false},
        {"nodes", "nodes", false},
        {"segments", "segments", false},
        {"followed", "iterations", false},
        {"planned_bytes", "planned memory", false},
        {"gpu_ns", "GPU time", false},
        {"lift_ns", "analysed in", false},
        {"pass_ns", "passes in", false},
        {"build_ns", "built in", false},
    };
    struct dcp_table table = {"graphs", "Recorded graphs", SPEC(columns), NULL,
                              0, 0};

    for (size_t g = 0; g < rank->graph_count; g++) {
        const struct dcp_model_graph *graph = &rank->graphs[g];
        uint64_t passes = 0, segments = 0;
        for (size_t p = 0; p < graph->pass_count; p++)
            passes += graph->passes[p].ns;
        for (size_t s = 0; s < rank->segment_count; s++)
            if (rank->segments[s].graph == graph->number)
                segments += rank->segments[s].build_ns;
        dcp_table_add(&table, (struct dcp_cell[]){
            dcp_cell_count(graph->number), dcp_cell_count(graph->nodes),
            dcp_cell_count(graph->segments), dcp_cell_count(graph->followed),
            dcp_cell_bytes(graph->arena_bytes), dcp_cell_ns(graph->gpu_total),
            dcp_cell_ns(graph->build_ns), dcp_cell_ns(passes),
            dcp_cell_ns(segments)});
    }
    dcp_out_table(out, &table);
}

static void
show_log(const struct dcp_model_rank *rank, struct dcp_out *out)
{
    static const struct dcp_column columns[] = {
        {"time_ns", "time", false},
        {"line", "line", false},
    };
    struct dcp_table table = {"log", "What the library logged", SPEC(columns),
                              NULL, 0, 0};

    for (size_t i = 0; i < rank->line_count; i++) {
        uint64_t t = rank->lines[i].time_ns;
        dcp_table_add(&table, (struct dcp_cell[]){
            dcp_cell_ns(t > rank->start_ns ? t - rank->start_ns : 0),
            dcp_cell_text(rank->lines[i].text)});
    }
    dcp_out_table(out, &table);
    if (rank->line_total > rank->line_count)
        dcp_out_note(out, "and %llu lines more",
                     (unsigned long long)(rank->line_total -
                                          rank->line_count));
}

/* One point an iteration; of long runs the slowest of each stretch. */
static void
show_step_chart(const struct dcp_model_rank *rank, struct dcp_out *out)
{
    static const char *const names[] = {"eager", "replayed"};
    size_t n = rank->iteration_count;
    size_t points = n < CHART_POINTS ? n : CHART_POINTS;
    uint64_t *x = dcp_xcalloc(points, sizeof *x);
    uint64_t *y = dcp_xcalloc(2 * points, sizeof *y);

    for (size_t p = 0; p < points; p++) {
        y[2 * p] = y[2 * p + 1] = DCP_NO_VALUE;
        x[p] = rank->iterations[p * n / points].number;
        for (size_t i = p * n / points; i < (p + 1) * n / points; i++) {
            const struct dcp_model_iteration *it = &rank->iterations[i];
            uint64_t *at = &y[2 * p + it->followed];
            uint64_t ns = it->end_ns - it->begin_ns;
            if (*at == DCP_NO_VALUE || ns > *at)
                *at = ns;
        }
    }
    dcp_out_chart(out, &(struct dcp_chart){
        .key = "steps", .title = "Step times", .rank = rank->label,
        .look = DCP_CHART_POINTS, .x_kind = DCP_CELL_COUNT,
        .y_kind = DCP_CELL_NS, .series = 2, .names = names,
        .samples = points, .x = x, .y = y});
    free(x);
    free(y);
}

/* --- slices of time ------------------------------------------------------ */

static double
since(const struct dcp_model_rank *rank, uint64_t ns)
{
    return ns > rank->start_ns ? (double)(ns - rank->start_ns) / 1000 : 0;
}

static void
draw_iterations(const struct dcp_model_rank *rank, struct dcp_out *out,
                double base)
{
    for (size_t i = 0; i < rank->iteration_count; i++) {
        const struct dcp_model_iteration *it = &rank->iterations[i];
        char *name = dcp_xprintf("%llu %s", (unsigned long long)it->number,
                                 it->followed ? "replayed" : "eager");
        char *detail = dcp_xprintf(
            "%llu calls, %llu swallowed, %llu updates, %llu launches",
            (unsigned long long)it->calls, (unsigned long long)it->swallowed,
            (unsigned long long)it->updates,
            (unsigned long long)it->launches);
        dcp_out_slice(out, &(struct dcp_slice){
            rank->index, "iterations", name,
            base + since(rank, it->begin_ns),
            (double)(it->end_ns - it->begin_ns) / 1000, detail});
        free(name);
        free(detail);
    }
}

static void
draw_build(const struct dcp_model_rank *rank, struct dcp_out *out, double base,
           uint64_t end_ns, uint64_t ns, const char *name)
{
    dcp_out_slice(out, &(struct dcp_slice){
        rank->index, "library", name,
        base + since(rank, end_ns > ns ? end_ns - ns : 0),
        (double)ns / 1000, NULL});
}

static void
draw_library(const struct dcp_model_rank *rank, struct dcp_out *out,
             double base)
{
    for (size_t g = 0; g < rank->graph_count; g++) {
        const struct dcp_model_graph *graph = &rank->graphs[g];
        draw_build(rank, out, base, graph->time_ns, graph->build_ns,
                   "analyse");
        for (size_t p = 0; p < graph->pass_count; p++)
            draw_build(rank, out, base, graph->passes[p].time_ns,
                       graph->passes[p].ns, graph->passes[p].name);
    }
    for (size_t s = 0; s < rank->segment_count; s++)
        draw_build(rank, out, base, rank->segments[s].time_ns,
                   rank->segments[s].build_ns, "build segment");
}

void
dcp_view_summary(const struct dcp_model *model, struct dcp_out *out,
                 const struct dcp_report_options *options)
{
    if (model->rank_count > 1)
        show_ranks(model, out);
    for (size_t i = 0; i < model->rank_count; i++) {
        const struct dcp_model_rank *rank = &model->ranks[i];
        double base = dcp_model_base_us(model, rank);
        dcp_out_section(out, "summary", "Summary", rank->label);
        dcp_out_process(out, rank->index, rank->label);
        show_run(rank, out);
        show_iterations(rank, out);
        show_memory_facts(rank, out);
        show_step_chart(rank, out);
        show_reasons(rank, out, options->top);
        show_graphs(rank, out);
        show_log(rank, out);
        if (rank->config && *rank->config)
            dcp_out_lines(out, "config", "Configuration in force", "json",
                          rank->config, strlen(rank->config));
        draw_iterations(rank, out, base);
        draw_library(rank, out, base);
    }
}
