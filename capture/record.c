/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "capture/record.h"

#include "intercept/heap.h"
#include "src/clock.h"

#include <string.h>

enum { REFS_MAX = 4096 };

uint8_t
dcp_place_of(uint64_t pointer)
{
    unsigned type = 0;

    if (dcp_heap_owns(pointer))
        return DCP_PLACE_DEVICE;
    CUresult result = dcp_real.cuPointerGetAttribute(
        &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer);
    if (result == CUDA_ERROR_INVALID_VALUE)
        return DCP_PLACE_PAGEABLE;
    if (result != CUDA_SUCCESS)
        return DCP_PLACE_UNKNOWN;
    return type == CU_MEMORYTYPE_HOST ? DCP_PLACE_PINNED : DCP_PLACE_DEVICE;
}

/* How many bytes of an attribute's value mean something; what follows is
 * whatever the program's stack held. */
static size_t
attr_bytes(CUlaunchAttributeID id)
{
    switch ((int)id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        return sizeof(CUaccessPolicyWindow);
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case 11: /* preferred cluster dimension, 12.8 */
        return 12;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        return sizeof(CUlaunchMemSyncDomainMap);
    default:
        return 4;
    }
}

uint64_t
dcp_attrs_hash(const CUlaunchAttribute *attrs, uint32_t count, bool *graphable)
{
    uint64_t hash = 0;

    *graphable = true;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t words[sizeof(CUlaunchAttributeValue) / 8] = {0};

        if (attrs[i].id == CU_LAUNCH_ATTRIBUTE_IGNORE)
            continue;
        if (attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
            attrs[i].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT ||
            attrs[i].id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
            *graphable = false;
        memcpy(words, &attrs[i].value, attr_bytes(attrs[i].id));
        hash = (hash ^ (uint64_t)attrs[i].id) * 0x9E3779B97F4A7C15u;
        for (unsigned w = 0; w < sizeof words / 8; w++)
            hash = (hash ^ words[w] ^ (hash >> 29)) * 0xBF58476D1CE4E5B9u;
        hash |= 1;
    }
    return hash;
}

int
dcp_params_pack(const struct dcp_kernel *kernel, void **params, void **extra,
                uint8_t *packed)
{
    uint64_t changed = 0;

    if (!kernel->known)
        return -1;
    if (params) {
        for (uint32_t i = 0; i < kernel->param_count; i++) {
            const struct dcp_kernel_param *p = &kernel->params[i];
            uint8_t *to = packed + p->offset;

            if (p->bytes == 8) {
                uint64_t new, old;
                memcpy(&new, params[i], 8);
                memcpy(&old, to, 8);
                changed |= new ^ old;
                memcpy(to, &new, 8);
            } else if (p->bytes == 4) {
                uint32_t new, old;
                memcpy(&new, params[i], 4);
                memcpy(&old, to, 4);
                changed |= new ^ old;
                memcpy(to, &new, 4);
            } else if (memcmp(to, params[i], p->bytes) != 0) {
                memcpy(to, params[i], p->bytes);
                changed = 1;
            }
        }
        return changed != 0;
    }
    if (!extra)
        return kernel->param_count == 0 ? 0 : -1;
    const uint8_t *buffer = NULL;
    size_t bytes = 0;
    for (unsigned i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *(size_t *)extra[i + 1];
        else
            return -1;
    }
    /* Exactly the parameters, whatever trails them; a buffer that is too
     * short is the driver's to refuse. */
    if (!buffer || bytes < kernel->bytes)
        return kernel->bytes == 0 ? 0 : -1;
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        const struct dcp_kernel_param *p = &kernel->params[i];

        if (memcmp(packed + p->offset, buffer + p->offset, p->bytes) != 0) {
            memcpy(packed + p->offset, buffer + p->offset, p->bytes);
            changed = 1;
        }
    }
    return changed != 0;
}

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

static unsigned
ref_add(struct dcp_ref *refs, unsigned count, uint64_t address, uint32_t slot)
{
    struct dcp_block block;

    if (count == REFS_MAX || !dcp_heap_find(address, &block))
        return count;
    refs[count].buffer = (uint32_t)block.id;
    refs[count].slot = slot;
    refs[count].offset = address - block.base;
    return count + 1;
}

static unsigned
refs_of_launch(const struct dcp_call *call, struct dcp_ref *refs)
{
    unsigned count = 0;
    CUdeviceptr base;
    size_t range;

    dcp_heap_range(&base, &range);
    for (uint32_t at = 0; at + 8 <= call->launch.bytes; at += 8) {
        uint64_t word;

        memcpy(&word, call->launch.params + at, 8);
        if (word - base < range)
            count = ref_add(refs, count, word, at);
    }
    return count;
}

static bool
call_record_launch(struct dcp_call *call, const struct dcp_view *view,
                   struct dcp_arena *arena)
{
    const struct dcp_kernel *kernel = dcp_kernel_get(view->launch.handle);
    bool graphable;

    if (!kernel)
        return false;
    call->launch.kernel = kernel;
    memcpy(call->launch.grid, view->launch.grid, 12);
    memcpy(call->launch.block, view->launch.block, 12);
    call->launch.shared = view->launch.shared;
    call->launch.attrs = dcp_attrs_hash(view->launch.attrs,
                                        view->launch.attr_count, &graphable);
    call->launch.bytes = kernel->bytes;
    call->launch.params = dcp_arena_alloc(arena, kernel->bytes + 8u);
    if (!call->launch.params)
        return false;
    dcp_params_pack(kernel, view->launch.params, view->launch.extra,
                    call->launch.params);
    return true;
}

bool
dcp_call_record(struct dcp_call *call, const struct dcp_view *view,
                struct dcp_arena *arena)
{
    struct dcp_ref refs[REFS_MAX];
    unsigned count = 0;

    memset(call, 0, sizeof *call);
    call->op = view->op;
    call->sync = view->sync;
    call->hook = view->hook;
    call->stream = view->stream;
    call->begin_ns = dcp_now_ns();
    switch ((enum dcp_call_op)view->op) {
    case DCP_CALL_LAUNCH:
        if (!call_record_launch(call, view, arena))
            return false;
        count = refs_of_launch(call, refs);
        break;
    case DCP_CALL_COPY:
        call->copy.dst = view->copy.dst;
        call->copy.src = view->copy.src;
        call->copy.bytes = view->copy.bytes;
        call->copy.dst_place = view->copy.dst_place;
        call->copy.src_place = view->copy.src_place;
        count = ref_add(refs, count, view->copy.dst, 0);
        count = ref_add(refs, count, view->copy.src, 8);
        break;
    case DCP_CALL_FILL:
        call->fill.dst = view->fill.dst;
        call->fill.pitch = view->fill.pitch;
        call->fill.width = view->fill.width;
        call->fill.height = view->fill.height;
        call->fill.value = view->fill.value;
        call->fill.element = view->fill.element;
        count = ref_add(refs, count, view->fill.dst, 0);
        break;
    case DCP_CALL_RECORD:
    case DCP_CALL_DEPEND:
        call->event.event = view->event.event;
        call->event.flags = view->event.flags;
        break;
    case DCP_CALL_ALLOC:
    case DCP_CALL_FREE:
        call->memory.address = view->memory.address;
        call->memory.bytes = view->memory.bytes;
        if (view->op == DCP_CALL_FREE)
            count = ref_add(refs, count, view->memory.address, 0);
        break;
    case DCP_CALL_WAIT:
    case DCP_CALL_OPAQUE:
        break;
    }
    if (count) {
        call->refs = dcp_arena_copy(arena, refs, count * sizeof *refs);
        if (!call->refs)
            return false;
        call->ref_count = (uint16_t)count;
    }
    return true;
}
