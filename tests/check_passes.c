/* SPDX-License-Identifier: Apache-2.0 */
/* The pass runner and its contract, placement, costs, the simulation. What a
 * pass does to a graph is shown in tests/ir/NAME_*.ir. */
#include "config.h"

#include "passes/cost.h"
#include "passes/pass.h"
#include "passes/schedule_sim.h"
#include "src/ir_live.h"
#include "src/log.h"
#include "tests/random_graph.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct dcp_graph *
parsed(const char *text)
{
    struct dcp_graph *graph = NULL;
    struct dcp_ir_error error = { 0 };

    dcp_ir_parse(text, strlen(text), "test", &graph, &error);
    ck_assert_msg(graph, "%s", error.text);
    return graph;
}

/* --- placement ------------------------------------------------------------ */

static uint64_t
rounded(uint64_t bytes)
{
    return bytes ? (bytes + 511) / 512 * 512 : 512;
}

/* The most bytes that are live at once, each rounded as a place is. */
static uint64_t
floor_of(const struct dcp_graph *graph)
{
    struct dcp_graph *g = dcp_graph_clone(graph);
    uint64_t peak;

    for (uint32_t b = 0; b < g->buffer_count; b++)
        g->buffers[b].bytes = g->buffers[b].place == DCP_NO_PLACE
                                  ? 0 : rounded(g->buffers[b].bytes);
    peak = dcp_live_peak(g);
    dcp_graph_destroy(g);
    return peak;
}

/* Two buffers may share bytes only if one is freed on the stream on which the
 * other is allocated, and before: pair by pair. */
static void
check_pairs(const struct dcp_graph *g)
{
    struct dcp_arena arena = { 0 };
    struct dcp_live live;

    ck_assert_int_eq(dcp_live_fill(g, &arena, &live), DCP_OK);
    for (uint32_t a = 0; a < g->buffer_count; a++) {
        const struct dcp_ir_buffer *x = &g->buffers[a];
        bool inside = live.alloc[a] != DCP_NONE && live.free[a] != DCP_NONE;

        ck_assert_int_eq(inside, x->place != DCP_NO_PLACE);
        if (!inside)
            continue;
        ck_assert_uint_le(x->place + x->bytes, g->arena_bytes);
        ck_assert_uint_eq(x->place % 512, 0);
        for (uint32_t b = 0; b < a; b++) {
            const struct dcp_ir_buffer *y = &g->buffers[b];
            uint32_t first = live.alloc[a] < live.alloc[b] ? a : b;
            uint32_t second = first == a ? b : a;

            if (y->place == DCP_NO_PLACE ||
                x->place >= y->place + rounded(y->bytes) ||
                y->place >= x->place + rounded(x->bytes))
                continue;
            ck_assert_uint_lt(live.free[first], live.alloc[second]);
            ck_assert_uint_eq(g->nodes[live.free[first]].stream,
                              g->nodes[live.alloc[second]].stream);
        }
    }
    dcp_arena_release(&arena);
}

START_TEST(places_never_clash)
{
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();

    for (uint64_t seed = 0; seed < 30; seed++) {
        struct dcp_graph *g =
            seed % 3 ? training_graph(seed, 600, 1 + (uint32_t)seed % 4)
                     : chaos_graph(seed, 600, 40);

        ck_assert(dcp_pass_place(g, &ctx));
        ck_assert_int_eq(dcp_ir_verify(g, NULL), DCP_OK);
        check_pairs(g);
        ck_assert(!dcp_pass_place(g, &ctx));
        dcp_graph_destroy(g);
    }
}
END_TEST

START_TEST(frees_on_other_streams_keep_their_place)
{
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();

    for (uint64_t seed = 0; seed < 10; seed++) {
        struct dcp_graph *g = training_graph(seed, 600, 2);

        for (uint32_t i = 0; i < g->node_count; i++)
            if (g->nodes[i].op == DCP_OP_FREE && i % 3 == 0)
                g->nodes[i].stream ^= 1;
        for (uint32_t i = 0; i < g->node_count; i++)
            g->nodes[i].call = DCP_NONE;
        ck_assert(dcp_pass_place(g, &ctx));
        ck_assert_int_eq(dcp_ir_verify(g, NULL), DCP_OK);
        check_pairs(g);
        dcp_graph_destroy(g);
    }
}
END_TEST

/* The range against the most that is live: nothing can be shorter. */
static void
check_close(struct dcp_graph *g, double most)
{
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();
    uint64_t least;

    ck_assert(dcp_pass_place(g, &ctx));
    least = floor_of(g);
    ck_assert_uint_ge(g->arena_bytes, least);
    ck_assert_msg((double)g->arena_bytes <= most * (double)least,
                  "%u buffers: %.3f of the floor", g->buffer_count,
                  (double)g->arena_bytes / (double)least);
    dcp_graph_destroy(g);
}

START_TEST(range_is_close_to_the_live_peak)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        check_close(training_graph(seed, 200, 1), 1.10);
        check_close(training_graph(seed, 5000, 1), 1.10);
        check_close(chaos_graph(seed, 400, 30), 1.10);
    }
    check_close(training_graph(1, 100000, 1), 1.10);
}
END_TEST

START_TEST(placement_depends_on_the_graph_alone)
{
    struct dcp_pass_ctx one = dcp_pass_ctx_default(), other = one;
    struct dcp_graph *g = training_graph(4, 3000, 2), *h = dcp_graph_clone(g);

    other.rank = 3;
    other.world = 8;
    ck_assert(dcp_pass_place(g, &one));
    ck_assert(dcp_pass_place(h, &other));
    ck_assert(dcp_ir_equal(g, h));
    dcp_graph_destroy(g);
    dcp_graph_destroy(h);
}
END_TEST

START_TEST(large_buffers_begin_at_a_page)
{
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();
    struct dcp_graph *g = training_graph(2, 2000, 1);

    for (uint32_t b = 0; b < g->buffer_count; b++) /* whole pages only */
        g->buffers[b].bytes = (1 + b % 5) << 21;
    ck_assert(dcp_pass_place(g, &ctx));
    for (uint32_t b = 0; b < g->buffer_count; b++)
        if (g->buffers[b].place != DCP_NO_PLACE)
            ck_assert_uint_eq(g->buffers[b].place % (2u << 20), 0);
    dcp_graph_destroy(g);
}
END_TEST

START_TEST(huge_sizes_are_left_alone)
{
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();
    struct dcp_graph *g = training_graph(2, 100, 1);

    for (uint32_t b = 0; b < g->buffer_count; b++)
        g->buffers[b].bytes = UINT64_MAX - b;
    dcp_pass_place(g, &ctx);
    ck_assert_int_eq(dcp_ir_verify(g, NULL), DCP_OK);
    dcp_graph_destroy(g);
}
END_TEST

START_TEST(placement_without_memory_changes_nothing)
{
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();
    struct dcp_graph *g = chaos_graph(1, 300, 20), *before = dcp_graph_clone(g);
    bool changed = false;

    for (long after = 0; !changed; after++) {
        dcp_arena_fail_after(after);
        changed = dcp_pass_place(g, &ctx);
        dcp_arena_fail_after(-1);
        ck_assert(changed || dcp_ir_equal(g, before));
    }
    ck_assert_int_eq(dcp_ir_verify(g, NULL), DCP_OK);
    dcp_graph_destroy(g);
    dcp_graph_destroy(before);
}
END_TEST

/* --- the runner ----------------------------------------------------------- */

static bool
pass_good(struct dcp_graph *graph, const struct dcp_pass_ctx *ctx)
{
    graph->key++;
    dcp_pass_changed(ctx, DCP_FACT_ROLES, DCP_FACT_PLACES);
    return true;
}

static bool
pass_idle(struct dcp_graph *graph, const struct dcp_pass_ctx *ctx)
{
    (void)graph;
    (void)ctx;
    return false;
}

static bool
pass_silent(struct dcp_graph *graph, const struct dcp_pass_ctx *ctx)
{
    (void)ctx;
    graph->key++;
    return true;
}

static bool
pass_greedy(struct dcp_graph *graph, const struct dcp_pass_ctx *ctx)
{
    graph->key++;
    dcp_pass_changed(ctx, DCP_FACT_ROLES, DCP_FACT_TIMES);
    return true;
}

static bool
pass_sly(struct dcp_graph *graph, const struct dcp_pass_ctx *ctx)
{
    (void)ctx;
    graph->key++;
    return false;
}

static bool
pass_wrecker(struct dcp_graph *graph, const struct dcp_pass_ctx *ctx)
{
    dcp_ir_add_node(graph, DCP_OP_FREE, 0)->memory.buffer = 12345;
    dcp_pass_changed(ctx, 0, 0);
    return true;
}

static const struct dcp_pass_row rows[] = {
    { "good", pass_good, 0, DCP_FACT_ROLES, DCP_FACT_PLACES, true, "" },
    { "idle", pass_idle, 0, 0, 0, true, "" },
    { "silent", pass_silent, 0, 0, 0, false, "" },
    { "greedy", pass_greedy, 0, DCP_FACT_ROLES, 0, false, "" },
    { "sly", pass_sly, 0, 0, 0, false, "" },
    { "wrecker", pass_wrecker, 0, 0, 0, false, "" },
    { "needs", pass_good, DCP_FACT_PLACES, DCP_FACT_ROLES, DCP_FACT_PLACES,
      false, "" },
};

struct seen {
    unsigned before, after, changed, skipped, undone;
    char why[160];
};

static void
on_before(const struct dcp_pass_row *row, const struct dcp_graph *graph,
          void *user)
{
    struct seen *seen = user;

    ck_assert(row && graph);
    seen->before++;
}

static void
on_after(const struct dcp_pass_result *result, const struct dcp_graph *graph,
         void *user)
{
    struct seen *seen = user;

    ck_assert(graph != NULL);
    seen->after++;
    seen->changed += result->end == DCP_PASS_DONE && result->changed;
    seen->skipped += result->end == DCP_PASS_SKIPPED;
    seen->undone += result->end == DCP_PASS_ROLLED_BACK;
    strcpy(seen->why, result->why);
}

static enum dcp_status
run(struct dcp_graph **graph, const char *only, const char *skip, bool torture,
    struct seen *seen)
{
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();
    struct dcp_pass_options options = {
        .only = only, .skip = skip, .torture = torture,
        .before = on_before, .after = on_after, .user = seen,
        .rows = rows, .row_count = sizeof rows / sizeof *rows,
    };

    memset(seen, 0, sizeof *seen);
    return dcp_pass_run_with(graph, &ctx, &options);
}

START_TEST(runner_runs_what_is_on)
{
    struct dcp_graph *g = training_graph(1, 100, 1);
    uint64_t key = g->key;
    struct seen seen;

    ck_assert_int_eq(run(&g, NULL, NULL, true, &seen), DCP_OK);
    ck_assert_uint_eq(seen.before, 2);
    ck_assert_uint_eq(seen.after, 2);
    ck_assert_uint_eq(seen.changed, 1);
    ck_assert_uint_eq(g->key, key + 1);
    ck_assert_int_eq(run(&g, NULL, "good, idle", false, &seen), DCP_OK);
    ck_assert_uint_eq(seen.skipped, 2);
    ck_assert_uint_eq(seen.before, 0);
    ck_assert_uint_eq(g->key, key + 1);
    ck_assert_int_eq(run(&g, "good,good,idle", NULL, false, &seen), DCP_OK);
    ck_assert_uint_eq(seen.changed, 2);
    dcp_graph_destroy(g);
}
END_TEST

START_TEST(runner_undoes_what_breaks_the_contract)
{
    static const struct {
        const char *name, *why;
    } cases[] = {
        { "silent", "without a word" },
        { "greedy", "claims facts" },
        { "sly", "changed nothing, and did" },
        { "wrecker", "unknown buffer" },
    };

    dcp_log_threshold = DCP_LOG_ERROR;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dcp_graph *g = training_graph(1, 100, 1);
        struct dcp_graph *before = dcp_graph_clone(g);
        struct seen seen;

        ck_assert_int_eq(run(&g, cases[i].name, NULL, true, &seen),
                         DCP_INTERNAL);
        ck_assert_uint_eq(seen.undone, 1);
        ck_assert_msg(strstr(seen.why, cases[i].why), "%s", seen.why);
        ck_assert(dcp_ir_equal(g, before));
        dcp_graph_destroy(g);
        dcp_graph_destroy(before);
    }
}
END_TEST

START_TEST(runner_goes_on_after_undoing)
{
    struct dcp_graph *g = training_graph(1, 100, 1);
    uint64_t key = g->key;
    struct seen seen;

    dcp_log_threshold = DCP_LOG_ERROR;
    ck_assert_int_eq(run(&g, "good,wrecker,good", NULL, true, &seen),
                     DCP_INTERNAL);
    ck_assert_uint_eq(seen.changed, 2);
    ck_assert_uint_eq(g->key, key + 2);
    ck_assert_int_eq(dcp_ir_verify(g, NULL), DCP_OK);
    dcp_graph_destroy(g);
}
END_TEST

START_TEST(runner_checks_requirements)
{
    struct dcp_graph *g = training_graph(1, 100, 1);
    struct seen seen;

    ck_assert_int_eq(run(&g, "needs", NULL, false, &seen), DCP_OK);
    ck_assert_uint_eq(seen.skipped, 1);
    ck_assert_int_eq(run(&g, "good,needs", NULL, false, &seen), DCP_OK);
    ck_assert_uint_eq(seen.skipped, 0);
    ck_assert_uint_eq(seen.changed, 2);
    dcp_graph_destroy(g);
}
END_TEST

START_TEST(runner_refuses_unknown_names_and_broken_graphs)
{
    struct dcp_graph *g = training_graph(1, 100, 1);
    struct seen seen;
    char why[160];

    dcp_log_threshold = DCP_LOG_ERROR;
    ck_assert_int_eq(run(&g, "god", NULL, false, &seen), DCP_NOTFOUND);
    ck_assert_int_eq(run(&g, NULL, "nobody", false, &seen), DCP_NOTFOUND);
    g->nodes[0].memory.buffer = 99999;
    ck_assert_int_eq(run(&g, NULL, NULL, false, &seen), DCP_INVALID);
    ck_assert_uint_eq(seen.after, 0);
    ck_assert_int_eq(dcp_pass_check_names("place, plaec", why, sizeof why),
                     DCP_NOTFOUND);
    ck_assert_str_eq(why, "unknown pass 'plaec', did you mean 'place'?");
    ck_assert_int_eq(dcp_pass_check_names(" place,", why, sizeof why), DCP_OK);
    dcp_graph_destroy(g);
}
END_TEST

static void
count_done(const char *name, bool changed, uint64_t ns,
           const struct dcp_graph *graph, void *user)
{
    (void)ns;
    ck_assert_str_eq(name, "place");
    ck_assert(graph->arena_bytes > 0);
    *(unsigned *)user += changed;
}

START_TEST(short_form_runs_the_defaults)
{
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();
    struct dcp_graph *g = training_graph(1, 100, 1);
    unsigned changed = 0;

    ck_assert(dcp_pass_run(&g, &ctx, "place", count_done, &changed));
    ck_assert_uint_eq(changed, 0);
    ck_assert(dcp_pass_run(&g, &ctx, NULL, count_done, &changed));
    ck_assert_uint_eq(changed, 1);
    dcp_graph_destroy(g);
}
END_TEST

START_TEST(runner_without_memory_keeps_a_good_graph)
{
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();
    struct dcp_graph *g = chaos_graph(1, 200, 20);
    bool done = false;

    dcp_log_threshold = DCP_LOG_ERROR;
    for (long after = 0; !done || !g->arena_bytes; after++) {
        dcp_arena_fail_after(after);
        done = dcp_pass_run(&g, &ctx, NULL, NULL, NULL);
        dcp_arena_fail_after(-1);
        ck_assert_int_eq(dcp_ir_verify(g, NULL), DCP_OK);
    }
    dcp_graph_destroy(g);
}
END_TEST

/* --- costs ---------------------------------------------------------------- */

START_TEST(curves_are_straight_between_points)
{
    struct dcp_curve curve = { 0 };

    ck_assert_uint_eq(dcp_curve_at(&curve, 100), 0);
    dcp_curve_add(&curve, 1000, 500);
    ck_assert_uint_eq(dcp_curve_at(&curve, 2000), 1000);
    dcp_curve_add(&curve, 3000, 900);
    ck_assert_uint_eq(dcp_curve_at(&curve, 0), 0);
    ck_assert_uint_eq(dcp_curve_at(&curve, 1), 500);
    ck_assert_uint_eq(dcp_curve_at(&curve, 1000), 500);
    ck_assert_uint_eq(dcp_curve_at(&curve, 2000), 700);
    ck_assert_uint_eq(dcp_curve_at(&curve, 5000), 1300);
    ck_assert_uint_eq(dcp_curve_at(&curve, UINT64_MAX),
                      500 + (UINT64_MAX - 1000) / 5);
    dcp_curve_add(&curve, 2000, 400); /* a faster measurement of more */
    ck_assert_uint_eq(dcp_curve_at(&curve, 1000), 400);
    for (unsigned i = 3; i < DCP_CURVE_POINTS; i++)
        ck_assert_int_eq(dcp_curve_add(&curve, 10000 + i, 5000), DCP_OK);
    ck_assert_int_eq(dcp_curve_add(&curve, 9, 1), DCP_RANGE);
    ck_assert_int_eq(dcp_curve_add(&curve, 1000, 100), DCP_OK);
}
END_TEST

START_TEST(default_costs_are_plausible)
{
    struct dcp_cost cost;
    const uint64_t gib = 1u << 30;

    dcp_cost_default(&cost, 8);
    uint64_t gather = dcp_curve_at(&cost.curves[DCP_CURVE_GATHER], gib);
    ck_assert_uint_gt(gather, 2400000); /* (7 / 8) GiB at 361 GB/s */
    ck_assert_uint_lt(gather, 2800000);
    ck_assert_uint_gt(dcp_curve_at(&cost.curves[DCP_CURVE_REDUCE], gib),
                      2 * gather - gather / 10);
    uint64_t upload = dcp_curve_at(&cost.curves[DCP_CURVE_UPLOAD], gib);
    ck_assert_uint_gt(upload, 19000000);
    ck_assert_uint_lt(upload, 20000000);
    for (uint32_t world = 1; world <= 1024; world *= 2)
        dcp_cost_default(&cost, world);
}
END_TEST

/* --- the simulation ------------------------------------------------------- */

#define TWO "dcprel-ir 1\nstep key=1 rank=0/1 streams=2 events=2 micro=1\n"

/* Round figures: a node takes what its comment says, the host 1 us a node. */
static struct dcp_schedule
simulated(const char *text, struct dcp_arena *arena)
{
    struct dcp_graph *g = parsed(text);
    struct dcp_schedule schedule;
    struct dcp_cost cost = { .issue_ns = 1000 };

    ck_assert_int_eq(dcp_ir_verify(g, NULL), DCP_OK);
    ck_assert_int_eq(dcp_schedule_fill(g, &cost, arena, &schedule), DCP_OK);
    dcp_graph_destroy(g);
    return schedule;
}

START_TEST(streams_overlap_on_different_engines)
{
    struct dcp_arena arena = { 0 };
    struct dcp_schedule s = simulated(
        TWO "fn $0 \"k\"\n"
            "n0 launch $0 @0 # 100000 ns\n"
            "n1 copy @1 bytes=8 to=pinned # 100000 ns\n"
            "n2 launch $0 @1 # 50000 ns\n", &arena);

    ck_assert_uint_eq(s.begin_ns[0], 1000);
    ck_assert_uint_eq(s.begin_ns[1], 2000);
    ck_assert_uint_eq(s.begin_ns[2], 102000);
    ck_assert_uint_eq(s.step_ns, 152000);
    ck_assert_uint_eq(s.busy_ns[DCP_ENGINE_COMPUTE], 150000);
    ck_assert_uint_eq(s.busy_ns[DCP_ENGINE_DOWNLOAD], 100000);
    ck_assert_uint_eq(s.host_wait_ns, 0);
    dcp_arena_release(&arena);
}
END_TEST

START_TEST(one_engine_runs_one_node_at_a_time)
{
    struct dcp_arena arena = { 0 };
    struct dcp_schedule s = simulated(
        TWO "fn $0 \"k\"\n"
            "n0 launch $0 @0 # 100000 ns\n"
            "n1 launch $0 @0 # 100000 ns\n"
            "n2 launch $0 @1 # 10000 ns\n", &arena);

    ck_assert_uint_eq(s.begin_ns[2], 101000); /* ready before n1 was */
    ck_assert_uint_eq(s.begin_ns[1], 111000);
    ck_assert_uint_eq(s.step_ns, 211000);
    dcp_arena_release(&arena);
}
END_TEST

START_TEST(events_edges_and_the_host_are_waited_for)
{
    struct dcp_arena arena = { 0 };
    struct dcp_schedule s = simulated(
        TWO "fn $0 \"k\"\n"
            "n0 launch $0 @0 # 100000 ns\n"
            "n1 record !0 @0\n"
            "n2 copy @0 bytes=8 to=pinned # 7000 ns\n"
            "n3 wait !0 @1\n"
            "n4 copy @1 bytes=8 from=pinned # 5000 ns\n"
            "n5 host !0\n"
            "n6 copy @1 bytes=8 from=pinned after=n2 # 5000 ns\n"
            "n7 host\n"
            "n8 launch $0 @1 # 1000 ns\n", &arena);

    ck_assert_uint_eq(s.end_ns[1], 101000);
    ck_assert_uint_eq(s.begin_ns[4], 101000);
    ck_assert_uint_eq(s.end_ns[5], 101000); /* the event and no more */
    ck_assert_uint_eq(s.begin_ns[6], 108000);
    ck_assert_uint_eq(s.end_ns[7], 113000);
    ck_assert_uint_eq(s.begin_ns[8], 114000);
    ck_assert_uint_eq(s.step_ns, 115000);
    ck_assert_uint_eq(s.host_wait_ns, 101000 - 6000 + 113000 - 103000);
    dcp_arena_release(&arena);
}
END_TEST

START_TEST(synchronous_calls_hold_the_host)
{
    struct dcp_arena arena = { 0 };
    struct dcp_schedule s = simulated(
        TWO "fn $0 \"k\"\n"
            "n0 copy @0 bytes=8 from=pageable sync # 20000 ns\n"
            "n1 launch $0 @1 # 1000 ns\n", &arena);

    ck_assert_uint_eq(s.begin_ns[1], 22000);
    dcp_arena_release(&arena);
}
END_TEST

START_TEST(memory_follows_the_streams)
{
    struct dcp_arena arena = { 0 };
    struct dcp_schedule s = simulated(
        TWO "buf %0 param bytes=7 persistent\n"
            "buf %1 act bytes=100\n"
            "buf %2 act bytes=100\n"
            "buf %3 act bytes=100\n"
            "fn $0 \"k\"\n"
            "n0 alloc %1 @0\n"
            "n1 launch $0 @0 # 50000 ns\n"
            "n2 free %1 @0\n"
            "n3 alloc %2 @0\n"
            "n4 alloc %3 @1\n"
            "n5 free %3 @1\n"
            "n6 free %2 @0\n", &arena);

    /* %3 comes and goes on @1 while %1 is still there, %2 after it */
    ck_assert_uint_eq(s.peak_bytes, 207);
    ck_assert_uint_eq(s.peak_ns, 5000);
    dcp_arena_release(&arena);
}
END_TEST

/* Whatever the graph: streams in order, engines one at a time, edges kept. */
static void
check_schedule(const struct dcp_graph *g, const struct dcp_schedule *s)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        const struct dcp_ir_node *n = &g->nodes[i];
        bool work = dcp_op_properties(n->op) & DCP_IS_WORK;

        ck_assert_uint_ge(s->end_ns[i], s->begin_ns[i]);
        ck_assert_uint_le(s->end_ns[i], s->step_ns);
        for (uint32_t j = 0; j < i; j++) {
            const struct dcp_ir_node *m = &g->nodes[j];

            if (m->stream == n->stream)
                ck_assert_uint_le(s->end_ns[j], s->begin_ns[i]);
            if (work && dcp_op_properties(m->op) & DCP_IS_WORK &&
                dcp_engine_of(m) == dcp_engine_of(n))
                ck_assert(s->end_ns[j] <= s->begin_ns[i] ||
                          s->end_ns[i] <= s->begin_ns[j]);
        }
        for (uint32_t a = 0; a < n->after_count; a++)
            ck_assert_uint_le(s->end_ns[n->after[a]], s->begin_ns[i]);
    }
}

START_TEST(schedules_keep_every_order)
{
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct dcp_graph *g = training_graph(seed, 800, 1 + seed % 4);
        struct dcp_arena arena = { 0 };
        struct dcp_schedule s;
        struct dcp_cost cost = { .issue_ns = 300 };

        for (uint32_t i = 10; i < g->node_count; i += 10)
            dcp_ir_add_after(g, &g->nodes[i], 1)[0] = i / 2;
        ck_assert_int_eq(dcp_schedule_fill(g, &cost, &arena, &s), DCP_OK);
        check_schedule(g, &s);
        dcp_arena_release(&arena);
        dcp_graph_destroy(g);
    }
}
END_TEST

START_TEST(one_stream_has_the_live_peak)
{
    struct dcp_graph *g = chaos_graph(3, 1000, 50);
    struct dcp_arena arena = { 0 };
    struct dcp_schedule s;
    struct dcp_cost cost;

    dcp_cost_default(&cost, 1);
    ck_assert_int_eq(dcp_schedule_fill(g, &cost, &arena, &s), DCP_OK);
    ck_assert_uint_eq(s.peak_bytes, dcp_live_peak(g));
    dcp_arena_release(&arena);
    dcp_graph_destroy(g);
}
END_TEST

START_TEST(simulation_without_memory)
{
    struct dcp_graph *g = training_graph(1, 100, 2);
    enum dcp_status status = DCP_NOMEM;
    struct dcp_cost cost;

    dcp_cost_default(&cost, 1);
    for (long after = 0; status; after++) {
        struct dcp_arena arena = { 0 };
        struct dcp_schedule s;

        dcp_arena_fail_after(after);
        status = dcp_schedule_fill(g, &cost, &arena, &s);
        dcp_arena_fail_after(-1);
        ck_assert(status == DCP_OK || status == DCP_NOMEM);
        dcp_arena_release(&arena);
    }
    dcp_graph_destroy(g);
}
END_TEST

static TCase *
new_case(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, 120);
    suite_add_tcase(suite, tcase);
    return tcase;
}

int
main(void)
{
    Suite *suite = suite_create("passes");
    TCase *place = new_case(suite, "place");
    TCase *runner = new_case(suite, "runner");
    TCase *cost = new_case(suite, "cost");
    TCase *sim = new_case(suite, "simulation");

    tcase_add_test(place, places_never_clash);
    tcase_add_test(place, frees_on_other_streams_keep_their_place);
    tcase_add_test(place, range_is_close_to_the_live_peak);
    tcase_add_test(place, placement_depends_on_the_graph_alone);
    tcase_add_test(place, large_buffers_begin_at_a_page);
    tcase_add_test(place, huge_sizes_are_left_alone);
    tcase_add_test(place, placement_without_memory_changes_nothing);
    tcase_add_test(runner, runner_runs_what_is_on);
    tcase_add_test(runner, runner_undoes_what_breaks_the_contract);
    tcase_add_test(runner, runner_goes_on_after_undoing);
    tcase_add_test(runner, runner_checks_requirements);
    tcase_add_test(runner, runner_refuses_unknown_names_and_broken_graphs);
    tcase_add_test(runner, short_form_runs_the_defaults);
    tcase_add_test(runner, runner_without_memory_keeps_a_good_graph);
    tcase_add_test(cost, curves_are_straight_between_points);
    tcase_add_test(cost, default_costs_are_plausible);
    tcase_add_test(sim, streams_overlap_on_different_engines);
    tcase_add_test(sim, one_engine_runs_one_node_at_a_time);
    tcase_add_test(sim, events_edges_and_the_host_are_waited_for);
    tcase_add_test(sim, synchronous_calls_hold_the_host);
    tcase_add_test(sim, memory_follows_the_streams);
    tcase_add_test(sim, schedules_keep_every_order);
    tcase_add_test(sim, one_stream_has_the_live_peak);
    tcase_add_test(sim, simulation_without_memory);
    SRunner *suite_runner = srunner_create(suite);
    srunner_run_all(suite_runner, CK_ENV);
    int failed = srunner_ntests_failed(suite_runner);
    srunner_free(suite_runner);
    return failed != 0;
}
