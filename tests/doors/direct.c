/* SPDX-License-Identifier: Apache-2.0 */
/* A program that is linked to the driver. Built twice, for both meanings of
 * the default stream. Also tries what a sink may do to a call. */
#include "config.h"

#include "tests/doors/door.h"

#include <cuda.h>
#include <pthread.h>

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define Z "_ptsz"
#define D "_ptds"
#else
#define Z
#define D
#endif

static CUresult
launch(void)
{
    return cuLaunchKernel((CUfunction)8, 1, 2, 3, 4, 5, 6, 7, NULL, NULL, NULL);
}

static void
check_forms(void)
{
    CUdeviceptr at;
    size_t bytes;

    CHECK(launch() == CUDA_SUCCESS);
    CHECK(seen("cuLaunchKernel" Z) && reached("cuLaunchKernel" Z));
    CHECK(cuMemAlloc(&at, 4) == CUDA_SUCCESS);
    CHECK(seen("cuMemAlloc_v2") && reached("cuMemAlloc_v2"));
    CHECK(cuMemcpyHtoD(at, &bytes, 4) == CUDA_SUCCESS);
    CHECK(seen("cuMemcpyHtoD_v2" D) && reached("cuMemcpyHtoD_v2" D));
    CHECK(cuMemAllocAsync(&at, 4, NULL) == CUDA_SUCCESS);
    CHECK(seen("cuMemAllocAsync" Z) && reached("cuMemAllocAsync" Z));
    CHECK(cuMemGetInfo(NULL, &bytes) == CUDA_SUCCESS);
    CHECK(seen("cuMemGetInfo_v2") && reached("cuMemGetInfo_v2"));
}

/* In a capture, no call but the program's reaches the driver. */
static void
check_capture(void)
{
    CUgraph graph = NULL;
    unsigned calls = driver()->calls;

    CHECK(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
          CUDA_SUCCESS);
    for (int i = 0; i < 5000; i++)
        CHECK(launch() == CUDA_SUCCESS);
    CHECK(cuStreamEndCapture(NULL, &graph) == CUDA_SUCCESS);
    CHECK(driver()->calls == calls + 5002);
    CHECK(seen("cuStreamEndCapture" Z) && reached("cuStreamEndCapture" Z));
}

static void *
other_thread(void *user)
{
    CHECK(launch() == CUDA_SUCCESS && seen("cuLaunchKernel" Z));
    return user;
}

static void
check_mute(struct spy *s)
{
    pthread_t thread;
    void (*mute)(int);

    *(void **)&mute = dlsym(RTLD_DEFAULT, "spy_mute");
    CHECK(mute);
    mute(1);
    mute(1);
    mute(0);
    s->before = 0;
    CHECK(launch() == CUDA_SUCCESS && s->before == 0);
    CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(s->before == 1);
    mute(0);
    CHECK(launch() == CUDA_SUCCESS && s->before == 2);
}

static void
check_modes(struct spy *s)
{
    unsigned calls = driver()->calls;

    s->before = s->after = 0;
    s->mode = SPY_SWALLOW;
    CHECK((int)launch() == SPY_RESULT);
    CHECK(driver()->calls == calls && s->before == 1 && s->after == 0);

    s->mode = SPY_REPLACE;
    CHECK((int)launch() == SPY_RESULT);
    CHECK(driver()->calls == calls + 1 && s->result == 0);

    /* The sink's own calls reach the driver and not the sink. */
    s->mode = SPY_CALL;
    s->before = s->after = 0;
    CHECK(launch() == CUDA_SUCCESS);
    CHECK(driver()->calls == calls + 4 && s->before == 1 && s->after == 1);

    s->mode = SPY_LOOK;
    check_mute(s);

    s->mode = SPY_GONE;
    CHECK(launch() == CUDA_SUCCESS);
    s->before = 0;
    CHECK(launch() == CUDA_SUCCESS && s->before == 0);
}

int
main(void)
{
    struct spy *s = spy();

    if (s)
        CHECK(s->init == 0);
    CHECK(launch() == CUDA_SUCCESS && reached("cuLaunchKernel" Z));
    CHECK(cuInit(0) == CUDA_SUCCESS && reached("cuInit"));
    CHECK(cuInit(0) == CUDA_SUCCESS && reached("cuInit"));
    if (s)
        CHECK(s->init == 1 && s->init_done == 1 && s->before == 0);
    check_forms();
    check_capture();
    if (s)
        check_modes(s);
    return 0;
}
