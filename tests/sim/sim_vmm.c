/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management. A frame is a memfd; mapping it twice gives two
 * addresses of the same bytes, in one process or in several. The driver's
 * rules are enforced: multiples of the granularity, whole frames from offset
 * 0, no mapping unmapped in part, no access before cuMemSetAccess.
 *
 *   DCPSIM_GRANULARITY=n   what cuMemGetAllocationGranularity says (64K) */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

size_t sim_granularity;

static size_t
granularity(void)
{
    if (sim_granularity == 0)
        sim_granularity = (size_t)sim_env("DCPSIM_GRANULARITY", 65536);
    return sim_granularity;
}

static bool
whole(size_t bytes)
{
    return bytes != 0 && bytes % granularity() == 0;
}

static bool
prop_valid(const CUmemAllocationProp *prop)
{
    if (prop == NULL || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return false;
    switch (prop->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return true;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return prop->location.id == 0;
    case CU_MEM_LOCATION_TYPE_HOST:
        return prop->requestedHandleTypes == 0;
    default:
        return false;
    }
}

CUresult
cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
                              CUmemAllocationGranularity_flags option)
{
    SIM_API(SIM_INIT);
    if (out == NULL || !prop_valid(prop) ||
        (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
         option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    *out = granularity();
    return CUDA_SUCCESS;
}

static bool
prop_has_device(const CUmemAllocationProp *prop)
{
    return prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
           sim_device_get(prop->location.id) != NULL;
}

static void
frame_drop(struct sim_frame *frame)
{
    if (--frame->refs > 0)
        return;
    close(frame->fd);
    if (frame->device)
        frame->device->used -= frame->bytes;
    sim_object_free(frame);
}

/* The name tells an importing process what the frame is. */
static int
memfd_open(const CUmemAllocationProp *prop, size_t bytes)
{
    char name[64];
    int physical = prop->location.id;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        physical = sim_device_get(prop->location.id)->physical;
    snprintf(name, sizeof name, "dcpsim:%d:%d:%d", (int)prop->location.type,
             physical, (int)prop->requestedHandleTypes);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

CUresult
cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
            const CUmemAllocationProp *prop, unsigned long long flags)
{
    SIM_API(SIM_INIT);
    if (out == NULL || flags != 0 || !prop_valid(prop) || !whole(bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!prop_has_device(prop))
        return CUDA_ERROR_INVALID_DEVICE;
    if (prop->requestedHandleTypes &
        ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_device *device = NULL;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        device = sim_device_get(prop->location.id);
        if (sim_memory_take(device, bytes) != CUDA_SUCCESS)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int fd = memfd_open(prop, bytes);
    if (fd < 0) {
        if (device)
            device->used -= bytes;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct sim_frame *frame = sim_object_new(SIM_FRAME, sizeof *frame);
    frame->bytes = bytes;
    frame->prop = *prop;
    frame->device = device;
    frame->fd = fd;
    frame->refs = frame->handles = 1;
    *out = (CUmemGenericAllocationHandle)(uintptr_t)frame;
    return CUDA_SUCCESS;
}

static struct sim_frame *
frame_get(CUmemGenericAllocationHandle handle)
{
    struct sim_frame *frame =
        sim_object_get((const void *)(uintptr_t)handle, SIM_FRAME);
    return frame && frame->handles > 0 ? frame : NULL;
}

CUresult
cuMemRelease(CUmemGenericAllocationHandle handle)
{
    SIM_API(SIM_INIT);
    struct sim_frame *frame = frame_get(handle);
    if (frame == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    frame->handles--;
    frame_drop(frame);
    return CUDA_SUCCESS;
}

CUresult
cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *at)
{
    SIM_API(SIM_INIT);
    const struct sim_range *range = sim_range_find((uintptr_t)at);
    if (out == NULL || range == NULL || range->place != SIM_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    range->frame->refs++;
    range->frame->handles++;
    *out = (CUmemGenericAllocationHandle)(uintptr_t)range->frame;
    return CUDA_SUCCESS;
}

CUresult
cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                       CUmemGenericAllocationHandle handle)
{
    SIM_API(SIM_INIT);
    const struct sim_frame *frame = frame_get(handle);
    if (prop == NULL || frame == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *prop = frame->prop;
    return CUDA_SUCCESS;
}

CUresult
cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                             CUmemAllocationHandleType type,
                             unsigned long long flags)
{
    SIM_API(SIM_INIT);
    const struct sim_frame *frame = frame_get(handle);
    if (out == NULL || frame == NULL || flags != 0 ||
        type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !(frame->prop.requestedHandleTypes & (unsigned)type))
        return CUDA_ERROR_INVALID_VALUE;
    int fd = dup(frame->fd);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

/* What the memfd's name says, or false when it is none of ours. */
static bool
memfd_read(int fd, CUmemAllocationProp *prop, size_t *bytes)
{
    char path[64], name[128];
    int type, physical, handles;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, name, sizeof name - 1);
    struct stat about;
    if (length <= 0 || fstat(fd, &about) != 0)
        return false;
    name[length] = '\0';
    if (sscanf(name, "/memfd:dcpsim:%d:%d:%d", &type, &physical, &handles) != 3)
        return false;
    memset(prop, 0, sizeof *prop);
    prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop->location.type = (CUmemLocationType)type;
    prop->location.id = physical;
    prop->requestedHandleTypes = (CUmemAllocationHandleType)handles;
    for (int i = 0; i < sim_device_count; i++)
        if (type == CU_MEM_LOCATION_TYPE_DEVICE &&
            sim_devices[i].physical == physical)
            prop->location.id = i;
    *bytes = (size_t)about.st_size;
    return true;
}

CUresult
cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *handle,
                               CUmemAllocationHandleType type)
{
    SIM_API(SIM_INIT);
    if (out == NULL || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    int source = (int)(intptr_t)handle;
    CUmemAllocationProp prop;
    size_t bytes;
    if (!memfd_read(source, &prop, &bytes))
        return CUDA_ERROR_UNKNOWN;
    int fd = dup(source);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    struct sim_frame *frame = sim_object_new(SIM_FRAME, sizeof *frame);
    frame->bytes = bytes;
    frame->prop = prop;
    frame->fd = fd; /* the exporter pays for the memory */
    frame->refs = frame->handles = 1;
    *out = (CUmemGenericAllocationHandle)(uintptr_t)frame;
    return CUDA_SUCCESS;
}

static void *
reserve_at(uintptr_t hint, size_t bytes, size_t align)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (hint != 0) {
        void *at = mmap((void *)hint, bytes, PROT_NONE,
                        flags | MAP_FIXED_NOREPLACE, -1, 0);
        if (at != MAP_FAILED && (uintptr_t)at == hint)
            return at;
        if (at != MAP_FAILED)
            munmap(at, bytes);
    }
    void *at = mmap(NULL, bytes + align, PROT_NONE, flags, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    uintptr_t base = ((uintptr_t)at + align - 1) & ~(uintptr_t)(align - 1);
    if (base > (uintptr_t)at)
        munmap(at, base - (uintptr_t)at);
    uintptr_t end = (uintptr_t)at + bytes + align;
    if (base + bytes < end)
        munmap((void *)(base + bytes), end - base - bytes);
    return (void *)base;
}

CUresult
cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t align,
                    CUdeviceptr hint, unsigned long long flags)
{
    SIM_API(SIM_INIT);
    if (out == NULL || flags != 0 || !whole(bytes) || (align & (align - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if (align < granularity())
        align = granularity();
    if (hint % align != 0)
        hint = 0;
    void *base = reserve_at((uintptr_t)hint, bytes, align);
    if (base == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_range *range = calloc(1, sizeof *range);
    range->place = SIM_RESERVED;
    range->base = (uintptr_t)base;
    range->bytes = bytes;
    range->live = true;
    sim_range_add(range);
    *out = range->base;
    return CUDA_SUCCESS;
}

/* The reservation that begins at or lies around `at`. */
static struct sim_range *
reservation_of(uintptr_t at)
{
    struct sim_range *range = sim_range_find(at);
    if (range != NULL && range->place == SIM_MAPPED)
        return range->over;
    return range != NULL && range->place == SIM_RESERVED ? range : NULL;
}

static bool
any_mapped(uintptr_t at, size_t bytes)
{
    const struct sim_range *first = sim_range_find(at);
    if (first != NULL && first->place == SIM_MAPPED)
        return true;
    const struct sim_range *next = sim_range_next(at);
    return next != NULL && next->base < at + bytes;
}

CUresult
cuMemAddressFree(CUdeviceptr at, size_t bytes)
{
    SIM_API(SIM_INIT);
    struct sim_range *range = reservation_of((uintptr_t)at);
    if (range == NULL || range->base != at || range->bytes != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (any_mapped(range->base, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    sim_range_remove(range);
    munmap((void *)range->base, bytes);
    free(range);
    return CUDA_SUCCESS;
}

CUresult
cuMemMap(CUdeviceptr at, size_t bytes, size_t offset,
         CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    SIM_API(SIM_INIT);
    struct sim_frame *frame = frame_get(handle);
    struct sim_range *over = reservation_of((uintptr_t)at);
    if (frame == NULL || over == NULL || flags != 0 ||
        !whole(bytes) || at % granularity() != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (offset != 0 || bytes != frame->bytes)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (at + bytes > over->base + over->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    if (any_mapped((uintptr_t)at, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    void *base = mmap((void *)(uintptr_t)at, bytes, PROT_NONE,
                      MAP_SHARED | MAP_FIXED, frame->fd, 0);
    if (base == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_range *range = calloc(1, sizeof *range);
    range->place = SIM_MAPPED;
    range->base = (uintptr_t)at;
    range->bytes = bytes;
    range->frame = frame;
    range->device = frame->device;
    range->over = over;
    range->live = true;
    range->flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    sim_range_add(range);
    frame->refs++;
    return CUDA_SUCCESS;
}

/* Whether [at, at + bytes) is exactly a row of whole mappings. */
static bool
whole_mappings(uintptr_t at, size_t bytes)
{
    uintptr_t end = at + bytes;
    if (end <= at)
        return false;
    while (at < end) {
        const struct sim_range *range = sim_range_find(at);
        if (range == NULL || range->place != SIM_MAPPED || range->base != at)
            return false;
        at += range->bytes;
    }
    return at == end;
}

/* Whether no mapping lies in [at, at + bytes) in part only. Address space in
 * it that is reserved and not mapped does not matter. */
static bool
unmappable(uintptr_t at, size_t bytes)
{
    uintptr_t end = at + bytes;
    if (end <= at)
        return false;
    while (at < end) {
        const struct sim_range *range = sim_range_find(at);
        if (range == NULL)
            return false;
        if (range->place == SIM_RESERVED) {
            const struct sim_range *next = sim_range_next(at);
            uintptr_t over = range->base + range->bytes;
            at = next != NULL && next->base < over ? next->base : over;
            continue;
        }
        if (range->place != SIM_MAPPED || range->base != at ||
            range->base + range->bytes > end)
            return false;
        at += range->bytes;
    }
    return true;
}

CUresult
cuMemUnmap(CUdeviceptr at, size_t bytes)
{
    SIM_API(SIM_INIT);
    if (!unmappable((uintptr_t)at, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    uintptr_t end = (uintptr_t)at + bytes;
    struct sim_range *range;
    while ((range = sim_range_next((uintptr_t)at)) && range->base < end) {
        sim_range_remove(range);
        frame_drop(range->frame);
        free(range);
    }
    mmap((void *)(uintptr_t)at, bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return CUDA_SUCCESS;
}

static bool
access_valid(const CUmemAccessDesc *desc)
{
    if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
        desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return false;
    switch (desc->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return sim_device_get(desc->location.id) != NULL;
    case CU_MEM_LOCATION_TYPE_HOST:
        return true;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return desc->location.id == 0;
    default:
        return false;
    }
}

CUresult
cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *desc,
               size_t count)
{
    SIM_API(SIM_INIT);
    if (desc == NULL || count == 0 || !whole_mappings((uintptr_t)at, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    unsigned flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    for (size_t i = 0; i < count; i++) {
        if (!access_valid(&desc[i]))
            return CUDA_ERROR_INVALID_VALUE;
        if (desc[i].flags > flags)
            flags = desc[i].flags;
    }
    int protection = PROT_NONE;
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
        protection = PROT_READ;
    else if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        protection = PROT_READ | PROT_WRITE;
    if (mprotect((void *)(uintptr_t)at, bytes, protection) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uintptr_t end = (uintptr_t)at + bytes;
    for (uintptr_t base = (uintptr_t)at; base < end;) {
        struct sim_range *range = sim_range_find(base);
        range->flags = flags;
        base += range->bytes;
    }
    return CUDA_SUCCESS;
}

CUresult
cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
               CUdeviceptr at)
{
    SIM_API(SIM_INIT);
    const struct sim_range *range = sim_range_find((uintptr_t)at);
    if (flags == NULL || location == NULL || range == NULL ||
        range->place != SIM_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = range->flags;
    return CUDA_SUCCESS;
}
