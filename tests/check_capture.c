/* SPDX-License-Identifier: Apache-2.0 */
/* Analysis of recorded calls: the text form, period finding, lift, access,
 * roles, profile; on made-up logs and on those under tests/data. Here: what
 * the parts share, and the whole way when memory runs out. */
#include "config.h"

#include "tests/check_capture.h"

#include "capture/lift.h"
#include "capture/log.h"
#include "capture/profile.h"
#include "capture/role.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
const struct program programs[PROGRAMS] = {
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

/* clang-format on */

struct dcp_graph *
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
                              &graph),
                     DCP_OK);
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
    ck_assert_msg(status == DCP_OK, "%s at %u", faults.kept ? list[0].text : "",
                  faults.kept ? list[0].index : 0);
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

void
check_graph(const struct dcp_graph *graph)
{
    check_valid(graph);
    check_same_text(graph);
}

void
count_roles(const char *name, const struct dcp_graph *graph, uint32_t *counts)
{
    memset(counts, 0, DCP_ROLE_COUNT * sizeof *counts);
    for (uint32_t b = 0; b < graph->buffer_count; b++)
        counts[graph->buffers[b].role]++;
    if (!getenv("SHOW"))
        return;
    printf("%s:", name);
    for (int r = 0; r < DCP_ROLE_COUNT; r++)
        printf(" %s %u", dcp_role_text(r), counts[r]);
    printf("\n");
    fflush(stdout);
}

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

static Suite *
suite(void)
{
    Suite *s = suite_create("capture");
    TCase *t = tcase_create("memory");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, survives_without_memory);
    suite_add_tcase(s, t);
    add_text(s);
    add_period(s);
    add_lift(s);
    add_access(s);
    add_recorded(s);
    return s;
}

int
main(void)
{
    SRunner *runner = srunner_create(suite());

    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
