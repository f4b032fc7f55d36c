/* SPDX-License-Identifier: Apache-2.0 */
/* Planned addresses: what is handed out, when the plan is off, and that no
 * program, however it strays, is given bytes that are in use. */
#include "config.h"

#include "tests/check_replay.h"

#include "intercept/heap.h"
#include "passes/pass.h"
#include "replay/plan.h"

#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20 };

/* A plan of `bytes` bytes; the first planned address. */
static void
begin(uint64_t bytes)
{
    CUdeviceptr block;

    replay_start();
    ck_assert_int_eq(dcp_heap_alloc(512, fake_stream(1), false, &block),
                     CUDA_SUCCESS);
    ck_assert(dcp_plan_origin(1, bytes, 0)); /* too small: make it */
    ck_assert(dcp_plan_range(bytes));
    ck_assert(!dcp_plan_origin(1, bytes, 0));
}

static struct dcp_node
alloc_node(uint64_t place, uint64_t bytes)
{
    return (struct dcp_node){.op = DCP_CALL_ALLOC,
                             .fold = DCP_FOLD_MEM,
                             .plan = 1,
                             .place = (int64_t)place,
                             .place_bytes = bytes};
}

static void
check_plan(uint64_t live, uint32_t blocks)
{
    uint64_t is_live, bytes;
    uint32_t is_blocks;

    dcp_plan_get(&is_live, &is_blocks, &bytes);
    ck_assert_uint_eq(is_live, live);
    ck_assert_uint_eq(is_blocks, blocks);
}

START_TEST(addresses_repeat)
{
    struct dcp_node a = alloc_node(0, 1000), b = alloc_node(4096, 8192);
    struct dcp_node free_a = {.op = DCP_CALL_FREE, .mate = &a};
    struct dcp_node free_b = {.op = DCP_CALL_FREE, .mate = &b};
    CUdeviceptr first = 0;

    begin(MIB);
    for (unsigned pass = 0; pass < 5; pass++) {
        ck_assert(!dcp_plan_origin(1, MIB, 0));
        CUdeviceptr x = dcp_plan_take(&a, 1000), y = dcp_plan_take(&b, 8192);
        ck_assert_uint_ne(x, 0);
        ck_assert_uint_eq(y, x + 4096);
        if (!first)
            first = x;
        ck_assert_uint_eq(x, first);
        check_plan(9192, 2);
        /* Not twice, and only as it was planned. */
        ck_assert_uint_eq(dcp_plan_take(&a, 1000), 0);
        ck_assert(dcp_plan_give_back(&free_a, x));
        ck_assert(!dcp_plan_give_back(&free_a, x));
        ck_assert_uint_eq(dcp_plan_take(&a, 1001), 0);
        ck_assert(dcp_plan_give(&free_b, y));
        ck_assert_ptr_null(free_b.seen_mate);
        check_plan(0, 0);
    }
}
END_TEST

START_TEST(the_heap_answers)
{
    struct dcp_node a = alloc_node(8192, 1000);
    struct dcp_block block;

    begin(MIB);
    CUdeviceptr x = dcp_plan_take(&a, 1000);
    ck_assert(dcp_heap_owns(x));
    ck_assert(dcp_heap_find(x + 999, &block));
    ck_assert_uint_eq(block.base, x);
    ck_assert_uint_eq(block.bytes, 1000);
    uint64_t id = block.id;
    ck_assert(!dcp_heap_find(x + 1000, &block));
    ck_assert(!dcp_heap_find(x - 1, &block));
    /* Freed by a call that the follower does not see. */
    ck_assert_int_eq(dcp_heap_free(x, fake_stream(1)), CUDA_SUCCESS);
    ck_assert(!dcp_heap_find(x, &block));
    ck_assert_int_eq(dcp_heap_free(x, fake_stream(1)),
                     CUDA_ERROR_INVALID_VALUE);
    /* ... after which nothing is handed out until the origin. */
    ck_assert_uint_eq(dcp_plan_take(&a, 1000), 0);
    /* ... at which the device must have been idle: the free may have been
     * on another stream. */
    ck_assert(dcp_plan_origin(1, MIB, 0));
    ck_assert(dcp_plan_range(MIB));
    ck_assert(!dcp_plan_origin(1, MIB, 0));
    ck_assert_uint_eq(dcp_plan_take(&a, 1000), x);
    ck_assert(dcp_heap_find(x, &block));
    ck_assert_uint_eq(block.id, id);
}
END_TEST

START_TEST(a_wrong_free_breaks_it)
{
    struct dcp_node a = alloc_node(0, 4096), b = alloc_node(4096, 4096);
    struct dcp_node free_a = {.op = DCP_CALL_FREE, .mate = &a};
    struct dcp_node free_b = {.op = DCP_CALL_FREE, .mate = &b};
    struct dcp_node later = alloc_node(0, 512);

    begin(MIB);
    CUdeviceptr x = dcp_plan_take(&a, 4096), y = dcp_plan_take(&b, 4096);
    /* b dies where a should have; what follows would be laid over a. */
    ck_assert(dcp_plan_give(&free_a, y));
    ck_assert_ptr_eq(free_a.seen_mate, &b);
    ck_assert_uint_eq(dcp_plan_take(&later, 512), 0);
    /* Off, also at an origin, while something lives in the range. */
    ck_assert(!dcp_plan_origin(1, MIB, 0));
    ck_assert_uint_eq(dcp_plan_take(&b, 4096), 0);
    ck_assert(dcp_plan_give(&free_b, x));
    ck_assert(!dcp_plan_origin(1, MIB, 0));
    ck_assert_uint_eq(dcp_plan_take(&later, 512), x);
}
END_TEST

START_TEST(only_its_own_blocks)
{
    struct dcp_node a = alloc_node(0, 4096), other = alloc_node(0, 4096);

    begin(MIB);
    other.plan = 2;
    ck_assert_uint_eq(dcp_plan_take(&other, 4096), 0);
    a.place = MIB - 4095; /* leaves the range */
    ck_assert_uint_eq(dcp_plan_take(&a, 4096), 0);
    a.place = MIB - 4096;
    ck_assert_uint_ne(dcp_plan_take(&a, 4096), 0);
    dcp_plan_break();
    a.served = false;
    ck_assert_uint_eq(dcp_plan_take(&a, 4096), 0);
}
END_TEST

/* What a free ended is remembered, with how many iterations it had lived. */
START_TEST(frees_are_learned)
{
    struct dcp_node alloc = alloc_node(0, 4096);
    struct dcp_node end = {.op = DCP_CALL_FREE};

    begin(MIB);
    alloc.place = -1;
    dcp_plan_pass(7);
    dcp_plan_note(&alloc, DEVICE(3), 4096);
    dcp_plan_pass(8);
    ck_assert(!dcp_plan_give(&end, DEVICE(3)));
    ck_assert_ptr_eq(end.seen_mate, &alloc);
    ck_assert_uint_eq(end.seen_age, 1);
    ck_assert(!dcp_plan_give(&end, DEVICE(3)));
    ck_assert_ptr_null(end.seen_mate);
    /* A block freed behind our back and given out again is the new one. */
    dcp_plan_note(&alloc, DEVICE(3), 4096);
    dcp_plan_pass(9);
    dcp_plan_note(&alloc, DEVICE(3), 4096);
    ck_assert(!dcp_plan_give(&end, DEVICE(3)));
    ck_assert_uint_eq(end.seen_age, 0);
}
END_TEST

/* Many blocks of the heap's at once: the table grows, and forgets in any
 * order. */
START_TEST(many_notes)
{
    enum { COUNT = 20000 };
    struct dcp_node alloc = alloc_node(0, 512), end = {.op = DCP_CALL_FREE};
    uint64_t state = 3;

    begin(MIB);
    static uint32_t order[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t k = dice(&state, i + 1);
        order[i] = order[k];
        order[k] = i;
        dcp_plan_note(&alloc, DEVICE(i), 512);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        dcp_plan_give(&end, DEVICE(order[i]));
        ck_assert_msg(end.seen_mate == &alloc, "block %u was lost", order[i]);
    }
    dcp_plan_give(&end, DEVICE(order[5]));
    ck_assert_ptr_null(end.seen_mate);
}
END_TEST

START_TEST(removed_nodes)
{
    struct dcp_node *a = malloc(sizeof *a);
    struct dcp_node b = alloc_node(0, 4096);
    struct dcp_block block;

    begin(MIB);
    *a = alloc_node(0, 4096);
    CUdeviceptr x = dcp_plan_take(a, 4096);
    dcp_plan_unpin();
    memset(a, 0xee, sizeof *a);
    free(a);
    /* The block lives on, and its place is not given away. */
    ck_assert(dcp_heap_find(x + 5, &block));
    ck_assert_uint_eq(block.base, x);
    check_plan(4096, 1);
    ck_assert(!dcp_plan_origin(1, MIB, 0));
    ck_assert_uint_eq(dcp_plan_take(&b, 4096), 0);
    ck_assert(!dcp_plan_range(2 * MIB)); /* in use */
    ck_assert(dcp_plan_give(NULL, x));
    ck_assert(!dcp_heap_find(x, &block));
    /* No stream is known whose order the free belongs to. */
    ck_assert(dcp_plan_origin(1, MIB, 0));
    ck_assert(dcp_plan_range(MIB));
    ck_assert(!dcp_plan_origin(1, MIB, 0));
    ck_assert_uint_eq(dcp_plan_take(&b, 4096), x);
}
END_TEST

START_TEST(no_room)
{
    struct dcp_node a = alloc_node(0, 4096);

    begin(MIB);
    fake.host_bytes = 0;
    fake.device_bytes = fake.device_held;
    ck_assert(dcp_plan_origin(2, 64 * MIB, 0));
    ck_assert(!dcp_plan_range(64 * MIB));
    /* Is not asked again for as much, and the old range still serves. */
    ck_assert(!dcp_plan_origin(2, 64 * MIB, 0));
    ck_assert(dcp_plan_origin(3, 32 * MIB, 0));
    ck_assert_uint_eq(dcp_plan_take(&a, 4096), 0);
    ck_assert(!dcp_plan_origin(1, MIB, 0));
    ck_assert_uint_ne(dcp_plan_take(&a, 4096), 0);
}
END_TEST

/* --- any program ---------------------------------------------------------- */

enum { CALLS = 120, BLOCKS = CALLS / 2, OWN = 1 << 16 };

/* An iteration: `CALLS` allocations and frees, and where the blocks lie. */
struct iteration {
    struct dcp_node node[CALLS];
    int block[CALLS];   /* which block, by number */
    uint64_t bytes[BLOCKS];
    uint64_t arena;
};

static void
iteration_make(struct iteration *it, uint64_t *state)
{
    int alive[BLOCKS], count = 0, born = 0;

    memset(it, 0, sizeof *it);
    for (int i = 0; i < CALLS; i++) {
        int left = CALLS - i;
        bool birth = born < BLOCKS &&
                     (count == 0 || (count < left && dice(state, 2)));
        if (birth) {
            it->bytes[born] = 1 + dice(state, 40000);
            it->block[i] = alive[count++] = born++;
            continue;
        }
        int k = (int)dice(state, (uint32_t)count);
        it->block[i] = alive[k];
        alive[k] = alive[--count];
    }
}

/* The addresses are those of the placement pass. */
static void
iteration_place(struct iteration *it)
{
    struct dcp_graph *graph = dcp_graph_create();
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();
    bool seen[BLOCKS] = {false};
    struct dcp_node *birth[BLOCKS];

    uint32_t stream = dcp_ir_add_stream(graph);
    for (int b = 0; b < BLOCKS; b++)
        dcp_ir_add_buffer(graph, DCP_ROLE_ACT, it->bytes[b], false, NULL);
    for (int i = 0; i < CALLS; i++) {
        int b = it->block[i];
        dcp_ir_add_node(graph, seen[b] ? DCP_OP_FREE : DCP_OP_ALLOC, stream)
            ->memory.buffer = (uint32_t)b;
        seen[b] = true;
    }
    ck_assert(dcp_pass_run(&graph, &ctx, NULL, NULL, NULL));
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < CALLS; i++) {
        int b = it->block[i];
        ck_assert(graph->buffers[b].place != DCP_NO_PLACE);
        if (!seen[b]) {
            it->node[i] = alloc_node(graph->buffers[b].place, it->bytes[b]);
            birth[b] = &it->node[i];
        } else {
            it->node[i] = (struct dcp_node){.op = DCP_CALL_FREE,
                                            .fold = DCP_FOLD_MEM,
                                            .mate = birth[b]};
        }
        seen[b] = true;
    }
    it->arena = graph->arena_bytes;
    dcp_graph_destroy(graph);
}

/* The program: what it holds, and a heap that never gives an address twice. */
static struct holding {
    CUdeviceptr base;
    uint64_t bytes;
} held[OWN];
static uint32_t held_count;
static CUdeviceptr next_own;

static void
hold(CUdeviceptr base, uint64_t bytes)
{
    for (uint32_t i = 0; i < held_count; i++)
        ck_assert_msg(base + bytes <= held[i].base ||
                          held[i].base + held[i].bytes <= base,
                      "handed out twice");
    held[held_count++] = (struct holding){base, bytes};
}

static CUdeviceptr
let_go(uint32_t i)
{
    CUdeviceptr base = held[i].base;

    held[i] = held[--held_count];
    return base;
}

static uint32_t
holding_of(CUdeviceptr base)
{
    uint32_t i = 0;

    while (i < held_count && held[i].base != base)
        i++;
    return i;
}

static bool
take(struct dcp_node *node, uint64_t bytes)
{
    CUdeviceptr at = dcp_plan_take(node, bytes);
    bool planned = at != 0;

    if (!planned) {
        at = next_own;
        next_own += bytes + 512;
        dcp_plan_note(node, at, bytes);
    }
    hold(at, bytes);
    node->call.memory.address = at;
    return planned;
}

/* As the follower does: the short way first. */
static void
give(struct dcp_node *node, CUdeviceptr at)
{
    if (!dcp_plan_give_back(node, at))
        dcp_plan_give(node, at);
}

/* One iteration; `strays`: one call in so many does not do what it should.
 * How many allocations were served from the plan. */
static uint32_t
run(struct iteration *it, uint64_t *state, uint32_t strays)
{
    uint32_t served = 0;

    if (dcp_plan_origin(1, it->arena, 0) && dcp_plan_range(it->arena))
        dcp_plan_origin(1, it->arena, 0);
    for (int i = 0; i < CALLS; i++) {
        struct dcp_node *node = &it->node[i];
        bool is_stray = strays && dice(state, strays) == 0;
        uint32_t stray = is_stray ? dice(state, 5) : 9;

        if (node->op == DCP_CALL_ALLOC) {
            uint64_t bytes = node->place_bytes;
            if (stray == 0)
                bytes = 1 + dice(state, 60000);
            if (stray == 1) { /* left out: another way through the tree */
                dcp_plan_break();
                continue;
            }
            served += take(node, bytes);
            continue;
        }
        uint32_t which = holding_of(node->mate->call.memory.address);
        if (stray == 0 && held_count) /* another block */
            which = dice(state, held_count);
        if (stray == 1) { /* not at all */
            dcp_plan_break();
            continue;
        }
        if (which < held_count && stray == 2) /* by a call that is not seen */
            dcp_plan_give(NULL, let_go(which));
        else if (which < held_count)
            give(node, let_go(which));
    }
    return served;
}

START_TEST(any_program)
{
    static struct iteration it;
    uint64_t state = (uint64_t)_i * 77 + 1;

    held_count = 0;
    next_own = DEVICE(0);
    iteration_make(&it, &state);
    iteration_place(&it);
    begin(it.arena);
    ck_assert_uint_eq(run(&it, &state, 0), BLOCKS);
    ck_assert_uint_eq(held_count, 0);
    for (unsigned pass = 0; pass < 40; pass++) {
        run(&it, &state, 5 + dice(&state, 60));
        /* Sooner or later it frees what it kept. */
        while (held_count && dice(&state, 3))
            dcp_plan_give(NULL, let_go(dice(&state, held_count)));
        ck_assert_uint_lt(held_count, OWN - CALLS);
    }
    while (held_count)
        dcp_plan_give(NULL, let_go(0));
    check_plan(0, 0);
    for (unsigned pass = 0; pass < 3; pass++)
        ck_assert_uint_eq(run(&it, &state, 0), BLOCKS);
}
END_TEST

void
add_plan(Suite *s)
{
    TCase *t = tcase_create("plan");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, addresses_repeat);
    tcase_add_test(t, the_heap_answers);
    tcase_add_test(t, a_wrong_free_breaks_it);
    tcase_add_test(t, only_its_own_blocks);
    tcase_add_test(t, frees_are_learned);
    tcase_add_test(t, many_notes);
    tcase_add_test(t, removed_nodes);
    tcase_add_test(t, no_room);
    tcase_add_loop_test(t, any_program, 0, 60);
    suite_add_tcase(s, t);
}
