/* SPDX-License-Identifier: Apache-2.0 */
/* The ground floor: status, arena, table, lock, log, environment, stacks. */
#include "config.h"

#include "tests/check_config.h"

#include "src/arena.h"
#include "src/env.h"
#include "src/json.h"
#include "src/lock.h"
#include "src/log.h"
#include "src/memory.h"
#include "src/stack.h"
#include "src/stack_name.h"
#include "src/status.h"
#include "src/table.h"
#include "src/trace_read.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- status -------------------------------------------------------------- */

START_TEST(status_texts)
{
    for (int i = 0; i < DCP_STATUS_COUNT; i++)
        ck_assert_uint_gt(strlen(dcp_status_text(i)), 0);
    ck_assert_ptr_nonnull(dcp_status_text(DCP_STATUS_COUNT));
    ck_assert_str_eq(dcp_status_text(DCP_NOMEM), "out of memory");
}
END_TEST

/* --- arena --------------------------------------------------------------- */

START_TEST(arena_gives_clean_aligned_memory)
{
    struct dcp_arena arena = {0};

    for (size_t bytes = 0; bytes < 3000000; bytes = bytes * 2 + 1) {
        unsigned char *at = dcp_arena_alloc(&arena, bytes);

        ck_assert_ptr_nonnull(at);
        ck_assert_uint_eq((uintptr_t)at % 16, 0);
        ck_assert(bytes == 0 ||
                  (at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0));
        memset(at, 0xff, bytes);
    }
    ck_assert_uint_gt(arena.total, 3000000);
    ck_assert_str_eq(dcp_arena_strdup(&arena, "text"), "text");
    dcp_arena_release(&arena);
    ck_assert_uint_eq(arena.total, 0);
    ck_assert_ptr_nonnull(dcp_arena_copy(&arena, "again", 6));
    dcp_arena_release(&arena);
}
END_TEST

START_TEST(arena_refuses)
{
    struct dcp_arena arena = {0};

    ck_assert_ptr_null(dcp_arena_alloc(&arena, SIZE_MAX));
    ck_assert_ptr_null(dcp_arena_alloc(&arena, SIZE_MAX / 2));
    dcp_arena_fail_after(1);
    ck_assert_ptr_nonnull(dcp_arena_alloc(&arena, 1));
    ck_assert_ptr_null(dcp_arena_alloc(&arena, 1));
    ck_assert_ptr_null(dcp_arena_strdup(&arena, "x"));
    dcp_arena_fail_after(-1);
    ck_assert_ptr_nonnull(dcp_arena_alloc(&arena, 1));
    dcp_arena_release(&arena);
}
END_TEST

/* --- lock ---------------------------------------------------------------- */

static struct dcp_lock lock;
static unsigned counter;

static void *
count_up(void *unused)
{
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        dcp_lock_take(&lock);
        counter++;
        dcp_lock_give(&lock);
    }
    return NULL;
}

START_TEST(lock_excludes)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(counter, 80000);
    ck_assert_int_eq(dcp_lock_try(&lock), 1);
    ck_assert_int_eq(dcp_lock_try(&lock), 0);
    dcp_lock_give(&lock);
    ck_assert_int_eq(dcp_lock_try(&lock), 1);
}
END_TEST

/* --- log ----------------------------------------------------------------- */

static char printed[8192];

/* What `say` writes to standard error. */
static const char *
capture(void (*say)(void))
{
    int ends[2], keep = dup(STDERR_FILENO);

    ck_assert_int_eq(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    say();
    dup2(keep, STDERR_FILENO);
    close(keep);
    close(ends[1]);
    ssize_t bytes = read(ends[0], printed, sizeof printed - 1);
    close(ends[0]);
    printed[bytes > 0 ? bytes : 0] = '\0';
    return printed;
}

static void
say_levels(void)
{
    errno = ENOENT;
    dcp_error("one %d", 1);
    dcp_warn("two\nlines");
    dcp_info("not shown");
    ck_assert_int_eq(errno, ENOENT);
}

static void
say_much(void)
{
    char *text = malloc(5000);

    memset(text, 'x', 4999);
    text[4999] = '\0';
    dcp_error("%s", text);
    free(text);
}

START_TEST(log_lines)
{
    ck_assert_str_eq(capture(say_levels),
                     "dcprel error: one 1\ndcprel warning: two lines\n");
    dcp_log_set_rank(3);
    ck_assert_int_eq(dcp_log_set_level("info"), 0);
    ck_assert_str_eq(capture(say_levels),
                     "dcprel[3] error: one 1\ndcprel[3] warning: two lines\n"
                     "dcprel[3] not shown\n");
    ck_assert_int_eq(dcp_log_set_level("loud"), -1);
    ck_assert_int_eq(dcp_log_threshold, DCP_LOG_INFO);
    size_t length = strlen(capture(say_much));
    ck_assert_uint_ge(length, 2000);
    ck_assert_uint_le(length, 2048);
    ck_assert_str_eq(printed + length - 4, "...\n");
}
END_TEST

/* --- environment --------------------------------------------------------- */

START_TEST(environment)
{
    unsetenv("RANK");
    ck_assert_ptr_null(dcp_env_text(DCP_ENV_RANK));
    ck_assert_int_eq(dcp_env_int(DCP_ENV_RANK, -1), -1);
    static const struct {
        const char *text;
        int value;
    } cases[] = {{"", -1}, {"0", 0}, {"7", 7}, {"007", 7}, {"-1", -1},
                 {"+1", -1}, {" 1", -1}, {"1x", -1}, {"2147483647", 2147483647},
                 {"2147483648", -1}, {"99999999999999999999", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv("RANK", cases[i].text, 1);
        ck_assert_int_eq(dcp_env_int(DCP_ENV_RANK, -1), cases[i].value);
    }
    for (int i = 0; i < DCP_ENV_COUNT; i++)
        ck_assert_uint_gt(strlen(dcp_env_rows[i].help), 0);
}
END_TEST

/* --- jansson ------------------------------------------------------------- */

START_TEST(jansson_opens)
{
    const char *why = NULL;
    const struct dcp_json *json = dcp_json_open(&why);

    ck_assert_msg(json, "%s", why);
    ck_assert_ptr_eq(json, dcp_json_open(NULL));
    json_t *value = json->loadb("[1.5]", 5, 0, NULL);
    ck_assert_ptr_nonnull(value);
    ck_assert_uint_eq(json->array_size(value), 1);
    ck_assert_double_eq(json->number_value(json->array_get(value, 0)), 1.5);
    dcp_json_free(json, value);
    dcp_json_free(json, NULL);
    dcp_json_free(json, json->loadb("true", 4, JSON_DECODE_ANY, NULL));
}
END_TEST

/* --- stacks -------------------------------------------------------------- */

/* How often each test is run: see stack.h. */
#ifdef __SANITIZE_THREAD__
enum { STACKS = 0 };
#else
enum { STACKS = 1 };
#endif

static uint64_t __attribute__((noinline))
take_here(unsigned depth)
{
    uint64_t number = depth ? take_here(depth - 1) : dcp_stack_take(0);

    __asm__ volatile("" ::: "memory"); /* no tail call */
    return number;
}

START_TEST(stacks_are_numbered)
{
    uint64_t first = 0, second = 0;

    ck_assert_uint_eq(dcp_stack_take(0), 0);
    ck_assert(dcp_stack_begin(NULL, 1));
    for (int i = 0; i < 3; i++) {
        uint64_t a = take_here(1), b = take_here(5);

        ck_assert_uint_ne(a, 0);
        ck_assert_uint_ne(b, 0);
        ck_assert_uint_ne(a, b);
        if (i == 0) {
            first = a;
            second = b;
        }
        ck_assert_uint_eq(a, first);
        ck_assert_uint_eq(b, second);
    }
    ck_assert_uint_eq(dcp_stack_take(1000), 0);
    ck_assert_uint_ne(take_here(500), 0); /* cut at the limit */
    dcp_stack_end();
    ck_assert_uint_eq(take_here(1), 0);
}
END_TEST

START_TEST(stacks_are_sampled)
{
    unsigned taken = 0;

    ck_assert(dcp_stack_begin(NULL, 4));
    for (int i = 0; i < 40; i++)
        taken += take_here(0) != 0;
    ck_assert_uint_eq(taken, 10);
    ck_assert(dcp_stack_begin(NULL, 0) || 1);
    dcp_stack_end();
}
END_TEST

static void *
take_many(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < 200; i++)
        ck_assert_uint_ne(take_here(i % 20), 0);
    return NULL;
}

START_TEST(stacks_in_threads)
{
    pthread_t threads[4];

    ck_assert(dcp_stack_begin(NULL, 1));
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, take_many, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    dcp_stack_end();
}
END_TEST

START_TEST(stacks_without_memory)
{
    ck_assert(dcp_stack_begin(NULL, 1));
    dcp_arena_fail_after(0);
    ck_assert_uint_eq(take_here(3), 0);
    dcp_arena_fail_after(-1);
    ck_assert_uint_ne(take_here(3), 0);
    dcp_stack_end();
}
END_TEST

static int
by_address(const void *a, const void *b)
{
    char text[256];

    (void)a;
    (void)b;
    /* whoever sorts calls this; a sanitizer has a qsort of its own */
    ck_assert(!dcp_stack_name(__builtin_return_address(0), text, sizeof text));
    ck_assert_msg(!strncmp(text, "qsort", 5) || !strncmp(text, "lib", 3), "%s",
                  text);
    ck_assert_ptr_nonnull(strstr(text, "+0x"));
    return 0;
}

START_TEST(frames_have_names)
{
    char text[256], small[12];
    int pair[2] = {0, 1};

    qsort(pair, 2, sizeof pair[0], by_address);
    dcp_stack_name((char *)(void *)fopen + 5, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "+0x5"));
    ck_assert(!dcp_stack_name((void *)16, text, sizeof text));
    ck_assert_str_eq(text, "0x10");
    dcp_stack_name((char *)(void *)pthread_create + 5, small, sizeof small);
    ck_assert_uint_lt(strlen(small), sizeof small);
    ck_assert_ptr_nonnull(strstr(small, "+0x5"));
}
END_TEST

/* --- memory -------------------------------------------------------------- */

START_TEST(room_is_sensible)
{
    size_t room = dcp_memory_room();
    long pages = sysconf(_SC_PHYS_PAGES);

    ck_assert_uint_le(room, (size_t)pages * (size_t)sysconf(_SC_PAGESIZE));
}
END_TEST

static Suite *
src_suite(void)
{
    Suite *suite = suite_create("src");
    TCase *t = tcase_create("src");

    tcase_add_test(t, status_texts);
    tcase_add_test(t, arena_gives_clean_aligned_memory);
    tcase_add_test(t, arena_refuses);
    tcase_add_test(t, lock_excludes);
    tcase_add_test(t, log_lines);
    tcase_add_test(t, environment);
    tcase_add_test(t, jansson_opens);
    tcase_add_test(t, room_is_sensible);
    suite_add_tcase(suite, t);
    t = tcase_create("stack");
    tcase_add_loop_test(t, stacks_are_numbered, 0, STACKS);
    tcase_add_loop_test(t, stacks_are_sampled, 0, STACKS);
    tcase_add_loop_test(t, stacks_in_threads, 0, STACKS);
    tcase_add_loop_test(t, stacks_without_memory, 0, STACKS);
    tcase_add_test(t, frames_have_names);
    suite_add_tcase(suite, t);
    return suite;
}

int
main(void)
{
    SRunner *runner = srunner_create(src_suite());

    srunner_add_suite(runner, config_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
