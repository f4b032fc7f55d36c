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
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
 * of the next step, and the last update has its border. */
static void
check_borders(const struct dcp_log *log, const struct dcp_period *p,
              const struct training_facts *facts, uint32_t steps)
{
    uint32_t first = steps - p->iterations - 1;

    ck_assert_uint_lt(first, steps);
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
               "micro %u anchor %d delay %u wait %d steps %lu\n",
               programs[_i].name, log->call_count, p.iterations, p.cycle,
               p.length, p.shape_count, p.micro.count, p.anchor.key != 0,
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
    ck_assert_uint_eq(p.micro.count, t->accum);
    ck_assert_uint_ne(p.anchor.key, 0);
    dcp_arena_release(&arena);
    training_free(log, &facts);
}
END_TEST

static Suite *
suite(void)
{
    Suite *s = suite_create("capture");
    TCase *t = tcase_create("period");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, finds_iterations, 0, PROGRAMS);
    suite_add_tcase(s, t);
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
