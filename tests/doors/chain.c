/* SPDX-License-Identifier: Apache-2.0 */
/* With front.c as the driver: what the front looks up in the back is the
 * back's, not a hook that would lead to the front again. */
#include "config.h"

#include "tests/doors/door.h"
#include "tests/doors/front.h"

#include <cuda.h>

int
main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *back;
    CUresult (*init)(unsigned), (*sync)(void);
    unsigned (*depth)(void), (*calls)(void);

    CHECK(library);
    *(void **)&init = dlsym(library, "cuInit");
    *(void **)&sync = dlsym(library, "cuCtxSynchronize");
    *(void **)&depth = dlsym(library, "front_depth");
    CHECK(init && sync && depth);
    CHECK(init(0) == CUDA_SUCCESS);
    CHECK(sync() == CUDA_SUCCESS);
    CHECK(seen("cuCtxSynchronize"));
    CHECK(depth() == 1);

    /* The program itself gets the back's from the back. */
    back = dlopen(getenv("BACK_LIBRARY"), RTLD_NOW);
    CHECK(back);
    *(void **)&calls = dlsym(back, "back_calls");
    CHECK(calls && calls() == 2);
    *(void **)&sync = dlsym(back, "cuCtxSynchronize");
    CHECK(sync && sync() == CUDA_SUCCESS);
    CHECK(calls() == 3 && depth() == 1);
    CHECK(!spy() || !spy()->symbol);
    return 0;
}
