/* SPDX-License-Identifier: Apache-2.0 */
/* Where paths are cut into graphs, what the graphs do, and the stages that
 * uploads wait in. */
#include "config.h"

#include "tests/check_replay.h"

#include "intercept/heap.h"
#include "replay/lower.h"
#include "replay/staging.h"

#include <stdlib.h>
#include <string.h>

static struct dcp_trie trie;
static char host_bytes[64] = "bytes that the program may overwrite";

static void
begin(void)
{
    replay_start();
    dcp_trie_init(&trie);
}

/* A call for each letter of a path: k kernel, K one on another stream, x one
 * that no graph takes, c copy, u upload from pageable memory, U a large one, p
 * from pinned memory, d download to that, f fill, m allocation, e event, w
 * wait. */
static struct dcp_view
call_of(char letter, uint64_t value)
{
    static char *target;
    struct dcp_view view = launch_of(&kernel_a, value);

    switch (letter) {
    case 'K':
        view.stream = (uint64_t)fake_stream(2);
        break;
    case 'x':
        view.launch.handle = (CUfunction)&kernel_eager;
        break;
    case 'c':
        return copy_of(DEVICE(value), DEVICE(1), 64);
    case 'u':
        return upload_of(DEVICE(value), host_bytes, sizeof host_bytes,
                         DCP_PLACE_PAGEABLE);
    case 'U':
        return upload_of(DEVICE(value), host_bytes, DCP_STAGE_MAX + 1,
                         DCP_PLACE_PAGEABLE);
    case 'd':
        target = target ? target : pinned(64);
        return download_of(target, DEVICE(value), 64);
    case 'p':
        target = target ? target : pinned(64);
        return upload_of(DEVICE(value), target, 64, DCP_PLACE_PINNED);
    case 'f':
        return fill_of(DEVICE(1), (uint8_t)value, 64, 1);
    case 'm':
        return alloc_of(512);
    case 'e':
        return (struct dcp_view){.op = DCP_CALL_RECORD,
                                 .fold = DCP_FOLD_EAGER,
                                 .hook = DCP_HOOK_cuEventRecord,
                                 .stream = view.stream};
    case 'w':
        return wait_of();
    default:
        break;
    }
    return view;
}

static struct dcp_node *
path_of(const char *letters)
{
    struct dcp_node *at = &trie.root;

    for (uint64_t i = 0; letters[i]; i++) {
        struct dcp_view view = call_of(letters[i], i);
        at = path_add(&trie, at, &view, 1);
    }
    return at;
}

static struct dcp_node *
node_at(struct dcp_node *leaf, uint32_t index)
{
    while (leaf->depth > index + 1)
        leaf = leaf->parent;
    return leaf;
}

/* A letter a node: the same for the nodes of one segment, '.' for none. */
static const char *
shape_of(struct dcp_node *leaf)
{
    static char text[4096];
    const struct dcp_segment *last = NULL;
    uint32_t count = 0;

    for (uint32_t i = 0; i < leaf->depth; i++) {
        const struct dcp_node *node = node_at(leaf, i);
        text[i] = '.';
        if (!node->segment)
            continue;
        count += node->segment != last;
        last = node->segment;
        ck_assert_ptr_eq(last->nodes[node->at], node);
        text[i] = (char)('a' + (count - 1) % 26);
    }
    text[leaf->depth] = '\0';
    return text;
}

static uint32_t
lower(struct dcp_node *leaf, uint32_t first, uint32_t most)
{
    struct dcp_lower_options options = {
        .nodes_first = first, .nodes_max = most, .gpu_ns_max = 1000000};

    return dcp_lower_path(&trie, leaf, &options);
}

static void
end(void)
{
    uint32_t segments, nodes;

    dcp_lower_drop(&trie.root);
    while (trie.root.child)
        dcp_trie_remove(&trie, trie.root.child->branch);
    dcp_lower_count(&segments, &nodes);
    ck_assert_uint_eq(segments, 0);
    ck_assert_uint_eq(nodes, 0);
    ck_assert_int_eq(fake_graph.graphs, 0);
    ck_assert_int_eq(fake_graph.execs, 0);
    ck_assert_int_eq(fake.broken, 0);
}

/* clang-format off */
static const struct {
    const char *path, *shape;
    uint32_t first, most;
} cuts[] = {
    {"kkk", "aaa", 8, 64},
    {"kk", "..", 8, 64},
    {"kcf", "aaa", 8, 64},
    {"kuf", "aaa", 8, 64},
    {"kkkdkkk", "aaa.bbb", 8, 64},
    {"kkkpkkk", "aaa.bbb", 8, 64},
    /* another stream, a wait, an event; allocations do not cut */
    {"kkkKKK", "aaabbb", 8, 64},
    {"kkKKK", "..aaa", 8, 64},
    {"kKkKkK", "......", 8, 64},
    {"kkkwkkk", "aaa.bbb", 8, 64},
    {"kkkekkk", "aaa.bbb", 8, 64},
    {"kkkmkkk", "aaa.aaa", 8, 64},
    {"mkkkm", ".aaa.", 8, 64},
    /* at most so many, doubled each time, from the start after a wait */
    {"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk",
     "aaaabbbbbbbbccccccccccccccccdddddddd", 4, 16},
    {"kkkkkkkkwkkkkkkkk", "aaaabbbb.ccccdddd", 4, 16},
    {"kkkkkkkkkk", "aaaabbbb..", 4, 4},
    /* a refused one in the middle, at the ends, often */
    {"kkkxkkk", "aaa.bbb", 8, 64},
    {"xkkkx", ".aaa.", 8, 64},
    {"kkxkkk", "...aaa", 8, 64},
    {"kkxkkxkk", "........", 8, 64},
    {"kkkxkkkxkkk", "aaa.bbb.ccc", 16, 64},
    {"kkkUkkk", "aaa.bbb", 8, 64},
    {"x", ".", 8, 64},
    {"w", ".", 8, 64},
};
/* clang-format on */

START_TEST(paths_are_cut)
{
    begin();
    struct dcp_node *leaf = path_of(cuts[_i].path);
    lower(leaf, cuts[_i].first, cuts[_i].most);
    ck_assert_str_eq(shape_of(leaf), cuts[_i].shape);
    /* Nothing is built anew when nothing is new. */
    int execs = fake_graph.execs;
    ck_assert_uint_eq(lower(leaf, cuts[_i].first, cuts[_i].most), 0);
    ck_assert_str_eq(shape_of(leaf), cuts[_i].shape);
    ck_assert_int_eq(fake_graph.execs, execs);
    end();
}
END_TEST

START_TEST(cut_by_time)
{
    begin();
    struct dcp_node *leaf = path_of("kkkkkkkkkkkk");
    for (struct dcp_node *n = leaf; n != &trie.root; n = n->parent)
        n->gpu_ns = 300000;
    ck_assert_uint_eq(lower(leaf, 64, 64), 3);
    ck_assert_str_eq(shape_of(leaf), "aaaabbbbcccc");
    end();
}
END_TEST

START_TEST(cut_where_paths_part)
{
    begin();
    struct dcp_node *leaf = path_of("kkkkkkkk");
    ck_assert_uint_eq(lower(leaf, 16, 64), 1);
    ck_assert_str_eq(shape_of(leaf), "aaaaaaaa");
    struct dcp_node *other = path_of("kkkkccc");
    ck_assert_uint_eq(lower(other, 16, 64), 2);
    ck_assert_str_eq(shape_of(other), "aaaabbb");
    /* The old graph did what no longer belongs together. */
    ck_assert_str_eq(shape_of(leaf), "aaaa....");
    ck_assert_uint_eq(lower(leaf, 16, 64), 1);
    ck_assert_str_eq(shape_of(leaf), "aaaabbbb");
    ck_assert_str_eq(shape_of(other), "aaaabbb");
    ck_assert_int_eq(fake_graph.execs, 3);
    /* Below one branch alone. */
    dcp_lower_drop(other->branch->head);
    ck_assert_str_eq(shape_of(other), "aaaa...");
    ck_assert_str_eq(shape_of(leaf), "aaaabbbb");
    end();
}
END_TEST

START_TEST(cut_at_failed_calls)
{
    begin();
    struct dcp_node *leaf = path_of("kkkkkkkmkkk");
    node_at(leaf, 3)->failed = true;
    node_at(leaf, 7)->failed = true;
    lower(leaf, 16, 64);
    ck_assert_str_eq(shape_of(leaf), "aaa.bbb.ccc");
    end();
}
END_TEST

/* The driver takes nothing: nothing is left behind, and all stays eager. */
START_TEST(nothing_is_taken)
{
    begin();
    struct dcp_node *leaf = path_of("kkkkwkkkk");
    fake_graph.refuse_begin = _i == 0;
    fake_graph.refuse_instantiate = _i == 1;
    ck_assert_uint_eq(lower(leaf, 8, 64), 0);
    ck_assert_str_eq(shape_of(leaf), ".........");
    ck_assert_int_eq(fake_graph.graphs, 0);
    fake_graph.refuse_begin = fake_graph.refuse_instantiate = false;
    ck_assert_uint_eq(lower(leaf, 8, 64), 2);
    end();
}
END_TEST

/* --- what graphs do ------------------------------------------------------- */

static void
run_eagerly(struct dcp_node *leaf)
{
    for (uint32_t i = 0; i < leaf->depth; i++) {
        struct dcp_node *node = node_at(leaf, i);
        if (node->fold == DCP_FOLD_NODE)
            ck_assert_int_eq(dcp_node_issue(node, NULL), CUDA_SUCCESS);
    }
}

static void
run_by_graphs(struct dcp_node *leaf)
{
    for (uint32_t i = 0; i < leaf->depth; i++) {
        struct dcp_node *node = node_at(leaf, i);
        if (node->segment && node->at + 1 == node->segment->count)
            ck_assert_int_eq(dcp_segment_launch(node->segment), CUDA_SUCCESS);
        else if (!node->segment && node->fold == DCP_FOLD_NODE)
            ck_assert_int_eq(dcp_node_issue(node, NULL), CUDA_SUCCESS);
    }
}

static void
check_same_work(unsigned count)
{
    ck_assert_uint_eq(fake_graph.work_count, 2 * count);
    for (unsigned i = 0; i < count; i++) {
        const struct fake_work *x = &fake_graph.work[i];
        const struct fake_work *y = &fake_graph.work[count + i];
        ck_assert_int_eq(x->kind, y->kind);
        ck_assert_ptr_eq(x->kernel, y->kernel);
        ck_assert_ptr_eq(x->stream, y->stream);
        for (unsigned v = 0; v < 4; v++)
            ck_assert_msg(x->value[v] == y->value[v], "work %u", i);
    }
}

/* Random values for the calls of a path, as the follower takes them. */
static void
change(struct dcp_node *leaf, uint64_t *state)
{
    for (uint32_t i = 0; i < leaf->depth; i++) {
        struct dcp_node *node = node_at(leaf, i);
        if (node->fold != DCP_FOLD_NODE || dice(state, 2))
            continue;
        struct dcp_view view;
        if (node->op == DCP_CALL_LAUNCH) {
            view = launch_of(&kernel_a, dice(state, 1000));
            view.launch.grid[0] = 1 + dice(state, 9);
        } else if (node->op == DCP_CALL_FILL) {
            view = fill_of(DEVICE(dice(state, 9)), dice(state, 200), 1 + i, 1);
        } else if (node->call.copy.src_place == DCP_PLACE_PAGEABLE) {
            view = upload_of(DEVICE(dice(state, 9)), host_bytes,
                             1 + dice(state, 64), DCP_PLACE_PAGEABLE);
        } else {
            view = copy_of(DEVICE(dice(state, 9)), DEVICE(1), 1 + i);
        }
        int changed = dcp_node_take(node, &view);
        ck_assert_int_ge(changed, 0);
        if (changed && node->segment)
            ck_assert_int_eq(dcp_segment_update(node->segment, node),
                             CUDA_SUCCESS);
    }
}

START_TEST(graphs_do_the_same)
{
    static const char letters[] = "kkkkkkKKccuudpffxmew";
    char path[120];
    uint64_t state = (uint64_t)_i + 5;
    unsigned work = 0;

    begin();
    for (unsigned i = 0; i + 1 < sizeof path; i++)
        path[i] = letters[dice(&state, sizeof letters - 1)];
    path[sizeof path - 1] = '\0';
    for (const char *p = path; *p; p++)
        work += !strchr("mewdp", *p);
    struct dcp_node *leaf = path_of(path);
    lower(leaf, 4, 16);
    for (unsigned round = 0; round < 4; round++) {
        fake_graph.work_count = 0;
        run_eagerly(leaf);
        run_by_graphs(leaf);
        check_same_work(work);
        change(leaf, &state);
    }
    ck_assert_int_gt(fake_graph.launches, 0);
    end();
}
END_TEST

START_TEST(refusals_are_told)
{
    begin();
    struct dcp_node *leaf = path_of("kcf");
    ck_assert_uint_eq(lower(leaf, 8, 64), 1);
    struct dcp_segment *segment = leaf->segment;
    fake_graph.refuse_launch = true;
    ck_assert_int_eq(dcp_segment_launch(segment), CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_uint_eq(segment->launches, 0);
    fake_graph.refuse_launch = false;
    fake_graph.refuse_update = true;
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(dcp_segment_update(segment, segment->nodes[i]),
                         CUDA_ERROR_NOT_SUPPORTED);
    fake_graph.refuse_update = false;
    ck_assert_int_eq(dcp_segment_launch(segment), CUDA_SUCCESS);
    ck_assert_uint_eq(segment->launches, 1);
    end();
}
END_TEST

/* --- stages --------------------------------------------------------------- */

static struct dcp_stage *stage;

static const char *
put(const char *text, uint64_t bytes)
{
    struct dcp_view view =
        upload_of(DEVICE(0), text, bytes, DCP_PLACE_PAGEABLE);
    uint64_t at = dcp_stage_put(&stage, &view);

    fake.issued[1]++; /* the copy out of it */
    return (const char *)at;
}

START_TEST(slots_wait_for_their_copies)
{
    begin();
    const char *first = put("first", 6);
    dcp_stage_issued(stage, fake_stream(1));
    const char *second = put("second", 7);
    dcp_stage_issued(stage, fake_stream(1));
    ck_assert_ptr_ne(first, second);
    ck_assert_str_eq(first, "first");
    ck_assert_str_eq(second, "second");
    /* Both copies are still to come: the next use waits, for the first. */
    ck_assert_int_eq(fake.syncs, 0);
    ck_assert_ptr_eq(put("third", 6), first);
    ck_assert_int_eq(fake.syncs, 1);
    ck_assert_str_eq(first, "third");
    dcp_stage_issued(stage, fake_stream(1));
    /* Done meanwhile: nobody waits. */
    fake.completed[1] = fake.issued[1];
    ck_assert_ptr_eq(put("fourth", 7), second);
    ck_assert_int_eq(fake.syncs, 1);
    /* Not issued (its call failed): the slot is free at once. */
    ck_assert_ptr_eq(put("fifth", 6), first);
    ck_assert_ptr_eq(put("sixth", 6), second);
    ck_assert_int_eq(fake.syncs, 1);
    dcp_stage_issued(stage, fake_stream(1));
    dcp_stage_drop(&stage);
    ck_assert_int_eq(fake.syncs, 2);
    ck_assert_ptr_null(stage);
    dcp_stage_drop(&stage);
    ck_assert_int_eq(fake_graph.hosts, 0);
    ck_assert_int_eq(fake.events, 0);
    ck_assert_int_eq(fake.broken, 0);
}
END_TEST

START_TEST(stages_grow)
{
    static const char bytes[4096] = "x";

    begin();
    ck_assert_ptr_nonnull(put(bytes, 10));
    dcp_stage_issued(stage, fake_stream(1));
    ck_assert_ptr_nonnull(put(bytes, 256));
    ck_assert_int_eq(fake.syncs, 0);
    ck_assert_ptr_nonnull(put(bytes, 4096));
    ck_assert_int_eq(fake.syncs, 1); /* the old slot was being read */
    ck_assert_int_eq(fake_graph.hosts, 2);
    ck_assert_uint_eq(dcp_stage_reserve(&stage, DCP_STAGE_MAX + 1), 0);
    ck_assert_ptr_nonnull(stage);
    dcp_stage_drop(&stage);
    fake_graph.refuse_host = true;
    ck_assert_ptr_null(put(bytes, 10));
    ck_assert_ptr_null(stage);
    fake_graph.refuse_host = false;
    fake.fail_after = 0; /* no event */
    ck_assert_ptr_null(put(bytes, 10));
    ck_assert_int_eq(fake_graph.hosts, 0);
    ck_assert_int_eq(fake.events, 0);
}
END_TEST

/* What the program's buffer held when it made the call is what is copied. */
START_TEST(uploads_keep_their_bytes)
{
    begin();
    struct dcp_node *leaf = path_of("kuk");
    lower(leaf, 8, 64);
    struct dcp_node *upload = leaf->parent;
    const char *seen[2];
    for (unsigned round = 0; round < 2; round++) {
        strcpy(host_bytes, round ? "two" : "one");
        struct dcp_view view = call_of('u', 3);
        ck_assert_int_eq(dcp_node_take(upload, &view), 1);
        ck_assert_int_eq(dcp_segment_update(upload->segment, upload),
                         CUDA_SUCCESS);
        strcpy(host_bytes, "overwritten");
        fake_graph.work_count = 0;
        ck_assert_int_eq(dcp_segment_launch(upload->segment), CUDA_SUCCESS);
        seen[round] = (const char *)fake_graph.work[1].value[1];
    }
    ck_assert_str_eq(seen[0], "one");
    ck_assert_str_eq(seen[1], "two");
    end();
    ck_assert_int_eq(fake_graph.hosts, 0);
}
END_TEST

void
add_lower(Suite *s)
{
    TCase *t = tcase_create("lower");

    tcase_add_loop_test(t, paths_are_cut, 0, sizeof cuts / sizeof *cuts);
    tcase_add_test(t, cut_by_time);
    tcase_add_test(t, cut_where_paths_part);
    tcase_add_test(t, cut_at_failed_calls);
    tcase_add_loop_test(t, nothing_is_taken, 0, 2);
    tcase_add_loop_test(t, graphs_do_the_same, 0, 20);
    tcase_add_test(t, refusals_are_told);
    suite_add_tcase(s, t);
    t = tcase_create("staging");
    tcase_add_test(t, slots_wait_for_their_copies);
    tcase_add_test(t, stages_grow);
    tcase_add_test(t, uploads_keep_their_bytes);
    suite_add_tcase(s, t);
}
