/* SPDX-License-Identifier: Apache-2.0 */
/* Lift, roles and profile on made-up logs. */
#include "config.h"

#include "tests/check_capture.h"

#include "src/clock.h"

#include "capture/lift.h"
#include "capture/log.h"
#include "capture/profile.h"
#include "capture/role.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
check_parts(const struct dcp_graph *graph)
{
    uint32_t parts[DCP_PART_COUNT] = {0};

    for (uint32_t i = 0; i < graph->node_count; i++) {
        parts[graph->nodes[i].part]++;
        if (graph->nodes[i].op != DCP_OP_LAUNCH)
            continue;
        const char *name = graph->kernels[graph->nodes[i].launch.kernel].name;
        int part = !strcmp(name, "rms")                  ? DCP_PART_FORWARD
                   : !strcmp(name, "attention_backward") ? DCP_PART_BACKWARD
                   : !strcmp(name, "fused_adam")         ? DCP_PART_UPDATE
                   : !strcmp(name, "mul_")               ? DCP_PART_UPDATE
                   : !strcmp(name, "addcdiv_")           ? DCP_PART_UPDATE
                   : !strcmp(name, "step_")              ? DCP_PART_UPDATE
                   : !strcmp(name, "momentum_")          ? DCP_PART_UPDATE
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
    struct dcp_graph *graph =
        lift_one(log, with_access ? &access : NULL, &p, &arena);
    ck_assert_int_eq(dcp_role_fill(graph), DCP_OK);
    check_graph(graph);
    check_parts(graph);
    ck_assert_uint_eq(graph->micro_count, t->accum);
    count_roles(programs[index].name, graph, counts);
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
        struct training t = {.layers = layers,
                             .steps = 10,
                             .accum = 1,
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
               "%.3f s, roles %.3f s\n",
               log->call_count, each, graph->node_count, lifted,
               seconds_since(begin) - lifted);
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
    static const char text[] = "dcprel-log 1\n"
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
    static const char wanted[] = "buf %0 unknown bytes=65536\n"
                                 "buf %1 unknown bytes=4096 persistent\n"
                                 "fn $0 \"add\" params=0:8,8:8,16:4\n"
                                 "fn $1 \"?\"";
    struct dcp_arena arena = {0};
    struct dcp_access_table access = {0};
    struct dcp_graph *graph;
    struct dcp_log log;
    uint32_t line;

    ck_assert_int_eq(dcp_log_parse(text, sizeof text - 1, &arena, &log, &access,
                                   &line),
                     DCP_OK);
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
    check_graph(graph);
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
                                    find_ref, NULL, refs, 2),
                      3);
    ck_assert_uint_eq(refs[0].offset, 0);
    ck_assert_uint_eq(refs[1].offset, 0xff);
    ck_assert_uint_eq(refs[1].slot, 8);
    ck_assert_uint_eq(
        dcp_refs_scan(params, 7, 0x8000, 0x10000, find_ref, NULL, refs, 2), 0);
    ck_assert_uint_eq(
        dcp_refs_scan(NULL, 0, 0x8000, 0x10000, find_ref, NULL, refs, 2), 0);
}
END_TEST

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

void
add_lift(Suite *s)
{
    TCase *t = tcase_create("lift");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, lift_keeps_all);
    tcase_add_test(t, lift_knows_no_handles);
    tcase_add_test(t, refs_are_scanned);
    tcase_add_loop_test(t, roles_with_access, 0, PROGRAMS - 1);
    tcase_add_loop_test(t, roles_without_access, 0, PROGRAMS - 1);
    tcase_add_test(t, profile_sums_up);
    tcase_add_test(t, analysis_growth);
    suite_add_tcase(s, t);
}
