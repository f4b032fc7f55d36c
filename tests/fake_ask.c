/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/fake_ask.h"

#include <string.h>

struct fake_ask fake_ask;

static CUresult
ctx_current(CUcontext *out)
{
    *out = fake_ask.current;
    return CUDA_SUCCESS;
}

static CUresult
primary_state(CUdevice device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = fake_ask.retained > 0;
    return CUDA_SUCCESS;
}

static CUresult
primary_retain(CUcontext *out, CUdevice device)
{
    (void)device;
    fake_ask.retained++;
    *out = FAKE_PRIMARY;
    return CUDA_SUCCESS;
}

static CUresult
primary_release(CUdevice device)
{
    (void)device;
    fake_ask.retained--;
    return CUDA_SUCCESS;
}

static CUresult
primary_reset(CUdevice device)
{
    (void)device;
    if (fake.mapped)
        fake.broken++;
    return CUDA_SUCCESS;
}

static CUresult
give(CUdeviceptr *out, size_t bytes)
{
    fake_ask.asked++;
    if (out == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = FAKE_ADDRESS;
    return CUDA_SUCCESS;
}

static CUresult
alloc_pitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
            unsigned element)
{
    if (element != 4 && element != 8 && element != 16)
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = width;
    return height > SIZE_MAX / 2 / (width + 1) ? CUDA_ERROR_OUT_OF_MEMORY
                                               : give(out, width * height);
}

static CUresult
take(CUdeviceptr base)
{
    fake_ask.asked++;
    fake_ask.freed = base;
    return base == 0 || base == FAKE_ADDRESS ? CUDA_SUCCESS
                                             : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
alloc_async(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    fake_ask.stream = stream;
    return give(out, bytes);
}

static CUresult
alloc_from_pool(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                CUstream stream)
{
    fake_ask.stream = stream;
    return pool ? give(out, bytes) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
free_async(CUdeviceptr base, CUstream stream)
{
    fake_ask.stream = stream;
    return take(base);
}

static CUresult
is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
    for (int i = 0; i < FAKE_STREAMS; i++)
        if (fake_stream(i) == stream && fake_ask.capturing[i]) {
            *status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
            return CUDA_SUCCESS;
        }
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return stream == CU_STREAM_LEGACY ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
                                      : CUDA_SUCCESS;
}

static CUresult
stream_destroy(CUstream stream)
{
    fake_ask.stream = stream;
    return CUDA_SUCCESS;
}

static CUresult
default_pool(CUmemoryPool *out, CUdevice device)
{
    (void)device;
    *out = FAKE_POOL;
    return CUDA_SUCCESS;
}

static CUresult
current_pool(CUmemoryPool *out, CUdevice device)
{
    (void)device;
    *out = fake_ask.current_pool;
    return CUDA_SUCCESS;
}

static CUresult
set_pool(CUdevice device, CUmemoryPool pool)
{
    (void)device;
    fake_ask.current_pool = pool;
    return CUDA_SUCCESS;
}

static CUresult
pool_create(CUmemoryPool *out, const CUmemPoolProps *props)
{
    static uintptr_t next = 0xf0;

    (void)props;
    *out = (CUmemoryPool)(next += 16);
    return CUDA_SUCCESS;
}

static CUresult
pool_destroy(CUmemoryPool pool)
{
    if (fake_ask.current_pool == pool)
        fake_ask.current_pool = FAKE_POOL;
    return CUDA_SUCCESS;
}

static CUresult
pool_get(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    (void)pool;
    fake_ask.asked++;
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        *(int *)value = 1;
    else
        *(cuuint64_t *)value = FAKE_ANSWER;
    return CUDA_SUCCESS;
}

static CUresult
pool_set(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    (void)pool;
    fake_ask.asked++;
    if (attribute > CU_MEMPOOL_ATTR_RELEASE_THRESHOLD &&
        *(cuuint64_t *)value != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult
pool_trim(CUmemoryPool pool, size_t keep)
{
    (void)pool;
    fake_ask.trimmed = keep + 1;
    return CUDA_SUCCESS;
}

static CUresult
address_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    (void)address;
    fake_ask.asked++;
    if (base)
        *base = FAKE_ADDRESS;
    if (bytes)
        *bytes = FAKE_ANSWER;
    return CUDA_SUCCESS;
}

static CUresult
pointer_attribute(void *data, CUpointer_attribute attribute,
                  CUdeviceptr address)
{
    (void)attribute;
    (void)address;
    fake_ask.asked++;
    if (data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *(int *)data = FAKE_ANSWER;
    return CUDA_SUCCESS;
}

static CUresult
pointer_attributes(unsigned count, CUpointer_attribute *attributes,
                   void **data, CUdeviceptr address)
{
    for (unsigned i = 0; i < count; i++)
        pointer_attribute(data[i], attributes[i], address);
    return CUDA_SUCCESS;
}

static CUresult
ipc_handle(CUipcMemHandle *handle, CUdeviceptr address)
{
    (void)handle;
    return address == FAKE_ADDRESS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
retain_handle(CUmemGenericAllocationHandle *handle, void *address)
{
    (void)address;
    *handle = FAKE_ANSWER;
    return CUDA_SUCCESS;
}

static CUresult
range_handle(void *handle, CUdeviceptr address, size_t bytes,
             CUmemRangeHandleType type, unsigned long long flags)
{
    (void)address;
    (void)bytes;
    (void)type;
    (void)flags;
    *(int *)handle = FAKE_ANSWER;
    return CUDA_SUCCESS;
}

void
fake_ask_start(void)
{
    memset(&fake_ask, 0, sizeof fake_ask);
    fake_ask.current = FAKE_PRIMARY;
    fake_ask.current_pool = FAKE_POOL;
    fake_ask.retained = 1;
    dcp_real.cuCtxGetCurrent = ctx_current;
    dcp_real.cuDevicePrimaryCtxGetState = primary_state;
    dcp_real.cuDevicePrimaryCtxRetain = primary_retain;
    dcp_real.cuDevicePrimaryCtxRelease_v2 = primary_release;
    dcp_real.cuDevicePrimaryCtxReset_v2 = primary_reset;
    dcp_real.cuMemAlloc_v2 = give;
    dcp_real.cuMemAllocPitch_v2 = alloc_pitch;
    dcp_real.cuMemFree_v2 = take;
    dcp_real.cuMemAllocAsync = alloc_async;
    dcp_real.cuMemAllocFromPoolAsync = alloc_from_pool;
    dcp_real.cuMemFreeAsync = free_async;
    dcp_real.cuStreamIsCapturing = is_capturing;
    dcp_real.cuStreamDestroy_v2 = stream_destroy;
    dcp_real.cuDeviceGetDefaultMemPool = default_pool;
    dcp_real.cuDeviceGetMemPool = current_pool;
    dcp_real.cuDeviceSetMemPool = set_pool;
    dcp_real.cuMemPoolCreate = pool_create;
    dcp_real.cuMemPoolDestroy = pool_destroy;
    dcp_real.cuMemPoolGetAttribute = pool_get;
    dcp_real.cuMemPoolSetAttribute = pool_set;
    dcp_real.cuMemPoolTrimTo = pool_trim;
    dcp_real.cuMemGetAddressRange_v2 = address_range;
    dcp_real.cuPointerGetAttribute = pointer_attribute;
    dcp_real.cuPointerGetAttributes = pointer_attributes;
    dcp_real.cuIpcGetMemHandle = ipc_handle;
    dcp_real.cuMemRetainAllocationHandle = retain_handle;
    dcp_real.cuMemGetHandleForAddressRange = range_handle;
}
