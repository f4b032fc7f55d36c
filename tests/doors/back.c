/* SPDX-License-Identifier: Apache-2.0 */
/* What front.c forwards to. */
#include "config.h"

#include "tests/doors/front.h"

#include <cuda.h>
#include <stdlib.h>

static unsigned calls;

unsigned
back_calls(void)
{
    return calls;
}

CUresult
cuInit(unsigned Flags)
{
    (void)Flags;
    calls++;
    /* Its own C library is used, as in the real one. */
    return getenv("NO_SUCH_VARIABLE") ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

CUresult
cuCtxSynchronize(void)
{
    calls++;
    return CUDA_SUCCESS;
}
