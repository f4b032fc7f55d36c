/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/heap_step.h"

#include "intercept/heap.h"

#include "tests/fake_memory.h"

#include <stdlib.h>

enum { TENSORS = 1 << 16, LAYERS = 64, PARAMETERS = LAYERS * 12 + 4 };

struct tensor {
    CUdeviceptr base;
    size_t bytes;
    int model;
};

static struct tensor tensor[TENSORS];
static int spare[TENSORS], spare_count;
static size_t live, live_peak;

const struct heap_step_case heap_step_case[] = {
    { "transformer, fp32", 12, 768, 8, 1024, 50257, 4, 0, 0, 0 },
    { "transformer, bf16", 16, 2048, 4, 2048, 32000, 2, 0, 0, 0 },
    { "transformer, long", 24, 1024, 1, 8192, 32000, 2, 0, 0, 0 },
    { "transformer, small", 4, 256, 4, 128, 1000, 4, 0, 0, 0 },
    { "lengths vary", 12, 1024, 8, 1024, 32000, 2, 1, 0, 0 },
    { "recomputation", 32, 4096, 1, 4096, 32000, 2, 0, 1, 0 },
    { "recomputation, vary", 32, 2048, 2, 4096, 32000, 2, 1, 1, 0 },
    { "convolutions", 50, 64, 64, 224, 1000, 4, 0, 0, 1 },
    { "convolutions, vary", 50, 64, 64, 224, 1000, 2, 1, 0, 1 },
};
const int heap_step_cases = sizeof heap_step_case / sizeof *heap_step_case;

static int
get(size_t bytes)
{
    int t = spare[--spare_count];

    if (bytes == 0)
        bytes = 1;
    if (dcp_heap_alloc(bytes, fake_stream(1), false, &tensor[t].base))
        abort();
    tensor[t].bytes = bytes;
    tensor[t].model = caching_alloc(bytes);
    live += bytes;
    if (live_peak < live)
        live_peak = live;
    return t;
}

static void
put(int t)
{
    if (t < 0)
        return;
    fake.issued[1]++;
    if (dcp_heap_free(tensor[t].base, fake_stream(1)))
        abort();
    caching_free(tensor[t].model);
    live -= tensor[t].bytes;
    spare[spare_count++] = t;
}

/* A network as sizes: of each layer's parameters, of what it keeps for the
 * backward pass, and of what it needs for a moment. */

enum { KEPT = 9, FLEETING = 3 };

struct layer {
    size_t parameter[12], kept[KEPT], fleeting[FLEETING], grad;
    int parameters;
};

static void
transformer_layer(const struct heap_step_case *test, size_t tokens,
                  struct layer *layer)
{
    size_t w = (size_t)test->width, e = (size_t)test->element;
    size_t x = tokens * w * e;
    const size_t parameter[12] = { 3 * w * w, 3 * w, w * w, w, 4 * w * w, 4 * w,
                                   4 * w * w, w, w, w, w, w };
    const size_t kept[KEPT] = { x, tokens * 8, 3 * x, x, tokens * 64, x,
                                4 * x, 4 * x, x };

    layer->parameters = 12;
    for (int i = 0; i < 12; i++)
        layer->parameter[i] = parameter[i] * 4;
    for (int i = 0; i < KEPT; i++)
        layer->kept[i] = kept[i];
    layer->fleeting[0] = x;
    layer->fleeting[1] = 3 * x;
    layer->fleeting[2] = e == 2 ? 8 * w * w : x; /* weights cast for a moment */
    layer->grad = x;
}

static void
convolution_layer(const struct heap_step_case *test, int depth, size_t side,
                  struct layer *layer)
{
    int stage = depth * 4 / test->layers;
    size_t w = (size_t)test->width << stage, s = side / 4 >> stage;
    size_t x = (size_t)test->batch * w * s * s * (size_t)test->element;
    const size_t kept[KEPT] = { x, w * 4, w * 4, x, x, w * 4, 4 * x, w * 16,
                                4 * x };

    layer->parameters = 6;
    for (int i = 0; i < 6; i++)
        layer->parameter[i] = i % 2 ? w * 4 : w * w * (i == 2 ? 36 : 16);
    for (int i = 0; i < KEPT; i++)
        layer->kept[i] = kept[i];
    layer->fleeting[0] = x / 3 + 70000; /* workspace */
    layer->fleeting[1] = 4 * x;
    layer->fleeting[2] = w * w * 36;
    layer->grad = 4 * x;
}

static struct layer layer[LAYERS];

static void
shape(const struct heap_step_case *test, int step)
{
    size_t length = (size_t)test->length;

    if (test->vary)
        length -= length * ((size_t)step * 7 % 5) / 8;
    for (int i = 0; i < test->layers; i++)
        if (test->convolution)
            convolution_layer(test, i, length, &layer[i]);
        else
            transformer_layer(test, (size_t)test->batch * length, &layer[i]);
}

static int weight[PARAMETERS], gradient[PARAMETERS], state[2][PARAMETERS];
static size_t weight_bytes[PARAMETERS];
static int weights, has_states;

static void
build(const struct heap_step_case *test)
{
    size_t ends = (size_t)test->vocabulary * (size_t)test->width * 4;

    shape(test, 0);
    weights = has_states = 0;
    weight_bytes[weights++] = ends;
    for (int i = 0; i < test->layers; i++)
        for (int p = 0; p < layer[i].parameters; p++)
            weight_bytes[weights++] = layer[i].parameter[p];
    weight_bytes[weights++] = ends;
    for (int p = 0; p < weights; p++) {
        weight[p] = get(weight_bytes[p]);
        gradient[p] = -1;
    }
}

static void
layer_forward(const struct layer *l, int *kept)
{
    int moment[FLEETING];

    for (int k = 0; k < KEPT; k++) {
        kept[k] = get(l->kept[k]);
        if (k % 3 == 2)
            moment[k / 3] = get(l->fleeting[k / 3]);
        if (k % 3 == 2 && k > 2)
            put(moment[k / 3 - 1]);
    }
    put(moment[FLEETING - 1]);
}

static int
layer_backward(const struct layer *l, int *kept, int grad, int first)
{
    for (int k = KEPT - 1; k >= 0; k--) {
        int fleeting = get(l->fleeting[k % FLEETING]);
        int made = get(k % 4 == 0 ? l->grad : l->kept[k]);

        put(grad);
        grad = made;
        for (int p = k; p < l->parameters; p += KEPT)
            gradient[first + p] = get(l->parameter[p]);
        put(fleeting);
        put(kept[k]);
    }
    return grad;
}

static void
pass(const struct heap_step_case *test)
{
    static int kept[LAYERS][KEPT], input[LAYERS];
    size_t last = layer[test->layers - 1].grad;
    size_t tokens = test->convolution ? (size_t)test->batch
                                      : last / (size_t)test->width /
                                            (size_t)test->element;
    int first = 1, grad, logits, losses;

    for (int i = 0; i < test->layers; i++) {
        layer_forward(&layer[i], kept[i]);
        input[i] = get(layer[i].grad);
        for (int k = 0; test->recompute && k < KEPT; k++)
            put(kept[i][k]);
        first += layer[i].parameters;
    }
    logits = get(tokens * (size_t)test->vocabulary * (size_t)test->element);
    losses = get(tokens * (size_t)test->vocabulary * 4);
    grad = get(last);
    gradient[weights - 1] = get(weight_bytes[weights - 1]);
    put(losses);
    put(logits);
    for (int i = test->layers - 1; i >= 0; i--) {
        first -= layer[i].parameters;
        if (test->recompute)
            layer_forward(&layer[i], kept[i]);
        grad = layer_backward(&layer[i], kept[i], grad, first);
        put(input[i]);
    }
    gradient[0] = get(weight_bytes[0]);
    put(grad);
}

/* Adam over lists of tensors: temporaries of every size in the list. */
static void
update(void)
{
    static int moment[PARAMETERS];

    for (int p = 0; p < weights && !has_states; p++)
        for (int s = 0; s < 2; s++)
            state[s][p] = get(weight_bytes[p]);
    has_states = 1;
    for (int from = 0; from < weights; from += 100) {
        int to = from + 100 < weights ? from + 100 : weights;

        for (int p = from; p < to; p++)
            moment[p] = get(weight_bytes[p]);
        for (int p = from; p < to; p++)
            put(moment[p]);
    }
    for (int p = 0; p < weights; p++) {
        put(gradient[p]);
        gradient[p] = -1;
    }
}

void
heap_step_run(const struct heap_step_case *test,
              struct heap_step_result *result)
{
    enum { STEPS = 8 };
    struct dcp_heap_stats stats;
    long creates = 0, waits = 0;

    caching_start();
    live = live_peak = 0;
    for (spare_count = 0; spare_count < TENSORS; spare_count++)
        spare[spare_count] = TENSORS - 1 - spare_count;
    build(test);
    for (int step = 0; step < STEPS; step++) {
        creates = fake.creates;
        waits = fake.syncs;
        shape(test, step);
        pass(test);
        update();
    }
    dcp_heap_get_stats(&stats);
    *result = (struct heap_step_result){ live_peak, stats.reserved_peak,
                                         caching_peak(),
                                         fake.creates - creates,
                                         fake.syncs - waits };
}
