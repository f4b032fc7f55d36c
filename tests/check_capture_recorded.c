/* SPDX-License-Identifier: Apache-2.0 */
/* Logs of real programs, recorded on a GPU and kept under tests/data. */
#include "config.h"

#include "tests/check_capture.h"

#include "capture/lift.h"
#include "capture/log.h"
#include "capture/role.h"
#include "tests/recorded.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One row a file under tests/data; every file needs a row. 0: not checked.
 *
 * llama: four layers of nine weights, the embedding, the head and the last
 * norm: 39 parameters; the frequencies of the rotary embedding, which nothing
 * writes, count as one. AdamW keeps two states for each (its step counts are
 * on the host).
 * resnet: 62 parameters of ResNet-18, and two tables of cuDNN that are only
 * read; momentum; 60 numbers of batch-norm, and a cuBLAS workspace. The
 * gradients of the step before are freed in the middle of this one.
 * varlen: three layers of twelve, the embedding, two of the head. */
static const struct {
    const char *file;
    uint32_t calls, iterations, cycle, micro;
    uint32_t params, states, grads, inputs, stats;
} recorded[] = {
    {"llama.log", 1615, 1, 1, 1, 39 + 1, 78, 39, 2, 1},
    {"resnet.log", 900, 1, 1, 1, 62 + 2, 62, 2 * 62, 2, 61},
    {"varlen.log", 742, 2, 0, 1, 39, 78, 2 * 39, 2, 2},
};

static char *
read_file(const char *path, size_t *bytes)
{
    int fd = open(path, O_RDONLY);
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);

    if (size < 0)
        return NULL;
    char *text = malloc((size_t)size + 1);
    ck_assert_int_eq(pread(fd, text, (size_t)size, 0), size);
    close(fd);
    *bytes = (size_t)size;
    return text;
}

static const char *
data_dir(void)
{
    static char path[4096];
    const char *source = getenv("srcdir");

    snprintf(path, sizeof path, "%s/tests/data", source ? source : ".");
    return path;
}

static int
row_of(const char *file)
{
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++)
        if (recorded[i].file && !strcmp(recorded[i].file, file))
            return (int)i;
    return -1;
}

static void
expect(const char *file, const char *what, uint32_t wanted, uint32_t found)
{
    if (wanted)
        ck_assert_msg(wanted == found, "%s: %s: wanted %u, found %u", file,
                      what, wanted, found);
}

static void
check_roles(const char *file, int row, const struct dcp_graph *graph)
{
    uint32_t counts[DCP_ROLE_COUNT];

    count_roles(file, graph, counts);
    expect(file, "calls", recorded[row].calls, graph->node_count);
    expect(file, "micro-steps", recorded[row].micro, graph->micro_count);
    expect(file, "params", recorded[row].params, counts[DCP_ROLE_PARAM]);
    expect(file, "states", recorded[row].states, counts[DCP_ROLE_STATE]);
    expect(file, "grads", recorded[row].grads, counts[DCP_ROLE_GRAD]);
    expect(file, "inputs", recorded[row].inputs, counts[DCP_ROLE_INPUT]);
    expect(file, "stats", recorded[row].stats, counts[DCP_ROLE_STAT]);
}

static void
check_recorded(const char *file)
{
    struct dcp_arena arena = {0};
    struct dcp_access_table access = {0};
    struct dcp_lift_options options = {.access = &access};
    struct dcp_graph *graph;
    struct dcp_log log;
    struct dcp_period p;
    uint32_t line = 0, first, last;
    char path[8192];
    size_t bytes;
    int row = row_of(file);

    ck_assert_msg(row >= 0, "tests/data/%s has no row", file);
    snprintf(path, sizeof path, "%s/%s", data_dir(), file);
    char *text = read_file(path, &bytes);
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(dcp_log_parse(text, bytes, &arena, &log, &access, &line) ==
                      DCP_OK,
                  "%s:%u", file, line);
    ck_assert_msg(
        recorded_find(&log, &p, &arena, &first, &last, &options.since),
        "%s: no iteration", file);
    expect(file, "iterations", recorded[row].iterations, p.iterations);
    expect(file, "cycle", recorded[row].cycle, p.cycle);
    ck_assert_msg(p.anchor.key && p.anchor.wait,
                  "%s: no anchor before a host wait", file);
    ck_assert_int_eq(dcp_lift(&log, first, last, &options, &graph), DCP_OK);
    ck_assert_int_eq(dcp_role_fill(graph), DCP_OK);
    check_graph(graph);
    check_roles(file, row, graph);
    dcp_graph_destroy(graph);
    dcp_access_release(&access);
    dcp_arena_release(&arena);
    free(text);
}

START_TEST(recorded_programs)
{
    DIR *list = opendir(data_dir());
    size_t count = 0;

    for (struct dirent *e; list && (e = readdir(list));) {
        size_t n = strlen(e->d_name);
        if (n < 4 || strcmp(e->d_name + n - 4, ".log"))
            continue;
        check_recorded(e->d_name);
        count++;
    }
    if (list)
        closedir(list);
    ck_assert_uint_eq(count, sizeof recorded / sizeof *recorded);
}
END_TEST

void
add_recorded(Suite *s)
{
    TCase *t = tcase_create("recorded");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, recorded_programs);
    suite_add_tcase(s, t);
}
