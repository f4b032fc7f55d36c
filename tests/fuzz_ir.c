/* SPDX-License-Identifier: Apache-2.0 */
/* Spoils graph texts and sees that nothing but an error comes of it: parsing
 * takes memory in proportion to the text, what parses prints and parses to the
 * same graph, the verifier ends, and what it accepts can be placed (the result
 * is verified too) and simulated. Some runs have memory run out on the way.
 *
 *     fuzz_ir [SECONDS [SEED]] [FILE...]     (default: 2 seconds, tests/ir)
 *
 * With -DFUZZ_LIBFUZZER it is an entry for clang's -fsanitize=fuzzer. */
#include "config.h"

#include "passes/cost.h"
#include "passes/pass.h"
#include "passes/schedule_sim.h"

#include "src/clock.h"
#include "src/log.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                            \
    do {                                                                       \
        if (!(what)) {                                                         \
            fprintf(stderr, "fuzz_ir: line %d: %s\n", __LINE__, #what);        \
            abort();                                                           \
        }                                                                      \
    } while (0)

static void
check_text(const struct dcp_graph *graph)
{
    struct dcp_graph *again = NULL;
    struct dcp_ir_error error;
    size_t length;
    char *text = dcp_ir_print_text(graph, 0, &length);

    CHECK(text);
    CHECK(dcp_ir_parse(text, length, "again", &again, &error) == DCP_OK);
    CHECK(dcp_ir_equal(graph, again));
    CHECK(dcp_ir_hash(graph) == dcp_ir_hash(again));
    free(text);
    dcp_graph_destroy(again);
    text = dcp_ir_print_text(graph, DCP_PRINT_NOTES, &length);
    CHECK(text);
    CHECK(dcp_ir_parse(text, length, "notes", &again, &error) == DCP_OK);
    CHECK(dcp_ir_equal(graph, again));
    free(text);
    dcp_graph_destroy(again);
}

static void
use(struct dcp_graph **graph)
{
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();
    struct dcp_pass_options options = { .torture = true };
    struct dcp_arena arena = { 0 };
    struct dcp_schedule schedule;
    struct dcp_cost cost;

    CHECK(dcp_pass_run_with(graph, &ctx, &options) == DCP_OK);
    dcp_cost_default(&cost, 4);
    CHECK(dcp_schedule_fill(*graph, &cost, &arena, &schedule) == DCP_OK);
    for (uint32_t i = 0; i < (*graph)->node_count; i++)
        CHECK(schedule.end_ns[i] >= schedule.begin_ns[i]);
    dcp_arena_release(&arena);
}

/* All that was done above, while memory runs out at some point. */
static void
starve(const uint8_t *data, size_t size, long after)
{
    struct dcp_pass_ctx ctx = dcp_pass_ctx_default();
    struct dcp_graph *graph = NULL;
    struct dcp_arena arena = { 0 };
    struct dcp_schedule schedule;
    struct dcp_cost cost;

    dcp_cost_default(&cost, 1);
    dcp_arena_fail_after(after);
    if (dcp_ir_parse((const char *)data, size, "fuzz", &graph, NULL) ==
        DCP_OK) {
        free(dcp_ir_print_text(graph, DCP_PRINT_NOTES, NULL));
        if (dcp_ir_verify(graph, NULL) == DCP_OK) {
            dcp_pass_run(&graph, &ctx, NULL, NULL, NULL);
            dcp_schedule_fill(graph, &cost, &arena, &schedule);
        }
    }
    dcp_arena_fail_after(-1);
    CHECK(!graph || dcp_ir_verify(graph, NULL) != DCP_NOMEM);
    dcp_graph_destroy(graph);
    dcp_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dcp_graph *graph = NULL;
    struct dcp_ir_error error = { 0 };
    struct dcp_ir_fault list[4];
    struct dcp_ir_faults faults = { .list = list, .room = 4 };
    enum dcp_status status =
        dcp_ir_parse((const char *)data, size, "fuzz", &graph, &error);

    if (size)
        starve(data, size, data[size / 2]);
    if (status) {
        CHECK(status == DCP_SYNTAX && error.line && !graph);
        CHECK(!strncmp(error.text, "fuzz:", 5));
        return 0;
    }
    CHECK(graph->arena.total <= 64 * size + (1 << 20));
    check_text(graph);
    if (dcp_ir_verify(graph, &faults) == DCP_OK)
        use(&graph);
    else
        CHECK(faults.count && faults.kept);
    dcp_graph_destroy(graph);
    return 0;
}

#ifndef FUZZ_LIBFUZZER

static uint64_t random_state;

static uint64_t
any(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return below ? random_state % below : 0;
}

struct text {
    uint8_t *bytes;
    size_t length;
};

static struct text
read_text(const char *name)
{
    struct text text = { malloc(1 << 20), 0 };
    FILE *file = fopen(name, "rb");

    if (!file || !text.bytes) {
        fprintf(stderr, "fuzz_ir: cannot read %s\n", name);
        exit(99);
    }
    text.length = fread(text.bytes, 1, 1 << 18, file);
    fclose(file);
    return text;
}

static void
replace(struct text *text, size_t at, size_t gone, const void *with,
        size_t length)
{
    if (at > text->length)
        at = text->length;
    if (gone > text->length - at)
        gone = text->length - at;
    if (text->length - gone + length > 1 << 19)
        return;
    memmove(text->bytes + at + length, text->bytes + at + gone,
            text->length - at - gone);
    memmove(text->bytes + at, with, length);
    text->length += length - gone;
}

/* The beginning of some line of a text, and its length with its end. */
static size_t
line_of(const struct text *text, size_t *length)
{
    size_t at = any(text->length), end = at;

    while (at && text->bytes[at - 1] != '\n')
        at--;
    while (end < text->length && text->bytes[end] != '\n')
        end++;
    *length = end - at + (end < text->length);
    return at;
}

static void
add_line(struct text *text, const struct text *from)
{
    uint8_t piece[4096];
    size_t length, at = line_of(from, &length), unused;

    if (length > sizeof piece)
        return;
    memcpy(piece, from->bytes + at, length);
    replace(text, line_of(text, &unused), 0, piece, length);
}

static void
change_digit(struct text *text)
{
    size_t at = any(text->length);

    for (size_t i = at; i < text->length && i < at + 100; i++)
        if (text->bytes[i] >= '0' && text->bytes[i] <= '9') {
            text->bytes[i] = (uint8_t)('0' + any(10));
            return;
        }
}

static void
spoil(struct text *text, const struct text *other)
{
    static const char *const words[] = {
        "%0", "%-", "$0", "!0", "@0", "@1", "n0", "w=%0", "r=%1:8+256", "rw?=",
        "4294967295", "18446744073709551615", "0", "1", "alloc %0 @0",
        "free %0 @0", "after=n0", "call=1", "sync", "carried", "\"", "\\x00",
        "#", "=", ",", "\n", "n1 ", "micro=65535", "grid=1,1,1", "launch",
    };
    size_t length, at;

    switch (any(7)) {
    case 0: /* one bit */
        if (text->length)
            text->bytes[any(text->length)] ^= (uint8_t)(1u << any(8));
        break;
    case 1: { /* a word */
        const char *word = words[any(sizeof words / sizeof *words)];
        replace(text, any(text->length), any(4), word, strlen(word));
        break;
    }
    case 2: /* a line goes */
        at = line_of(text, &length);
        replace(text, at, length, "", 0);
        break;
    case 3: /* a line comes again */
        add_line(text, text);
        break;
    case 4: /* a line of another text */
        add_line(text, other);
        break;
    case 5: /* a digit becomes another */
        change_digit(text);
        break;
    default: /* the end goes */
        if (any(10) == 0)
            text->length = any(text->length);
    }
}

static struct text *list;
static size_t seeds;

static void
seeds_from(char **names, size_t count)
{
    list = calloc(count, sizeof *list);
    for (; list && seeds < count; seeds++)
        list[seeds] = read_text(names[seeds]);
}

/* The golden tests' graphs. */
static void
own_seeds(void)
{
    const char *source = getenv("srcdir");
    char pattern[4096];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/tests/ir/*.ir",
             source ? source : ".");
    if (glob(pattern, 0, NULL, &found) == 0) {
        seeds_from(found.gl_pathv, found.gl_pathc);
        globfree(&found);
    }
}

int
main(int argc, char **argv)
{
    int first = 1;
    double seconds = 2;
    unsigned long runs = 0;
    struct text text = { malloc(1 << 20), 0 };

    random_state = 88172645463325252u;
    if (argc > first && argv[first][0] >= '0' && argv[first][0] <= '9')
        seconds = atof(argv[first++]);
    if (argc > first && argv[first][0] >= '0' && argv[first][0] <= '9')
        random_state ^= strtoull(argv[first++], NULL, 10);
    if (argc > first)
        seeds_from(argv + first, (size_t)(argc - first));
    else
        own_seeds();
    if (!text.bytes || !seeds) {
        fprintf(stderr, "fuzz_ir: no text to begin with\n");
        return 99;
    }
    dcp_log_threshold = DCP_LOG_ERROR;
    for (uint64_t end = dcp_now_ns() + (uint64_t)(seconds * 1e9);
         dcp_now_ns() < end; runs++) {
        const struct text *seed = &list[any(seeds)];

        memcpy(text.bytes, seed->bytes, seed->length);
        text.length = seed->length;
        for (uint64_t n = any(6); n; n--)
            spoil(&text, &list[any(seeds)]);
        LLVMFuzzerTestOneInput(text.bytes, text.length);
    }
    printf("%lu runs\n", runs);
    for (size_t i = 0; i < seeds; i++)
        free(list[i].bytes);
    free(list);
    free(text.bytes);
    return 0;
}

#endif
