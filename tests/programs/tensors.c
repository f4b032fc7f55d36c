/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that does not end with its iteration: losses kept in a list, blocks
 * freed many steps later, sizes that change, pointers that only device memory
 * knows, and frees that are wrong. */
#include "tests/programs/model.h"

#include <string.h>

enum { KEEP = 7, LISTED = 3, WIDTH = 64 };

static int steps = 30;
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct pupil pupil;

/* ---- blocks that outlive the step -------------------------------------- */

static float *kept[KEEP];

/* A copy of a gradient-like block, bigger from step to step, is read and freed
 * KEEP steps later. */
static void
keep_block(int step)
{
    float **slot = &kept[step % KEEP];
    if (*slot) {
        float first;
        rt_read(&first, *slot, sizeof first);
        rt_print("kept %a\n", (double)first);
        rt_free(*slot);
    }
    size_t count = 100 + 37 * (size_t)step + 4096 * (size_t)(step % 3);
    *slot = rt_alloc(count * sizeof(float));
    k_fill(items(count), *slot, (float)step, (int)count);
    k_add(items(16), *slot, *slot, pupil.model.last_norm.at, 16);
}

/* ---- pointers in device memory ----------------------------------------- */

static float *listed[LISTED];
static const float **list;

static void
list_open(void)
{
    for (int i = 0; i < LISTED; i++) {
        listed[i] = rt_alloc(WIDTH * sizeof(float));
        k_fill(items(WIDTH), listed[i], (float)i, WIDTH);
    }
    list = rt_alloc(sizeof listed);
    rt_upload(list, listed, sizeof listed);
    CU(cuStreamSynchronize, rt_stream);
}

/* One of the listed blocks is written through the list's back every step, and
 * every ninth step one is replaced. */
static void
use_list(int step, float *loss)
{
    float *sum = rt_alloc(WIDTH * sizeof(float)), value;
    if (step % 9 == 8) {
        rt_free(listed[1]);
        listed[1] = rt_alloc(WIDTH * sizeof(float));
        k_fill(items(WIDTH), listed[1], (float)step, WIDTH);
        rt_upload(list, listed, sizeof listed);
    }
    k_axpy(items(1), listed[step % LISTED], 0.5f, loss, 1);
    k_gather_list(items(WIDTH), sum, list, LISTED, WIDTH);
    rt_read(&value, sum, sizeof value);
    rt_print("listed %a\n", (double)value);
    rt_free(sum);
}

static void
list_free(void)
{
    for (int i = 0; i < LISTED; i++)
        rt_free(listed[i]);
    rt_free(list);
}

/* ---- frees that are wrong, or odd -------------------------------------- */

static void
odd_frees(int step)
{
    int on_stack = 0;
    CUdeviceptr a = 0, b = 0;
    CU(cuMemAlloc, &a, 5000);
    CU(cuMemAllocAsync, &b, 5000, rt_stream);
    CU(cuMemsetD8Async, b, 1, 5000, rt_stream);
    CU(cuStreamSynchronize, rt_stream);
    CUresult results[] = {
        cu.cuMemFree(0),
        cu.cuMemFree(0x1234500),
        cu.cuMemFree(rt_ptr(&on_stack)),
        cu.cuMemFree(a + 512),
        cu.cuMemFreeAsync(0x1234500, rt_stream),
        cu.cuMemFree(b), /* as the driver allows */
        cu.cuMemFreeAsync(a, rt_stream), /* as it does not */
        cu.cuStreamSynchronize(rt_stream),
        cu.cuMemFree(a),
        cu.cuMemFree(a), /* once too often */
        cu.cuMemFreeAsync(b, rt_stream),
    };
    rt_print("step %d frees", step);
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        rt_print(" %d", (int)results[i]);
    rt_print("\n");
}

int
main(int argc, char **argv)
{
    float *losses[256];
    rt_start(argc, argv, options);
    pupil_open(&pupil);
    list_open();
    for (int step = 0; step < steps && step < 256; step++) {
        losses[step] = pupil_step(&pupil);
        keep_block(step);
        use_list(step, losses[step]);
        if (step % 10 == 6)
            odd_frees(step);
    }
    for (int step = 0; step < steps && step < 256; step++)
        loss_print(step, losses[step]);
    for (int i = 0; i < KEEP; i++)
        rt_free(kept[i]);
    list_free();
    pupil_free(&pupil);
    rt_end(0);
}
