/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver says about an address. */
#include "sim.h"

#include <string.h>

static bool
is_host(const struct sim_range *range)
{
    if (range->place == SIM_MAPPED)
        return range->frame->prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
    return !sim_range_is_device(range);
}

static int
ordinal_of(const struct sim_range *range)
{
    if (range->place == SIM_MAPPED)
        return is_host(range) ? -2 : range->frame->prop.location.id;
    return range->device ? range->device->ordinal : -2;
}

static CUresult
host_pointer(void **out, const struct sim_range *range, CUdeviceptr at)
{
    if (!is_host(range) && range->place != SIM_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (void *)(uintptr_t)at;
    return CUDA_SUCCESS;
}

static unsigned
access_of(const struct sim_range *range)
{
    if (range->place != SIM_MAPPED)
        return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    return range->flags; /* the two enums agree */
}

static CUresult
attribute_get(void *out, CUpointer_attribute attribute,
              const struct sim_range *range, CUdeviceptr at)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)out = range->place == SIM_MAPPED
                                ? NULL : sim_ctx_handle(range->ctx);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)out = is_host(range) ? CU_MEMORYTYPE_HOST
                                          : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)out = at;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return host_pointer(out, range, at);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(int *)out = range->sync_memops;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)out = range->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(bool *)out = range->place == SIM_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = ordinal_of(range);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(bool *)out = range->place == SIM_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)out = range->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)out = range->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(bool *)out = range->place != SIM_RESERVED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(uint64_t *)out = range->place == SIM_MAPPED
                               ? range->frame->prop.requestedHandleTypes : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(bool *)out = range->place == SIM_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)out = access_of(range);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)out = (CUmemoryPool)range->pool;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)out = range->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(void **)out = (void *)range->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)out = range->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult
cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr at)
{
    SIM_API(SIM_CURRENT);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_range *range = sim_range_find((uintptr_t)at);
    if (range == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return attribute_get(out, attribute, range, at);
}

/* What the batch form leaves where there is no answer. */
static void
attribute_none(void *out, CUpointer_attribute attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)out = 0;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = -2;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(bool *)out = false;
        break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        break;
    default:
        *(uint64_t *)out = 0;
    }
}

CUresult
cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
                       void **out, CUdeviceptr at)
{
    SIM_API(SIM_CURRENT);
    if (count == 0 || attributes == NULL || out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_range *range = sim_range_find((uintptr_t)at);
    for (unsigned i = 0; i < count; i++) {
        if (out[i] == NULL)
            return CUDA_ERROR_INVALID_VALUE;
        attribute_none(out[i], attributes[i]);
        if (range != NULL)
            attribute_get(out[i], attributes[i], range, at);
    }
    return CUDA_SUCCESS;
}

CUresult
cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                      CUdeviceptr at)
{
    SIM_API(SIM_CURRENT);
    struct sim_range *range = sim_range_find((uintptr_t)at);
    if (value == NULL || range == NULL ||
        attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    range->sync_memops = *(const unsigned *)value != 0;
    return CUDA_SUCCESS;
}
