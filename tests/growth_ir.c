/* SPDX-License-Identifier: Apache-2.0 */
/* How the work on a graph grows with its nodes, 10^3 to 10^6. Work is counted
 * in basic blocks: all sources but this one are compiled with
 * -fsanitize-coverage=trace-pc, which makes each block call the function below.
 * The counts are the same on every machine and in every run. From 10^3 on
 * each may grow by no more than n log n, plus a quarter.
 *
 *     growth_ir [LARGEST]        (default 1000000) */
#include "config.h"

#include "passes/cost.h"
#include "passes/pass.h"
#include "passes/schedule_sim.h"
#include "src/ir_live.h"
#include "tests/random_graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t blocks;

void __sanitizer_cov_trace_pc(void);

void
__sanitizer_cov_trace_pc(void)
{
    blocks++;
}

enum { PRINT, PARSE, VERIFY, LIVE, CLONE, EQUAL, PLACE, SIMULATE, KINDS };

static const char *const kinds[] = { "print",  "parse", "verify", "live",
                                     "clone",  "equal", "place",  "simulate" };

static uint64_t
since(uint64_t *mark)
{
    uint64_t count = blocks - *mark;

    *mark = blocks;
    return count;
}

/* The work on one graph, by kind. False when something failed. */
static bool
measure(struct dcp_graph *graph, uint64_t *work)
{
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();
    struct dcp_graph *again = NULL, *copy;
    struct dcp_arena arena = { 0 };
    struct dcp_schedule schedule;
    struct dcp_live live;
    struct dcp_cost cost;
    uint64_t mark = blocks;
    size_t length;
    bool good;

    char *text = dcp_ir_print_text(graph, 0, &length);
    work[PRINT] = since(&mark);
    good = text && !dcp_ir_parse(text, length, "t", &again, NULL);
    work[PARSE] = since(&mark);
    good = good && !dcp_ir_verify(graph, NULL);
    work[VERIFY] = since(&mark);
    good = good && !dcp_live_fill(graph, &arena, &live);
    work[LIVE] = since(&mark);
    good = (copy = dcp_graph_clone(graph)) && good;
    work[CLONE] = since(&mark);
    good = good && dcp_ir_equal(again, copy);
    work[EQUAL] = since(&mark);
    good = dcp_pass_place(graph, &ctx) && good;
    work[PLACE] = since(&mark);
    dcp_cost_default(&cost, 1);
    good = good && !dcp_schedule_fill(graph, &cost, &arena, &schedule);
    work[SIMULATE] = since(&mark);
    good = good && !dcp_ir_verify(graph, NULL);
    free(text);
    dcp_graph_destroy(again);
    dcp_graph_destroy(copy);
    dcp_arena_release(&arena);
    return good;
}

/* Placement may always spend so many blocks times n log n: where a small graph
 * needs less, that says nothing about larger ones. */
enum { ALLOWED = 400 };

static double
n_log_n(uint32_t n)
{
    return n * log2(n);
}

static int
check_shape(const char *shape, bool chaos, uint32_t largest)
{
    uint64_t first[KINDS] = { 0 }, work[KINDS];
    uint32_t first_nodes = 0;
    int failed = 0;

    printf("%s: basic blocks a node\n%10s", shape, "nodes");
    for (int k = 0; k < KINDS; k++)
        printf("%9s", kinds[k]);
    for (uint32_t n = 1000; n <= largest; n *= 10) {
        struct dcp_graph *graph = chaos ? chaos_graph(n, n, n / 20)
                                        : training_graph(n, n, 2);
        uint32_t nodes = graph->node_count;

        if (!measure(graph, work))
            failed = 1;
        printf("\n%10u", nodes);
        for (int k = 0; k < KINDS; k++) {
            double least = k == PLACE ? ALLOWED * n_log_n(nodes) : 0;
            double most = fmax(least, 1.25 * (double)first[k] * n_log_n(nodes) /
                               n_log_n(first_nodes ? first_nodes : nodes));
            bool over = first_nodes && (double)work[k] > most;

            printf("%8.1f%c", (double)work[k] / nodes, over ? '!' : ' ');
            failed |= over;
            if (!first_nodes)
                first[k] = work[k];
        }
        if (!first_nodes)
            first_nodes = nodes;
        fflush(stdout);
        dcp_graph_destroy(graph);
    }
    printf("\n");
    return failed;
}

int
main(int argc, char **argv)
{
    uint32_t largest = 1000000;

    if (argc > 1)
        largest = (uint32_t)strtoul(argv[1], NULL, 10);
    int failed = check_shape("training", false, largest);
    failed |= check_shape("random lives", true, largest);
    if (!blocks) {
        printf("not compiled with -fsanitize-coverage=trace-pc\n");
        return 77;
    }
    puts(failed ? "grows faster than n log n where marked !"
                : "no faster than n log n");
    return failed;
}
