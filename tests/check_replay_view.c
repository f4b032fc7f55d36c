/* SPDX-License-Identifier: Apache-2.0 */
/* How a call becomes a view, for each that has a place in an iteration. */
#include "config.h"

#include "tests/check_replay.h"

#include "intercept/heap.h"

#include <string.h>

#define STREAM fake_stream(1)
#define DEV DEVICE(4)

static bool
view_of(struct dcp_view *view, enum dcp_hook_id id, void *args)
{
    memset(view, 0xee, sizeof *view);
    return dcp_view_fill(view, &dcp_hook_info[id], args);
}

#define VIEW(symbol, ...)                                                      \
    view_of(&view, DCP_HOOK_##symbol,                                          \
            &(struct dcp_args_##symbol){__VA_ARGS__})

static void
check_view(const struct dcp_view *view, enum dcp_call_op op,
           enum dcp_fold fold, bool sync, CUstream stream)
{
    ck_assert_int_eq(view->op, op);
    ck_assert_int_eq(view->fold, fold);
    ck_assert_int_eq(view->sync, sync);
    ck_assert_uint_eq(view->stream, (uint64_t)stream);
}

static void
check_copy(const struct dcp_view *view, enum dcp_fold fold, bool sync,
           CUstream stream, enum dcp_place from, enum dcp_place to)
{
    check_view(view, DCP_CALL_COPY, fold, sync, stream);
    ck_assert_uint_eq(view->copy.bytes, 64);
    ck_assert_int_eq(view->copy.src_place, from);
    ck_assert_int_eq(view->copy.dst_place, to);
}

START_TEST(views_of_launches)
{
    struct dcp_view view;
    void *params[1] = {&view}, *extra[1] = {CU_LAUNCH_PARAM_END};
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
    CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 2, .gridDimZ = 3,
                             .blockDimX = 4, .blockDimY = 5, .blockDimZ = 6,
                             .sharedMemBytes = 7, .hStream = STREAM,
                             .attrs = &attr, .numAttrs = 1};
    CUfunction f = (CUfunction)&kernel_a;

    replay_start();
    for (unsigned form = 0; form < 3; form++) {
        bool some = form == 0   ? VIEW(cuLaunchKernel, f, 1, 2, 3, 4, 5, 6, 7,
                                       STREAM, params, extra)
                    : form == 1 ? VIEW(cuLaunchKernelEx, &config, f, params,
                                       extra)
                                : VIEW(cuLaunchCooperativeKernel, f, 1, 2, 3,
                                       4, 5, 6, 7, STREAM, params);
        ck_assert(some);
        check_view(&view, DCP_CALL_LAUNCH, DCP_FOLD_NODE, false, STREAM);
        ck_assert_ptr_eq(view.launch.handle, f);
        for (unsigned i = 0; i < 3; i++) {
            ck_assert_uint_eq(view.launch.grid[i], 1 + i);
            ck_assert_uint_eq(view.launch.block[i], 4 + i);
        }
        ck_assert_uint_eq(view.launch.shared, 7);
        ck_assert_ptr_eq(view.launch.params, params);
        ck_assert_ptr_eq(view.launch.extra, form == 2 ? NULL : extra);
        ck_assert_uint_eq(view.launch.attr_count, form == 1);
    }
    /* The driver's to refuse. */
    ck_assert(VIEW(cuLaunchKernelEx, NULL, f, params, extra));
    ck_assert_int_eq(view.op, DCP_CALL_OPAQUE);
    ck_assert_int_eq(view.fold, DCP_FOLD_EAGER);
    /* The default streams. */
    VIEW(cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    ck_assert_uint_eq(view.stream, (uint64_t)CU_STREAM_LEGACY);
    struct dcp_args_cuLaunchKernel args = {.f = f};
    dcp_view_fill(&view, &dcp_hook_info[DCP_HOOK_cuLaunchKernel_ptsz], &args);
    ck_assert_uint_eq(view.stream, (uint64_t)CU_STREAM_PER_THREAD);
    ck_assert_int_eq(view.hook, DCP_HOOK_cuLaunchKernel);
}
END_TEST

START_TEST(views_of_async_copies)
{
    struct dcp_view view;
    char plain[64];

    replay_start();
    char *pin = pinned(64);
    VIEW(cuMemcpyHtoDAsync_v2, DEV, plain, 64, STREAM);
    check_copy(&view, DCP_FOLD_NODE, false, STREAM, DCP_PLACE_PAGEABLE,
               DCP_PLACE_DEVICE);
    /* A graph would keep what the program may free. */
    VIEW(cuMemcpyHtoDAsync_v2, DEV, pin, 64, STREAM);
    check_copy(&view, DCP_FOLD_EAGER, false, STREAM, DCP_PLACE_PINNED,
               DCP_PLACE_DEVICE);
    VIEW(cuMemcpyDtoHAsync_v2, pin, DEV, 64, STREAM);
    check_copy(&view, DCP_FOLD_EAGER, false, STREAM, DCP_PLACE_DEVICE,
               DCP_PLACE_PINNED);
    /* Complete on return: the host looks. */
    VIEW(cuMemcpyDtoHAsync_v2, plain, DEV, 64, STREAM);
    check_copy(&view, DCP_FOLD_WAIT, false, STREAM, DCP_PLACE_DEVICE,
               DCP_PLACE_PAGEABLE);
    VIEW(cuMemcpyDtoDAsync_v2, DEV, DEVICE(5), 64, STREAM);
    check_copy(&view, DCP_FOLD_NODE, false, STREAM, DCP_PLACE_DEVICE,
               DCP_PLACE_DEVICE);
    ck_assert_uint_eq(view.copy.dst, DEV);
    ck_assert_uint_eq(view.copy.src, DEVICE(5));
    struct {
        void *to, *from;
        enum dcp_place to_place, from_place;
        enum dcp_fold fold;
    } any[] = {
        {(void *)DEV, plain, DCP_PLACE_DEVICE, DCP_PLACE_PAGEABLE,
         DCP_FOLD_NODE},
        {(void *)DEV, (void *)DEVICE(9), DCP_PLACE_DEVICE, DCP_PLACE_DEVICE,
         DCP_FOLD_NODE},
        {(void *)DEV, pin, DCP_PLACE_DEVICE, DCP_PLACE_PINNED, DCP_FOLD_EAGER},
        {pin, (void *)DEV, DCP_PLACE_PINNED, DCP_PLACE_DEVICE, DCP_FOLD_EAGER},
        {pin, plain, DCP_PLACE_PINNED, DCP_PLACE_PAGEABLE, DCP_FOLD_WAIT},
        {plain, (void *)DEV, DCP_PLACE_PAGEABLE, DCP_PLACE_DEVICE,
         DCP_FOLD_WAIT},
    };
    for (unsigned i = 0; i < sizeof any / sizeof *any; i++) {
        VIEW(cuMemcpyAsync, (CUdeviceptr)any[i].to, (CUdeviceptr)any[i].from,
             64, STREAM);
        check_copy(&view, any[i].fold, false, STREAM, any[i].from_place,
                   any[i].to_place);
    }
}
END_TEST

START_TEST(views_of_waiting_copies)
{
    struct dcp_view view;
    char plain[64];
    CUstream legacy = CU_STREAM_LEGACY;

    replay_start();
    char *pin = pinned(64);
    VIEW(cuMemcpyHtoD_v2, DEV, plain, 64);
    check_copy(&view, DCP_FOLD_NODE, true, legacy, DCP_PLACE_PAGEABLE,
               DCP_PLACE_DEVICE);
    VIEW(cuMemcpyDtoH_v2, plain, DEV, 64);
    check_copy(&view, DCP_FOLD_WAIT, true, legacy, DCP_PLACE_DEVICE,
               DCP_PLACE_PAGEABLE);
    VIEW(cuMemcpyDtoD_v2, DEV, DEVICE(5), 64);
    check_copy(&view, DCP_FOLD_NODE, true, legacy, DCP_PLACE_DEVICE,
               DCP_PLACE_DEVICE);
    VIEW(cuMemcpy, (CUdeviceptr)pin, DEV, 64);
    check_copy(&view, DCP_FOLD_WAIT, true, legacy, DCP_PLACE_DEVICE,
               DCP_PLACE_PINNED);
    VIEW(cuMemcpy, DEV, (CUdeviceptr)pin, 64);
    check_copy(&view, DCP_FOLD_NODE, true, legacy, DCP_PLACE_PINNED,
               DCP_PLACE_DEVICE);
}
END_TEST

static CUresult
refuse(void *out, CUpointer_attribute which, CUdeviceptr address)
{
    (void)out;
    (void)which;
    (void)address;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The driver fails to say where a pointer leads: issued as it comes. */
START_TEST(views_without_an_answer)
{
    struct dcp_view view;
    char plain[64];

    replay_start();
    dcp_real.cuPointerGetAttribute = refuse;
    VIEW(cuMemcpyHtoDAsync_v2, DEV, plain, 64, STREAM);
    check_view(&view, DCP_CALL_OPAQUE, DCP_FOLD_EAGER, false, STREAM);
    VIEW(cuMemcpyAsync, DEV, DEVICE(5), 64, STREAM);
    check_view(&view, DCP_CALL_OPAQUE, DCP_FOLD_EAGER, false, STREAM);
    VIEW(cuMemcpyDtoDAsync_v2, DEV, DEVICE(5), 64, STREAM);
    check_view(&view, DCP_CALL_COPY, DCP_FOLD_NODE, false, STREAM);
}
END_TEST

static void
check_fill(const struct dcp_view *view, CUstream stream, unsigned element)
{
    check_view(view, DCP_CALL_FILL, DCP_FOLD_NODE, false, stream);
    ck_assert_uint_eq(view->fill.dst, DEV);
    ck_assert_uint_eq(view->fill.value, 7);
    ck_assert_uint_eq(view->fill.width, 64);
    ck_assert_uint_eq(view->fill.height, 1);
    ck_assert_uint_eq(view->fill.element, element);
}

START_TEST(views_of_fills)
{
    struct dcp_view view;

    replay_start();
    VIEW(cuMemsetD8Async, DEV, 7, 64, STREAM);
    check_fill(&view, STREAM, 1);
    VIEW(cuMemsetD16Async, DEV, 7, 64, STREAM);
    check_fill(&view, STREAM, 2);
    VIEW(cuMemsetD32Async, DEV, 7, 64, STREAM);
    check_fill(&view, STREAM, 4);
    VIEW(cuMemsetD8_v2, DEV, 7, 64);
    check_fill(&view, CU_STREAM_LEGACY, 1);
    VIEW(cuMemsetD16_v2, DEV, 7, 64);
    check_fill(&view, CU_STREAM_LEGACY, 2);
    VIEW(cuMemsetD32_v2, DEV, 7, 64);
    check_fill(&view, CU_STREAM_LEGACY, 4);
    /* Rows of bytes are issued as they come. */
    VIEW(cuMemsetD2D8Async, DEV, 128, 7, 64, 2, STREAM);
    ck_assert_int_eq(view.op, DCP_CALL_OPAQUE);
    ck_assert_int_eq(view.fold, DCP_FOLD_EAGER);
}
END_TEST

START_TEST(views_of_memory)
{
    struct dcp_view view;
    CUdeviceptr out, block;

    replay_start();
    ck_assert_int_eq(dcp_heap_alloc(512, STREAM, false, &block), CUDA_SUCCESS);
    VIEW(cuMemAllocAsync, &out, 100, STREAM);
    check_view(&view, DCP_CALL_ALLOC, DCP_FOLD_MEM, false, STREAM);
    ck_assert_uint_eq(view.memory.bytes, 100);
    ck_assert_ptr_eq(view.memory.out, &out);
    VIEW(cuMemAllocFromPoolAsync, &out, 200, (CUmemoryPool)&out, STREAM);
    check_view(&view, DCP_CALL_ALLOC, DCP_FOLD_MEM, false, STREAM);
    ck_assert_uint_eq(view.memory.bytes, 200);
    VIEW(cuMemAlloc_v2, &out, 300);
    check_view(&view, DCP_CALL_ALLOC, DCP_FOLD_MEM, true, NULL);
    ck_assert_uint_eq(view.memory.bytes, 300);
    VIEW(cuMemFreeAsync, block, STREAM);
    check_view(&view, DCP_CALL_FREE, DCP_FOLD_MEM, false, STREAM);
    ck_assert_uint_eq(view.memory.address, block);
    /* The driver's own memory: its free is work for the driver. */
    VIEW(cuMemFreeAsync, DEV, STREAM);
    check_view(&view, DCP_CALL_FREE, DCP_FOLD_EAGER, false, STREAM);
    VIEW(cuMemFree_v2, block);
    check_view(&view, DCP_CALL_FREE, DCP_FOLD_EAGER, true, NULL);
    /* Other ways to get memory have no place in an iteration. */
    ck_assert(!VIEW(cuMemHostAlloc, (void **)&out, 8, 0));
    ck_assert(!VIEW(cuMemFreeHost, &out));
    ck_assert(!VIEW(cuMemAllocPitch_v2, &out, (size_t *)&out, 8, 8, 4));
}
END_TEST

START_TEST(views_of_order)
{
    struct dcp_view view;
    CUevent event = (CUevent)(uintptr_t)0x99;

    replay_start();
    VIEW(cuEventRecord, event, STREAM);
    check_view(&view, DCP_CALL_RECORD, DCP_FOLD_EAGER, false, STREAM);
    ck_assert_uint_eq(view.event.event, 0x99);
    ck_assert_uint_eq(view.event.flags, 0);
    VIEW(cuEventRecordWithFlags, event, STREAM, 1);
    check_view(&view, DCP_CALL_RECORD, DCP_FOLD_EAGER, false, STREAM);
    ck_assert_uint_eq(view.event.flags, 1);
    VIEW(cuStreamWaitEvent, STREAM, event, 1);
    check_view(&view, DCP_CALL_DEPEND, DCP_FOLD_EAGER, false, STREAM);
    ck_assert_uint_eq(view.event.event, 0x99);
    ck_assert_uint_eq(view.event.flags, 1);
    VIEW(cuStreamSynchronize, STREAM);
    check_view(&view, DCP_CALL_WAIT, DCP_FOLD_WAIT, false, STREAM);
    VIEW(cuEventSynchronize, event);
    ck_assert_int_eq(view.op, DCP_CALL_WAIT);
    ck_assert_int_eq(view.fold, DCP_FOLD_WAIT);
    ck_assert(view_of(&view, DCP_HOOK_cuCtxSynchronize, NULL));
    ck_assert_int_eq(view.fold, DCP_FOLD_WAIT);
    VIEW(cuGraphLaunch, (CUgraphExec)event, STREAM);
    ck_assert_int_eq(view.op, DCP_CALL_OPAQUE);
    ck_assert_int_eq(view.fold, DCP_FOLD_EAGER);
    VIEW(cuLaunchHostFunc, STREAM, NULL, NULL);
    ck_assert_int_eq(view.fold, DCP_FOLD_EAGER);
    /* Questions are no part of it. */
    ck_assert(!VIEW(cuEventQuery, event));
    ck_assert(!VIEW(cuStreamQuery, STREAM));
    ck_assert_int_eq(view.fold, DCP_FOLD_NONE);
}
END_TEST

/* Each row says something about itself; none runs into another's case. */
START_TEST(views_of_all_rows)
{
    static uint64_t zeros[64];
    struct dcp_view view;

    replay_start();
    for (unsigned id = 0; id < DCP_HOOK_COUNT; id++) {
        if (dcp_hook_info[id].kind == DCP_HOOK_DOOR)
            continue;
        bool some = view_of(&view, (enum dcp_hook_id)id, zeros);
        ck_assert_uint_eq(view.hook, dcp_hook_info[id].canon);
        ck_assert_msg(some == (view.fold != DCP_FOLD_NONE), "%s",
                      dcp_hook_info[id].symbol);
        if (some)
            ck_assert_msg(view.op <= DCP_CALL_OPAQUE &&
                              view.fold <= DCP_FOLD_WAIT,
                          "%s", dcp_hook_info[id].symbol);
    }
}
END_TEST

void
add_view(Suite *s)
{
    TCase *t = tcase_create("view");

    tcase_add_test(t, views_of_launches);
    tcase_add_test(t, views_of_async_copies);
    tcase_add_test(t, views_of_waiting_copies);
    tcase_add_test(t, views_without_an_answer);
    tcase_add_test(t, views_of_fills);
    tcase_add_test(t, views_of_memory);
    tcase_add_test(t, views_of_order);
    tcase_add_test(t, views_of_all_rows);
    suite_add_tcase(s, t);
}
