/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of several sequence lengths, dropout, and an evaluation every ten
 * steps: the shape of the iteration changes while the program runs. */
#include "tests/programs/model.h"

static struct model model = {.layers = 2, .hidden = 16, .heads = 2,
                             .length = 32, .dropout = 0.1f, .seed = 5};
static struct optim optim = {.kind = "adam_multi", .rate = 1e-3f};
static int steps = 60, irregular;

static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {"layers", RT_INT, &model.layers, "layers"},
    {"hidden", RT_INT, &model.hidden, "width"},
    {"opt", RT_TEXT, &optim.kind, "adam, adam_multi, sgd, lamb"},
    {"irregular", RT_FLAG, &irregular, "lengths without any order"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct data data;

static int
length_of(int step)
{
    static const int lengths[] = {16, 24, 32};
    if (irregular)
        return 8 + step * step * 7 % 25;
    return lengths[step % 3];
}

static void
step_once(int step)
{
    struct tape tape;
    model_zero_grad(&model);
    struct batch batch = data_batch(&data, 2, length_of(step));
    float *loss = model_forward(&model, &batch, 1.0f, &tape);
    model_backward(&model, &batch, 1.0f, &tape);
    batch_free(&batch);
    optim_step(&model, &optim);
    loss_print(step, loss);
}

static void
evaluate(int step)
{
    struct batch batch = data_batch(&data, 2, 16);
    float value, *loss = model_forward(&model, &batch, 1.0f, NULL);
    rt_read(&value, loss, sizeof value);
    rt_print("step %d eval %a\n", step, (double)value);
    rt_free(loss);
    batch_free(&batch);
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    data_open(&data, NULL, 11);
    model_open(&model);
    for (int step = 0; step < steps; step++) {
        step_once(step);
        if (step % 10 == 9)
            evaluate(step);
    }
    model_print(&model, NULL);
    model_free(&model);
    data_free(&data);
    rt_end(0);
}
