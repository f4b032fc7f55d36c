/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/fake_memory.h"

#include <stdlib.h>
#include <string.h>

#define SPACE ((CUdeviceptr)0x700000000000)

struct fake fake;

enum { MAPPINGS = 1 << 16, HANDLES = 1 << 16, EVENTS = 64 };

static struct {
    size_t bytes;
    bool host, released;
    int mappings;
} handle[HANDLES];

static struct {
    CUdeviceptr base;
    size_t bytes;
    int handle;
    bool open;
} mapping[MAPPINGS];
static int mapping_count;

static struct {
    bool alive;
    int stream;
    uint64_t at;
} event[EVENTS];

#define RULE(kept)                                                             \
    do {                                                                       \
        if (!(kept)) {                                                         \
            fake.broken++;                                                     \
            return CUDA_ERROR_INVALID_VALUE;                                   \
        }                                                                      \
    } while (0)

static CUresult
called(void)
{
    fake.calls++;
    if (fake.in_global_capture && !fake.relaxed)
        fake.broken++;
    if (fake.fail_after < 0 || fake.fail_count == 0)
        return CUDA_SUCCESS;
    if (fake.fail_after-- > 0)
        return CUDA_SUCCESS;
    fake.fail_after = 0;
    fake.fail_count--;
    return fake.fail_with;
}

#define CALLED()                                                               \
    do {                                                                       \
        CUresult failed = called();                                            \
        if (failed)                                                            \
            return failed;                                                     \
    } while (0)

static CUresult
total_mem(size_t *bytes, CUdevice device)
{
    (void)device;
    CALLED();
    *bytes = fake.device_bytes;
    return CUDA_SUCCESS;
}

static CUresult
device_attribute(int *value, CUdevice_attribute which, CUdevice device)
{
    (void)device;
    CALLED();
    switch (which) {
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        *value = !fake.no_vmm;
        break;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        *value = !fake.no_host;
        break;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
        *value = 1;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

static CUresult
ctx_device(CUdevice *device)
{
    CALLED();
    *device = 0;
    return CUDA_SUCCESS;
}

static CUresult
ctx_synchronize(void)
{
    CALLED();
    if (fake.in_global_capture)
        fake.broken++;
    fake.syncs++;
    memcpy(fake.completed, fake.issued, sizeof fake.issued);
    return CUDA_SUCCESS;
}

static CUresult
get_info(size_t *left, size_t *total)
{
    CALLED();
    *left = fake.device_bytes - fake.device_held;
    *total = fake.device_bytes;
    return CUDA_SUCCESS;
}

static CUresult
granularity(size_t *bytes, const CUmemAllocationProp *prop,
            CUmemAllocationGranularity_flags option)
{
    (void)prop;
    (void)option;
    CALLED();
    *bytes = fake.page;
    return CUDA_SUCCESS;
}

static CUresult
address_reserve(CUdeviceptr *base, size_t bytes, size_t align,
                CUdeviceptr hint, unsigned long long flags)
{
    (void)align;
    (void)hint;
    (void)flags;
    CALLED();
    RULE(bytes && bytes % fake.page == 0 && fake.reserved == 0);
    if (bytes > fake.space_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fake.reserved = bytes;
    *base = SPACE;
    return CUDA_SUCCESS;
}

static CUresult
address_free(CUdeviceptr base, size_t bytes)
{
    CALLED();
    RULE(base == SPACE && bytes == fake.reserved && fake.mapped == 0);
    fake.reserved = 0;
    return CUDA_SUCCESS;
}

static CUresult
mem_create(CUmemGenericAllocationHandle *out, size_t bytes,
           const CUmemAllocationProp *prop, unsigned long long flags)
{
    bool host = prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    size_t *held = host ? &fake.host_held : &fake.device_held;
    size_t most = host ? fake.host_bytes : fake.device_bytes;

    (void)flags;
    CALLED();
    RULE(bytes && bytes % fake.page == 0);
    if (bytes > most - *held)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int i = 1;
    while (handle[i].bytes)
        i++;
    handle[i].bytes = bytes;
    handle[i].host = host;
    handle[i].released = false;
    handle[i].mappings = 0;
    *held += bytes;
    if (fake.device_peak < fake.device_held)
        fake.device_peak = fake.device_held;
    fake.handles++;
    fake.creates++;
    *out = (CUmemGenericAllocationHandle)i;
    return CUDA_SUCCESS;
}

static void
handle_settle(int i)
{
    if (!handle[i].released || handle[i].mappings)
        return;
    if (handle[i].host)
        fake.host_held -= handle[i].bytes;
    else
        fake.device_held -= handle[i].bytes;
    handle[i].bytes = 0;
    fake.handles--;
}

static CUresult
mem_release(CUmemGenericAllocationHandle which)
{
    CALLED();
    RULE(which < HANDLES && handle[which].bytes && !handle[which].released);
    handle[which].released = true;
    handle_settle((int)which);
    return CUDA_SUCCESS;
}

static int
mapping_find(CUdeviceptr base)
{
    for (int i = 0; i < mapping_count; i++)
        if (mapping[i].bytes && mapping[i].base == base)
            return i;
    return -1;
}

static CUresult
mem_map(CUdeviceptr base, size_t bytes, size_t offset,
        CUmemGenericAllocationHandle which, unsigned long long flags)
{
    (void)flags;
    CALLED();
    RULE(offset == 0 && which < HANDLES && handle[which].bytes == bytes);
    RULE(base >= SPACE && base + bytes <= SPACE + fake.reserved);
    RULE(base % fake.page == 0 && bytes % fake.page == 0);
    int place = mapping_count;
    for (int i = 0; i < mapping_count; i++) {
        if (mapping[i].bytes == 0)
            place = i;
        RULE(mapping[i].bytes == 0 || base + bytes <= mapping[i].base ||
             mapping[i].base + mapping[i].bytes <= base);
    }
    RULE(place < MAPPINGS);
    if (place == mapping_count)
        mapping_count++;
    mapping[place].base = base;
    mapping[place].bytes = bytes;
    mapping[place].handle = (int)which;
    mapping[place].open = false;
    handle[which].mappings++;
    fake.mapped += bytes;
    return CUDA_SUCCESS;
}

static CUresult
mem_unmap(CUdeviceptr base, size_t bytes)
{
    CALLED();
    int i = mapping_find(base);
    RULE(i >= 0 && mapping[i].bytes == bytes);
    fake.mapped -= bytes;
    mapping[i].bytes = 0;
    handle[mapping[i].handle].mappings--;
    handle_settle(mapping[i].handle);
    return CUDA_SUCCESS;
}

static CUresult
set_access(CUdeviceptr base, size_t bytes, const CUmemAccessDesc *access,
           size_t count)
{
    CALLED();
    int i = mapping_find(base);
    RULE(i >= 0 && mapping[i].bytes == bytes && count >= 1);
    RULE(access[0].location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    mapping[i].open = true;
    return CUDA_SUCCESS;
}

CUstream
fake_stream(int i)
{
    return i == 0 ? CU_STREAM_LEGACY : (CUstream)(uintptr_t)(0x1000 + i * 64);
}

static int
stream_number(CUstream stream)
{
    for (int i = 0; i < FAKE_STREAMS; i++)
        if (fake_stream(i) == stream)
            return i;
    return -1;
}

static CUresult
event_create(CUevent *out, unsigned flags)
{
    (void)flags;
    CALLED();
    for (int i = 0; i < EVENTS; i++)
        if (!event[i].alive) {
            event[i].alive = true;
            event[i].stream = -1;
            fake.events++;
            *out = (CUevent)(uintptr_t)(0x100000 + i * 64);
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static int
event_number(CUevent which)
{
    int i = (int)(((uintptr_t)which - 0x100000) / 64);

    return i >= 0 && i < EVENTS && event[i].alive ? i : -1;
}

static CUresult
event_record(CUevent which, CUstream stream)
{
    CALLED();
    int i = event_number(which), s = stream_number(stream);
    RULE(i >= 0 && s >= 0 && !fake.in_global_capture);
    event[i].stream = s;
    event[i].at = fake.issued[s];
    return CUDA_SUCCESS;
}

static CUresult
event_query(CUevent which)
{
    CALLED();
    fake.queries++;
    int i = event_number(which);
    RULE(i >= 0 && event[i].stream >= 0 && !fake.in_global_capture);
    return fake.completed[event[i].stream] >= event[i].at
               ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult
event_destroy(CUevent which)
{
    CALLED();
    int i = event_number(which);
    RULE(i >= 0);
    event[i].alive = false;
    fake.events--;
    return CUDA_SUCCESS;
}

static CUresult
exchange_mode(CUstreamCaptureMode *mode)
{
    bool was = fake.relaxed;

    fake.relaxed = *mode == CU_STREAM_CAPTURE_MODE_RELAXED;
    *mode = was ? CU_STREAM_CAPTURE_MODE_RELAXED
                : CU_STREAM_CAPTURE_MODE_GLOBAL;
    return CUDA_SUCCESS;
}

void
fake_start(size_t page, size_t device_bytes)
{
    memset(&fake, 0, sizeof fake);
    memset(handle, 0, sizeof handle);
    memset(mapping, 0, sizeof mapping);
    memset(event, 0, sizeof event);
    mapping_count = 0;
    fake.page = page;
    fake.device_bytes = device_bytes;
    fake.host_bytes = (size_t)1 << 50;
    fake.space_bytes = (size_t)1 << 44;
    fake.fail_after = -1;
    fake.fail_count = -1;
    fake.fail_with = CUDA_ERROR_OUT_OF_MEMORY;
    dcp_real.cuDeviceTotalMem_v2 = total_mem;
    dcp_real.cuDeviceGetAttribute = device_attribute;
    dcp_real.cuCtxGetDevice = ctx_device;
    dcp_real.cuCtxSynchronize = ctx_synchronize;
    dcp_real.cuMemGetInfo_v2 = get_info;
    dcp_real.cuMemGetAllocationGranularity = granularity;
    dcp_real.cuMemAddressReserve = address_reserve;
    dcp_real.cuMemAddressFree = address_free;
    dcp_real.cuMemCreate = mem_create;
    dcp_real.cuMemRelease = mem_release;
    dcp_real.cuMemMap = mem_map;
    dcp_real.cuMemUnmap = mem_unmap;
    dcp_real.cuMemSetAccess = set_access;
    dcp_real.cuEventCreate = event_create;
    dcp_real.cuEventRecord = event_record;
    dcp_real.cuEventQuery = event_query;
    dcp_real.cuEventDestroy_v2 = event_destroy;
    dcp_real.cuThreadExchangeStreamCaptureMode = exchange_mode;
}
