/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of bytes of a text. */
#include "tests/programs/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
read_text(struct data *data, const char *path)
{
    FILE *file = path && *path ? fopen(path, "rb") : NULL;
    if (file == NULL)
        return false;
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    data->text = malloc(bytes > 0 ? (size_t)bytes : 1);
    data->bytes = data->text ? fread(data->text, 1, (size_t)bytes, file) : 0;
    fclose(file);
    return data->bytes > 4096;
}

static void
make_text(struct data *data)
{
    static const char words[][8] = {"the ", "a ", "of ", "program ", "and ",
                                    "copy ", "to ", "you "};
    uint64_t state = 3;
    free(data->text);
    data->text = malloc(65536);
    if (data->text == NULL)
        abort();
    for (data->bytes = 0; data->bytes < 65536; data->bytes++) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        data->text[data->bytes] =
            (unsigned char)words[data->bytes / 6 * 5 % 8][state >> 62];
    }
}

void
data_open(struct data *data, const char *path, uint64_t seed)
{
    memset(data, 0, sizeof *data);
    data->state = seed;
    if (path && *path && !read_text(data, path)) {
        fprintf(stderr, "cannot read %s\n", path);
        rt_end(2);
    }
    if (data->bytes == 0 &&
        !read_text(data, "/usr/share/common-licenses/GPL-3") &&
        !read_text(data, getenv("DCPREL_TEXT")))
        make_text(data);
}

void
data_free(struct data *data)
{
    free(data->text);
    data->text = NULL;
}

void
data_draw(struct data *data, int *tokens, int *targets, int count, int length)
{
    for (int i = 0; i < count; i++) {
        data->state =
            data->state * 6364136223846793005ull + 1442695040888963407ull;
        size_t at = (data->state >> 33) % (data->bytes - (size_t)length - 1);
        for (int j = 0; j < length; j++) {
            tokens[i * length + j] = data->text[at + (size_t)j];
            targets[i * length + j] = data->text[at + (size_t)j + 1];
        }
    }
}

struct batch
data_batch(struct data *data, int count, int length)
{
    struct batch batch = {NULL, NULL, count, length};
    size_t bytes = (size_t)count * (size_t)length * sizeof(int);
    int *host = malloc(2 * bytes);
    if (host == NULL)
        abort();
    data_draw(data, host, host + count * length, count, length);
    batch.tokens = rt_alloc(bytes);
    rt_upload(batch.tokens, host, bytes);
    batch.targets = rt_alloc(bytes);
    rt_upload(batch.targets, host + count * length, bytes);
    memset(host, 0xff, 2 * bytes);
    free(host);
    return batch;
}

void
batch_free(struct batch *batch)
{
    rt_free(batch->tokens);
    rt_free(batch->targets);
}
