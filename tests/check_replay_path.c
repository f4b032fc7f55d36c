/* SPDX-License-Identifier: Apache-2.0 */
/* A path of the tree as a log. */
#include "config.h"

#include "tests/check_replay.h"

#include "capture/lift.h"
#include "capture/role.h"
#include "intercept/heap.h"
#include "replay/path.h"
#include "src/alloc.h"

#include <stdlib.h>

static struct dcp_trie trie;

static struct dcp_node *
add(struct dcp_node *from, const struct dcp_view *view)
{
    return path_add(&trie, from, view, 1);
}

/* An allocation that the heap serves, and its address. */
static struct dcp_node *
add_alloc(struct dcp_node *from, uint64_t bytes, CUdeviceptr *out)
{
    struct dcp_view view = alloc_of(bytes);
    struct dcp_node *node = add(from, &view);

    ck_assert_int_eq(dcp_heap_alloc(bytes, fake_stream(1), false, out),
                     CUDA_SUCCESS);
    node->call.memory.address = *out;
    return node;
}

/* A free, as the follower notes it. */
static struct dcp_node *
add_free(struct dcp_node *from, CUdeviceptr address, uint64_t bytes)
{
    struct dcp_view view = free_of(address);
    struct dcp_node *node = add(from, &view);

    node->call.memory.address = address;
    node->call.memory.bytes = bytes;
    ck_assert_int_eq(dcp_heap_free(address, fake_stream(1)), CUDA_SUCCESS);
    return node;
}

enum { OLD_FREE, ALLOC_A, LAUNCH_P, LAUNCH_A, ALLOC_B, FREE_A, COPY_B, CALLS };

/* A path over a block of the iteration before (freed), a lasting one, one that
 * is made and freed, and one that lives on. */
static struct dcp_node *
example(CUdeviceptr *lasting)
{
    CUdeviceptr old, a, b;
    struct dcp_node *at = &trie.root;

    replay_start();
    dcp_trie_init(&trie);
    ck_assert_int_eq(dcp_heap_alloc(1024, fake_stream(1), false, lasting),
                     CUDA_SUCCESS);
    ck_assert_int_eq(dcp_heap_alloc(2048, fake_stream(1), false, &old),
                     CUDA_SUCCESS);
    at = add_free(at, old, 2048);
    at = add_alloc(at, 4096, &a);
    struct dcp_view view = launch_of(&kernel_a, *lasting + 16);
    at = add(at, &view);
    view = launch_of(&kernel_a, a);
    at = add(at, &view);
    at = add_alloc(at, 8192, &b);
    at = add_free(at, a, 4096);
    view = copy_of(b + 8, *lasting, 64);
    return add(at, &view);
}

static const struct dcp_log_buffer *
buffer_of(const struct dcp_path *path, const struct dcp_ref *ref)
{
    ck_assert_uint_lt(ref->buffer, path->log.buffer_count);
    return &path->log.buffers[ref->buffer];
}

START_TEST(blocks_of_a_path)
{
    struct dcp_path path = {0};
    CUdeviceptr lasting;
    struct dcp_node *leaf = example(&lasting);

    ck_assert(dcp_path_make(&path, &trie, leaf));
    ck_assert_uint_eq(path.count, CALLS);
    ck_assert_uint_eq(path.log.call_count, CALLS);
    ck_assert_ptr_eq(path.nodes[CALLS - 1], leaf);
    const struct dcp_call *call = path.log.calls;
    /* A launch's pointer, into a block that is older than the path. */
    ck_assert_uint_eq(call[LAUNCH_P].ref_count, 1);
    const struct dcp_log_buffer *p = buffer_of(&path, call[LAUNCH_P].refs);
    ck_assert_uint_eq(call[LAUNCH_P].refs->offset, 16);
    ck_assert_uint_eq(p->address, lasting);
    ck_assert_uint_eq(p->alloc_call, UINT32_MAX);
    ck_assert_uint_eq(p->free_call, UINT32_MAX);
    ck_assert_uint_ne(p->block, 0);
    /* ... and into one that lives in it. */
    const struct dcp_log_buffer *a = buffer_of(&path, call[LAUNCH_A].refs);
    ck_assert_uint_eq(a->bytes, 4096);
    ck_assert_uint_eq(a->alloc_call, ALLOC_A);
    ck_assert_uint_eq(a->free_call, FREE_A);
    ck_assert_ptr_eq(path.nodes[FREE_A]->mate, path.nodes[ALLOC_A]);
    /* One that outlives it. */
    ck_assert_uint_eq(call[COPY_B].ref_count, 2);
    const struct dcp_log_buffer *b = buffer_of(&path, &call[COPY_B].refs[0]);
    ck_assert_uint_eq(b->alloc_call, ALLOC_B);
    ck_assert_uint_eq(b->free_call, UINT32_MAX);
    /* One that was there before, and is gone. */
    ck_assert_ptr_null(path.nodes[OLD_FREE]->mate);
    const struct dcp_log_buffer *old =
        &path.log.buffers[call[OLD_FREE].memory.buffer];
    ck_assert_uint_eq(old->alloc_call, UINT32_MAX);
    ck_assert_uint_eq(old->free_call, OLD_FREE);
    ck_assert_uint_eq(old->bytes, 2048);
    dcp_path_drop(&path);
}
END_TEST

START_TEST(paths_are_lifted)
{
    struct dcp_path path = {0};
    struct dcp_graph *graph;
    CUdeviceptr lasting;
    struct dcp_node *leaf = example(&lasting);

    ck_assert(dcp_path_make(&path, &trie, leaf));
    ck_assert_int_eq(dcp_lift(&path.log, 0, path.count, NULL, &graph), DCP_OK);
    ck_assert_int_eq(dcp_role_fill(graph), DCP_OK);
    ck_assert_int_eq(dcp_ir_verify(graph, NULL), DCP_OK);
    ck_assert_uint_eq(graph->node_count, CALLS);
    uint32_t persistent = 0;
    for (uint32_t i = 0; i < graph->buffer_count; i++)
        persistent += graph->buffers[i].persistent;
    ck_assert_uint_eq(persistent, 1);
    dcp_graph_destroy(graph);
    dcp_path_drop(&path);
}
END_TEST

START_TEST(paths_without_memory)
{
    CUdeviceptr lasting;
    struct dcp_node *leaf = example(&lasting);
    bool made = false;
    long n = 0;

    for (; !made; n++) {
        struct dcp_path path = {0};
        dcp_alloc_fail_at(n + 1);
        made = dcp_path_make(&path, &trie, leaf);
        dcp_alloc_fail_at(0);
        dcp_path_drop(&path);
    }
    ck_assert_int_gt(n, 3);
    made = false;
    for (n = 0; !made; n++) {
        struct dcp_path path = {0};
        dcp_arena_fail_after(n);
        made = dcp_path_make(&path, &trie, leaf);
        dcp_arena_fail_after(-1);
        dcp_path_drop(&path);
    }
    ck_assert_int_gt(n, 1);
}
END_TEST

/* Sorted ranges, in random order in and out. */
START_TEST(ranges)
{
    enum { COUNT = 3000 };
    struct dcp_live live = {0};
    static uint32_t order[COUNT];
    uint64_t state = 9;

    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t k = dice(&state, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    for (uint32_t i = 0; i < COUNT; i++)
        ck_assert(dcp_live_put(&live, 100 * order[i], 50, order[i]));
    for (uint32_t i = 0; i < COUNT; i++) {
        struct dcp_live_block *b = dcp_live_at(&live, 100 * order[i] + 49);
        ck_assert_ptr_nonnull(b);
        ck_assert_uint_eq(b->buffer, order[i]);
        ck_assert_ptr_null(dcp_live_at(&live, 100 * order[i] + 50));
        dcp_live_take(&live, b);
        ck_assert_ptr_null(dcp_live_at(&live, 100 * order[i]));
    }
    ck_assert_uint_eq(live.count, 0);
    free(live.block);
}
END_TEST

void
add_path(Suite *s)
{
    TCase *t = tcase_create("path");

    tcase_add_test(t, blocks_of_a_path);
    tcase_add_test(t, paths_are_lifted);
    tcase_add_test(t, paths_without_memory);
    tcase_add_test(t, ranges);
    suite_add_tcase(s, t);
}
