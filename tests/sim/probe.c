/* SPDX-License-Identifier: Apache-2.0 */
/* probe QUESTION [ARGUMENT]...: asks the simulated driver about its own
 * switches; run by conformance.sh.
 *
 *   layout A B    the parameters of all kernels in two images are the same
 *   devices       count, names' ends, bytes and granularity
 *   fail          how a few calls end (DCPSIM_FAIL says how)
 *   fork          a child of a process that uses the driver cannot use it
 *   leak          ends with one of everything left over
 *   lost          a thread whose context was destroyed by another */
#include <cuda.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static CUcontext context;

static void
start(void)
{
    CUdevice device;
    if (cuInit(0) || cuDeviceGet(&device, 0) ||
        cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context))
        exit(1);
}

static int
layout(const char *a, const char *b)
{
    CUmodule one, two;
    CUfunction list[256];
    unsigned count = 0;
    int bad = 0;
    start();
    if (cuModuleLoad(&one, a) || cuModuleLoad(&two, b) ||
        cuModuleGetFunctionCount(&count, one) || count > 256 ||
        cuModuleEnumerateFunctions(list, count, one))
        return 1;
    for (unsigned i = 0; i < count; i++) {
        const char *name = NULL;
        CUfunction other;
        cuFuncGetName(&name, list[i]);
        if (cuModuleGetFunction(&other, two, name)) {
            printf("%s is not in %s\n", name, b);
            bad = 1;
            continue;
        }
        for (size_t j = 0;; j++) {
            size_t at[2] = {0, 0}, bytes[2] = {0, 0};
            CUresult first = cuFuncGetParamInfo(list[i], j, &at[0], &bytes[0]);
            CUresult second = cuFuncGetParamInfo(other, j, &at[1], &bytes[1]);
            if (first != second || at[0] != at[1] || bytes[0] != bytes[1]) {
                printf("%s %zu: %zu+%zu, %zu+%zu\n", name, j, at[0], bytes[0],
                       at[1], bytes[1]);
                bad = 1;
            }
            if (first != CUDA_SUCCESS || second != CUDA_SUCCESS)
                break;
        }
    }
    printf("%u kernels\n", count);
    return bad;
}

static int
devices(void)
{
    int count = -1;
    CUresult result = cuInit(0);
    printf("init %d\n", result);
    if (result != CUDA_SUCCESS)
        return 0;
    cuDeviceGetCount(&count);
    for (int i = 0; i < count; i++) {
        CUuuid uuid;
        size_t bytes = 0, grain = 0;
        CUmemAllocationProp prop;
        memset(&prop, 0, sizeof prop);
        prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        prop.location.id = i;
        cuDeviceGetUuid(&uuid, i);
        cuDeviceTotalMem(&bytes, i);
        cuMemGetAllocationGranularity(&grain, &prop, 0);
        printf("device %d is %d bytes %zu grain %zu\n", i,
               (unsigned char)uuid.bytes[15], bytes, grain);
    }
    return 0;
}

static int
fail(void)
{
    CUdeviceptr at;
    CUstream stream;
    start();
    printf("stream %d\n", cuStreamCreate(&stream, 0));
    for (int i = 0; i < 4; i++)
        printf("alloc %d\n", cuMemAlloc(&at, 256));
    for (int i = 0; i < 2; i++)
        printf("async %d\n", cuMemAllocAsync(&at, 256, stream));
    printf("query %d\n", cuStreamQuery(stream));
    printf("unmodelled %d\n", cuArrayDestroy(NULL));
    return 0;
}

static int
fork_check(void)
{
    int status = 0, count;
    start();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(cuInit(0) * 16 + cuDeviceGetCount(&count));
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    printf("parent %d\n", cuCtxSynchronize());
    return 0;
}

static int
leak(void)
{
    CUdeviceptr at;
    CUstream stream;
    CUevent event;
    CUgraph graph;
    CUgraphExec exec;
    void *host;
    start();
    if (cuMemAlloc(&at, 256) || cuStreamCreate(&stream, 0) ||
        cuMemAllocAsync(&at, 256, stream) || cuEventCreate(&event, 0) ||
        cuGraphCreate(&graph, 0) || cuGraphInstantiate(&exec, graph, 0) ||
        cuMemAllocHost(&host, 256) ||
        cuMemAddressReserve(&at, 1 << 20, 0, 0, 0))
        return 1;
    return 0;
}

static CUcontext made;
static pthread_barrier_t barrier;

static void *
other_thread(void *data)
{
    CUdeviceptr at;
    (void)data;
    cuCtxSetCurrent(made);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    printf("alloc %d\n", cuMemAlloc(&at, 256));
    printf("synchronize %d\n", cuCtxSynchronize());
    return NULL;
}

static int
lost(void)
{
    pthread_t thread;
    start();
#if CUDA_VERSION >= 13000
    CUresult result = cuCtxCreate(&made, NULL, 0, 0);
#else
    CUresult result = cuCtxCreate(&made, 0, 0);
#endif
    if (result != CUDA_SUCCESS)
        return 1;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, other_thread, NULL);
    pthread_barrier_wait(&barrier);
    printf("destroy %d\n", cuCtxDestroy(made));
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    return 0;
}

int
main(int argc, char **argv)
{
    const char *question = argc > 1 ? argv[1] : "";
    if (strcmp(question, "layout") == 0 && argc == 4)
        return layout(argv[2], argv[3]);
    if (strcmp(question, "devices") == 0)
        return devices();
    if (strcmp(question, "fail") == 0)
        return fail();
    if (strcmp(question, "fork") == 0)
        return fork_check();
    if (strcmp(question, "leak") == 0)
        return leak();
    if (strcmp(question, "lost") == 0)
        return lost();
    fprintf(stderr, "usage: probe layout|devices|fail|fork|leak|lost\n");
    return 2;
}
