/* SPDX-License-Identifier: Apache-2.0 */
/* Iterations in made-up logs, whole and cut off anywhere. */
#include "config.h"

#include "tests/check_capture.h"

#include <stdio.h>
#include <stdlib.h>

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
               p.length, p.shape_count, p.anchor.key != 0, p.anchor.delay,
               p.anchor.wait, (unsigned long)p.steps);
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
                      p.iterations, n, p.borders[0], p.borders[1], p.borders[2],
                      p.anchor.key != 0);
    }
    dcp_arena_release(&arena);
    training_free(log, &facts);
}
END_TEST

/* At the end of the first step, after many accumulation steps. */
START_TEST(period_of_first_step)
{
    struct training t = {
        .layers = 6, .steps = 4, .accum = 32, .clip = 1, .optimizer = _i};
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
    struct training t = {
        .layers = 3, .steps = 12, .accum = 2, .lengths = 3, .eval_every = 5};
    struct training_facts facts;
    struct dcp_log *log = training_log(&t, &facts);
    struct dcp_log part = *log;
    struct dcp_arena arena = {0};
    struct dcp_period p;
    uint32_t seen = 0;

    part.call_count = facts.step_ends[5] + 40;
    ck_assert_int_eq(dcp_period_find(&part, NULL, &p, &arena), DCP_OK);
    for (uint32_t i = 0; i < log->call_count; i++) {
        struct dcp_call call = log->calls[i];
        struct dcp_ref refs[256];
        bool is = dcp_anchor_is(&p.anchor, &call, log);
        /* The same from a call that names blocks by their ids. */
        ck_assert_uint_le(call.ref_count, 256);
        for (uint32_t r = 0; r < call.ref_count; r++) {
            refs[r] = call.refs[r];
            refs[r].buffer = (uint32_t)log->buffers[refs[r].buffer].block;
        }
        call.refs = refs;
        ck_assert(dcp_anchor_is(&p.anchor, &call, NULL) == is);
        if (!is)
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

void
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
