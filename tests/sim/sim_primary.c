/* SPDX-License-Identifier: Apache-2.0 */
/* The primary context of each device. It is made by the first retain and
 * cleared by the last release; the handle stays the same. */
#include "sim.h"

CUresult
cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice handle)
{
    SIM_API(SIM_INIT);
    struct sim_device *device = sim_device_get(handle);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (device->primary == NULL) {
        device->primary = sim_ctx_new(device, device->primary_flags);
        device->primary->primary = true;
    } else if (device->primary->legacy == NULL) {
        sim_ctx_begin(device->primary);
    }
    device->primary_refs++;
    *out = sim_ctx_handle(device->primary);
    return CUDA_SUCCESS;
}

static CUresult
primary_reset(struct sim_device *device)
{
    if (device->primary != NULL && device->primary->legacy != NULL) {
        sim_ctx_clear(device->primary);
        device->primary->legacy = NULL;
        device->primary->error = CUDA_SUCCESS;
    }
    return CUDA_SUCCESS;
}

static CUresult
primary_release(CUdevice handle)
{
    struct sim_device *device = sim_device_get(handle);
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (device->primary_refs == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--device->primary_refs == 0)
        return primary_reset(device);
    return CUDA_SUCCESS;
}

CUresult
cuDevicePrimaryCtxRelease(CUdevice device)
{
    SIM_API(SIM_INIT);
    return primary_release(device);
}

CUresult
cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    SIM_API(SIM_INIT);
    return primary_release(device);
}

static CUresult
primary_reset_by_handle(CUdevice handle)
{
    struct sim_device *device = sim_device_get(handle);
    return device ? primary_reset(device) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult
cuDevicePrimaryCtxReset(CUdevice device)
{
    SIM_API(SIM_INIT);
    return primary_reset_by_handle(device);
}

CUresult
cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    SIM_API(SIM_INIT);
    return primary_reset_by_handle(device);
}

static CUresult
primary_set_flags(CUdevice handle, unsigned flags)
{
    struct sim_device *device = sim_device_get(handle);
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    device->primary_flags = flags;
    if (device->primary)
        device->primary->flags = flags;
    return CUDA_SUCCESS;
}

CUresult
cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    SIM_API(SIM_INIT);
    return primary_set_flags(device, flags);
}

CUresult
cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    SIM_API(SIM_INIT);
    return primary_set_flags(device, flags);
}

CUresult
cuDevicePrimaryCtxGetState(CUdevice handle, unsigned int *flags, int *active)
{
    SIM_API(SIM_INIT);
    struct sim_device *device = sim_device_get(handle);
    if (device == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags == NULL || active == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = device->primary_flags;
    *active = device->primary != NULL && device->primary->legacy != NULL;
    return CUDA_SUCCESS;
}
