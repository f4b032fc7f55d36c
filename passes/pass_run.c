/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "passes/pass.h"

#include "src/clock.h"
#include "src/ir_word.h"
#include "src/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NONE = DCP_FACT_NONE,
    ROLES = DCP_FACT_ROLES,
    TIMES = DCP_FACT_TIMES,
    PLACES = DCP_FACT_PLACES,
};

const struct dcp_pass_row dcp_pass_rows[] = {
#define PASS(name, requires, keeps, gives, on, description)                    \
    { #name, dcp_pass_##name, requires, keeps, gives, on, description },
#include "passes/pass.def"
#undef PASS
};

const unsigned dcp_pass_count = sizeof dcp_pass_rows / sizeof *dcp_pass_rows;

struct dcp_pass_ctx
dcp_pass_ctx_default(void)
{
    return (struct dcp_pass_ctx) { .world = 1, .page_bytes = 2u << 20 };
}

void
dcp_pass_changed(const struct dcp_pass_ctx *ctx, unsigned kept, unsigned given)
{
    if (ctx->facts)
        *ctx->facts = (*ctx->facts & kept & ~DCP_FACT_POISON) | given;
}

unsigned
dcp_pass_facts(const struct dcp_graph *graph)
{
    unsigned facts = graph->arena_bytes ? DCP_FACT_PLACES : 0;

    for (uint32_t i = 0; i < graph->buffer_count; i++)
        if (graph->buffers[i].role != DCP_ROLE_UNKNOWN)
            facts |= DCP_FACT_ROLES;
    for (uint32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].gpu_ns)
            facts |= DCP_FACT_TIMES;
    return facts;
}

/* --- lists of names ------------------------------------------------------- */

/* The next name of a list, its length in *length; NULL at the end. */
static const char *
next_name(const char **list, size_t *length)
{
    const char *name = *list ? *list + strspn(*list, ", \t") : "";

    *length = strcspn(name, ", \t");
    *list = name + *length;
    return *length ? name : NULL;
}

struct rows {
    const struct dcp_pass_row *list;
    unsigned count;
};

static const struct dcp_pass_row *
find_row(struct rows rows, const char *name, size_t length)
{
    for (unsigned i = 0; i < rows.count; i++)
        if (strlen(rows.list[i].name) == length &&
            !memcmp(rows.list[i].name, name, length))
            return &rows.list[i];
    return NULL;
}

static bool
listed(struct rows rows, const char *list, const struct dcp_pass_row *row)
{
    const char *name;
    size_t length;

    while ((name = next_name(&list, &length)))
        if (find_row(rows, name, length) == row)
            return true;
    return false;
}

static const char *
nearest(struct rows rows, const char *name, size_t length)
{
    const char *list[64];
    struct dcp_words words = { list, 0 };

    for (unsigned i = 0; i < rows.count && i < 64; i++)
        list[words.count++] = rows.list[i].name;
    return dcp_words_nearest(&words, name, length);
}

static enum dcp_status
check_names(struct rows rows, const char *names, char *why, unsigned room)
{
    const char *name, *near;
    size_t length;

    while ((name = next_name(&names, &length))) {
        if (find_row(rows, name, length))
            continue;
        near = nearest(rows, name, length);
        snprintf(why, room, "unknown pass '%.*s'%s%s%s",
                 length < 40 ? (int)length : 40, name,
                 near ? ", did you mean '" : "", near ? near : "",
                 near ? "'?" : "");
        return DCP_NOTFOUND;
    }
    return DCP_OK;
}

enum dcp_status
dcp_pass_check_names(const char *names, char *why, unsigned room)
{
    struct rows rows = { dcp_pass_rows, dcp_pass_count };

    return check_names(rows, names, why, room);
}

/* --- judging what a pass did ---------------------------------------------- */

/* The first broken invariant in words, or that memory is out. */
static bool
verified(const struct dcp_graph *graph, struct dcp_pass_result *result)
{
    struct dcp_ir_fault fault = { .text = "out of memory" };
    struct dcp_ir_faults faults = { .list = &fault, .room = 1 };
    static const char *const where[] = { "the graph", "buffer %", "kernel $",
                                         "node n" };

    if (dcp_ir_verify(graph, &faults) == DCP_OK)
        return true;
    if (faults.count && fault.where != DCP_FAULT_GRAPH)
        snprintf(result->why, sizeof result->why, "%s%u: %s (%u broken in all)",
                 where[fault.where], fault.index, fault.text, faults.count);
    else
        snprintf(result->why, sizeof result->why, "%s: %s", where[0],
                 fault.text);
    return false;
}

/* Whether the pass said what it did, and may do it. */
static bool
in_contract(const struct dcp_pass_row *row, unsigned before, unsigned after,
            struct dcp_pass_result *result)
{
    const char *why = NULL;

    if (result->changed && after & DCP_FACT_POISON)
        why = "it changed the graph without a word on what it kept";
    else if (!result->changed && !(after & DCP_FACT_POISON))
        why = "it says that it changed nothing, and what it kept";
    else if (result->changed && after & ~((before & row->keeps) | row->gives))
        why = "it claims facts that its row does not give";
    if (why)
        snprintf(result->why, sizeof result->why, "%s", why);
    return !why;
}

/* An unchanged graph is one: nothing was edited on the quiet. */
static bool
untouched(const struct dcp_graph *graph, const struct dcp_graph *before,
          struct dcp_pass_result *result)
{
    if (result->changed || dcp_ir_equal(graph, before))
        return true;
    snprintf(result->why, sizeof result->why,
             "it says that it changed nothing, and did");
    return false;
}

/* print -> parse -> compare */
static bool
survives_text(const struct dcp_graph *graph, struct dcp_pass_result *result)
{
    struct dcp_graph *again = NULL;
    struct dcp_ir_error error;
    size_t length;
    bool same = false;
    char *text = dcp_ir_print_text(graph, 0, &length);

    if (!text)
        snprintf(result->why, sizeof result->why, "out of memory");
    else if (dcp_ir_parse(text, length, "printed", &again, &error))
        snprintf(result->why, sizeof result->why, "%.150s", error.text);
    else if (!(same = dcp_ir_equal(graph, again)))
        snprintf(result->why, sizeof result->why,
                 "the graph differs after printing and parsing");
    free(text);
    dcp_graph_destroy(again);
    return same;
}

/* --- running -------------------------------------------------------------- */

struct runner {
    struct dcp_graph **graph;
    struct dcp_pass_ctx ctx;
    const struct dcp_pass_options *options;
    struct rows rows;
    unsigned facts; /* of *graph */
    enum dcp_status status;
};

static bool
wanted(const struct runner *r, const struct dcp_pass_row *row,
       struct dcp_pass_result *result)
{
    if (listed(r->rows, r->options->skip, row))
        snprintf(result->why, sizeof result->why, "skipped by name");
    else if (row->requires & ~r->facts)
        snprintf(result->why, sizeof result->why,
                 "what it requires does not hold");
    else
        return true;
    result->end = DCP_PASS_SKIPPED;
    return false;
}

/* Runs the pass on the graph itself and keeps a copy to go back to. */
static void
run_row(struct runner *r, const struct dcp_pass_row *row,
        struct dcp_pass_result *result)
{
    struct dcp_graph *last_good = dcp_graph_clone(*r->graph);
    unsigned before = r->facts;

    if (!last_good) {
        result->end = DCP_PASS_SKIPPED;
        snprintf(result->why, sizeof result->why, "out of memory");
        r->status = DCP_NOMEM;
        return;
    }
    if (r->options->before)
        r->options->before(row, *r->graph, r->options->user);
    r->facts |= DCP_FACT_POISON;
    r->ctx.facts = &r->facts;
    result->ns = dcp_now_ns();
    result->changed = row->run(*r->graph, &r->ctx);
    result->ns = dcp_now_ns() - result->ns;
    if (in_contract(row, before, r->facts, result) &&
        (!result->changed || verified(*r->graph, result)) &&
        (!r->options->torture || (untouched(*r->graph, last_good, result) &&
                                  survives_text(*r->graph, result)))) {
        r->facts = result->changed ? r->facts : before;
        dcp_graph_destroy(last_good);
        return;
    }
    result->end = DCP_PASS_ROLLED_BACK;
    dcp_warn("pass %s is undone: %s", row->name, result->why);
    dcp_graph_destroy(*r->graph);
    *r->graph = last_good;
    r->facts = before;
    r->status = DCP_INTERNAL;
}

static void
try_row(struct runner *r, const struct dcp_pass_row *row)
{
    struct dcp_pass_result result = { .row = row };

    if (wanted(r, row, &result))
        run_row(r, row, &result);
    if (result.end == DCP_PASS_SKIPPED)
        dcp_debug("pass %s: %s", row->name, result.why);
    if (r->options->after)
        r->options->after(&result, *r->graph, r->options->user);
}

enum dcp_status
dcp_pass_run_with(struct dcp_graph **graph, const struct dcp_pass_ctx *ctx,
                  const struct dcp_pass_options *options)
{
    struct runner r = { .graph = graph, .ctx = *ctx, .options = options };
    struct dcp_pass_result result = { .end = DCP_PASS_DONE };
    const char *list = options->only, *name;
    size_t length;

    r.rows = (struct rows) { dcp_pass_rows, dcp_pass_count };
    if (options->rows)
        r.rows = (struct rows) { options->rows, options->row_count };
    if (check_names(r.rows, options->only, result.why, sizeof result.why) ||
        check_names(r.rows, options->skip, result.why, sizeof result.why)) {
        dcp_warn("%s", result.why);
        return DCP_NOTFOUND;
    }
    if (!verified(*graph, &result)) {
        dcp_info("no pass is run on a broken graph: %s", result.why);
        return DCP_INVALID;
    }
    r.facts = dcp_pass_facts(*graph);
    if (options->only) {
        while ((name = next_name(&list, &length)))
            try_row(&r, find_row(r.rows, name, length));
        return r.status;
    }
    for (unsigned i = 0; i < r.rows.count; i++)
        if (r.rows.list[i].on)
            try_row(&r, &r.rows.list[i]);
    return r.status;
}

/* --- the short form ------------------------------------------------------- */

struct short_form {
    dcp_pass_done *done;
    void *user;
};

static void
hand_on(const struct dcp_pass_result *result, const struct dcp_graph *graph,
        void *user)
{
    const struct short_form *form = user;

    if (form->done && result->end == DCP_PASS_DONE)
        form->done(result->row->name, result->changed, result->ns, graph,
                   form->user);
}

bool
dcp_pass_run(struct dcp_graph **graph, const struct dcp_pass_ctx *ctx,
             const char *skip, dcp_pass_done *done, void *user)
{
    struct short_form form = { done, user };
    struct dcp_pass_options options = {
        .skip = skip,
        .after = hand_on,
        .user = &form,
    };

    return dcp_pass_run_with(graph, ctx, &options) == DCP_OK;
}
