/* SPDX-License-Identifier: Apache-2.0 */
/* Times each step with events, and its two halves, as benchmarks do. */
#include "tests/programs/model.h"

static int steps = 24;
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct pupil pupil;
static CUevent start, middle, end;

static const char *
judge(float ms, float most)
{
    return ms < 0 ? "negative" : ms > most ? "too long" : "sane";
}

static void
train(int step)
{
    float whole = -1, first = -1, second = -1;
    double before = rt_seconds();
    CU(cuEventRecord, start, rt_stream);
    float *loss = pupil_step(&pupil);
    CU(cuEventRecord, middle, rt_stream);
    k_scale(items(1), loss, 1.0f, 1);
    CU(cuEventRecord, end, rt_stream);
    CU(cuEventSynchronize, end);
    float most = (float)(1e3 * (rt_seconds() - before)) + 1.0f;
    CU(cuEventElapsedTime, &whole, start, end);
    CU(cuEventElapsedTime, &first, start, middle);
    CU(cuEventElapsedTime, &second, middle, end);
    rt_print("step %d times %s %s %s, halves %s\n", step, judge(whole, most),
             judge(first, most), judge(second, most),
             first + second <= whole + 0.5f ? "fit" : "do not fit");
    loss_print(step, loss);
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    pupil_open(&pupil);
    start = rt_event_new(CU_EVENT_DEFAULT);
    middle = rt_event_new(CU_EVENT_DEFAULT);
    end = rt_event_new(CU_EVENT_BLOCKING_SYNC);
    for (int step = 0; step < steps; step++)
        train(step);
    pupil_free(&pupil);
    rt_event_free(start);
    rt_event_free(middle);
    rt_event_free(end);
    rt_end(0);
}
