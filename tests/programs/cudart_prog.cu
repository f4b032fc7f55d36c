/* SPDX-License-Identifier: Apache-2.0 */
/* A program as most are: <<<>>> launches on the legacy stream, the runtime
 * linked statically (nvcc -cudart static), cudaMalloc at the start and
 * cudaMallocAsync in the loop. It learns the next byte of a text with one
 * hidden layer, and needs a GPU. */
#include "tests/programs/kernels.cu"

#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, HIDDEN = 64, BATCH = 64 };

#define CHECK(call) check(call, #call)

static void
check(cudaError_t result, const char *call)
{
    if (result == cudaSuccess)
        return;
    printf("error %.*s %d\n", (int)strcspn(call, "("), call, (int)result);
    exit(3);
}

struct layer {
    int count;
    float *at, *grad, *first, *second;
};

static struct layer token, head;
static unsigned char text[1 << 16];
static size_t text_bytes;
static unsigned long long state = 7;

static unsigned
draw(void)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33);
}

static void
layer_open(struct layer *layer, int count)
{
    size_t bytes = count * sizeof(float);
    float *values = (float *)malloc(bytes);
    for (int i = 0; i < count; i++)
        values[i] = (float)(draw() % 1000) / 4000.0f - 0.125f;
    layer->count = count;
    CHECK(cudaMalloc((void **)&layer->at, bytes));
    CHECK(cudaMalloc((void **)&layer->grad, bytes));
    CHECK(cudaMalloc((void **)&layer->first, bytes));
    CHECK(cudaMalloc((void **)&layer->second, bytes));
    CHECK(cudaMemcpy(layer->at, values, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(layer->first, 0, bytes));
    CHECK(cudaMemset(layer->second, 0, bytes));
    free(values);
}

static int
blocks(int n)
{
    return (n + 127) / 128;
}

static float *
temporary(int count)
{
    float *at;
    CHECK(cudaMallocAsync((void **)&at, count * sizeof(float), 0));
    return at;
}

static void
update(struct layer *layer, int step)
{
    adamw<<<blocks(layer->count), 128>>>(
        layer->at, layer->grad, layer->first, layer->second, layer->count,
        1e-2f, 0.9f, 0.98f, 1e-8f, 0.0f, 1.0f - powf(0.9f, (float)step),
        1.0f - powf(0.98f, (float)step));
}

/* x = token[byte]; y = gelu(x); logits = y head^T; returns the loss */
static float
train(int step)
{
    int host[2 * BATCH], *data;
    for (int i = 0; i < BATCH; i++) {
        size_t at = draw() % (text_bytes - 1);
        host[i] = text[at];
        host[BATCH + i] = text[at + 1];
    }
    CHECK(cudaMallocAsync((void **)&data, sizeof host, 0));
    CHECK(cudaMemcpyAsync(data, host, sizeof host, cudaMemcpyHostToDevice, 0));
    memset(host, 0xff, sizeof host);
    int n = BATCH * HIDDEN, m = BATCH * BYTES;
    float *x = temporary(n), *y = temporary(n), *logits = temporary(m);
    float *chance = temporary(m), *losses = temporary(BATCH);
    float *mean_loss = temporary(1), *none = temporary(HIDDEN), loss;
    CHECK(cudaMemsetAsync(none, 0, HIDDEN * sizeof(float), 0));
    embed<<<blocks(n), 128>>>(x, data, token.at, none, BATCH, 1, HIDDEN);
    gelu<<<blocks(n), 128>>>(y, x, n);
    matmul<<<blocks(m), 128>>>(logits, y, head.at, NULL, BATCH, BYTES, HIDDEN,
                               HIDDEN, 1, HIDDEN, 1, 0);
    cross_entropy<<<BATCH, 32>>>(losses, chance, logits, data + BATCH, BYTES);
    mean<<<1, 32>>>(mean_loss, losses, 1.0f / BATCH, BATCH);
    cross_entropy_grad<<<blocks(m), 128>>>(logits, chance, data + BATCH,
                                           1.0f / BATCH, BATCH, BYTES);
    matmul<<<blocks(head.count), 128>>>(head.grad, logits, y, NULL, BYTES,
                                        HIDDEN, BATCH, 1, BYTES, 1, HIDDEN, 0);
    matmul<<<blocks(n), 128>>>(y, logits, head.at, NULL, BATCH, HIDDEN, BYTES,
                               BYTES, 1, 1, HIDDEN, 0);
    gelu_grad<<<blocks(n), 128>>>(x, y, x, n);
    embed_token_grad<<<blocks(token.count), 128>>>(token.grad, x, data, BATCH,
                                                   HIDDEN, BYTES, 0);
    update(&token, step);
    update(&head, step);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&loss, mean_loss, sizeof loss, cudaMemcpyDeviceToHost));
    void *all[] = {data, x, y, logits, chance, losses, mean_loss, none};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        CHECK(cudaFreeAsync(all[i], 0));
    return loss;
}

static unsigned long long
hash_of(const struct layer *layer, unsigned long long hash)
{
    size_t bytes = layer->count * sizeof(float);
    unsigned char *host = (unsigned char *)malloc(bytes);
    CHECK(cudaMemcpy(host, layer->at, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ host[i]) * 0x100000001b3ull;
    free(host);
    return hash;
}

static void
layer_free(struct layer *layer)
{
    CHECK(cudaFree(layer->at));
    CHECK(cudaFree(layer->grad));
    CHECK(cudaFree(layer->first));
    CHECK(cudaFree(layer->second));
}

int
main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 40;
    FILE *file = fopen("/usr/share/common-licenses/GPL-3", "rb");
    if (file) {
        text_bytes = fread(text, 1, sizeof text, file);
        fclose(file);
    }
    for (; text_bytes < 4096; text_bytes++)
        text[text_bytes] = "what comes next? "[text_bytes % 17];
    layer_open(&token, BYTES * HIDDEN);
    layer_open(&head, BYTES * HIDDEN);
    for (int step = 0; step < steps; step++)
        printf("step %d loss %a\n", step, (double)train(step + 1));
    printf("params %016llx\n",
           hash_of(&head, hash_of(&token, 0xcbf29ce484222325ull)));
    layer_free(&token);
    layer_free(&head);
    return 0;
}
