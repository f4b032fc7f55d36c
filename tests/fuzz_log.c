/* SPDX-License-Identifier: Apache-2.0 */
/* Spoils the text of recorded logs and sees that nothing but an error comes
 * of it: parsing takes memory in proportion to the text, what parses prints
 * and parses to the same text, and can be searched for iterations, lifted and
 * given roles. Some runs have memory run out on the way.
 *
 *     fuzz_log [SECONDS [SEED]] [FILE...]
 *
 * With -DFUZZ_LIBFUZZER it is an entry for clang's -fsanitize=fuzzer. */
#include "config.h"

#include "src/clock.h"
#include "src/log.h"

#include "capture/lift.h"
#include "capture/log.h"
#include "capture/period.h"
#include "capture/role.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(what)                                                            \
    do {                                                                       \
        if (!(what)) {                                                         \
            fprintf(stderr, "fuzz_log: line %d: %s\n", __LINE__, #what);       \
            abort();                                                           \
        }                                                                      \
    } while (0)

/* The text of a log, from malloc. */
static char *
print(const struct dcp_log *log, const struct dcp_access_table *access,
      size_t *bytes)
{
    int fd = memfd_create("log", MFD_CLOEXEC);

    CHECK(dcp_log_print(log, 0, log->call_count, DCP_LOG_PARAMS, access, fd) ==
          DCP_OK);
    *bytes = (size_t)lseek(fd, 0, SEEK_END);
    char *text = malloc(*bytes + 1);
    CHECK(text && pread(fd, text, *bytes, 0) == (ssize_t)*bytes);
    close(fd);
    return text;
}

static void
check_text(const struct dcp_log *log, const struct dcp_access_table *access)
{
    struct dcp_arena arena = {0};
    struct dcp_access_table again_access = {0};
    struct dcp_log again;
    uint32_t line;
    size_t bytes, again_bytes;
    char *text = print(log, access, &bytes);

    CHECK(dcp_log_parse(text, bytes, &arena, &again, &again_access, &line) ==
          DCP_OK);
    char *again_text = print(&again, &again_access, &again_bytes);
    CHECK(bytes == again_bytes && !memcmp(text, again_text, bytes));
    free(text);
    free(again_text);
    dcp_access_release(&again_access);
    dcp_arena_release(&arena);
}

static enum dcp_status
analyse(const struct dcp_log *log, const struct dcp_access_table *access)
{
    struct dcp_lift_options options = {.access = access};
    struct dcp_arena arena = {0};
    struct dcp_graph *graph = NULL;
    struct dcp_period p = {0};
    enum dcp_status status = dcp_period_find(log, NULL, &p, &arena);
    uint32_t first = 0, last = log->call_count;

    if (!status && p.iterations) {
        for (uint32_t i = 0; i < p.iterations; i++)
            CHECK(p.borders[i] < p.borders[i + 1] &&
                  p.shapes[i] < p.shape_count);
        first = p.borders[p.iterations - 1];
        last = p.borders[p.iterations];
    }
    if (!status)
        status = dcp_lift(log, first, last, &options, &graph);
    if (!status)
        status = dcp_role_fill(graph);
    dcp_graph_destroy(graph);
    dcp_arena_release(&arena);
    return status;
}

/* The whole way, while memory runs out at some point. */
static void
starve(const uint8_t *data, size_t size, long after)
{
    struct dcp_arena arena = {0};
    struct dcp_access_table access = {0};
    struct dcp_log log;
    uint32_t line;

    dcp_arena_fail_after(after);
    enum dcp_status status =
        dcp_log_parse((const char *)data, size, &arena, &log, &access, &line);
    if (!status)
        status = analyse(&log, &access);
    dcp_arena_fail_after(-1);
    CHECK(status == DCP_OK || status == DCP_NOMEM || status == DCP_SYNTAX);
    dcp_access_release(&access);
    dcp_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dcp_arena arena = {0};
    struct dcp_access_table access = {0};
    struct dcp_log log;
    uint32_t line = 0;

    if (size)
        starve(data, size, data[size / 2]);
    if (dcp_log_parse((const char *)data, size, &arena, &log, &access, &line) ==
        DCP_OK) {
        check_text(&log, &access);
        CHECK(analyse(&log, &access) == DCP_OK);
    } else {
        CHECK(line > 0);
    }
    CHECK(arena.total <= 256 * size + (4 << 20));
    dcp_access_release(&access);
    dcp_arena_release(&arena);
    return 0;
}

#ifndef FUZZ_LIBFUZZER

enum { TEXT_MAX = 1 << 16 };

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
    char bytes[TEXT_MAX];
    size_t length;
};

static void
add(struct text *text, const char *line)
{
    size_t n = strlen(line);

    if (text->length + n > TEXT_MAX)
        return;
    memcpy(text->bytes + text->length, line, n);
    text->length += n;
}

/* A few steps of a program of two parameters, their states and gradients. */
static void
make_seed(struct text *text)
{
    char line[64];
    unsigned block = 4;

    add(text, "dcprel-log 1\n"
              "kernel 1 params 0:8 8:8 16:8 name forward\n"
              "kernel 2 params 0:8 8:8 16:8 name backward\n"
              "kernel 3 unknown name update # a comment\n"
              "access 1 0=r 8=r 16=w\naccess 2 0=r 8=rw\n");
    for (unsigned i = 0; i < 28; i++) {
        snprintf(line, sizeof line, "buffer %u %u\n", i, 256u << i % 8);
        add(text, line);
    }
    for (unsigned step = 0; step < 6; step++, block += 4) {
        static const char *const lines[] = {
            "alloc 0.0 b%u\n",
            "copy 0.0 64 pageable>device 0@%u\n",
            "launch 0.0 k1 12x4/128 m64 a1f 0@0 8@%u =00ff\n",
            "launch 0.0 k1 1/1 0@1 8@%u\n",
            "record 0.0 e0 f1\ndepend 1.0 e0 f0\n",
            "launch 1.0 k2 1/1 0@1 8@%u+16\n",
            "launch 0.1 k2 1/1 0@0 8@%u\n",
            "fill 0.0 16x1/4 v0 0@%u\n",
            "launch 0.0 k3 1/1 sync 0@0 8@2 16@%u\n",
            "launch 0.0 k3 1/1 0@1 8@3 16@%u\n",
            "copy 0.0 4 device>pinned sync 8@%u\n",
            "wait -.0\nopaque 0.0\n",
            "free 0.0 b%u\n",
        };
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
            snprintf(line, sizeof line, lines[i], block);
            add(text, line);
        }
    }
}

static void
replace(struct text *text, size_t at, size_t gone, const char *with,
        size_t length)
{
    if (at > text->length)
        at = text->length;
    if (gone > text->length - at)
        gone = text->length - at;
    if (text->length - gone + length > TEXT_MAX)
        return;
    memmove(text->bytes + at + length, text->bytes + at + gone,
            text->length - at - gone);
    memmove(text->bytes + at, with, length);
    text->length += length - gone;
}

/* The beginning of some line, and its length with its end. */
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
spoil(struct text *text)
{
    static const char *const words[] = {
        "0@0",
        "8@1+16",
        "16@3",
        "k1",
        "k3",
        "b4",
        "e0",
        "f1",
        "4294967295",
        "18446744073709551615",
        "sync",
        "-.0",
        "65535",
        "device>device",
        "x",
        "/",
        "=ff",
        "#",
        "\n",
        " ",
        "alloc 0.0 b5\n",
        "free 0.0 b0\n",
        "m",
        "a",
    };
    char piece[256];
    size_t length, other, at = line_of(text, &length);

    switch (any(6)) {
    case 0: /* one bit */
        if (text->length)
            text->bytes[any(text->length)] ^= (char)(1u << any(7));
        break;
    case 1: { /* a word */
        const char *word = words[any(sizeof words / sizeof *words)];
        replace(text, any(text->length), any(4), word, strlen(word));
        break;
    }
    case 2: /* a line goes */
        replace(text, at, length, "", 0);
        break;
    case 3: /* a line comes again somewhere */
        if (length > sizeof piece)
            break;
        memcpy(piece, text->bytes + at, length);
        replace(text, line_of(text, &other), 0, piece, length);
        break;
    case 4: /* a digit becomes another */
        for (size_t i = at; i < at + length; i++)
            if (text->bytes[i] >= '0' && text->bytes[i] <= '9' && !any(3))
                text->bytes[i] = (char)('0' + any(10));
        break;
    default: /* the end goes */
        if (any(10) == 0)
            text->length = any(text->length);
    }
}

static void
read_seed(struct text *text, const char *name)
{
    FILE *file = fopen(name, "rb");

    if (!file) {
        fprintf(stderr, "fuzz_log: cannot read %s\n", name);
        exit(99);
    }
    text->length = fread(text->bytes, 1, TEXT_MAX, file);
    fclose(file);
}

int
main(int argc, char **argv)
{
    static struct text seed, text;
    unsigned long runs = 0;
    double seconds = 2;
    int first = 1;

    random_state = 88172645463325252u;
    if (argc > first && argv[first][0] >= '0' && argv[first][0] <= '9')
        seconds = atof(argv[first++]);
    if (argc > first && argv[first][0] >= '0' && argv[first][0] <= '9')
        random_state ^= strtoull(argv[first++], NULL, 10);
    dcp_log_threshold = DCP_LOG_ERROR;
    for (uint64_t end = dcp_now_ns() + (uint64_t)(seconds * 1e9);
         dcp_now_ns() < end; runs++) {
        if (runs % 1000 == 0) {
            seed.length = 0;
            if (argc > first)
                read_seed(&seed, argv[first + any((uint64_t)(argc - first))]);
            else
                make_seed(&seed);
        }
        text = seed;
        for (uint64_t n = any(6); n; n--)
            spoil(&text);
        LLVMFuzzerTestOneInput((const uint8_t *)text.bytes, text.length);
    }
    printf("%lu runs\n", runs);
    return 0;
}

#endif
