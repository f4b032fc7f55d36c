/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "intercept/frame.h"

#include "src/lock.h"
#include "src/log.h"
#include "src/memory.h"

#include "intercept/hook.h"

#include <stdatomic.h>
#include <stdint.h>

static struct {
    CUdevice device;
    size_t page;
    int node;       /* of host frames */
    bool fd, host, host_fd;
    atomic_size_t limit;
    atomic_size_t held[2], peak[2]; /* device, host */
} world;

/* What the driver did not take back; there should never be any. */
enum { ORPHANS = 64 };
static struct {
    struct dcp_lock lock;
    struct dcp_frame frame[ORPHANS];
    size_t count;
} orphans;

static CUmemAllocationProp
properties(bool host, bool fd)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = fd ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                   : CU_MEM_HANDLE_TYPE_NONE,
    };

    prop.location.type = host ? CU_MEM_LOCATION_TYPE_HOST_NUMA
                              : CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = host ? world.node : world.device;
    return prop;
}

static int
attribute(CUdevice_attribute which, int fallback)
{
    int value = fallback;

    if (dcp_real.cuDeviceGetAttribute(&value, which, world.device))
        return fallback;
    return value;
}

static size_t
granularity(bool host)
{
    CUmemAllocationProp prop = properties(host, false);
    size_t bytes = 0;

    if (dcp_real.cuMemGetAllocationGranularity(
            &bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM))
        return 0;
    return bytes;
}

static bool
driver_can_map(void)
{
    return dcp_real.cuDeviceGetAttribute && dcp_real.cuMemAddressReserve &&
           dcp_real.cuMemAddressFree && dcp_real.cuMemCreate &&
           dcp_real.cuMemRelease && dcp_real.cuMemMap &&
           dcp_real.cuMemUnmap && dcp_real.cuMemSetAccess &&
           dcp_real.cuMemGetAllocationGranularity;
}

CUresult
dcp_frame_setup(CUdevice device)
{
    world.device = device;
    if (!driver_can_map() ||
        !attribute(
            CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0))
        return CUDA_ERROR_NOT_SUPPORTED;
    world.fd = attribute(
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0);
    size_t page = granularity(false);
    if (page == 0 || (page & (page - 1)))
        return CUDA_ERROR_NOT_SUPPORTED;

    world.host = attribute(
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
    world.node = attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0);
    if (world.node < 0)
        world.node = 0;
    world.host_fd = world.fd;
    size_t host_page = world.host ? granularity(true) : 0;
    if (host_page == 0 || (host_page & (host_page - 1)))
        world.host = false;
    else if (host_page > page)
        page = host_page;
    world.page = page;
    return CUDA_SUCCESS;
}

CUdevice
dcp_frame_device(void)
{
    return world.device;
}

size_t
dcp_frame_page(void)
{
    return world.page;
}

bool
dcp_frame_has_host(void)
{
    return world.host;
}

bool
dcp_frame_has_fd(void)
{
    return world.fd;
}

void
dcp_frame_limit(size_t bytes)
{
    atomic_store(&world.limit, bytes);
}

size_t
dcp_frame_get_limit(void)
{
    return atomic_load(&world.limit);
}

size_t
dcp_frame_room(void)
{
    size_t limit = atomic_load(&world.limit);
    size_t held = atomic_load(&world.held[0]);

    if (limit == 0)
        return SIZE_MAX;
    return held < limit ? limit - held : 0;
}

/* Counts before creating: two threads together cannot pass the limit. */
static bool
count(bool host, size_t bytes)
{
    size_t limit = host ? 0 : atomic_load(&world.limit);
    size_t now = atomic_fetch_add(&world.held[host], bytes) + bytes;

    if (limit && now > limit) {
        atomic_fetch_sub(&world.held[host], bytes);
        return false;
    }
    return true;
}

static void
note_peak(bool host)
{
    size_t now = atomic_load(&world.held[host]);
    size_t peak = atomic_load(&world.peak[host]);

    while (now > peak &&
           !atomic_compare_exchange_weak(&world.peak[host], &peak, now))
        ;
}

static CUresult
create_host(CUmemGenericAllocationHandle *handle, size_t bytes)
{
    CUmemAllocationProp prop = properties(true, world.host_fd);

    /* The driver pins what it gives: asking for more than there is brings the
     * kernel's killer, not an error. */
    if (!world.host || bytes > dcp_memory_room())
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult cu = dcp_real.cuMemCreate(handle, bytes, &prop, 0);
    if (cu == CUDA_SUCCESS || cu == CUDA_ERROR_OUT_OF_MEMORY || !world.host_fd)
        return cu;
    prop = properties(true, false);
    cu = dcp_real.cuMemCreate(handle, bytes, &prop, 0);
    if (cu == CUDA_SUCCESS) {
        world.host_fd = false;
        dcp_info("host frames cannot be exported on this system");
    }
    return cu;
}

CUresult
dcp_frame_create(struct dcp_frame *frame, size_t bytes, bool host)
{
    CUmemAllocationProp prop = properties(false, world.fd);
    CUmemGenericAllocationHandle handle = 0;
    CUresult cu;

    if (world.page == 0 || bytes == 0 || bytes % world.page)
        return CUDA_ERROR_INVALID_VALUE;
    if (!count(host, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (host)
        cu = create_host(&handle, bytes);
    else
        cu = dcp_real.cuMemCreate(&handle, bytes, &prop, 0);
    if (cu != CUDA_SUCCESS) {
        atomic_fetch_sub(&world.held[host], bytes);
        return cu;
    }
    note_peak(host);
    *frame = (struct dcp_frame){ handle, 0, bytes, host };
    return CUDA_SUCCESS;
}

static CUresult
open_access(const struct dcp_frame *frame, CUdeviceptr at)
{
    CUmemAccessDesc access[2] = { 0 };

    access[0].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[0].location.id = world.device;
    access[0].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (frame->host) {
        access[1].location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
        access[1].location.id = world.node;
        access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        if (!dcp_real.cuMemSetAccess(at, frame->bytes, access, 2))
            return CUDA_SUCCESS;
    }
    return dcp_real.cuMemSetAccess(at, frame->bytes, access, 1);
}

CUresult
dcp_frame_map(struct dcp_frame *frame, CUdeviceptr at)
{
    if (frame->at)
        return CUDA_ERROR_ALREADY_MAPPED;
    CUresult cu = dcp_real.cuMemMap(at, frame->bytes, 0, frame->handle, 0);
    if (cu != CUDA_SUCCESS)
        return cu;
    frame->at = at;
    cu = open_access(frame, at);
    if (cu != CUDA_SUCCESS)
        dcp_frame_unmap(frame);
    return cu;
}

CUresult
dcp_frame_unmap(struct dcp_frame *frame)
{
    if (frame->at == 0)
        return CUDA_SUCCESS;
    CUresult cu = dcp_real.cuMemUnmap(frame->at, frame->bytes);
    if (cu == CUDA_SUCCESS)
        frame->at = 0;
    return cu;
}

static CUresult
give_back(struct dcp_frame *frame)
{
    CUresult cu = dcp_frame_unmap(frame);

    if (cu == CUDA_SUCCESS)
        cu = dcp_real.cuMemRelease(frame->handle);
    if (cu == CUDA_SUCCESS)
        atomic_fetch_sub(&world.held[frame->host], frame->bytes);
    return cu;
}

static void
orphan_keep(const struct dcp_frame *frame)
{
    dcp_lock_take(&orphans.lock);
    if (orphans.count < ORPHANS)
        orphans.frame[orphans.count++] = *frame;
    else
        dcp_warn("a frame of %zu bytes is lost", frame->bytes);
    dcp_lock_give(&orphans.lock);
}

CUresult
dcp_frame_release(struct dcp_frame *frame)
{
    CUresult cu = give_back(frame);

    if (cu != CUDA_SUCCESS && frame->at)
        return cu;
    if (cu != CUDA_SUCCESS)
        orphan_keep(frame);
    *frame = (struct dcp_frame){ 0 };
    return CUDA_SUCCESS;
}

void
dcp_frame_settle(void)
{
    dcp_lock_take(&orphans.lock);
    for (size_t i = 0; i < orphans.count;)
        if (give_back(&orphans.frame[i]) == CUDA_SUCCESS)
            orphans.frame[i] = orphans.frame[--orphans.count];
        else
            i++;
    dcp_lock_give(&orphans.lock);
}

CUresult
dcp_frame_back(struct dcp_frame *frame, CUdeviceptr at, size_t bytes,
               bool host)
{
    struct dcp_frame made = { 0 };
    CUresult cu = dcp_frame_create(&made, bytes, host);

    *frame = made;
    if (cu != CUDA_SUCCESS)
        return cu;
    cu = dcp_frame_map(&made, at);
    *frame = made;
    if (cu == CUDA_SUCCESS)
        return cu;
    if (dcp_frame_release(&made))
        orphan_keep(&made);
    *frame = (struct dcp_frame){ .at = made.at };
    return cu;
}

void
dcp_frame_get_stats(struct dcp_frame_stats *out)
{
    out->device = atomic_load(&world.held[0]);
    out->device_peak = atomic_load(&world.peak[0]);
    out->host = atomic_load(&world.held[1]);
    out->host_peak = atomic_load(&world.peak[1]);
}

void
dcp_frame_reset_peak(void)
{
    for (int host = 0; host < 2; host++)
        atomic_store(&world.peak[host], atomic_load(&world.held[host]));
}
