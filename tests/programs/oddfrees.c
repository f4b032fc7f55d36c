/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that end in other ways than they did before: by the other kind of
 * free, on another stream, twice, in their middle, while a capture is open, by
 * another thread, or not at all until much later. */
#include "tests/programs/model.h"

#include <pthread.h>
#include <stdlib.h>

enum { COUNT = 3000 };

static int steps = 45;
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct pupil pupil;
static CUstream main_stream, other;
static CUevent event;

static float *
block(float value)
{
    CUdeviceptr at = 0;
    CU(cuMemAllocAsync, &at, COUNT * sizeof(float), main_stream);
    k_fill(items(COUNT), (float *)at, value, COUNT);
    return (float *)at;
}

static void
show(const char *what, const float *at)
{
    float value;
    rt_read(&value, at + COUNT / 2, sizeof value);
    rt_print(" %s %a", what, (double)value);
}

static void
free_plainly(float *at)
{
    CU(cuMemFreeAsync, rt_ptr(at), main_stream);
}

/* The same order of frees by another kind of free. */
static void
free_waiting(float *at)
{
    CU(cuMemFree, rt_ptr(at));
}

static void
free_on_other(float *at)
{
    CU(cuEventRecord, event, main_stream);
    CU(cuStreamWaitEvent, other, event, 0);
    CU(cuMemsetD32Async, rt_ptr(at), 0x3f800000, COUNT, other);
    CU(cuMemFreeAsync, rt_ptr(at), other);
}

static void
free_twice(float *at)
{
    CU(cuMemFreeAsync, rt_ptr(at), main_stream);
    rt_print(" again %d", (int)cu.cuMemFreeAsync(rt_ptr(at), main_stream));
    rt_print(" %d", (int)cu.cuMemFree(rt_ptr(at)));
}

static void
free_middle(float *at)
{
    rt_print(" middle %d",
             (int)cu.cuMemFreeAsync(rt_ptr(at) + 512, main_stream));
    rt_print(" %d", (int)cu.cuMemFree(rt_ptr(at) + 4));
    CU(cuMemFreeAsync, rt_ptr(at), main_stream);
}

static void
free_in_capture(float *at)
{
    CUgraph graph = NULL;
    CU(cuStreamBeginCapture, other, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CU(cuMemsetD32Async, rt_ptr(pupil.model.last_norm.at), 0, 1, other);
    CU(cuMemFreeAsync, rt_ptr(at), main_stream);
    float *more = block(9.0f);
    CU(cuMemFreeAsync, rt_ptr(more), main_stream);
    CU(cuStreamEndCapture, other, &graph);
    CU(cuGraphDestroy, graph);
}

static void *
free_main(void *at)
{
    rt_thread(main_stream);
    CU(cuMemFreeAsync, rt_ptr(at), main_stream);
    return NULL;
}

static void
free_in_thread(float *at)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, free_main, at) != 0)
        abort();
    pthread_join(thread, NULL);
}

static float *late[2];

static void
free_late(float *at)
{
    for (int i = 0; i < 2; i++)
        if (late[i] == NULL) {
            late[i] = at;
            return;
        }
    for (int i = 0; i < 2; i++) {
        show("late", late[i]);
        free_plainly(late[i]);
        late[i] = NULL;
    }
    free_plainly(at);
}

static void (*const ways[])(float *) = {
    free_waiting, free_on_other, free_twice,    free_middle,
    free_in_capture, free_in_thread, free_late,
};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* Two blocks that take turns in dying first, in one of the ways. */
static void
odd(int step)
{
    float *a = block((float)step), *b = block((float)step + 0.5f);
    void (*way)(float *) = free_plainly;
    if (step >= 12 && step % 3 == 2)
        way = ways[step / 3 % WAYS];
    k_add(items(COUNT), b, b, a, COUNT);
    rt_print("step %d", step);
    show("b", b);
    way(a);
    float *c = block(0.25f);
    k_add(items(COUNT), c, c, b, COUNT);
    free_plainly(b);
    show("c", c);
    free_plainly(c);
    rt_print("\n");
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    main_stream = rt_stream;
    other = rt_stream_new(CU_STREAM_NON_BLOCKING);
    event = rt_event_new(CU_EVENT_DISABLE_TIMING);
    pupil_open(&pupil);
    for (int step = 0; step < steps; step++) {
        float *loss = pupil_step(&pupil);
        odd(step);
        loss_print(step, loss);
    }
    for (int i = 0; i < 2; i++)
        if (late[i])
            free_plainly(late[i]);
    pupil_free(&pupil);
    rt_stream_free(other);
    rt_event_free(event);
    rt_end(0);
}
