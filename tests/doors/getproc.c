/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that get all their functions from cuGetProcAddress, as the CUDA
 * runtimes of different ages do. */
#include "config.h"

#include "tests/doors/door.h"

#include <cuda.h>

typedef CUresult get_1(const char *, void **, int, cuuint64_t);
typedef CUresult get_2(const char *, void **, int, cuuint64_t,
                       CUdriverProcAddressQueryResult *);
typedef CUresult (*sync_fn)(void);
typedef CUresult (*stream_fn)(CUstream);

static void *library;

/* 12.x asks for cuGetProcAddress by its own version and never asks dlsym
 * again. */
static get_2 *
new_way(void)
{
    get_2 *first, *get = NULL;
    CUdriverProcAddressQueryResult status;

    *(void **)&first = dlsym(library, "cuGetProcAddress_v2");
    CHECK(first("cuGetProcAddress", (void **)&get, 12010, 0, &status) ==
          CUDA_SUCCESS);
    CHECK(get && status == CU_GET_PROC_ADDRESS_SUCCESS);
    return get;
}

/* 11.x asks with four arguments; what lies in the register of the fifth is
 * anything. */
static void
check_old_way(void)
{
    get_1 *first;
    get_2 *with_rubbish;
    sync_fn sync = NULL;
    void *get = NULL;

    *(void **)&first = dlsym(library, "cuGetProcAddress");
    CHECK(first("cuGetProcAddress", &get, 11050, 0) == CUDA_SUCCESS && get);
    *(void **)&with_rubbish = get;
    CHECK(with_rubbish("cuCtxSynchronize", (void **)&sync, 11050, 0,
                       (CUdriverProcAddressQueryResult *)1) == CUDA_SUCCESS);
    CHECK(reached("cuGetProcAddress"));
    CHECK(sync() == CUDA_SUCCESS && seen("cuCtxSynchronize"));
}

static void
check_streams(get_2 *get)
{
    stream_fn legacy = NULL, thread = NULL, plain = NULL, spelt = NULL;

    CHECK(get("cuStreamSynchronize", (void **)&legacy, 12010,
              CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL) == CUDA_SUCCESS);
    CHECK(get("cuStreamSynchronize", (void **)&thread, 12010,
              CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
              NULL) == CUDA_SUCCESS);
    CHECK(get("cuStreamSynchronize", (void **)&plain, 12010, 0, NULL) ==
          CUDA_SUCCESS);
    CHECK(get("cuStreamSynchronize_ptsz", (void **)&spelt, 12010, 0, NULL) ==
          CUDA_SUCCESS);
    CHECK(legacy == plain && thread == spelt && legacy != thread);
    CHECK(legacy(NULL) == CUDA_SUCCESS);
    CHECK(seen("cuStreamSynchronize") && reached("cuStreamSynchronize"));
    CHECK(thread(NULL) == CUDA_SUCCESS);
    CHECK(seen("cuStreamSynchronize_ptsz"));
    CHECK(reached("cuStreamSynchronize_ptsz"));
}

/* One name, several functions with different arguments. */
static void
check_versions(get_2 *get)
{
    static const struct {
        int version;
        const char *symbol;
    } want[] = {{2000, "cuCtxCreate"}, {3020, "cuCtxCreate_v2"},
                {11040, "cuCtxCreate_v3"}, {12050, "cuCtxCreate_v4"}};

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        void *function = NULL;

        CHECK(get("cuCtxCreate", &function, want[i].version, 0, NULL) ==
              CUDA_SUCCESS);
        CHECK(function && function == dlsym(library, want[i].symbol));
    }
}

static void
check_missing(get_2 *get)
{
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    void *function = (void *)1;

    CHECK(get("cuNotYetInvented", &function, 12010, 0, &status) ==
          CUDA_SUCCESS);
    CHECK(!function && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    CHECK(get(NULL, &function, 12010, 0, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(get("cuInit", NULL, 12010, 0, NULL) == CUDA_ERROR_INVALID_VALUE);
}

int
main(void)
{
    CUresult (*init)(unsigned) = NULL;
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned,
                       unsigned, unsigned, unsigned, CUstream, void **,
                       void **) = NULL;

    library = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(library);
    get_2 *get = new_way();
    CHECK(get("cuInit", (void **)&init, 12010, 0, NULL) == CUDA_SUCCESS);
    CHECK(init(0) == CUDA_SUCCESS);
    CHECK(get("cuLaunchKernel", (void **)&launch, 12010, 0, NULL) ==
          CUDA_SUCCESS);
    CHECK(launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_SUCCESS);
    CHECK(seen("cuLaunchKernel") && reached("cuLaunchKernel"));
    check_old_way();
    check_streams(get);
    check_versions(get);
    check_missing(get);
    return 0;
}
