/* SPDX-License-Identifier: Apache-2.0 */
/* The trace's two sides: what is put comes back; a killed writer, a full disk,
 * forks, second processes; files cut or spoiled at every byte. */
#include "config.h"

#include "src/trace.h"
#include "src/trace_read.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

static void
setup(void)
{
    const char *base = getenv("TMPDIR");

    snprintf(dir, sizeof dir, "%s/dcp-trace.XXXXXX",
             base && strlen(base) < 40 ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void
teardown(void)
{
    char path[512];
    DIR *list = opendir(dir);

    for (struct dirent *e; list && (e = readdir(list));) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        unlink(path);
    }
    if (list)
        closedir(list);
    rmdir(dir);
}

static const char *
file_at(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static struct dcp_trace_reader *
open_ok(const char *path)
{
    struct dcp_trace_reader *reader = NULL;
    char error[512];

    ck_assert_msg(!dcp_trace_reader_open(path, &reader, error, sizeof error),
                  "%s", error);
    return reader;
}

/* Reads all; how many records, and why it ended. */
static unsigned
count_records(const char *path, enum dcp_trace_end *end)
{
    struct dcp_trace_reader *reader = open_ok(path);
    struct dcp_trace_event event;
    unsigned count = 0;

    while (dcp_trace_reader_next(reader, &event))
        count++;
    *end = dcp_trace_reader_end(reader);
    dcp_trace_reader_close(reader);
    return count;
}

static unsigned
files_in_dir(void)
{
    unsigned count = 0;
    DIR *list = opendir(dir);

    for (struct dirent *e; (e = readdir(list));)
        count += e->d_name[0] != '.';
    closedir(list);
    return count;
}

/* --- contents ------------------------------------------------------------ */

START_TEST(what_is_put_comes_back)
{
    struct dcp_trace *trace = dcp_trace_open(dir, 3, 8);
    struct dcp_trace_event e;

    ck_assert_ptr_nonnull(trace);
    ck_assert_str_eq(dcp_trace_path(trace), file_at("rank3.dcp"));
    dcp_trace_event(trace, START, "a.py\0-x", 8, .pid = 7, .rank = 3,
                    .world = 8, .wall_ns = UINT64_MAX);
    dcp_trace_event(trace, ALLOC, NULL, 0, .block = 1, .address = 1ull << 63,
                    .bytes = 127, .stream = 128, .host = 1);
    dcp_trace_put(trace, DCP_TRACE_FREE, (uint64_t[]){9}, 1, NULL, 0);
    dcp_trace_event(trace, END, NULL, 0, .iterations = 1);
    dcp_trace_close(trace);
    dcp_trace_event(trace, FREE, NULL, 0, .block = 1);

    struct dcp_trace_reader *r = open_ok(file_at("rank3.dcp"));
    ck_assert_uint_eq(dcp_trace_reader_head(r)->rank, 3);
    ck_assert_uint_eq(dcp_trace_reader_head(r)->world, 8);
    ck_assert(dcp_trace_reader_next(r, &e));
    ck_assert_int_eq(e.kind, DCP_TRACE_START);
    ck_assert_uint_eq(e.START.wall_ns, UINT64_MAX);
    ck_assert_uint_eq(e.payload_bytes, 8);
    ck_assert_mem_eq(e.payload, "a.py\0-x", 8);
    uint64_t first = e.offset, time = e.time_ns;
    ck_assert(dcp_trace_reader_next(r, &e));
    ck_assert_int_eq(e.kind, DCP_TRACE_ALLOC);
    ck_assert_uint_eq(e.ALLOC.address, 1ull << 63);
    ck_assert_uint_eq(e.ALLOC.bytes, 127);
    ck_assert_uint_eq(e.ALLOC.stream, 128);
    ck_assert_uint_eq(e.ALLOC.stack, 0);
    ck_assert_uint_eq(e.ALLOC.host, 1);
    ck_assert_uint_ge(e.time_ns, time);
    ck_assert(dcp_trace_reader_next(r, &e));
    ck_assert_uint_eq(e.FREE.block, 9);
    ck_assert(dcp_trace_reader_next(r, &e));
    ck_assert(!dcp_trace_reader_next(r, &e));
    ck_assert_int_eq(dcp_trace_reader_end(r), DCP_TRACE_WHOLE);
    dcp_trace_reader_seek(r, first);
    ck_assert(dcp_trace_reader_next(r, &e));
    ck_assert_int_eq(e.kind, DCP_TRACE_START);
    dcp_trace_reader_close(r);
}
END_TEST

START_TEST(payloads_larger_than_a_block)
{
    size_t bytes = 5000001;
    char *text = malloc(bytes);
    struct dcp_trace *trace = dcp_trace_open(dir, 0, 1);
    struct dcp_trace_event e;

    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)(i * 31 % 251);
    for (unsigned i = 0; i < 3; i++) {
        dcp_trace_event(trace, FREE, NULL, 0, .block = i);
        dcp_trace_event(trace, GRAPH, text, bytes - i, .graph = i);
    }
    dcp_trace_close(trace);
    struct dcp_trace_reader *r = open_ok(file_at("rank0.dcp"));
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(dcp_trace_reader_next(r, &e));
        ck_assert_uint_eq(e.FREE.block, i);
        ck_assert(dcp_trace_reader_next(r, &e));
        ck_assert_uint_eq(e.GRAPH.graph, i);
        ck_assert_uint_eq(e.payload_bytes, bytes - i);
        ck_assert(!memcmp(e.payload, text, bytes - i));
    }
    ck_assert(!dcp_trace_reader_next(r, &e));
    ck_assert_int_eq(dcp_trace_reader_end(r), DCP_TRACE_CUT);
    dcp_trace_reader_close(r);
    free(text);
}
END_TEST

enum { THREADS = 4, PER_THREAD = 20000 };
static struct dcp_trace *shared;

static void *
put_many(void *arg)
{
    uint64_t thread = (uint64_t)(uintptr_t)arg;

    for (uint64_t i = 0; i < PER_THREAD; i++)
        dcp_trace_event(shared, FREE, "payload", i % 8, .block = i,
                        .stream = thread);
    return NULL;
}

START_TEST(threads_keep_their_order)
{
    pthread_t threads[THREADS];
    uint64_t next[THREADS] = {0}, time = 0, total = 0;
    struct dcp_trace_event e;

    shared = dcp_trace_open(dir, 0, 1);
    for (uintptr_t t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, put_many, (void *)t);
    for (unsigned t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    dcp_trace_close(shared);
    struct dcp_trace_reader *r = open_ok(file_at("rank0.dcp"));
    for (; dcp_trace_reader_next(r, &e); total++) {
        ck_assert_uint_eq(e.FREE.block, next[e.FREE.stream]++);
        ck_assert_uint_ge(e.time_ns, time);
        time = e.time_ns;
    }
    ck_assert_uint_eq(total, THREADS * PER_THREAD);
    dcp_trace_reader_close(r);
}
END_TEST

/* --- the writer in trouble ----------------------------------------------- */

START_TEST(null_is_accepted)
{
    dcp_trace_put(NULL, DCP_TRACE_END, NULL, 0, NULL, 0);
    dcp_trace_event((struct dcp_trace *)NULL, FREE, NULL, 0, .block = 1);
    dcp_trace_abandon(NULL);
    dcp_trace_close(NULL);
    ck_assert_str_eq(dcp_trace_path(NULL), "");
}
END_TEST

START_TEST(killed_writer_leaves_all_it_put)
{
    int pipes[2];
    uint64_t told = 0, block = 0, n;
    struct dcp_trace_event e;

    ck_assert(!pipe(pipes));
    pid_t pid = fork();
    if (pid == 0) {
        struct dcp_trace *trace = dcp_trace_open(dir, 0, 1);
        for (uint64_t i = 0;; i++) {
            dcp_trace_event(trace, FREE, "some payload", i % 13, .block = i);
            if (i % 1000 == 0 && write(pipes[1], &i, sizeof i) < 0)
                _exit(1);
        }
    }
    close(pipes[1]);
    while (told < 100000 && read(pipes[0], &n, sizeof n) == sizeof n)
        told = n;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (read(pipes[0], &n, sizeof n) == sizeof n)
        told = n;
    close(pipes[0]);
    ck_assert_uint_ge(told, 100000);
    struct dcp_trace_reader *r = open_ok(file_at("rank0.dcp"));
    ck_assert_int_eq(dcp_trace_reader_writer(r), 0);
    for (; dcp_trace_reader_next(r, &e); block++)
        ck_assert_uint_eq(e.FREE.block, block);
    ck_assert_uint_gt(block, told);
    ck_assert_int_eq(dcp_trace_reader_end(r), DCP_TRACE_CUT);
    ck_assert_ptr_nonnull(strstr(dcp_trace_reader_message(r), "rank0.dcp:"));
    dcp_trace_reader_close(r);
}
END_TEST

/* Runs in a child: fills the trace until it is refused, then checks that the
 * program lives on. */
static void
fill(unsigned megabytes)
{
    static char payload[100000];
    struct dcp_trace *trace = dcp_trace_open(dir, 0, 1);

    for (unsigned i = 0; i < megabytes * 20; i++)
        dcp_trace_event(trace, LOG, payload, sizeof payload, .level = i);
    dcp_trace_close(trace);
    _exit(trace ? 0 : 1);
}

static void
expect_whole_part(unsigned most)
{
    enum dcp_trace_end end;
    unsigned count = count_records(file_at("rank0.dcp"), &end);
    struct stat st;

    ck_assert_uint_gt(count, 0);
    ck_assert_uint_lt(count, most);
    ck_assert_int_eq(end, DCP_TRACE_CUT);
    ck_assert(!stat(file_at("rank0.dcp"), &st));
    ck_assert_int_lt(st.st_size, most * 100100);
}

START_TEST(file_size_limit_ends_the_trace)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct rlimit limit = {5 << 20, 5 << 20};
        setrlimit(RLIMIT_FSIZE, &limit);
        close(2);
        fill(8);
    }
    waitpid(pid, &status, 0);
    ck_assert_int_eq(status, 0);
    expect_whole_part(80);
}
END_TEST

START_TEST(full_disk_ends_the_trace)
{
    int status;

    if (mount("dcp", dir, "tmpfs", 0, "size=3m"))
        return; /* not allowed here; the limit test above stays */
    pid_t pid = fork();
    if (pid == 0) {
        close(2);
        fill(8);
    }
    waitpid(pid, &status, 0);
    int made = access(file_at("rank0.dcp"), R_OK);
    if (!made)
        expect_whole_part(80);
    umount2(dir, MNT_DETACH);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(made, 0);
}
END_TEST

START_TEST(no_directory_no_trace)
{
    char path[512];

    close(2); /* the one log line */
    ck_assert_ptr_null(dcp_trace_open("/proc/nowhere/x", 0, 1));
    ck_assert_ptr_null(dcp_trace_open("/dev/null/x", 0, 1));
    snprintf(path, sizeof path, "%s/file", dir);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    ck_assert_ptr_null(dcp_trace_open(path, 0, 1));
    char *deep = malloc(20000);
    memset(deep, 'a', 19999);
    deep[19999] = '\0';
    ck_assert_ptr_null(dcp_trace_open(deep, 0, 1));
    free(deep);
}
END_TEST

START_TEST(directories_are_made)
{
    char path[512], inner[600];

    snprintf(path, sizeof path, "%s/a/b", dir);
    struct dcp_trace *trace = dcp_trace_open(path, 0, 1);
    ck_assert_ptr_nonnull(trace);
    dcp_trace_close(trace);
    snprintf(inner, sizeof inner, "%s/rank0.dcp", path);
    ck_assert(!unlink(inner));
    ck_assert(!rmdir(path));
    snprintf(path, sizeof path, "%s/a", dir);
    ck_assert(!rmdir(path));
}
END_TEST

START_TEST(fork_child_writes_nothing)
{
    enum dcp_trace_end end;

    for (int abandon = 0; abandon < 2; abandon++) {
        struct dcp_trace *trace = dcp_trace_open(dir, 0, 1);
        int status;
        dcp_trace_event(trace, FREE, NULL, 0, .block = 1);
        pid_t pid = fork();
        if (pid == 0) {
            if (abandon)
                dcp_trace_abandon(trace);
            for (int i = 0; i < 100000; i++)
                dcp_trace_event(trace, FREE, "child", 5, .block = 666);
            dcp_trace_close(trace);
            _exit(0);
        }
        waitpid(pid, &status, 0);
        ck_assert_int_eq(status, 0);
        dcp_trace_event(trace, FREE, NULL, 0, .block = 2);
        dcp_trace_close(trace);
        ck_assert_uint_eq(count_records(file_at("rank0.dcp"), &end), 2);
    }
}
END_TEST

START_TEST(closed_descriptors_do_no_harm)
{
    struct dcp_trace *trace = dcp_trace_open(dir, 0, 1);
    static char payload[1 << 18];
    struct stat st;

    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    int fd = open(file_at("mine"), O_CREAT | O_RDWR, 0600);
    for (int other = 511; other < 520; other++)
        dup2(fd, other);
    close(2);
    for (int i = 0; i < 40; i++)
        dcp_trace_event(trace, LOG, payload, sizeof payload, .level = 1);
    dcp_trace_close(trace);
    ck_assert(!fstat(fd, &st));
    ck_assert_int_eq(st.st_size, 0);
}
END_TEST

/* --- names --------------------------------------------------------------- */

static pid_t
start_holder(int *go)
{
    int ready[2], hold[2];
    char byte;

    ck_assert(!pipe(ready) && !pipe(hold));
    pid_t pid = fork();
    if (pid == 0) {
        struct dcp_trace *trace = dcp_trace_open(dir, 0, 1);
        dcp_trace_event(trace, FREE, NULL, 0, .block = 1);
        close(hold[1]);
        if (write(ready[1], "x", 1) == 1 && read(hold[0], &byte, 1) < 0)
            _exit(1);
        dcp_trace_event(trace, END, NULL, 0, .iterations = 0);
        _exit(trace ? 0 : 1);
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    close(hold[0]);
    *go = hold[1];
    return pid;
}

START_TEST(second_process_gets_its_own_file)
{
    char name[64];
    int go, status;
    enum dcp_trace_end end;
    pid_t pid = start_holder(&go);
    struct dcp_trace *trace = dcp_trace_open(dir, 0, 1);

    ck_assert_ptr_nonnull(trace);
    snprintf(name, sizeof name, "rank0.%ld.dcp", (long)getpid());
    ck_assert_str_eq(dcp_trace_path(trace), file_at(name));
    struct dcp_trace_reader *r = open_ok(file_at("rank0.dcp"));
    ck_assert_int_eq(dcp_trace_reader_writer(r), pid);
    dcp_trace_reader_close(r);
    close(go);
    waitpid(pid, &status, 0);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(count_records(file_at("rank0.dcp"), &end), 2);
    ck_assert_int_eq(end, DCP_TRACE_WHOLE);
    dcp_trace_close(trace);

    /* A later run replaces both. */
    ck_assert_uint_eq(files_in_dir(), 2);
    trace = dcp_trace_open(dir, 0, 1);
    ck_assert_str_eq(dcp_trace_path(trace), file_at("rank0.dcp"));
    ck_assert_uint_eq(files_in_dir(), 1);
    dcp_trace_close(trace);
}
END_TEST

START_TEST(earlier_run_is_replaced)
{
    enum dcp_trace_end end;

    for (unsigned run = 1; run < 4; run++) {
        struct dcp_trace *trace = dcp_trace_open(dir, 0, 1);
        ck_assert_ptr_nonnull(trace);
        for (unsigned i = 0; i < 5 - run; i++)
            dcp_trace_event(trace, FREE, NULL, 0, .block = i);
        dcp_trace_close(trace);
        ck_assert_uint_eq(count_records(file_at("rank0.dcp"), &end), 5 - run);
    }
    ck_assert_uint_eq(files_in_dir(), 1);
}
END_TEST

/* --- the reader in trouble ----------------------------------------------- */

static size_t
small_file(unsigned char *bytes, size_t room)
{
    struct dcp_trace *trace = dcp_trace_open(dir, 0, 1);

    for (unsigned i = 0; i < 6; i++)
        dcp_trace_event(trace, LOG, "message", i, .level = 1ull << 10 * i);
    dcp_trace_event(trace, END, NULL, 0, .iterations = 1);
    dcp_trace_close(trace);
    int fd = open(file_at("rank0.dcp"), O_RDONLY);
    ssize_t n = read(fd, bytes, room);
    close(fd);
    ck_assert_int_gt(n, DCP_TRACE_HEAD);
    return (size_t)n;
}

static void
write_file(const char *path, const unsigned char *bytes, size_t count)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

    ck_assert_int_eq(write(fd, bytes, count), (ssize_t)count);
    close(fd);
}

START_TEST(cut_at_every_byte)
{
    unsigned char bytes[8192];
    size_t size = small_file(bytes, sizeof bytes);
    struct dcp_trace_event e;
    unsigned before = 0;
    char error[512];

    for (size_t cut = 0; cut <= size; cut++) {
        struct dcp_trace_reader *r = NULL;
        unsigned count = 0;
        write_file(file_at("cut.dcp"), bytes, cut);
        enum dcp_status status = dcp_trace_reader_open(
            file_at("cut.dcp"), &r, error, sizeof error);
        ck_assert_int_eq(status == DCP_OK, cut >= DCP_TRACE_HEAD);
        if (status) {
            ck_assert_ptr_nonnull(strstr(error, "cut.dcp:0: "));
            continue;
        }
        while (dcp_trace_reader_next(r, &e))
            count++;
        ck_assert_uint_ge(count, before);
        ck_assert_uint_le(count, before + 1);
        before = count;
        ck_assert_int_eq(dcp_trace_reader_end(r) == DCP_TRACE_WHOLE,
                         count == 7);
        dcp_trace_reader_close(r);
    }
    ck_assert_uint_eq(before, 7);
}
END_TEST

START_TEST(every_spoiled_byte_is_noticed)
{
    unsigned char bytes[8192];
    size_t size = small_file(bytes, sizeof bytes), silent = 0;
    struct dcp_trace_event e;
    char error[512];

    for (size_t at = 0; at < size; at++) {
        struct dcp_trace_reader *r = NULL;
        bytes[at] ^= 0x41;
        write_file(file_at("bad.dcp"), bytes, size);
        bytes[at] ^= 0x41;
        if (dcp_trace_reader_open(file_at("bad.dcp"), &r, error, sizeof error))
            continue;
        unsigned count = 0;
        while (dcp_trace_reader_next(r, &e))
            count++;
        if (at >= DCP_TRACE_HEAD && count == 7)
            silent++; /* filling after a record, which means nothing */
        dcp_trace_reader_close(r);
    }
    ck_assert_uint_le(silent, 7 * 7);
}
END_TEST

START_TEST(other_files_are_refused)
{
    struct dcp_trace_reader *r = NULL;
    unsigned char bytes[8192];
    char error[512];

    write_file(file_at("x.dcp"), (const unsigned char *)"hello", 5);
    ck_assert_int_eq(dcp_trace_reader_open(file_at("x.dcp"), &r, error,
                                           sizeof error), DCP_SYNTAX);
    ck_assert_ptr_nonnull(strstr(error, "x.dcp:0: not a trace"));
    ck_assert_int_eq(dcp_trace_reader_open(file_at("none"), &r, error,
                                           sizeof error), DCP_IO);
    ck_assert_int_eq(dcp_trace_reader_open(dir, &r, error, sizeof error),
                     DCP_IO);
    size_t size = small_file(bytes, sizeof bytes);
    bytes[8] = 9;
    write_file(file_at("x.dcp"), bytes, size);
    ck_assert_int_eq(dcp_trace_reader_open(file_at("x.dcp"), &r, error,
                                           sizeof error), DCP_UNSUPPORTED);
    ck_assert_ptr_null(r);
}
END_TEST

START_TEST(kinds_and_fields_go_by_name)
{
    unsigned char bytes[8192];
    size_t size = small_file(bytes, sizeof bytes);
    struct dcp_trace_event e;
    enum dcp_trace_end end;
    char *schema = (char *)bytes + sizeof(struct dcp_trace_head);

    /* A file of a later version calls LOG's field otherwise. */
    bytes[DCP_TRACE_HEAD - 1] = 0;
    char *row = strstr(schema, "LOG level");
    memcpy(row, "LOG other", 9);
    write_file(file_at("x.dcp"), bytes, size);
    struct dcp_trace_reader *r = open_ok(file_at("x.dcp"));
    for (unsigned i = 0; i < 6; i++) {
        ck_assert(dcp_trace_reader_next(r, &e));
        ck_assert_int_eq(e.kind, DCP_TRACE_LOG);
        ck_assert_uint_eq(e.LOG.level, 0);
    }
    dcp_trace_reader_close(r);

    /* A kind that we do not know is passed over. */
    memcpy(row, "NEW", 3);
    write_file(file_at("x.dcp"), bytes, size);
    ck_assert_uint_eq(count_records(file_at("x.dcp"), &end), 1);
    ck_assert_int_eq(end, DCP_TRACE_WHOLE);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("trace");
    TCase *writer = tcase_create("writer"), *reader = tcase_create("reader");

    tcase_add_checked_fixture(writer, setup, teardown);
    tcase_set_timeout(writer, 60);
    tcase_add_test(writer, what_is_put_comes_back);
    tcase_add_test(writer, payloads_larger_than_a_block);
    tcase_add_test(writer, threads_keep_their_order);
    tcase_add_test(writer, null_is_accepted);
    tcase_add_test(writer, killed_writer_leaves_all_it_put);
    tcase_add_test(writer, file_size_limit_ends_the_trace);
    tcase_add_test(writer, full_disk_ends_the_trace);
    tcase_add_test(writer, no_directory_no_trace);
    tcase_add_test(writer, directories_are_made);
    tcase_add_test(writer, fork_child_writes_nothing);
    tcase_add_test(writer, closed_descriptors_do_no_harm);
    tcase_add_test(writer, second_process_gets_its_own_file);
    tcase_add_test(writer, earlier_run_is_replaced);
    suite_add_tcase(suite, writer);
    tcase_add_checked_fixture(reader, setup, teardown);
    tcase_set_timeout(reader, 60);
    tcase_add_test(reader, cut_at_every_byte);
    tcase_add_test(reader, every_spoiled_byte_is_noticed);
    tcase_add_test(reader, other_files_are_refused);
    tcase_add_test(reader, kinds_and_fields_go_by_name);
    suite_add_tcase(suite, reader);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
