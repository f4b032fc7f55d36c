/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a small transformer on a text: accumulation, clipping, evaluation,
 * and the choices of rt.c. Prints the loss of each step and a hash of what it
 * has learned. */
#include "tests/programs/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct model model = {.layers = 2, .hidden = 32, .heads = 2,
                             .length = 32, .seed = 5};
static struct optim optim = {.kind = "adam", .rate = 1e-3f};
static int steps = 20, batch_size = 2, accum = 1, print_every = 1;
static int eval_every, times, shared_draw, quit_at = -1;
static const char *text = "", *save = "";

static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {"layers", RT_INT, &model.layers, "layers"},
    {"hidden", RT_INT, &model.hidden, "width"},
    {"heads", RT_INT, &model.heads, "attention heads"},
    {"seq", RT_INT, &model.length, "tokens of a sequence"},
    {"batch", RT_INT, &batch_size, "sequences of a batch"},
    {"flat", RT_FLAG, &model.flat, "all weights in one block"},
    {"rounded", RT_FLAG, &model.rounded, "linear layers see bf16 weights"},
    {"dropout", RT_FLOAT, &model.dropout, "chance"},
    {"opt", RT_TEXT, &optim.kind, "adam, adam_multi, sgd, lamb"},
    {"rate", RT_FLOAT, &optim.rate, "learning rate"},
    {"clip", RT_FLOAT, &optim.clip, "limit of the gradient's norm"},
    {"hostclip", RT_FLAG, &optim.host_clip, "the host reads the norm"},
    {"accum", RT_INT, &accum, "batches a step"},
    {"print-every", RT_INT, &print_every, "no waiting in between"},
    {"eval-every", RT_INT, &eval_every, "steps between evaluations"},
    {"same-data", RT_FLAG, &shared_draw, "the same batch in each step"},
    {"quit", RT_INT, &quit_at, "leave at this step, with work under way"},
    {"times", RT_FLAG, &times, "the device and each step's time, on stderr"},
    {"text", RT_TEXT, &text, "what to learn"},
    {"save", RT_TEXT, &save, "write weights and states here"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct data data;

/* ---- the ways to see a loss -------------------------------------------- */

static float *pinned;
static CUevent event;

static float
see(const float *loss)
{
    const char *mode = rt_sync_mode();
    float value;
    if (strcmp(mode, "item") == 0) {
        rt_read(&value, loss, sizeof value);
        return value;
    }
    if (pinned == NULL)
        pinned = rt_host_new(sizeof *pinned, 0);
    CU(cuMemcpyDtoHAsync, pinned, rt_ptr(loss), sizeof *pinned, rt_stream);
    if (strcmp(mode, "event") == 0) {
        if (event == NULL)
            event = rt_event_new(CU_EVENT_DISABLE_TIMING);
        CU(cuEventRecord, event, rt_stream);
        CU(cuEventSynchronize, event);
    } else if (strcmp(mode, "ctx") == 0) {
        CU(cuCtxSynchronize);
    } else {
        CU(cuStreamSynchronize, rt_stream);
    }
    return *pinned;
}

/* Losses that wait on the device until it is time to print them. */
static float **kept;
static int kept_count, kept_first;

static void
print_losses(void)
{
    for (int i = 0; i < kept_count; i++) {
        rt_print("step %d loss %a\n", kept_first + i, (double)see(kept[i]));
        rt_free(kept[i]);
    }
    kept_first += kept_count;
    kept_count = 0;
}

/* ---- training ---------------------------------------------------------- */

static float *
train_step(void)
{
    float *total = NULL;
    struct tape tape;
    model_zero_grad(&model);
    for (int k = 0; k < accum; k++) {
        float scale = 1.0f / (float)accum;
        struct batch batch = data_batch(&data, batch_size, model.length);
        float *loss = model_forward(&model, &batch, scale, &tape);
        model_backward(&model, &batch, scale, &tape);
        batch_free(&batch);
        if (total) {
            k_axpy(items(1), total, 1.0f, loss, 1);
            rt_free(loss);
        } else {
            total = loss;
        }
    }
    optim_step(&model, &optim);
    return total;
}

static void
evaluate(int step)
{
    struct data other = data;
    other.state = 77;
    struct batch batch = data_batch(&other, batch_size, model.length);
    float *loss = model_forward(&model, &batch, 1.0f, NULL);
    rt_print("step %d eval %a\n", step, (double)see(loss));
    rt_free(loss);
    batch_free(&batch);
}

static void
train(void)
{
    kept = calloc((size_t)print_every, sizeof *kept);
    if (kept == NULL)
        abort();
    double before = rt_seconds();
    for (int step = 0; step < steps; step++) {
        if (shared_draw)
            data.state = 7;
        kept[kept_count++] = train_step();
        if (step == quit_at)
            exit(0);
        if (kept_count == print_every)
            print_losses();
        if (eval_every && step % eval_every == eval_every - 1)
            evaluate(step);
        double now = rt_seconds();
        if (times)
            fprintf(stderr, "step %d ms %.3f\n", step, 1e3 * (now - before));
        before = now;
    }
    print_losses();
    free(kept);
}

static void
tell_device(void)
{
    char name[128] = "";
    CU(cuDeviceGetName, name, sizeof name, rt_device);
    fprintf(stderr, "device %s\n", name);
    fprintf(stderr, "weights %d\n", model.total);
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    data_open(&data, text, 7);
    model_open(&model);
    if (times)
        tell_device();
    train();
    model_print(&model, save);
    model_free(&model);
    data_free(&data);
    if (pinned)
        rt_host_free(pinned);
    if (event)
        rt_event_free(event);
    rt_end(0);
}
