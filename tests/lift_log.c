/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a recorded log and prints an iteration of it as IR text:
 *     lift_log FILE */
#include "config.h"

#include "src/ir.h"

#include "capture/lift.h"
#include "capture/log.h"
#include "capture/role.h"
#include "tests/recorded.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *
file_map(const char *path, size_t *bytes)
{
    int fd = open(path, O_RDONLY);
    struct stat st;
    void *at = MAP_FAILED;

    if (fd >= 0 && fstat(fd, &st) == 0) {
        *bytes = (size_t)st.st_size;
        at = mmap(NULL, *bytes + 1, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (fd >= 0)
        close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static int
fail(const char *path, const char *what, unsigned long where)
{
    fprintf(stderr, "lift_log: %s: %s (%lu)\n", path, what, where);
    return EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
    struct dcp_arena arena = {0};
    struct dcp_access_table access = {0};
    struct dcp_lift_options options = {.access = &access};
    struct dcp_log log;
    struct dcp_period period;
    struct dcp_graph *graph;
    uint32_t line = 0, first, last;
    size_t bytes = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: lift_log FILE\n");
        return EXIT_FAILURE;
    }
    const char *text = file_map(argv[1], &bytes);
    if (!text)
        return fail(argv[1], "cannot be read", 0);
    if (dcp_log_parse(text, bytes, &arena, &log, &access, &line) != DCP_OK)
        return fail(argv[1], "is no log", line);
    if (!recorded_find(&log, &period, &arena, &first, &last, &options.since))
        return fail(argv[1], "no iteration was found", log.call_count);
    if (dcp_lift(&log, first, last, &options, &graph) != DCP_OK ||
        dcp_role_fill(graph) != DCP_OK)
        return fail(argv[1], "cannot be lifted", first);
    char *ir = dcp_ir_print_text(graph, 0, NULL);
    if (!ir || fputs(ir, stdout) == EOF || fflush(stdout) == EOF)
        return fail(argv[1], "cannot be printed", 0);
    free(ir);
    dcp_graph_destroy(graph);
    dcp_access_release(&access);
    dcp_arena_release(&arena);
    return EXIT_SUCCESS;
}
