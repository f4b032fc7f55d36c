/* SPDX-License-Identifier: Apache-2.0 */
/* Two runs, or two graphs, beside each other. */
#include "config.h"

#include "src/report.h"
#include "src/report_lines.h"
#include "src/report_model.h"
#include "src/report_out.h"
#include "src/report_timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SPEC(array) (array), sizeof(array) / sizeof *(array)

/* --- texts --------------------------------------------------------------- */

static const char ir_head[] = "dcprel-ir ";

/* Whether a file is IR text and no trace. Golden files have comments ahead. */
static bool
is_ir_file(const char *path)
{
    char line[256];
    bool found = false;
    struct stat st;
    FILE *file = stat(path, &st) || !S_ISREG(st.st_mode) ? NULL
                                                         : fopen(path, "r");

    for (int i = 0; file && i < 50 && !found; i++) {
        if (!fgets(line, sizeof line, file))
            break;
        found = !strncmp(line, ir_head, sizeof ir_head - 1);
    }
    if (file)
        fclose(file);
    return found;
}

static char *
read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "r");
    size_t room = 1 << 16;
    char *text = dcp_xrealloc(NULL, room, 1);

    if (!file)
        dcp_die("%s: %s", path, strerror(errno));
    *length = 0;
    for (size_t n; (n = fread(text + *length, 1, room - *length, file));) {
        *length += n;
        if (*length == room)
            text = dcp_xrealloc(text, room *= 2, 1);
    }
    if (ferror(file))
        dcp_die("%s: %s", path, strerror(errno));
    fclose(file);
    return text;
}

static void
show_difference(struct dcp_out *out, const char *key, const char *title,
                const char *a, size_t a_bytes, const char *b, size_t b_bytes,
                bool side_by_side)
{
    char *text;
    size_t length;

    if (dcp_lines_diff(a, a_bytes, b, b_bytes, side_by_side, &text, &length))
        dcp_out_lines(out, key, title, side_by_side ? "text" : "diff", text,
                      length);
    else
        dcp_out_note(out, "%s: equal", title);
    free(text);
}

static void
diff_files(struct dcp_out *out, const struct dcp_report_options *options)
{
    size_t a_bytes, b_bytes;
    char *a = read_file(options->paths[0], &a_bytes);
    char *b = read_file(options->paths[1], &b_bytes);
    char *title = dcp_xprintf("%s and %s", options->paths[0],
                              options->paths[1]);

    dcp_out_section(out, "diff", "Graphs", NULL);
    show_difference(out, "ir", title, a, a_bytes, b, b_bytes,
                    options->side_by_side);
    free(title);
    free(a);
    free(b);
}

/* --- traces -------------------------------------------------------------- */

static const struct dcp_column pair_columns[] = {
    {"what", "", false},
    {"a", "A", false},
    {"b", "B", false},
    {"ratio", "B to A", false},
};

static void
add_pair(struct dcp_table *table, const char *what, struct dcp_cell a,
         struct dcp_cell b, double x, double y)
{
    dcp_table_add(table, (struct dcp_cell[]){dcp_cell_text(what), a, b,
                                             dcp_cell_ratio(y, x)});
}

static void
add_ns(struct dcp_table *table, const char *what, uint64_t a, uint64_t b)
{
    add_pair(table, what, dcp_cell_ns(a), dcp_cell_ns(b), (double)a,
             (double)b);
}

static void
add_count(struct dcp_table *table, const char *what, uint64_t a, uint64_t b)
{
    add_pair(table, what, dcp_cell_count(a), dcp_cell_count(b), (double)a,
             (double)b);
}

static void
add_bytes(struct dcp_table *table, const char *what, uint64_t a, uint64_t b)
{
    add_pair(table, what, dcp_cell_bytes(a), dcp_cell_bytes(b), (double)a,
             (double)b);
}

static void
diff_steps(const struct dcp_model_rank *a, const struct dcp_model_rank *b,
           struct dcp_out *out)
{
    struct dcp_table table = {"steps", "Iterations", SPEC(pair_columns), NULL,
                              0, 0};

    add_count(&table, "iterations", a->iteration_count, b->iteration_count);
    add_count(&table, "followed", a->followed, b->followed);
    add_ns(&table, "step, recorded eagerly", a->eager_ns, b->eager_ns);
    add_ns(&table, "step, replayed", a->replayed_ns, b->replayed_ns);
    add_ns(&table, "analysis", a->library_ns, b->library_ns);
    add_count(&table, "calls swallowed", a->swallowed, b->swallowed);
    add_count(&table, "argument updates", a->updates, b->updates);
    add_count(&table, "graph launches", a->launches, b->launches);
    dcp_out_table(out, &table);
}

static void
diff_memory(const struct dcp_model_rank *a, const struct dcp_model_rank *b,
            struct dcp_out *out)
{
    struct dcp_table table = {"memory", "Memory at the peak",
                              SPEC(pair_columns), NULL, 0, 0};
    const struct dcp_timeline *x = a->timeline, *y = b->timeline;

    add_bytes(&table, "peak", x->peak.total, y->peak.total);
    for (int r = 0; r < DCP_ROLE_COUNT; r++)
        if (x->peak.role[r] || y->peak.role[r])
            add_bytes(&table, dcp_role_text((enum dcp_role)r),
                      x->peak.role[r], y->peak.role[r]);
    if (x->reserved_peak || y->reserved_peak)
        add_bytes(&table, "backed by the device", x->reserved_peak,
                  y->reserved_peak);
    add_bytes(&table, "in host memory", x->host_peak, y->host_peak);
    dcp_out_table(out, &table);
}

/* The text of a graph after its last pass. */
static char *
final_text(const struct dcp_model_rank *rank, size_t graph, size_t *length)
{
    const struct dcp_model_graph *g = &rank->graphs[graph];
    const struct dcp_model_pass *last = NULL;

    for (size_t p = 0; p < g->pass_count; p++)
        if (g->passes[p].has_text)
            last = &g->passes[p];
    return dcp_model_text(rank, g, last, length);
}

static void
diff_graphs(const struct dcp_model_rank *a, const struct dcp_model_rank *b,
            struct dcp_out *out, const struct dcp_report_options *options)
{
    size_t n = a->graph_count < b->graph_count ? a->graph_count
                                               : b->graph_count;

    if (a->graph_count != b->graph_count)
        dcp_out_note(out, "A has %zu graphs, B has %zu", a->graph_count,
                     b->graph_count);
    for (size_t g = 0; g < n; g++) {
        size_t x_bytes, y_bytes;
        if (options->graph && a->graphs[g].number != options->graph)
            continue;
        char *x = final_text(a, g, &x_bytes), *y = final_text(b, g, &y_bytes);
        char *key = dcp_xprintf("graph_%zu", g + 1);
        char *title = dcp_xprintf("Graph %llu of A, %llu of B",
                                  (unsigned long long)a->graphs[g].number,
                                  (unsigned long long)b->graphs[g].number);
        if (x && y)
            show_difference(out, key, title, x, x_bytes, y, y_bytes,
                            options->side_by_side);
        free(x);
        free(y);
        free(key);
        free(title);
    }
}

static void
diff_ranks(const struct dcp_model_rank *a, const struct dcp_model_rank *b,
           struct dcp_out *out, const struct dcp_report_options *options)
{
    dcp_out_section(out, "diff", "Two runs", a->label);
    dcp_out_fact(out, "a", "A", dcp_cell_text(a->path));
    dcp_out_fact(out, "b", "B", dcp_cell_text(b->path));
    diff_steps(a, b, out);
    diff_memory(a, b, out);
    if (a->config && b->config)
        show_difference(out, "config", "Configuration", a->config,
                        strlen(a->config), b->config, strlen(b->config),
                        options->side_by_side);
    diff_graphs(a, b, out, options);
}

static void
diff_traces(struct dcp_out *out, const struct dcp_report_options *options)
{
    struct dcp_model *a = dcp_model_read(options->paths[0], options->rank);
    struct dcp_model *b = dcp_model_read(options->paths[1], options->rank);
    size_t n = a->rank_count < b->rank_count ? a->rank_count : b->rank_count;

    if (a->rank_count != b->rank_count)
        dcp_complain("A has %zu traces, B has %zu: the first %zu of each are "
                     "compared", a->rank_count, b->rank_count, n);
    for (size_t i = 0; i < n; i++)
        diff_ranks(&a->ranks[i], &b->ranks[i], out, options);
    dcp_model_destroy(a);
    dcp_model_destroy(b);
}

void
dcp_view_diff(struct dcp_out *out, const struct dcp_report_options *options)
{
    bool a = is_ir_file(options->paths[0]), b = is_ir_file(options->paths[1]);

    if (a != b)
        dcp_die("%s is a graph and %s is not",
                options->paths[a ? 0 : 1], options->paths[a ? 1 : 0]);
    if (a)
        diff_files(out, options);
    else
        diff_traces(out, options);
}
