/* SPDX-License-Identifier: Apache-2.0 */
/* Replay below the follower, on a driver without a GPU: the tree of
 * iterations, planned addresses, the turned circle, segments, stages, and how
 * calls are recorded. Here: what the parts share. */
#include "config.h"

#include "tests/check_replay.h"

#include "intercept/heap.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
struct fake_kernel
    kernel_a = {.name = "a", .count = 1, .param = {{0, 8}}},
    kernel_b = {.name = "b", .count = 1, .param = {{0, 8}}, .is_kernel = true},
    kernel_none = {.name = "none"},
    kernel_eager = {.name = "eager", .count = 1, .param = {{0, 8}},
                    .uncaptured = true},
    kernel_unknown = {.name = "unknown", .nameless = true};
/* clang-format on */

void
replay_start(void)
{
    struct dcp_heap_options options = {.large_bytes = 4 << 20};

    fake_start(2 << 20, (size_t)1 << 36);
    fake_graph_start();
    dcp_heap_configure(&options);
}

struct dcp_view
launch_of(const struct fake_kernel *kernel, uint64_t word)
{
    static uint64_t value;
    static void *params[1] = {&value};
    struct dcp_view view = {
        .op = DCP_CALL_LAUNCH,
        .fold = DCP_FOLD_NODE,
        .hook = DCP_HOOK_cuLaunchKernel,
        .stream = (uint64_t)fake_stream(1),
        .launch = {.handle = (CUfunction)kernel,
                   .grid = {1, 1, 1},
                   .block = {32, 1, 1},
                   .params = params},
    };

    value = word;
    return view;
}

struct dcp_view
copy_of(uint64_t to, uint64_t from, uint64_t bytes)
{
    return (struct dcp_view){
        .op = DCP_CALL_COPY,
        .fold = DCP_FOLD_NODE,
        .hook = DCP_HOOK_cuMemcpyDtoDAsync_v2,
        .stream = (uint64_t)fake_stream(1),
        .copy = {to, from, bytes, DCP_PLACE_DEVICE, DCP_PLACE_DEVICE},
    };
}

struct dcp_view
upload_of(uint64_t to, const void *from, uint64_t bytes, enum dcp_place place)
{
    struct dcp_view view = copy_of(to, (uint64_t)from, bytes);

    view.hook = DCP_HOOK_cuMemcpyHtoDAsync_v2;
    view.copy.src_place = (uint8_t)place;
    if (place == DCP_PLACE_PINNED)
        view.fold = DCP_FOLD_EAGER;
    return view;
}

struct dcp_view
download_of(void *to, uint64_t from, uint64_t bytes)
{
    struct dcp_view view = copy_of((uint64_t)to, from, bytes);

    view.hook = DCP_HOOK_cuMemcpyDtoHAsync_v2;
    view.copy.dst_place = DCP_PLACE_PINNED;
    view.fold = DCP_FOLD_EAGER;
    return view;
}

struct dcp_view
fill_of(uint64_t to, uint32_t value, uint64_t width, unsigned element)
{
    return (struct dcp_view){
        .op = DCP_CALL_FILL,
        .fold = DCP_FOLD_NODE,
        .hook = DCP_HOOK_cuMemsetD8Async,
        .stream = (uint64_t)fake_stream(1),
        .fill = {.dst = to,
                 .width = width,
                 .height = 1,
                 .value = value,
                 .element = (uint8_t)element},
    };
}

struct dcp_view
alloc_of(uint64_t bytes)
{
    return (struct dcp_view){
        .op = DCP_CALL_ALLOC,
        .fold = DCP_FOLD_MEM,
        .hook = DCP_HOOK_cuMemAllocAsync,
        .stream = (uint64_t)fake_stream(1),
        .memory = {.bytes = bytes},
    };
}

struct dcp_view
free_of(uint64_t address)
{
    return (struct dcp_view){
        .op = DCP_CALL_FREE,
        .fold = DCP_FOLD_MEM,
        .hook = DCP_HOOK_cuMemFreeAsync,
        .stream = (uint64_t)fake_stream(1),
        .memory = {.address = address},
    };
}

struct dcp_view
wait_of(void)
{
    return (struct dcp_view){
        .op = DCP_CALL_WAIT,
        .fold = DCP_FOLD_WAIT,
        .hook = DCP_HOOK_cuStreamSynchronize,
        .stream = (uint64_t)fake_stream(1),
    };
}

struct dcp_node *
path_add(struct dcp_trie *trie, struct dcp_node *from,
         const struct dcp_view *views, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct dcp_node *node = dcp_trie_find(from, &views[i], 0);

        from = node ? node : dcp_trie_add(trie, from, &views[i]);
        ck_assert_ptr_nonnull(from);
    }
    return from;
}

void *
pinned(size_t bytes)
{
    void *at;

    ck_assert_int_eq(dcp_real.cuMemHostAlloc(&at, bytes, 0), CUDA_SUCCESS);
    return at;
}

uint32_t
dice(uint64_t *state, uint32_t sides)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % sides;
}

int
main(void)
{
    Suite *s = suite_create("replay");

    add_trie(s);
    add_path(s);
    add_plan(s);
    add_turn(s);
    add_lower(s);
    add_record(s);
    add_view(s);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
