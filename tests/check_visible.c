/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies that stand for the driver's: what the heap serves and what stays
 * the driver's, and what the program can see of its memory. */
#include "config.h"

#include "src/log.h"

#include "intercept/heap.h"

#include "tests/fake_ask.h"

#include <check.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* A call as the hooks make it. */
#define OWN(symbol, ...)                                                       \
    dcp_own_##symbol(&plain, &(struct dcp_args_##symbol){ __VA_ARGS__ })

static const struct dcp_hook_info plain = { .symbol = "plain" };
static const struct dcp_hook_info ptds = { .symbol = "ptds", .ptds = 1 };

static void
setup(void)
{
    struct dcp_heap_options options = { .spill = true };

    fake_start(2 * MIB, GIB);
    fake_ask_start();
    dcp_heap_configure(&options);
    OWN(cuDeviceSetMemPool, 0, FAKE_POOL);
}

static void
teardown(void)
{
    atomic_store(&dcp_heap_captures, 0);
    dcp_heap_reset();
    dcp_heap_reset_peak();
    ck_assert_int_eq(fake.handles, 0);
    ck_assert_int_eq(fake.events, 0);
    ck_assert_int_eq(fake.broken, 0);
    ck_assert_int_eq(fake_ask.retained, 1);
}

static CUdeviceptr
get_async(size_t bytes, int stream)
{
    CUdeviceptr base = 0;

    ck_assert_int_eq(OWN(cuMemAllocAsync, &base, bytes, fake_stream(stream)),
                     CUDA_SUCCESS);
    return base;
}

START_TEST(served)
{
    CUdeviceptr base;
    size_t pitch;

    ck_assert_int_eq(OWN(cuMemAlloc_v2, &base, 1000), CUDA_SUCCESS);
    ck_assert(dcp_heap_owns(base));
    ck_assert_int_eq(OWN(cuMemFree_v2, base), CUDA_SUCCESS);
    ck_assert_int_eq(OWN(cuMemAllocPitch_v2, &base, &pitch, 1000, 7, 4),
                     CUDA_SUCCESS);
    ck_assert_uint_eq(pitch, 1024);
    ck_assert(dcp_heap_owns(base));
    ck_assert_int_eq(OWN(cuMemFreeAsync, base, fake_stream(1)), CUDA_SUCCESS);
    base = get_async(5000, 1);
    ck_assert(dcp_heap_owns(base));
    ck_assert_int_eq(OWN(cuMemFree_v2, base), CUDA_SUCCESS);
    ck_assert_int_eq(OWN(cuMemAllocFromPoolAsync, &base, 5000, FAKE_POOL,
                         fake_stream(2)), CUDA_SUCCESS);
    ck_assert(dcp_heap_owns(base));
    ck_assert_int_eq(OWN(cuMemFreeAsync, base, fake_stream(2)), CUDA_SUCCESS);
    ck_assert_int_eq(OWN(cuMemFreeAsync, base, fake_stream(2)),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(fake_ask.asked, 0);
}
END_TEST

/* NULL means another stream in the two forms of a call. */
START_TEST(null_streams)
{
    struct dcp_args_cuMemAllocAsync args = { NULL, 4096, NULL };
    CUdeviceptr legacy, own;

    args.dptr = &legacy;
    ck_assert_int_eq(dcp_own_cuMemAllocAsync(&plain, &args), CUDA_SUCCESS);
    fake.issued[0] = 1; /* and not yet over */
    OWN(cuMemFreeAsync, legacy, NULL);
    args.dptr = &own;
    ck_assert_int_eq(dcp_own_cuMemAllocAsync(&ptds, &args), CUDA_SUCCESS);
    ck_assert_uint_ne(own, legacy);
    args.bytesize = 0;
    ck_assert_int_eq(dcp_own_cuMemAllocAsync(&ptds, &args),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_ptr_eq(fake_ask.stream, CU_STREAM_PER_THREAD);
    args.dptr = &legacy;
    args.bytesize = 4096;
    ck_assert_int_eq(dcp_own_cuMemAllocAsync(&plain, &args), CUDA_SUCCESS);
}
END_TEST

START_TEST(the_drivers_errors)
{
    CUdeviceptr base;
    size_t pitch;

    get_async(100, 1);
    ck_assert_int_eq(OWN(cuMemAlloc_v2, NULL, 100), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(OWN(cuMemAlloc_v2, &base, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(OWN(cuMemAllocAsync, NULL, 9, fake_stream(1)),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(OWN(cuMemAllocFromPoolAsync, &base, 9, NULL,
                         fake_stream(1)), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(OWN(cuMemAllocPitch_v2, &base, &pitch, 9, 9, 3),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(OWN(cuMemAllocPitch_v2, &base, &pitch, SIZE_MAX / 2, 9, 4),
                     CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(OWN(cuMemFree_v2, 0), CUDA_SUCCESS);
    ck_assert_int_eq(OWN(cuMemFree_v2, 4711), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(fake_ask.freed, 4711);
    ck_assert_int_eq(OWN(cuMemFreeAsync, 0, fake_stream(1)), CUDA_SUCCESS);
    ck_assert_int_eq(OWN(cuMemFreeAsync, 4712, fake_stream(1)),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(fake_ask.freed, 4712);
    ck_assert_ptr_eq(fake_ask.stream, fake_stream(1));
}
END_TEST

START_TEST(other_contexts)
{
    CUdeviceptr base;

    fake_ask.current = FAKE_OTHER;
    ck_assert_uint_eq(get_async(100, 1), FAKE_ADDRESS);
    fake_ask.current = NULL;
    ck_assert_uint_eq(get_async(100, 1), FAKE_ADDRESS);
    fake_ask.current = FAKE_PRIMARY;
    ck_assert(dcp_heap_owns(get_async(100, 1)));
    fake_ask.current = FAKE_OTHER;
    ck_assert_int_eq(OWN(cuMemAlloc_v2, &base, 100), CUDA_SUCCESS);
    ck_assert_uint_eq(base, FAKE_ADDRESS);
    ck_assert_int_eq(OWN(cuMemFree_v2, base), CUDA_SUCCESS);
    ck_assert_uint_eq(fake_ask.freed, FAKE_ADDRESS);
}
END_TEST

/* The primary context is not made only to see whether it is current. */
START_TEST(inactive_primary)
{
    fake_ask.retained = 0;
    fake_ask.current = FAKE_OTHER;
    ck_assert_uint_eq(get_async(100, 1), FAKE_ADDRESS);
    ck_assert_int_eq(fake_ask.retained, 0);
    fake_ask.retained = 1;
}
END_TEST

START_TEST(capturing_streams)
{
    CUdeviceptr base = get_async(100, 1);

    atomic_store(&dcp_heap_captures, 1);
    fake_ask.capturing[1] = true;
    ck_assert_uint_eq(get_async(100, 1), FAKE_ADDRESS);
    ck_assert(dcp_heap_owns(get_async(100, 2)));
    /* The legacy stream cannot be asked then: the driver says why. */
    ck_assert_uint_eq(get_async(100, 0), FAKE_ADDRESS);
    ck_assert_int_eq(OWN(cuMemFreeAsync, base, fake_stream(1)),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(OWN(cuMemFreeAsync, base, fake_stream(2)), CUDA_SUCCESS);
}
END_TEST

START_TEST(pools)
{
    CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED };
    CUmemoryPool mine, shared, old;
    CUdeviceptr a, b;
    CUmemoryPool asked = NULL;
    cuuint64_t value = 0;

    get_async(100, 1);
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    ck_assert_int_eq(OWN(cuMemPoolCreate, &mine, &props), CUDA_SUCCESS);
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    ck_assert_int_eq(OWN(cuMemPoolCreate, &shared, &props), CUDA_SUCCESS);
    OWN(cuMemAllocFromPoolAsync, &a, 10 * MIB, mine, fake_stream(1));
    ck_assert(dcp_heap_owns(a));
    OWN(cuMemAllocFromPoolAsync, &b, 10 * MIB, shared, fake_stream(1));
    ck_assert_uint_eq(b, FAKE_ADDRESS);
    OWN(cuPointerGetAttribute, &asked, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a);
    ck_assert_ptr_eq(asked, mine);

    OWN(cuMemPoolGetAttribute, mine, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value);
    ck_assert_uint_eq(value, FAKE_ANSWER + 10 * MIB);
    OWN(cuMemPoolGetAttribute, FAKE_POOL, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
        &value);
    ck_assert_uint_eq(value, FAKE_ANSWER + 512);
    OWN(cuMemPoolGetAttribute, shared, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
        &value);
    ck_assert_uint_eq(value, FAKE_ANSWER);
    OWN(cuMemPoolGetAttribute, mine, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
        &value);
    ck_assert_uint_eq(value, FAKE_ANSWER + fake.device_held);
    OWN(cuMemFreeAsync, a, fake_stream(1));
    OWN(cuMemPoolGetAttribute, mine, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value);
    ck_assert_uint_eq(value, FAKE_ANSWER + 10 * MIB);
    value = 1;
    ck_assert_int_eq(OWN(cuMemPoolSetAttribute, mine,
                         CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value),
                     CUDA_ERROR_INVALID_VALUE);
    value = 0;
    OWN(cuMemPoolSetAttribute, mine, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value);
    OWN(cuMemPoolGetAttribute, mine, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value);
    ck_assert_uint_eq(value, FAKE_ANSWER);
    OWN(cuMemPoolGetAttribute, mine, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
    ck_assert_uint_eq(value, FAKE_ANSWER);
    ck_assert_int_eq(OWN(cuMemPoolGetAttribute, mine,
                         CU_MEMPOOL_ATTR_USED_MEM_HIGH, NULL),
                     CUDA_ERROR_INVALID_VALUE);

    /* The current pool decides about allocations that name none. */
    OWN(cuDeviceSetMemPool, 0, shared);
    ck_assert_uint_eq(get_async(100, 1), FAKE_ADDRESS);
    OWN(cuDeviceSetMemPool, 0, mine);
    a = get_async(100, 1);
    OWN(cuPointerGetAttribute, &asked, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a);
    ck_assert_ptr_eq(asked, mine);
    old = mine;
    OWN(cuMemPoolDestroy, mine);
    OWN(cuMemAllocFromPoolAsync, &b, 100, old, fake_stream(1));
    ck_assert_uint_eq(b, FAKE_ADDRESS);
    a = get_async(100, 1);
    OWN(cuPointerGetAttribute, &asked, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a);
    ck_assert_ptr_eq(asked, FAKE_POOL);
}
END_TEST

/* More pools than can be told apart: the driver's, and none is lost. */
START_TEST(many_pools)
{
    CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED };
    CUmemoryPool pool;
    CUdeviceptr base;
    int ours = 0;

    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    for (int i = 0; i < 40; i++) {
        OWN(cuMemPoolCreate, &pool, &props);
        OWN(cuMemAllocFromPoolAsync, &base, 100, pool, fake_stream(1));
        ours += dcp_heap_owns(base);
        if (i < 30)
            OWN(cuMemPoolDestroy, pool);
        OWN(cuMemFreeAsync, base, fake_stream(1));
    }
    ck_assert_int_eq(ours, 40);
}
END_TEST

START_TEST(trim)
{
    CUdeviceptr base = get_async(40 * MIB, 1);

    OWN(cuMemFreeAsync, base, fake_stream(1));
    ck_assert_uint_eq(fake.device_held, 40 * MIB);
    ck_assert_int_eq(OWN(cuMemPoolTrimTo, FAKE_POOL, 0), CUDA_SUCCESS);
    ck_assert_uint_eq(fake.device_held, 0);
    ck_assert_uint_eq(fake_ask.trimmed, 1);
    ck_assert_int_eq(fake.syncs, 1);
}
END_TEST

START_TEST(free_and_total)
{
    struct dcp_heap_options options = { .budget = 256 * MIB };
    size_t left, total;
    CUdeviceptr base;

    ck_assert_int_eq(OWN(cuMemGetInfo_v2, &left, &total), CUDA_SUCCESS);
    ck_assert_uint_eq(left, GIB);
    ck_assert_uint_eq(total, GIB);
    base = get_async(40 * MIB, 1);
    OWN(cuMemGetInfo_v2, &left, NULL);
    ck_assert_uint_eq(left, GIB - 40 * MIB);
    OWN(cuMemFreeAsync, base, fake_stream(1));
    OWN(cuMemGetInfo_v2, &left, NULL);
    ck_assert_uint_eq(left, GIB);
    dcp_heap_configure(&options);
    base = get_async(100 * MIB, 1);
    OWN(cuMemGetInfo_v2, &left, &total);
    ck_assert_uint_eq(total, 256 * MIB);
    ck_assert_uint_eq(left, 156 * MIB);
    /* Somebody else took the device's memory. */
    fake.device_held += 800 * MIB;
    OWN(cuMemGetInfo_v2, &left, &total);
    ck_assert_uint_eq(left, GIB - 900 * MIB);
    fake.device_held -= 800 * MIB;
    OWN(cuMemGetInfo_v2, NULL, &total);
    ck_assert_uint_eq(total, 256 * MIB);
}
END_TEST

START_TEST(pointer_questions)
{
    CUdeviceptr base = get_async(5000, 1), sync, found;
    unsigned type = 0;
    unsigned long long id = 0, other = 0;
    int ordinal = 7, mapped = 0;
    unsigned allowed = 9;
    size_t bytes = 0;
    void *host;
    CUcontext context = NULL;

    ck_assert_int_eq(OWN(cuMemGetAddressRange_v2, &found, &bytes, base + 4999),
                     CUDA_SUCCESS);
    ck_assert_uint_eq(found, base);
    ck_assert_uint_eq(bytes, 5000);
    ck_assert_int_eq(OWN(cuMemGetAddressRange_v2, NULL, NULL, base),
                     CUDA_SUCCESS);
    ck_assert_int_eq(OWN(cuMemGetAddressRange_v2, &found, &bytes, base + MIB),
                     CUDA_ERROR_NOT_FOUND);
    OWN(cuMemGetAddressRange_v2, &found, &bytes, 5);
    ck_assert_uint_eq(found, FAKE_ADDRESS);

    OWN(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base);
    ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
    OWN(cuPointerGetAttribute, &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        base);
    ck_assert_int_eq(ordinal, 0);
    OWN(cuPointerGetAttribute, &found, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        base + 8);
    ck_assert_uint_eq(found, base + 8);
    OWN(cuPointerGetAttribute, &found, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        base + 8);
    ck_assert_uint_eq(found, base);
    OWN(cuPointerGetAttribute, &bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, base);
    ck_assert_uint_eq(bytes, 5000);
    ck_assert_int_eq(OWN(cuPointerGetAttribute, &host,
                         CU_POINTER_ATTRIBUTE_HOST_POINTER, base),
                     CUDA_ERROR_INVALID_VALUE);
    OWN(cuPointerGetAttribute, &mapped, CU_POINTER_ATTRIBUTE_MAPPED, base);
    ck_assert_int_eq(mapped, FAKE_ANSWER);
    OWN(cuPointerGetAttribute, &allowed,
        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, base);
    ck_assert_uint_eq(allowed, 0);
    ck_assert_int_eq(OWN(cuPointerGetAttribute, NULL,
                         CU_POINTER_ATTRIBUTE_MAPPED, base),
                     CUDA_ERROR_INVALID_VALUE);
    OWN(cuPointerGetAttribute, &id, CU_POINTER_ATTRIBUTE_BUFFER_ID, base);
    OWN(cuMemFreeAsync, base, fake_stream(1));
    ck_assert_int_eq(OWN(cuPointerGetAttribute, &type,
                         CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(get_async(5000, 1), base);
    OWN(cuPointerGetAttribute, &other, CU_POINTER_ATTRIBUTE_BUFFER_ID, base);
    ck_assert_uint_ne(id, other);
    OWN(cuMemAlloc_v2, &sync, 100);
    OWN(cuPointerGetAttribute, &context, CU_POINTER_ATTRIBUTE_CONTEXT, sync);
    ck_assert_ptr_eq(context, FAKE_PRIMARY);
    OWN(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 5);
    ck_assert_uint_eq(type, FAKE_ANSWER);
}
END_TEST

START_TEST(many_attributes)
{
    CUdeviceptr base = get_async(5000, 1), start = 0;
    int mapped = 0, managed = 0;
    unsigned type = 0;
    void *host = &host;
    CUpointer_attribute which[5] = {
        CU_POINTER_ATTRIBUTE_MAPPED, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
    };
    void *data[5] = { &mapped, &type, &start, &host, &managed };

    ck_assert_int_eq(OWN(cuPointerGetAttributes, 5, which, data, base + 1),
                     CUDA_SUCCESS);
    ck_assert_int_eq(mapped, FAKE_ANSWER);
    ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
    ck_assert_uint_eq(start, base);
    ck_assert_ptr_null(host);
    ck_assert_int_eq(managed, FAKE_ANSWER);
    type = 0;
    OWN(cuPointerGetAttributes, 5, which, data, 5);
    ck_assert_uint_eq(type, FAKE_ANSWER);
}
END_TEST

START_TEST(handles)
{
    CUdeviceptr base = get_async(5000, 1);
    CUmemGenericAllocationHandle handle = 0;
    CUipcMemHandle ipc;
    int fd = 0;

    ck_assert_int_eq(OWN(cuIpcGetMemHandle, &ipc, base),
                     CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(OWN(cuIpcGetMemHandle, &ipc, FAKE_ADDRESS), CUDA_SUCCESS);
    ck_assert_int_eq(OWN(cuMemRetainAllocationHandle, &handle,
                         (void *)(uintptr_t)base), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(OWN(cuMemRetainAllocationHandle, &handle, (void *)8),
                     CUDA_SUCCESS);
    ck_assert_int_eq(OWN(cuMemGetHandleForAddressRange, &fd, base, 5000,
                         CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
                     CUDA_SUCCESS);
    ck_assert_int_eq(OWN(cuMemGetHandleForAddressRange, &fd, base + 1, 5000,
                         CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
                     CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(context_reset)
{
    CUdeviceptr base = get_async(5000, 1);

    ck_assert(dcp_heap_owns(base));
    ck_assert_int_eq(OWN(cuDevicePrimaryCtxReset_v2, 0), CUDA_SUCCESS);
    ck_assert(!dcp_heap_owns(base));
    ck_assert_int_eq(fake.handles, 0);
    ck_assert_int_eq(fake.syncs, 1);
    ck_assert(dcp_heap_owns(get_async(5000, 1)));
}
END_TEST

START_TEST(stream_destroyed)
{
    CUdeviceptr base = get_async(24 * MIB, 1);

    fake.issued[1] = 1;
    OWN(cuMemFreeAsync, base, fake_stream(1));
    ck_assert_int_eq(OWN(cuStreamDestroy_v2, fake_stream(1)), CUDA_SUCCESS);
    ck_assert_ptr_eq(fake_ask.stream, fake_stream(1));
    ck_assert_uint_ne(get_async(24 * MIB, 1), base);
}
END_TEST

/* Without virtual memory management everything stays the driver's. */
START_TEST(no_virtual_memory)
{
    CUdeviceptr base;
    size_t left, total;

    fake.no_vmm = true;
    ck_assert_uint_eq(get_async(100, 1), FAKE_ADDRESS);
    ck_assert_int_eq(OWN(cuMemAlloc_v2, &base, 100), CUDA_SUCCESS);
    ck_assert_uint_eq(base, FAKE_ADDRESS);
    ck_assert_int_eq(OWN(cuMemFree_v2, base), CUDA_SUCCESS);
    ck_assert_int_eq(OWN(cuMemGetInfo_v2, &left, &total), CUDA_SUCCESS);
    ck_assert_uint_eq(left, GIB);
}
END_TEST

static Suite *
visible_suite(void)
{
    Suite *suite = suite_create("visible");
    TCase *tcase = tcase_create("bodies");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, served);
    tcase_add_test(tcase, null_streams);
    tcase_add_test(tcase, the_drivers_errors);
    tcase_add_test(tcase, other_contexts);
    tcase_add_test(tcase, inactive_primary);
    tcase_add_test(tcase, capturing_streams);
    tcase_add_test(tcase, pools);
    tcase_add_test(tcase, many_pools);
    tcase_add_test(tcase, trim);
    tcase_add_test(tcase, free_and_total);
    tcase_add_test(tcase, pointer_questions);
    tcase_add_test(tcase, many_attributes);
    tcase_add_test(tcase, handles);
    tcase_add_test(tcase, context_reset);
    tcase_add_test(tcase, stream_destroyed);
    tcase_add_test(tcase, no_virtual_memory);
    suite_add_tcase(suite, tcase);
    return suite;
}

int
main(void)
{
    dcp_log_threshold = DCP_LOG_ERROR;
    SRunner *runner = srunner_create(visible_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
