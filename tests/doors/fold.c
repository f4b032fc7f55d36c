/* SPDX-License-Identifier: Apache-2.0 */
/* With folded.c as the driver: of the rows that share an address the one that
 * was asked for is used, and none where none was. */
#include "config.h"

#include "tests/doors/door.h"

#include <cuda.h>

static CUresult (*get)(const char *, void **, int, cuuint64_t,
                       CUdriverProcAddressQueryResult *);

static CUresult
call(const char *name)
{
    CUresult (*function)(void *) = NULL;

    CHECK(get(name, (void **)&function, 12000, 0, NULL) == CUDA_SUCCESS);
    CHECK(function);
    return function(NULL);
}

int
main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    CUresult (*init)(unsigned), (*query)(void *);

    CHECK(library);
    *(void **)&get = dlsym(library, "cuGetProcAddress_v2");
    *(void **)&init = dlsym(library, "cuInit");
    CHECK(init(0) == CUDA_SUCCESS);
    CHECK(call("cuEventQuery") == CUDA_ERROR_NOT_READY);
    CHECK(seen("cuEventQuery"));
    CHECK(call("cuStreamQuery") == CUDA_ERROR_NOT_READY);
    CHECK(seen("cuStreamQuery"));
    CHECK(call("cuTexRefDestroy") == CUDA_ERROR_NOT_READY);
    CHECK(!spy() || !spy()->symbol);
    CHECK(call("cuCtxDestroy") == CUDA_SUCCESS);
    CHECK(seen("cuCtxDestroy"));
    CHECK(call("cuCtxDestroy_v2") == CUDA_SUCCESS);
    CHECK(seen("cuCtxDestroy_v2"));

    *(void **)&query = dlsym(library, "cuStreamQuery");
    CHECK(query(NULL) == CUDA_ERROR_NOT_READY && seen("cuStreamQuery"));
    /* What this driver lacks is not made up. */
    CHECK(dlsym(library, "cuLaunchKernel") == NULL);
    CHECK(dlerror() != NULL);
    return 0;
}
