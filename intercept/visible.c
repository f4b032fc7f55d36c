/* SPDX-License-Identifier: Apache-2.0 */
/* What the program can ask about memory. About blocks of the heap the answers
 * are those that the driver gives about blocks of its own: a block is an
 * allocation, whatever frames stand behind it. */
#include "config.h"

#include "src/log.h"

#include "intercept/frame.h"
#include "intercept/heap.h"
#include "intercept/heap_own.h"
#include "intercept/heap_pool.h"
#include "intercept/hook.h"

/* Keeps our ids apart from those that the driver counts. */
#define ID_BASE ((unsigned long long)1 << 62)

CUresult
dcp_own_cuMemGetInfo_v2(const struct dcp_hook_info *info,
                        struct dcp_args_cuMemGetInfo_v2 *args)
{
    struct dcp_heap_stats stats;
    size_t left = 0, total = 0, limit = dcp_frame_get_limit();

    (void)info;
    if ((!args->free && !args->total) || !dcp_heap_serves())
        return DCP_ASK(cuMemGetInfo_v2, args->free, args->total);
    CUresult cu = DCP_ASK(cuMemGetInfo_v2, &left, &total);
    if (cu != CUDA_SUCCESS)
        return cu;
    dcp_heap_get_stats(&stats);
    size_t room = dcp_frame_room();
    left = (left < room ? left : room) + stats.unused;
    if (limit && total > limit)
        total = limit;
    if (args->free)
        *args->free = left < total ? left : total;
    if (args->total)
        *args->total = total;
    return CUDA_SUCCESS;
}

CUresult
dcp_own_cuMemGetAddressRange_v2(const struct dcp_hook_info *info,
                                struct dcp_args_cuMemGetAddressRange_v2 *args)
{
    struct dcp_block block;

    (void)info;
    if (!dcp_heap_owns(args->dptr))
        return DCP_ASK(cuMemGetAddressRange_v2, args->pbase, args->psize,
                       args->dptr);
    if (!dcp_heap_find(args->dptr, &block))
        return CUDA_ERROR_NOT_FOUND;
    if (args->pbase)
        *args->pbase = block.base;
    if (args->psize)
        *args->psize = block.bytes;
    return CUDA_SUCCESS;
}

/* The attributes that the heap answers, into *data. False: ask the driver. */
static bool
answer(const struct dcp_block *block, CUdeviceptr address,
       CUpointer_attribute attribute, void *data)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = CU_MEMORYTYPE_DEVICE;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = dcp_frame_device();
        return true;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        /* Blocks of pools belong to no context; others to the creator's. */
        if (block->pool)
            return false;
        *(CUcontext *)data = dcp_heap_context();
        return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = ID_BASE | block->id;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = block->base;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = block->bytes;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = dcp_pool_handle(block->pool);
        return true;
    default:
        return false;
    }
}

/* What the driver answers about the frame and must not show through: the
 * frame's own handle types, and the host's address of a spilled block. */
static void
amend(CUpointer_attribute attribute, void *data)
{
    if (attribute == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES)
        *(unsigned *)data = CU_MEM_HANDLE_TYPE_NONE;
    else if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER)
        *(void **)data = NULL;
}

CUresult
dcp_own_cuPointerGetAttribute(const struct dcp_hook_info *info,
                              struct dcp_args_cuPointerGetAttribute *args)
{
    struct dcp_block block;

    (void)info;
    if (args->data && dcp_heap_owns(args->ptr)) {
        if (!dcp_heap_find(args->ptr, &block) ||
            args->attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER)
            return CUDA_ERROR_INVALID_VALUE;
        if (answer(&block, args->ptr, args->attribute, args->data))
            return CUDA_SUCCESS;
        CUresult cu = DCP_ASK(cuPointerGetAttribute, args->data,
                              args->attribute, args->ptr);
        if (cu == CUDA_SUCCESS)
            amend(args->attribute, args->data);
        return cu;
    }
    return DCP_ASK(cuPointerGetAttribute, args->data, args->attribute,
                   args->ptr);
}

CUresult
dcp_own_cuPointerGetAttributes(const struct dcp_hook_info *info,
                               struct dcp_args_cuPointerGetAttributes *args)
{
    struct dcp_block block;

    (void)info;
    CUresult cu = DCP_ASK(cuPointerGetAttributes, args->numAttributes,
                          args->attributes, args->data, args->ptr);
    if (cu != CUDA_SUCCESS || !dcp_heap_find(args->ptr, &block))
        return cu;
    for (unsigned i = 0; i < args->numAttributes; i++)
        if (!answer(&block, args->ptr, args->attributes[i], args->data[i]))
            amend(args->attributes[i], args->data[i]);
    return cu;
}

CUresult
dcp_own_cuIpcGetMemHandle(const struct dcp_hook_info *info,
                          struct dcp_args_cuIpcGetMemHandle *args)
{
    static atomic_bool told;

    (void)info;
    if (dcp_heap_owns(args->dptr) && !atomic_exchange(&told, true))
        dcp_warn("the program shares memory by cuIpcGetMemHandle, which the "
                 "heap's memory does not allow: run it without DC_CONFIG");
    return DCP_ASK(cuIpcGetMemHandle, args->pHandle, args->dptr);
}

CUresult
dcp_own_cuMemRetainAllocationHandle(
    const struct dcp_hook_info *info,
    struct dcp_args_cuMemRetainAllocationHandle *args)
{
    (void)info;
    /* A frame holds other blocks too, and may change behind the block. */
    if (dcp_heap_owns((CUdeviceptr)(uintptr_t)args->addr))
        return CUDA_ERROR_INVALID_VALUE;
    return DCP_ASK(cuMemRetainAllocationHandle, args->handle, args->addr);
}

CUresult
dcp_own_cuMemGetHandleForAddressRange(
    const struct dcp_hook_info *info,
    struct dcp_args_cuMemGetHandleForAddressRange *args)
{
    struct dcp_block block;

    (void)info;
    if (dcp_heap_owns(args->dptr) &&
        (!dcp_heap_find(args->dptr, &block) ||
         args->dptr - block.base > block.bytes ||
         args->size > block.bytes - (args->dptr - block.base)))
        return CUDA_ERROR_INVALID_VALUE;
    return DCP_ASK(cuMemGetHandleForAddressRange, args->handle, args->dptr,
                   args->size, args->handleType, args->flags);
}
