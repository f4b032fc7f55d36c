/* SPDX-License-Identifier: Apache-2.0 */
/* A libcuda.so.1 that is a front: it opens another library and gets the real
 * functions from there by their names. */
#include "config.h"

#include "tests/doors/front.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>

static unsigned depth, deepest;

static void *
back(const char *name)
{
    static void *library;

    if (!library)
        library = dlopen(getenv("BACK_LIBRARY"), RTLD_NOW);
    return library ? dlsym(library, name) : NULL;
}

unsigned
front_depth(void)
{
    return deepest;
}

static CUresult
forward(const char *name)
{
    CUresult (*real)(unsigned), cu = CUDA_ERROR_UNKNOWN;

    depth++;
    deepest = deepest < depth ? depth : deepest;
    *(void **)&real = back(name);
    if (real && depth == 1)
        cu = real(0);
    depth--;
    return cu;
}

CUresult
cuInit(unsigned Flags)
{
    (void)Flags;
    return forward("cuInit");
}

CUresult
cuCtxSynchronize(void)
{
    return forward("cuCtxSynchronize");
}
