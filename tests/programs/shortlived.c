/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and processes that end in the middle of an iteration: the backward
 * pass of each step is made by a thread of its own, which leaves its calls
 * behind and ends; every few steps a child is forked between two launches. The
 * last step is left half done. */
#include "tests/programs/model.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 2, LENGTH = 16 };

static int steps = 24, quit;
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {"quit", RT_FLAG, &quit, "leave from a thread, in the middle"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct pupil pupil;
static CUstream stream;
static struct batch batch;
static struct tape tape;

static void *
backward_main(void *unused)
{
    (void)unused;
    rt_thread(stream);
    model_backward(&pupil.model, &batch, 1.0f, &tape);
    return NULL;
}

static void *
quit_main(void *unused)
{
    (void)unused;
    rt_thread(stream);
    model_forward(&pupil.model, &batch, 1.0f, &tape);
    exit(0);
}

static void
in_thread(void *(*body)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL) != 0)
        abort();
    pthread_join(thread, NULL);
}

static void
fork_child(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        exit((int)cu.cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED);
    if (child < 0 || waitpid(child, &status, 0) != child)
        rt_end(4);
    rt_print("child %d\n", status);
}

static void
train(int step)
{
    model_zero_grad(&pupil.model);
    batch = data_batch(&pupil.data, BATCH, LENGTH);
    float *loss = model_forward(&pupil.model, &batch, 1.0f, &tape);
    if (step % 5 == 4)
        fork_child();
    in_thread(backward_main);
    batch_free(&batch);
    optim_step(&pupil.model, &pupil.optim);
    loss_print(step, loss);
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    stream = rt_stream;
    pupil_open(&pupil);
    for (int step = 0; step < steps; step++)
        train(step);
    if (quit) {
        batch = data_batch(&pupil.data, BATCH, LENGTH);
        in_thread(quit_main);
    }
    pupil_free(&pupil);
    rt_end(0);
}
