/* SPDX-License-Identifier: Apache-2.0 */
/* Checks: memory, copies and fills, pools, pointer attributes; and what
 * happens when work touches memory that it must not. */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
check_memory(void)
{
    CUdeviceptr at = 0, base = 0;
    size_t bytes = 0, total = 0;
    begin("memory");
    say("alloc_0", CU(cuMemAlloc_v2)(&at, 0));
    say("alloc_null", CU(cuMemAlloc_v2)(NULL, 256));
    say("alloc_huge", CU(cuMemAlloc_v2)(&at, (size_t)1 << 46));
    say("alloc", CU(cuMemAlloc_v2)(&at, 1000));
    say("aligned_512", at % 512 == 0);
    say("range", CU(cuMemGetAddressRange_v2)(&base, &bytes, at + 500));
    say("range_base", base == at);
    say("range_bytes", (long long)bytes);
    say("range_nulls", CU(cuMemGetAddressRange_v2)(NULL, NULL, at));
    say("range_unknown", CU(cuMemGetAddressRange_v2)(&base, &bytes, 4096));
    say("free_interior", CU(cuMemFree_v2)(at + 512));
    say("free", CU(cuMemFree_v2)(at));
    say("free_twice", CU(cuMemFree_v2)(at));
    say("free_0", CU(cuMemFree_v2)(0));
    say("free_unknown", CU(cuMemFree_v2)(4096));
    say("info", CU(cuMemGetInfo_v2)(&bytes, &total));
    say("info_sane", bytes <= total && bytes > 0);
    say("info_null_free", CU(cuMemGetInfo_v2)(NULL, &total));
    say("info_null_total", CU(cuMemGetInfo_v2)(&bytes, NULL));
    ask("info_null_both", CU(cuMemGetInfo_v2)(NULL, NULL));
    size_t pitch = 0;
    say("pitch", CU(cuMemAllocPitch_v2)(&at, &pitch, 100, 4, 4));
    say("pitch_512", (long long)pitch);
    say("pitch_free", CU(cuMemFree_v2)(at));
    say("pitch_element_3", CU(cuMemAllocPitch_v2)(&at, &pitch, 100, 4, 3));
    void *host = (void *)1;
    ask("host_alloc_0", CU(cuMemAllocHost_v2)(&host, 0));
    say("host_alloc", CU(cuMemHostAlloc)(&host, 4096, 0));
    unsigned flags = 0;
    say("host_flags", CU(cuMemHostGetFlags)(&flags, host));
    ask("host_flags", flags);
    say("host_device_pointer", CU(cuMemHostGetDevicePointer_v2)(&at, host, 0));
    say("host_same_address", at == (CUdeviceptr)(uintptr_t)host);
    ask("host_free_interior", CU(cuMemFreeHost)((char *)host + 64));
    say("host_free", CU(cuMemFreeHost)(host));
    say("host_free_null", CU(cuMemFreeHost)(NULL));
    host = aligned_alloc(4096, 8192);
    memset(host, 0, 8192);
    say("register", CU(cuMemHostRegister_v2)(host, 8192, 0));
    say("register_twice", CU(cuMemHostRegister_v2)(host, 8192, 0));
    say("register_pointer", CU(cuMemHostGetDevicePointer_v2)(&at, host, 0));
    ask("register_flags", CU(cuMemHostGetFlags)(&flags, host));
    ask("unregister_interior", CU(cuMemHostUnregister)((char *)host + 4096));
    say("unregister", CU(cuMemHostUnregister)(host));
    say("unregister_twice", CU(cuMemHostUnregister)(host));
    say("register_null", CU(cuMemHostRegister_v2)(NULL, 4096, 0));
    free(host);
    say("managed", CU(cuMemAllocManaged)(&at, 4096, CU_MEM_ATTACH_GLOBAL));
    *(volatile int *)(uintptr_t)at = 5;
    say("managed_free", CU(cuMemFree_v2)(at));
    say("managed_flags_0", CU(cuMemAllocManaged)(&at, 4096, 0));
}

static void
check_planes(CUdeviceptr a, CUdeviceptr b)
{
    unsigned char host[64 * 4], back[64 * 4];
    for (int i = 0; i < 64 * 4; i++)
        host[i] = (unsigned char)i;
    CUDA_MEMCPY2D plane;
    memset(&plane, 0, sizeof plane);
    plane.srcMemoryType = CU_MEMORYTYPE_HOST;
    plane.srcHost = host;
    plane.srcPitch = 64;
    plane.srcXInBytes = 8;
    plane.srcY = 1;
    plane.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    plane.dstDevice = a;
    plane.dstPitch = 32;
    plane.WidthInBytes = 16;
    plane.Height = 3;
    say("plane_up", CU(cuMemcpy2D_v2)(&plane));
    plane.dstPitch = 8;
    say("plane_pitch_small", CU(cuMemcpy2D_v2)(&plane));
    CUDA_MEMCPY3D block;
    memset(&block, 0, sizeof block);
    block.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    block.srcDevice = a;
    block.srcPitch = 32;
    block.srcHeight = 3;
    block.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    block.dstDevice = b;
    block.dstPitch = 16;
    block.dstHeight = 3;
    block.WidthInBytes = 16;
    block.Height = 3;
    block.Depth = 1;
    say("block_across", CU(cuMemcpy3D_v2)(&block));
    say("block_down", CU(cuMemcpyDtoH_v2)(back, b, 48));
    say("block_first", back[0]);
    say("block_last", back[47]);
}

static void
check_fills(CUdeviceptr at)
{
    unsigned char back[64];
    say("fill_8", CU(cuMemsetD8_v2)(at, 0xab, 64));
    say("fill_16", CU(cuMemsetD16_v2)(at + 2, 0x1234, 3));
    say("fill_32", CU(cuMemsetD32_v2)(at + 16, 0x01020304, 2));
    say("fill_32_odd", CU(cuMemsetD32_v2)(at + 2, 1, 1));
    say("fill_16_odd", CU(cuMemsetD16_v2)(at + 1, 1, 1));
    say("fill_0", CU(cuMemsetD8_v2)(at, 1, 0));
    say("fill_plane", CU(cuMemsetD2D8_v2)(at + 32, 16, 7, 3, 2));
    say("fill_read", CU(cuMemcpyDtoH_v2)(back, at, 64));
    say("fill_bytes", back[0] * 1000000 + back[2] * 1000 + back[16]);
    say("fill_plane_bytes", back[34] * 1000000 + back[35] * 1000 + back[50]);
    say("fill_past_end", CU(cuMemsetD8_v2)(at, 1, (size_t)1 << 40));
    say("fill_unknown", CU(cuMemsetD8_v2)(4096, 1, 16));
}

/* A pageable source is read before the call returns, a pinned one when the
 * stream comes to it. */
static void
check_staging(CUdeviceptr at)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    struct gate gate = gate_new();
    int pageable = 11, *pinned = NULL, back = 0;
    need("pinned", CU(cuMemHostAlloc)((void **)&pinned, 64, 0));
    gate_close(&gate, stream);
    say("pageable_async", CU(cuMemcpyHtoDAsync_v2)(at, &pageable, 4, stream));
    pageable = 22;
    *pinned = 33;
    say("pinned_async", CU(cuMemcpyHtoDAsync_v2)(at + 4, pinned, 4, stream));
    *pinned = 44;
    say("busy", CU(cuStreamQuery)(stream));
    gate_open(&gate);
    say("synchronize", CU(cuStreamSynchronize)(stream));
    CU(cuMemcpyDtoH_v2)(&back, at, 4);
    say("pageable_was", back);
    CU(cuMemcpyDtoH_v2)(&back, at + 4, 4);
    say("pinned_was", back);
    CU(cuMemFreeHost)(pinned);
    CU(cuStreamDestroy_v2)(stream);
    gate_free(&gate);
}

void
check_copy(void)
{
    CUdeviceptr a = 0, b = 0;
    int host[4] = {1, 2, 3, 4}, back[4] = {0, 0, 0, 0};
    begin("copy");
    need("alloc", CU(cuMemAlloc_v2)(&a, 4096));
    need("alloc", CU(cuMemAlloc_v2)(&b, 4096));
    say("up", CU(cuMemcpyHtoD_v2)(a, host, sizeof host));
    say("across", CU(cuMemcpyDtoD_v2)(b, a, sizeof host));
    say("down", CU(cuMemcpyDtoH_v2)(back, b, sizeof back));
    say("value", back[3]);
    say("unified_down", CU(cuMemcpy)((CUdeviceptr)(uintptr_t)back, a, 4));
    say("unified_host", CU(cuMemcpy)((CUdeviceptr)(uintptr_t)back,
                                     (CUdeviceptr)(uintptr_t)host, 16));
    say("host_value", back[2]);
    say("zero", CU(cuMemcpyHtoD_v2)(a, host, 0));
    ask("zero_bad", CU(cuMemcpyHtoD_v2)(4096, host, 0));
    say("past_end", CU(cuMemcpyHtoD_v2)(a, host, (size_t)1 << 40));
    say("unknown", CU(cuMemcpyHtoD_v2)(4096, host, 4));
    say("unknown_source", CU(cuMemcpyDtoH_v2)(back, 4096, 4));
    say("null", CU(cuMemcpyHtoD_v2)(0, host, 4));
    say("async", CU(cuMemcpyAsync)(b, a, 4, NULL));
    say("async_own", CU(cuMemcpyAsync_ptsz)(b, a, 4, NULL));
    check_planes(a, b);
    check_fills(a);
    check_staging(a);
    say("free", CU(cuMemFree_v2)(a));
    ask("freed", CU(cuMemcpyDtoH_v2)(back, a, 4));
    say("free_b", CU(cuMemFree_v2)(b));
}

void
check_pool(void)
{
    CUmemoryPool pool = NULL, standard = NULL, made = NULL;
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = 0, b = 0;
    cuuint64_t value = 99;
    int flag = 99;
    begin("pool");
    say("default", CU(cuDeviceGetDefaultMemPool)(&standard, device));
    say("current", CU(cuDeviceGetMemPool)(&pool, device));
    say("same", pool == standard);
    say("threshold", CU(cuMemPoolGetAttribute)(
                         standard, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
    say("threshold_value", (long long)value);
    say("reuse", CU(cuMemPoolGetAttribute)(
                     standard, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
                     &flag));
    say("reuse_value", flag);
    value = UINT64_MAX;
    say("set_threshold",
        CU(cuMemPoolSetAttribute)(standard, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                  &value));
    say("alloc_0", CU(cuMemAllocAsync)(&a, 0, stream));
    say("alloc", CU(cuMemAllocAsync)(&a, 1000, stream));
    say("alloc_aligned", a % 512 == 0);
    CU(cuMemPoolGetAttribute)(standard, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
                              &value);
    ask("used", (long long)value);
    say("free_interior", CU(cuMemFreeAsync)(a + 512, stream));
    say("free", CU(cuMemFreeAsync)(a, stream));
    say("alloc_again", CU(cuMemAllocAsync)(&b, 1000, stream));
    ask("reused", a == b);
    say("free_sync", CU(cuMemFree_v2)(b));
    ask("free_twice", CU(cuMemFreeAsync)(b, stream));
    CU(cuStreamSynchronize)(stream);
    CU(cuMemPoolGetAttribute)(standard, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
                              &value);
    say("used_after", (long long)value);
    need("plain", CU(cuMemAlloc_v2)(&a, 1000));
    ask("free_async_of_plain", CU(cuMemFreeAsync)(a, stream));
    ask("free_of_it", CU(cuMemFree_v2)(a));
    say("trim", CU(cuMemPoolTrimTo)(standard, 0));
    CU(cuMemPoolGetAttribute)(standard, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                              &value);
    say("reserved_after_trim", (long long)value);
    value = 7;
    say("set_high_7", CU(cuMemPoolSetAttribute)(
                          standard, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
    say("set_current", CU(cuMemPoolSetAttribute)(
                           standard, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
    CUmemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device;
    say("create", CU(cuMemPoolCreate)(&made, &props));
    say("alloc_from", CU(cuMemAllocFromPoolAsync)(&a, 256, made, stream));
    say("destroy_default", CU(cuMemPoolDestroy)(standard));
    say("free_from", CU(cuMemFreeAsync)(a, stream));
    say("destroy", CU(cuMemPoolDestroy)(made));
    say("create_null", CU(cuMemPoolCreate)(&made, NULL));
    CU(cuStreamDestroy_v2)(stream);
}

static void
attributes_of(const char *name, CUdeviceptr at)
{
    /* The driver writes more than one byte for a truth value. */
    union {
        unsigned number;
        int ordinal;
        bool truth;
        uint64_t room;
    } type = {.number = 99}, ordinal = {.ordinal = 99}, managed = {.room = 1},
      mapped = {.room = 1};
    CUdeviceptr start = 0, pointer = 0;
    size_t bytes = 0;
    void *host = NULL;
    char what[64];
    struct {
        const char *name;
        CUpointer_attribute attribute;
        void *out;
    } asks[] = {
        {"type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &type},
        {"ordinal", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, &ordinal},
        {"managed", CU_POINTER_ATTRIBUTE_IS_MANAGED, &managed},
        {"mapped", CU_POINTER_ATTRIBUTE_MAPPED, &mapped},
        {"start", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, &start},
        {"size", CU_POINTER_ATTRIBUTE_RANGE_SIZE, &bytes},
        {"device_pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER, &pointer},
        {"host_pointer", CU_POINTER_ATTRIBUTE_HOST_POINTER, &host},
    };
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++) {
        snprintf(what, sizeof what, "%s_%s", name, asks[i].name);
        say(what,
            CU(cuPointerGetAttribute)(asks[i].out, asks[i].attribute, at));
    }
    snprintf(what, sizeof what, "%s_values", name);
    ask(what, type.number * 1000 + (unsigned)(ordinal.ordinal + 10) * 10 +
                  managed.truth * 2 + mapped.truth);
    snprintf(what, sizeof what, "%s_range", name);
    ask(what, (long long)(at - start) * 1000000 + (long long)bytes);
}

void
check_pointer(void)
{
    CUdeviceptr at = 0, pooled = 0;
    void *host = NULL;
    int local = 0;
    begin("pointer");
    need("alloc", CU(cuMemAlloc_v2)(&at, 1000));
    attributes_of("device", at + 100);
    need("pool", CU(cuMemAllocAsync)(&pooled, 1000, NULL));
    attributes_of("pooled", pooled + 100);
    CUmemoryPool pool = NULL, expected = NULL;
    CU(cuDeviceGetMemPool)(&expected, device);
    say("pool_handle", CU(cuPointerGetAttribute)(
                           &pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pooled));
    say("pool_same", pool == expected);
    need("host", CU(cuMemHostAlloc)(&host, 1000, 0));
    attributes_of("pinned", (CUdeviceptr)(uintptr_t)host + 100);
    unsigned type = 99;
    say("unknown", CU(cuPointerGetAttribute)(
                       &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                       (CUdeviceptr)(uintptr_t)&local));
    say("null", CU(cuPointerGetAttribute)(
                    &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0));
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED};
    int ordinal = 99;
    bool managed = 1;
    void *outs[] = {&type, &ordinal, &managed};
    say("batch", CU(cuPointerGetAttributes)(3, names, outs, at));
    say("batch_values", (long long)type * 1000 + (ordinal + 10) * 10 + managed);
    say("batch_unknown", CU(cuPointerGetAttributes)(
                             3, names, outs, (CUdeviceptr)(uintptr_t)&local));
    ask("batch_unknown_values",
        (long long)type * 1000 + (ordinal + 10) * 10 + managed);
    int sync = 1;
    say("set_sync", CU(cuPointerSetAttribute)(
                        &sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    CUipcMemHandle ipc;
    ask("ipc_of_pooled", CU(cuIpcGetMemHandle)(&ipc, pooled));
    CU(cuMemFreeHost)(host);
    CU(cuMemFree_v2)(at);
    CU(cuMemFreeAsync)(pooled, NULL);
}

/* In a process of its own: work on memory that is reserved only, or mapped
 * without access, or that goes past the end of what is accessible. */
void
fault_run(const char *name)
{
    CUmemAllocationProp prop;
    CUmemAccessDesc access;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0, good = 0;
    size_t bytes = 0, length = 4096;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    memset(&access, 0, sizeof access);
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    begin("fault");
    CU(cuMemGetAllocationGranularity)(&bytes, &prop,
                                      CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    need("alloc", CU(cuMemAlloc_v2)(&good, 2 * bytes));
    need("reserve", CU(cuMemAddressReserve)(&at, 2 * bytes, 0, 0, 0));
    need("create", CU(cuMemCreate)(&handle, bytes, &prop, 0));
    if (strncmp(name, "reserved", 8) != 0)
        need("map", CU(cuMemMap)(at, bytes, 0, handle, 0));
    if (strncmp(name, "past", 4) == 0) {
        need("access", CU(cuMemSetAccess)(at, bytes, &access, 1));
        length = 2 * bytes;
    }
    if (strstr(name, "copy"))
        ask(name, CU(cuMemcpyDtoDAsync_v2)(at, good, length, NULL));
    else
        ask(name, CU(cuMemsetD8Async)(at, 1, length, NULL));
    ask("synchronize", CU(cuCtxSynchronize)());
    ask("sticky_alloc", CU(cuMemAlloc_v2)(&good, 4096));
    ask("sticky_query", CU(cuStreamQuery)(NULL));
}
