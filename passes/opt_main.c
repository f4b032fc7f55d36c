/* SPDX-License-Identifier: Apache-2.0 */
/* dcprel-opt: reads a graph, runs passes over it, prints it. */
#include "config.h"

#include "passes/cost.h"
#include "passes/pass.h"
#include "passes/schedule_sim.h"

#include "src/ir_live.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

enum { EXIT_BAD_INPUT = 2 };

struct options {
    const char *input, *output; /* NULL or "-": the standard streams */
    const char *passes, *skip;
    bool verify, before, after, simulate, notes, torture;
    struct dcp_pass_ctx ctx;
    struct dcp_cost cost;
};

static const char help[] =
    "usage: dcprel-opt [OPTION]... [FILE]\n"
    "Reads the graph of one iteration from FILE (or the standard input), runs\n"
    "passes over it, and prints it.\n"
    "\n"
    "  --passes=NAME,...   run these passes, in this order (default: none)\n"
    "  --passes=default    run those that the library runs\n"
    "  --skip=NAME,...     but not these\n"
    "  --list              list the passes and end\n"
    "  --verify            only check; print what is broken beside its line\n"
    "  --print-before      print the graph before each pass, on stderr\n"
    "  --print-after       and after each\n"
    "  --torture           after each pass: print, parse, compare\n"
    "  --notes             print lives, sizes and times as comments\n"
    "  --simulate          print predicted time and memory instead\n"
    "  --world=N           ranks that passes and costs are for (default 1)\n"
    "  --rank=N            which of them this is (default 0)\n"
    "  --budget=BYTES      device memory of a rank (default: no limit)\n"
    "  --page=BYTES        smallest piece of memory that can be mapped\n"
    "  -o FILE             write there\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0, 1 when a pass was undone or output failed, 2 when the\n"
    "options or the graph are wrong.\n";

/* --- input and output ----------------------------------------------------- */

static bool
is_standard(const char *name)
{
    return !name || !strcmp(name, "-");
}

/* All of a stream, from malloc; NULL after an error (errno). */
static char *
read_all(FILE *file, size_t *length)
{
    size_t room = 1 << 16, n;
    char *text = malloc(room);

    *length = 0;
    while (text && (n = fread(text + *length, 1, room - *length, file)) > 0) {
        *length += n;
        if (*length == room) {
            char *more = realloc(text, room *= 2);

            if (!more)
                free(text);
            text = more;
        }
    }
    if (text && ferror(file)) {
        free(text);
        return NULL;
    }
    return text;
}

static struct dcp_graph *
load(const struct options *o)
{
    const char *name = is_standard(o->input) ? "<stdin>" : o->input;
    FILE *file = is_standard(o->input) ? stdin : fopen(o->input, "rb");
    struct dcp_graph *graph = NULL;
    struct dcp_ir_error error;
    size_t length;
    char *text = file ? read_all(file, &length) : NULL;

    if (!text)
        fprintf(stderr, "dcprel-opt: cannot read %s: %s\n", name,
                strerror(errno));
    else if (dcp_ir_parse(text, length, name, &graph, &error))
        fprintf(stderr, "%s\n", error.text);
    free(text);
    if (file && file != stdin)
        fclose(file);
    return graph;
}

static bool
to_file(void *user, const char *line, size_t length)
{
    return fwrite(line, 1, length, user) == length;
}

static bool
print(const struct options *o, const struct dcp_graph *graph,
      const struct dcp_ir_faults *faults, FILE *file)
{
    return dcp_ir_print(graph, o->notes ? DCP_PRINT_NOTES : 0, faults, to_file,
                        file) == DCP_OK;
}

/* --- what can be done with a graph ---------------------------------------- */

static int
list_passes(void)
{
    for (unsigned i = 0; i < dcp_pass_count; i++)
        printf("%-12s %-4s %s\n", dcp_pass_rows[i].name,
               dcp_pass_rows[i].on ? "on" : "off",
               dcp_pass_rows[i].description);
    return EXIT_SUCCESS;
}

/* Broken invariants to standard error, and with --verify the graph with each
 * beside its line to `out`. */
static int
verify(const struct options *o, const struct dcp_graph *graph, FILE *out)
{
    enum { ROOM = 1000 };
    struct dcp_ir_faults faults = {
        .list = calloc(ROOM, sizeof *faults.list), .room = ROOM
    };
    enum dcp_status status;

    if (!faults.list)
        faults.room = 0;
    status = dcp_ir_verify(graph, &faults);
    if (status)
        fprintf(stderr, "dcprel-opt: %s: %u broken invariants\n",
                is_standard(o->input) ? "<stdin>" : o->input, faults.count);
    if (status && (o->verify || !faults.kept))
        print(o, graph, &faults, out);
    else if (status)
        fprintf(stderr, "dcprel-opt: the first: %s (see --verify)\n",
                faults.list[0].text);
    free(faults.list);
    return status ? EXIT_BAD_INPUT : EXIT_SUCCESS;
}

static void
percent(FILE *out, const char *name, uint64_t part, uint64_t whole)
{
    fprintf(out, "%-16s %12.3f ms  %5.1f %%\n", name, (double)part / 1e6,
            whole ? 100.0 * (double)part / (double)whole : 0.0);
}

static int
simulate(const struct options *o, const struct dcp_graph *graph, FILE *out)
{
    static const char *const engine[] = { "compute", "upload", "download",
                                          "link" };
    struct dcp_arena arena = { 0 };
    struct dcp_schedule schedule;
    uint32_t measured = 0, work = 0;

    if (dcp_schedule_fill(graph, &o->cost, &arena, &schedule)) {
        fprintf(stderr, "dcprel-opt: out of memory\n");
        dcp_arena_release(&arena);
        return EXIT_FAILURE;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (!(dcp_op_properties(graph->nodes[i].op) & DCP_IS_WORK))
            continue;
        work++;
        measured += graph->nodes[i].gpu_ns > 0;
    }
    fprintf(out, "%-16s %12.3f ms\n", "step", (double)schedule.step_ns / 1e6);
    for (int e = 0; e < DCP_ENGINE_COUNT; e++)
        if (schedule.busy_ns[e])
            percent(out, engine[e], schedule.busy_ns[e], schedule.step_ns);
    percent(out, "host waits", schedule.host_wait_ns, schedule.step_ns);
    fprintf(out, "%-16s %12llu bytes at %.3f ms\n", "peak memory",
            (unsigned long long)schedule.peak_bytes,
            (double)schedule.peak_ns / 1e6);
    fprintf(out, "%-16s %12u of %u nodes of work\n", "measured", measured,
            work);
    dcp_arena_release(&arena);
    return EXIT_SUCCESS;
}

static void
before_pass(const struct dcp_pass_row *row, const struct dcp_graph *graph,
            void *user)
{
    const struct options *o = user;

    if (!o->before)
        return;
    fprintf(stderr, "# before %s\n", row->name);
    print(o, graph, NULL, stderr);
}

static void
after_pass(const struct dcp_pass_result *result, const struct dcp_graph *graph,
           void *user)
{
    const struct options *o = user;

    if (result->end == DCP_PASS_SKIPPED)
        fprintf(stderr, "dcprel-opt: pass %s does not run: %s\n",
                result->row->name, result->why);
    if (result->end != DCP_PASS_DONE || !o->after)
        return;
    fprintf(stderr, "# after %s (%s)\n", result->row->name,
            result->changed ? "changed" : "unchanged");
    print(o, graph, NULL, stderr);
}

static int
run_passes(struct options *o, struct dcp_graph **graph)
{
    struct dcp_pass_options options = {
        .only = strcmp(o->passes, "default") ? o->passes : NULL,
        .skip = o->skip,
        .torture = o->torture,
        .before = before_pass,
        .after = after_pass,
        .user = o,
    };

    return dcp_pass_run_with(graph, &o->ctx, &options) == DCP_OK
               ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int
process(struct options *o, struct dcp_graph **graph, FILE *out)
{
    int status = verify(o, *graph, out);

    if (status || o->verify)
        return status;
    if (o->passes && (status = run_passes(o, graph)))
        return status;
    if (o->simulate)
        return simulate(o, *graph, out);
    return print(o, *graph, NULL, out) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int
run(struct options *o)
{
    struct dcp_graph *graph = load(o);
    FILE *out = stdout;
    int status;

    if (!graph)
        return EXIT_BAD_INPUT;
    if (!is_standard(o->output) && !(out = fopen(o->output, "wb"))) {
        fprintf(stderr, "dcprel-opt: cannot write %s: %s\n", o->output,
                strerror(errno));
        dcp_graph_destroy(graph);
        return EXIT_FAILURE;
    }
    status = process(o, &graph, out);
    dcp_graph_destroy(graph);
    if (ferror(out) || fflush(out) || (out != stdout && fclose(out))) {
        fprintf(stderr, "dcprel-opt: writing failed: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    return status;
}

/* --- options -------------------------------------------------------------- */

enum {
    OPT_PASSES = 256, OPT_SKIP, OPT_LIST, OPT_VERIFY, OPT_BEFORE, OPT_AFTER,
    OPT_TORTURE, OPT_NOTES, OPT_SIMULATE, OPT_WORLD, OPT_RANK, OPT_BUDGET,
    OPT_PAGE, OPT_HELP, OPT_VERSION,
};

static const struct option long_options[] = {
    { "passes", required_argument, NULL, OPT_PASSES },
    { "skip", required_argument, NULL, OPT_SKIP },
    { "list", no_argument, NULL, OPT_LIST },
    { "verify", no_argument, NULL, OPT_VERIFY },
    { "print-before", no_argument, NULL, OPT_BEFORE },
    { "print-after", no_argument, NULL, OPT_AFTER },
    { "torture", no_argument, NULL, OPT_TORTURE },
    { "notes", no_argument, NULL, OPT_NOTES },
    { "simulate", no_argument, NULL, OPT_SIMULATE },
    { "world", required_argument, NULL, OPT_WORLD },
    { "rank", required_argument, NULL, OPT_RANK },
    { "budget", required_argument, NULL, OPT_BUDGET },
    { "page", required_argument, NULL, OPT_PAGE },
    { "help", no_argument, NULL, OPT_HELP },
    { "version", no_argument, NULL, OPT_VERSION },
    { 0 },
};

/* A number from an option, or the end of the program. */
static uint64_t
count_of(const char *option, uint64_t least, uint64_t most)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(optarg, &end, 10);

    if (optarg[0] >= '0' && optarg[0] <= '9' && !*end && !errno &&
        value >= least && value <= most)
        return value;
    fprintf(stderr, "dcprel-opt: --%s: '%s' is no number from %llu to %llu\n",
            option, optarg, (unsigned long long)least,
            (unsigned long long)most);
    exit(EXIT_BAD_INPUT);
}

static const char *
names_of(const char *names)
{
    char why[160];

    if (dcp_pass_check_names(names, why, sizeof why) == DCP_OK)
        return names;
    fprintf(stderr, "dcprel-opt: %s (see --list)\n", why);
    exit(EXIT_BAD_INPUT);
}

static void
set_switch(struct options *o, int option)
{
    switch (option) {
    case OPT_VERIFY:
        o->verify = true;
        break;
    case OPT_BEFORE:
        o->before = true;
        break;
    case OPT_AFTER:
        o->after = true;
        break;
    case OPT_TORTURE:
        o->torture = true;
        break;
    case OPT_NOTES:
        o->notes = true;
        break;
    default:
        o->simulate = true;
    }
}

static void
set_option(struct options *o, int option)
{
    switch (option) {
    case OPT_PASSES:
        o->passes = strcmp(optarg, "default") ? names_of(optarg) : optarg;
        break;
    case OPT_SKIP:
        o->skip = names_of(optarg);
        break;
    case OPT_LIST:
        exit(list_passes());
    case OPT_HELP:
        fputs(help, stdout);
        exit(EXIT_SUCCESS);
    case OPT_VERSION:
        puts("dcprel-opt " PACKAGE_VERSION);
        exit(EXIT_SUCCESS);
    case OPT_WORLD:
        o->ctx.world = (uint32_t)count_of("world", 1, 1 << 20);
        break;
    case OPT_RANK:
        o->ctx.rank = (uint32_t)count_of("rank", 0, 1 << 20);
        break;
    case OPT_BUDGET:
        o->ctx.memory_budget = count_of("budget", 0, UINT64_MAX);
        break;
    case OPT_PAGE:
        o->ctx.page_bytes = count_of("page", 512, 1 << 30);
        break;
    case 'o':
        o->output = optarg;
        break;
    default:
        set_switch(o, option);
    }
}

static void
check_options(const struct options *o)
{
    if (o->ctx.rank >= o->ctx.world)
        fprintf(stderr, "dcprel-opt: rank %u of a world of %u\n", o->ctx.rank,
                o->ctx.world);
    else if (o->ctx.page_bytes & (o->ctx.page_bytes - 1))
        fprintf(stderr, "dcprel-opt: --page takes a power of two\n");
    else
        return;
    exit(EXIT_BAD_INPUT);
}

int
main(int argc, char **argv)
{
    struct options o = { .ctx = dcp_pass_ctx_default() };
    int option;

    while ((option = getopt_long(argc, argv, "o:", long_options, NULL)) != -1) {
        if (option == '?') {
            fputs("dcprel-opt: see --help\n", stderr);
            return EXIT_BAD_INPUT;
        }
        set_option(&o, option);
    }
    if (argc - optind > 1) {
        fprintf(stderr, "dcprel-opt: one file at a time, also given: %s\n",
                argv[optind + 1]);
        return EXIT_BAD_INPUT;
    }
    o.input = argv[optind];
    check_options(&o);
    dcp_cost_default(&o.cost, o.ctx.world);
    o.ctx.cost = &o.cost;
    return run(&o);
}
