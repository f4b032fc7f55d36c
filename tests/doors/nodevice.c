/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA_VISIBLE_DEVICES="": the driver's answer is passed on; once there is a
 * device, everything works. */
#include "config.h"

#include "tests/doors/door.h"

#include <cuda.h>

int
main(void)
{
    struct spy *s = spy();

    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    CHECK(cuInit(0) == CUDA_ERROR_NO_DEVICE);
    CHECK(cuInit(0) == CUDA_ERROR_NO_DEVICE);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    if (s)
        CHECK(s->init == 1 && s->init_done == 2 && s->before == 0);
    unsetenv("CUDA_VISIBLE_DEVICES");
    CHECK(cuInit(0) == CUDA_SUCCESS);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS && seen("cuCtxSynchronize"));
    if (s)
        CHECK(s->init == 1 && s->init_done == 3 && s->before == 1);
    return 0;
}
