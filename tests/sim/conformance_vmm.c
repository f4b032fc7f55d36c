/* SPDX-License-Identifier: Apache-2.0 */
/* Checks: virtual memory management, aliases, and frames shared between
 * processes. */
#include "conformance.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static CUmemAllocationProp prop;
static CUmemAccessDesc access_desc;
static size_t grain;

static void
prepare(void)
{
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    memset(&access_desc, 0, sizeof access_desc);
    access_desc.location = prop.location;
    access_desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    need("granularity", CU(cuMemGetAllocationGranularity)(
                            &grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

static void
check_reserve(void)
{
    CUdeviceptr at = 0, other = 0;
    say("reserve_odd", CU(cuMemAddressReserve)(&at, grain / 2, 0, 0, 0));
    say("reserve_0", CU(cuMemAddressReserve)(&at, 0, 0, 0, 0));
    say("reserve_flags", CU(cuMemAddressReserve)(&at, grain, 0, 0, 64));
    say("reserve_align_3", CU(cuMemAddressReserve)(&at, grain, 3, 0, 0));
    say("reserve", CU(cuMemAddressReserve)(&at, 8 * grain, 0, 0, 0));
    say("reserve_aligned", at % grain == 0);
    say("reserve_big", CU(cuMemAddressReserve)(&other, grain << 12, grain << 4,
                                               0, 0));
    say("reserve_big_aligned", other % (grain << 4) == 0);
    say("reserve_taken", CU(cuMemAddressReserve)(&other, grain, 0, at, 0) ==
                             CUDA_SUCCESS && other != at);
    say("free_part", CU(cuMemAddressFree)(at, grain));
    say("free_inside", CU(cuMemAddressFree)(at + grain, 7 * grain));
    say("free", CU(cuMemAddressFree)(at, 8 * grain));
    say("free_again", CU(cuMemAddressFree)(at, 8 * grain));
}

static void
check_create(void)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp bad = prop, got;
    say("create_odd", CU(cuMemCreate)(&handle, grain / 2, &prop, 0));
    say("create_0", CU(cuMemCreate)(&handle, 0, &prop, 0));
    say("create_flags", CU(cuMemCreate)(&handle, grain, &prop, 64));
    say("create_huge", CU(cuMemCreate)(&handle, (size_t)1 << 46, &prop, 0));
    bad.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    say("create_type", CU(cuMemCreate)(&handle, grain, &bad, 0));
    bad = prop;
    bad.location.id = 99;
    ask("create_device_99", CU(cuMemCreate)(&handle, grain, &bad, 0));
    say("create", CU(cuMemCreate)(&handle, grain, &prop, 0));
    memset(&got, 0, sizeof got);
    say("properties", CU(cuMemGetAllocationPropertiesFromHandle)(&got, handle));
    say("properties_location", got.location.type * 10 + got.location.id);
    say("properties_handles", got.requestedHandleTypes);
    say("release", CU(cuMemRelease)(handle));
}

static void
check_map(void)
{
    CUmemGenericAllocationHandle one = 0, two = 0, again = 0;
    CUdeviceptr at = 0;
    unsigned long long flags = 99;
    need("reserve", CU(cuMemAddressReserve)(&at, 8 * grain, 0, 0, 0));
    need("create", CU(cuMemCreate)(&one, grain, &prop, 0));
    need("create", CU(cuMemCreate)(&two, 2 * grain, &prop, 0));
    say("map_offset", CU(cuMemMap)(at, grain, grain, two, 0));
    ask("map_prefix", CU(cuMemMap)(at, grain, 0, two, 0));
    CU(cuMemUnmap)(at, grain);
    say("map_too_long", CU(cuMemMap)(at, 4 * grain, 0, two, 0));
    say("map_odd_address", CU(cuMemMap)(at + grain / 2, grain, 0, one, 0));
    say("map_outside", CU(cuMemMap)(at + 7 * grain, 2 * grain, 0, two, 0));
    say("map", CU(cuMemMap)(at, grain, 0, one, 0));
    say("map_over", CU(cuMemMap)(at, grain, 0, one, 0));
    say("map_next", CU(cuMemMap)(at + grain, 2 * grain, 0, two, 0));
    say("access_before", CU(cuMemGetAccess)(&flags, &prop.location, at));
    say("access_flags_before", (long long)flags);
    say("set_access_both", CU(cuMemSetAccess)(at, 3 * grain, &access_desc, 1));
    say("access_after", CU(cuMemGetAccess)(&flags, &prop.location, at));
    say("access_flags_after", (long long)flags);
    ask("set_access_part", CU(cuMemSetAccess)(at + grain, grain, &access_desc,
                                              1));
    say("set_access_hole", CU(cuMemSetAccess)(at, 4 * grain, &access_desc, 1));
    say("set_access_none", CU(cuMemSetAccess)(at, grain, &access_desc, 0));
    say("retain", CU(cuMemRetainAllocationHandle)(
                      &again, (void *)(uintptr_t)(at + grain / 2)));
    say("retain_same", again == one);
    say("retain_release", CU(cuMemRelease)(again));
    say("release", CU(cuMemRelease)(one));
    say("fill_across", CU(cuMemsetD32_v2)(at, 77, 3 * grain / 4));
    int back = 0;
    say("read_across", CU(cuMemcpyDtoH_v2)(&back, at + 3 * grain - 4, 4));
    say("value", back);
    CUdeviceptr base = 0;
    size_t bytes = 0;
    say("range", CU(cuMemGetAddressRange_v2)(&base, &bytes, at + grain + 4));
    ask("range_base", (long long)((at + grain + 4 - base) / grain));
    ask("range_grains", (long long)(bytes / grain));
    say("address_free_mapped", CU(cuMemAddressFree)(at, 8 * grain));
    say("unmap_part", CU(cuMemUnmap)(at + grain, grain));
    say("unmap_hole", CU(cuMemUnmap)(at, 4 * grain));
    say("unmap", CU(cuMemUnmap)(at, 3 * grain));
    say("unmap_again", CU(cuMemUnmap)(at, grain));
    say("release_two", CU(cuMemRelease)(two));
    say("address_free", CU(cuMemAddressFree)(at, 8 * grain));
}

static void
check_alias(void)
{
    CUmemGenericAllocationHandle frame = 0;
    CUdeviceptr at = 0;
    need("reserve", CU(cuMemAddressReserve)(&at, 4 * grain, 0, 0, 0));
    need("create", CU(cuMemCreate)(&frame, grain, &prop, 0));
    say("alias_map_1", CU(cuMemMap)(at, grain, 0, frame, 0));
    say("alias_map_2", CU(cuMemMap)(at + 2 * grain, grain, 0, frame, 0));
    say("alias_access_1", CU(cuMemSetAccess)(at, grain, &access_desc, 1));
    say("alias_access_2", CU(cuMemSetAccess)(at + 2 * grain, grain,
                                             &access_desc, 1));
    say("alias_write", launch_fill(NULL, at, 12.0f, 64));
    say("alias_read", (long long)read_float(at + 2 * grain, 63));
    say("alias_unmap_1", CU(cuMemUnmap)(at, grain));
    say("alias_release", CU(cuMemRelease)(frame));
    say("alias_still", (long long)read_float(at + 2 * grain, 5));
    say("alias_unmap_2", CU(cuMemUnmap)(at + 2 * grain, grain));
    say("alias_free", CU(cuMemAddressFree)(at, 4 * grain));
}

static void
check_host_frame(void)
{
    CUmemAllocationProp host = prop;
    CUmemGenericAllocationHandle frame = 0;
    CUmemAccessDesc both[2] = {access_desc, access_desc};
    CUdeviceptr at = 0;
    size_t bytes = 0;
    host.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    host.location.id = 0;
    both[1].location = host.location;
    say("host_granularity", CU(cuMemGetAllocationGranularity)(
                                &bytes, &host,
                                CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    say("host_same_granularity", bytes == grain);
    say("host_create", CU(cuMemCreate)(&frame, grain, &host, 0));
    need("reserve", CU(cuMemAddressReserve)(&at, grain, 0, 0, 0));
    say("host_map", CU(cuMemMap)(at, grain, 0, frame, 0));
    say("host_access", CU(cuMemSetAccess)(at, grain, both, 2));
    say("host_fill", launch_fill(NULL, at, 9.0f, 64));
    say("host_read", (long long)read_float(at, 1));
    say("host_direct", (long long)*(float *)(uintptr_t)(at + 8));
    unsigned type = 99;
    say("host_attribute", CU(cuPointerGetAttribute)(
                              &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    ask("host_type", type);
    say("host_unmap", CU(cuMemUnmap)(at, grain));
    say("host_release", CU(cuMemRelease)(frame));
    CU(cuMemAddressFree)(at, grain);
}

void
check_vmm(void)
{
    begin("vmm");
    prepare();
    check_reserve();
    check_create();
    check_map();
    check_alias();
    check_host_frame();
}

static void
send_fd(int socket, int fd)
{
    char byte = 'f';
    struct iovec data = {&byte, 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    memset(&control, 0, sizeof control);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    sendmsg(socket, &message, 0);
}

static int
receive_fd(int socket)
{
    char byte;
    struct iovec data = {&byte, 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    int fd = -1;
    if (recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* Writes through its own mapping of the parent's frame. */
void
share_child(int socket)
{
    CUmemGenericAllocationHandle frame = 0;
    CUdeviceptr at = 0;
    char byte = 'x';
    prepare();
    int fd = receive_fd(socket);
    need("import", CU(cuMemImportFromShareableHandle)(
                       &frame, (void *)(intptr_t)fd,
                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    need("reserve", CU(cuMemAddressReserve)(&at, grain, 0, 0, 0));
    need("map", CU(cuMemMap)(at, grain, 0, frame, 0));
    need("release", CU(cuMemRelease)(frame));
    need("access", CU(cuMemSetAccess)(at, grain, &access_desc, 1));
    byte = read_float(at, 7) == 21.0f ? 'y' : 'n';
    need("write", launch_fill(NULL, at, 42.0f, 64));
    need("synchronize", CU(cuCtxSynchronize)());
    if (write(socket, &byte, 1) != 1 || read(socket, &byte, 1) != 1)
        return;
}

void
share_parent(int socket)
{
    CUmemGenericAllocationHandle frame = 0, wrong = 0;
    CUdeviceptr at = 0;
    int fd = -1;
    char byte = '?';
    prepare();
    need("create", CU(cuMemCreate)(&frame, grain, &prop, 0));
    need("reserve", CU(cuMemAddressReserve)(&at, grain, 0, 0, 0));
    need("map", CU(cuMemMap)(at, grain, 0, frame, 0));
    need("access", CU(cuMemSetAccess)(at, grain, &access_desc, 1));
    need("fill", launch_fill(NULL, at, 21.0f, 64));
    need("synchronize", CU(cuCtxSynchronize)());
    say("export", CU(cuMemExportToShareableHandle)(
                      &fd, frame, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    say("export_is_fd", fd >= 0);
    ask("export_fabric", CU(cuMemExportToShareableHandle)(
                             &fd, frame, CU_MEM_HANDLE_TYPE_FABRIC, 0));
    send_fd(socket, fd);
    close(fd);
    say("child_answers", read(socket, &byte, 1));
    say("child_saw", byte == 'y');
    say("parent_sees", (long long)read_float(at, 9));
    if (write(socket, "x", 1) != 1)
        return;
    CU(cuMemUnmap)(at, grain);
    CU(cuMemRelease)(frame);
    CU(cuMemAddressFree)(at, grain);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    need("create", CU(cuMemCreate)(&frame, grain, &prop, 0));
    say("export_not_asked_for",
        CU(cuMemExportToShareableHandle)(
            &fd, frame, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CU(cuMemRelease)(frame);
    ask("import_pipe", CU(cuMemImportFromShareableHandle)(
                           &wrong, (void *)(intptr_t)socket,
                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}
