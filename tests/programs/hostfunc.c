/* SPDX-License-Identifier: Apache-2.0 */
/* Host functions and stream callbacks within the iteration. Each call has data
 * of its own, freed by the function it is for; what a host function writes is
 * read by the copy after it. */
#include "tests/programs/model.h"

#include <stdatomic.h>
#include <stdlib.h>

static int steps = 24;
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct pupil pupil;
static float *loss_host, *feed_host, *feed;
static atomic_int functions, callbacks, failures;
static float history[1024];

struct note {
    int step;
    float *from;
};

static struct note *
note_new(int step, float *from)
{
    struct note *note = malloc(sizeof *note);
    if (note == NULL)
        abort();
    *note = (struct note){step, from};
    return note;
}

static void CUDA_CB
remember(void *data)
{
    struct note *note = data;
    history[note->step % 1024] = *note->from;
    atomic_fetch_add(&functions, 1);
    note->step = -1;
    free(note);
}

static void CUDA_CB
make_feed(void *data)
{
    struct note *note = data;
    for (int i = 0; i < 16; i++)
        feed_host[i] = 1.0f + 0.001f * (float)(note->step + i);
    atomic_fetch_add(&functions, 1);
    note->step = -1;
    free(note);
}

static void CUDA_CB
called_back(CUstream stream, CUresult status, void *data)
{
    struct note *note = data;
    (void)stream;
    atomic_fetch_add(&failures, status != CUDA_SUCCESS);
    atomic_fetch_add(&callbacks, note->step + 1);
    free(note);
}

static void
train(int step)
{
    CU(cuLaunchHostFunc, rt_stream, make_feed, note_new(step, NULL));
    CU(cuMemcpyHtoDAsync, rt_ptr(feed), feed_host, 16 * sizeof(float),
       rt_stream);
    float *loss = pupil_step(&pupil);
    CU(cuMemcpyDtoHAsync, loss_host, rt_ptr(loss), sizeof(float), rt_stream);
    CU(cuLaunchHostFunc, rt_stream, remember, note_new(step, loss_host));
    k_axpy(items(16), pupil.model.last_norm.at, 0.01f, feed, 16);
    CU(cuStreamAddCallback, rt_stream, called_back, note_new(step, NULL), 0);
    rt_free(loss);
    CU(cuStreamSynchronize, rt_stream);
    rt_print("step %d loss %a functions %d callbacks %d failures %d\n", step,
             (double)history[step % 1024], atomic_load(&functions),
             atomic_load(&callbacks), atomic_load(&failures));
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    pupil_open(&pupil);
    loss_host = rt_host_new(sizeof(float), 0);
    feed_host = rt_host_new(16 * sizeof(float), 0);
    feed = rt_alloc(16 * sizeof(float));
    for (int step = 0; step < steps; step++)
        train(step);
    rt_free(feed);
    pupil_free(&pupil);
    rt_host_free(loss_host);
    rt_host_free(feed_host);
    rt_end(0);
}
