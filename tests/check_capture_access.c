/* SPDX-License-Identifier: Apache-2.0 */
/* Access discovery on a GPU of three blocks. */
#include "config.h"

#include "tests/check_capture.h"

#include "capture/kernel.h"

#include <string.h>

/* A GPU of three blocks of 64 bytes at 0x1000, 0x2000, 0x3000; its kernels
 * are done by the test between begin and end. */
struct toy {
    uint8_t memory[3][64];
    uint64_t results[128];
    uint32_t fills, hashes;
    bool broken;
};

static bool
toy_find(void *user, uint64_t address, struct dcp_access_block *out)
{
    (void)user;
    if (address < 0x1000 || address >= 0x4000 || (address & 0xfff) >= 64)
        return false;
    *out = (struct dcp_access_block){address >> 12, address & ~0xfffull, 64};
    return true;
}

static bool
toy_hash(void *user, uint64_t stream, uint64_t address, uint64_t bytes,
         uint32_t index)
{
    struct toy *toy = user;
    uint64_t hash = 1;

    (void)stream;
    ck_assert_uint_eq(bytes, 64);
    for (uint32_t i = 0; i < 64; i++)
        hash = hash * 31 + toy->memory[(address >> 12) - 1][i];
    toy->results[index] = hash;
    toy->hashes++;
    return !toy->broken;
}

static bool
toy_fill(void *user, uint64_t stream, uint64_t address, uint64_t bytes)
{
    struct toy *toy = user;

    (void)stream;
    memset(toy->memory[(address >> 12) - 1], 0xa5, bytes);
    toy->fills++;
    return true;
}

static bool
toy_read(void *user, uint64_t stream, uint64_t *results, uint32_t count)
{
    struct toy *toy = user;

    (void)stream;
    memcpy(results, toy->results, count * sizeof *results);
    return true;
}

struct toy_launch {
    struct dcp_kernel kernel;
    struct dcp_call call;
    struct dcp_ref refs[3];
    uint64_t words[3];
};

static struct dcp_call *
toy_call(struct toy_launch *l, uint32_t kernel, uint64_t a, uint64_t b,
         uint64_t c)
{
    *l = (struct toy_launch){.words = {a, b, c}};
    l->kernel.id = kernel;
    for (uint32_t i = 0; i < 3 && l->words[i]; i++)
        l->refs[l->call.ref_count++].slot = i * 8;
    l->call.op = DCP_CALL_LAUNCH;
    l->call.refs = l->refs;
    l->call.launch.kernel = &l->kernel;
    l->call.launch.params = (uint8_t *)l->words;
    l->call.launch.bytes = sizeof l->words;
    return &l->call;
}

static void
toy_alloc(struct dcp_access_watch *watch, uint64_t address)
{
    struct dcp_call call = {.op = DCP_CALL_ALLOC};

    call.memory.address = address;
    ck_assert(!dcp_access_begin(watch, &call));
    dcp_access_end(watch, &call, true);
}

static const uint8_t unknown = DCP_READ | DCP_WRITE | DCP_ASSUMED;

START_TEST(access_is_found)
{
    struct toy toy = {0};
    struct dcp_access_table table = {0};
    struct dcp_access_ops ops = {toy_find, toy_hash, toy_fill, toy_read, &toy};
    struct dcp_access_watch *watch =
        dcp_access_watch_create(&table, &ops, NULL);
    struct toy_launch l;

    for (int i = 0; i < 3; i++) {
        /* out = in: the output is fresh and gets zeros. */
        toy_alloc(watch, 0x2000);
        ck_assert(dcp_access_begin(watch, toy_call(&l, 1, 0x1000, 0x2000, 0)));
        memset(toy.memory[1], 0, 64);
        dcp_access_end(watch, &l.call, true);
        /* inout += in */
        ck_assert(dcp_access_begin(watch, toy_call(&l, 2, 0x3008, 0x1000, 0)));
        toy.memory[2][8]++;
        dcp_access_end(watch, &l.call, true);
    }
    ck_assert_uint_eq(dcp_access_of(&table, 1, 0), DCP_READ);
    ck_assert_uint_eq(dcp_access_of(&table, 1, 8), DCP_WRITE);
    ck_assert_uint_eq(dcp_access_of(&table, 2, 0), DCP_READ | DCP_WRITE);
    ck_assert_uint_eq(dcp_access_of(&table, 2, 8), DCP_READ);
    ck_assert_uint_eq(dcp_access_of(&table, 2, 16), unknown);
    ck_assert_uint_eq(dcp_access_of(&table, 3, 0), unknown);
    ck_assert_uint_eq(dcp_access_of(NULL, 1, 0), unknown);
    ck_assert_uint_eq(dcp_access_seen(&table, 1, 0), 3);
    ck_assert_uint_eq(toy.fills, 3);
    dcp_access_watch_destroy(watch);
    dcp_access_release(&table);
}
END_TEST

/* A block is filled only straight after its allocation: any work between may
 * have written it through a pointer that nobody sees. */
START_TEST(access_spares_contents)
{
    struct toy toy = {0};
    struct dcp_access_table table = {0};
    struct dcp_access_ops ops = {toy_find, toy_hash, toy_fill, toy_read, &toy};
    struct dcp_access_watch *watch =
        dcp_access_watch_create(&table, &ops, NULL);
    struct dcp_call opaque = {.op = DCP_CALL_OPAQUE};
    struct toy_launch l;

    toy_alloc(watch, 0x2000);
    ck_assert(!dcp_access_begin(watch, &opaque));
    dcp_access_end(watch, &opaque, true);
    ck_assert(dcp_access_begin(watch, toy_call(&l, 1, 0x1000, 0x2000, 0)));
    dcp_access_end(watch, &l.call, true);
    toy_alloc(watch, 0x2000);
    ck_assert(dcp_access_begin(watch, toy_call(&l, 1, 0x1000, 0x3000, 0)));
    dcp_access_end(watch, &l.call, true);
    ck_assert(dcp_access_begin(watch, toy_call(&l, 1, 0x2000, 0x3000, 0)));
    dcp_access_end(watch, &l.call, true);
    ck_assert_uint_eq(toy.fills, 0);
    dcp_access_watch_destroy(watch);
    dcp_access_release(&table);
}
END_TEST

/* In place, the change may be either slot's; apart, it is the second's. */
START_TEST(access_tells_slots_apart)
{
    struct toy toy = {0};
    struct dcp_access_table table = {0};
    struct dcp_access_ops ops = {toy_find, toy_hash, toy_fill, toy_read, &toy};
    struct dcp_access_watch *watch =
        dcp_access_watch_create(&table, &ops, NULL);
    struct toy_launch l;

    for (int i = 0; i < 2; i++) {
        ck_assert(dcp_access_begin(watch, toy_call(&l, 1, 0x1000, 0x1000, 0)));
        toy.memory[0][0]++;
        dcp_access_end(watch, &l.call, true);
    }
    ck_assert_uint_eq(dcp_access_of(&table, 1, 0), DCP_READ | DCP_WRITE);
    for (int i = 0; i < 2; i++) {
        ck_assert(dcp_access_begin(watch, toy_call(&l, 1, 0x1000, 0x2000, 0)));
        toy.memory[1][0]++;
        dcp_access_end(watch, &l.call, true);
    }
    ck_assert_uint_eq(dcp_access_of(&table, 1, 0), DCP_READ);
    ck_assert_uint_eq(dcp_access_of(&table, 1, 8), DCP_READ | DCP_WRITE);
    dcp_access_watch_destroy(watch);
    dcp_access_release(&table);
}
END_TEST

START_TEST(access_keeps_to_budget)
{
    struct toy toy = {0};
    struct dcp_access_table table = {0};
    struct dcp_access_ops ops = {toy_find, toy_hash, toy_fill, toy_read, &toy};
    struct dcp_access_limits limits = {
        .launch_bytes = 256, .launches = 4, .each = 2};
    struct dcp_access_watch *watch =
        dcp_access_watch_create(&table, &ops, &limits);
    struct toy_launch l;

    /* Three blocks, twice each, are more than a launch may cost. */
    ck_assert(
        !dcp_access_begin(watch, toy_call(&l, 9, 0x1000, 0x2000, 0x3000)));
    for (uint32_t i = 0; i < 9; i++) {
        bool wanted = i < 6 && i % 3 < 2;
        ck_assert(dcp_access_begin(watch, toy_call(&l, 1 + i / 3, 0x1000, 0,
                                                   0)) == wanted);
        dcp_access_end(watch, &l.call, true);
    }
    ck_assert(dcp_access_done(watch));
    ck_assert_uint_eq(toy.hashes, 8);
    dcp_access_watch_destroy(watch);
    dcp_access_release(&table);
}
END_TEST

START_TEST(access_ends_on_failure)
{
    struct toy toy = {.broken = true};
    struct dcp_access_table table = {0};
    struct dcp_access_ops ops = {toy_find, toy_hash, toy_fill, toy_read, &toy};
    struct dcp_access_watch *watch =
        dcp_access_watch_create(&table, &ops, NULL);
    struct toy_launch l;

    ck_assert(!dcp_access_begin(watch, toy_call(&l, 1, 0x1000, 0, 0)));
    dcp_access_end(watch, &l.call, true);
    ck_assert(dcp_access_done(watch));
    toy.broken = false;
    ck_assert(!dcp_access_begin(watch, toy_call(&l, 1, 0x1000, 0, 0)));
    ck_assert_uint_eq(dcp_access_seen(&table, 1, 0), 0);
    dcp_access_watch_destroy(watch);
    dcp_access_release(&table);
}
END_TEST

void
add_access(Suite *s)
{
    TCase *t = tcase_create("access");

    tcase_add_test(t, access_is_found);
    tcase_add_test(t, access_spares_contents);
    tcase_add_test(t, access_tells_slots_apart);
    tcase_add_test(t, access_keeps_to_budget);
    tcase_add_test(t, access_ends_on_failure);
    suite_add_tcase(s, t);
}
