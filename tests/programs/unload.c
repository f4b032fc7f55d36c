/* SPDX-License-Identifier: Apache-2.0 */
/* Modules come and go while the program trains: every few steps the kernels
 * are loaded again and the old ones unloaded, and a variable of the module is
 * written and used. */
#include "tests/programs/model.h"

static int steps = 30, every = 7;
static const struct rt_option options[] = {
    {"steps", RT_INT, &steps, "steps of the optimizer"},
    {"every", RT_INT, &every, "steps between two loads"},
    {NULL, RT_FLAG, NULL, NULL},
};

static struct pupil pupil;

static void
reload(void)
{
    struct rt_module *old = rt_kernels;
    rt_kernels = rt_module_load();
    CU(cuStreamSynchronize, rt_stream);
    rt_module_free(old);
}

/* Scales by the module's own variable, which starts as four ones. */
static void
use_variable(int step)
{
    float values[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    size_t bytes = 0;
    CUdeviceptr at = rt_global("gain_value", &bytes);
    if (bytes != sizeof values)
        rt_print("variable of %zu bytes\n", bytes);
    if (step % 2) {
        values[step % 4] = 1.0f + 0.001f * (float)step;
        CU(cuMemcpyHtoDAsync, at, values, sizeof values, rt_stream);
    }
    k_gain(items(16), pupil.model.last_norm.at, 16);
}

int
main(int argc, char **argv)
{
    rt_start(argc, argv, options);
    pupil_open(&pupil);
    for (int step = 0; step < steps; step++) {
        float *loss = pupil_step(&pupil);
        use_variable(step);
        loss_print(step, loss);
        if (step % every == every - 1)
            reload();
    }
    pupil_free(&pupil);
    rt_end(0);
}
