/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: print and parse are inverse, memory may run out anywhere, live
 * ranges, the verifier (each broken rule: tests/ir/verify_*.ir), the tree. */
#include "config.h"

#include "src/ir.h"
#include "src/ir_live.h"
#include "src/ir_word.h"
#include "src/tree.h"
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

#define HEAD "dcprel-ir 1\nstep key=1 rank=0/1 streams=1 events=1 micro=1\n"

/* --- text ----------------------------------------------------------------- */

START_TEST(parse_of_print_is_equal)
{
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct dcp_graph *graph = random_graph(seed, 30), *again = NULL;
        struct dcp_ir_error error;
        size_t length;
        char *text = dcp_ir_print_text(graph, seed % 2 ? DCP_PRINT_NOTES : 0,
                                       &length);

        ck_assert_uint_eq(length, strlen(text));
        ck_assert_msg(dcp_ir_parse(text, length, "t", &again, &error) ==
                          DCP_OK, "seed %d: %s", (int)seed, error.text);
        ck_assert_msg(dcp_ir_equal(graph, again), "seed %d:\n%s", (int)seed,
                      text);
        if (seed % 2) /* notes carry the times */
            for (uint32_t i = 0; i < graph->node_count; i++)
                ck_assert_uint_eq(graph->nodes[i].gpu_ns,
                                  again->nodes[i].gpu_ns);
        free(text);
        dcp_graph_destroy(graph);
        dcp_graph_destroy(again);
    }
}
END_TEST

START_TEST(text_has_no_times_outside_comments)
{
    struct dcp_graph *a = training_graph(1, 100, 1), *b = dcp_graph_clone(a);
    char *s, *t;

    for (uint32_t i = 0; i < b->node_count; i++)
        b->nodes[i].gpu_ns += 17;
    s = dcp_ir_print_text(a, 0, NULL);
    t = dcp_ir_print_text(b, 0, NULL);
    ck_assert_str_eq(s, t);
    ck_assert(dcp_ir_equal(a, b));
    free(s);
    free(t);
    dcp_graph_destroy(a);
    dcp_graph_destroy(b);
}
END_TEST

START_TEST(every_cut_text_is_an_error_or_a_graph)
{
    struct dcp_graph *graph = random_graph(7, 30), *again;
    size_t length;
    char *text = dcp_ir_print_text(graph, 0, &length);

    for (size_t cut = 0; cut < length; cut++) {
        /* exactly as long as its text, so that valgrind and ASan notice */
        char *copy = malloc(cut + !cut);
        struct dcp_ir_error error = { 0 };

        memcpy(copy, text, cut);
        again = NULL;
        if (dcp_ir_parse(copy, cut, "t", &again, &error))
            ck_assert(!again && error.line && error.text[0]);
        dcp_graph_destroy(again);
        free(copy);
    }
    free(text);
    dcp_graph_destroy(graph);
}
END_TEST

START_TEST(errors_name_file_and_line)
{
    struct dcp_graph *graph = NULL;
    struct dcp_ir_error error;
    const char *text = HEAD "\n# a comment\nbuf %0 pram bytes=1\n";

    ck_assert_int_eq(dcp_ir_parse(text, strlen(text), "dir/x.ir", &graph,
                                  &error), DCP_SYNTAX);
    ck_assert_uint_eq(error.line, 5);
    ck_assert_str_eq(error.text,
                     "dir/x.ir:5: unknown role 'pram', did you mean 'param'?");
    ck_assert_ptr_null(graph);
    ck_assert_int_eq(dcp_ir_parse(text, strlen(text), "x", &graph, NULL),
                     DCP_SYNTAX);
}
END_TEST

START_TEST(long_tokens_fit_the_message)
{
    struct dcp_graph *graph = NULL;
    struct dcp_ir_error error;
    char text[5000] = HEAD;
    char name[3000];

    memset(text + strlen(text), 'x', 3000);
    memset(name, 'f', sizeof name);
    name[sizeof name - 1] = '\0';
    ck_assert_int_eq(dcp_ir_parse(text, strlen(text), name, &graph, &error),
                     DCP_SYNTAX);
    ck_assert_uint_lt(strlen(error.text), sizeof error.text);
}
END_TEST

START_TEST(nearest_words)
{
    static const struct {
        const char *word, *nearest;
    } cases[] = {
        { "lauch", "launch" }, { "allocc", "alloc" }, { "frre", "free" },
        { "gahter", "gather" }, { "xyzzy", NULL },    { "", NULL },
        { "lunchbreak", NULL }, { "hots", "host" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *near = dcp_words_nearest(&dcp_op_words, cases[i].word,
                                             strlen(cases[i].word));
        if (cases[i].nearest)
            ck_assert_pstr_eq(near, cases[i].nearest);
        else
            ck_assert_ptr_null(near);
    }
}
END_TEST

/* --- building ------------------------------------------------------------- */

START_TEST(clone_is_equal_and_apart)
{
    struct dcp_graph *graph = random_graph(3, 200);
    struct dcp_graph *copy = dcp_graph_clone(graph);
    char *before = dcp_ir_print_text(graph, 0, NULL), *after;

    ck_assert(dcp_ir_equal(graph, copy));
    ck_assert_uint_eq(dcp_ir_hash(graph), dcp_ir_hash(copy));
    dcp_graph_destroy(graph);
    after = dcp_ir_print_text(copy, 0, NULL);
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
    dcp_graph_destroy(copy);
}
END_TEST

START_TEST(hash_leaves_out_rank_and_times)
{
    struct dcp_graph *graph = training_graph(1, 200, 1);
    struct dcp_graph *other = dcp_graph_clone(graph);

    other->nodes[3].gpu_ns += 1;
    ck_assert(dcp_ir_equal(graph, other));
    other->rank = 1;
    ck_assert(!dcp_ir_equal(graph, other));
    ck_assert_uint_eq(dcp_ir_hash(graph), dcp_ir_hash(other));
    other->nodes[3].call++;
    ck_assert_uint_ne(dcp_ir_hash(graph), dcp_ir_hash(other));
    dcp_graph_destroy(graph);
    dcp_graph_destroy(other);
}
END_TEST

/* A small graph with each kind of thing; false when memory was out. */
static bool
build(struct dcp_graph **out)
{
    struct dcp_ir_param param = { 0, 8 };
    struct dcp_ir_node *node;
    struct dcp_graph *g = *out = dcp_graph_create();

    if (!g || dcp_graph_reserve(g, 40, 40))
        return false;
    for (int i = 0; i < 100; i++)
        if (dcp_ir_add_buffer(g, DCP_ROLE_ACT, 8, false, "label") == DCP_NONE ||
            dcp_ir_add_kernel(g, "name", true, &param, 1) == DCP_NONE ||
            dcp_ir_add_stream(g) == DCP_NONE ||
            dcp_ir_add_event(g) == DCP_NONE ||
            !(node = dcp_ir_add_node(g, DCP_OP_LAUNCH, 0)) ||
            !dcp_ir_add_refs(g, node, 3) || !dcp_ir_add_after(g, node, 2))
            return false;
    return true;
}

START_TEST(memory_runs_out_while_building)
{
    struct dcp_graph *graph;
    bool done = false;

    for (long after = 0; !done; after++) {
        dcp_arena_fail_after(after);
        done = build(&graph);
        dcp_arena_fail_after(-1);
        if (graph) /* can still be read */
            free(dcp_ir_print_text(graph, DCP_PRINT_NOTES, NULL));
        dcp_graph_destroy(graph);
    }
}
END_TEST

START_TEST(memory_runs_out_while_reading)
{
    struct dcp_graph *graph = random_graph(11, 60), *again;
    struct dcp_ir_error error;
    size_t length;
    char *text = dcp_ir_print_text(graph, 0, &length);
    enum dcp_status status = DCP_NOMEM;

    for (long after = 0; status == DCP_NOMEM; after++) {
        again = NULL;
        dcp_arena_fail_after(after);
        status = dcp_ir_parse(text, length, "t", &again, &error);
        dcp_arena_fail_after(-1);
        ck_assert(status == DCP_OK || (status == DCP_NOMEM && !again));
        dcp_graph_destroy(again);
    }
    free(text);
    dcp_graph_destroy(graph);
}
END_TEST

START_TEST(memory_runs_out_elsewhere)
{
    struct dcp_graph *graph = training_graph(1, 100, 1), *copy = NULL;
    uint64_t hash = dcp_ir_hash(graph), starved = 0;
    enum dcp_status status = DCP_NOMEM;

    for (long after = 0; !copy; after++) {
        dcp_arena_fail_after(after);
        copy = dcp_graph_clone(graph);
        dcp_arena_fail_after(-1);
    }
    ck_assert(dcp_ir_equal(graph, copy));
    for (long after = 0; !starved; after++) {
        dcp_arena_fail_after(after);
        starved = dcp_ir_hash(graph);
        dcp_arena_fail_after(-1);
    }
    ck_assert_uint_eq(hash, starved);
    for (long after = 0; status; after++) {
        dcp_arena_fail_after(after);
        status = dcp_ir_verify(graph, NULL);
        dcp_arena_fail_after(-1);
        ck_assert(status == DCP_OK || status == DCP_NOMEM);
    }
    dcp_graph_destroy(graph);
    dcp_graph_destroy(copy);
}
END_TEST

/* --- lives ---------------------------------------------------------------- */

START_TEST(live_ranges)
{
    struct dcp_graph *g = parsed(
        HEAD
        "buf %0 param bytes=100 persistent\n"
        "buf %1 act bytes=10\n"
        "buf %2 act bytes=20\n"
        "buf %3 grad bytes=1000\n"
        "buf %4 grad bytes=5\n"
        "fn $0 \"k\" params=0:8\n"
        "n0 free %3 @0\n"
        "n1 alloc %1 @0\n"
        "n2 launch $0 @0 r=%0 w=%1\n"
        "n3 alloc %2 @0\n"
        "n4 launch $0 @0 r=%1 w=%2\n"
        "n5 free %1 @0\n"
        "n6 alloc %4 @0\n"
        "n7 free %2 @0\n");
    static const uint32_t born[] = { 0, 1, 3, 0, 6 };
    static const uint32_t dead[] = { 7, 5, 7, 0, 7 };
    static const uint32_t first[] = { 2, 2, 4, DCP_NONE, DCP_NONE };
    static const uint32_t last[] = { 2, 4, 4, DCP_NONE, DCP_NONE };
    static const uint64_t bytes[] = { 1100, 110, 110, 130, 130, 130, 125, 125 };
    struct dcp_arena arena = { 0 };
    struct dcp_live live;

    ck_assert_int_eq(dcp_live_fill(g, &arena, &live), DCP_OK);
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_eq(live.born[i], born[i]);
        ck_assert_uint_eq(live.dead[i], dead[i]);
        ck_assert_uint_eq(live.first[i], first[i]);
        ck_assert_uint_eq(live.last[i], last[i]);
    }
    for (int i = 0; i < 8; i++)
        ck_assert_uint_eq(live.bytes[i], bytes[i]);
    ck_assert_uint_eq(live.peak, 1100);
    ck_assert_uint_eq(live.peak_node, 0);
    ck_assert_uint_eq(dcp_live_peak(g), 1100);
    ck_assert_uint_eq(live.alloc[0], DCP_NONE);
    ck_assert_uint_eq(live.free[4], DCP_NONE);
    dcp_arena_release(&arena);
    dcp_graph_destroy(g);
}
END_TEST

START_TEST(live_of_empty_and_broken)
{
    struct dcp_graph *g = parsed(HEAD "buf %0 param bytes=3 persistent\n");

    ck_assert_uint_eq(dcp_live_peak(g), 3);
    dcp_graph_destroy(g);
    g = parsed(HEAD "buf %0 act bytes=18446744073709551615\n"
                    "buf %1 act bytes=18446744073709551615\n"
                    "n0 free %0 @0\nn1 alloc %0 @0\nn2 alloc %0 @0\n"
                    "n3 free %7 @0\nn4 free %0 @0\nn5 free %0 @0\n");
    ck_assert_uint_eq(dcp_live_peak(g), UINT64_MAX);
    dcp_graph_destroy(g);
}
END_TEST

/* --- the verifier --------------------------------------------------------- */

START_TEST(valid_graphs_are_valid)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct dcp_graph *g = seed % 2 ? chaos_graph(seed, 500, 50)
                                       : training_graph(seed, 500, 3);

        ck_assert_int_eq(dcp_ir_verify(g, NULL), DCP_OK);
        dcp_graph_destroy(g);
    }
}
END_TEST

START_TEST(any_graph_can_be_verified)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct dcp_graph *g = random_graph(seed, 50);
        struct dcp_ir_fault list[3];
        struct dcp_ir_faults faults = { .list = list, .room = 3 };

        if (dcp_ir_verify(g, &faults))
            ck_assert_uint_gt(faults.count, 0);
        ck_assert_uint_le(faults.kept, 3);
        dcp_graph_destroy(g);
    }
}
END_TEST

static bool
count_broken(void *user, const char *line, size_t length)
{
    *(unsigned *)user += length > 10 && !memcmp(line, "# ^ broken", 10);
    return true;
}

START_TEST(every_kept_fault_is_printed_once)
{
    struct dcp_graph *g = random_graph(5, 300);
    struct dcp_ir_fault *list = calloc(10000, sizeof *list);
    struct dcp_ir_faults faults = { .list = list, .room = 10000 };
    unsigned printed = 0;

    ck_assert_int_eq(dcp_ir_verify(g, &faults), DCP_INVALID);
    ck_assert_uint_eq(faults.kept, faults.count);
    ck_assert_int_eq(dcp_ir_print(g, 0, &faults, count_broken, &printed),
                     DCP_OK);
    ck_assert_uint_eq(printed, faults.count);
    free(list);
    dcp_graph_destroy(g);
}
END_TEST

static bool
refuse(void *user, const char *line, size_t length)
{
    (void)line;
    (void)length;
    return --*(int *)user > 0;
}

START_TEST(a_sink_can_stop_the_printing)
{
    struct dcp_graph *g = training_graph(1, 100, 1);
    int lines = 5;

    ck_assert_int_eq(dcp_ir_print(g, 0, NULL, refuse, &lines), DCP_IO);
    ck_assert_int_eq(lines, 0);
    dcp_graph_destroy(g);
}
END_TEST

/* --- the tree ------------------------------------------------------------- */

START_TEST(tree_is_ordered)
{
    enum { N = 500 };
    struct dcp_tree_node nodes[N];
    struct dcp_tree tree = { NULL };
    bool in[N] = { false };

    for (int i = 0; i < N; i++) {
        nodes[i].key = (uint64_t)i / 3;
        nodes[i].second = (uint64_t)i % 3;
    }
    srand(1);
    for (int round = 0; round < 20000; round++) {
        int i = rand() % N, above = i, below = i;

        if (in[i])
            dcp_tree_remove(&tree, &nodes[i]);
        else
            dcp_tree_insert(&tree, &nodes[i]);
        in[i] = !in[i];
        i = above = below = rand() % N;
        while (above < N && !in[above])
            above++;
        while (below >= 0 && !in[below])
            below--;
        ck_assert_ptr_eq(dcp_tree_ceil(&tree, nodes[i].key, nodes[i].second),
                         above < N ? &nodes[above] : NULL);
        ck_assert_ptr_eq(dcp_tree_floor(&tree, nodes[i].key, nodes[i].second),
                         below >= 0 ? &nodes[below] : NULL);
    }
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("ir");
    TCase *text = tcase_create("text"), *memory = tcase_create("building"),
          *rules = tcase_create("rules");

    tcase_set_timeout(text, 60);
    tcase_add_test(text, parse_of_print_is_equal);
    tcase_add_test(text, text_has_no_times_outside_comments);
    tcase_add_test(text, every_cut_text_is_an_error_or_a_graph);
    tcase_add_test(text, errors_name_file_and_line);
    tcase_add_test(text, long_tokens_fit_the_message);
    tcase_add_test(text, nearest_words);
    suite_add_tcase(suite, text);
    tcase_set_timeout(memory, 60);
    tcase_add_test(memory, clone_is_equal_and_apart);
    tcase_add_test(memory, hash_leaves_out_rank_and_times);
    tcase_add_test(memory, memory_runs_out_while_building);
    tcase_add_test(memory, memory_runs_out_while_reading);
    tcase_add_test(memory, memory_runs_out_elsewhere);
    suite_add_tcase(suite, memory);
    tcase_set_timeout(rules, 60);
    tcase_add_test(rules, live_ranges);
    tcase_add_test(rules, live_of_empty_and_broken);
    tcase_add_test(rules, valid_graphs_are_valid);
    tcase_add_test(rules, any_graph_can_be_verified);
    tcase_add_test(rules, every_kept_fault_is_printed_once);
    tcase_add_test(rules, a_sink_can_stop_the_printing);
    tcase_add_test(rules, tree_is_ordered);
    suite_add_tcase(suite, rules);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
