/* SPDX-License-Identifier: Apache-2.0 */
/* Analysis of recorded calls: the text form, period finding, lift, access,
 * roles, profile; on made-up logs and on those under tests/data. */
#include "config.h"

#include "capture/access.h"
#include "capture/kernel.h"
#include "capture/lift.h"
#include "capture/log.h"
#include "capture/period.h"
#include "capture/profile.h"
#include "capture/role.h"
#include "src/arena.h"
#include "src/clock.h"
#include "src/ir.h"
#include "tests/training_log.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- made-up programs ---------------------------------------------------- */

static const struct {
    const char *name;
    struct training t;
    uint32_t cycle;  /* expected; 0: none */
    uint32_t states; /* by parameter */
} programs[] = {
    {"foreach", {.layers = 4, .steps = 6, .accum = 1}, 1, 2},
    {"foreach, tail", {.layers = 4, .steps = 5, .accum = 1, .tail_layers = 3},
     1, 2},
    {"foreach, garbage", {.layers = 12, .steps = 5, .accum = 1, .garbage = 1},
     1, 2},
    {"foreach, clip, events",
     {.layers = 4, .steps = 6, .accum = 1, .clip = 1, .events = 1}, 1, 2},
    {"foreach, early wait", {.layers = 4, .steps = 6, .accum = 1,
                             .wait_early = 1}, 1, 2},
    {"foreach, losses kept", {.layers = 4, .steps = 8, .accum = 1,
                              .losses = 1}, 1, 2},
    {"fused", {.layers = 6, .steps = 5, .accum = 1,
               .optimizer = TRAINING_ADAM_FUSED}, 1, 2},
    {"fused, long init", {.layers = 3, .steps = 5, .accum = 1,
                          .init_calls = 20000,
                          .optimizer = TRAINING_ADAM_FUSED}, 1, 2},
    {"loop", {.layers = 6, .steps = 5, .accum = 1,
              .optimizer = TRAINING_ADAM_LOOP}, 1, 2},
    {"momentum, stats", {.layers = 20, .steps = 5, .accum = 1, .stats = 1,
                         .optimizer = TRAINING_SGD_MOMENTUM}, 1, 1},
    {"plain", {.layers = 6, .steps = 5, .accum = 1,
               .optimizer = TRAINING_SGD_PLAIN}, 1, 0},
    {"accumulation", {.layers = 4, .steps = 5, .accum = 4, .clip = 1,
                      .optimizer = TRAINING_ADAM_FUSED}, 1, 2},
    {"accumulation, stats", {.layers = 4, .steps = 4, .accum = 8, .stats = 1,
                             .optimizer = TRAINING_SGD_MOMENTUM}, 1, 1},
    {"accumulation, plain", {.layers = 4, .steps = 4, .accum = 3,
                             .optimizer = TRAINING_SGD_PLAIN}, 1, 0},
    {"grads kept", {.layers = 5, .steps = 5, .accum = 1, .keep_grads = 1,
                    .optimizer = TRAINING_ADAM_FUSED}, 1, 2},
    {"grads kept, accumulation",
     {.layers = 5, .steps = 5, .accum = 2, .keep_grads = 1,
      .optimizer = TRAINING_ADAM_FUSED}, 1, 2},
    {"lengths", {.layers = 3, .steps = 10, .accum = 1, .lengths = 3}, 3, 2},
    {"lengths, eval", {.layers = 3, .steps = 12, .accum = 1, .lengths = 3,
                       .eval_every = 5}, 0, 2},
    {"eval", {.layers = 3, .steps = 14, .accum = 1, .eval_every = 10,
              .optimizer = TRAINING_ADAM_FUSED}, 1, 2},
    {"fixed memory", {.layers = 6, .steps = 5, .accum = 1, .fixed_memory = 1,
                      .keep_grads = 1,
                      .optimizer = TRAINING_ADAM_LOOP}, 1, 2},
};

enum { PROGRAMS = sizeof programs / sizeof *programs };

/* The last launch before the end of a step's update. */
static uint32_t
last_launch(const struct dcp_log *log, uint32_t end)
{
    while (end > 0 && log->calls[end - 1].op != DCP_CALL_LAUNCH)
        end--;
    return end;
}

/* Each border lies between the last launch of an update and the first launch
 * of the next step, and none is left out. */
static void
check_borders(const struct dcp_log *log, const struct dcp_period *p,
              const struct training_facts *facts, uint32_t steps)
{
    uint32_t last = steps - 1, first;

    /* An update at the very end may not be known to be complete. */
    if (p->borders[p->iterations] < last_launch(log, facts->step_ends[last]))
        last--;
    ck_assert_uint_ge(last, p->iterations);
    first = last - p->iterations;
    for (uint32_t i = 0; i <= p->iterations; i++) {
        uint32_t end = last_launch(log, facts->step_ends[first + i]);
        ck_assert_uint_ge(p->borders[i], end);
        for (uint32_t c = end; c < p->borders[i]; c++)
            ck_assert_int_ne(log->calls[c].op, DCP_CALL_LAUNCH);
    }
}

START_TEST(finds_iterations)
{
    const struct training *t = &programs[_i].t;
    struct training_facts facts;
    struct dcp_log *log = training_log(t, &facts);
    struct dcp_arena arena = {0};
    struct dcp_period p;

    ck_assert_int_eq(dcp_period_find(log, NULL, &p, &arena), DCP_OK);
    ck_assert_msg(p.iterations >= 2, "%s: %u iterations", programs[_i].name,
                  p.iterations);
    if (getenv("SHOW")) {
        printf("%s: %u calls, iterations %u cycle %u length %u shapes %u "
               "anchor %d delay %u wait %d steps %lu\n",
               programs[_i].name, log->call_count, p.iterations, p.cycle,
               p.length, p.shape_count, p.anchor.key != 0,
               p.anchor.delay, p.anchor.wait, (unsigned long)p.steps);
        for (uint32_t i = 0; i <= p.iterations; i++)
            printf(" %u", p.borders[i]);
        printf(" |");
        for (uint32_t i = 0; i < t->steps; i++)
            printf(" %u", facts.step_ends[i]);
        printf("\n");
        fflush(stdout);
    }
    check_borders(log, &p, &facts, t->steps);
    ck_assert_uint_ge(p.iterations + 2, t->steps);
    ck_assert_uint_eq(p.cycle, programs[_i].cycle);
    ck_assert_uint_ne(p.anchor.key, 0);
    dcp_arena_release(&arena);
    training_free(log, &facts);
}
END_TEST

/* --- text form ------------------------------------------------------------ */

static char *
print_log(const struct dcp_log *log, uint32_t first, uint32_t last,
          unsigned flags, const struct dcp_access_table *access, size_t *bytes)
{
    int fd = memfd_create("log", 0);
    off_t size;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(dcp_log_print(log, first, last, flags, access, fd),
                     DCP_OK);
    size = lseek(fd, 0, SEEK_END);
    char *text = malloc((size_t)size + 1);
    ck_assert_int_eq(pread(fd, text, (size_t)size, 0), size);
    text[size] = 0;
    close(fd);
    if (bytes)
        *bytes = (size_t)size;
    return text;
}

static void
check_round_trip(const char *text, size_t bytes)
{
    struct dcp_arena arena = {0};
    struct dcp_access_table access = {0};
    struct dcp_log log;
    uint32_t line = 0;
    size_t again_bytes;

    ck_assert_msg(dcp_log_parse(text, bytes, &arena, &log, &access, &line) ==
                      DCP_OK, "line %u", line);
    char *again = print_log(&log, 0, log.call_count, DCP_LOG_PARAMS, &access,
                            &again_bytes);
    ck_assert_str_eq(again, text);
    free(again);
    dcp_access_release(&access);
    dcp_arena_release(&arena);
}

START_TEST(text_round_trip)
{
    struct training_facts facts;
    struct dcp_log *log = training_log(&programs[_i].t, &facts);
    struct dcp_access_table access = {0};
    size_t bytes;

    training_access(log, &access);
    char *text = print_log(log, 0, log->call_count, 0, &access, &bytes);
    check_round_trip(text, bytes);
    free(text);
    dcp_access_release(&access);
    training_free(log, &facts);
}
END_TEST

/* Every field of every kind of call. */
static const char all_fields[] =
    "dcprel-log 1\n"
    "kernel 3 params 0:8 8:8 16:4 name _Z3addPfS_i # no comment\n"
    "kernel 9 unknown name ?\n"
    "access 3 0=r 8=rw\n"
    "access 9 16=w\n"
    "buffer 0 4096\n"
    "buffer 1 1099511627776\n"
    "alloc 0.0 b1\n"
    "alloc -.1 b0 sync\n"
    "copy 0.0 400 pageable>device sync 0@0+12\n"
    "copy 1.2 8 device>pinned 8@1+1099511627775\n"
    "launch 0.0 k3 12x4/128 m1024 a1f 0@0 8@1+256 =00ff10\n"
    "launch 0.0 k9 1x1x7/4294967295x2x3 sync\n"
    "fill 0.0 100x2/4 v4294967295 p512 0@1\n"
    "record 0.0 e0 f1\n"
    "depend 1.0 e0 f0\n"
    "wait -.0\n"
    "opaque 2.65535 0@0\n"
    "free 0.0 b1\n";

START_TEST(text_all_fields)
{
    check_round_trip(all_fields, sizeof all_fields - 1);
}
END_TEST

START_TEST(text_part_of_log)
{
    struct dcp_arena arena = {0};
    struct dcp_log log, part;
    uint32_t line;

    ck_assert_int_eq(dcp_log_parse(all_fields, sizeof all_fields - 1, &arena,
                                   &log, NULL, &line), DCP_OK);
    char *text = print_log(&log, 5, 7, 0, NULL, NULL);
    ck_assert_str_eq(text, "dcprel-log 1\n"
                           "kernel 9 unknown name ?\n"
                           "buffer 0 1099511627776\n"
                           "launch 0.0 k9 1x1x7/4294967295x2x3 sync\n"
                           "fill 0.0 100x2/4 v4294967295 p512 0@0\n");
    ck_assert_int_eq(dcp_log_parse(text, strlen(text), &arena, &part, NULL,
                                   &line), DCP_OK);
    ck_assert_uint_eq(part.buffers[0].alloc_call, UINT32_MAX);
    ck_assert_uint_eq(part.buffers[0].free_call, UINT32_MAX);
    ck_assert_uint_eq(part.calls[1].fill.dst, part.buffers[0].address);
    free(text);
    dcp_arena_release(&arena);
}
END_TEST

static const struct {
    const char *text;
    uint32_t line;
} bad_texts[] = {
    {"", 1},
    {"dcprel-log 2\n", 1},
    {"dcprel-log 1\nhello\n", 2},
    {"dcprel-log 1\nkernel 0 unknown name a\n", 2},
    {"dcprel-log 1\nkernel 4000000000 unknown name a\n", 2},
    {"dcprel-log 1\nkernel 1 unknown name a\nkernel 1 unknown name a\n", 3},
    {"dcprel-log 1\nkernel 1 params 0:99999999 name a\n", 2},
    {"dcprel-log 1\naccess 1 0=r\n", 2},
    {"dcprel-log 1\nbuffer 1 10\n", 2},
    {"dcprel-log 1\nbuffer 0 99999999999999999999\n", 2},
    {"dcprel-log 1\nbuffer 0 8\nalloc 0.0 b0\nalloc 0.0 b0\n", 4},
    {"dcprel-log 1\nbuffer 0 8\nfree 0.0 b0\nalloc 0.0 b0\n", 4},
    {"dcprel-log 1\nbuffer 0 8\nfree 0.0 b0\nfree 0.0 b0\n", 4},
    {"dcprel-log 1\nfree 0.0 b0\n", 2},
    {"dcprel-log 1\nlaunch 0.0 k1 1/1\n", 2},
    {"dcprel-log 1\nbuffer 0 8\nopaque 0.0 0@1\n", 3},
    {"dcprel-log 1\nbuffer 0 8\nopaque 0.0 0@0+9\n", 3},
    {"dcprel-log 1\ncopy 0.0 4 device>moon\n", 2},
    {"dcprel-log 1\nfill 0.0 4x1/3 v0\n", 2},
    {"dcprel-log 1\nwait 0.65536\n", 2},
    {"dcprel-log 1\nwait 0.0 x\n", 2},
};

START_TEST(text_refuses)
{
    struct dcp_arena arena = {0};
    struct dcp_log log = {.call_count = 77};
    uint32_t line = 0;

    ck_assert_int_eq(dcp_log_parse(bad_texts[_i].text,
                                   strlen(bad_texts[_i].text), &arena, &log,
                                   NULL, &line), DCP_SYNTAX);
    ck_assert_uint_eq(line, bad_texts[_i].line);
    ck_assert_uint_eq(log.call_count, 77);
    dcp_arena_release(&arena);
}
END_TEST

START_TEST(text_needs_a_place)
{
    struct training_facts facts;
    struct dcp_log *log = training_log(&programs[0].t, &facts);
    int fd = open("/dev/full", O_WRONLY);

    ck_assert_int_eq(dcp_log_print(log, 0, log->call_count, 0, NULL, fd),
                     DCP_IO);
    close(fd);
    training_free(log, &facts);
}
END_TEST

/* --- period: odd logs ------------------------------------------------------ */

START_TEST(period_of_little)
{
    struct training_facts facts;
    struct dcp_log *log = training_log(&programs[_i].t, &facts);
    struct dcp_arena arena = {0};
    struct dcp_period p;

    /* Nothing is claimed before two full steps were seen, at any length. (A
     * loop that goes over the parameters again and again does look like
     * iterations.) */
    uint32_t end = programs[_i].t.init_calls ? 0 : facts.step_ends[2];
    for (uint32_t n = 0; n < end; n += n < 64 ? 1 : 13 + n / 64) {
        struct dcp_log part = *log;
        part.call_count = n;
        ck_assert_int_eq(dcp_period_find(&part, NULL, &p, &arena), DCP_OK);
        ck_assert_msg(p.iterations == 0,
                      "%u iterations in %u calls: %u %u %u, anchor %d",
                      p.iterations, n, p.borders[0], p.borders[1],
                      p.borders[2], p.anchor.key != 0);
    }
    dcp_arena_release(&arena);
    training_free(log, &facts);
}
END_TEST

/* At the end of the first step, after many accumulation steps. */
START_TEST(period_of_first_step)
{
    struct training t = {.layers = 6, .steps = 4, .accum = 32,
                         .clip = 1, .optimizer = _i};
    struct training_facts facts;
    struct dcp_log *log = training_log(&t, &facts);
    struct dcp_arena arena = {0};
    struct dcp_period p;

    for (uint32_t step = 0; step < 4; step++) {
        struct dcp_log part = *log;
        part.call_count = facts.step_ends[step] + 2;
        ck_assert_int_eq(dcp_period_find(&part, NULL, &p, &arena), DCP_OK);
        ck_assert_uint_eq(p.iterations, step < 2 ? 0 : step);
    }
    dcp_arena_release(&arena);
    training_free(log, &facts);
}
END_TEST

START_TEST(period_of_inference)
{
    struct training t = {.layers = 8, .steps = 16, .optimizer = TRAINING_NONE};
    struct training_facts facts;
    struct dcp_log *log = training_log(&t, &facts);
    struct dcp_arena arena = {0};
    struct dcp_period p;

    ck_assert_int_eq(dcp_period_find(log, NULL, &p, &arena), DCP_OK);
    ck_assert_uint_ge(p.iterations, 4);
    ck_assert_uint_eq(p.cycle, 1);
    ck_assert_uint_eq(p.length, facts.step_ends[5] - facts.step_ends[4]);
    dcp_arena_release(&arena);
    training_free(log, &facts);
}
END_TEST

START_TEST(period_of_building)
{
    struct training t = {.layers = 40, .accum = 1, .init_calls = 300};
    struct training_facts facts;
    struct dcp_log *log = training_log(&t, &facts);
    struct dcp_arena arena = {0};
    struct dcp_period p;

    ck_assert_int_eq(dcp_period_find(log, NULL, &p, &arena), DCP_OK);
    ck_assert_uint_eq(p.iterations, 0);
    dcp_arena_release(&arena);
    training_free(log, &facts);
}
END_TEST

/* The anchor cuts a longer log where the analysis of it would. */
START_TEST(anchor_cuts_online)
{
    struct training t = {.layers = 3, .steps = 12, .accum = 2, .lengths = 3,
                         .eval_every = 5};
    struct training_facts facts;
    struct dcp_log *log = training_log(&t, &facts);
    struct dcp_log part = *log;
    struct dcp_arena arena = {0};
    struct dcp_period p;
    uint32_t seen = 0;

    part.call_count = facts.step_ends[5] + 40;
    ck_assert_int_eq(dcp_period_find(&part, NULL, &p, &arena), DCP_OK);
    for (uint32_t i = 0; i < log->call_count; i++) {
        if (!dcp_anchor_is(&p.anchor, &log->calls[i], log))
            continue;
        ck_assert_uint_lt(i, facts.step_ends[seen]);
        ck_assert_uint_ge(i, seen ? facts.step_ends[seen - 1] : 0);
        seen++;
    }
    ck_assert_uint_eq(seen, t.steps);
    dcp_arena_release(&arena);
    training_free(log, &facts);
}
END_TEST

/* --- lift and roles ------------------------------------------------------- */

/* The graph of the last full iteration but one (all its frees are there). */
static struct dcp_graph *
lift_one(const struct dcp_log *log, const struct dcp_access_table *access,
         struct dcp_period *p, struct dcp_arena *arena)
{
    struct dcp_graph *graph;

    ck_assert_int_eq(dcp_period_find(log, NULL, p, arena), DCP_OK);
    ck_assert_uint_ge(p->iterations, 2);
    uint32_t i = p->iterations - 2;
    struct dcp_lift_options options = {
        .since = p->borders[i ? i - 1 : 0],
        .access = access,
    };
    ck_assert_int_eq(dcp_lift(log, p->borders[i], p->borders[i + 1], &options,
                              &graph), DCP_OK);
    return graph;
}

static void
check_valid(const struct dcp_graph *graph)
{
    struct dcp_ir_fault list[8];
    struct dcp_ir_faults faults = {.list = list, .room = 8};
    enum dcp_status status = dcp_ir_verify(graph, &faults);

    if (status && getenv("SHOW")) {
        char *text = dcp_ir_print_text(graph, 0, NULL);
        printf("%.4000s\n", text);
        free(text);
        fflush(stdout);
    }
    ck_assert_msg(status == DCP_OK, "%s at %u",
                  faults.kept ? list[0].text : "", faults.kept ? list[0].index
                                                               : 0);
}

static void
check_same_text(const struct dcp_graph *graph)
{
    struct dcp_graph *again;
    struct dcp_ir_error error;
    size_t length;
    char *text = dcp_ir_print_text(graph, 0, &length);

    ck_assert_ptr_nonnull(text);
    ck_assert_msg(dcp_ir_parse(text, length, "lift", &again, &error) == DCP_OK,
                  "%s", error.text);
    ck_assert(dcp_ir_equal(graph, again));
    dcp_graph_destroy(again);
    free(text);
}

static void
count_roles(const struct dcp_graph *graph, uint32_t *counts)
{
    memset(counts, 0, DCP_ROLE_COUNT * sizeof *counts);
    for (uint32_t b = 0; b < graph->buffer_count; b++)
        counts[graph->buffers[b].role]++;
}

static void
show_roles(const char *name, const struct dcp_graph *graph)
{
    uint32_t counts[DCP_ROLE_COUNT];

    if (!getenv("SHOW"))
        return;
    count_roles(graph, counts);
    printf("%s:", name);
    for (int r = 0; r < DCP_ROLE_COUNT; r++)
        printf(" %s %u", dcp_role_text(r), counts[r]);
    printf("\n");
    fflush(stdout);
}

static void
check_parts(const struct dcp_graph *graph)
{
    uint32_t parts[DCP_PART_COUNT] = {0};

    for (uint32_t i = 0; i < graph->node_count; i++) {
        parts[graph->nodes[i].part]++;
        if (graph->nodes[i].op != DCP_OP_LAUNCH)
            continue;
        const char *name = graph->kernels[graph->nodes[i].launch.kernel].name;
        int part = !strcmp(name, "rms")           ? DCP_PART_FORWARD
                   : !strcmp(name, "attention_backward") ? DCP_PART_BACKWARD
                   : !strcmp(name, "fused_adam")  ? DCP_PART_UPDATE
                   : !strcmp(name, "mul_")        ? DCP_PART_UPDATE
                   : !strcmp(name, "addcdiv_")    ? DCP_PART_UPDATE
                   : !strcmp(name, "step_")       ? DCP_PART_UPDATE
                   : !strcmp(name, "momentum_")   ? DCP_PART_UPDATE
                                                  : graph->nodes[i].part;
        ck_assert_msg(graph->nodes[i].part == part, "%s is %s", name,
                      dcp_part_text(graph->nodes[i].part));
    }
    ck_assert_uint_gt(parts[DCP_PART_FORWARD], 0);
    ck_assert_uint_gt(parts[DCP_PART_BACKWARD], 0);
    ck_assert_uint_gt(parts[DCP_PART_UPDATE], 0);
}

static void
check_roles(uint32_t index, bool with_access)
{
    const struct training *t = &programs[index].t;
    struct training_facts facts;
    struct dcp_log *log = training_log(t, &facts);
    struct dcp_access_table access = {0};
    struct dcp_arena arena = {0};
    uint32_t counts[DCP_ROLE_COUNT];
    struct dcp_period p;

    if (with_access)
        training_access(log, &access);
    struct dcp_graph *graph = lift_one(log, with_access ? &access : NULL, &p,
                                       &arena);
    ck_assert_int_eq(dcp_role_fill(graph), DCP_OK);
    show_roles(programs[index].name, graph);
    check_valid(graph);
    check_same_text(graph);
    check_parts(graph);
    ck_assert_uint_eq(graph->micro_count, t->accum);
    count_roles(graph, counts);
    /* The rotary table is never written: it is a parameter that stays. */
    ck_assert_uint_eq(counts[DCP_ROLE_PARAM], facts.params + with_access);
    ck_assert_uint_eq(counts[DCP_ROLE_STATE],
                      facts.params * programs[index].states);
    /* Where the evaluation comes first, the old gradients are still there. */
    ck_assert_uint_eq(counts[DCP_ROLE_GRAD] % facts.params, 0);
    ck_assert_uint_ge(counts[DCP_ROLE_GRAD], facts.params);
    ck_assert_uint_ge(counts[DCP_ROLE_INPUT], t->accum);
    ck_assert_uint_eq(counts[DCP_ROLE_STAT],
                      (t->stats ? 2 * t->layers : 0) + !with_access);
    dcp_graph_destroy(graph);
    dcp_access_release(&access);
    dcp_arena_release(&arena);
    training_free(log, &facts);
}

/* Fixed memory is left out: roles belong to blocks, not to parts of them. */
START_TEST(roles_with_access)
{
    check_roles((uint32_t)_i, true);
}
END_TEST

START_TEST(roles_without_access)
{
    check_roles((uint32_t)_i, false);
}
END_TEST

static double
seconds_since(uint64_t begin)
{
    return (double)(dcp_now_ns() - begin) * 1e-9;
}

/* n log n: work for a call may grow with the logarithm of the log's length. */
START_TEST(analysis_growth)
{
    double least = 0;

    for (uint32_t layers = 2; layers <= 2000; layers *= 10) {
        struct training t = {.layers = layers, .steps = 10, .accum = 1,
                             .optimizer = TRAINING_ADAM_FUSED};
        struct training_facts facts;
        struct dcp_log *log = training_log(&t, &facts);
        struct dcp_arena arena = {0};
        struct dcp_period p;
        uint64_t begin = dcp_now_ns();

        struct dcp_graph *graph = lift_one(log, NULL, &p, &arena);
        double lifted = seconds_since(begin);
        ck_assert_int_eq(dcp_role_fill(graph), DCP_OK);
        double each = (double)p.steps / log->call_count;
        printf("analysis: %u calls, %.1f steps a call, %u nodes, "
               "%.3f s, roles %.3f s\n", log->call_count, each,
               graph->node_count, lifted, seconds_since(begin) - lifted);
        ck_assert_uint_ge(p.iterations, 8);
        if (least == 0)
            least = each;
        ck_assert(each < 12 * least);
        dcp_graph_destroy(graph);
        dcp_arena_release(&arena);
        training_free(log, &facts);
    }
    fflush(stdout);
}
END_TEST

START_TEST(lift_keeps_all)
{
    static const char text[] =
        "dcprel-log 1\n"
        "kernel 3 params 0:8 8:8 16:4 name add\n"
        "kernel 9 unknown name ?\n"
        "access 3 0=r 8=rw\n"
        "buffer 0 4096\n"
        "buffer 1 65536\n"
        "alloc 0.0 b1\n"
        "copy 0.0 400 pageable>device sync 0@0+12\n"
        "launch 0.0 k3 12x4/128 m1024 a1f 0@0 8@1+256\n"
        "launch 1.0 k9 1x1x7/4x2x3 0@1\n"
        "fill 0.0 100x2/4 v7 p512 0@1\n"
        "depend 1.0 e0 f0\n"
        "record 0.0 e0 f1\n"
        "depend 1.0 e0 f0\n"
        "wait -.0\n"
        "opaque 1.0 0@0\n"
        "free 0.0 b1\n";
    static const char wanted[] =
        "buf %0 unknown bytes=65536\n"
        "buf %1 unknown bytes=4096 persistent\n"
        "fn $0 \"add\" params=0:8,8:8,16:4\n"
        "fn $1 \"?\"";
    struct dcp_arena arena = {0};
    struct dcp_access_table access = {0};
    struct dcp_graph *graph;
    struct dcp_log log;
    uint32_t line;

    ck_assert_int_eq(dcp_log_parse(text, sizeof text - 1, &arena, &log,
                                   &access, &line), DCP_OK);
    struct dcp_lift_options options = {.access = &access};
    ck_assert_int_eq(dcp_lift(&log, 0, log.call_count, &options, &graph),
                     DCP_OK);
    char *ir = dcp_ir_print_text(graph, 0, NULL);
    ck_assert_msg(strstr(ir, wanted) != NULL, "%s", ir);
    ck_assert_msg(strstr(ir, "launch $0 @0 grid=12,4") != NULL, "%s", ir);
    ck_assert_uint_eq(graph->node_count, log.call_count);
    ck_assert_uint_eq(graph->stream_count, 2);
    ck_assert_uint_eq(graph->event_count, 1);
    ck_assert(graph->nodes[5].carried && !graph->nodes[7].carried);
    ck_assert_uint_eq(graph->nodes[8].stream, DCP_NONE);
    ck_assert_uint_eq(graph->nodes[2].refs[0].access, DCP_READ);
    ck_assert_uint_eq(graph->nodes[3].refs[0].access,
                      DCP_READ | DCP_WRITE | DCP_ASSUMED);
    check_valid(graph);
    check_same_text(graph);
    free(ir);
    dcp_graph_destroy(graph);
    ck_assert_int_eq(dcp_lift(&log, 3, 2, NULL, &graph), DCP_INVALID);
    ck_assert_int_eq(dcp_lift(&log, 0, 99, NULL, &graph), DCP_INVALID);
    dcp_access_release(&access);
    dcp_arena_release(&arena);
}
END_TEST

/* Two processes whose handles differ get the same graph. */
START_TEST(lift_knows_no_handles)
{
    struct training_facts facts[2];
    struct dcp_graph *graph[2];

    for (int i = 0; i < 2; i++) {
        struct dcp_arena arena = {0};
        struct dcp_period p;
        struct dcp_log *log = training_log(&programs[0].t, &facts[i]);
        for (uint32_t c = 0; c < log->call_count; c++)
            log->calls[c].stream += (uint64_t)i << 40;
        graph[i] = lift_one(log, NULL, &p, &arena);
        dcp_arena_release(&arena);
        training_free(log, &facts[i]);
    }
    ck_assert(dcp_ir_equal(graph[0], graph[1]));
    ck_assert_uint_eq(dcp_ir_hash(graph[0]), dcp_ir_hash(graph[1]));
    dcp_graph_destroy(graph[0]);
    dcp_graph_destroy(graph[1]);
}
END_TEST

static bool
find_ref(void *user, uint64_t address, uint32_t *buffer, uint64_t *offset)
{
    (void)user;
    if (address < 0x10000 || address >= 0x10100)
        return false;
    *buffer = 5;
    *offset = address - 0x10000;
    return true;
}

START_TEST(refs_are_scanned)
{
    uint64_t words[] = {0x10000, 0x100ff, 0x10100, 7, 0xffff, 0x10010};
    uint8_t params[sizeof words + 7];
    struct dcp_ref refs[2];

    memset(params, 0xff, sizeof params);
    memcpy(params, words, sizeof words);
    ck_assert_uint_eq(dcp_refs_scan(params, sizeof params, 0x8000, 0x10000,
                                    find_ref, NULL, refs, 2), 3);
    ck_assert_uint_eq(refs[0].offset, 0);
    ck_assert_uint_eq(refs[1].offset, 0xff);
    ck_assert_uint_eq(refs[1].slot, 8);
    ck_assert_uint_eq(dcp_refs_scan(params, 7, 0x8000, 0x10000, find_ref, NULL,
                                    refs, 2), 0);
    ck_assert_uint_eq(dcp_refs_scan(NULL, 0, 0x8000, 0x10000, find_ref, NULL,
                                    refs, 2), 0);
}
END_TEST

/* --- access ---------------------------------------------------------------- */

/* A GPU of three blocks of 64 bytes at 0x1000, 0x2000, 0x3000; its kernels
 * are done by the test between begin and end. */
struct toy {
    uint8_t memory[3][64];
    uint64_t results[128];
    uint32_t fills, hashes;
    bool broken;
};

static bool
toy_find(void *user, uint64_t address, struct dcp_access_block *out)
{
    (void)user;
    if (address < 0x1000 || address >= 0x4000 || (address & 0xfff) >= 64)
        return false;
    *out = (struct dcp_access_block){address >> 12, address & ~0xfffull, 64};
    return true;
}

static bool
toy_hash(void *user, uint64_t stream, uint64_t address, uint64_t bytes,
         uint32_t index)
{
    struct toy *toy = user;
    uint64_t hash = 1;

    (void)stream;
    ck_assert_uint_eq(bytes, 64);
    for (uint32_t i = 0; i < 64; i++)
        hash = hash * 31 + toy->memory[(address >> 12) - 1][i];
    toy->results[index] = hash;
    toy->hashes++;
    return !toy->broken;
}

static bool
toy_fill(void *user, uint64_t stream, uint64_t address, uint64_t bytes)
{
    struct toy *toy = user;

    (void)stream;
    memset(toy->memory[(address >> 12) - 1], 0xa5, bytes);
    toy->fills++;
    return true;
}

static bool
toy_read(void *user, uint64_t stream, uint64_t *results, uint32_t count)
{
    struct toy *toy = user;

    (void)stream;
    memcpy(results, toy->results, count * sizeof *results);
    return true;
}

struct toy_launch {
    struct dcp_kernel kernel;
    struct dcp_call call;
    struct dcp_ref refs[3];
    uint64_t words[3];
};

static struct dcp_call *
toy_call(struct toy_launch *l, uint32_t kernel, uint64_t a, uint64_t b,
         uint64_t c)
{
    *l = (struct toy_launch){.words = {a, b, c}};
    l->kernel.id = kernel;
    for (uint32_t i = 0; i < 3 && l->words[i]; i++)
        l->refs[l->call.ref_count++].slot = i * 8;
    l->call.op = DCP_CALL_LAUNCH;
    l->call.refs = l->refs;
    l->call.launch.kernel = &l->kernel;
    l->call.launch.params = (uint8_t *)l->words;
    l->call.launch.bytes = sizeof l->words;
    return &l->call;
}

static void
toy_alloc(struct dcp_access_watch *watch, uint64_t address)
{
    struct dcp_call call = {.op = DCP_CALL_ALLOC};

    call.memory.address = address;
    ck_assert(!dcp_access_begin(watch, &call));
    dcp_access_end(watch, &call, true);
}

static const uint8_t unknown = DCP_READ | DCP_WRITE | DCP_ASSUMED;

START_TEST(access_is_found)
{
    struct toy toy = {0};
    struct dcp_access_table table = {0};
    struct dcp_access_ops ops = {toy_find, toy_hash, toy_fill, toy_read, &toy};
    struct dcp_access_watch *watch =
        dcp_access_watch_create(&table, &ops, NULL);
    struct toy_launch l;

    for (int i = 0; i < 3; i++) {
        /* out = in: the output is fresh and gets zeros. */
        toy_alloc(watch, 0x2000);
        ck_assert(dcp_access_begin(watch, toy_call(&l, 1, 0x1000, 0x2000, 0)));
        memset(toy.memory[1], 0, 64);
        dcp_access_end(watch, &l.call, true);
        /* inout += in */
        ck_assert(dcp_access_begin(watch, toy_call(&l, 2, 0x3008, 0x1000, 0)));
        toy.memory[2][8]++;
        dcp_access_end(watch, &l.call, true);
    }
    ck_assert_uint_eq(dcp_access_of(&table, 1, 0), DCP_READ);
    ck_assert_uint_eq(dcp_access_of(&table, 1, 8), DCP_WRITE);
    ck_assert_uint_eq(dcp_access_of(&table, 2, 0), DCP_READ | DCP_WRITE);
    ck_assert_uint_eq(dcp_access_of(&table, 2, 8), DCP_READ);
    ck_assert_uint_eq(dcp_access_of(&table, 2, 16), unknown);
    ck_assert_uint_eq(dcp_access_of(&table, 3, 0), unknown);
    ck_assert_uint_eq(dcp_access_of(NULL, 1, 0), unknown);
    ck_assert_uint_eq(dcp_access_seen(&table, 1, 0), 3);
    ck_assert_uint_eq(toy.fills, 3);
    dcp_access_watch_destroy(watch);
    dcp_access_release(&table);
}
END_TEST

/* A block is filled only straight after its allocation: any work between may
 * have written it through a pointer that nobody sees. */
START_TEST(access_spares_contents)
{
    struct toy toy = {0};
    struct dcp_access_table table = {0};
    struct dcp_access_ops ops = {toy_find, toy_hash, toy_fill, toy_read, &toy};
    struct dcp_access_watch *watch =
        dcp_access_watch_create(&table, &ops, NULL);
    struct dcp_call opaque = {.op = DCP_CALL_OPAQUE};
    struct toy_launch l;

    toy_alloc(watch, 0x2000);
    ck_assert(!dcp_access_begin(watch, &opaque));
    dcp_access_end(watch, &opaque, true);
    ck_assert(dcp_access_begin(watch, toy_call(&l, 1, 0x1000, 0x2000, 0)));
    dcp_access_end(watch, &l.call, true);
    toy_alloc(watch, 0x2000);
    ck_assert(dcp_access_begin(watch, toy_call(&l, 1, 0x1000, 0x3000, 0)));
    dcp_access_end(watch, &l.call, true);
    ck_assert(dcp_access_begin(watch, toy_call(&l, 1, 0x2000, 0x3000, 0)));
    dcp_access_end(watch, &l.call, true);
    ck_assert_uint_eq(toy.fills, 0);
    dcp_access_watch_destroy(watch);
    dcp_access_release(&table);
}
END_TEST

/* In place, the change may be either slot's; apart, it is the second's. */
START_TEST(access_tells_slots_apart)
{
    struct toy toy = {0};
    struct dcp_access_table table = {0};
    struct dcp_access_ops ops = {toy_find, toy_hash, toy_fill, toy_read, &toy};
    struct dcp_access_watch *watch =
        dcp_access_watch_create(&table, &ops, NULL);
    struct toy_launch l;

    for (int i = 0; i < 2; i++) {
        ck_assert(dcp_access_begin(watch, toy_call(&l, 1, 0x1000, 0x1000, 0)));
        toy.memory[0][0]++;
        dcp_access_end(watch, &l.call, true);
    }
    ck_assert_uint_eq(dcp_access_of(&table, 1, 0), DCP_READ | DCP_WRITE);
    for (int i = 0; i < 2; i++) {
        ck_assert(dcp_access_begin(watch, toy_call(&l, 1, 0x1000, 0x2000, 0)));
        toy.memory[1][0]++;
        dcp_access_end(watch, &l.call, true);
    }
    ck_assert_uint_eq(dcp_access_of(&table, 1, 0), DCP_READ);
    ck_assert_uint_eq(dcp_access_of(&table, 1, 8), DCP_READ | DCP_WRITE);
    dcp_access_watch_destroy(watch);
    dcp_access_release(&table);
}
END_TEST

START_TEST(access_keeps_to_budget)
{
    struct toy toy = {0};
    struct dcp_access_table table = {0};
    struct dcp_access_ops ops = {toy_find, toy_hash, toy_fill, toy_read, &toy};
    struct dcp_access_limits limits = {.launch_bytes = 256, .launches = 4,
                                       .each = 2};
    struct dcp_access_watch *watch =
        dcp_access_watch_create(&table, &ops, &limits);
    struct toy_launch l;

    /* Three blocks, twice each, are more than a launch may cost. */
    ck_assert(!dcp_access_begin(watch,
                                toy_call(&l, 9, 0x1000, 0x2000, 0x3000)));
    for (uint32_t i = 0; i < 9; i++) {
        bool wanted = i < 6 && i % 3 < 2;
        ck_assert(dcp_access_begin(watch, toy_call(&l, 1 + i / 3, 0x1000, 0,
                                                   0)) == wanted);
        dcp_access_end(watch, &l.call, true);
    }
    ck_assert(dcp_access_done(watch));
    ck_assert_uint_eq(toy.hashes, 8);
    dcp_access_watch_destroy(watch);
    dcp_access_release(&table);
}
END_TEST

START_TEST(access_ends_on_failure)
{
    struct toy toy = {.broken = true};
    struct dcp_access_table table = {0};
    struct dcp_access_ops ops = {toy_find, toy_hash, toy_fill, toy_read, &toy};
    struct dcp_access_watch *watch =
        dcp_access_watch_create(&table, &ops, NULL);
    struct toy_launch l;

    ck_assert(!dcp_access_begin(watch, toy_call(&l, 1, 0x1000, 0, 0)));
    dcp_access_end(watch, &l.call, true);
    ck_assert(dcp_access_done(watch));
    toy.broken = false;
    ck_assert(!dcp_access_begin(watch, toy_call(&l, 1, 0x1000, 0, 0)));
    ck_assert_uint_eq(dcp_access_seen(&table, 1, 0), 0);
    dcp_access_watch_destroy(watch);
    dcp_access_release(&table);
}
END_TEST

/* --- profile ---------------------------------------------------------------- */

START_TEST(profile_sums_up)
{
    struct training_facts facts;
    struct dcp_log *log = training_log(&programs[6].t, &facts);
    struct dcp_arena arena = {0};
    struct dcp_period p;
    struct dcp_profile sum;
    struct dcp_graph *graph = lift_one(log, NULL, &p, &arena);
    uint64_t *ns = calloc(graph->node_count, sizeof *ns);
    uint64_t total = 0, launches = 0;

    ck_assert_int_eq(dcp_role_fill(graph), DCP_OK);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        bool work = dcp_op_properties(graph->nodes[i].op) & DCP_IS_WORK;
        ns[i] = i == 40 ? UINT64_MAX : 1000 + i;
        if (work && i != 40)
            total += ns[i];
    }
    dcp_profile_apply(graph, ns, graph->node_count, true);
    for (uint32_t i = 0; i < graph->node_count; i++)
        ns[i] += i == 40 ? 0 : 5;
    dcp_profile_apply(graph, ns, graph->node_count, true);
    ck_assert_int_eq(dcp_profile_sum(graph, &sum, &arena), DCP_OK);
    ck_assert_uint_eq(sum.total_ns, total);
    ck_assert_uint_eq(sum.launch_ns + sum.copy_ns + sum.fill_ns, total);
    for (uint32_t k = 0; k < sum.kernel_count; k++) {
        launches += sum.kernels[k].launches;
        ck_assert(k == 0 ||
                  sum.kernels[k].total_ns <= sum.kernels[k - 1].total_ns);
        ck_assert_uint_le(sum.kernels[k].least_ns, sum.kernels[k].most_ns);
    }
    ck_assert_uint_gt(launches, 0);
    ck_assert_uint_gt(sum.part_ns[DCP_PART_UPDATE], 0);
    free(ns);
    dcp_graph_destroy(graph);
    dcp_arena_release(&arena);
    training_free(log, &facts);
}
END_TEST

/* --- memory runs out -------------------------------------------------------- */

static enum dcp_status
analyse(const char *text, size_t bytes)
{
    struct dcp_arena arena = {0};
    struct dcp_access_table access = {0};
    struct dcp_graph *graph = NULL;
    struct dcp_profile sum;
    struct dcp_period p = {0};
    struct dcp_log log;
    uint32_t line;
    int fd = open("/dev/null", O_WRONLY);
    enum dcp_status status =
        dcp_log_parse(text, bytes, &arena, &log, &access, &line);

    if (!status)
        status = dcp_period_find(&log, NULL, &p, &arena);
    if (!status)
        ck_assert_uint_ge(p.iterations, 2);
    else
        ck_assert_uint_eq(p.iterations, 0);
    struct dcp_lift_options options = {.access = &access};
    if (!status)
        status = dcp_lift(&log, p.borders[0], p.borders[1], &options, &graph);
    if (!status)
        status = dcp_role_fill(graph);
    if (!status)
        status = dcp_profile_sum(graph, &sum, &arena);
    if (!status)
        status = dcp_log_print(&log, 0, log.call_count, 0, &access, fd);
    dcp_graph_destroy(graph);
    dcp_access_release(&access);
    dcp_arena_release(&arena);
    close(fd);
    return status;
}

START_TEST(survives_without_memory)
{
    struct training t = {.layers = 1, .steps = 5, .accum = 2, .lengths = 2};
    struct training_facts facts;
    struct dcp_log *log = training_log(&t, &facts);
    struct dcp_access_table access = {0};
    enum dcp_status status = DCP_NOMEM;
    size_t bytes;
    long n = 0;

    training_access(log, &access);
    char *text = print_log(log, 0, log->call_count, 0, &access, &bytes);
    for (; status != DCP_OK; n += n < 20 ? 1 : 3) {
        dcp_arena_fail_after(n);
        status = analyse(text, bytes);
        dcp_arena_fail_after(-1);
        ck_assert(status == DCP_OK || status == DCP_NOMEM);
    }
    ck_assert_int_gt(n, 100);
    free(text);
    dcp_access_release(&access);
    training_free(log, &facts);
}
END_TEST

/* --- recorded programs ------------------------------------------------------ */

/* One row a file under tests/data; every file needs a row. 0: not checked. */
static const struct {
    const char *file;
    uint32_t iterations, cycle, length, micro;
    uint32_t params, states, grads, inputs, stats;
} recorded[] = {
    {.file = NULL},
};

static char *
read_file(const char *path, size_t *bytes)
{
    int fd = open(path, O_RDONLY);
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);

    if (size < 0)
        return NULL;
    char *text = malloc((size_t)size + 1);
    ck_assert_int_eq(pread(fd, text, (size_t)size, 0), size);
    close(fd);
    *bytes = (size_t)size;
    return text;
}

static const char *
data_dir(void)
{
    static char path[4096];
    const char *source = getenv("srcdir");

    snprintf(path, sizeof path, "%s/tests/data", source ? source : ".");
    return path;
}

static int
row_of(const char *file)
{
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++)
        if (recorded[i].file && !strcmp(recorded[i].file, file))
            return (int)i;
    return -1;
}

static void
expect(const char *file, const char *what, uint32_t wanted, uint32_t found)
{
    if (wanted)
        ck_assert_msg(wanted == found, "%s: %s: wanted %u, found %u", file,
                      what, wanted, found);
}

static void
check_recorded(const char *file)
{
    struct dcp_arena arena = {0};
    struct dcp_access_table access = {0};
    struct dcp_log log;
    struct dcp_period p;
    uint32_t line = 0, counts[DCP_ROLE_COUNT];
    char path[8192];
    size_t bytes;
    int row = row_of(file);

    ck_assert_msg(row >= 0, "tests/data/%s has no row", file);
    snprintf(path, sizeof path, "%s/%s", data_dir(), file);
    char *text = read_file(path, &bytes);
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(dcp_log_parse(text, bytes, &arena, &log, &access, &line) ==
                      DCP_OK, "%s:%u", file, line);
    struct dcp_graph *graph = lift_one(&log, &access, &p, &arena);
    ck_assert_int_eq(dcp_role_fill(graph), DCP_OK);
    check_valid(graph);
    check_same_text(graph);
    show_roles(file, graph);
    count_roles(graph, counts);
    expect(file, "iterations", recorded[row].iterations, p.iterations);
    expect(file, "cycle", recorded[row].cycle, p.cycle);
    expect(file, "length", recorded[row].length, p.length);
    expect(file, "micro-steps", recorded[row].micro, graph->micro_count);
    expect(file, "params", recorded[row].params, counts[DCP_ROLE_PARAM]);
    expect(file, "states", recorded[row].states, counts[DCP_ROLE_STATE]);
    expect(file, "grads", recorded[row].grads, counts[DCP_ROLE_GRAD]);
    expect(file, "inputs", recorded[row].inputs, counts[DCP_ROLE_INPUT]);
    expect(file, "stats", recorded[row].stats, counts[DCP_ROLE_STAT]);
    dcp_graph_destroy(graph);
    dcp_access_release(&access);
    dcp_arena_release(&arena);
    free(text);
}

START_TEST(recorded_programs)
{
    DIR *list = opendir(data_dir());

    for (struct dirent *e; list && (e = readdir(list));) {
        size_t n = strlen(e->d_name);
        if (n > 4 && !strcmp(e->d_name + n - 4, ".log"))
            check_recorded(e->d_name);
    }
    if (list)
        closedir(list);
}
END_TEST

static void
add_text(Suite *s)
{
    TCase *t = tcase_create("text");

    tcase_add_loop_test(t, text_round_trip, 0, PROGRAMS);
    tcase_add_test(t, text_all_fields);
    tcase_add_test(t, text_part_of_log);
    tcase_add_loop_test(t, text_refuses, 0,
                        sizeof bad_texts / sizeof *bad_texts);
    tcase_add_test(t, text_needs_a_place);
    suite_add_tcase(s, t);
}

static void
add_period(Suite *s)
{
    TCase *t = tcase_create("period");

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, finds_iterations, 0, PROGRAMS);
    tcase_add_loop_test(t, period_of_little, 0, PROGRAMS);
    tcase_add_loop_test(t, period_of_first_step, TRAINING_ADAM_FOREACH,
                        TRAINING_SGD_PLAIN + 1);
    tcase_add_test(t, period_of_inference);
    tcase_add_test(t, period_of_building);
    tcase_add_test(t, anchor_cuts_online);
    suite_add_tcase(s, t);
}

static void
add_lift(Suite *s)
{
    TCase *t = tcase_create("lift");

    tcase_add_test(t, lift_keeps_all);
    tcase_add_test(t, analysis_growth);
    tcase_add_test(t, lift_knows_no_handles);
    tcase_add_test(t, refs_are_scanned);
    tcase_add_loop_test(t, roles_with_access, 0, PROGRAMS - 1);
    tcase_add_loop_test(t, roles_without_access, 0, PROGRAMS - 1);
    tcase_add_test(t, profile_sums_up);
    tcase_add_test(t, survives_without_memory);
    tcase_add_test(t, recorded_programs);
    tcase_set_timeout(t, 120);
    suite_add_tcase(s, t);
}

static void
add_access(Suite *s)
{
    TCase *t = tcase_create("access");

    tcase_add_test(t, access_is_found);
    tcase_add_test(t, access_spares_contents);
    tcase_add_test(t, access_tells_slots_apart);
    tcase_add_test(t, access_keeps_to_budget);
    tcase_add_test(t, access_ends_on_failure);
    suite_add_tcase(s, t);
}

int
main(void)
{
    Suite *s = suite_create("capture");

    add_text(s);
    add_period(s);
    add_lift(s);
    add_access(s);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
