/* SPDX-License-Identifier: Apache-2.0 */
/* The heap on a driver of book-keeping alone (fake_memory.h): against a model
 * of what may be given to whom, over budget, with every call failing. With the
 * argument "loop" it counts the instructions of an allocation and a free that
 * hit. */
#include "config.h"

#include "src/arena.h"
#include "src/log.h"

#include "intercept/frame.h"
#include "intercept/heap.h"
#include "intercept/space.h"

#include "tests/fake_memory.h"
#include "tests/heap_step.h"

#include <check.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static void
start(size_t page, size_t device, size_t budget, bool spill)
{
    struct dcp_heap_options options = { .budget = budget, .spill = spill };

    fake_start(page, device);
    dcp_heap_configure(&options);
}

/* Whatever the test did: nothing stays with the driver. */
static void
finish(void)
{
    fake.fail_after = -1;
    atomic_store(&dcp_heap_captures, 0);
    dcp_heap_reset();
    dcp_heap_reset_peak();
    ck_assert_int_eq(fake.handles, 0);
    ck_assert_int_eq(fake.events, 0);
    ck_assert_uint_eq(fake.mapped, 0);
    ck_assert_uint_eq(fake.reserved, 0);
    ck_assert_uint_eq(fake.device_held, 0);
    ck_assert_uint_eq(fake.host_held, 0);
    ck_assert_int_eq(fake.broken, 0);
}

static CUdeviceptr
get(size_t bytes, int stream)
{
    CUdeviceptr base = 0;

    ck_assert_int_eq(dcp_heap_alloc(bytes, fake_stream(stream), false, &base),
                     CUDA_SUCCESS);
    ck_assert_uint_ne(base, 0);
    return base;
}

static void
put(CUdeviceptr base, int stream)
{
    ck_assert_int_eq(dcp_heap_free(base, fake_stream(stream)), CUDA_SUCCESS);
}

static struct dcp_heap_stats
stats(void)
{
    struct dcp_heap_stats now;

    dcp_heap_get_stats(&now);
    return now;
}

/* The model: who freed each 512 bytes last, and when. */

enum { UNIT = 512, UNITS = 1 << 21, SLOTS = 600 };

static struct {
    int stream; /* -1: never freed, or live */
    uint64_t at;
    bool live;
} *unit;

static struct {
    CUdeviceptr base;
    size_t bytes;
} slot[SLOTS];

static CUdeviceptr model_base;

static size_t
unit_first(CUdeviceptr base)
{
    size_t heap;

    if (model_base == 0)
        dcp_heap_range(&model_base, &heap);
    ck_assert_uint_ge(base, model_base);
    ck_assert_uint_lt((base - model_base) / UNIT, UNITS);
    return (base - model_base) / UNIT;
}

static void
model_alloc(CUdeviceptr base, size_t bytes, int stream, bool sync)
{
    size_t first = unit_first(base), count = (bytes + UNIT - 1) / UNIT;

    bool overlap = false, early = false;

    ck_assert_uint_eq(base % UNIT, 0);
    for (size_t i = first; i < first + count; i++) {
        int last = unit[i].stream;

        overlap |= unit[i].live;
        if (last >= 0 && (sync || last != stream))
            early |= unit[i].at > fake.completed[last];
        unit[i].live = true;
    }
    ck_assert(!overlap);
    ck_assert(!early);
}

static void
model_free(CUdeviceptr base, size_t bytes, int stream)
{
    size_t first = unit_first(base), count = (bytes + UNIT - 1) / UNIT;

    if (stream >= 0)
        fake.issued[stream]++;
    for (size_t i = first; i < first + count; i++) {
        unit[i].live = false;
        unit[i].stream = stream;
        unit[i].at = stream < 0 ? 0 : fake.issued[stream];
    }
}

static void
model_start(void)
{
    unit = calloc(UNITS, sizeof *unit);
    ck_assert_ptr_nonnull(unit);
    for (size_t i = 0; i < UNITS; i++)
        unit[i].stream = -1;
    memset(slot, 0, sizeof slot);
    model_base = 0;
}

static size_t
random_bytes(void)
{
    switch (random() % 8) {
    case 0: return 1 + (size_t)random() % (4 * MIB);
    case 1: return (1 + (size_t)random() % 24) * 256 * KIB;
    case 2: return (size_t)1 << (random() % 21);
    default: return 1 + (size_t)random() % (32 * KIB);
    }
}

static void
slot_fill(int i)
{
    int stream = (int)(random() % FAKE_STREAMS);
    bool sync = random() % 16 == 0;
    size_t bytes = random_bytes();
    CUresult cu = dcp_heap_alloc(bytes, fake_stream(stream), sync,
                                 &slot[i].base);

    if (cu == CUDA_ERROR_OUT_OF_MEMORY) {
        slot[i].bytes = 0;
        return;
    }
    ck_assert_int_eq(cu, CUDA_SUCCESS);
    slot[i].bytes = bytes;
    model_alloc(slot[i].base, bytes, stream, sync);
}

static void
slot_clear(int i)
{
    int stream = (int)(random() % FAKE_STREAMS);

    if (random() % 16 == 0) {
        ck_assert_int_eq(dcp_heap_free_sync(slot[i].base), CUDA_SUCCESS);
        model_free(slot[i].base, slot[i].bytes, -1);
    } else {
        put(slot[i].base, stream);
        model_free(slot[i].base, slot[i].bytes, stream);
    }
    slot[i].bytes = 0;
}

static void
slot_check(int i)
{
    struct dcp_block block;
    size_t inside = (size_t)random() % slot[i].bytes;

    ck_assert(dcp_heap_find(slot[i].base + inside, &block));
    ck_assert_uint_eq(block.base, slot[i].base);
    ck_assert_uint_eq(block.bytes, slot[i].bytes);
    ck_assert(!dcp_heap_find(slot[i].base + slot[i].bytes, &block) ||
              block.base == slot[i].base + slot[i].bytes);
}

static int each_count;
static CUdeviceptr each_last;
static bool each_wrong;

static void
each_visit(const struct dcp_block *block, void *user)
{
    (void)user;
    if (each_count && block->base <= each_last)
        each_wrong = true;
    each_last = block->base;
    each_count++;
}

static void
each_check(void)
{
    int live = 0;

    each_count = 0;
    dcp_heap_each(each_visit, NULL);
    for (int i = 0; i < SLOTS; i++)
        live += slot[i].bytes != 0;
    ck_assert_int_eq(each_count, live);
    ck_assert(!each_wrong);
}

static void
random_run(int steps)
{
    for (int step = 0; step < steps; step++) {
        int i = (int)(random() % SLOTS);
        int stream = (int)(random() % FAKE_STREAMS);

        if (slot[i].bytes == 0)
            slot_fill(i);
        else if (random() % 4)
            slot_clear(i);
        else
            slot_check(i);
        if (random() % 32 == 0)
            fake.completed[stream] = fake.issued[stream];
        if (random() % 4096 == 0) {
            memcpy(fake.completed, fake.issued, sizeof fake.issued);
            dcp_heap_trim((size_t)random() % (8 * MIB));
        }
        if (step % 5000 == 0)
            each_check();
    }
}

START_TEST(random_plenty)
{
    srandom(_i + 1);
    start(_i % 2 ? 64 * KIB : 2 * MIB, 2 * GIB, 0, false);
    model_start();
    random_run(60000);
    for (int i = 0; i < SLOTS; i++)
        if (slot[i].bytes)
            slot_clear(i);
    ck_assert_uint_eq(stats().used, 0);
    memcpy(fake.completed, fake.issued, sizeof fake.issued);
    dcp_heap_trim(0);
    ck_assert_uint_eq(stats().reserved, 0);
    ck_assert_uint_eq(fake.device_held, 0);
    finish();
}
END_TEST

START_TEST(random_tight)
{
    struct dcp_heap_stats now;

    srandom(_i + 100);
    start(64 * KIB, 128 * MIB, 48 * MIB, _i % 2);
    model_start();
    random_run(60000);
    now = stats();
    ck_assert_uint_le(now.reserved_peak, 48 * MIB);
    ck_assert_uint_le(fake.device_peak, 48 * MIB);
    ck_assert(_i % 2 || now.host_peak == 0);
    finish();
}
END_TEST

START_TEST(same_stream_reuse)
{
    start(2 * MIB, GIB, 0, false);
    for (size_t bytes = 1; bytes <= 64 * MIB; bytes = bytes * 3 + 1) {
        CUdeviceptr first = get(bytes, 1);

        put(first, 1);
        ck_assert_uint_eq(get(bytes, 1), first);
        put(first, 1);
    }
    finish();
}
END_TEST

/* A program that frees in the reverse order gets the same addresses again. */
START_TEST(repeating_addresses)
{
    CUdeviceptr first[64], again;

    start(2 * MIB, GIB, 0, false);
    for (int i = 0; i < 64; i++)
        first[i] = get((size_t)(i % 7 + 1) * 300 * KIB, 1);
    for (int round = 0; round < 5; round++) {
        for (int i = 63; i >= 0; i--)
            put(first[i], 1);
        for (int i = 0; i < 64; i++) {
            again = get((size_t)(i % 7 + 1) * 300 * KIB, 1);
            ck_assert_uint_eq(again, first[i]);
        }
    }
    finish();
}
END_TEST

START_TEST(other_stream_waits)
{
    start(2 * MIB, 64 * MIB, 0, false);
    CUdeviceptr a = get(24 * MIB, 1), b;

    fake.issued[1] = 1;
    put(a, 1);
    b = get(24 * MIB, 2);
    ck_assert_uint_ne(a, b);
    fake.completed[1] = 1;
    /* Now known to be over: no third frame. */
    ck_assert_uint_eq(get(24 * MIB, 2), a);
    ck_assert_int_eq(fake.syncs, 0);
    put(b, 2);
    finish();
}
END_TEST

/* Short of memory, the heap waits for the other stream instead of failing. */
START_TEST(other_stream_pressure)
{
    start(2 * MIB, 64 * MIB, 0, false);
    CUdeviceptr a = get(48 * MIB, 1);

    fake.issued[1] = 1;
    put(a, 1);
    get(48 * MIB, 2);
    ck_assert_int_eq(fake.syncs, 1);
    ck_assert_uint_le(fake.device_peak, 64 * MIB);
    finish();
}
END_TEST

START_TEST(stream_handle_returns)
{
    start(2 * MIB, GIB, 0, false);
    CUdeviceptr a = get(24 * MIB, 1);

    fake.issued[1] = 1;
    put(a, 1);
    dcp_heap_stream_gone(fake_stream(1));
    /* The same handle, another stream: the work of the first one goes on. */
    ck_assert_uint_ne(get(24 * MIB, 1), a);
    fake.completed[1] = 1;
    ck_assert_uint_eq(get(24 * MIB, 2), a);
    finish();
}
END_TEST

static void *
thread_block(void *bytes)
{
    CUdeviceptr base = 0;

    dcp_heap_alloc(*(size_t *)bytes, CU_STREAM_PER_THREAD, false, &base);
    return (void *)(uintptr_t)base;
}

START_TEST(per_thread_streams_differ)
{
    size_t bytes = 4 * MIB;
    CUdeviceptr a;
    pthread_t thread;
    void *other;

    start(2 * MIB, GIB, 0, false);
    a = (CUdeviceptr)(uintptr_t)thread_block(&bytes);
    dcp_heap_free(a, CU_STREAM_PER_THREAD);
    pthread_create(&thread, NULL, thread_block, &bytes);
    pthread_join(thread, &other);
    ck_assert_uint_ne((CUdeviceptr)(uintptr_t)other, a);
    ck_assert_uint_eq((CUdeviceptr)(uintptr_t)thread_block(&bytes), a);
    fake.broken = 0; /* this driver has no such stream to record on */
    finish();
}
END_TEST

START_TEST(sync_allocations)
{
    CUdeviceptr a, b;

    start(2 * MIB, GIB, 0, false);
    ck_assert_int_eq(dcp_heap_alloc(3 * MIB, NULL, true, &a), CUDA_SUCCESS);
    fake.issued[1] = 5;
    ck_assert_int_eq(dcp_heap_free_sync(a), CUDA_SUCCESS);
    ck_assert_int_eq(fake.syncs, 1);
    ck_assert_uint_eq(get(3 * MIB, 3), a);
    /* What a stream freed is not usable from everywhere. */
    fake.issued[3] = 1;
    put(a, 3);
    ck_assert_int_eq(dcp_heap_alloc(3 * MIB, NULL, true, &b), CUDA_SUCCESS);
    ck_assert_uint_ne(a, b);
    /* A big one goes back to the device at once. */
    ck_assert_int_eq(dcp_heap_alloc(100 * MIB, NULL, true, &a), CUDA_SUCCESS);
    size_t held = fake.device_held;
    ck_assert_int_eq(dcp_heap_free_sync(a), CUDA_SUCCESS);
    ck_assert_uint_eq(fake.device_held, held - 100 * MIB);
    finish();
}
END_TEST

/* While a capture is open nothing waits, records or offends its mode. */
START_TEST(open_capture)
{
    CUdeviceptr a, b;

    start(2 * MIB, 64 * MIB, 0, false);
    a = get(20 * MIB, 1);
    b = get(20 * MIB, 1);
    atomic_store(&dcp_heap_captures, 1);
    fake.in_global_capture = true;
    fake.issued[1] = 1;
    ck_assert_int_eq(dcp_heap_free_sync(a), CUDA_SUCCESS);
    put(b, 1);
    get(20 * MIB, 2);
    CUdeviceptr c;
    ck_assert_int_eq(dcp_heap_alloc(20 * MIB, fake_stream(2), false, &c),
                     CUDA_ERROR_OUT_OF_MEMORY);
    fake.in_global_capture = false;
    atomic_store(&dcp_heap_captures, 0);
    ck_assert_uint_eq(get(20 * MIB, 1), b);
    get(20 * MIB, 2);
    ck_assert_int_eq(fake.syncs, 1);
    finish();
}
END_TEST

START_TEST(wrong_frees)
{
    CUdeviceptr a;

    start(2 * MIB, GIB, 0, false);
    ck_assert_int_eq(dcp_heap_free(12345, fake_stream(0)),
                     CUDA_ERROR_NOT_FOUND);
    a = get(5000, 1);
    ck_assert_int_eq(dcp_heap_free(12345, fake_stream(0)),
                     CUDA_ERROR_NOT_FOUND);
    ck_assert_int_eq(dcp_heap_free(a + 512, fake_stream(1)),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(dcp_heap_free_sync(a + 1), CUDA_ERROR_INVALID_VALUE);
    put(a, 1);
    ck_assert_int_eq(dcp_heap_free(a, fake_stream(1)),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(dcp_heap_free_sync(a), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(dcp_heap_alloc(0, fake_stream(1), false, &a),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(dcp_heap_alloc(SIZE_MAX, fake_stream(1), false, &a),
                     CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(dcp_heap_alloc(8 * GIB, fake_stream(1), false, &a),
                     CUDA_ERROR_OUT_OF_MEMORY);
    finish();
}
END_TEST

START_TEST(budget_and_spill)
{
    CUdeviceptr block[8];
    struct dcp_block found;

    start(2 * MIB, GIB, 100 * MIB, true);
    for (int i = 0; i < 8; i++)
        block[i] = get(20 * MIB, 1);
    ck_assert_uint_eq(stats().reserved, 100 * MIB);
    ck_assert_uint_eq(stats().host, 60 * MIB);
    for (int i = 0; i < 8; i++) {
        ck_assert(dcp_heap_find(block[i] + 5, &found));
        ck_assert_int_eq(found.host, i >= 5);
    }
    /* Device memory that became free is used before host memory. */
    put(block[0], 1);
    put(block[7], 1);
    CUdeviceptr again = get(20 * MIB, 1);
    ck_assert(dcp_heap_find(again, &found) && !found.host);
    ck_assert_uint_eq(get(20 * MIB, 1), block[7]);
    ck_assert_uint_eq(stats().host_peak, 60 * MIB);
    finish();

    start(2 * MIB, GIB, 100 * MIB, false);
    for (int i = 0; i < 5; i++)
        get(20 * MIB, 1);
    ck_assert_int_eq(dcp_heap_alloc(20 * MIB, fake_stream(1), false, block),
                     CUDA_ERROR_OUT_OF_MEMORY);
    finish();

    start(2 * MIB, GIB, 100 * MIB, true);
    fake.host_bytes = 30 * MIB;
    for (int i = 0; i < 6; i++)
        get(20 * MIB, 1);
    ck_assert_int_eq(dcp_heap_alloc(20 * MIB, fake_stream(1), false, block),
                     CUDA_ERROR_OUT_OF_MEMORY);
    finish();
}
END_TEST

/* Free frames of the wrong size make room before the budget is exceeded. */
START_TEST(budget_reframes)
{
    CUdeviceptr block[5];

    start(2 * MIB, GIB, 100 * MIB, false);
    for (int i = 0; i < 5; i++)
        block[i] = get(20 * MIB, 1);
    fake.issued[1] = 1;
    for (int i = 0; i < 5; i++)
        put(block[i], 1);
    get(90 * MIB, 1);
    ck_assert_uint_le(stats().reserved_peak, 100 * MIB);
    ck_assert_uint_eq(stats().host_peak, 0);
    finish();
}
END_TEST

START_TEST(trim_keeps)
{
    start(2 * MIB, GIB, 0, false);
    CUdeviceptr a = get(32 * MIB, 1), b = get(16 * MIB, 1), c = get(100, 1);

    put(a, 1);
    put(b, 1);
    ck_assert_uint_eq(stats().unused, 48 * MIB);
    ck_assert_uint_eq(dcp_heap_trim(48 * MIB), 0);
    ck_assert_uint_ge(dcp_heap_trim(16 * MIB), 32 * MIB);
    ck_assert_uint_le(stats().unused, 16 * MIB);
    dcp_heap_trim(0);
    ck_assert_uint_eq(stats().reserved, 2 * MIB);
    put(c, 1);
    finish();
}
END_TEST

/* A planned range of the simplest kind: one block, live or not. */

static CUdeviceptr plan_base;
static size_t plan_bytes, plan_live;

static bool
plan_find(CUdeviceptr address, struct dcp_block *out)
{
    if (address - plan_base >= plan_live)
        return false;
    *out = (struct dcp_block){ .base = plan_base, .bytes = plan_live, .id = 7 };
    return true;
}

static CUresult
plan_free(CUdeviceptr base, CUstream stream)
{
    (void)stream;
    if (base != plan_base || plan_live == 0)
        return CUDA_ERROR_INVALID_VALUE;
    plan_live = 0;
    return CUDA_SUCCESS;
}

static size_t
plan_used(void)
{
    return plan_live;
}

static void
plan_each(void (*visit)(const struct dcp_block *, void *), void *user)
{
    struct dcp_block block;

    if (plan_find(plan_base, &block))
        visit(&block, user);
}

static const struct dcp_arena_ops plan_ops = { plan_find, plan_free, plan_used,
                                               plan_each };

START_TEST(planned_range)
{
    struct dcp_block block;
    CUdeviceptr a, base;

    plan_live = 0;
    start(2 * MIB, 2 * GIB, GIB, true);
    ck_assert_int_eq(dcp_heap_plan_range(MIB, &plan_ops, &plan_base),
                     CUDA_ERROR_NOT_SUPPORTED);
    a = get(512 * MIB, 1);
    plan_bytes = 300 * MIB + 1;
    ck_assert_int_eq(dcp_heap_plan_range(plan_bytes, &plan_ops, &plan_base),
                     CUDA_SUCCESS);
    ck_assert(dcp_heap_owns(plan_base + plan_bytes));
    ck_assert_uint_eq(stats().reserved, 814 * MIB);
    ck_assert(!dcp_heap_find(plan_base, &block));
    plan_live = 10 * MIB;
    ck_assert(dcp_heap_find(plan_base + 5, &block));
    ck_assert_uint_eq(block.id, 7);
    ck_assert(!block.host);
    each_count = 0;
    dcp_heap_each(each_visit, NULL);
    ck_assert_int_eq(each_count, 2);
    ck_assert_uint_eq(stats().used, 522 * MIB);
    ck_assert_int_eq(dcp_heap_plan_range(GIB, &plan_ops, &base),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(dcp_heap_free(plan_base, fake_stream(1)), CUDA_SUCCESS);
    ck_assert_int_eq(dcp_heap_free(plan_base, fake_stream(1)),
                     CUDA_ERROR_INVALID_VALUE);
    /* Larger: free frames of the heap make room, the rest is spilled. */
    fake.issued[1] = 1;
    put(a, 1);
    ck_assert_int_eq(dcp_heap_plan_range(1100 * MIB, &plan_ops, &base),
                     CUDA_SUCCESS);
    ck_assert_uint_eq(base, plan_base);
    ck_assert_uint_le(stats().reserved_peak, GIB);
    ck_assert_uint_gt(stats().host, 0);
    plan_live = 1100 * MIB;
    ck_assert(dcp_heap_find(plan_base, &block) && block.host);
    plan_live = 0;
    dcp_heap_plan_drop();
    ck_assert_uint_eq(stats().reserved + stats().host, 0);
    finish();
}
END_TEST

START_TEST(plan_out_of_memory)
{
    CUdeviceptr base = 99;

    plan_live = 0;
    start(2 * MIB, GIB, 0, false);
    get(100, 1);
    ck_assert_int_eq(dcp_heap_plan_range(2 * GIB, &plan_ops, &base),
                     CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_uint_eq(base, 99);
    ck_assert_uint_eq(stats().reserved, 2 * MIB);
    finish();
}
END_TEST

START_TEST(no_virtual_memory)
{
    CUdeviceptr a;

    start(2 * MIB, GIB, 0, false);
    fake.no_vmm = true;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(dcp_heap_alloc(100, fake_stream(1), false, &a),
                         CUDA_ERROR_NOT_SUPPORTED);
    ck_assert(!dcp_heap_owns(1));
    finish();
}
END_TEST

START_TEST(small_virtual_range)
{
    CUdeviceptr base;
    size_t bytes;

    start(2 * MIB, GIB, 0, false);
    fake.space_bytes = 5 * GIB;
    get(512 * MIB, 1);
    dcp_heap_range(&base, &bytes);
    ck_assert_uint_eq(bytes, 4 * GIB);
    finish();
}
END_TEST

/* One sequence of everything; every driver call fails once, and from some
 * call on all fail. Whatever happens is an error code. */
static void
everything(void)
{
    CUdeviceptr block[12] = { 0 }, base;
    static const size_t bytes[12] = {
        100, 3 * MIB, 18 * MIB, 5 * KIB, 40 * MIB, 30 * MIB,
        MIB, 2 * MIB, 25 * MIB, 64,      50 * MIB, 9 * MIB,
    };

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 12; i++) {
            CUresult cu = dcp_heap_alloc(bytes[(i + round) % 12],
                                         fake_stream(i % 3), i % 5 == 0,
                                         &block[i]);
            if (cu != CUDA_SUCCESS)
                block[i] = 0;
        }
        dcp_heap_plan_range(16 * MIB, &plan_ops, &base);
        for (int i = 0; i < 12; i++) {
            CUresult cu = CUDA_SUCCESS;

            fake.issued[i % 3]++;
            if (block[i] && i % 4 == 0)
                cu = dcp_heap_free_sync(block[i]);
            if (block[i] && (i % 4 || cu != CUDA_SUCCESS))
                cu = dcp_heap_free(block[i], fake_stream(i % 3));
            ck_assert_int_eq(cu, CUDA_SUCCESS);
        }
        dcp_heap_stream_gone(fake_stream(1));
        memcpy(fake.completed, fake.issued, sizeof fake.issued);
        dcp_heap_trim(8 * MIB);
        dcp_heap_plan_drop();
    }
}

START_TEST(failing_calls)
{
    static const CUresult error[] = { CUDA_ERROR_OUT_OF_MEMORY,
                                      CUDA_ERROR_INVALID_VALUE,
                                      CUDA_ERROR_ILLEGAL_ADDRESS };

    plan_live = 0;
    start(2 * MIB, 256 * MIB, 150 * MIB, true);
    everything();
    long calls = fake.calls;
    finish();
    for (long at = 0; at < calls; at++) {
        start(2 * MIB, 256 * MIB, 150 * MIB, true);
        fake.fail_after = at;
        fake.fail_count = _i < 3 ? 1 : -1;
        fake.fail_with = error[_i % 3];
        everything();
        ck_assert_uint_eq(stats().used, 0);
        finish();
    }
}
END_TEST

/* The library's own memory runs out after so many allocations. */
START_TEST(failing_arena)
{
    plan_live = 0;
    for (long at = 0; at < 80; at++) {
        start(2 * MIB, 256 * MIB, 150 * MIB, true);
        dcp_arena_fail_after(at);
        everything();
        dcp_arena_fail_after(-1);
        ck_assert_uint_eq(stats().used, 0);
        finish();
    }
}
END_TEST

static int events[2];

static void
on_event(enum dcp_heap_event_kind kind, const struct dcp_block *block,
         CUstream stream, uint64_t reserved)
{
    ck_assert(block->bytes == 777 && block->id && reserved == 2 * MIB);
    ck_assert_ptr_eq(stream, fake_stream(2));
    events[kind]++;
}

START_TEST(listener)
{
    start(2 * MIB, GIB, 0, false);
    dcp_heap_event(on_event);
    put(get(777, 2), 2);
    put(get(777, 2), 2);
    dcp_heap_event(NULL);
    put(get(776, 2), 2);
    ck_assert_int_eq(events[DCP_HEAP_ALLOC], 2);
    ck_assert_int_eq(events[DCP_HEAP_FREE], 2);
    finish();
}
END_TEST

static void *
hammer(void *seed)
{
    unsigned state = (unsigned)(uintptr_t)seed;
    CUdeviceptr block[32] = { 0 };

    for (int i = 0; i < 40000; i++) {
        int at = (int)((state = state * 1103515245 + 12345) >> 16) % 32;
        CUstream stream = fake_stream((int)(state >> 24) % 3);

        if (block[at])
            dcp_heap_free(block[at], stream);
        block[at] = 0;
        if (state & 0x8000)
            dcp_heap_alloc(1 + state % 300000, stream, false, &block[at]);
    }
    for (int i = 0; i < 32; i++)
        if (block[i])
            dcp_heap_free(block[i], CU_STREAM_LEGACY);
    return NULL;
}

START_TEST(many_threads)
{
    pthread_t thread[4];

    start(2 * MIB, GIB, 0, false);
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, hammer, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    ck_assert_uint_eq(stats().used, 0);
    ck_assert_uint_eq(stats().allocs, stats().frees);
    finish();
}
END_TEST

/* Peaks of synthetic training steps, against the live bytes and against the
 * allocator that the program would use without us. */
START_TEST(step_peaks)
{
    struct heap_step_result result;

    start(2 * MIB, 400 * GIB, 0, false);
    heap_step_run(&heap_step_case[_i], &result);
    printf("%-24s live %6zu MiB, heap %6zu, caching allocator %6zu (%.3f), "
           "last step: %ld new frames, %ld waits\n",
           heap_step_case[_i].name, result.live / MIB, result.heap / MIB,
           result.caching / MIB, (double)result.heap / (double)result.caching,
           result.late_creates, result.late_waits);
    ck_assert_uint_le(result.heap, result.caching + result.caching / 20);
    finish();
}
END_TEST

/* The same with less memory than the step needs. */
START_TEST(step_over_budget)
{
    static const size_t budget[] = { 100 * MIB, 80 * MIB, 60 * MIB };
    struct heap_step_result result;

    start(2 * MIB, 400 * GIB, budget[_i], true);
    heap_step_run(&heap_step_case[HEAP_STEP_SMALL], &result);
    ck_assert_uint_le(result.heap, budget[_i]);
    ck_assert_uint_le(result.heap + stats().host_peak, 120 * MIB);
    finish();
}
END_TEST

static long
count_begin(void)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_HARDWARE, .size = sizeof attr,
        .config = PERF_COUNT_HW_INSTRUCTIONS, .exclude_kernel = 1,
        .exclude_hv = 1,
    };

    return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

/* Also the place to look at with a profiler. */
void heap_hit_loop(long rounds);
__attribute__((noinline)) void
heap_hit_loop(long rounds)
{
    CUdeviceptr base;

    for (long i = 0; i < rounds; i++) {
        dcp_heap_alloc(4096, (CUstream)0x1040, false, &base);
        dcp_heap_free(base, (CUstream)0x1040);
    }
}

static int
loop(void)
{
    enum { ROUNDS = 200000 };
    long fd = count_begin(), long_count = 0;
    struct timespec a, b;

    start(2 * MIB, GIB, 0, false);
    heap_hit_loop(2);
    clock_gettime(CLOCK_MONOTONIC, &a);
    heap_hit_loop(ROUNDS);
    clock_gettime(CLOCK_MONOTONIC, &b);
    if (fd >= 0 && read((int)fd, &long_count, sizeof long_count) > 0)
        printf("%.1f instructions, ", (double)long_count / ROUNDS);
    printf("%.1f ns for an allocation and its free\n",
           ((double)(b.tv_sec - a.tv_sec) * 1e9 +
            (double)(b.tv_nsec - a.tv_nsec)) / ROUNDS);
    return 0;
}

static Suite *
heap_suite(void)
{
    Suite *suite = suite_create("heap");
    TCase *tcase = tcase_create("model");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, random_plenty, 0, 6);
    tcase_add_loop_test(tcase, random_tight, 0, 4);
    tcase_add_test(tcase, many_threads);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("order");
    tcase_add_test(tcase, same_stream_reuse);
    tcase_add_test(tcase, repeating_addresses);
    tcase_add_test(tcase, other_stream_waits);
    tcase_add_test(tcase, other_stream_pressure);
    tcase_add_test(tcase, stream_handle_returns);
    tcase_add_test(tcase, per_thread_streams_differ);
    tcase_add_test(tcase, sync_allocations);
    tcase_add_test(tcase, open_capture);
    tcase_add_test(tcase, wrong_frees);
    tcase_add_test(tcase, listener);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("limits");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, budget_and_spill);
    tcase_add_test(tcase, budget_reframes);
    tcase_add_test(tcase, trim_keeps);
    tcase_add_test(tcase, planned_range);
    tcase_add_test(tcase, plan_out_of_memory);
    tcase_add_test(tcase, no_virtual_memory);
    tcase_add_test(tcase, small_virtual_range);
    tcase_add_loop_test(tcase, failing_calls, 0, 6);
    tcase_add_test(tcase, failing_arena);
    tcase_add_loop_test(tcase, step_peaks, 0, heap_step_cases);
    tcase_add_loop_test(tcase, step_over_budget, 0, 3);
    suite_add_tcase(suite, tcase);
    return suite;
}

int
main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "loop") == 0)
        return loop();
    dcp_log_threshold = DCP_LOG_ERROR;
    SRunner *runner = srunner_create(heap_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
