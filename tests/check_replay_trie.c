/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of iterations. */
#include "config.h"

#include "tests/check_replay.h"

#include "replay/staging.h"

#include <stdlib.h>
#include <string.h>

static struct dcp_trie trie;

static void
begin(void)
{
    replay_start();
    dcp_trie_init(&trie);
}

/* Every node that can be reached, and the checks that hold of each. */
static uint32_t
count_nodes(const struct dcp_node *from)
{
    uint32_t count = 0;

    for (const struct dcp_node *n = from->child; n; n = n->sibling) {
        ck_assert_ptr_eq(n->parent, from);
        ck_assert_uint_eq(n->depth, from->depth + 1);
        ck_assert_ptr_nonnull(n->branch);
        count += 1 + count_nodes(n);
    }
    return count;
}

static struct dcp_node *
find(struct dcp_node *from, const struct dcp_view *view)
{
    bool graphable;
    uint64_t attrs = 0;

    if (view->op == DCP_CALL_LAUNCH)
        attrs = dcp_attrs_hash(view->launch.attrs, view->launch.attr_count,
                               &graphable);
    return dcp_trie_find(from, view, attrs);
}

static struct dcp_node *
step(struct dcp_node *from, const struct dcp_view *view)
{
    struct dcp_node *node = find(from, view);

    return node ? node : dcp_trie_add(&trie, from, view);
}

START_TEST(shape_is_what_counts)
{
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                              .value.cooperative = 1};
    struct dcp_view a = launch_of(&kernel_a, 1), other[7];
    unsigned count = sizeof other / sizeof *other;

    begin();
    for (unsigned i = 0; i < count; i++)
        other[i] = a;
    other[0].launch.handle = (CUfunction)&kernel_b;
    other[1].stream = (uint64_t)fake_stream(2);
    other[2].hook = DCP_HOOK_cuLaunchKernelEx;
    other[3].launch.attrs = &attr;
    other[3].launch.attr_count = 1;
    other[4] = copy_of(DEVICE(0), DEVICE(1), 8);
    other[5] = upload_of(DEVICE(0), "01234567", 8, DCP_PLACE_PAGEABLE);
    other[6] = upload_of(DEVICE(0), "01234567", 8, DCP_PLACE_PINNED);
    struct dcp_node *first = dcp_trie_add(&trie, &trie.root, &a);
    for (unsigned i = 0; i < count; i++) {
        ck_assert_msg(!find(&trie.root, &other[i]), "shape %u", i);
        ck_assert_ptr_nonnull(step(&trie.root, &other[i]));
    }
    ck_assert_uint_eq(count_nodes(&trie.root), 1 + count);
    ck_assert_uint_eq(trie.nodes, 1 + count);
    /* Values are no part of it. */
    struct dcp_view same = launch_of(&kernel_a, 77);
    same.launch.grid[0] = 9;
    same.launch.block[1] = 4;
    same.launch.shared = 1024;
    ck_assert_ptr_eq(find(&trie.root, &same), first);
    /* What was found is looked at first the next time. */
    ck_assert_ptr_eq(trie.root.child, first);
}
END_TEST

START_TEST(many_branches)
{
    enum { WIDTH = 200 };
    static struct fake_kernel kernel[WIDTH];
    struct dcp_node *node[WIDTH];

    begin();
    for (unsigned i = 0; i < WIDTH; i++) {
        kernel[i] = kernel_a;
        struct dcp_view view = launch_of(&kernel[i], i);
        node[i] = dcp_trie_add(&trie, &trie.root, &view);
        ck_assert_ptr_nonnull(node[i]);
        for (unsigned k = 0; k < i; k++)
            ck_assert_ptr_ne(node[i]->branch, node[k]->branch);
    }
    for (unsigned round = 0, seed = 1; round < 1000; round++) {
        uint64_t state = seed++;
        unsigned i = dice(&state, WIDTH);
        struct dcp_view view = launch_of(&kernel[i], 0);
        ck_assert_ptr_eq(find(&trie.root, &view), node[i]);
    }
    ck_assert_uint_eq(count_nodes(&trie.root), WIDTH);
    for (unsigned i = 0; i < WIDTH; i += 2)
        dcp_trie_remove(&trie, node[i]->branch);
    ck_assert_uint_eq(trie.nodes, WIDTH / 2);
    for (unsigned i = 0; i < WIDTH; i++) {
        struct dcp_view view = launch_of(&kernel[i], 0);
        ck_assert_ptr_eq(find(&trie.root, &view), i % 2 ? node[i] : NULL);
    }
    while (trie.root.child)
        dcp_trie_remove(&trie, trie.root.child->branch);
    ck_assert_uint_eq(trie.nodes, 0);
    ck_assert_uint_eq(trie.bytes, 0);
}
END_TEST

/* A node that continues the end of a branch belongs to it; any other begins
 * one. */
START_TEST(branches_follow_divergence)
{
    struct dcp_view trunk[] = {launch_of(&kernel_a, 0), wait_of(),
                               launch_of(&kernel_a, 0)};
    struct dcp_view odd = launch_of(&kernel_b, 0);

    begin();
    struct dcp_node *leaf = path_add(&trie, &trie.root, trunk, 3);
    struct dcp_node *first = trie.root.child;
    ck_assert_ptr_eq(leaf->branch, first->branch);
    ck_assert_ptr_eq(first->branch->head, first);
    ck_assert_ptr_eq(first->branch->tail, leaf);
    struct dcp_node *side = dcp_trie_add(&trie, first, &odd);
    ck_assert_ptr_ne(side->branch, first->branch);
    ck_assert_ptr_eq(side->branch->head, side);
    /* The trunk can still grow, and so can the side. */
    struct dcp_node *more = dcp_trie_add(&trie, leaf, &odd);
    ck_assert_ptr_eq(more->branch, first->branch);
    struct dcp_node *further = dcp_trie_add(&trie, side, &odd);
    ck_assert_ptr_eq(further->branch, side->branch);
    /* Removing the trunk takes what stands on it along. */
    dcp_trie_remove(&trie, first->branch);
    ck_assert_uint_eq(trie.nodes, 0);
    ck_assert_uint_eq(trie.bytes, 0);
    ck_assert_ptr_null(trie.root.child);
}
END_TEST

START_TEST(long_paths)
{
    enum { LENGTH = 200 * 1000 };
    struct dcp_view views[2] = {launch_of(&kernel_a, 0), wait_of()};
    struct dcp_node *at = &trie.root;

    begin();
    for (unsigned i = 0; i < LENGTH; i++) {
        at = dcp_trie_add(&trie, at, &views[i % 2]);
        ck_assert_ptr_nonnull(at);
    }
    ck_assert_uint_eq(at->depth, LENGTH);
    dcp_trie_remove(&trie, at->branch);
    ck_assert_uint_eq(trie.nodes, 0);
    ck_assert_uint_eq(trie.bytes, 0);
}
END_TEST

/* Random walks, with branches removed now and then. */
START_TEST(random_trees)
{
    static struct fake_kernel kernel[4];
    uint64_t state = (uint64_t)_i + 1;

    begin();
    for (unsigned i = 0; i < 4; i++)
        kernel[i] = kernel_a;
    for (unsigned walk = 0; walk < 300; walk++) {
        struct dcp_node *at = &trie.root;
        for (unsigned i = 0, n = 1 + dice(&state, 12); i < n; i++) {
            struct dcp_view view = launch_of(&kernel[dice(&state, 4)], walk);
            at = step(at, &view);
            ck_assert_ptr_nonnull(at);
        }
        if (dice(&state, 3) == 0)
            dcp_trie_remove(&trie, at->branch);
        ck_assert_uint_eq(count_nodes(&trie.root), trie.nodes);
    }
    while (trie.root.child)
        dcp_trie_remove(&trie, trie.root.child->branch);
    ck_assert_uint_eq(trie.nodes, 0);
    ck_assert_uint_eq(trie.bytes, 0);
}
END_TEST

/* Whatever allocation fails, the tree is whole and can grow later. */
START_TEST(without_memory)
{
    struct dcp_view views[] = {launch_of(&kernel_a, 1),
                               copy_of(DEVICE(0), DEVICE(1), 64), wait_of(),
                               alloc_of(512)};
    unsigned failures = 0;

    begin();
    struct dcp_node *trunk = path_add(&trie, &trie.root, views, 2);
    for (long n = 0; n < 40; n++) {
        uint32_t nodes = trie.nodes;
        uint64_t bytes = trie.bytes;
        /* One case goes on with a branch, the other begins one. */
        struct dcp_node *from = n % 2 ? trunk : trunk->parent;

        dcp_arena_fail_after(n / 2);
        struct dcp_node *node = dcp_trie_add(&trie, from, &views[n % 4]);
        dcp_arena_fail_after(-1);
        ck_assert_uint_eq(count_nodes(&trie.root), trie.nodes);
        ck_assert_uint_eq(trie.nodes, nodes + (node != NULL));
        if (!node) {
            failures++;
            ck_assert(n % 2 || trie.bytes == bytes);
        } else if (n % 2) {
            trunk = node;
        }
    }
    ck_assert_uint_gt(failures, 2);
    while (trie.root.child)
        dcp_trie_remove(&trie, trie.root.child->branch);
    ck_assert_uint_eq(trie.nodes, 0);
    ck_assert_uint_eq(trie.bytes, 0);
}
END_TEST

START_TEST(what_no_graph_takes)
{
    CUlaunchAttribute event = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    struct dcp_view views[] = {
        launch_of(&kernel_a, 1),       launch_of(&kernel_unknown, 1),
        launch_of(&kernel_a, 1),       launch_of(&kernel_a, 1),
        copy_of(DEVICE(0), DEVICE(1), 0), fill_of(DEVICE(0), 0, 0, 1),
        copy_of(DEVICE(0), DEVICE(1), 8), fill_of(DEVICE(0), 0, 8, 1),
    };
    bool foldable[] = {true, false, false, false, false, false, true, true};

    begin();
    views[2].stream = (uint64_t)CU_STREAM_PER_THREAD;
    views[3].hook = DCP_HOOK_cuLaunchKernelEx;
    views[3].launch.attrs = &event;
    views[3].launch.attr_count = 1;
    for (unsigned i = 0; i < sizeof views / sizeof *views; i++) {
        struct dcp_node *node = dcp_trie_add(&trie, &trie.root, &views[i]);
        ck_assert_msg(node->fold ==
                          (foldable[i] ? DCP_FOLD_NODE : DCP_FOLD_EAGER),
                      "call %u", i);
    }
}
END_TEST

/* --- values --------------------------------------------------------------- */

START_TEST(values_of_launches)
{
    struct dcp_view view = launch_of(&kernel_a, 5);

    begin();
    struct dcp_node *node = dcp_trie_add(&trie, &trie.root, &view);
    ck_assert_int_eq(dcp_node_take(node, &view), 0);
    for (unsigned i = 0; i < 7; i++) {
        uint32_t *field = i < 3   ? &view.launch.grid[i]
                          : i < 6 ? &view.launch.block[i - 3]
                                  : &view.launch.shared;
        *field = 7;
        ck_assert_int_eq(dcp_node_take(node, &view), 1);
        ck_assert_int_eq(dcp_node_take(node, &view), 0);
    }
    view.launch.params = launch_of(&kernel_a, 6).launch.params;
    ck_assert_int_eq(dcp_node_take(node, &view), 1);
    ck_assert_int_eq(dcp_node_take(node, &view), 0);
    /* Arguments that cannot be read. */
    view.launch.params = NULL;
    ck_assert_int_eq(dcp_node_take(node, &view), -1);
    ck_assert_int_eq(dcp_node_issue(node, NULL), CUDA_SUCCESS);
    ck_assert_uint_eq(fake_graph.work[0].value[1], 6);
    ck_assert_uint_eq(fake_graph.work[0].value[0], 7);
    ck_assert_ptr_eq(fake_graph.work[0].stream, fake_stream(1));
}
END_TEST

START_TEST(values_of_copies_and_fills)
{
    struct dcp_view copy = copy_of(DEVICE(0), DEVICE(1), 64);
    struct dcp_view fill = fill_of(DEVICE(0), 1, 16, 4);

    begin();
    struct dcp_node *c = dcp_trie_add(&trie, &trie.root, &copy);
    struct dcp_node *f = dcp_trie_add(&trie, &trie.root, &fill);
    ck_assert_int_eq(dcp_node_take(c, &copy), 0);
    copy.copy.dst++;
    ck_assert_int_eq(dcp_node_take(c, &copy), 1);
    copy.copy.src++;
    ck_assert_int_eq(dcp_node_take(c, &copy), 1);
    copy.copy.bytes++;
    ck_assert_int_eq(dcp_node_take(c, &copy), 1);
    copy.copy.bytes = 0;
    ck_assert_int_eq(dcp_node_take(c, &copy), -1);
    ck_assert_int_eq(dcp_node_take(f, &fill), 0);
    fill.fill.dst++;
    ck_assert_int_eq(dcp_node_take(f, &fill), 1);
    fill.fill.value++;
    ck_assert_int_eq(dcp_node_take(f, &fill), 1);
    fill.fill.width++;
    ck_assert_int_eq(dcp_node_take(f, &fill), 1);
    fill.fill.width = 0;
    ck_assert_int_eq(dcp_node_take(f, &fill), -1);
    for (unsigned element = 1; element <= 4; element *= 2) {
        f->call.fill.element = (uint8_t)element;
        fake_graph.work_count = 0;
        ck_assert_int_eq(dcp_node_issue(f, fake_stream(2)), CUDA_SUCCESS);
        ck_assert_uint_eq(fake_graph.work[0].value[1], 2);
        ck_assert_uint_eq(fake_graph.work[0].value[2], 17);
        ck_assert_uint_eq(fake_graph.work[0].value[3], element);
        ck_assert_ptr_eq(fake_graph.work[0].stream, fake_stream(2));
    }
}
END_TEST

START_TEST(forms_of_launches)
{
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                              .value.cooperative = 1};
    struct dcp_view ex = launch_of(&kernel_a, 3), together;

    begin();
    ex.hook = DCP_HOOK_cuLaunchKernelEx;
    ex.launch.attrs = &attr;
    ex.launch.attr_count = 1;
    struct dcp_node *e = dcp_trie_add(&trie, &trie.root, &ex);
    /* The program's attributes may be gone when the call is issued. */
    memset(&attr, 0xee, sizeof attr);
    together = launch_of(&kernel_a, 4);
    together.hook = DCP_HOOK_cuLaunchCooperativeKernel;
    struct dcp_node *t = dcp_trie_add(&trie, &trie.root, &together);
    ck_assert_int_eq(e->attrs[0].value.cooperative, 1);
    ck_assert_int_eq(dcp_node_issue(e, NULL), CUDA_SUCCESS);
    ck_assert_int_eq(dcp_node_issue(t, NULL), CUDA_SUCCESS);
    ck_assert_uint_eq(fake_graph.work[0].value[1], 3);
    ck_assert_uint_eq(fake_graph.work[0].value[2], 1);
    ck_assert_uint_eq(fake_graph.work[1].value[1], 4);
    ck_assert_uint_eq(fake_graph.work[1].value[3], true);
}
END_TEST

void
add_trie(Suite *s)
{
    TCase *t = tcase_create("trie");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, shape_is_what_counts);
    tcase_add_test(t, many_branches);
    tcase_add_test(t, branches_follow_divergence);
    tcase_add_test(t, long_paths);
    tcase_add_loop_test(t, random_trees, 0, 10);
    tcase_add_test(t, without_memory);
    tcase_add_test(t, what_no_graph_takes);
    tcase_add_test(t, values_of_launches);
    tcase_add_test(t, values_of_copies_and_fills);
    tcase_add_test(t, forms_of_launches);
    suite_add_tcase(s, t);
}
