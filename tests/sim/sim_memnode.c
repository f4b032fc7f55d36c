/* SPDX-License-Identifier: Apache-2.0 */
/* Graph memory: alloc and free nodes, the address known when the node is
 * made, the block live from a launch until it is freed; and user objects. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

CUresult
sim_alloc_work_new(CUDA_MEM_ALLOC_NODE_PARAMS *desc, struct sim_work **out)
{
    if (desc->bytesize == 0 ||
        desc->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        desc->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        desc->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
        desc->accessDescCount > SIM_MAX_DEVICES)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_device *device = sim_device_get(desc->poolProps.location.id);
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    size_t held = sim_page_round(desc->bytesize);
    if (sim_memory_take(device, held) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *base = sim_arena_alloc(held, 512);
    if (base == NULL) {
        device->used -= held;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct sim_range *range = calloc(1, sizeof *range);
    *range = (struct sim_range){
        .base = (uintptr_t)base, .bytes = desc->bytesize, .held = held,
        .place = SIM_GRAPHED, .device = device, .ctx = sim_ctx_current()};
    sim_range_add(range);
    desc->dptr = (CUdeviceptr)range->base;
    struct sim_work *work = sim_work_new(SIM_WORK_ALLOC);
    work->alloc.desc = *desc;
    if (desc->accessDescs)
        memcpy(work->alloc.access, desc->accessDescs,
               desc->accessDescCount * sizeof *desc->accessDescs);
    work->alloc.desc.accessDescs =
        desc->accessDescCount ? work->alloc.access : NULL;
    work->alloc.range = range;
    work->alloc.at = desc->dptr;
    *out = work;
    return CUDA_SUCCESS;
}

void
sim_alloc_release(struct sim_range *range)
{
    sim_range_remove(range);
    range->device->used -= range->held;
    sim_arena_free((void *)range->base, range->held);
    free(range);
}

CUresult
sim_free_work_new(CUdeviceptr at, struct sim_work **out)
{
    const struct sim_range *range = sim_range_find((uintptr_t)at);
    if (range == NULL || range->base != at || range->place != SIM_GRAPHED)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_work *work = sim_work_new(SIM_WORK_FREE);
    work->alloc.at = at;
    *out = work;
    return CUDA_SUCCESS;
}

CUresult
sim_graph_block_free(struct sim_range *range, struct sim_stream *stream)
{
    (void)stream;
    if (!range->live)
        return CUDA_ERROR_INVALID_VALUE;
    range->live = false;
    return CUDA_SUCCESS;
}

CUresult
sim_capture_alloc(struct sim_stream *stream, struct sim_device *device,
                  size_t bytes, CUdeviceptr *out)
{
    if (stream->capture->broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    CUDA_MEM_ALLOC_NODE_PARAMS desc;
    memset(&desc, 0, sizeof desc);
    desc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    desc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.poolProps.location.id = device->ordinal;
    desc.bytesize = bytes;
    struct sim_work *work;
    CUresult result = sim_alloc_work_new(&desc, &work);
    if (result == CUDA_SUCCESS)
        result = sim_capture_add(stream, work);
    if (result == CUDA_SUCCESS)
        *out = desc.dptr;
    return result;
}

CUresult
sim_capture_free(struct sim_stream *stream, struct sim_range *range)
{
    if (stream->capture->broken)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    struct sim_work *work;
    CUresult result = sim_free_work_new((CUdeviceptr)range->base, &work);
    if (result != CUDA_SUCCESS) {
        sim_capture_break(stream->capture);
        return result;
    }
    return sim_capture_add(stream, work);
}

CUresult
cuDeviceGraphMemTrim(CUdevice device)
{
    SIM_API(SIM_INIT);
    return sim_device_get(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult
cuDeviceGetGraphMemAttribute(CUdevice handle, CUgraphMem_attribute attribute,
                             void *value)
{
    SIM_API(SIM_INIT);
    const struct sim_device *device = sim_device_get(handle);
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (value == NULL || (unsigned)attribute > 3)
        return CUDA_ERROR_INVALID_VALUE;
    *(cuuint64_t *)value =
        attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
                attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH
            ? device->graph_high : device->graph_used;
    return CUDA_SUCCESS;
}

CUresult
cuDeviceSetGraphMemAttribute(CUdevice handle, CUgraphMem_attribute attribute,
                             void *value)
{
    SIM_API(SIM_INIT);
    struct sim_device *device = sim_device_get(handle);
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (value == NULL || *(cuuint64_t *)value != 0 ||
        (attribute != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH &&
         attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
        return CUDA_ERROR_INVALID_VALUE;
    device->graph_high = device->graph_used;
    return CUDA_SUCCESS;
}

struct sim_user {
    struct sim_object object;
    unsigned count;
    CUhostFn destroy;
    void *data;
    struct sim_ctx *ctx;
};

/* The destructor runs on the host thread, as it must not run under the lock. */
static void
user_release(struct sim_user *user, unsigned count)
{
    user->count -= count;
    if (user->count > 0)
        return;
    struct sim_work *work = sim_work_new(SIM_WORK_HOST);
    work->host.fn = user->destroy;
    work->host.data = user->data;
    struct sim_op *op = sim_op_new(user->ctx, work);
    sim_op_start(op);
    sim_op_drop(op);
    sim_object_free(user);
}

void
sim_users_copy(struct sim_user_ref **to, struct sim_user_ref *from)
{
    for (; from; from = from->next) {
        struct sim_user_ref *ref = calloc(1, sizeof *ref);
        ref->user = from->user;
        ref->count = from->count;
        ref->user->count += ref->count;
        ref->next = *to;
        *to = ref;
    }
}

void
sim_users_clear(struct sim_user_ref **refs)
{
    while (*refs) {
        struct sim_user_ref *ref = *refs;
        *refs = ref->next;
        user_release(ref->user, ref->count);
        free(ref);
    }
}

CUresult
cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy,
                   unsigned int count, unsigned int flags)
{
    SIM_API(SIM_CURRENT);
    if (out == NULL || destroy == NULL || count == 0 ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_user *user = sim_object_new(SIM_USER, sizeof *user);
    user->count = count;
    user->destroy = destroy;
    user->data = data;
    user->ctx = sim_ctx_current();
    *out = (CUuserObject)user;
    return CUDA_SUCCESS;
}

CUresult
cuUserObjectRetain(CUuserObject handle, unsigned int count)
{
    SIM_API(SIM_INIT);
    struct sim_user *user = sim_object_get(handle, SIM_USER);
    if (user == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    user->count += count;
    return CUDA_SUCCESS;
}

CUresult
cuUserObjectRelease(CUuserObject handle, unsigned int count)
{
    SIM_API(SIM_INIT);
    struct sim_user *user = sim_object_get(handle, SIM_USER);
    if (user == NULL || count == 0 || count > user->count)
        return CUDA_ERROR_INVALID_VALUE;
    user_release(user, count);
    return CUDA_SUCCESS;
}

CUresult
cuGraphRetainUserObject(CUgraph handle, CUuserObject user_handle,
                        unsigned int count, unsigned int flags)
{
    SIM_API(SIM_INIT);
    struct sim_graph *graph = sim_graph_get(handle);
    struct sim_user *user = sim_object_get(user_handle, SIM_USER);
    if (graph == NULL || user == NULL || count == 0 ||
        (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE))
        return CUDA_ERROR_INVALID_VALUE;
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
        user->count += count;
    struct sim_user_ref *ref = graph->users;
    while (ref && ref->user != user)
        ref = ref->next;
    if (ref == NULL) {
        ref = calloc(1, sizeof *ref);
        ref->user = user;
        ref->next = graph->users;
        graph->users = ref;
    }
    ref->count += count;
    return CUDA_SUCCESS;
}

CUresult
cuGraphReleaseUserObject(CUgraph handle, CUuserObject user_handle,
                         unsigned int count)
{
    SIM_API(SIM_INIT);
    struct sim_graph *graph = sim_graph_get(handle);
    struct sim_user *user = sim_object_get(user_handle, SIM_USER);
    if (graph == NULL || user == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct sim_user_ref **link = &graph->users; *link;
         link = &(*link)->next) {
        struct sim_user_ref *ref = *link;
        if (ref->user != user)
            continue;
        if (count > ref->count)
            return CUDA_ERROR_INVALID_VALUE;
        ref->count -= count;
        if (ref->count == 0) {
            *link = ref->next;
            free(ref);
        }
        user_release(user, count);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}
