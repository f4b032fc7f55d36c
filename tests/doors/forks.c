/* SPDX-License-Identifier: Apache-2.0 */
/* Children made before and after the program's first cuInit. */
#include "config.h"

#include "tests/doors/door.h"

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static void
wait_for(pid_t child)
{
    int status;

    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Uses CUDA as if it were the first. */
static void
fresh(void)
{
    struct spy *s = spy();

    CHECK(cuInit(0) == CUDA_SUCCESS);
    if (s)
        CHECK(s->init == 1 && s->init_done == 1);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
    CHECK(seen("cuCtxSynchronize") && reached("cuCtxSynchronize"));
}

static void
inherited(void)
{
    struct spy *s = spy();

    if (s)
        s->before = 0;
    driver()->init_result = CUDA_ERROR_NOT_INITIALIZED;
    CHECK(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS && reached("cuCtxSynchronize"));
    if (s) {
        void (*listen)(enum spy_ear);

        *(void **)&listen = dlsym(RTLD_DEFAULT, "spy_listen");
        listen(SPY_EAR); /* too late for good */
        CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
        CHECK(s->before == 0 && s->init == 1);
    }
}

static atomic_int stop;

static void *
busy(void *user)
{
    while (!stop)
        cuStreamQuery(NULL);
    return user;
}

int
main(void)
{
    pthread_t thread;
    pid_t child;

    CHECK(cuDriverGetVersion(NULL) == CUDA_SUCCESS);
    for (int i = 0; i < 2; i++)
        if ((child = fork()) == 0) {
            fresh();
            _exit(0);
        } else
            wait_for(child);

    /* A cuInit that failed leaves children free to try. */
    driver()->init_result = CUDA_ERROR_NO_DEVICE;
    CHECK(cuInit(0) == CUDA_ERROR_NO_DEVICE);
    driver()->init_result = 0;
    if ((child = fork()) == 0) {
        if (spy())
            spy()->init_done = 0;
        fresh();
        _exit(0);
    }
    wait_for(child);
    if (spy())
        spy()->init_done = 0;
    fresh();

    if (spy())
        spy()->mode = SPY_COUNT;
    CHECK(pthread_create(&thread, NULL, busy, NULL) == 0);
    for (int i = 0; i < 20; i++)
        if ((child = fork()) == 0) {
            inherited();
            _exit(0);
        } else
            wait_for(child);
    stop = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    if (spy())
        spy()->mode = SPY_LOOK;
    CHECK(cuCtxSynchronize() == CUDA_SUCCESS && seen("cuCtxSynchronize"));
    return 0;
}
