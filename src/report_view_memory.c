/* SPDX-License-Identifier: Apache-2.0 */
/* Memory by role over time, the peak and who held it. */
#include "config.h"

#include "src/report.h"
#include "src/report_model.h"
#include "src/report_out.h"
#include "src/report_timeline.h"

#include <stdlib.h>
#include <string.h>

#define SPEC(array) (array), sizeof(array) / sizeof *(array)

/* Roles from the bottom of a stack to its top: what lives long comes first. */
static const uint8_t order[] = {
    DCP_ROLE_PARAM, DCP_ROLE_STATE, DCP_ROLE_GRAD, DCP_ROLE_STAT,
    DCP_ROLE_INPUT, DCP_ROLE_ACT,   DCP_ROLE_WORK, DCP_ROLE_UNKNOWN,
};
enum { ROLES = sizeof order };
_Static_assert((int)ROLES == (int)DCP_ROLE_COUNT, "every role has its place");

static const char *
role_title(uint8_t role)
{
    static const char *const titles[DCP_ROLE_COUNT] = {
        [DCP_ROLE_UNKNOWN] = "not known",
        [DCP_ROLE_PARAM] = "parameters",
        [DCP_ROLE_STATE] = "optimizer states",
        [DCP_ROLE_GRAD] = "gradients",
        [DCP_ROLE_INPUT] = "inputs",
        [DCP_ROLE_STAT] = "statistics",
        [DCP_ROLE_ACT] = "activations",
        [DCP_ROLE_WORK] = "workspaces",
    };

    return titles[role < DCP_ROLE_COUNT ? role : 0];
}

/* --- several ranks ------------------------------------------------------- */

static void
show_ranks(const struct dcp_model *model, struct dcp_out *out)
{
    struct dcp_column columns[3 + ROLES] = {
        {"rank", "rank", false},
        {"peak_bytes", "peak", false},
        {"host_bytes", "in host memory", false},
    };
    struct dcp_table table = {"rank_memory", "Peak by role, ranks side by side",
                              SPEC(columns), NULL, 0, 0};

    for (int i = 0; i < ROLES; i++)
        columns[3 + i] = (struct dcp_column){dcp_role_text(order[i]),
                                             role_title(order[i]), false};
    for (size_t r = 0; r < model->rank_count; r++) {
        const struct dcp_timeline *t = model->ranks[r].timeline;
        struct dcp_cell cells[3 + ROLES] = {
            dcp_cell_text(model->ranks[r].label),
            dcp_cell_bytes(t->peak.total), dcp_cell_bytes(t->host_peak)};
        for (int i = 0; i < ROLES; i++)
            cells[3 + i] = dcp_cell_bytes(t->peak.role[order[i]]);
        dcp_table_add(&table, cells);
    }
    dcp_out_section(out, "rank-memory", "Memory of all ranks", NULL);
    dcp_out_table(out, &table);
}

/* --- one rank ------------------------------------------------------------ */

static void
show_facts(const struct dcp_model_rank *rank, struct dcp_out *out)
{
    const struct dcp_timeline *t = rank->timeline;

    dcp_out_fact(out, "peak_bytes", "peak", dcp_cell_bytes(t->peak.total));
    dcp_out_fact(out, "peak_ns", "reached after", dcp_cell_ns(t->peak_ns));
    if (t->peak_graph)
        dcp_out_fact(out, "peak_graph", "while following graph",
                     dcp_cell_count(t->peak_graph));
    if (t->peak_graph)
        dcp_out_fact(out, "peak_node", "at its node",
                     dcp_cell_count(t->peak_node));
    if (t->used_peak)
        dcp_out_fact(out, "used_peak_bytes", "peak, asked for (sampled)",
                     dcp_cell_bytes(t->used_peak));
    if (t->reserved_peak)
        dcp_out_fact(out, "reserved_peak_bytes", "peak, backed by the device",
                     dcp_cell_bytes(t->reserved_peak));
    dcp_out_fact(out, "host_peak_bytes", "peak, put into host memory",
                 dcp_cell_bytes(t->host_peak));
    if (rank->device_facts.budget_bytes)
        dcp_out_fact(out, "budget_bytes", "memory budget",
                     dcp_cell_bytes(rank->device_facts.budget_bytes));
    dcp_out_fact(out, "blocks", "blocks allocated in all",
                 dcp_cell_count(t->blocks));
}

static void
show_roles(const struct dcp_model_rank *rank, struct dcp_out *out)
{
    static const struct dcp_column columns[] = {
        {"role", "role", false},
        {"bytes", "bytes", false},
        {"share", "share", false},
    };
    struct dcp_table table = {"roles", "Peak by role", SPEC(columns), NULL, 0,
                              0};
    const struct dcp_level *peak = &rank->timeline->peak;

    for (int i = 0; i < ROLES; i++)
        if (peak->role[order[i]])
            dcp_table_add(&table, (struct dcp_cell[]){
                dcp_cell_text(role_title(order[i])),
                dcp_cell_bytes(peak->role[order[i]]),
                dcp_cell_share((double)peak->role[order[i]],
                               (double)peak->total)});
    dcp_out_table(out, &table);
}

static void
put_level(uint64_t *y, const struct dcp_level *level)
{
    for (int i = 0; i < ROLES; i++)
        y[i] = level->role[order[i]];
}

static unsigned
make_marks(const struct dcp_model_rank *rank, struct dcp_mark *marks,
           unsigned room)
{
    static const char *const names[] = {"watch", "record", "follow"};
    unsigned count = 0;

    for (size_t i = 0; i < rank->phase_count && count < room; i++)
        if (rank->phases[i].time_ns > rank->start_ns &&
            rank->phases[i].phase < 3)
            marks[count++] = (struct dcp_mark){
                rank->phases[i].time_ns - rank->start_ns,
                names[rank->phases[i].phase]};
    return count;
}

static void
show_timeline(const struct dcp_model_rank *rank, struct dcp_out *out,
              double base)
{
    enum { SERIES = ROLES + 3, MARKS = 64 };
    const struct dcp_timeline *t = rank->timeline;
    const char *names[SERIES];
    struct dcp_mark marks[MARKS];
    uint64_t *x = dcp_xcalloc(t->slot_count, sizeof *x);
    uint64_t *y = dcp_xcalloc(t->slot_count * SERIES, sizeof *y);
    size_t n = 0;

    for (int i = 0; i < ROLES; i++)
        names[i] = dcp_role_text(order[i]);
    names[ROLES] = "used";
    names[ROLES + 1] = "reserved";
    names[ROLES + 2] = "host";
    for (size_t i = 0; i < t->slot_count; i++) {
        const struct dcp_timeline_slot *slot = &t->slots[i];
        uint64_t *here = y + n * SERIES;
        x[n] = i * t->slot_ns;
        put_level(here, &slot->level);
        here[ROLES] = slot->used;
        here[ROLES + 1] = slot->reserved;
        here[ROLES + 2] = slot->level.host;
        /* A sample holds until the next one; only the last may repeat it. */
        n += n == 0 || i + 1 == t->slot_count ||
             memcmp(here, here - SERIES, SERIES * sizeof *here) != 0;
    }
    dcp_out_chart(out, &(struct dcp_chart){
        .key = "memory", .title = "Memory by role", .rank = rank->label,
        .look = DCP_CHART_AREAS, .x_kind = DCP_CELL_NS,
        .y_kind = DCP_CELL_BYTES, .areas = ROLES, .series = SERIES,
        .names = names, .samples = n, .x = x, .y = y,
        .start_us = base, .marks = marks,
        .mark_count = make_marks(rank, marks, MARKS)});
    free(x);
    free(y);
}

/* Within one iteration: what lives throughout is left out. */
static void
show_curve(const struct dcp_model_rank *rank, size_t index,
           struct dcp_out *out)
{
    const struct dcp_model_graph *graph = &rank->graphs[index];
    const struct dcp_curve *curve = &rank->timeline->curves[index];
    const char *names[ROLES];
    uint64_t *x = dcp_xcalloc(curve->count, sizeof *x);
    uint64_t *y = dcp_xcalloc(curve->count * ROLES, sizeof *y);

    for (int i = 0; i < ROLES; i++)
        names[i] = dcp_role_text(order[i]);
    for (size_t p = 0; p < curve->count; p++) {
        x[p] = curve->points[p].node;
        put_level(y + p * ROLES, &curve->points[p].level);
    }
    char *key = dcp_xprintf("graph_%llu_memory",
                            (unsigned long long)graph->number);
    char *title = dcp_xprintf("Within an iteration of graph %llu: what is "
                              "allocated in it, by node",
                              (unsigned long long)graph->number);
    dcp_out_chart(out, &(struct dcp_chart){
        .key = key, .title = title, .rank = rank->label,
        .look = DCP_CHART_AREAS, .x_kind = DCP_CELL_COUNT,
        .y_kind = DCP_CELL_BYTES, .areas = ROLES, .series = ROLES,
        .names = names, .samples = curve->count, .x = x, .y = y});
    free(key);
    free(title);
    free(x);
    free(y);
}

/* Frames with readable names, one a line. The caller frees. */
static char *
readable_stack(const char *frames)
{
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);

    if (!file)
        dcp_die("out of memory");
    while (*frames) {
        size_t n = strcspn(frames, "\n");
        size_t symbol = strcspn(frames, "+\n");
        char *name = dcp_xstrndup(frames, symbol);
        fprintf(file, "%s%.*s", dcp_demangle(name), (int)(n - symbol),
                frames + symbol);
        free(name);
        frames += n + (frames[n] == '\n');
        if (*frames)
            fputc('\n', file);
    }
    if (fclose(file))
        dcp_die("out of memory");
    return text;
}

static void
show_holders(const struct dcp_model_rank *rank, struct dcp_out *out,
             const char *key, const char *title,
             const struct dcp_holder *holders, size_t count, unsigned top)
{
    static const struct dcp_column columns[] = {
        {"role", "role", false},
        {"bytes", "bytes", false},
        {"share", "share", false},
        {"blocks", "blocks", false},
        {"largest_bytes", "largest", false},
        {"stack", "call stack", true},
    };
    struct dcp_table table = {key, title, SPEC(columns), NULL, 0, 0};
    size_t shown = top && top < count ? top : count;
    char **stacks = dcp_xcalloc(shown, sizeof *stacks);
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++)
        total += holders[i].bytes;
    for (size_t i = 0; i < shown; i++) {
        const struct dcp_holder *h = &holders[i];
        const char *frames = dcp_model_stack_text(rank, h->stack);
        stacks[i] = frames && *frames ? readable_stack(frames) : NULL;
        dcp_table_add(&table, (struct dcp_cell[]){
            dcp_cell_text(role_title(h->role)),
            dcp_cell_bytes(h->bytes),
            dcp_cell_share((double)h->bytes, (double)total),
            dcp_cell_count(h->count), dcp_cell_bytes(h->largest),
            dcp_cell_text(stacks[i] ? stacks[i]
                          : h->label ? h->label
                                     : "(no call stack was taken)")});
    }
    dcp_out_table(out, &table);
    if (shown < count)
        dcp_out_note(out, "and %zu more; --top 0 shows all", count - shown);
    for (size_t i = 0; i < shown; i++)
        free(stacks[i]);
    free(stacks);
}

void
dcp_view_memory(const struct dcp_model *model, struct dcp_out *out,
                const struct dcp_report_options *options)
{
    if (model->rank_count > 1)
        show_ranks(model, out);
    for (size_t i = 0; i < model->rank_count; i++) {
        const struct dcp_model_rank *rank = &model->ranks[i];
        const struct dcp_timeline *t = rank->timeline;
        dcp_out_section(out, "memory", "Memory", rank->label);
        dcp_out_process(out, rank->index, rank->label);
        show_facts(rank, out);
        show_timeline(rank, out, dcp_model_base_us(model, rank));
        show_roles(rank, out);
        show_holders(rank, out, "holders", "Who held it at the peak",
                     t->holders, t->holder_count, options->top);
        show_holders(rank, out, "spilled", "What was put into host memory",
                     t->spilled, t->spilled_count, options->top);
        for (size_t g = 0; g < rank->graph_count; g++)
            show_curve(rank, g, out);
    }
}
