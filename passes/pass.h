/* SPDX-License-Identifier: Apache-2.0 */
/* A pass rewrites a graph. How to write one:
 *
 * - `bool dcp_pass_x(struct dcp_graph *, const struct dcp_pass_ctx *)` in
 *   pass_x.c, a row in pass.def, golden tests tests/ir/x_*.ir. The head
 *   comment of the file shows numbered examples before and after, which are
 *   also golden tests, and ends with what is deliberately not handled.
 * - It returns whether it changed the graph. It cannot fail: when it cannot
 *   do its work (memory is out), it leaves the graph as it was.
 * - Before it returns true it calls dcp_pass_changed with the facts that it
 *   kept and gave. What is allowed stands in its row.
 * - It leaves a graph that dcp_ir_verify accepts.
 * - All ranks must come to the same graph: it reads the graph and `ctx` and
 *   nothing else (no globals, environment, clock), and goes by numbers, never
 *   by addresses. What it adds lies in the graph's arena.
 *
 * Skipping, timing, printing, verifying and going back are the runner's. */
#ifndef DCP_PASSES_PASS_H
#define DCP_PASSES_PASS_H

#include "src/ir.h"
#include "src/status.h"

#include <stdbool.h>
#include <stdint.h>

struct dcp_cost; /* passes/cost.h */

/* What can hold of a graph. */
enum dcp_fact {
    DCP_FACT_NONE = 0,
    DCP_FACT_ROLES = 1,  /* some buffer's role is known */
    DCP_FACT_TIMES = 2,  /* some node was measured */
    DCP_FACT_PLACES = 4, /* addresses are planned */
    DCP_FACT_POISON = 8, /* set by the runner, dropped by dcp_pass_changed */
};

/* All that a pass may read besides the graph. */
struct dcp_pass_ctx {
    const struct dcp_cost *cost; /* NULL: the defaults */
    uint64_t memory_budget;      /* device bytes; 0: no limit */
    uint32_t world, rank;
    uint64_t page_bytes;         /* smallest frame, a power of two */
    unsigned *facts;             /* of the graph; for dcp_pass_changed only */
};

/* One rank, 2 MiB pages, no budget, default costs. */
struct dcp_pass_ctx dcp_pass_ctx_default(void);

/* Says that the graph was changed: of the facts that held, `kept` still hold;
 * those of `given` hold now. */
void dcp_pass_changed(const struct dcp_pass_ctx *ctx, unsigned kept,
                      unsigned given);

struct dcp_pass_row {
    const char *name;
    bool (*run)(struct dcp_graph *, const struct dcp_pass_ctx *);
    unsigned requires, keeps, gives; /* bits of enum dcp_fact */
    bool on;
    const char *description;
};

extern const struct dcp_pass_row dcp_pass_rows[];
extern const unsigned dcp_pass_count;

enum dcp_pass_end {
    DCP_PASS_DONE,
    DCP_PASS_SKIPPED,     /* by name, or a required fact does not hold */
    DCP_PASS_ROLLED_BACK, /* broke the graph or its contract: undone */
};

struct dcp_pass_result {
    const struct dcp_pass_row *row;
    enum dcp_pass_end end;
    bool changed;
    uint64_t ns;
    char why[160]; /* skipped, rolled back: the reason; else "" */
};

struct dcp_pass_options {
    const char *only; /* names, in the order to run; NULL: rows that are on */
    const char *skip; /* names; NULL: none */
    bool torture;     /* after each pass: print, parse, compare */
    /* (optional) called before and after each pass that runs */
    void (*before)(const struct dcp_pass_row *, const struct dcp_graph *,
                   void *user);
    void (*after)(const struct dcp_pass_result *, const struct dcp_graph *,
                  void *user);
    void *user;
    const struct dcp_pass_row *rows; /* NULL: those of pass.def */
    unsigned row_count;
};

/* Lists of names are separated by commas or blanks. Checks one: DCP_OK, or
 * DCP_NOTFOUND and in `why` a message with the nearest name. */
enum dcp_status dcp_pass_check_names(const char *names, char *why,
                                     unsigned room);

/* Runs passes over *graph, verifying after each change. A pass that broke
 * something is undone and logged, and the others run on; *graph may then be a
 * new graph. Before the first pass the graph itself is verified. DCP_OK;
 * DCP_INVALID: the graph was broken before any pass, and nothing ran;
 * DCP_INTERNAL: some pass was undone; DCP_NOMEM: some pass did not run;
 * DCP_NOTFOUND: a list holds an unknown name, and nothing ran. */
enum dcp_status dcp_pass_run_with(struct dcp_graph **graph,
                                  const struct dcp_pass_ctx *ctx,
                                  const struct dcp_pass_options *options);

typedef void dcp_pass_done(const char *name, bool changed, uint64_t ns,
                           const struct dcp_graph *graph, void *user);

/* The same with the passes that are on, but those in `skip` (may be NULL),
 * reporting each that ran to `done` (may be NULL). True for DCP_OK. */
bool dcp_pass_run(struct dcp_graph **graph, const struct dcp_pass_ctx *ctx,
                  const char *skip, dcp_pass_done *done, void *user);

/* The facts that can be read off a graph. */
unsigned dcp_pass_facts(const struct dcp_graph *graph);

#define PASS(name, ...)                                                        \
    bool dcp_pass_##name(struct dcp_graph *, const struct dcp_pass_ctx *);
#include "passes/pass.def"
#undef PASS

#endif
