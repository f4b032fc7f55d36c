/* SPDX-License-Identifier: Apache-2.0 */
/* What the program has taken from the driver and not yet given back, so that
 * it leaves nothing behind whichever call fails. */
#include "tests/programs/rt.h"

#include <pthread.h>
#include <stdlib.h>

struct owned {
    enum rt_kind kind;
    const void *handle;
};

static struct owned *owned;
static size_t owned_count, owned_room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void
rt_own(enum rt_kind kind, const void *handle)
{
    pthread_mutex_lock(&lock);
    if (owned_count == owned_room) {
        owned_room = owned_room ? 2 * owned_room : 256;
        owned = realloc(owned, owned_room * sizeof *owned);
        if (owned == NULL)
            abort();
    }
    owned[owned_count++] = (struct owned){kind, handle};
    pthread_mutex_unlock(&lock);
}

void
rt_disown(enum rt_kind kind, const void *handle)
{
    pthread_mutex_lock(&lock);
    size_t i = owned_count;
    while (i > 0 && (owned[i - 1].handle != handle ||
                     owned[i - 1].kind != kind))
        i--;
    for (; i > 0 && i < owned_count; i++)
        owned[i - 1] = owned[i];
    if (owned_count > 0 && i > 0)
        owned_count--;
    pthread_mutex_unlock(&lock);
}

static CUresult
release(struct owned thing)
{
    void *handle = (void *)(uintptr_t)thing.handle;
    switch (thing.kind) {
    case RT_MEMORY:
        return cu.cuMemFree(rt_ptr(handle));
    case RT_ASYNC_MEMORY:
        return cu.cuMemFreeAsync(rt_ptr(handle), rt_stream);
    case RT_HOST_MEMORY:
        return cu.cuMemFreeHost(handle);
    case RT_STREAM:
        if (rt_stream == handle)
            rt_stream = NULL;
        return cu.cuStreamDestroy(handle);
    case RT_EVENT:
        return cu.cuEventDestroy(handle);
    case RT_POOL:
        return cu.cuMemPoolDestroy(handle);
    case RT_MODULE:
        return cu.cuModuleUnload(handle);
    case RT_LIBRARY:
        return cu.cuLibraryUnload(handle);
    case RT_GRAPH:
        return cu.cuGraphDestroy(handle);
    case RT_EXEC:
        return cu.cuGraphExecDestroy(handle);
    case RT_CONTEXT:
        return cu.cuDevicePrimaryCtxRelease(rt_device);
    }
    return CUDA_SUCCESS;
}

bool rt_capturing;

static void
end_capture(void)
{
    CUgraph graph = NULL;
    cu.cuStreamEndCapture(rt_stream, &graph);
    if (graph != NULL)
        cu.cuGraphDestroy(graph);
}

void
rt_release_all(void)
{
    if (rt_capturing)
        end_capture();
    if (cu.cuCtxSynchronize != NULL && owned_count > 0)
        cu.cuCtxSynchronize();
    while (owned_count > 0) {
        struct owned last = owned[--owned_count];
        if (release(last) != CUDA_SUCCESS)
            release(last); /* once more, should the failure be a passing one */
        /* frees in stream order must be done before their pool goes */
        if (last.kind == RT_ASYNC_MEMORY &&
            (owned_count == 0 ||
             owned[owned_count - 1].kind != RT_ASYNC_MEMORY))
            cu.cuCtxSynchronize();
    }
}

CUstream
rt_stream_new(unsigned flags)
{
    CUstream stream = NULL;
    CU(cuStreamCreate, &stream, flags);
    rt_own(RT_STREAM, stream);
    return stream;
}

void
rt_stream_free(CUstream stream)
{
    CU(cuStreamDestroy, stream);
    rt_disown(RT_STREAM, stream);
}

CUevent
rt_event_new(unsigned flags)
{
    CUevent event = NULL;
    CU(cuEventCreate, &event, flags);
    rt_own(RT_EVENT, event);
    return event;
}

void
rt_event_free(CUevent event)
{
    CU(cuEventDestroy, event);
    rt_disown(RT_EVENT, event);
}

void *
rt_host_new(size_t bytes, unsigned flags)
{
    void *at = NULL;
    CU(cuMemHostAlloc, &at, bytes, flags);
    rt_own(RT_HOST_MEMORY, at);
    return at;
}

void
rt_host_free(void *at)
{
    CU(cuMemFreeHost, at);
    rt_disown(RT_HOST_MEMORY, at);
}
