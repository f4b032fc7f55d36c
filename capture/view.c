/* SPDX-License-Identifier: Apache-2.0 */
/* One view of a driver call, whichever of its forms the program used. */
#include "config.h"

#include "capture/record.h"

#include "intercept/heap.h"

#include <string.h>

static bool
view_copy(struct dcp_view *view, uint64_t dst, uint64_t src, uint64_t bytes,
          uint8_t dst_place, uint8_t src_place, bool sync)
{
    if (dst_place == DCP_PLACE_UNKNOWN || src_place == DCP_PLACE_UNKNOWN) {
        view->op = DCP_CALL_OPAQUE;
        view->fold = DCP_FOLD_EAGER;
        return true;
    }
    view->op = DCP_CALL_COPY;
    view->copy.dst = dst;
    view->copy.src = src;
    view->copy.bytes = bytes;
    view->copy.dst_place = dst_place;
    view->copy.src_place = src_place;
    view->sync = sync;
    view->fold = DCP_FOLD_NODE;
    if (dst_place != DCP_PLACE_DEVICE)
        /* A pageable target is complete on return, and so is a synchronous
         * copy; both are looks at results. */
        view->fold = sync || dst_place == DCP_PLACE_PAGEABLE ||
                             src_place != DCP_PLACE_DEVICE
                         ? DCP_FOLD_WAIT
                         : DCP_FOLD_EAGER;
    else if (src_place == DCP_PLACE_PINNED && !sync)
        /* A graph would keep a mapping of the program's host memory, which
         * may be freed and come back as another at the same address. */
        view->fold = DCP_FOLD_EAGER;
    return true;
}

static bool
view_fill(struct dcp_view *view, uint64_t dst, uint32_t value, size_t width,
          unsigned element)
{
    view->op = DCP_CALL_FILL;
    view->fold = DCP_FOLD_NODE;
    view->fill.dst = dst;
    view->fill.pitch = 0;
    view->fill.value = value;
    view->fill.width = width;
    view->fill.height = 1;
    view->fill.element = (uint8_t)element;
    return true;
}

static bool
view_launch(struct dcp_view *view, const struct dcp_hook_info *info, void *args)
{
    view->op = DCP_CALL_LAUNCH;
    view->fold = DCP_FOLD_NODE;
    view->launch.attrs = NULL;
    view->launch.attr_count = 0;
    if (info->canon == DCP_HOOK_cuLaunchKernelEx) {
        struct dcp_args_cuLaunchKernelEx *a = args;
        const CUlaunchConfig *c = a->config;

        if (!c) {
            view->op = DCP_CALL_OPAQUE;
            view->fold = DCP_FOLD_EAGER;
            return true;
        }
        view->stream = (uint64_t)dcp_hook_stream(info, c->hStream);
        view->launch.handle = a->f;
        memcpy(view->launch.grid, &c->gridDimX, 12);
        memcpy(view->launch.block, &c->blockDimX, 12);
        view->launch.shared = c->sharedMemBytes;
        view->launch.params = a->kernelParams;
        view->launch.extra = a->extra;
        view->launch.attrs = c->attrs;
        view->launch.attr_count = c->numAttrs;
        return true;
    }
    struct dcp_args_cuLaunchKernel *a = args;
    view->stream = (uint64_t)dcp_hook_stream(info, a->hStream);
    view->launch.handle = a->f;
    view->launch.grid[0] = a->gridDimX;
    view->launch.grid[1] = a->gridDimY;
    view->launch.grid[2] = a->gridDimZ;
    view->launch.block[0] = a->blockDimX;
    view->launch.block[1] = a->blockDimY;
    view->launch.block[2] = a->blockDimZ;
    view->launch.shared = a->sharedMemBytes;
    view->launch.params = a->kernelParams;
    view->launch.extra = a->extra;
    return true;
}

static bool
view_cooperative(struct dcp_view *view, const struct dcp_hook_info *info,
                 struct dcp_args_cuLaunchCooperativeKernel *a)
{
    view->op = DCP_CALL_LAUNCH;
    view->fold = DCP_FOLD_NODE;
    view->stream = (uint64_t)dcp_hook_stream(info, a->hStream);
    view->launch.handle = a->f;
    view->launch.grid[0] = a->gridDimX;
    view->launch.grid[1] = a->gridDimY;
    view->launch.grid[2] = a->gridDimZ;
    view->launch.block[0] = a->blockDimX;
    view->launch.block[1] = a->blockDimY;
    view->launch.block[2] = a->blockDimZ;
    view->launch.shared = a->sharedMemBytes;
    view->launch.params = a->kernelParams;
    view->launch.extra = NULL;
    view->launch.attrs = NULL;
    view->launch.attr_count = 0;
    return true;
}

/* Calls that the table below does not name: by class. */
static bool
view_other(struct dcp_view *view, const struct dcp_hook_info *info)
{
    switch ((enum dcp_hook_class)info->class) {
    case DCP_CLASS_COPY:
    case DCP_CLASS_FILL:
    case DCP_CLASS_LAUNCH:
    case DCP_CLASS_DEPEND:
    case DCP_CLASS_RECORD:
    case DCP_CLASS_GRAPH:
        view->op = DCP_CALL_OPAQUE;
        view->fold = DCP_FOLD_EAGER;
        return true;
    case DCP_CLASS_WAIT:
        view->op = DCP_CALL_WAIT;
        view->fold = DCP_FOLD_WAIT;
        return true;
    default:
        view->fold = DCP_FOLD_NONE;
        return false;
    }
}

#define STREAM(handle) ((uint64_t)dcp_hook_stream(info, (handle)))

static bool
view_memory(struct dcp_view *view, const struct dcp_hook_info *info, void *args)
{
    view->fold = DCP_FOLD_MEM;
    view->memory.address = view->memory.bytes = 0;
    view->memory.out = NULL;
    switch (info->canon) {
    case DCP_HOOK_cuMemAllocAsync: {
        struct dcp_args_cuMemAllocAsync *a = args;
        view->op = DCP_CALL_ALLOC;
        view->stream = STREAM(a->hStream);
        view->memory.bytes = a->bytesize;
        view->memory.out = a->dptr;
        return true;
    }
    case DCP_HOOK_cuMemAllocFromPoolAsync: {
        struct dcp_args_cuMemAllocFromPoolAsync *a = args;
        view->op = DCP_CALL_ALLOC;
        view->stream = STREAM(a->hStream);
        view->memory.bytes = a->bytesize;
        view->memory.out = a->dptr;
        return true;
    }
    case DCP_HOOK_cuMemAlloc_v2: {
        struct dcp_args_cuMemAlloc_v2 *a = args;
        view->op = DCP_CALL_ALLOC;
        view->sync = true;
        view->memory.bytes = a->bytesize;
        view->memory.out = a->dptr;
        return true;
    }
    case DCP_HOOK_cuMemFreeAsync: {
        struct dcp_args_cuMemFreeAsync *a = args;
        view->op = DCP_CALL_FREE;
        view->stream = STREAM(a->hStream);
        view->memory.address = a->dptr;
        if (!dcp_heap_owns(a->dptr))
            view->fold = DCP_FOLD_EAGER;
        return true;
    }
    default: {
        struct dcp_args_cuMemFree_v2 *a = args;
        view->op = DCP_CALL_FREE;
        view->sync = true;
        view->memory.address = a->dptr;
        /* Waits for the device, as the driver's own does. */
        view->fold = DCP_FOLD_EAGER;
        return true;
    }
    }
}

static bool
view_async_copy(struct dcp_view *view, const struct dcp_hook_info *info,
                void *args)
{
    switch (info->canon) {
    case DCP_HOOK_cuMemcpyHtoDAsync_v2: {
        struct dcp_args_cuMemcpyHtoDAsync_v2 *a = args;
        view->stream = STREAM(a->hStream);
        return view_copy(view, a->dstDevice, (uint64_t)a->srcHost, a->ByteCount,
                         DCP_PLACE_DEVICE, dcp_place_of((uint64_t)a->srcHost),
                         false);
    }
    case DCP_HOOK_cuMemcpyDtoHAsync_v2: {
        struct dcp_args_cuMemcpyDtoHAsync_v2 *a = args;
        view->stream = STREAM(a->hStream);
        return view_copy(view, (uint64_t)a->dstHost, a->srcDevice, a->ByteCount,
                         dcp_place_of((uint64_t)a->dstHost), DCP_PLACE_DEVICE,
                         false);
    }
    case DCP_HOOK_cuMemcpyDtoDAsync_v2: {
        struct dcp_args_cuMemcpyDtoDAsync_v2 *a = args;
        view->stream = STREAM(a->hStream);
        return view_copy(view, a->dstDevice, a->srcDevice, a->ByteCount,
                         DCP_PLACE_DEVICE, DCP_PLACE_DEVICE, false);
    }
    default: {
        struct dcp_args_cuMemcpyAsync *a = args;
        view->stream = STREAM(a->hStream);
        return view_copy(view, a->dst, a->src, a->ByteCount,
                         dcp_place_of(a->dst), dcp_place_of(a->src), false);
    }
    }
}

static bool
view_sync_copy(struct dcp_view *view, const struct dcp_hook_info *info,
               void *args)
{
    view->stream = STREAM(NULL);
    switch (info->canon) {
    case DCP_HOOK_cuMemcpyHtoD_v2: {
        struct dcp_args_cuMemcpyHtoD_v2 *a = args;
        return view_copy(view, a->dstDevice, (uint64_t)a->srcHost, a->ByteCount,
                         DCP_PLACE_DEVICE, DCP_PLACE_PAGEABLE, true);
    }
    case DCP_HOOK_cuMemcpyDtoH_v2: {
        struct dcp_args_cuMemcpyDtoH_v2 *a = args;
        return view_copy(view, (uint64_t)a->dstHost, a->srcDevice, a->ByteCount,
                         DCP_PLACE_PAGEABLE, DCP_PLACE_DEVICE, true);
    }
    case DCP_HOOK_cuMemcpyDtoD_v2: {
        struct dcp_args_cuMemcpyDtoD_v2 *a = args;
        return view_copy(view, a->dstDevice, a->srcDevice, a->ByteCount,
                         DCP_PLACE_DEVICE, DCP_PLACE_DEVICE, true);
    }
    default: {
        struct dcp_args_cuMemcpy *a = args;
        return view_copy(view, a->dst, a->src, a->ByteCount,
                         dcp_place_of(a->dst), dcp_place_of(a->src), true);
    }
    }
}

static bool
view_memset(struct dcp_view *view, const struct dcp_hook_info *info, void *args)
{
#define ASYNC(symbol, value, element)                                          \
    case DCP_HOOK_##symbol: {                                                  \
        struct dcp_args_##symbol *a = args;                                    \
        view->stream = STREAM(a->hStream);                                     \
        return view_fill(view, a->dstDevice, a->value, a->N, element);         \
    }
#define SYNC(symbol, value, element)                                           \
    case DCP_HOOK_##symbol: {                                                  \
        struct dcp_args_##symbol *a = args;                                    \
        view->stream = STREAM(NULL);                                           \
        return view_fill(view, a->dstDevice, a->value, a->N, element);         \
    }
    switch (info->canon) {
        ASYNC(cuMemsetD8Async, uc, 1)
        ASYNC(cuMemsetD16Async, us, 2)
        ASYNC(cuMemsetD32Async, ui, 4)
        SYNC(cuMemsetD8_v2, uc, 1)
        SYNC(cuMemsetD16_v2, us, 2)
        SYNC(cuMemsetD32_v2, ui, 4)
    default:
        return view_other(view, info);
    }
#undef ASYNC
#undef SYNC
}

static bool
view_event(struct dcp_view *view, const struct dcp_hook_info *info, void *args)
{
    view->fold = DCP_FOLD_EAGER;
    switch (info->canon) {
    case DCP_HOOK_cuEventRecord: {
        struct dcp_args_cuEventRecord *a = args;
        view->op = DCP_CALL_RECORD;
        view->stream = STREAM(a->hStream);
        view->event.event = (uint64_t)a->hEvent;
        view->event.flags = 0;
        return true;
    }
    case DCP_HOOK_cuEventRecordWithFlags: {
        struct dcp_args_cuEventRecordWithFlags *a = args;
        view->op = DCP_CALL_RECORD;
        view->stream = STREAM(a->hStream);
        view->event.event = (uint64_t)a->hEvent;
        view->event.flags = a->flags;
        return true;
    }
    case DCP_HOOK_cuStreamWaitEvent: {
        struct dcp_args_cuStreamWaitEvent *a = args;
        view->op = DCP_CALL_DEPEND;
        view->stream = STREAM(a->hStream);
        view->event.event = (uint64_t)a->hEvent;
        view->event.flags = a->Flags;
        return true;
    }
    case DCP_HOOK_cuStreamSynchronize: {
        struct dcp_args_cuStreamSynchronize *a = args;
        view->op = DCP_CALL_WAIT;
        view->fold = DCP_FOLD_WAIT;
        view->stream = STREAM(a->hStream);
        return true;
    }
    default:
        return view_other(view, info);
    }
}

bool
dcp_view_fill(struct dcp_view *view, const struct dcp_hook_info *info,
              void *args)
{
    view->hook = info->canon;
    view->sync = false;
    view->stream = 0;
    switch (info->canon) {
    case DCP_HOOK_cuLaunchKernel:
    case DCP_HOOK_cuLaunchKernelEx:
        return view_launch(view, info, args);
    case DCP_HOOK_cuLaunchCooperativeKernel:
        return view_cooperative(view, info, args);
    case DCP_HOOK_cuMemAllocAsync:
    case DCP_HOOK_cuMemAllocFromPoolAsync:
    case DCP_HOOK_cuMemAlloc_v2:
    case DCP_HOOK_cuMemFreeAsync:
    case DCP_HOOK_cuMemFree_v2:
        return view_memory(view, info, args);
    case DCP_HOOK_cuMemcpyHtoDAsync_v2:
    case DCP_HOOK_cuMemcpyDtoHAsync_v2:
    case DCP_HOOK_cuMemcpyDtoDAsync_v2:
    case DCP_HOOK_cuMemcpyAsync:
        return view_async_copy(view, info, args);
    case DCP_HOOK_cuMemcpyHtoD_v2:
    case DCP_HOOK_cuMemcpyDtoH_v2:
    case DCP_HOOK_cuMemcpyDtoD_v2:
    case DCP_HOOK_cuMemcpy:
        return view_sync_copy(view, info, args);
    default:
        break;
    }
    if (info->class == DCP_CLASS_FILL)
        return view_memset(view, info, args);
    if (info->class == DCP_CLASS_RECORD || info->class == DCP_CLASS_DEPEND ||
        info->class == DCP_CLASS_WAIT)
        return view_event(view, info, args);
    return view_other(view, info);
}
