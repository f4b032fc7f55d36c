/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and update on the main thread, backward on a second one, as automatic
 * differentiation does it, and a third one that asks for events and makes
 * small copies of its own all the while. */
#include "tests/programs/model.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { BATCH = 2, LENGTH = 16 };

static int steps = 24, quiet;
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {"quiet", RT_FLAG, &quiet, "no third thread"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct pupil pupil;
static CUstream stream;
static CUevent step_done;

/* ---- the second thread: one backward pass after the other -------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct batch *wanted;
static struct tape tape;
static bool ended;

static void *
backward_main(void *arg)
{
    (void)arg;
    rt_thread(stream);
    pthread_mutex_lock(&lock);
    for (;;) {
        while (wanted == NULL && !ended)
            pthread_cond_wait(&changed, &lock);
        if (wanted == NULL)
            break;
        pthread_mutex_unlock(&lock);
        model_backward(&pupil.model, wanted, 1.0f, &tape);
        pthread_mutex_lock(&lock);
        wanted = NULL;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void
backward(struct batch *batch)
{
    pthread_mutex_lock(&lock);
    wanted = batch;
    pthread_cond_broadcast(&changed);
    while (wanted != NULL)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* ---- the third thread -------------------------------------------------- */

static atomic_bool stop;
static int wrong;

static void
small_copy(int *device, int round)
{
    int there = round, back = 0;
    CU(cuMemcpyHtoDAsync, rt_ptr(device), &there, sizeof there, rt_stream);
    there = -1;
    CU(cuMemcpyDtoHAsync, &back, rt_ptr(device), sizeof back, rt_stream);
    CU(cuStreamSynchronize, rt_stream);
    wrong += back != round;
}

static void *
watch_main(void *arg)
{
    CUstream own = arg;
    rt_thread(own);
    int *device = rt_alloc(sizeof *device);
    for (int round = 0; !atomic_load(&stop); round++) {
        CUresult result = cu.cuEventQuery(step_done);
        if (result != CUDA_ERROR_NOT_READY)
            rt_check(result, "cuEventQuery");
        small_copy(device, round);
        for (int i = 0; i < 50; i++)
            sched_yield();
    }
    rt_free(device);
    CU(cuStreamSynchronize, own);
    return NULL;
}

/* ---- the first --------------------------------------------------------- */

static void
train(int step)
{
    model_zero_grad(&pupil.model);
    struct batch batch = data_batch(&pupil.data, BATCH, LENGTH);
    float *loss = model_forward(&pupil.model, &batch, 1.0f, &tape);
    backward(&batch);
    batch_free(&batch);
    optim_step(&pupil.model, &pupil.optim);
    CU(cuEventRecord, step_done, stream);
    loss_print(step, loss);
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    stream = rt_stream;
    CUstream other = rt_stream_new(CU_STREAM_NON_BLOCKING);
    step_done = rt_event_new(CU_EVENT_DISABLE_TIMING);
    pupil_open(&pupil);
    pthread_t backwards, watcher;
    if (pthread_create(&backwards, NULL, backward_main, NULL) != 0 ||
        (!quiet && pthread_create(&watcher, NULL, watch_main, other) != 0))
        abort();
    for (int step = 0; step < steps; step++)
        train(step);
    atomic_store(&stop, true);
    pthread_mutex_lock(&lock);
    ended = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(backwards, NULL);
    if (!quiet)
        pthread_join(watcher, NULL);
    rt_print("wrong copies %d\n", wrong);
    pupil_free(&pupil);
    rt_event_free(step_done);
    rt_stream_free(other);
    rt_end(0);
}
