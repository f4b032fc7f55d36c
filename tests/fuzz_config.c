/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations of any bytes. Where the compiler brings no fuzzer, main reads
 * the files it is given, or makes some thousand mutations of a good one. */
#include "config.h"

#include "src/dc_config.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dcp_config config;
    char error[256];
    enum dcp_status status =
        dcp_config_parse((const char *)data, size, "fuzz", &config, error,
                         sizeof error, NULL, NULL);

    /* a fault has one message, on one line; what is good has none */
    if ((status == DCP_OK) != (error[0] == '\0') || strchr(error, '\n'))
        abort();
    return 0;
}

#ifndef FUZZ_LIBFUZZER

static const char seed[] =
    "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": "
    "{\"device\": \"cpu\"}},\n \"optimizer\": {\"type\": \"Adam\", \"params\": "
    "{\"lr\": 1e-3, \"x\\u00e4\": [1, {\"y\": null}]}},\n"
    " \"dcprel\": {\"memory_budget\": \"60%\", \"warmup\": 4, \"enabled\": "
    "true,\n  \"skip_passes\": [\"place\"], \"trace_stacks\": 8, "
    "\"segment_ms\": 0.5,\n  \"log\": \"info\"}}\n";

static uint32_t
random_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Some bytes replaced, doubled, or taken away. */
static size_t
mutate(char *text, size_t length, uint32_t *state)
{
    static const char letters[] = "{}[]\",:\\ \n0123456789eE+-.tfnu%aGiB\xff";

    for (unsigned n = random_next(state) % 8; n > 0 && length > 2; n--) {
        size_t at = random_next(state) % (length - 1);
        size_t some = 1 + random_next(state) % 12;

        if (some > length - at)
            some = length - at;
        switch (random_next(state) % 3) {
        case 0:
            text[at] = letters[random_next(state) % (sizeof letters - 1)];
            break;
        case 1:
            memmove(text + at, text + at + some, length - at - some);
            length -= some;
            break;
        default:
            memmove(text + at + some, text + at, length - at);
            length += some;
        }
    }
    return length;
}

static int
run_file(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *file = fopen(path, "rb");

    if (!file) {
        perror(path);
        return 1;
    }
    size_t length = fread(data, 1, sizeof data, file);
    fclose(file);
    return LLVMFuzzerTestOneInput(data, length);
}

int
main(int argc, char **argv)
{
    uint32_t state = 1;

    for (int i = 1; i < argc; i++)
        if (run_file(argv[i]))
            return 1;
    for (int i = 0; argc == 1 && i < 20000; i++) {
        char text[sizeof seed + 8 * 12];

        memcpy(text, seed, sizeof seed);
        size_t length = mutate(text, sizeof seed - 1, &state);
        /* a block of its own size, so that reading past it is seen */
        uint8_t *copy = malloc(length);
        if (!copy)
            return 1;
        memcpy(copy, text, length);
        LLVMFuzzerTestOneInput(copy, length);
        free(copy);
    }
    return 0;
}

#endif
