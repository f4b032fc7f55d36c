/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for the device without a driver call: the last kernel of a step writes
 * a number to host memory that is mapped for the device, and the program spins
 * until it sees it. Work that has been issued must start by itself. */
#include "tests/programs/model.h"

#include <stdlib.h>

static int steps = 24;
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct pupil pupil;
static volatile int *flag;
static float *loss_host;
static CUdeviceptr flag_device, loss_device;

static void
spin(int wanted)
{
    double end = rt_seconds() + 30;
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != wanted) {
        if (rt_seconds() > end) {
            rt_print("step %d hangs\n", wanted);
            _Exit(5);
        }
    }
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    pupil_open(&pupil);
    flag = rt_host_new(sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP);
    loss_host = rt_host_new(sizeof *loss_host, CU_MEMHOSTALLOC_DEVICEMAP);
    *flag = -1;
    CU(cuMemHostGetDevicePointer, &flag_device, (void *)flag, 0);
    CU(cuMemHostGetDevicePointer, &loss_device, loss_host, 0);
    for (int step = 0; step < steps; step++) {
        float *loss = pupil_step(&pupil);
        k_copy(items(1), (float *)loss_device, loss, 1);
        rt_free(loss);
        k_poke(items(1), (volatile int *)flag_device, step);
        spin(step);
        rt_print("step %d loss %a\n", step, (double)*loss_host);
    }
    pupil_free(&pupil);
    rt_host_free((void *)flag);
    rt_host_free(loss_host);
    rt_end(0);
}
