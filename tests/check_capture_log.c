/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of logs. */
#include "config.h"

#include "tests/check_capture.h"

#include "capture/log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

char *
print_log(const struct dcp_log *log, uint32_t first, uint32_t last,
          unsigned flags, const struct dcp_access_table *access, size_t *bytes)
{
    int fd = memfd_create("log", 0);
    off_t size;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(dcp_log_print(log, first, last, flags, access, fd),
                     DCP_OK);
    size = lseek(fd, 0, SEEK_END);
    char *text = malloc((size_t)size + 1);
    ck_assert_int_eq(pread(fd, text, (size_t)size, 0), size);
    text[size] = 0;
    close(fd);
    if (bytes)
        *bytes = (size_t)size;
    return text;
}

static void
check_round_trip(const char *text, size_t bytes)
{
    struct dcp_arena arena = {0};
    struct dcp_access_table access = {0};
    struct dcp_log log;
    uint32_t line = 0;
    size_t again_bytes;

    ck_assert_msg(dcp_log_parse(text, bytes, &arena, &log, &access, &line) ==
                      DCP_OK,
                  "line %u", line);
    char *again = print_log(&log, 0, log.call_count, DCP_LOG_PARAMS, &access,
                            &again_bytes);
    ck_assert_str_eq(again, text);
    free(again);
    dcp_access_release(&access);
    dcp_arena_release(&arena);
}

START_TEST(text_round_trip)
{
    struct training_facts facts;
    struct dcp_log *log = training_log(&programs[_i].t, &facts);
    struct dcp_access_table access = {0};
    size_t bytes;

    training_access(log, &access);
    char *text = print_log(log, 0, log->call_count, 0, &access, &bytes);
    check_round_trip(text, bytes);
    free(text);
    dcp_access_release(&access);
    training_free(log, &facts);
}
END_TEST

/* Every field of every kind of call. */
static const char all_fields[] =
    "dcprel-log 1\n"
    "kernel 3 params 0:8 8:8 16:4 name _Z3addPfS_i # no comment\n"
    "kernel 9 unknown name ?\n"
    "access 3 0=r 8=rw\n"
    "access 9 16=w\n"
    "buffer 0 4096\n"
    "buffer 1 1099511627776\n"
    "alloc 0.0 b1\n"
    "alloc -.1 b0 sync\n"
    "copy 0.0 400 pageable>device sync 0@0+12\n"
    "copy 1.2 8 device>pinned 8@1+1099511627775\n"
    "launch 0.0 k3 12x4/128 m1024 a1f 0@0 8@1+256 =00ff10\n"
    "launch 0.0 k9 1x1x7/4294967295x2x3 sync\n"
    "fill 0.0 100x2/4 v4294967295 p512 0@1\n"
    "record 0.0 e0 f1\n"
    "depend 1.0 e0 f0\n"
    "wait -.0\n"
    "opaque 2.65535 0@0\n"
    "free 0.0 b1\n";

START_TEST(text_all_fields)
{
    check_round_trip(all_fields, sizeof all_fields - 1);
}
END_TEST

START_TEST(text_part_of_log)
{
    struct dcp_arena arena = {0};
    struct dcp_log log, part;
    uint32_t line;

    ck_assert_int_eq(dcp_log_parse(all_fields, sizeof all_fields - 1, &arena,
                                   &log, NULL, &line),
                     DCP_OK);
    char *text = print_log(&log, 5, 7, 0, NULL, NULL);
    ck_assert_str_eq(text, "dcprel-log 1\n"
                           "kernel 9 unknown name ?\n"
                           "buffer 0 1099511627776\n"
                           "launch 0.0 k9 1x1x7/4294967295x2x3 sync\n"
                           "fill 0.0 100x2/4 v4294967295 p512 0@0\n");
    ck_assert_int_eq(
        dcp_log_parse(text, strlen(text), &arena, &part, NULL, &line), DCP_OK);
    ck_assert_uint_eq(part.buffers[0].alloc_call, UINT32_MAX);
    ck_assert_uint_eq(part.buffers[0].free_call, UINT32_MAX);
    ck_assert_uint_eq(part.calls[1].fill.dst, part.buffers[0].address);
    free(text);
    dcp_arena_release(&arena);
}
END_TEST

static const struct {
    const char *text;
    uint32_t line;
} bad_texts[] = {
    {"", 1},
    {"dcprel-log 2\n", 1},
    {"dcprel-log 1\nhello\n", 2},
    {"dcprel-log 1\nkernel 0 unknown name a\n", 2},
    {"dcprel-log 1\nkernel 4000000000 unknown name a\n", 2},
    {"dcprel-log 1\nkernel 1 unknown name a\nkernel 1 unknown name a\n", 3},
    {"dcprel-log 1\nkernel 1 params 0:99999999 name a\n", 2},
    {"dcprel-log 1\naccess 1 0=r\n", 2},
    {"dcprel-log 1\nbuffer 1 10\n", 2},
    {"dcprel-log 1\nbuffer 0 99999999999999999999\n", 2},
    {"dcprel-log 1\nbuffer 0 8\nalloc 0.0 b0\nalloc 0.0 b0\n", 4},
    {"dcprel-log 1\nbuffer 0 8\nfree 0.0 b0\nalloc 0.0 b0\n", 4},
    {"dcprel-log 1\nbuffer 0 8\nfree 0.0 b0\nfree 0.0 b0\n", 4},
    {"dcprel-log 1\nfree 0.0 b0\n", 2},
    {"dcprel-log 1\nlaunch 0.0 k1 1/1\n", 2},
    {"dcprel-log 1\nbuffer 0 8\nopaque 0.0 0@1\n", 3},
    {"dcprel-log 1\nbuffer 0 8\nopaque 0.0 0@0+9\n", 3},
    {"dcprel-log 1\ncopy 0.0 4 device>moon\n", 2},
    {"dcprel-log 1\nfill 0.0 4x1/3 v0\n", 2},
    {"dcprel-log 1\nwait 0.65536\n", 2},
    {"dcprel-log 1\nwait 0.0 x\n", 2},
};

START_TEST(text_refuses)
{
    struct dcp_arena arena = {0};
    struct dcp_log log = {.call_count = 77};
    uint32_t line = 0;

    ck_assert_int_eq(dcp_log_parse(bad_texts[_i].text,
                                   strlen(bad_texts[_i].text), &arena, &log,
                                   NULL, &line),
                     DCP_SYNTAX);
    ck_assert_uint_eq(line, bad_texts[_i].line);
    ck_assert_uint_eq(log.call_count, 77);
    dcp_arena_release(&arena);
}
END_TEST

START_TEST(text_needs_a_place)
{
    struct training_facts facts;
    struct dcp_log *log = training_log(&programs[0].t, &facts);
    int fd = open("/dev/full", O_WRONLY);

    ck_assert_int_eq(dcp_log_print(log, 0, log->call_count, 0, NULL, fd),
                     DCP_IO);
    close(fd);
    training_free(log, &facts);
}
END_TEST

void
add_text(Suite *s)
{
    TCase *t = tcase_create("text");

    tcase_add_loop_test(t, text_round_trip, 0, PROGRAMS);
    tcase_add_test(t, text_all_fields);
    tcase_add_test(t, text_part_of_log);
    tcase_add_loop_test(t, text_refuses, 0,
                        sizeof bad_texts / sizeof *bad_texts);
    tcase_add_test(t, text_needs_a_place);
    suite_add_tcase(s, t);
}
