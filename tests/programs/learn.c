/* SPDX-License-Identifier: Apache-2.0 */
/* A small model that learns, for programs whose point is another one. */
#include "tests/programs/model.h"

#include <string.h>

enum { BATCH = 2, LENGTH = 16 };

void
pupil_open(struct pupil *p)
{
    memset(p, 0, sizeof *p);
    p->model.layers = 1;
    p->model.hidden = 16;
    p->model.heads = 2;
    p->model.length = LENGTH;
    p->model.seed = 5;
    p->optim.kind = "adam";
    p->optim.rate = 1e-3f;
    data_open(&p->data, NULL, 7);
    model_open(&p->model);
}

void
pupil_free(struct pupil *p)
{
    model_print(&p->model, NULL);
    model_free(&p->model);
    data_free(&p->data);
}

float *
pupil_step(struct pupil *p)
{
    struct tape tape;
    model_zero_grad(&p->model);
    struct batch batch = data_batch(&p->data, BATCH, LENGTH);
    float *loss = model_forward(&p->model, &batch, 1.0f, &tape);
    model_backward(&p->model, &batch, 1.0f, &tape);
    batch_free(&batch);
    optim_step(&p->model, &p->optim);
    return loss;
}

void
loss_print(int step, float *loss)
{
    float value;
    rt_read(&value, loss, sizeof value);
    rt_print("step %d loss %a\n", step, (double)value);
    rt_free(loss);
}
