/* SPDX-License-Identifier: Apache-2.0 */
/* A copy stream beside the compute stream, joined by events: the next batch
 * goes up while a step runs, its memory is allocated and freed on the copy
 * stream, and the loss comes down there, to be looked at one step later. */
#include "tests/programs/model.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, LENGTH = 16, COUNT = BATCH * LENGTH };

static int steps = 24;
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {NULL, RT_FLAG, NULL, NULL},
};

/* What one of the two batches in flight needs. */
struct lane {
    int *host; /* pinned: tokens and targets */
    float *loss_host;
    float *loss;
    struct batch batch;
    CUevent uploaded, used, seen;
};

static struct pupil pupil;
static struct lane lanes[2];
static CUstream compute, copy, side;
static CUevent forked, joined;
static float *side_sum;

static void
lane_open(struct lane *lane)
{
    lane->host = rt_host_new(2 * COUNT * sizeof(int), 0);
    lane->loss_host = rt_host_new(sizeof(float), 0);
    lane->uploaded = rt_event_new(CU_EVENT_DISABLE_TIMING);
    lane->used = rt_event_new(CU_EVENT_DISABLE_TIMING);
    lane->seen = rt_event_new(CU_EVENT_DISABLE_TIMING);
}

static void
lane_free(struct lane *lane)
{
    rt_host_free(lane->host);
    rt_host_free(lane->loss_host);
    rt_event_free(lane->uploaded);
    rt_event_free(lane->used);
    rt_event_free(lane->seen);
}

static void
upload(struct lane *lane)
{
    rt_stream = copy;
    data_draw(&pupil.data, lane->host, lane->host + COUNT, BATCH, LENGTH);
    lane->batch = (struct batch){rt_alloc(COUNT * sizeof(int)),
                                 rt_alloc(COUNT * sizeof(int)), BATCH, LENGTH};
    rt_upload(lane->batch.tokens, lane->host, COUNT * sizeof(int));
    rt_upload(lane->batch.targets, lane->host + COUNT, COUNT * sizeof(int));
    CU(cuEventRecord, lane->uploaded, copy);
    rt_stream = compute;
}

/* A third stream sums up a gradient while the optimizer gets ready. */
static void
watch_gradient(void)
{
    struct weight *w = &pupil.model.head;
    int parts = (w->count + LIST_CHUNK - 1) / LIST_CHUNK;
    CU(cuEventRecord, forked, compute);
    CU(cuStreamWaitEvent, side, forked, 0);
    rt_stream = side;
    float *part = rt_alloc((size_t)parts * sizeof(float));
    k_square_sum(rows((size_t)parts), part, w->grad, 0, w->count);
    k_mean(rows(1), side_sum, part, 1.0f, parts);
    rt_free(part);
    CU(cuEventRecord, joined, side);
    rt_stream = compute;
    CU(cuStreamWaitEvent, compute, joined, 0);
}

static void
train(struct lane *lane)
{
    struct tape tape;
    CU(cuStreamWaitEvent, compute, lane->uploaded, 0);
    model_zero_grad(&pupil.model);
    lane->loss = model_forward(&pupil.model, &lane->batch, 1.0f, &tape);
    model_backward(&pupil.model, &lane->batch, 1.0f, &tape);
    watch_gradient();
    optim_step(&pupil.model, &pupil.optim);
    CU(cuEventRecord, lane->used, compute);
}

/* Frees what the step has used, and fetches the loss, on the copy stream. */
static void
finish(struct lane *lane)
{
    rt_stream = copy;
    CU(cuStreamWaitEvent, copy, lane->used, 0);
    batch_free(&lane->batch);
    CU(cuMemcpyDtoHAsync, lane->loss_host, rt_ptr(lane->loss), sizeof(float),
       copy);
    rt_free(lane->loss);
    CU(cuEventRecord, lane->seen, copy);
    rt_stream = compute;
}

static void
print_loss(struct lane *lane, int step)
{
    CU(cuEventSynchronize, lane->seen);
    rt_print("step %d loss %a\n", step, (double)*lane->loss_host);
}

static void
run(void)
{
    upload(&lanes[0]);
    for (int step = 0; step < steps; step++) {
        struct lane *lane = &lanes[step % 2];
        train(lane);
        if (step > 0)
            print_loss(&lanes[(step + 1) % 2], step - 1);
        finish(lane);
        upload(&lanes[(step + 1) % 2]);
    }
    print_loss(&lanes[(steps + 1) % 2], steps - 1);
    struct lane *last = &lanes[steps % 2];
    CU(cuEventSynchronize, last->uploaded);
    batch_free(&last->batch);
    float sum;
    rt_read(&sum, side_sum, sizeof sum);
    rt_print("side %a\n", (double)sum);
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    compute = rt_stream;
    copy = rt_stream_new(CU_STREAM_NON_BLOCKING);
    side = rt_stream_new(CU_STREAM_NON_BLOCKING);
    forked = rt_event_new(CU_EVENT_DISABLE_TIMING);
    joined = rt_event_new(CU_EVENT_DISABLE_TIMING);
    pupil_open(&pupil);
    side_sum = rt_alloc(sizeof(float));
    CU(cuStreamSynchronize, compute);
    lane_open(&lanes[0]);
    lane_open(&lanes[1]);
    run();
    rt_free(side_sum);
    pupil_free(&pupil);
    lane_free(&lanes[0]);
    lane_free(&lanes[1]);
    rt_event_free(forked);
    rt_event_free(joined);
    rt_stream_free(copy);
    rt_stream_free(side);
    rt_end(0);
}
