/* SPDX-License-Identifier: Apache-2.0 */
/* The graphs: what each pass changed, or the text after one of them. */
#include "config.h"

#include "src/report.h"
#include "src/report_lines.h"
#include "src/report_model.h"
#include "src/report_out.h"

#include <stdlib.h>
#include <string.h>

#define SPEC(array) (array), sizeof(array) / sizeof *(array)

/* Names for the text before the first pass and after the last one. */
static const char lifted[] = "lift", last[] = "last";

static void
show_passes(const struct dcp_model_graph *graph, struct dcp_out *out)
{
    static const struct dcp_column columns[] = {
        {"pass", "pass", false},
        {"changed", "changed", false},
        {"ns", "time", false},
    };
    struct dcp_table table = {"passes", "Passes", SPEC(columns), NULL, 0, 0};

    for (size_t p = 0; p < graph->pass_count; p++)
        dcp_table_add(&table, (struct dcp_cell[]){
            dcp_cell_text(graph->passes[p].name),
            dcp_cell_text(graph->passes[p].changed ? "yes" : "no"),
            dcp_cell_ns(graph->passes[p].ns)});
    dcp_out_table(out, &table);
}

static void
show_changes(const struct dcp_model_rank *rank,
             const struct dcp_model_graph *graph, struct dcp_out *out,
             bool side_by_side)
{
    size_t before_bytes = 0, after_bytes, length;
    char *before = dcp_model_text(rank, graph, NULL, &before_bytes), *text;

    for (size_t p = 0; p < graph->pass_count; p++) {
        const struct dcp_model_pass *pass = &graph->passes[p];
        char *after = dcp_model_text(rank, graph, pass, &after_bytes);
        if (!after)
            continue;
        if (dcp_lines_diff(before ? before : "", before_bytes, after,
                           after_bytes, side_by_side, &text, &length)) {
            char *title = dcp_xprintf("What %s changed", pass->name);
            dcp_out_lines(out, pass->name, title,
                          side_by_side ? "text" : "diff", text, length);
            free(title);
        }
        free(text);
        free(before);
        before = after;
        before_bytes = after_bytes;
    }
    free(before);
}

/* The last pass of that name that left a text; `found` tells whether the name
 * is known at all. NULL: the text as lifted. */
static const struct dcp_model_pass *
find_pass(const struct dcp_model_graph *graph, const char *name, bool *found)
{
    const struct dcp_model_pass *pass = NULL, *seen = NULL;

    *found = !strcmp(name, lifted) || !strcmp(name, last);
    for (size_t p = 0; p < graph->pass_count; p++) {
        if (graph->passes[p].has_text)
            seen = &graph->passes[p];
        if (!strcmp(graph->passes[p].name, name)) {
            *found = true;
            pass = seen; /* a pass that changed nothing leaves what it saw */
        }
    }
    return !strcmp(name, last) ? seen : pass;
}

static void
no_such_pass(const struct dcp_model_graph *graph, const char *name)
{
    const char **names = dcp_xcalloc(graph->pass_count + 2, sizeof *names);

    for (size_t p = 0; p < graph->pass_count; p++)
        names[p] = graph->passes[p].name;
    names[graph->pass_count] = lifted;
    names[graph->pass_count + 1] = last;
    const char *near = dcp_nearest(name, names, graph->pass_count + 2);
    free(names);
    dcp_die("graph %llu: no pass %s%s%s%s; \"lift\" is before the first, "
            "\"last\" after the last", (unsigned long long)graph->number, name,
            near ? " (nearest: " : "", near ? near : "", near ? ")" : "");
}

static void
show_text(const struct dcp_model_rank *rank,
          const struct dcp_model_graph *graph, struct dcp_out *out,
          const char *name)
{
    bool found;
    size_t length;
    const struct dcp_model_pass *pass = find_pass(graph, name, &found);

    if (!found)
        no_such_pass(graph, name);
    char *text = dcp_model_text(rank, graph, pass, &length);
    if (!text) {
        dcp_out_note(out, "the trace holds no text of this graph");
        return;
    }
    dcp_out_lines(out, pass ? pass->name : lifted,
                  pass ? pass->name : "as lifted", "ir", text, length);
    free(text);
}

static void
show_graph(const struct dcp_model_rank *rank,
           const struct dcp_model_graph *graph, struct dcp_out *out,
           const struct dcp_report_options *options)
{
    char *title = dcp_xprintf("Graph %llu",
                              (unsigned long long)graph->number);

    dcp_out_section(out, "graph", title, rank->label);
    free(title);
    dcp_out_fact(out, "graph", "graph", dcp_cell_count(graph->number));
    dcp_out_fact(out, "nodes", "nodes", dcp_cell_count(graph->nodes));
    dcp_out_fact(out, "segments", "segments",
                 dcp_cell_count(graph->segments));
    dcp_out_fact(out, "followed", "iterations that followed it",
                 dcp_cell_count(graph->followed));
    if (options->pass) {
        show_text(rank, graph, out, options->pass);
        return;
    }
    show_passes(graph, out);
    show_changes(rank, graph, out, options->side_by_side);
    dcp_out_note(out, "--pass NAME shows the text after a pass, --pass lift "
                 "before all, --pass last after all");
}

void
dcp_view_ir(const struct dcp_model *model, struct dcp_out *out,
            const struct dcp_report_options *options)
{
    size_t shown = 0;

    out->bare = options->pass != NULL;
    for (size_t i = 0; i < model->rank_count; i++)
        for (size_t g = 0; g < model->ranks[i].graph_count; g++) {
            const struct dcp_model_graph *graph = &model->ranks[i].graphs[g];
            if (options->graph && graph->number != options->graph)
                continue;
            show_graph(&model->ranks[i], graph, out, options);
            shown++;
        }
    if (!shown && options->graph)
        dcp_die("no graph %llu in the trace",
                (unsigned long long)options->graph);
    if (!shown)
        dcp_out_note(out, "no graph was recorded");
}
