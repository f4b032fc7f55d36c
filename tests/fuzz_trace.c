/* SPDX-License-Identifier: Apache-2.0 */
/* Spoils traces and sees that the reader ends, says where and why, and that
 * every view can draw what is left in every format.
 *
 *     fuzz_trace [SECONDS [SEED]]
 *
 * The check words of records hide everything behind them, so they are made
 * right again after the spoiling (but for inputs whose last byte is odd). With
 * -DFUZZ_LIBFUZZER it is an entry for clang's -fsanitize=fuzzer. */
#include "config.h"

#include "src/clock.h"
#include "src/report.h"
#include "src/report_model.h"
#include "src/report_out.h"
#include "src/trace_read.h"
#include "tests/trace_scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(what)                                                            \
    do {                                                                       \
        if (!(what)) {                                                         \
            fprintf(stderr, "fuzz_trace: line %d: %s\n", __LINE__, #what);     \
            abort();                                                           \
        }                                                                      \
    } while (0)

/* Makes the check words right, as far as records follow each other. */
static void
mend(uint8_t *data, size_t size)
{
    struct dcp_trace_record record;

    for (size_t at = DCP_TRACE_HEAD; at + sizeof record <= size;) {
        memcpy(&record, data + at, sizeof record);
        if (record.bytes < sizeof record || record.bytes > size - at)
            return;
        record.check = dcp_trace_check(data + at + 8, record.bytes - 8);
        memcpy(data + at, &record, sizeof record);
        at += (record.bytes + (size_t)7) & ~(size_t)7;
    }
}

/* Reads to the end; the sum of what was seen. */
static uint64_t
read_all(struct dcp_trace_reader *reader)
{
    struct dcp_trace_event e;
    uint64_t sum = 0, last = 0;

    dcp_trace_reader_seek(reader, 0);
    while (dcp_trace_reader_next(reader, &e)) {
        CHECK((unsigned)e.kind < DCP_TRACE_KIND_COUNT);
        CHECK(e.offset > last && e.offset < dcp_trace_reader_size(reader));
        CHECK(e.payload[e.payload_bytes] == '\0');
        last = e.offset;
        sum = sum * 31 + e.time_ns + e.field[0] + e.payload_bytes +
              (e.payload_bytes ? (uint8_t)e.payload[e.payload_bytes - 1] : 0);
    }
    CHECK(dcp_trace_reader_end(reader) != DCP_TRACE_OPEN);
    CHECK(!*dcp_trace_reader_message(reader) ==
          (dcp_trace_reader_end(reader) == DCP_TRACE_WHOLE));
    return sum;
}

static void
draw(const char *path)
{
    struct dcp_report_options options = {
        .paths = {path, path}, .rank = -1, .top = 20};
    struct dcp_model *model = dcp_model_read(path, -1);
    static FILE *nowhere;

    if (!nowhere)
        nowhere = fopen("/dev/null", "w");
    CHECK(nowhere);
    for (int i = 0; dcp_outs[i]; i++) {
        struct dcp_out out = {.ops = dcp_outs[i], .file = nowhere};
        dcp_out_begin(&out, "title");
        dcp_view_summary(model, &out, &options);
        dcp_view_memory(model, &out, &options);
        dcp_view_ops(model, &out, &options);
        dcp_view_ir(model, &out, &options);
        if (i == 0)
            dcp_view_diff(&out, &options);
        dcp_out_end(&out);
    }
    dcp_model_destroy(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dcp_trace_reader *reader = NULL;
    char path[64], error[256] = "";
    int fd = memfd_create("trace", 0);
    uint8_t *copy = malloc(size + 1);

    dcp_quiet = true;
    CHECK(fd >= 0 && copy);
    memcpy(copy, data, size);
    if (size && !(data[size - 1] & 1))
        mend(copy, size);
    CHECK(write(fd, copy, size) == (ssize_t)size);
    free(copy);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (dcp_trace_reader_open(path, &reader, error, sizeof error)) {
        CHECK(!reader && !strncmp(error, path, strlen(path)));
    } else {
        CHECK(read_all(reader) == read_all(reader));
        dcp_trace_reader_close(reader);
        draw(path);
    }
    close(fd);
    return 0;
}

#ifndef FUZZ_LIBFUZZER

static uint64_t random_state = 88172645463325252u;

static uint64_t
any(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return below ? random_state % below : 0;
}

/* Most harm is done near the beginnings of records. */
static void
spoil(uint8_t *data, size_t size)
{
    static const uint64_t odd[] = {0, 1, 127, 255, 65535, UINT32_MAX,
                                   INT64_MAX, UINT64_MAX};
    size_t at = any(20) ? DCP_TRACE_HEAD + any(size - DCP_TRACE_HEAD)
                        : any(DCP_TRACE_HEAD);
    uint64_t value = odd[any(sizeof odd / sizeof *odd)];
    size_t bytes = (size_t)1 << any(4);

    switch (any(4)) {
    case 0:
        data[at] ^= (uint8_t)(1u << any(8));
        break;
    case 1:
        memcpy(data + at, &value, bytes < size - at ? bytes : size - at);
        break;
    case 2: { /* a piece of it elsewhere */
        size_t from = any(size), n = any(64) + 1;
        if (n > size - from)
            n = size - from;
        if (n > size - at)
            n = size - at;
        memmove(data + at, data + from, n);
        break;
    }
    default: /* digits of texts */
        for (size_t i = at; i < size && i < at + 200; i++)
            if (data[i] >= '0' && data[i] <= '9' && any(8) == 0)
                data[i] = (uint8_t)('0' + any(10));
    }
}

int
main(int argc, char **argv)
{
    static const char *const scenes[] = {"follow", "watch", "slow"};
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    unsigned long runs = 0;
    char *seeds[3];
    size_t sizes[3];

    if (argc > 2)
        random_state ^= strtoull(argv[2], NULL, 10);
    for (int i = 0; i < 3; i++) {
        FILE *file = open_memstream(&seeds[i], &sizes[i]);
        CHECK(file && trace_scene_write(scenes[i], file, 0, 1));
        CHECK(!fclose(file));
    }
    for (uint64_t end = dcp_now_ns() + (uint64_t)(seconds * 1e9);
         dcp_now_ns() < end; runs++) {
        uint64_t seed = any(3);
        size_t size = sizes[seed];
        uint8_t *data = malloc(size);
        CHECK(data);
        memcpy(data, seeds[seed], size);
        for (uint64_t n = any(8); n; n--)
            spoil(data, size);
        if (any(20) == 0)
            size = any(size);
        LLVMFuzzerTestOneInput(data, size);
        free(data);
    }
    printf("%lu runs\n", runs);
    for (int i = 0; i < 3; i++)
        free(seeds[i]);
    return 0;
}

#endif
