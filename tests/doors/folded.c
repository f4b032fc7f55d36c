/* SPDX-License-Identifier: Apache-2.0 */
/* A driver whose linker has made one function of several: two names for the
 * same thing, and things that have nothing in common but their code. */
#include "config.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

CUresult
cuInit(unsigned Flags)
{
    (void)Flags;
    return getenv("NO_SUCH_VARIABLE") ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

#undef cuEventQuery
CUresult
cuEventQuery(CUevent hEvent)
{
    (void)hEvent;
    return CUDA_ERROR_NOT_READY;
}

#define SAME_AS(other) __attribute__((alias(#other)))
CUresult cuStreamQuery(CUstream hStream) SAME_AS(cuEventQuery);
CUresult cuTexRefDestroy(CUtexref hTexRef) SAME_AS(cuEventQuery);

#undef cuCtxDestroy
CUresult
cuCtxDestroy_v2(CUcontext ctx)
{
    (void)ctx;
    return CUDA_SUCCESS;
}
CUresult cuCtxDestroy(CUcontext ctx) SAME_AS(cuCtxDestroy_v2);

CUresult
cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                    cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    (void)cudaVersion;
    (void)flags;
    (void)status;
    if (strncmp(symbol, "cuCtxDestroy", 12) == 0)
        *pfn = (void *)cuCtxDestroy_v2;
    else
        *pfn = (void *)cuEventQuery;
    return CUDA_SUCCESS;
}
