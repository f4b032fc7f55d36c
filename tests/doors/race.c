/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads at once use the driver for the first time. */
#include "config.h"

#include "tests/doors/door.h"

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 8, CALLS = 200 };

static pthread_barrier_t barrier;
static atomic_int failed;

static void *
run(void *user)
{
    CUresult (*init)(unsigned) = NULL, (*launch)(CUfunction) = NULL;
    CUresult (*get)(const char *, void **, int, cuuint64_t,
                    CUdriverProcAddressQueryResult *) = NULL;

    pthread_barrier_wait(&barrier);
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&init = library ? dlsym(library, "cuInit") : NULL;
    *(void **)&get = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (!init || !get || init(0) != CUDA_SUCCESS ||
        get("cuLaunch", (void **)&launch, 12000, 0, NULL) != CUDA_SUCCESS ||
        launch != dlsym(library, "cuLaunch")) {
        failed++;
        return user;
    }
    for (int i = 0; i < CALLS; i++)
        if (launch(NULL) != CUDA_SUCCESS)
            failed++;
    return user;
}

int
main(void)
{
    pthread_t threads[THREADS];
    struct spy *s = spy();

    if (s)
        s->mode = SPY_COUNT;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, run, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(failed == 0);
    if (s)
        CHECK(s->init == 1 && s->init_done == 1 &&
              s->before == THREADS * CALLS && s->after == THREADS * CALLS);
    return 0;
}
