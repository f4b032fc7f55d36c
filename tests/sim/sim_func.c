/* SPDX-License-Identifier: Apache-2.0 */
/* What functions and kernels answer about themselves, and occupancy. As on
 * the real driver, cuFunc* takes no CUkernel and cuKernel* no CUfunction. */
#include "sim.h"

#define SHARED_OPTIN 232448
#define SHARED_SM 233472

static CUresult
param_info(const struct sim_func *func, size_t index, size_t *offset,
           size_t *bytes)
{
    if (func == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (offset == NULL || index >= func->param_count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = func->params[index].offset;
    if (bytes)
        *bytes = func->params[index].bytes;
    return CUDA_SUCCESS;
}

CUresult
cuFuncGetParamInfo(CUfunction func, size_t index, size_t *offset, size_t *bytes)
{
    SIM_API(SIM_INIT);
    return param_info(sim_object_get(func, SIM_FUNC), index, offset, bytes);
}

CUresult
cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset,
                     size_t *bytes)
{
    SIM_API(SIM_INIT);
    return param_info(sim_object_get(kernel, SIM_KERNEL), index, offset, bytes);
}

static CUresult
get_name(const char **out, const struct sim_func *func)
{
    if (func == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = func->name;
    return CUDA_SUCCESS;
}

CUresult
cuFuncGetName(const char **name, CUfunction func)
{
    SIM_API(SIM_INIT);
    return get_name(name, sim_object_get(func, SIM_FUNC));
}

CUresult
cuKernelGetName(const char **name, CUkernel kernel)
{
    SIM_API(SIM_INIT);
    return get_name(name, sim_object_get(kernel, SIM_KERNEL));
}

static CUresult
get_attribute(int *value, CUfunction_attribute attribute,
              const struct sim_func *func)
{
    if (func == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)func->shared;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 90;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = func->max_dynamic;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = func->carveout;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = func->nonportable;
        break;
    default:
        if ((unsigned)attribute >= CU_FUNC_ATTRIBUTE_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        *value = 0;
    }
    return CUDA_SUCCESS;
}

CUresult
cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction func)
{
    SIM_API(SIM_CURRENT);
    return get_attribute(value, attribute, sim_object_get(func, SIM_FUNC));
}

CUresult
cuKernelGetAttribute(int *value, CUfunction_attribute attribute,
                     CUkernel kernel, CUdevice device)
{
    SIM_API(SIM_INIT);
    if (sim_device_get(device) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    return get_attribute(value, attribute, sim_object_get(kernel, SIM_KERNEL));
}

static CUresult
set_attribute(struct sim_func *func, CUfunction_attribute attribute, int value)
{
    if (func == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > SHARED_OPTIN - (int)func->shared)
            return CUDA_ERROR_INVALID_VALUE;
        func->max_dynamic = value;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        func->carveout = value;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        func->nonportable = value != 0;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (func->object.kind == SIM_KERNEL && func->twin)
        return set_attribute(func->twin, attribute, value);
    return CUDA_SUCCESS;
}

CUresult
cuFuncSetAttribute(CUfunction func, CUfunction_attribute attribute, int value)
{
    SIM_API(SIM_CURRENT);
    return set_attribute(sim_object_get(func, SIM_FUNC), attribute, value);
}

CUresult
cuKernelSetAttribute(CUfunction_attribute attribute, int value,
                     CUkernel kernel, CUdevice device)
{
    SIM_API(SIM_INIT);
    if (sim_device_get(device) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    return set_attribute(sim_object_get(kernel, SIM_KERNEL), attribute, value);
}

CUresult
cuFuncSetCacheConfig(CUfunction func, CUfunc_cache config)
{
    SIM_API(SIM_CURRENT);
    (void)config;
    return sim_object_get(func, SIM_FUNC) ? CUDA_SUCCESS
                                          : CUDA_ERROR_INVALID_HANDLE;
}

CUresult
cuFuncSetSharedMemConfig(CUfunction func, CUsharedconfig config)
{
    SIM_API(SIM_CURRENT);
    (void)config;
    return sim_object_get(func, SIM_FUNC) ? CUDA_SUCCESS
                                          : CUDA_ERROR_INVALID_HANDLE;
}

CUresult
cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    SIM_API(SIM_INIT);
    (void)config;
    if (sim_device_get(device) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    return sim_object_get(kernel, SIM_KERNEL) ? CUDA_SUCCESS
                                              : CUDA_ERROR_INVALID_HANDLE;
}

CUresult
cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction func)
{
    SIM_API(SIM_INIT);
    if (state == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_object_get(func, SIM_FUNC) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult
cuFuncLoad(CUfunction func)
{
    SIM_API(SIM_INIT);
    return sim_object_get(func, SIM_FUNC) ? CUDA_SUCCESS
                                          : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult
max_blocks(int *out, CUfunction handle, int block, size_t dynamic)
{
    const struct sim_func *func = sim_func_get(handle);
    if (func == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (out == NULL || block <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    int threads = (block + 31) / 32 * 32;
    int blocks = block > 1024 ? 0 : 2048 / threads;
    size_t shared = func->shared + dynamic + 1024;
    if (blocks > 32)
        blocks = 32;
    if (shared * (size_t)blocks > SHARED_SM)
        blocks = (int)(SHARED_SM / shared);
    *out = blocks;
    return CUDA_SUCCESS;
}

CUresult
cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction func,
                                            int block, size_t dynamic)
{
    SIM_API(SIM_CURRENT);
    return max_blocks(blocks, func, block, dynamic);
}

CUresult
cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                     CUfunction func, int block,
                                                     size_t dynamic,
                                                     unsigned int flags)
{
    SIM_API(SIM_CURRENT);
    if (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return CUDA_ERROR_INVALID_VALUE;
    return max_blocks(blocks, func, block, dynamic);
}

static CUresult
best_block(int *grid, int *block, CUfunction handle, int limit)
{
    if (grid == NULL || block == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_func_get(handle) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *block = limit > 0 && limit < 1024 ? limit : 1024;
    *grid = 132 * (2048 / *block);
    return CUDA_SUCCESS;
}

CUresult
cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction func,
                                 CUoccupancyB2DSize size, size_t dynamic,
                                 int limit)
{
    SIM_API(SIM_CURRENT);
    (void)size, (void)dynamic;
    return best_block(grid, block, func, limit);
}

CUresult
cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block,
                                          CUfunction func,
                                          CUoccupancyB2DSize size,
                                          size_t dynamic, int limit,
                                          unsigned int flags)
{
    SIM_API(SIM_CURRENT);
    (void)size, (void)dynamic, (void)flags;
    return best_block(grid, block, func, limit);
}

CUresult
cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction handle,
                                        int blocks, int block)
{
    SIM_API(SIM_CURRENT);
    const struct sim_func *func = sim_func_get(handle);
    if (func == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (bytes == NULL || blocks <= 0 || block <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    size_t each = SHARED_SM / (size_t)blocks;
    *bytes = each > 1024 + func->shared ? each - 1024 - func->shared : 0;
    return CUDA_SUCCESS;
}

CUresult
cuOccupancyMaxPotentialClusterSize(int *size, CUfunction func,
                                   const CUlaunchConfig *config)
{
    SIM_API(SIM_CURRENT);
    if (size == NULL || config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_func_get(func) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *size = 8;
    return CUDA_SUCCESS;
}

CUresult
cuOccupancyMaxActiveClusters(int *count, CUfunction func,
                             const CUlaunchConfig *config)
{
    SIM_API(SIM_CURRENT);
    if (count == NULL || config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_func_get(func) == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *count = 132 / 2;
    return CUDA_SUCCESS;
}
