/* SPDX-License-Identifier: Apache-2.0 */
/* dlsym and dlvsym: the driver's functions are found, hooked or not, and
 * everything else is as if the library were not there. */
#include "config.h"

#include "tests/doors/door.h"

#include <cuda.h>

/* Names that begin like the driver's. */
int cudnnCreate(void);
int cuLaunchKernelLike(void);

int
cudnnCreate(void)
{
    return 11;
}

int
cuLaunchKernelLike(void)
{
    return 12;
}

static void
check_missing(void *handle, const char *name)
{
    const char *error;

    dlerror();
    CHECK(dlsym(handle, name) == NULL);
    error = dlerror();
    CHECK(error && strstr(error, name));
    CHECK(dlvsym(handle, name, "GLIBC_2.2.5") == NULL);
    error = dlerror();
    CHECK(error && strstr(error, name));
}

static void
check_own_names(void)
{
    void *self = dlopen(NULL, RTLD_NOW);
    int (*fn)(void);

    *(void **)&fn = dlsym(RTLD_DEFAULT, "cudnnCreate");
    CHECK(fn && fn() == 11);
    *(void **)&fn = dlsym(self, "cuLaunchKernelLike");
    CHECK(fn && fn() == 12);
    check_missing(RTLD_DEFAULT, "cublasCreate_v2");
    check_missing(RTLD_DEFAULT, "cuNoSuchFunction");
    check_missing(RTLD_DEFAULT, "");
    check_missing(self, "cu");
    CHECK(dlsym(RTLD_DEFAULT, "puts") == (void *)puts);
    dlclose(self);
}

/* An error that the program has not asked for yet stays. */
static void
check_error_state(void *library)
{
    const char *error;

    dlerror();
    CHECK(dlsym(library, "cuNoSuchFunction") == NULL);
    error = dlerror();
    CHECK(error && strstr(error, "cuNoSuchFunction"));
    CHECK(dlerror() == NULL);
    CHECK(dlsym(library, "cuInit") != NULL);
    CHECK(dlerror() == NULL);
}

static void
check_before_load(void)
{
    /* No driver in the process: none is found, and none is loaded. */
    check_missing(RTLD_DEFAULT, "cuInit");
    check_missing(RTLD_DEFAULT, "cuLaunchKernel");
    CHECK(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) == NULL);
}

static void
check_plugin(const char *path)
{
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*run)(void);

    CHECK(plugin);
    *(void **)&run = dlsym(plugin, "plugin_run");
    CHECK(run && run() == 0);
}

int
main(int argc, char **argv)
{
    CUresult (*init)(unsigned), (*sync)(void);
    void *library;

    check_before_load();
    check_own_names();
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    CHECK(library);
    check_error_state(library);
    *(void **)&init = dlsym(library, "cuInit");
    CHECK(init && init(0) == CUDA_SUCCESS && reached("cuInit"));
    *(void **)&sync = dlsym(library, "cuCtxSynchronize");
    CHECK(sync && sync() == CUDA_SUCCESS);
    CHECK(seen("cuCtxSynchronize") && reached("cuCtxSynchronize"));
    check_own_names();
    check_missing(library, "cuCtxSynchronize_v9");
    CHECK(dlvsym(library, "cuCtxSynchronize", "LIBCUDA_1") == NULL);
    CHECK(dlerror() != NULL);

    /* Another library's function of that name is that library's. */
    if (argc > 1)
        check_plugin(argv[1]);

    /* In the global scope it is found by default, too. */
    CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == library);
    *(void **)&sync = dlsym(RTLD_DEFAULT, "cuCtxSynchronize");
    CHECK(sync && sync() == CUDA_SUCCESS);
    CHECK(seen("cuCtxSynchronize") && reached("cuCtxSynchronize"));
    *(void **)&sync = dlsym(RTLD_NEXT, "cuCtxSynchronize");
    CHECK(sync && sync() == CUDA_SUCCESS);
    CHECK(seen("cuCtxSynchronize") && reached("cuCtxSynchronize"));
    return 0;
}
